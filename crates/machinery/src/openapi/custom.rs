//! Schemas of custom kinds.

use serde_json::{Map, Value, json};

use super::{CustomKind, Dialect};

/// The name of `ObjectMeta` in OpenAPI.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The name of `ListMeta` in OpenAPI.
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// How deep a schema is followed.
const DEPTH: usize = 128;

/// The name in OpenAPI of a kind of a custom group: `io.example.stable.v1.CronTab`.
pub(super) fn type_name(group: &str, version: &str, kind: &str) -> String {
    let mut words: Vec<&str> = group.split('.').rev().collect();
    words.push(version);
    words.push(kind);
    words.join(".")
}

/// Adds the schemas of a kind and of its list.
pub(super) fn schemas(kind: &CustomKind<'_>, dialect: Dialect, into: &mut Map<String, Value>) {
    let name = type_name(kind.group, kind.version, kind.kind);
    let mut schema = match kind.schema {
        Some(Value::Object(schema)) => schema.clone(),
        _ => Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true))]),
    };
    match dialect {
        Dialect::V3 => embed(&mut schema, DEPTH),
        Dialect::V2 => simplify(&mut schema, DEPTH),
    }
    schema.insert("type".to_owned(), json!("object"));
    add_object_fields(&mut schema, dialect, OBJECT_META);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), gvk(kind, kind.kind));
    let mut list = Map::new();
    list.insert("type".to_owned(), json!("object"));
    list.insert("required".to_owned(), json!(["items"]));
    list.insert(
        "properties".to_owned(),
        json!({"items": {"type": "array", "items": dialect.reference(&name)}}),
    );
    add_object_fields(&mut list, dialect, LIST_META);
    list.insert(
        "description".to_owned(),
        json!(format!("{} is a list of {}", kind.list_kind, kind.kind)),
    );
    list.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        gvk(kind, kind.list_kind),
    );
    into.insert(
        type_name(kind.group, kind.version, kind.list_kind),
        Value::Object(list),
    );
    into.insert(name, Value::Object(schema));
}

fn gvk(kind: &CustomKind<'_>, name: &str) -> Value {
    json!([{"group": kind.group, "version": kind.version, "kind": name}])
}

/// Says what `apiVersion`, `kind` and `metadata` are.
fn add_object_fields(schema: &mut Map<String, Value>, dialect: Dialect, meta: &str) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else {
        return;
    };
    properties.insert(
        "apiVersion".to_owned(),
        json!({"type": "string", "description": "The group and version whose form the object has."}),
    );
    properties.insert(
        "kind".to_owned(),
        json!({"type": "string", "description": "The kind of the object. Cannot be updated."}),
    );
    let description = "Standard object's metadata.";
    let reference = dialect.reference(meta);
    let metadata = match dialect {
        Dialect::V3 => json!({"allOf": [reference], "description": description}),
        Dialect::V2 => json!({"$ref": reference["$ref"], "description": description}),
    };
    properties.insert("metadata".to_owned(), metadata);
}

/// Calls back for each schema right below one.
fn each_inner(schema: &mut Map<String, Value>, mut found: impl FnMut(&mut Map<String, Value>)) {
    for key in ["properties", "patternProperties", "definitions"] {
        if let Some(Value::Object(inner)) = schema.get_mut(key) {
            inner
                .values_mut()
                .filter_map(Value::as_object_mut)
                .for_each(&mut found);
        }
    }
    for key in ["items", "additionalProperties", "not"] {
        match schema.get_mut(key) {
            Some(Value::Object(inner)) => found(inner),
            Some(Value::Array(list)) => list
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(&mut found),
            _ => {}
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(list)) = schema.get_mut(key) {
            list.iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(&mut found);
        }
    }
}

/// Embedded objects have the fields of all objects.
fn embed(schema: &mut Map<String, Value>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    each_inner(schema, |inner| embed(inner, depth));
    if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        add_object_fields(schema, Dialect::V3, OBJECT_META);
    }
}

/// Leaves out what OpenAPI v2 cannot say, and what its readers would take too narrowly.
fn simplify(schema: &mut Map<String, Value>, depth: usize) {
    const SAID_ONLY_IN_V3: [&str; 7] = [
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "nullable",
        "default",
        "x-kubernetes-validations",
    ];
    let Some(depth) = depth.checked_sub(1) else {
        schema.clear();
        return;
    };
    let is = |schema: &Map<String, Value>, key: &str| schema.get(key) == Some(&Value::Bool(true));
    if is(schema, "x-kubernetes-int-or-string") {
        schema.remove("type");
    }
    if is(schema, "x-kubernetes-preserve-unknown-fields") {
        schema.remove("properties");
        schema.remove("items");
    }
    if is(schema, "nullable") {
        for key in ["type", "properties", "items", "additionalProperties", "required"] {
            schema.remove(key);
        }
    }
    for key in SAID_ONLY_IN_V3 {
        schema.remove(key);
    }
    each_inner(schema, |inner| simplify(inner, depth));
    if is(schema, "x-kubernetes-embedded-resource") {
        add_object_fields(schema, Dialect::V2, OBJECT_META);
    }
}
