//! Applying a strategic merge patch: a merge patch in which lists may be merged too, and whose directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) say what to take away.

use serde_json::{Map, Value};

use super::order::{Places, arrange, identity, position};
use super::{PatchError, TypeInfo};
use crate::schema::PatchStrategy;

pub(super) const PATCH: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const SET_ORDER: &str = "$setElementOrder/";
pub(super) const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object of this type. Fields that the type does not know are treated as
/// JSON merge patch treats them.
///
/// # Errors
/// [`PatchError::Malformed`] for directives that make no sense, items without their merge key and lists of mixed
/// types.
pub fn strategic_merge(doc: &Value, patch: &Value, info: &TypeInfo) -> Result<Value, PatchError> {
    let (Value::Object(doc), Value::Object(patch)) = (doc, patch) else {
        return Err(malformed("invalid JSON document"));
    };
    merge_map(doc.clone(), patch, Some(info)).map(Value::Object)
}

fn malformed(text: impl Into<String>) -> PatchError {
    PatchError::Malformed(text.into())
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(SET_ORDER) || key.starts_with(DELETE_PRIMITIVES)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn strategy(info: Option<&TypeInfo>) -> PatchStrategy {
    info.map_or(PatchStrategy::Unset, |info| info.patch_strategy)
}

fn merge_key(info: Option<&TypeInfo>) -> Option<&str> {
    info.and_then(|info| info.patch_merge_key.as_deref())
}

fn merge_map(
    mut original: Map<String, Value>,
    patch: &Map<String, Value>,
    info: Option<&TypeInfo>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.get(PATCH) {
        None => {}
        Some(Value::String(word)) => match word.as_str() {
            "replace" => {
                let mut whole = patch.clone();
                whole.remove(PATCH);
                return Ok(whole);
            }
            "delete" => return Ok(Map::new()),
            "merge" => {}
            _ => {
                return Err(malformed(format!(
                    "unknown patch type: {word} in map: {}",
                    show(patch)
                )));
            }
        },
        Some(other) => {
            return Err(malformed(format!(
                "unknown patch type: {other} in map: {}",
                show(patch)
            )));
        }
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        retain_keys(&mut original, patch, keys)?;
    }
    for (key, values) in patch {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            let Value::Array(values) = values else {
                return Err(malformed("invalid patch format of primitive list"));
            };
            if let Some(Value::Array(items)) = original.get_mut(field) {
                items.retain(|item| !values.contains(item));
            }
        }
    }
    for (key, value) in patch {
        if is_directive(key) {
            continue;
        }
        let node = info.and_then(|info| info.property(key));
        let order = patch.get(&format!("{SET_ORDER}{key}"));
        merge_field(&mut original, key, value, node, order)?;
    }
    // Lists that are only put into another order.
    for (key, order) in patch {
        let Some(field) = key.strip_prefix(SET_ORDER) else {
            continue;
        };
        let Value::Array(order) = order else {
            return Err(malformed("invalid patch format of setElementOrder list"));
        };
        if patch.contains_key(field) {
            continue;
        }
        let node = info.and_then(|info| info.property(field));
        if let Some(Value::Array(items)) = original.get_mut(field) {
            let before = items.clone();
            *items = arrange(std::mem::take(items), order, &before, merge_key(node));
        }
    }
    Ok(original)
}

fn show(map: &Map<String, Value>) -> String {
    let text = serde_json::to_string(map).unwrap_or_default();
    text.chars().take(256).collect()
}

/// The patch may only have keys that are retained; the original loses all others.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &Value,
) -> Result<(), PatchError> {
    let Value::Array(keys) = keys else {
        return Err(malformed("invalid patch format of retainKeys"));
    };
    let keep = |key: &str| keys.iter().any(|kept| kept.as_str() == Some(key));
    let stray = patch
        .iter()
        .any(|(key, value)| !is_directive(key) && !value.is_null() && !keep(key));
    if stray {
        return Err(malformed("patch content doesn't match retainKeys list"));
    }
    original.retain(|key, _| keep(key));
    Ok(())
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    node: Option<&TypeInfo>,
    order: Option<&Value>,
) -> Result<(), PatchError> {
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    let order = match order {
        None => None,
        Some(Value::Array(order)) => Some(order.as_slice()),
        Some(_) => return Err(malformed("invalid patch format of setElementOrder list")),
    };
    let merged = match (original.remove(key), value) {
        (Some(Value::Object(have)), Value::Object(patch)) => {
            if strategy(node) == PatchStrategy::Replace {
                value.clone()
            } else {
                Value::Object(merge_map(have, patch, node)?)
            }
        }
        (Some(Value::Array(have)), Value::Array(patch)) => {
            if strategy(node).merges() {
                Value::Array(merge_list(have, patch, node, order)?)
            } else {
                value.clone()
            }
        }
        (have, _) => {
            if let (Some(order), Value::Array(patch)) = (order, value) {
                check_order(patch, order, merge_key(node))?;
            }
            let mut taken = value.clone();
            if !without_directives(&mut taken) {
                // `$patch: delete` of what is not there.
                if let Some(have) = have.filter(|have| type_name(have) != "map") {
                    original.insert(key.to_owned(), have);
                }
                return Ok(());
            }
            taken
        }
    };
    original.insert(key.to_owned(), merged);
    Ok(())
}

/// The patch's items, but for deletions, must come in the order of the directive.
fn check_order(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    let mut from = 0;
    for item in patch {
        if item.get(PATCH).is_some() && item[PATCH] == "delete" {
            continue;
        }
        match position(&order[from..], item, merge_key) {
            Some(at) => from += at + 1,
            None => {
                return Err(malformed(format!(
                    "The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
                    Value::from(patch.to_vec()),
                    SET_ORDER.trim_end_matches('/'),
                    Value::from(order.to_vec()),
                )));
            }
        }
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: &[Value],
    node: Option<&TypeInfo>,
    order: Option<&[Value]>,
) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let maps = original
        .iter()
        .chain(patch)
        .filter(|item| item.is_object())
        .count();
    if maps > 0 && maps < original.len() + patch.len() {
        return Err(malformed("list element types are not identical"));
    }
    if original.iter().chain(patch).any(Value::is_array) {
        return Err(malformed("lists of lists are not supported"));
    }
    let key = if maps > 0 { merge_key(node) } else { None };
    if let Some(order) = order {
        check_order(patch, order, key)?;
    }
    let before = original.clone();
    let (merged, named) = if maps == 0 {
        let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
        let mut places = Places::of(&[], None);
        for item in original.into_iter().chain(patch.iter().cloned()) {
            if places.add(&item, merged.len()) {
                merged.push(item);
            }
        }
        (merged, patch.to_vec())
    } else {
        let Some(key) = key else {
            let name = node.map_or("", |node| node.name.as_str());
            return Err(malformed(format!(
                "cannot merge lists without merge key for {name}"
            )));
        };
        merge_maps(original, patch, key, node.and_then(TypeInfo::item))?
    };
    Ok(arrange(merged, order.unwrap_or(&named), &before, key))
}

/// Merges a list of maps; also answers the patch's items that are no directives.
fn merge_maps(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    item_info: Option<&TypeInfo>,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut named = Vec::new();
    let mut replace = false;
    let mut deleted = Places::of(&[], Some(key));
    for item in patch {
        match item.get(PATCH).map(|word| word.as_str().unwrap_or_default()) {
            None => named.push(item.clone()),
            Some("delete") => {
                if identity(item, Some(key)).is_none() {
                    return Err(no_merge_key(item, key));
                }
                deleted.add(item, 0);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(malformed("merging lists cannot yet be specified in the patch"));
            }
            Some(word) => {
                return Err(malformed(format!("unknown patch type: {word} in map: {item}")));
            }
        }
    }
    original.retain(|have| deleted.find(have).is_none());
    if replace {
        original.clear();
    }
    let mut places = Places::of(&original, Some(key));
    for item in &named {
        if identity(item, Some(key)).is_none() {
            return Err(no_merge_key(item, key));
        }
        match places.find(item) {
            Some(at) => {
                if let (Value::Object(have), Value::Object(patch)) = (original[at].take(), item) {
                    original[at] = Value::Object(merge_map(have, patch, item_info)?);
                }
            }
            None => {
                let mut item = item.clone();
                if without_directives(&mut item) {
                    places.add(&item, original.len());
                    original.push(item);
                }
            }
        }
    }
    Ok((original, named))
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    let shown: String = item.to_string().chars().take(256).collect();
    malformed(format!("map: {shown} does not contain declared merge key: {key}"))
}

/// Takes directives and nulls out of a value that becomes part of the object as it is; false if all of it is a
/// deletion.
fn without_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.get(PATCH).is_some_and(|word| word == "delete") {
                return false;
            }
            map.retain(|key, value| !is_directive(key) && !value.is_null() && without_directives(value));
            true
        }
        Value::Array(items) => {
            items.retain_mut(|item| {
                // `- $patch: replace` stands alone.
                let bare = item
                    .as_object()
                    .is_some_and(|map| map.len() == 1 && map.contains_key(PATCH));
                !bare && without_directives(item)
            });
            true
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
