//! Filling in what a schema gives to fields that are missing.

use serde_json::Value;

use super::{Additional, Schema};

/// Recursive types with defaults must end somewhere.
const MAX_DEPTH: usize = 256;

impl Schema {
    /// Fills in defaults, as for a custom resource: a `null` that is not allowed is dropped, or replaced where there
    /// is a default; then missing fields get theirs, and theirs are filled in again.
    pub fn fill_defaults(&self, value: &mut Value) {
        drop_nulls(value, self, 0);
        fill(value, self, 0);
    }

    /// Drops each `null` that is not allowed and that no default replaces. That is all the defaulting which the
    /// decoder of a built-in kind does.
    pub fn drop_nulls(&self, value: &mut Value) {
        drop_nulls(value, self, 0);
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
