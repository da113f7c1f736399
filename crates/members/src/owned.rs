//! Objects made on behalf of an owner, and the names that follow from it.

use serde_json::{Value, json};

use crate::world::{name, namespace, uid};

/// A controller owner reference to `owner`.
pub(crate) fn reference(api_version: &str, kind: &str, owner: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod from the owner's template.
pub(crate) fn pod(api_version: &str, kind: &str, owner: &Value, pod_name: &str) -> Value {
    let template = owner
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let mut metadata = template
        .get("metadata")
        .cloned()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    metadata["name"] = json!(pod_name);
    metadata["namespace"] = json!(namespace(owner));
    metadata["ownerReferences"] = json!([reference(api_version, kind, owner)]);
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// A stable hash of a JSON value, for template hashes and derived names (FNV-1a, 64 bits).
pub(crate) fn hash(value: &Value, salt: &str) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value.to_string().bytes().chain(salt.bytes()) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    state
}

/// `length` characters of the alphabet that Kubernetes uses for suffixes, derived from a hash.
pub(crate) fn suffix(mut hash: u64, length: usize) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut out = String::with_capacity(length);
    for _ in 0..length {
        let index = usize::try_from(hash % 27).expect("below 27");
        out.push(char::from(ALPHABET[index]));
        hash /= 27;
    }
    out
}

/// The first `count` names of the form `<owner>-<5 characters>` that a random number makes and that are not among
/// `taken`.
pub(crate) fn fresh_names(owner: &Value, random: u64, taken: &[&str], count: usize) -> Vec<String> {
    (0_u64..)
        .map(|index| {
            format!(
                "{}-{}",
                name(owner),
                suffix(hash(&json!(uid(owner)), &format!("{random} {index}")), 5)
            )
        })
        .filter(|candidate| !taken.contains(&candidate.as_str()))
        .take(count)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_number_and_skip_taken_ones() {
        let owner = json!({"metadata": {"name": "web", "uid": "u1"}});
        let first = fresh_names(&owner, 1, &[], 3);
        assert_eq!(fresh_names(&owner, 1, &[], 3), first);
        assert_eq!(fresh_names(&owner, 1, &[first[0].as_str()], 2), first[1..]);
        let others = fresh_names(&owner, 2, &[], 3);
        assert!(others.iter().all(|name| !first.contains(name)), "{others:?}");
        assert!(first.iter().all(|name| name.len() == "web-".len() + 5));
    }
}
