//! Records: one change or one object as bytes. Integers are LEB128, strings carry their length in front.
//!
//! It knows nothing of frames, checksums or files.

use bytes::Bytes;
use smol_str::SmolStr;
use source::{Forms, Head, Key, Object, Resource, Revision};

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// A record as read back.
#[derive(Debug)]
pub(crate) enum Record {
    /// This version was stored.
    Put(Object),
    /// The object was removed by the write of this revision.
    Delete(Key, Revision),
}

/// The bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends a stored version.
pub(crate) fn put(out: &mut Vec<u8>, object: &Object) {
    // Destructured so that a new field cannot be forgotten.
    let Object {
        key,
        revision,
        json,
        splice,
        head,
        forms: _,
    } = object;
    let Head {
        uid,
        labels,
        fields,
        owners,
        deleting,
    } = head;
    out.push(PUT);
    number(out, revision.0);
    put_key(out, key);
    text(out, uid);
    pairs(out, labels);
    pairs(out, fields);
    number(out, owners.len() as u64);
    for owner in owners {
        text(out, owner);
    }
    out.push(u8::from(*deleting));
    number(out, *splice as u64);
    number(out, json.len() as u64);
    out.extend_from_slice(json);
}

/// How many bytes [`put`] appends, at most a few more.
pub(crate) fn put_size(object: &Object) -> u64 {
    /// What the length of a text takes.
    const LENGTH: usize = 2;
    /// Revision, splice, the JSON's length, three counts and two single bytes.
    const NUMBERS: usize = 32;
    let Object {
        key,
        revision: _,
        json,
        splice: _,
        head,
        forms: _,
    } = object;
    let text = |text: &str| text.len() + LENGTH;
    let pair = |(key, value): &(SmolStr, SmolStr)| text(key) + text(value);
    let head = text(&head.uid)
        + head.labels.iter().chain(&head.fields).map(pair).sum::<usize>()
        + head.owners.iter().map(|owner| text(owner)).sum::<usize>();
    let key = text(key.resource.as_str()) + text(&key.namespace) + text(&key.name);
    (json.len() + head + key + NUMBERS) as u64
}

/// Appends a removal.
pub(crate) fn delete(out: &mut Vec<u8>, key: &Key, revision: Revision) {
    out.push(DELETE);
    number(out, revision.0);
    put_key(out, key);
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    text(out, key.resource.as_str());
    text(out, &key.namespace);
    text(out, &key.name);
}

fn pairs(out: &mut Vec<u8>, pairs: &[(SmolStr, SmolStr)]) {
    number(out, pairs.len() as u64);
    for (key, value) in pairs {
        text(out, key);
        text(out, value);
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends an integer.
pub(crate) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads what the functions above append.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether everything is read.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An integer.
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(Malformed);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.number()?).map_err(|_| Malformed)
    }

    fn slice(&mut self) -> Result<&'a [u8], Malformed> {
        let size = self.size()?;
        let (slice, rest) = self.0.split_at_checked(size).ok_or(Malformed)?;
        self.0 = rest;
        Ok(slice)
    }

    fn text(&mut self) -> Result<SmolStr, Malformed> {
        let text = std::str::from_utf8(self.slice()?).map_err(|_| Malformed)?;
        Ok(SmolStr::new(text))
    }

    /// How many things follow; never more than there are bytes, so that nobody allocates for a lie.
    fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.size()?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        Ok(count)
    }

    fn pairs(&mut self) -> Result<Box<[(SmolStr, SmolStr)]>, Malformed> {
        let count = self.count()?;
        (0..count).map(|_| Ok((self.text()?, self.text()?))).collect()
    }

    fn key(&mut self) -> Result<Key, Malformed> {
        let resource = Resource::from(self.text()?.as_str());
        Ok(Key {
            resource,
            namespace: self.text()?,
            name: self.text()?,
        })
    }

    /// One record.
    pub(crate) fn record(&mut self) -> Result<Record, Malformed> {
        let kind = self.byte()?;
        let revision = Revision(self.number()?);
        let key = self.key()?;
        match kind {
            DELETE => Ok(Record::Delete(key, revision)),
            PUT => self.object(key, revision).map(Record::Put),
            _ => Err(Malformed),
        }
    }

    fn object(&mut self, key: Key, revision: Revision) -> Result<Object, Malformed> {
        let uid = self.text()?;
        let labels = self.pairs()?;
        let fields = self.pairs()?;
        let owners = self.count()?;
        let owners = (0..owners).map(|_| self.text()).collect::<Result<_, _>>()?;
        let deleting = self.byte()? != 0;
        let splice = self.size()?;
        let json = Bytes::copy_from_slice(self.slice()?);
        if !has_digits(&json, splice, revision) {
            return Err(Malformed);
        }
        Ok(Object {
            key,
            revision,
            json,
            splice,
            head: Head {
                uid,
                labels,
                fields,
                owners,
                deleting,
            },
            forms: Forms::default(),
        })
    }
}

/// Whether the revision's digits stand at `splice`, closed by a quote.
fn has_digits(json: &[u8], splice: usize, revision: Revision) -> bool {
    let mut digits = [0; 20];
    let digits = format(revision, &mut digits);
    json.get(splice..)
        .and_then(|rest| rest.strip_prefix(digits))
        .is_some_and(|rest| rest.first() == Some(&b'"'))
}

/// The decimal digits of a revision, without allocating.
pub(crate) fn format(revision: Revision, buffer: &mut [u8; 20]) -> &[u8] {
    let mut value = revision.0;
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &buffer[start..];
        }
    }
}

/// `json` with the `old` bytes at `splice` replaced by the revision's digits.
pub(crate) fn splice(json: &[u8], splice: usize, old: usize, revision: Revision) -> Bytes {
    let mut digits = [0; 20];
    let digits = format(revision, &mut digits);
    let mut out = Vec::with_capacity(json.len() - old + digits.len());
    out.extend_from_slice(&json[..splice]);
    out.extend_from_slice(digits);
    out.extend_from_slice(&json[splice + old..]);
    Bytes::from(out)
}

/// How many decimal digits a revision has.
pub(crate) fn digits(revision: Revision) -> usize {
    format(revision, &mut [0; 20]).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Object {
        Object {
            key: Key::new(&Resource::new("apps", "deployments"), "default", "web"),
            revision: Revision(1_234),
            json: Bytes::from_static(br#"{"metadata":{"resourceVersion":"1234"}}"#),
            splice: 32,
            head: Head {
                uid: "u".into(),
                labels: [("a".into(), "b".into())].into(),
                fields: [("status.phase".into(), "Running".into())].into(),
                owners: ["o1".into(), "o2".into()].into(),
                deleting: true,
            },
            forms: Forms::default(),
        }
    }

    #[test]
    fn a_size_is_foretold_well() {
        let object = sample();
        let mut out = Vec::new();
        put(&mut out, &object);
        let (size, foretold) = (out.len() as u64, put_size(&object));
        assert!((size..size + 100).contains(&foretold), "{foretold} for {size}");
    }

    #[test]
    fn records_read_back() {
        let object = sample();
        let mut bytes = Vec::new();
        put(&mut bytes, &object);
        delete(&mut bytes, &object.key, Revision(u64::MAX));
        let mut reader = Reader::new(&bytes);
        match reader.record().unwrap() {
            Record::Put(read) => {
                assert_eq!(read.key, object.key);
                assert_eq!(read.revision, object.revision);
                assert_eq!(read.json, object.json);
                assert_eq!(read.splice, object.splice);
                assert_eq!(read.head, object.head);
            }
            Record::Delete(..) => panic!("a put was written"),
        }
        match reader.record().unwrap() {
            Record::Delete(key, revision) => {
                assert_eq!((key, revision), (object.key, Revision(u64::MAX)));
            }
            Record::Put(_) => panic!("a removal was written"),
        }
        assert!(reader.is_done());
    }

    #[test]
    fn a_cut_record_is_malformed_at_every_byte() {
        let mut bytes = Vec::new();
        put(&mut bytes, &sample());
        for cut in 0..bytes.len() {
            assert_eq!(
                Reader::new(&bytes[..cut]).record().map(|_| ()),
                Err(Malformed),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_revision_that_is_not_in_the_json_is_malformed() {
        let mut object = sample();
        object.revision = Revision(1_235);
        let mut bytes = Vec::new();
        put(&mut bytes, &object);
        assert!(Reader::new(&bytes).record().is_err());
    }

    #[test]
    fn splices_over_what_was_there() {
        let json = br#"{"v":"99"}"#;
        assert_eq!(splice(json, 6, 2, Revision(100))[..], br#"{"v":"100"}"#[..]);
        assert_eq!(splice(json, 6, 2, Revision(0))[..], br#"{"v":"0"}"#[..]);
        assert_eq!(digits(Revision(u64::MAX)), 20);
    }
}
