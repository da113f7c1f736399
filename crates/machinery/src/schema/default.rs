//! Filling in what a schema gives to fields that are missing.

use serde_json::Value;

use super::{Additional, Kind, Schema};

/// Recursive types with defaults must end somewhere.
const MAX_DEPTH: usize = 256;

impl Schema {
    /// Fills in defaults, as for a custom resource: a `null` that is not allowed is dropped, or replaced where there
    /// is a default; then missing fields get theirs, and theirs are filled in again.
    pub fn fill_defaults(&self, value: &mut Value) {
        drop_nulls(value, self, 0);
        fill(value, self, 0);
    }

    /// Reads nulls as the decoder of a built-in kind does, whatever is nullable: a known field that is null is not
    /// there; a null in a list or as a free key's value is the type's zero. What has no schema stays as it is.
    pub fn drop_nulls(&self, value: &mut Value) {
        forget_nulls(value, self, 0);
    }

    fn refuses_null(&self) -> bool {
        !self.nullable
    }
}

fn child<'a>(schema: &'a Schema, key: &str) -> Option<&'a Schema> {
    match (schema.properties.get(key), &schema.additional) {
        (Some(link), _) | (None, Additional::Values(link)) => Some(link),
        (None, Additional::Unset | Additional::Any | Additional::Forbidden) => None,
    }
}

fn drop_nulls(value: &mut Value, schema: &Schema, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let Some(node) = child(schema, key) else {
                return true;
            };
            if value.is_null() {
                return !node.refuses_null() || node.default.is_some();
            }
            drop_nulls(value, node, depth + 1);
            true
        }),
        Value::Array(items) => {
            if let Some(node) = schema.item() {
                for item in items {
                    drop_nulls(item, node, depth + 1);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn forget_nulls(value: &mut Value, schema: &Schema, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let known = schema.properties.contains_key(key.as_str());
            let Some(node) = child(schema, key) else {
                return true;
            };
            if value.is_null() {
                let zero = if known { None } else { zero(node) };
                let stays = zero.is_some();
                *value = zero.unwrap_or_default();
                return stays;
            }
            forget_nulls(value, node, depth + 1);
            true
        }),
        Value::Array(items) => {
            if let Some(node) = schema.item() {
                for item in items {
                    match (item.is_null(), zero(node)) {
                        (true, Some(zero)) => *item = zero,
                        (true, None) => {}
                        (false, _) => forget_nulls(item, node, depth + 1),
                    }
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Go's zero value, where it has a JSON form of its own.
fn zero(node: &Schema) -> Option<Value> {
    match node.kind {
        Kind::String => Some(Value::from("")),
        Kind::Integer | Kind::Number | Kind::IntOrString => Some(Value::from(0)),
        Kind::Boolean => Some(Value::from(false)),
        Kind::Object => Some(Value::Object(serde_json::Map::new())),
        Kind::Any | Kind::Array => None,
    }
}

fn fill(value: &mut Value, schema: &Schema, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, node) in &schema.properties {
                let Some(default) = &node.default else { continue };
                match map.get_mut(key.as_str()) {
                    None => {
                        map.insert(key.to_string(), (**default).clone());
                    }
                    Some(slot) if slot.is_null() && node.refuses_null() => *slot = (**default).clone(),
                    Some(_) => {}
                }
            }
            for (key, value) in map {
                let Some(node) = child(schema, key) else { continue };
                replace_null(value, node);
                fill(value, node, depth + 1);
            }
        }
        Value::Array(items) => {
            if let Some(node) = schema.item() {
                for item in items {
                    replace_null(item, node);
                    fill(item, node, depth + 1);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, node: &Schema) {
    if let (true, Some(default)) = (value.is_null() && node.refuses_null(), &node.default) {
        *value = (**default).clone();
    }
}
