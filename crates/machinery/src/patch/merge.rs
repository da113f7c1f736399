//! JSON merge patch (RFC 7386): applying one, and making one from two or three versions.

use serde_json::{Map, Value};

/// Applies a merge patch: maps are merged, `null` removes, anything else replaces.
pub fn merge_patch(doc: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *doc = patch.clone();
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(map) = doc else { return };
    for (key, change) in changes {
        if change.is_null() {
            map.remove(key);
        } else {
            merge_patch(map.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// The smallest merge patch that turns one value into another; an empty object if they are equal objects. (A
/// `null` in `wanted` cannot be expressed: there it means absence.)
pub fn merge_diff(from: &Value, wanted: &Value) -> Value {
    match (from, wanted) {
        (Value::Object(from), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for key in from.keys().filter(|key| !wanted.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, value) in wanted {
                match from.get(key) {
                    Some(have) if have == value => {}
                    Some(have @ Value::Object(_)) if value.is_object() => {
                        patch.insert(key.clone(), merge_diff(have, value));
                    }
                    Some(_) | None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            Value::Object(patch)
        }
        (_, wanted) => wanted.clone(),
    }
}

/// The merge patch that takes `current` to `modified` where they differ, and removes what `original` (the last
/// applied version) has and `modified` has no longer. What others added to `current` stays. An empty object: there
/// is nothing to do.
pub fn json_merge_diff(original: &Value, modified: &Value, current: &Value) -> Value {
    let empty = Map::new();
    let map = |value: &'_ Value| value.as_object().cloned();
    let (Some(modified), Some(current)) = (map(modified), map(current)) else {
        return modified.clone();
    };
    let original = original.as_object().unwrap_or(&empty);
    Value::Object(three_way(original, &modified, &current))
}

fn three_way(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Map<String, Value> {
    let empty = Map::new();
    let mut patch = Map::new();
    for key in original.keys() {
        if !modified.contains_key(key) && current.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, wanted) in modified {
        match (wanted, current.get(key)) {
            (Value::Null, None) => {}
            (Value::Object(wanted), Some(Value::Object(have))) => {
                let before = original.get(key).and_then(Value::as_object).unwrap_or(&empty);
                let change = three_way(before, wanted, have);
                if !change.is_empty() {
                    patch.insert(key.clone(), Value::Object(change));
                }
            }
            (wanted, Some(have)) if wanted == have => {}
            (wanted, _) => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    patch
}
