//! What goes into `spec.raw` of a Description: objects as they are, references to what is kept once for all clusters, and
//! for its recipient alone what is secret.
//!
//! Only a cluster whose agent says that it understands them gets references or sealed objects; all others get every
//! object as it is. What a Description has already and is still the same stays as it is, so that planning again asks for
//! nothing.

use api::entry::{self, Digest, Entry, Reference};
use api::payloads;
use serde_json::Value;

use crate::feed::Feed;

/// Objects of more bytes are kept once and referred to.
const LARGE: usize = 32 << 10;
/// With more bytes of entries than this, a Description refers to smaller objects, too, the largest first.
const FULL: usize = 1 << 20;

/// What is there to pack with.
#[derive(Clone, Copy, Default)]
pub struct Packing<'a> {
    /// Whether a piece of a payload is stored, by its name; `None` where none can be: then only references that are
    /// there already are used.
    pub stored: Option<&'a dyn Fn(&str) -> bool>,
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

/// Packs objects for a cluster. `have` is the Description as it is.
pub(crate) fn pack(
    items: Vec<Item>,
    cluster: Option<&Value>,
    have: Option<&Value>,
    packing: &Packing<'_>,
) -> Packed {
    let mut packed = Packed::default();
    let takes_references = cluster.is_some_and(takes_references);
    let known: Vec<Digest> = have.into_iter().flat_map(entry::digests).collect();
    let mut texts: Vec<String> = Vec::new();
    let mut raw: Vec<Value> = Vec::new();
    for Item { object, .. } in &items {
        texts.push(object.to_string());
        raw.push(Entry::Object(object.clone()).to_raw());
    }
    let length = |entry: &Value| entry.as_str().map_or(0, str::len);
    let mut total: usize = raw.iter().map(length).sum();
    // The largest first; of equal ones the first.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(texts[*index].len()));
    for index in order {
        let (item, text) = (&items[index], &texts[index]);
        let is_large = text.len() > LARGE || total > FULL;
        if !takes_references || item.is_read || !is_large {
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
                    let missing = missing.filter(|it| !is_stored(machinery::meta::name(it)));
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
    packed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

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

    #[test]
    fn refers_to_what_is_large_where_the_agent_understands() {
        let storing = Packing { stored: Some(&none) };
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
            let packed = pack(items, cluster.as_ref(), None, packing);
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
        let storing = Packing { stored: Some(&none) };
        let packed = pack(items, Some(&aware()), None, &storing);
        let size: usize = packed.raw.iter().map(|raw| raw.as_str().unwrap().len()).sum();
        assert!(size <= FULL, "{size}");
        let shape = shape(&packed);
        assert!(shape.contains('R') && shape.contains('O'), "{shape}");
    }

    #[test]
    fn stores_only_what_is_missing_and_keeps_what_is_there() {
        let objects = || vec![map("a", 1_000_000)];
        let storing = Packing { stored: Some(&none) };
        let first = pack(objects(), Some(&aware()), None, &storing);
        let names: BTreeSet<&str> = first.pieces.iter().map(machinery::meta::name).collect();
        let some = |name: &str| names.contains(name) && name.ends_with("-0");
        let again = pack(objects(), Some(&aware()), None, &Packing { stored: Some(&some) });
        assert_eq!((again.raw == first.raw, again.pieces.len()), (true, 1));
        let all = |name: &str| names.contains(name);
        let again = pack(objects(), Some(&aware()), None, &Packing { stored: Some(&all) });
        assert_eq!((again.raw == first.raw, again.pieces.len()), (true, 0));
        // While nobody knows what is stored, a reference that is there stays.
        let have = json!({"spec": {"raw": first.raw}});
        let again = pack(objects(), Some(&aware()), Some(&have), &Packing::default());
        assert_eq!((again.raw == first.raw, again.pieces.len()), (true, 0));
        let other = pack(
            vec![map("a", 999_999)],
            Some(&aware()),
            Some(&have),
            &Packing::default(),
        );
        assert_eq!(shape(&other), "O");
    }
}
