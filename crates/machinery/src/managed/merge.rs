//! Merging an applied configuration into an object, and taking fields out of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::FieldSet;
use super::shape::{ListShape, MapShape, Relation, Type};
use super::walk::items_of;

/// An object with a configuration merged in: no field is lost; where both have a leaf, the configuration's counts.
///
/// # Errors
/// What keeps list items from being told apart.
pub(super) fn merge(object: &Value, config: &Value, of: Type<'_>) -> Result<Value, String> {
    let merged = visit(Some(object), Some(config), of)?;
    Ok(merged.unwrap_or_else(|| Value::Object(Map::new())))
}

fn visit(left: Option<&Value>, right: Option<&Value>, of: Type<'_>) -> Result<Option<Value>, String> {
    let leaf = || Ok(right.or(left).cloned());
    let atom = of.atom().for_value(right.or(left));
    if let Some(shape) = atom.map {
        let empty = Map::new();
        let map = |value: Option<&'_ Value>| {
            value
                .and_then(Value::as_object)
                .is_some_and(|map| !map.is_empty())
        };
        if shape.atomic || (!map(left) && !map(right)) {
            return leaf();
        }
        let left = left.and_then(Value::as_object).unwrap_or(&empty);
        let right = right.and_then(Value::as_object).unwrap_or(&empty);
        maps(left, right, &shape)
    } else if atom.scalar.is_some() {
        leaf()
    } else if let Some(shape) = atom.list {
        let (before, after) = (items_of(left), items_of(right));
        if matches!(shape.relation, Relation::Atomic) || (before.is_empty() && after.is_empty()) {
            return leaf();
        }
        lists(before, after, &shape)
    } else {
        leaf()
    }
}

fn maps(
    left: &Map<String, Value>,
    right: &Map<String, Value>,
    shape: &MapShape<'_>,
) -> Result<Option<Value>, String> {
    let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut out = Map::new();
    for key in keys {
        let of = shape.field(key).unwrap_or(Type::Deduced);
        if let Some(value) = visit(left.get(key), right.get(key), of)? {
            out.insert(key.clone(), value);
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// The configuration's order for its own items; items that only the object has stay where they were in between.
fn lists(left: &[Value], right: &[Value], shape: &ListShape<'_>) -> Result<Option<Value>, String> {
    let mut wanted = BTreeMap::new();
    let mut right_steps = Vec::with_capacity(right.len());
    for (index, item) in right.iter().enumerate() {
        let step = shape
            .step(item)
            .map_err(|problem| format!("element {index}: {problem}"))?;
        if wanted.insert(step.clone(), item).is_some() {
            return Err(format!("duplicate entries for key {step}"));
        }
        right_steps.push(step);
    }
    // What comes more than once is not merged.
    let mut have: BTreeMap<PathElement, &Value> = BTreeMap::new();
    let mut left_steps = Vec::with_capacity(left.len());
    for (index, item) in left.iter().enumerate() {
        let step = shape
            .step(item)
            .map_err(|problem| format!("element {index}: {problem}"))?;
        have.entry(step.clone())
            .and_modify(|value| *value = &Value::Null)
            .or_insert(item);
        left_steps.push(step);
    }
    let mut shared: VecDeque<&PathElement> = right_steps
        .iter()
        .filter(|step| have.contains_key(step))
        .collect();
    let mut next_shared = shared.pop_front();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut at_left, mut at_right) = (0, 0);
    let take = |out: &mut Vec<Value>, left: Option<&Value>, right: Option<&Value>| -> Result<(), String> {
        out.extend(visit(left, right, shape.item)?);
        Ok(())
    };
    while at_left < left_steps.len() || at_right < right_steps.len() {
        if let (Some(mine), Some(theirs)) = (left_steps.get(at_left), right_steps.get(at_right)) {
            if mine == theirs {
                done.insert(theirs);
                take(&mut out, have.get(theirs).copied(), wanted.get(theirs).copied())?;
                at_left += 1;
                at_right += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if wanted.contains_key(mine) && next_shared.is_some_and(|next| next != mine) {
                // Shared, but not the one whose turn it is.
                at_left += 1;
                continue;
            }
        }
        if let Some(mine) = left_steps.get(at_left) {
            if !wanted.contains_key(mine) {
                take(&mut out, Some(&left[at_left]), None)?;
                at_left += 1;
                continue;
            }
            if done.contains(mine) {
                at_left += 1;
            }
        }
        if let Some(theirs) = right_steps.get(at_right) {
            done.insert(theirs);
            take(&mut out, have.get(theirs).copied(), wanted.get(theirs).copied())?;
            at_right += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// A value without the items and fields of a set; null where nothing is left of a map or list.
pub(super) fn remove(value: &Value, set: &FieldSet, of: Type<'_>) -> Value {
    let atom = of.atom().for_value(Some(value));
    if let Some(shape) = atom.map {
        let Value::Object(map) = value else {
            return Value::Null;
        };
        if map.is_empty() || shape.atomic {
            return Value::Null;
        }
        let mut out = Map::new();
        for (key, value) in map {
            let step = PathElement::field(key);
            if set.members.contains(&step) {
                continue;
            }
            let kept = match set.below(&step) {
                Some(below) => remove(value, below, shape.field(key).unwrap_or(Type::Deduced)),
                None => value.clone(),
            };
            out.insert(key.clone(), kept);
        }
        if out.is_empty() {
            Value::Null
        } else {
            Value::Object(out)
        }
    } else if atom.scalar.is_some() {
        value.clone()
    } else if let Some(shape) = atom.list {
        let Value::Array(items) = value else {
            return Value::Null;
        };
        if items.is_empty() || matches!(shape.relation, Relation::Atomic) {
            return Value::Null;
        }
        let mut out = Vec::new();
        for item in items {
            let Ok(step) = shape.step(item) else {
                out.push(item.clone());
                continue;
            };
            if set.members.contains(&step) {
                continue;
            }
            out.push(match set.below(&step) {
                Some(below) => remove(item, below, shape.item),
                None => item.clone(),
            });
        }
        if out.is_empty() {
            Value::Null
        } else {
            Value::Array(out)
        }
    } else {
        value.clone()
    }
}

/// Drops nulls that were something else before fields were taken out.
pub(super) fn drop_new_nulls(value: &mut Value, before: &Value) {
    match (value, before) {
        (Value::Object(map), Value::Object(before)) => {
            map.retain(|key, value| {
                let was = before.get(key).unwrap_or(&Value::Null);
                if value.is_null() {
                    return was.is_null();
                }
                drop_new_nulls(value, was);
                true
            });
        }
        (Value::Array(items), Value::Array(before)) if items.len() == before.len() => {
            for (value, was) in items.iter_mut().zip(before) {
                drop_new_nulls(value, was);
            }
        }
        (_, _) => {}
    }
}
