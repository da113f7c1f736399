//! Making a strategic merge patch from what was applied before, what is wanted, and what is there.

use serde_json::{Map, Value, json};

use super::order::{identity, position};
use super::strategic::{DELETE_PRIMITIVES, PATCH, RETAIN_KEYS, SET_ORDER};
use super::{PatchError, TypeInfo};
use crate::schema::PatchStrategy;

/// The strategic merge patch that takes `current` to `modified` where they differ, and removes what `original` (the
/// last applied version; null for none) has and `modified` has no longer. What others added to `current` stays. An
/// empty object: there is nothing to do.
///
/// # Errors
/// [`PatchError::Malformed`] where a merged list's item lacks its merge key.
pub fn strategic_diff(
    original: &Value,
    modified: &Value,
    current: &Value,
    info: &TypeInfo,
) -> Result<Value, PatchError> {
    let empty = Map::new();
    let (Value::Object(modified), Value::Object(current)) = (modified, current) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    let original = original.as_object().unwrap_or(&empty);
    diff_maps(original, modified, current, Some(info)).map(Value::Object)
}

fn diff_maps(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
    info: Option<&TypeInfo>,
) -> Result<Map<String, Value>, PatchError> {
    let mut patch = Map::new();
    for key in original.keys() {
        if !modified.contains_key(key) && current.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, wanted) in modified {
        let node = info.and_then(|info| info.property(key));
        let strategy = node.map_or(PatchStrategy::Unset, |node| node.patch_strategy);
        let before = original.get(key);
        match (wanted, current.get(key)) {
            (Value::Null, None) => {}
            (wanted, Some(have)) if wanted == have && before.is_none() => {}
            (Value::Object(wanted), Some(Value::Object(have))) if strategy != PatchStrategy::Replace => {
                let empty = Map::new();
                let before = before.and_then(Value::as_object).unwrap_or(&empty);
                let mut change = diff_maps(before, wanted, have, node)?;
                if !change.is_empty() {
                    if strategy.retains_keys() {
                        let keys: Vec<&String> = wanted.keys().collect();
                        change.insert(RETAIN_KEYS.to_owned(), json!(keys));
                    }
                    patch.insert(key.clone(), Value::Object(change));
                }
            }
            (Value::Array(wanted), Some(Value::Array(have))) if strategy.merges() => {
                let before = before.and_then(Value::as_array).map(Vec::as_slice);
                let lists = Lists {
                    before: before.unwrap_or_default(),
                    wanted,
                    have,
                };
                diff_lists(key, &lists, node, &mut patch)?;
            }
            (wanted, Some(have)) if wanted == have => {}
            (wanted, _) => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    Ok(patch)
}

struct Lists<'a> {
    before: &'a [Value],
    wanted: &'a [Value],
    have: &'a [Value],
}

fn diff_lists(
    key: &str,
    lists: &Lists<'_>,
    node: Option<&TypeInfo>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Lists { before, wanted, have } = lists;
    let maps = before.iter().chain(*wanted).chain(*have).any(Value::is_object);
    let merge_key = if maps {
        node.and_then(|node| node.patch_merge_key.as_deref())
    } else {
        None
    };
    let gone = || {
        before.iter().filter(|item| {
            position(wanted, item, merge_key).is_none() && position(have, item, merge_key).is_some()
        })
    };
    let mut changes = Vec::new();
    let mut deletions = Vec::new();
    match merge_key {
        None if maps => {
            // Without a key the list is a whole.
            if wanted != have {
                patch.insert(key.to_owned(), json!(wanted));
            }
            return Ok(());
        }
        None => {
            changes.extend(wanted.iter().filter(|item| !have.contains(item)).cloned());
            deletions.extend(gone().cloned());
        }
        Some(merge_key) => {
            for item in *wanted {
                changes.extend(diff_item(item, merge_key, lists, node)?);
            }
            for item in gone() {
                let value = identity(item, Some(merge_key)).cloned().unwrap_or_default();
                changes.push(json!({PATCH: "delete", merge_key: value}));
            }
        }
    }
    let places: Vec<usize> = wanted
        .iter()
        .filter_map(|item| position(have, item, merge_key))
        .collect();
    let in_order = places.windows(2).all(|pair| pair[0] <= pair[1]);
    if changes.is_empty() && deletions.is_empty() && in_order {
        return Ok(());
    }
    if !wanted.is_empty() {
        let order: Vec<Value> = wanted
            .iter()
            .map(|item| match (merge_key, identity(item, merge_key)) {
                (Some(merge_key), Some(value)) => json!({merge_key: value}),
                (_, _) => item.clone(),
            })
            .collect();
        patch.insert(format!("{SET_ORDER}{key}"), Value::Array(order));
    }
    if !changes.is_empty() {
        patch.insert(key.to_owned(), Value::Array(changes));
    }
    if !deletions.is_empty() {
        patch.insert(format!("{DELETE_PRIMITIVES}{key}"), Value::Array(deletions));
    }
    Ok(())
}

/// What a merged list's patch says about one wanted item.
fn diff_item(
    item: &Value,
    merge_key: &str,
    lists: &Lists<'_>,
    node: Option<&TypeInfo>,
) -> Result<Option<Value>, PatchError> {
    let (Value::Object(wanted), Some(value)) = (item, identity(item, Some(merge_key))) else {
        let shown: String = item.to_string().chars().take(256).collect();
        return Err(PatchError::Malformed(format!(
            "map: {shown} does not contain declared merge key: {merge_key}"
        )));
    };
    let find = |list: &'_ [Value]| {
        position(list, item, Some(merge_key))
            .and_then(|at| list[at].as_object())
            .cloned()
    };
    let Some(have) = find(lists.have) else {
        return Ok(Some(item.clone()));
    };
    let before = find(lists.before).unwrap_or_default();
    let mut change = diff_maps(&before, wanted, &have, node.and_then(TypeInfo::item))?;
    if change.is_empty() {
        return Ok(None);
    }
    change.insert(merge_key.to_owned(), value.clone());
    if node.is_some_and(|node| node.patch_strategy.retains_keys()) {
        let keys: Vec<&String> = wanted.keys().collect();
        change.insert(RETAIN_KEYS.to_owned(), json!(keys));
    }
    Ok(Some(Value::Object(change)))
}
