//! The labels that tie the objects of one distribution together, and the names that are made.

use api::labels;
use machinery::{ApiResource, meta};
use serde_json::{Map, Value, json};

/// The longest value of a label.
pub const LABEL_VALUE_LIMIT: usize = 63;
/// The longest name of an object.
const NAME_LIMIT: usize = 253;
/// What a Base's name adds to its Subscription's: a hyphen and a suffix.
const BASE_SUFFIX: usize = 1 + api::names::SUFFIX_LENGTH;
/// What a Description's name adds to its Base's at most: `-generic`.
const DESCRIPTION_SUFFIX: usize = 8;
/// The characters that Kubernetes uses for generated suffixes.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A Base's name: the Subscription's and a suffix, short enough that Descriptions can be named after it.
pub fn base_name(subscription: &str, suffix: &str) -> String {
    let limit = NAME_LIMIT - BASE_SUFFIX - DESCRIPTION_SUFFIX;
    let mut stem = subscription;
    if stem.len() > limit {
        stem = stem.get(..limit).unwrap_or(stem).trim_end_matches(['-', '.']);
    }
    format!("{stem}-{suffix}")
}

/// A suffix in Kubernetes' alphabet that is always the same for the same texts.
///
/// A name that is a function of what it is for can be created twice without making two objects, whatever the state
/// of anybody's cache.
pub fn suffix(texts: &[&str], salt: u32) -> String {
    // FNV-1a, 64 bits.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut update = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for text in texts {
        text.bytes().for_each(&mut update);
        update(0);
    }
    salt.to_le_bytes().into_iter().for_each(update);
    let base = ALPHABET.len() as u64;
    (0..api::names::SUFFIX_LENGTH)
        .map(|_| {
            let digit = usize::try_from(hash % base).expect("a remainder is small");
            hash /= base;
            char::from(ALPHABET[digit])
        })
        .collect()
}

/// Sets a label unless its value is empty or too long for one.
pub(crate) fn set_if_fits(map: &mut Map<String, Value>, key: &str, value: &str, limit: usize) {
    if !value.is_empty() && value.len() <= limit {
        map.insert(key.to_owned(), json!(value));
    }
}

/// Labels of an object that all differ from what is wanted, as the content of a merge patch.
pub(crate) fn missing(object: &Value, wanted: &Map<String, Value>) -> Map<String, Value> {
    let have = meta::labels(object);
    let differs = |key: &String, value: &Value| have.and_then(|have| have.get(key)) != Some(value);
    let wanted = wanted.iter().filter(|(key, value)| differs(key, value));
    wanted.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The labels of what is made of a Base or Description: what it comes from, and what that came from.
pub(crate) fn descent(resource: &ApiResource, parent: &Value) -> Map<String, Value> {
    let mut map = Map::from_iter([created_by()]);
    let mut set = |key: &str, value: &str| set_if_fits(&mut map, key, value, LABEL_VALUE_LIMIT);
    set(labels::CONFIG_KIND, &resource.kind);
    set(labels::CONFIG_NAME, meta::name(parent));
    set(labels::CONFIG_NAMESPACE, meta::namespace(parent));
    set(labels::CONFIG_UID, meta::uid(parent));
    for key in [
        labels::CLUSTER_ID,
        labels::CLUSTER_NAME,
        labels::SUBSCRIPTION_NAME,
        labels::SUBSCRIPTION_NAMESPACE,
        labels::SUBSCRIPTION_UID,
    ] {
        set(key, meta::label(parent, key).unwrap_or_default());
    }
    map
}

/// The label that names the object that made another one.
pub(crate) fn created_by() -> (String, Value) {
    (
        labels::CREATED_BY.to_owned(),
        json!(labels::CREATED_BY_CONTROLLERS),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_names_that_fit() {
        assert_eq!(base_name("app", "x7k2p"), "app-x7k2p");
        let long = format!("{}.{}", "a".repeat(238), "b".repeat(14));
        let name = base_name(&long, "x7k2p");
        assert_eq!(name, format!("{}-x7k2p", "a".repeat(238)));
        assert!(name.len() + DESCRIPTION_SUFFIX <= NAME_LIMIT);
    }

    #[test]
    fn makes_steady_suffixes() {
        assert_eq!(suffix(&["uid", "ns"], 0), suffix(&["uid", "ns"], 0));
        assert_ne!(suffix(&["uid", "ns"], 0), suffix(&["uid", "ns"], 1));
        assert_ne!(suffix(&["uid", "ns"], 0), suffix(&["uidn", "s"], 0));
        assert!(suffix(&["a"], 3).bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
