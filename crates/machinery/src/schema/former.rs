//! What stood in a value's place before its object was written again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ListType, Schema};

/// The former items of a list by their keys; only those of keyed lists are known again.
pub(super) struct Former<'a> {
    keys: &'a [smol_str::SmolStr],
    items: BTreeMap<Vec<String>, &'a Value>,
}

impl<'a> Former<'a> {
    /// The items of what was a list.
    pub(super) fn new(old: Option<&'a Value>, schema: &'a Schema) -> Self {
        let mut former = Self {
            keys: &schema.list_map_keys,
            items: BTreeMap::new(),
        };
        if schema.list_type == Some(ListType::Map) {
            for item in old.and_then(Value::as_array).into_iter().flatten() {
                if let Some(keys) = former.keys(item) {
                    former.items.entry(keys).or_insert(item);
                }
            }
        }
        former
    }

    /// What an item of the new list was.
    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&self.keys(item)?).copied()
    }

    fn keys(&self, item: &Value) -> Option<Vec<String>> {
        let scalar = |value: &&Value| !(value.is_null() || value.is_array() || value.is_object());
        self.keys
            .iter()
            .map(|key| item.get(key.as_str()).filter(scalar).map(Value::to_string))
            .collect()
    }
}
