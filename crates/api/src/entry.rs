//! What stands in an entry of a Description's `spec.raw`: an object, or for agents that know more, one of two documents
//! instead of it.
//!
//! A [`Reference`] names an object whose JSON is kept elsewhere, by its digest; a [`Sealed`] has it encrypted to the key
//! of whoever applies it. Both carry which object it is, so that nothing but applying needs its content. Everything that
//! reads `raw` reads it here.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machinery::meta;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::feed::Feed;
use crate::payloads::{GROUP, VERSION};

/// What an agent says in `ManagedCluster.status.features` if it reads [`Reference`]s.
pub const PAYLOAD_REFERENCES: &str = "payload-references";

/// Kind of a [`Reference`].
const REFERENCE: &str = "PayloadReference";
/// Kind of a [`Sealed`].
const SEALED: &str = "Sealed";

/// The SHA-256 of a payload: `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

/// Text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDigest(String);

impl fmt::Display for InvalidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no digest: sha256: and 64 hexadecimal digits in lower case are wanted",
            self.0
        )
    }
}

impl std::error::Error for InvalidDigest {}

impl Digest {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hex: String = Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self(format!("sha256:{hex}"))
    }

    /// The digits alone.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix("sha256:").expect("every digest begins so")
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64 && hex.bytes().all(is_hex))
            .map(|_| Self(text.to_owned()))
            .ok_or_else(|| InvalidDigest(text.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object whose JSON is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The digest of its JSON.
    pub digest: Digest,
    /// How many bytes its JSON has.
    pub size: u64,
    /// Which object it is.
    pub object: Feed,
}

/// An object that only its recipient can read (HPKE, RFC 9180).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Which object it is.
    pub object: Feed,
    /// The id of the key that it is encrypted to.
    pub key: String,
    /// Tells whoever sealed it whether the content is still the same. It says nothing to others.
    pub fingerprint: String,
    /// The encapsulated key.
    pub enc: Vec<u8>,
    /// The encrypted JSON of the object.
    pub ciphertext: Vec<u8>,
}

/// What stands in an entry of `spec.raw`.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// The object itself.
    Object(Value),
    /// It is kept elsewhere.
    Reference(Reference),
    /// It is encrypted.
    Sealed(Sealed),
}

impl Entry {
    /// Reads an entry of `spec.raw`.
    ///
    /// # Errors
    /// Why it is none, for people.
    pub fn read(raw: &Value) -> Result<Self, String> {
        let text = raw.as_str().ok_or("it is no text")?;
        let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let object: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let entry = Self::of(object)?;
        let feed = entry.feed();
        for (what, value) in [
            ("apiVersion", &feed.api_version),
            ("kind", &feed.kind),
            ("metadata.name", &feed.name),
        ] {
            if value.is_empty() {
                return Err(format!("it has no {what}"));
            }
        }
        Ok(entry)
    }

    /// What an object is that was decoded already.
    ///
    /// # Errors
    /// Why it is no entry, for people.
    pub fn of(object: Value) -> Result<Self, String> {
        if !is_document(&Feed::of_object(&object)) {
            return Ok(Self::Object(object));
        }
        let text = |field: &str| {
            let text = object[field].as_str().filter(|text| !text.is_empty());
            text.map(str::to_owned)
                .ok_or_else(|| format!("it has no {field}"))
        };
        let bytes = |field: &str| {
            STANDARD
                .decode(text(field)?)
                .map_err(|error| format!("its {field} is no base64: {error}"))
        };
        let feed = Feed::from_value(&object["object"]);
        if meta::kind(&object) == REFERENCE {
            return Ok(Self::Reference(Reference {
                digest: text("digest")?
                    .parse()
                    .map_err(|why: InvalidDigest| why.to_string())?,
                size: object["size"].as_u64().ok_or("it has no size")?,
                object: feed,
            }));
        }
        Ok(Self::Sealed(Sealed {
            object: feed,
            key: text("key")?,
            fingerprint: text("fingerprint")?,
            enc: bytes("enc")?,
            ciphertext: bytes("ciphertext")?,
        }))
    }

    /// The form that stands in `spec.raw`.
    pub fn to_raw(&self) -> Value {
        let document = |kind: &str, feed: &Feed| json!({"apiVersion": api_version(), "kind": kind, "object": feed.to_value()});
        let value = match self {
            Self::Object(object) => return json!(STANDARD.encode(object.to_string())),
            Self::Reference(reference) => {
                let mut value = document(REFERENCE, &reference.object);
                value["digest"] = json!(reference.digest.to_string());
                value["size"] = json!(reference.size);
                value
            }
            Self::Sealed(sealed) => {
                let mut value = document(SEALED, &sealed.object);
                value["key"] = json!(sealed.key);
                value["fingerprint"] = json!(sealed.fingerprint);
                value["enc"] = json!(STANDARD.encode(&sealed.enc));
                value["ciphertext"] = json!(STANDARD.encode(&sealed.ciphertext));
                value
            }
        };
        json!(STANDARD.encode(value.to_string()))
    }

    /// Which object it is.
    pub fn feed(&self) -> Feed {
        match self {
            Self::Object(object) => Feed::of_object(object),
            Self::Reference(reference) => reference.object.clone(),
            Self::Sealed(sealed) => sealed.object.clone(),
        }
    }
}

/// How every document begins in base64: its fields are sorted, and three bytes are four digits.
fn beginning() -> String {
    let text = format!("{{\"apiVersion\":\"{}\"", api_version());
    STANDARD.encode(&text[..text.len() / 3 * 3])
}

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Whether an object would be taken for one of the documents: such cannot be distributed.
pub fn is_document(object: &Feed) -> bool {
    object.api_version == api_version() && [REFERENCE, SEALED].contains(&object.kind.as_str())
}

/// The entries of a Description that can be read, in order.
pub fn entries(description: &Value) -> impl Iterator<Item = Entry> {
    raw(description)
        .iter()
        .filter_map(|entry| Entry::read(entry).ok())
}

/// `spec.raw` of a Description.
pub fn raw(description: &Value) -> &[Value] {
    description["spec"]["raw"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The payloads that a Description refers to. Only entries that begin as ours do are looked into: this is asked often.
pub fn digests(description: &Value) -> impl Iterator<Item = Digest> {
    let beginning = beginning();
    let ours = move |entry: &&Value| entry.as_str().is_some_and(|text| text.starts_with(&beginning));
    let ours = raw(description).iter().filter(ours);
    ours.filter_map(|entry| match Entry::read(entry) {
        Ok(Entry::Reference(reference)) => Some(reference.digest),
        Ok(Entry::Object(_) | Entry::Sealed(_)) | Err(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> Feed {
        Feed {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: "big".to_owned(),
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big", "namespace": "shop"}});
        let reference = Reference {
            digest: Digest::of(b"x"),
            size: 1,
            object: feed(),
        };
        let sealed = Sealed {
            object: feed(),
            key: "k".to_owned(),
            fingerprint: "f".to_owned(),
            enc: vec![1, 2],
            ciphertext: vec![3],
        };
        for entry in [
            Entry::Object(object),
            Entry::Reference(reference),
            Entry::Sealed(sealed),
        ] {
            assert_eq!(entry.feed(), feed());
            assert_eq!(Entry::read(&entry.to_raw()).unwrap(), entry);
        }
    }

    #[test]
    fn what_is_no_entry_is_said() {
        let document = |kind: &str, more: Value| {
            let mut value = json!({"apiVersion": "apps.tombolo.io/v1alpha1", "kind": kind,
                "object": {"apiVersion": "v1", "kind": "Secret", "name": "s"}});
            for (field, of) in more.as_object().unwrap() {
                value[field] = of.clone();
            }
            json!(STANDARD.encode(value.to_string()))
        };
        let named = |object: Value| json!(STANDARD.encode(object.to_string()));
        for (raw, expected) in [
            (json!(1), "it is no text"),
            (json!("%"), "Invalid symbol"),
            (json!("e30"), "Invalid padding"),
            (json!("e30="), "it has no apiVersion"),
            (named(json!({"apiVersion": "v1"})), "it has no kind"),
            (
                named(json!({"apiVersion": "v1", "kind": "Pod"})),
                "it has no metadata.name",
            ),
            (document("PayloadReference", json!({})), "it has no digest"),
            (
                document("PayloadReference", json!({"digest": "md5:1", "size": 1})),
                "is no digest",
            ),
            (
                document("PayloadReference", json!({"digest": Digest::of(b"").to_string()})),
                "it has no size",
            ),
            (document("Sealed", json!({})), "it has no key"),
            (
                document(
                    "Sealed",
                    json!({"key": "k", "fingerprint": "f", "enc": "?", "ciphertext": "AA=="}),
                ),
                "its enc is no base64",
            ),
        ] {
            let why = Entry::read(&raw).unwrap_err();
            assert!(why.contains(expected), "{raw}: {why}");
        }
    }

    #[test]
    fn tells_digests_from_other_texts() {
        let empty = Digest::of(b"");
        assert_eq!(
            empty.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(empty.to_string().parse(), Ok(empty.clone()));
        for text in [
            "",
            "sha256:",
            "sha256:E3",
            &empty.to_string().to_uppercase(),
            empty.hex(),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_the_payloads_of_a_description() {
        let reference = |name: &str| {
            let mut object = feed();
            object.name = name.to_owned();
            Entry::Reference(Reference {
                digest: Digest::of(name.as_bytes()),
                size: 1,
                object,
            })
            .to_raw()
        };
        let long = "x".repeat(253);
        let description = json!({"spec": {"raw": ["?", reference("a"), Entry::Object(json!({})).to_raw(), reference(&long)]}});
        let found: Vec<Digest> = digests(&description).collect();
        assert_eq!(found, [Digest::of(b"a"), Digest::of(long.as_bytes())]);
    }
}
