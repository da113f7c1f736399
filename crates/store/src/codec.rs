//! Records: one change or one object as bytes.
//!
//! It knows nothing of frames, checksums or files.

use source::packed::{self, Malformed, Reader};
use source::{Key, Object, PackedHead, Resource, Revision};

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
    out.push(PUT);
    packed::number(out, revision.0);
    put_key(out, key);
    out.extend_from_slice(head.as_bytes());
    packed::number(out, *splice as u64);
    packed::number(out, json.len() as u64);
    out.extend_from_slice(json);
}

/// How many bytes [`put`] appends, at most a few more.
pub(crate) fn put_size(object: &Object) -> u64 {
    /// What the length of a text takes.
    const LENGTH: usize = 2;
    /// Revision, splice, the JSON's length and the record's kind.
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
    let key = text(key.resource.as_str()) + text(&key.namespace) + text(&key.name);
    (json.len() + head.as_bytes().len() + key + NUMBERS) as u64
}

/// Appends a removal.
pub(crate) fn delete(out: &mut Vec<u8>, key: &Key, revision: Revision) {
    out.push(DELETE);
    packed::number(out, revision.0);
    put_key(out, key);
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    packed::text(out, key.resource.as_str());
    packed::text(out, &key.namespace);
    packed::text(out, &key.name);
}

/// Reads what the functions above append.
pub(crate) fn record(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let kind = reader.byte()?;
    let revision = Revision(reader.number()?);
    let key = Key {
        resource: Resource::from(reader.text()?),
        namespace: reader.text()?.into(),
        name: reader.text()?.into(),
    };
    match kind {
        DELETE => Ok(Record::Delete(key, revision)),
        PUT => object(reader, key, revision).map(Record::Put),
        _ => Err(Malformed),
    }
}

fn object(reader: &mut Reader<'_>, key: Key, revision: Revision) -> Result<Object, Malformed> {
    let head = reader.take(PackedHead::measure(reader.rest())?)?;
    let splice = reader.size()?;
    let json = reader.slice()?;
    let mut digits = [0; 20];
    let digits = revision.digits(&mut digits);
    let (front, rest) = json.split_at_checked(splice).ok_or(Malformed)?;
    let back = rest.strip_prefix(digits).ok_or(Malformed)?;
    if back.first() != Some(&b'"') {
        return Err(Malformed);
    }
    Ok(Object::assemble(key, revision, [front, digits, back], head))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use source::{Draft, Head};

    use super::*;

    fn sample() -> Object {
        let draft = Draft {
            json: Bytes::from_static(br#"{"metadata":{"resourceVersion":""}}"#),
            splice: 32,
            head: Head {
                uid: "u".into(),
                labels: [("a".into(), "b".into())].into(),
                fields: [("status.phase".into(), "Running".into())].into(),
                owners: ["o1".into(), "o2".into()].into(),
                deleting: true,
            },
        };
        let key = Key::new(&Resource::new("apps", "deployments"), "default", "web");
        Object::new(key, Revision(1_234), &draft)
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
        match record(&mut reader).unwrap() {
            Record::Put(read) => {
                assert_eq!(read.key, object.key);
                assert_eq!(read.revision, object.revision);
                assert_eq!(read.json, object.json);
                assert_eq!(read.splice, object.splice);
                assert_eq!(read.head.unpack(), object.head.unpack());
            }
            Record::Delete(..) => panic!("a put was written"),
        }
        match record(&mut reader).unwrap() {
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
                record(&mut Reader::new(&bytes[..cut])).map(|_| ()),
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
        assert!(record(&mut Reader::new(&bytes)).is_err());
    }
}
