//! Checking what a schema's extensions say of structure: objects inside of objects, lists that are sets or maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::place::Place;
use super::{Additional, ListType, Schema, check};
use crate::{Cause, names};

/// Runs over each child that has a node.
fn children(
    value: &Value,
    schema: &Schema,
    place: &Place<'_>,
    mut run: impl FnMut(&Value, &Schema, &Place<'_>),
) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (schema.properties.get(key.as_str()), &schema.additional) {
                    (Some(link), _) => run(value, link, &Place::Field(place, key)),
                    (None, Additional::Values(link)) => run(value, link, &Place::Key(place, key)),
                    (None, Additional::Unset | Additional::Any | Additional::Forbidden) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = schema.item() {
                for (index, item) in items.iter().enumerate() {
                    run(item, node, &Place::Index(place, index));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Checks `apiVersion`, `kind` and `metadata` of objects inside of objects.
pub(super) fn embedded(value: &Value, schema: &Schema, place: &Place<'_>, causes: &mut Vec<Cause>) {
    if !schema.holds().embedded {
        return;
    }
    if let (true, Value::Object(map)) = (schema.embedded_resource, value) {
        embedded_resource(map, place, causes);
    }
    children(value, schema, place, |value, node, place| {
        embedded(value, node, place, causes);
    });
}

fn embedded_resource(map: &Map<String, Value>, place: &Place<'_>, causes: &mut Vec<Cause>) {
    for key in ["apiVersion", "kind"] {
        let at = Place::Field(place, key).to_string();
        match map.get(key) {
            None => causes.push(Cause::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(&at, &json!(""), "must not be empty"));
            }
            Some(Value::String(text)) if key == "apiVersion" && text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                causes.push(Cause::invalid(&at, &json!(text), &detail));
            }
            Some(Value::String(text)) if key == "kind" => {
                if let Err(problem) = names::is_dns1035_label(&text.to_lowercase()) {
                    let detail = format!("may have mixed case, but should otherwise match: {problem}");
                    causes.push(Cause::invalid(&at, &json!(text), &detail));
                }
            }
            Some(Value::String(_)) => {}
            Some(other) => causes.push(Cause::invalid(&at, other, "must be a string")),
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return;
    };
    let here = Place::Field(place, "metadata");
    let at = here.to_string();
    let mut copy = metadata.clone();
    super::prune::object_meta().drop_nulls(&mut copy);
    causes.extend(check::causes(&copy, super::prune::object_meta(), &here));
    if let Some(name) = metadata["name"].as_str() {
        for problem in names::path_segment_problems(name) {
            causes.push(Cause::invalid(&format!("{at}.name"), &json!(name), &problem));
        }
    }
    if let Some(labels) = metadata["labels"].as_object() {
        for (key, value) in labels {
            let at = format!("{at}.labels");
            for problem in names::qualified_name_problems(key) {
                causes.push(Cause::invalid(&at, &json!(key), &problem));
            }
            for problem in names::label_value_problems(value.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(&at, value, &problem));
            }
        }
    }
}

/// Checks that items of sets and keyed lists are unique.
pub(super) fn list_types(value: &Value, schema: &Schema, place: &Place<'_>, causes: &mut Vec<Cause>) {
    if !schema.holds().list_types {
        return;
    }
    if let Value::Array(items) = value {
        match schema.list_type {
            Some(ListType::Set) => duplicates(items, place, causes, Value::clone),
            Some(ListType::Map) => {
                let stray = |item: &Value| !item.is_object() && !item.is_null();
                match items.iter().position(stray) {
                    Some(index) => {
                        let detail = "must be an object for an array of list-type map";
                        causes.push(Cause::invalid(
                            &Place::Index(place, index).to_string(),
                            &items[index],
                            detail,
                        ));
                    }
                    None => duplicates(items, place, causes, |item| list_map_key(item, schema)),
                }
            }
            Some(ListType::Atomic) | None => {}
        }
    }
    children(value, schema, place, |value, node, place| {
        list_types(value, node, place, causes);
    });
}

/// The key fields of a list's item, defaults filled in.
fn list_map_key(item: &Value, schema: &Schema) -> Value {
    if item.is_null() {
        return Value::Object(Map::new());
    }
    let node = schema.item();
    schema
        .list_map_keys
        .iter()
        .filter_map(|key| {
            let default = || node?.property(key)?.default.as_deref();
            let value = item.get(key.as_str()).or_else(default)?;
            Some((key.to_string(), value.clone()))
        })
        .collect::<Map<String, Value>>()
        .into()
}

/// Reports each value that comes again, once.
fn duplicates(items: &[Value], place: &Place<'_>, causes: &mut Vec<Cause>, key: impl Fn(&Value) -> Value) {
    if items.len() < 2 {
        return;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        let times = seen.entry(key.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(&Place::Index(place, index).to_string(), &key));
        }
    }
}
