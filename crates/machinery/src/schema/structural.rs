//! Whether an `openAPIV3Schema` is structural, which a CustomResourceDefinition's must be: every field is described
//! once, outside of `allOf`, `anyOf`, `oneOf` and `not`, and those only restrict values.

use serde_json::{Map, Value, json};

use super::rules::{self, Site};
use super::{Additional, Schema, SchemaError};
use crate::Cause;

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that keeps a schema from being structural, in Kubernetes' words, each with its path below `path` (such
/// as `spec.versions[0].schema.openAPIV3Schema`). What [`Schema::from_openapi`] refuses comes first, alone.
pub fn structural_problems(openapi: &Value, path: &str) -> Vec<Cause> {
    let read = match Schema::from_openapi(openapi) {
        Ok(read) => read,
        Err(error) => return vec![unreadable(error, path)],
    };
    let mut causes = Vec::new();
    node(openapi, &read, Level::Root, path, None, &mut causes);
    complete(openapi, Some(openapi), path, path, &mut causes);
    causes.sort_by(|left, right| (&left.field, &left.message).cmp(&(&right.field, &right.message)));
    causes.dedup();
    causes
}

fn unreadable(error: SchemaError, path: &str) -> Cause {
    let field = if error.path.is_empty() {
        path.to_owned()
    } else {
        format!("{path}.{}", error.path)
    };
    Cause {
        reason: reason_of(&error.problem).to_owned(),
        message: error.problem,
        field,
    }
}

fn reason_of(problem: &str) -> &'static str {
    match problem.split(':').next() {
        Some("Forbidden") => "FieldValueForbidden",
        Some("Unsupported value") => "FieldValueNotSupported",
        Some("Required value") => "FieldValueRequired",
        Some("Too long") => "FieldValueTooLong",
        Some("Too many") => "FieldValueTooMany",
        Some(_) | None => "FieldValueInvalid",
    }
}

fn flag(node: &Value, key: &str) -> bool {
    node.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn properties(node: &Value) -> Option<&Map<String, Value>> {
    node.get("properties").and_then(Value::as_object)
}

fn branches<'a>(node: &'a Value, keyword: &str) -> &'a [Value] {
    node.get(keyword)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The value restrictions of a node, each with its path.
fn junctors<'a>(node: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in branches(node, keyword).iter().enumerate() {
            found.push((format!("{path}.{keyword}[{index}]"), branch));
        }
    }
    if let Some(not) = node.get("not").filter(|not| not.is_object()) {
        found.push((format!("{path}.not"), not));
    }
    found
}

/// `anyOf: [{type: integer}, {type: string}]`, the one place where restrictions may have types.
fn is_int_or_string(branches: &[Value]) -> bool {
    branches == [json!({"type": "integer"}), json!({"type": "string"})]
}

/// Looks at a node and those below; `read` is the node as it was read. `uncorrelatable` is the nearest above whose
/// values are not known again when their object is replaced.
fn node(
    schema: &Value,
    read: &Schema,
    level: Level,
    path: &str,
    uncorrelatable: Option<&str>,
    causes: &mut Vec<Cause>,
) {
    let at = |key: &str| format!("{path}.{key}");
    unsupported(schema, path, causes);
    kind(schema, level, path, causes);
    lists(schema, path, causes);
    embedded(schema, level, path, causes);
    let stated = branches(schema, "x-kubernetes-validations");
    if !stated.is_empty() {
        let site = Site {
            path,
            is_root: level == Level::Root,
            uncorrelatable,
        };
        rules::problems(stated, read, &site, causes);
    }
    let atomic_map = text(schema, "x-kubernetes-map-type") == "atomic";
    let below = uncorrelatable.or(atomic_map.then_some(path));
    if let Some(fields) = properties(schema) {
        for (key, field) in fields {
            if key == "metadata" && level == Level::Root {
                metadata(field, &format!("{path}.properties[metadata]"), causes);
            } else if let Some(read) = read.properties.get(key.as_str()) {
                let place = format!("{path}.properties[{key}]");
                node(field, read, Level::Field, &place, below, causes);
            }
        }
    }
    match schema.get("additionalProperties") {
        None | Some(Value::Null) => {}
        Some(more) => {
            let field = at("additionalProperties");
            if level == Level::Root {
                causes.push(Cause::forbidden(&field, "must not be used at the root"));
            }
            if properties(schema).is_some_and(|fields| !fields.is_empty()) && *more != json!(true) {
                let why = "additionalProperties and properties are mutual exclusive";
                causes.push(Cause::forbidden(&field, why));
            }
            if let Additional::Values(read) = &read.additional {
                node(more, read, Level::Field, &field, below, causes);
            }
        }
    }
    if let Some((items, read)) = schema.get("items").zip(read.item()) {
        let place = at("items");
        let keyed = text(schema, "x-kubernetes-list-type") == "map";
        let below = uncorrelatable.or((!keyed).then_some(path));
        node(items, read, Level::Item, &place, below, causes);
    }
    let skip_any = is_int_or_string(branches(schema, "anyOf"));
    let skip_all = branches(schema, "allOf")
        .first()
        .is_some_and(|first| is_int_or_string(branches(first, "anyOf")));
    for (place, branch) in junctors(schema, path) {
        if skip_any && place.starts_with(&at("anyOf")) {
            continue;
        }
        let skip = skip_all && place == at("allOf[0]");
        restriction(branch, skip, &place, causes);
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        check_default(read, default, &at("default"), causes);
    }
}

fn unsupported(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for keyword in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.get(keyword).is_some_and(|value| !value.is_null()) {
            let field = format!("{path}.{keyword}");
            causes.push(Cause::forbidden(&field, &format!("{keyword} is not supported")));
        }
    }
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(&format!("{path}.uniqueItems"), why));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(false)) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        causes.push(Cause::invalid(&field, &json!(false), "must be true or undefined"));
    }
}

fn kind(schema: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let field = format!("{path}.type");
    let kind = text(schema, "type");
    let (either, keep) = (
        flag(schema, "x-kubernetes-int-or-string"),
        flag(schema, "x-kubernetes-preserve-unknown-fields"),
    );
    if kind.is_empty() && !either && !keep && !flag(schema, "x-kubernetes-embedded-resource") {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(Cause::required(&field, why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        causes.push(Cause::invalid(&field, &json!(kind), "must be object at the root"));
    }
    if level == Level::Root && flag(schema, "nullable") {
        let why = "nullable cannot be true at the root";
        causes.push(Cause::forbidden(&format!("{path}.nullable"), why));
    }
    if kind == "array" && !schema.get("items").is_some_and(Value::is_object) {
        causes.push(Cause::required(&format!("{path}.items"), "must be specified"));
    }
    for (keyword, set) in [
        ("x-kubernetes-preserve-unknown-fields", keep),
        (
            "x-kubernetes-embedded-resource",
            flag(schema, "x-kubernetes-embedded-resource"),
        ),
    ] {
        if either && set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(&format!("{path}.{keyword}"), &json!(true), why));
        }
    }
}

fn embedded(schema: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    if embedded {
        let kind = text(schema, "type");
        let why = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            causes.push(Cause::required(&format!("{path}.type"), why));
        } else if kind != "object" {
            causes.push(Cause::invalid(&format!("{path}.type"), &json!(kind), why));
        }
        if schema.get("additionalProperties").is_some() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            causes.push(Cause::forbidden(&format!("{path}.additionalProperties"), why));
        }
        let keep = flag(schema, "x-kubernetes-preserve-unknown-fields");
        if !keep && properties(schema).is_none_or(Map::is_empty) {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            causes.push(Cause::required(&format!("{path}.properties"), why));
        }
    }
    if embedded || level == Level::Root {
        for (key, want) in [
            ("kind", "string"),
            ("apiVersion", "string"),
            ("metadata", "object"),
        ] {
            let found = properties(schema).and_then(|fields| fields.get(key));
            if let Some(field) = found.filter(|field| text(field, "type") != want) {
                let at = format!("{path}.properties[{key}].type");
                causes.push(Cause::invalid(&at, &field["type"], &format!("must be {want}")));
            }
        }
    }
}

/// The root's `metadata` is given; only the name may be restricted.
fn metadata(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let only_names = properties(schema)
        .is_none_or(|fields| fields.keys().all(|key| key == "name" || key == "generateName"));
    let other = schema.as_object().is_some_and(|map| {
        map.keys()
            .any(|key| !matches!(key.as_str(), "type" | "properties" | "default" | "format"))
    });
    if !only_names || other {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(Cause::forbidden(path, why));
    }
}

fn lists(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let at = |key: &str| format!("{path}.{key}");
    let kind = text(schema, "type");
    let list_type = text(schema, "x-kubernetes-list-type");
    let keys = branches(schema, "x-kubernetes-list-map-keys");
    for (keyword, want) in [
        ("x-kubernetes-map-type", "object"),
        ("x-kubernetes-list-type", "array"),
    ] {
        if !text(schema, keyword).is_empty() && kind != want {
            let why = format!("must be {want} if {keyword} is specified");
            causes.push(if kind.is_empty() {
                Cause::required(&at("type"), &why)
            } else {
                Cause::invalid(&at("type"), &json!(kind), &why)
            });
        }
    }
    if !keys.is_empty() && list_type != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = at("x-kubernetes-list-type");
        causes.push(if list_type.is_empty() {
            Cause::required(&field, why)
        } else {
            Cause::invalid(&field, &json!(list_type), why)
        });
    }
    let items = &schema["items"];
    if matches!(list_type, "set" | "map") && flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(&at("items.nullable"), &why));
    }
    if list_type == "set" {
        for (kind, keyword) in [
            ("array", "x-kubernetes-list-type"),
            ("object", "x-kubernetes-map-type"),
        ] {
            if text(items, "type") == kind && text(items, keyword) != "atomic" {
                let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                causes.push(Cause::invalid(
                    &at(&format!("items.{keyword}")),
                    &items[keyword],
                    why,
                ));
            }
        }
    }
    if list_type == "map" {
        keyed(schema, keys, path, causes);
    }
}

fn keyed(schema: &Value, keys: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let at = |key: &str| format!("{path}.{key}");
    let items = &schema["items"];
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(&at("x-kubernetes-list-map-keys"), why));
    }
    if !items.is_object() {
        let why = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(&at("items"), why));
        return;
    }
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(&at("items.type"), &items["type"], why));
    }
    let listed = schema["x-kubernetes-list-map-keys"].clone();
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        if keys[..index].contains(key) {
            let why = "must not contain duplicate entries";
            causes.push(Cause::invalid(&at("x-kubernetes-list-map-keys"), &listed, why));
        }
        let Some(field) = properties(items).and_then(|fields| fields.get(name)) else {
            let why = "entries must all be names of item properties";
            causes.push(Cause::invalid(&at("x-kubernetes-list-map-keys"), &listed, why));
            continue;
        };
        let place = at(&format!("items.properties[{name}]"));
        if matches!(text(field, "type"), "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.push(Cause::invalid(&format!("{place}.type"), &items["type"], why));
        }
        if !branches(items, "required").contains(key) && field.get("default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(&format!("{place}.default"), why));
        }
        if flag(field, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(&format!("{place}.nullable"), why));
        }
    }
}

/// A node below `allOf` and the like may not describe anything.
fn restriction(schema: &Value, skip_any: bool, path: &str, causes: &mut Vec<Cause>) {
    for (keyword, why) in [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let set = match schema.get(keyword) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Bool(true) | Value::Number(_) | Value::Object(_)) => true,
        };
        if set {
            causes.push(Cause::forbidden(&format!("{path}.{keyword}"), why));
        }
    }
    if let Some(fields) = properties(schema) {
        for (key, field) in fields {
            let place = format!("{path}.properties[{key}]");
            if key == "metadata" {
                causes.push(Cause::forbidden(
                    &place,
                    "must not be specified in a nested context",
                ));
            }
            restriction(field, false, &place, causes);
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        restriction(items, false, &format!("{path}.items"), causes);
    }
    for (place, branch) in junctors(schema, path) {
        if !(skip_any && place.starts_with(&format!("{path}.anyOf"))) {
            restriction(branch, false, &place, causes);
        }
    }
}

/// What restrictions speak of must be described outside of them. `described` is the node that does.
fn complete(
    schema: &Value,
    described: Option<&Value>,
    path: &str,
    restricted: &str,
    causes: &mut Vec<Cause>,
) {
    for (place, branch) in junctors(schema, restricted) {
        covered(branch, described, path, &place, causes);
    }
}

fn covered(branch: &Value, described: Option<&Value>, path: &str, place: &str, causes: &mut Vec<Cause>) {
    let Some(described) = described else {
        causes.push(Cause::required(
            path,
            &format!("because it is defined in {place}"),
        ));
        return;
    };
    complete(branch, Some(described), path, place, causes);
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        let inner = described.get("items").filter(|items| items.is_object());
        covered(
            items,
            inner,
            &format!("{path}.items"),
            &format!("{place}.items"),
            causes,
        );
    }
    if let Some(fields) = properties(branch) {
        for (key, field) in fields {
            let inner = properties(described).and_then(|fields| fields.get(key));
            let step = format!("properties[{key}]");
            covered(
                field,
                inner,
                &format!("{path}.{step}"),
                &format!("{place}.{step}"),
                causes,
            );
        }
    }
}

/// A default has no unknown fields and is valid.
fn check_default(node: &Schema, default: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut value = default.clone();
    if !node.prune_value(&mut value).is_empty() {
        causes.push(Cause::invalid(path, default, "must not have unknown fields"));
        return;
    }
    node.fill_defaults(&mut value);
    for problem in node.validate(&value) {
        let field = match problem.field.as_str() {
            "" | "<nil>" => path.to_owned(),
            below => format!("{path}.{below}"),
        };
        causes.push(Cause { field, ..problem });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_usual_schema() {
        let schema = json!({"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {"type": "object", "oneOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 1}}}], "properties": {
                "a": {"type": "string", "default": "x"}, "b": {"type": "integer"},
                "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "map": {"type": "object", "additionalProperties": {"type": "string"}}
            }}
        }});
        assert_eq!(structural_problems(&schema, "s"), []);
    }

    #[test]
    fn names_what_is_not_structural() {
        for (schema, field, message) in [
            (
                json!({}),
                "s.type",
                "Required value: must not be empty at the root",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "s.type",
                "Invalid value: \"array\": must be object at the root",
            ),
            (
                json!({"type": "object", "properties": {"a": {}}}),
                "s.properties[a].type",
                "Required value: must not be empty for specified object fields",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "s.properties[a].items",
                "Required value: must be specified",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"a": {"type": "string"}}}]}),
                "s.anyOf[0].properties[a].type",
                "Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "object", "not": {"properties": {"b": {}}}}}}),
                "",
                "",
            ),
            (
                json!({"type": "object", "not": {"properties": {"b": {}}}}),
                "s.properties[b]",
                "Required value: because it is defined in s.not.properties[b]",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": false}}}),
                "s.properties[a].additionalProperties",
                "Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            (
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                "s.properties[metadata]",
                "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
                "s.properties[a].uniqueItems",
                "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
                "s.properties[a].default",
                "Invalid value: \"string\":  in body must be of type integer: \"string\"",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "x"}}}),
                "s.properties[a].type",
                "Unsupported value: \"x\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ),
        ] {
            let causes = structural_problems(&schema, "s");
            let found: Vec<(&str, &str)> = causes
                .iter()
                .map(|cause| (cause.field.as_str(), cause.message.as_str()))
                .collect();
            if field.is_empty() {
                // Kubernetes looks at the root's restrictions only.
                assert_eq!(found, []);
            } else {
                assert_eq!(found, [(field, message)], "{schema}");
            }
        }
    }
}
