//! What is known of an object without parsing it: loose in a draft, packed in a stored version.

use std::fmt;

use bytes::Bytes;
use smol_str::SmolStr;

use crate::packed::{self, Malformed, Reader};

/// What a writer tells of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// `metadata.uid`.
    pub uid: SmolStr,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(SmolStr, SmolStr)]>,
    /// The kind's selectable fields besides name and namespace (`status.phase`, `spec.nodeName`…), sorted by path.
    pub fields: Box<[(SmolStr, SmolStr)]>,
    /// The uids of `metadata.ownerReferences`.
    pub owners: Box<[SmolStr]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl Head {
    /// Its bytes, as [`PackedHead`] reads them.
    pub fn pack(&self) -> Vec<u8> {
        // Destructured so that a new field cannot be forgotten.
        let Self {
            uid,
            labels,
            fields,
            owners,
            deleting,
        } = self;
        let mut out = Vec::with_capacity(128);
        packed::text(&mut out, uid);
        for pairs in [labels, fields] {
            packed::number(&mut out, pairs.len() as u64);
            for (key, value) in pairs {
                packed::text(&mut out, key);
                packed::text(&mut out, value);
            }
        }
        packed::number(&mut out, owners.len() as u64);
        for owner in owners {
            packed::text(&mut out, owner);
        }
        out.push(u8::from(*deleting));
        out
    }
}

/// What is known of a stored version. Its bytes lie in the same piece of memory as the version's JSON: most objects
/// are never asked for their head, so it should be small rather than quick to read.
#[derive(Clone)]
pub struct PackedHead {
    bytes: Bytes,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl PackedHead {
    /// How many bytes at the start of these are a head.
    ///
    /// # Errors
    /// [`Malformed`] if none is there.
    pub fn measure(bytes: &[u8]) -> Result<usize, Malformed> {
        let mut reader = Reader::new(bytes);
        reader.text()?;
        for _labels_then_fields in 0..2 {
            for _ in 0..reader.count()? {
                reader.text()?;
                reader.text()?;
            }
        }
        for _ in 0..reader.count()? {
            reader.text()?;
        }
        reader.byte()?;
        Ok(bytes.len() - reader.rest().len())
    }

    /// The head that these bytes are, from [`Head::pack`] or measured.
    pub fn new(bytes: Bytes) -> Self {
        debug_assert_eq!(Self::measure(&bytes), Ok(bytes.len()), "whole heads only");
        Self {
            deleting: bytes.last().is_some_and(|flag| *flag != 0),
            bytes,
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        Reader::new(&self.bytes).text().unwrap_or_default()
    }

    /// `metadata.labels`, sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        Pairs::of(self.behind_uid())
    }

    /// The kind's selectable fields, sorted by path.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        Pairs::of(Pairs::behind(self.behind_uid()))
    }

    /// The uids of `metadata.ownerReferences`.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        let mut reader = Pairs::behind(Pairs::behind(self.behind_uid()));
        let count = reader.count().unwrap_or_default();
        (0..count).map_while(move |_| reader.text().ok())
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels()
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value)
    }

    /// A selectable field's value.
    pub fn field(&self, path: &str) -> Option<&str> {
        self.fields()
            .find(|(found, _)| *found == path)
            .map(|(_, value)| value)
    }

    /// The same as a writer tells it.
    pub fn unpack(&self) -> Head {
        let pair = |(key, value): (&str, &str)| (SmolStr::new(key), SmolStr::new(value));
        Head {
            uid: SmolStr::new(self.uid()),
            labels: self.labels().map(pair).collect(),
            fields: self.fields().map(pair).collect(),
            owners: self.owners().map(SmolStr::new).collect(),
            deleting: self.deleting,
        }
    }

    fn behind_uid(&self) -> Reader<'_> {
        let mut reader = Reader::new(&self.bytes);
        // A head is whole: what cannot be read here could not be made.
        reader.text().ok();
        reader
    }
}

impl From<&Head> for PackedHead {
    fn from(head: &Head) -> Self {
        Self::new(Bytes::from(head.pack()))
    }
}

impl fmt::Debug for PackedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unpack().fmt(f)
    }
}

/// Texts in pairs, with their count in front.
struct Pairs<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'a> Pairs<'a> {
    fn of(mut reader: Reader<'a>) -> Self {
        let left = reader.count().unwrap_or_default();
        Self { reader, left }
    }

    /// Where the next thing begins.
    fn behind(reader: Reader<'a>) -> Reader<'a> {
        let mut pairs = Self::of(reader);
        while pairs.next().is_some() {}
        pairs.reader
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((self.reader.text().ok()?, self.reader.text().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Head {
        Head {
            uid: "u".into(),
            labels: [("a".into(), "b".into()), ("c".into(), "".into())].into(),
            fields: [("status.phase".into(), "Running".into())].into(),
            owners: ["o1".into(), "o2".into()].into(),
            deleting: true,
        }
    }

    #[test]
    fn heads_unpack_to_what_was_packed() {
        for head in [sample(), Head::default()] {
            assert_eq!(PackedHead::from(&head).unpack(), head);
        }
    }

    #[test]
    fn answers_without_being_unpacked() {
        let head = PackedHead::from(&sample());
        assert_eq!(head.uid(), "u");
        assert_eq!(
            (head.label("a"), head.label("c"), head.label("x")),
            (Some("b"), Some(""), None)
        );
        assert_eq!(
            (head.field("status.phase"), head.field("a")),
            (Some("Running"), None)
        );
        assert_eq!(head.owners().collect::<Vec<_>>(), ["o1", "o2"]);
    }

    #[test]
    fn a_head_is_measured_among_other_bytes_and_a_cut_one_is_malformed() {
        let mut bytes = sample().pack();
        let size = bytes.len();
        bytes.extend_from_slice(b"behind");
        assert_eq!(PackedHead::measure(&bytes), Ok(size));
        for cut in 0..size {
            assert_eq!(PackedHead::measure(&bytes[..cut]), Err(Malformed), "cut at {cut}");
        }
    }
}
