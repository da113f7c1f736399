//! What goes into `spec.raw` of a Description: objects as they are, references to what is kept once for all clusters, and
//! for its recipient alone what is secret.
//!
//! Only a cluster whose agent says that it understands them gets references or sealed objects; all others get every
//! object as it is. What a Description has already and is still the same stays as it is, so that planning again asks for
//! nothing.

use api::entry::{self, Digest, Entry, Reference, Sealed};
use api::{payloads, secret};
use machinery::{meta, resource};
use serde_json::{Value, json};

use crate::feed::Feed;
use crate::sync;

/// Objects of more bytes are kept once and referred to.
const LARGE: usize = 32 << 10;
/// With more bytes of entries than this, a Description refers to smaller objects, too, the largest first.
const FULL: usize = 1 << 20;

/// Encrypts what is secret.
pub trait Seal {
    /// The key of the parent itself, where it is the one that applies.
    fn own_key(&self) -> String;

    /// Encrypts the JSON of an object to a key, as its owner tells it.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    fn seal(&self, key: &str, object: &Feed, json: &[u8]) -> Result<Sealed, String>;

    /// Whether something sealed has this content for this key, and is as it was made.
    fn holds(&self, sealed: &Sealed, key: &str, json: &[u8]) -> bool;
}

/// Why an object cannot be packed. It goes to nobody then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object} cannot be encrypted for its cluster: {why}")]
pub struct PackError {
    /// The object.
    pub object: Feed,
    /// Why not.
    pub why: String,
}

/// What is there to pack with.
#[derive(Clone, Copy, Default)]
pub struct Packing<'a> {
    /// Whether a piece of a payload is stored, by its name; `None` where none can be: then only references that are
    /// there already are used.
    pub stored: Option<&'a dyn Fn(&str) -> bool>,
    /// What encrypts; without, what is packed may go nowhere.
    pub seal: Option<&'a dyn Seal>,
}

/// An object that is to go out.
pub(crate) struct Item {
    pub(crate) object: Value,
    /// Whether others read in it, as in the replicas of what is divided: then it is no reference.
    pub(crate) is_read: bool,
}

/// The entries of a Description.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// `spec.raw`.
    pub(crate) raw: Vec<Value>,
    /// The pieces that have to be stored before.
    pub(crate) pieces: Vec<Value>,
}

/// Whether the agent of a cluster reads references.
pub fn takes_references(cluster: &Value) -> bool {
    let features = cluster["status"]["features"].as_array();
    features
        .into_iter()
        .flatten()
        .any(|it| it == entry::PAYLOAD_REFERENCES)
}

/// Whether an object is for its recipient alone.
fn is_secret(object: &Value) -> bool {
    let group = resource::split_api_version(meta::api_version(object)).0;
    group.is_empty() && meta::kind(object) == "Secret"
}

/// The key that a cluster's Secrets are encrypted to: whoever applies has to read them. Only what agents of ours have
/// told that they know is used; before its agent has told anything, a cluster gets no Secret at all.
fn recipient(cluster: Option<&Value>, seal: &dyn Seal) -> Result<Option<String>, &'static str> {
    let cluster = cluster.ok_or("the cluster is not known yet")?;
    let status = &cluster["status"];
    if let Some(key) = status["encryptionKey"].as_str().filter(|key| !key.is_empty()) {
        return Ok(Some(match sync::deployer_of(cluster) {
            sync::Deployer::Parent => seal.own_key(),
            sync::Deployer::Agent | sync::Deployer::Nobody(_) => key.to_owned(),
        }));
    }
    if status["lastObservedTime"].is_null() {
        return Err("the cluster's agent has not reported yet");
    }
    Ok(None)
}

/// An entry with a Secret's content for one recipient: the one that is there, if it is still right.
fn sealed(
    object: &Value,
    text: &str,
    key: &str,
    have: Option<&Value>,
    seal: &dyn Seal,
) -> Result<Value, PackError> {
    let feed = Feed::of_object(object);
    let there = have
        .into_iter()
        .flat_map(entry::raw)
        .find(|raw| match Entry::read(raw) {
            Ok(Entry::Sealed(sealed)) => sealed.object == feed && seal.holds(&sealed, key, text.as_bytes()),
            Ok(Entry::Object(_) | Entry::Reference(_)) | Err(_) => false,
        });
    if let Some(there) = there {
        return Ok(there.clone());
    }
    match seal.seal(key, &feed, text.as_bytes()) {
        Ok(sealed) => Ok(Entry::Sealed(sealed).to_raw()),
        Err(why) => Err(PackError { object: feed, why }),
    }
}

/// Packs objects for a cluster. `have` is the Description as it is.
pub(crate) fn pack(
    items: Vec<Item>,
    cluster: Option<&Value>,
    have: Option<&Value>,
    packing: &Packing<'_>,
) -> Result<Packed, PackError> {
    let mut packed = Packed::default();
    let takes_references = cluster.is_some_and(takes_references);
    let known: Vec<Digest> = have.into_iter().flat_map(entry::digests).collect();
    let mut texts: Vec<String> = Vec::new();
    let mut raw: Vec<Value> = Vec::new();
    let recipient = packing.seal.map(|seal| (seal, recipient(cluster, seal)));
    for Item { object, .. } in &items {
        let text = object.to_string();
        let whole = || json!(secret::encode(&text));
        raw.push(match &recipient {
            Some((seal, key)) if is_secret(object) => match key {
                Ok(Some(key)) => sealed(object, &text, key, have, *seal)?,
                Ok(None) => whole(),
                Err(why) => {
                    let (object, why) = (Feed::of_object(object), (*why).to_owned());
                    return Err(PackError { object, why });
                }
            },
            Some(_) | None => whole(),
        });
        texts.push(text);
    }
    let length = |entry: &Value| entry.as_str().map_or(0, str::len);
    let mut total: usize = raw.iter().map(length).sum();
    // The largest first; of equal ones the first.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(texts[*index].len()));
    for index in order {
        let (item, text) = (&items[index], &texts[index]);
        let is_large = text.len() > LARGE || total > FULL;
        // A Secret is in no object that others than its cluster have to do with.
        if !takes_references || item.is_read || is_secret(&item.object) || !is_large {
            continue;
        }
        let digest = Digest::of(text.as_bytes());
        let reference = Entry::Reference(Reference {
            digest: digest.clone(),
            size: text.len() as u64,
            object: Feed::of_object(&item.object),
        })
        .to_raw();
        if length(&reference) >= length(&raw[index]) {
            continue;
        }
        match packing.stored {
            Some(is_stored) => {
                let count = payloads::count(text.len() as u64);
                if !(0..count).all(|piece| is_stored(&payloads::name(&digest, piece))) {
                    let missing = payloads::pieces(&digest, text.as_bytes()).into_iter();
                    let missing = missing.filter(|it| !is_stored(meta::name(it)));
                    packed.pieces.extend(missing);
                }
            }
            None if known.contains(&digest) => {}
            None => continue,
        }
        total -= length(&raw[index]) - length(&reference);
        raw[index] = reference;
    }
    packed.raw = raw;
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn map(name: &str, bytes: usize) -> Item {
        Item {
            object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": name},
                "data": {"x": "y".repeat(bytes)}}),
            is_read: false,
        }
    }

    fn aware() -> Value {
        json!({"status": {"features": ["payload-references"]}})
    }

    /// `O` for each object as it is, `R` for each reference.
    fn shape(packed: &Packed) -> String {
        let letter = |raw: &Value| match Entry::read(raw).unwrap() {
            Entry::Object(_) => 'O',
            Entry::Reference(_) => 'R',
            Entry::Sealed(_) => 'S',
        };
        packed.raw.iter().map(letter).collect()
    }

    fn none(_: &str) -> bool {
        false
    }

    fn storing() -> Packing<'static> {
        Packing {
            stored: Some(&none),
            seal: None,
        }
    }

    /// Its ciphertext is how often it sealed and the length of what it did.
    #[derive(Default)]
    struct Counting(std::cell::Cell<u8>);

    impl Seal for Counting {
        fn own_key(&self) -> String {
            "parent".to_owned()
        }

        fn seal(&self, key: &str, object: &Feed, json: &[u8]) -> Result<Sealed, String> {
            if key == "bad" {
                return Err("it is no key".to_owned());
            }
            self.0.set(self.0.get() + 1);
            Ok(Sealed {
                object: object.clone(),
                key: key.to_owned(),
                fingerprint: String::from_utf8(json.to_vec()).unwrap(),
                enc: vec![1],
                ciphertext: vec![self.0.get()],
            })
        }

        fn holds(&self, sealed: &Sealed, key: &str, json: &[u8]) -> bool {
            sealed.key == key && sealed.fingerprint.as_bytes() == json
        }
    }

    fn secret(value: &str) -> Item {
        Item {
            object: json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "s"},
                "stringData": {"a": value}}),
            is_read: false,
        }
    }

    /// To whom the entries of one Secret are sealed, and as the how-manieth; `clear` if they are not.
    fn seal_of(packed: &Packed) -> String {
        match Entry::read(&packed.raw[0]).unwrap() {
            Entry::Sealed(sealed) => format!("{} {}", sealed.key, sealed.ciphertext[0]),
            Entry::Object(_) => "clear".to_owned(),
            Entry::Reference(_) => "reference".to_owned(),
        }
    }

    #[test]
    fn secrets_are_for_whoever_applies_them() {
        let counting = Counting::default();
        let packing = Packing {
            stored: Some(&none),
            seal: Some(&counting),
        };
        let cluster = |key: &str, mode: &str| {
            json!({"spec": {"syncMode": mode}, "status": {"encryptionKey": key, "appPusher": true,
                "features": ["payload-references"], "lastObservedTime": "2026-01-01T00:00:00Z"}})
        };
        let large = || secret(&"x".repeat(100_000));
        for (case, item, cluster, expected) in [
            ("the agent", secret("1"), cluster("agent", "Pull"), "agent 1"),
            ("the parent", secret("1"), cluster("agent", "Push"), "parent 2"),
            ("a large one", large(), cluster("agent", "Pull"), "agent 3"),
            (
                "an agent without a key",
                secret("1"),
                cluster("", "Push"),
                "clear",
            ),
            ("a large one in clear", large(), cluster("", "Pull"), "clear"),
            (
                "an agent of another kind",
                secret("1"),
                json!({"status": {"lastObservedTime": "2026-01-01T00:00:00Z"}}),
                "clear",
            ),
            ("no Secret", map("a", 10), cluster("agent", "Pull"), "clear"),
        ] {
            let packed = pack(vec![item], Some(&cluster), None, &packing).unwrap();
            assert_eq!(seal_of(&packed), expected, "{case}");
        }
        for (cluster, expected) in [
            (Some(cluster("bad", "Pull")), "it is no key"),
            (
                Some(json!({"status": {}})),
                "the cluster's agent has not reported yet",
            ),
            (None, "the cluster is not known yet"),
        ] {
            let error = pack(vec![secret("1")], cluster.as_ref(), None, &packing).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("Secret shop/s cannot be encrypted for its cluster: {expected}")
            );
            let packed = pack(vec![map("a", 10)], cluster.as_ref(), None, &packing).unwrap();
            assert_eq!(seal_of(&packed), "clear", "what is no Secret goes out");
        }
    }

    #[test]
    fn what_is_sealed_stays_until_its_content_or_its_recipient_changes() {
        let counting = Counting::default();
        let packing = Packing {
            stored: None,
            seal: Some(&counting),
        };
        let mut have = json!({"spec": {"raw": []}});
        for (value, key, expected) in [
            ("1", "a", "a 1"),
            ("1", "a", "a 1"),
            ("2", "a", "a 2"),
            ("2", "b", "b 3"),
            ("2", "b", "b 3"),
        ] {
            let cluster = json!({"status": {"encryptionKey": key}});
            let packed = pack(vec![secret(value)], Some(&cluster), Some(&have), &packing).unwrap();
            assert_eq!(seal_of(&packed), expected);
            have["spec"]["raw"] = json!(packed.raw);
        }
    }

    #[test]
    fn refers_to_what_is_large_where_the_agent_understands() {
        let storing = storing();
        let read = Item {
            is_read: true,
            ..map("read", 100_000)
        };
        for (case, items, cluster, packing, expected, pieces) in [
            ("small", vec![map("a", 10)], Some(aware()), &storing, "O", 0),
            (
                "large",
                vec![map("a", 10), map("b", 40_000)],
                Some(aware()),
                &storing,
                "OR",
                1,
            ),
            (
                "in two pieces",
                vec![map("a", 1_000_000)],
                Some(aware()),
                &storing,
                "R",
                2,
            ),
            (
                "an agent of another kind",
                vec![map("a", 40_000)],
                Some(json!({"status": {}})),
                &storing,
                "O",
                0,
            ),
            ("no cluster", vec![map("a", 40_000)], None, &storing, "O", 0),
            ("others read in it", vec![read], Some(aware()), &storing, "O", 0),
            (
                "nowhere to store",
                vec![map("a", 40_000)],
                Some(aware()),
                &Packing::default(),
                "O",
                0,
            ),
        ] {
            let packed = pack(items, cluster.as_ref(), None, packing).unwrap();
            assert_eq!(
                (shape(&packed).as_str(), packed.pieces.len()),
                (expected, pieces),
                "{case}"
            );
        }
    }

    #[test]
    fn many_small_objects_make_room_too() {
        let items: Vec<Item> = (0..100).map(|index| map(&format!("m-{index}"), 20_000)).collect();
        let storing = storing();
        let packed = pack(items, Some(&aware()), None, &storing).unwrap();
        let size: usize = packed.raw.iter().map(|raw| raw.as_str().unwrap().len()).sum();
        assert!(size <= FULL, "{size}");
        let shape = shape(&packed);
        assert!(shape.contains('R') && shape.contains('O'), "{shape}");
    }

    #[test]
    fn stores_only_what_is_missing_and_keeps_what_is_there() {
        let objects = || vec![map("a", 1_000_000)];
        let storing = storing();
        let first = pack(objects(), Some(&aware()), None, &storing).unwrap();
        let names: BTreeSet<&str> = first.pieces.iter().map(machinery::meta::name).collect();
        let some = |name: &str| names.contains(name) && name.ends_with("-0");
        let again = pack(
            objects(),
            Some(&aware()),
            None,
            &Packing {
                stored: Some(&some),
                seal: None,
            },
        )
        .unwrap();
        assert_eq!((again.raw == first.raw, again.pieces.len()), (true, 1));
        let all = |name: &str| names.contains(name);
        let again = pack(
            objects(),
            Some(&aware()),
            None,
            &Packing {
                stored: Some(&all),
                seal: None,
            },
        )
        .unwrap();
        assert_eq!((again.raw == first.raw, again.pieces.len()), (true, 0));
        // While nobody knows what is stored, a reference that is there stays.
        let have = json!({"spec": {"raw": first.raw}});
        let again = pack(objects(), Some(&aware()), Some(&have), &Packing::default()).unwrap();
        assert_eq!((again.raw == first.raw, again.pieces.len()), (true, 0));
        let other = pack(
            vec![map("a", 999_999)],
            Some(&aware()),
            Some(&have),
            &Packing::default(),
        )
        .unwrap();
        assert_eq!(shape(&other), "O");
    }
}
