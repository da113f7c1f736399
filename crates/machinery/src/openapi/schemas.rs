//! Schemas of built-in types, with all that they refer to.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::builtin::{Body, Field, Library, Plain, Shape, TypeDef, default_value};

/// A growing set of types.
pub(super) struct Schemas {
    dialect: Dialect,
    wanted: Vec<u32>,
    seen: BTreeSet<u32>,
}

impl Schemas {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            wanted: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Adds a type by name; what is no built-in type is passed over.
    pub(super) fn add(&mut self, name: &str) {
        if let Some(index) = Library::get().named(name) {
            self.want(index);
        }
    }

    fn want(&mut self, index: u32) {
        if self.seen.insert(index) {
            self.wanted.push(index);
        }
    }

    fn want_shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Type(index) => self.want(*index),
            Shape::List(inner) | Shape::Map(inner) => self.want_shape(inner),
            Shape::Plain(_) => {}
        }
    }

    /// The schemas of the types added and of those that they refer to.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut found = Map::new();
        while let Some(index) = self.wanted.pop() {
            let define = Library::get().define(index);
            if let Body::Fields(fields) = &define.body {
                for field in fields {
                    self.want_shape(&field.shape);
                }
            }
            let schema = type_schema(&define, self.dialect);
            found.insert(define.full_name, schema);
        }
        found
    }
}

fn type_schema(define: &TypeDef, dialect: Dialect) -> Value {
    let mut schema = match &define.body {
        // the type of free objects says so, though anything is taken
        Body::Plain(Plain::Anything) if define.full_name.ends_with(".RawExtension") => {
            object([("type", json!("object"))])
        }
        Body::Plain(plain) => plain_schema(*plain, dialect),
        Body::Fields(fields) => {
            let properties: Map<String, Value> = fields
                .iter()
                .map(|field| (field.name.to_owned(), field_schema(field, dialect)))
                .collect();
            let required: Vec<&str> = fields
                .iter()
                .filter(|field| field.required)
                .map(|field| field.name)
                .collect();
            let mut schema = object([
                ("type", json!("object")),
                ("properties", Value::Object(properties)),
            ]);
            if !required.is_empty() {
                schema.insert("required".to_owned(), json!(required));
            }
            schema
        }
    };
    if define.atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    if !define.kinds.is_empty() {
        let kinds: Vec<Value> = define
            .kinds
            .iter()
            .map(|(group, version, kind)| json!({"group": group, "version": version, "kind": kind}))
            .collect();
        schema.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
    }
    Value::Object(schema)
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn plain_schema(plain: Plain, dialect: Dialect) -> Map<String, Value> {
    let (kind, format) = match (plain, dialect) {
        (Plain::Text, _) => ("string", ""),
        (Plain::Int32, _) => ("integer", "int32"),
        (Plain::Int64, _) => ("integer", "int64"),
        (Plain::Bool, _) => ("boolean", ""),
        (Plain::Double, _) => ("number", "double"),
        (Plain::Base64, _) => ("string", "byte"),
        (Plain::Time, _) => ("string", "date-time"),
        (Plain::Object, _) => ("object", ""),
        (Plain::Anything, _) => return Map::new(),
        (Plain::Quantity, Dialect::V2) => ("string", ""),
        (Plain::IntOrString, Dialect::V2) => ("string", "int-or-string"),
        (Plain::Quantity, Dialect::V3) => {
            return object([("oneOf", json!([{"type": "string"}, {"type": "number"}]))]);
        }
        (Plain::IntOrString, Dialect::V3) => {
            let one_of = json!([{"type": "integer"}, {"type": "string"}]);
            return object([("format", json!("int-or-string")), ("oneOf", one_of)]);
        }
    };
    let mut schema = object([("type", json!(kind))]);
    if !format.is_empty() {
        schema.insert("format".to_owned(), json!(format));
    }
    schema
}

fn shape_schema(shape: &Shape, allowed: &[String], dialect: Dialect) -> Map<String, Value> {
    match shape {
        Shape::Plain(plain) => {
            let mut schema = plain_schema(*plain, dialect);
            if !allowed.is_empty() {
                schema.insert("enum".to_owned(), json!(allowed));
            }
            schema
        }
        Shape::List(inner) => {
            let items = Value::Object(shape_schema(inner, allowed, dialect));
            object([("type", json!("array")), ("items", items)])
        }
        Shape::Map(inner) => {
            let values = Value::Object(shape_schema(inner, allowed, dialect));
            object([("type", json!("object")), ("additionalProperties", values)])
        }
        Shape::Type(index) => {
            let name = Library::get().full_name(*index);
            let reference = dialect.reference(&name);
            object([("$ref", reference["$ref"].clone())])
        }
    }
}

fn field_schema(field: &Field, dialect: Dialect) -> Value {
    let mut schema = shape_schema(&field.shape, &field.allowed, dialect);
    let mut facts = Map::new();
    let mut fact = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            facts.insert(name.to_owned(), value);
        }
    };
    // v2 has no defaults: its readers would write them into objects
    let default = field.default.filter(|_| dialect == Dialect::V3);
    fact("default", default.map(|text| default_value(&field.shape, text)));
    fact("x-kubernetes-list-type", field.list_type.map(Value::from));
    let keys = &field.list_map_keys;
    fact(
        "x-kubernetes-list-map-keys",
        (!keys.is_empty()).then(|| json!(keys)),
    );
    fact("x-kubernetes-map-type", field.atomic_map.then(|| json!("atomic")));
    fact(
        "x-kubernetes-patch-strategy",
        field.patch_strategy.map(Value::from),
    );
    fact(
        "x-kubernetes-patch-merge-key",
        field.patch_merge_key.map(Value::from),
    );
    // in v3 nothing may stand beside a reference
    if dialect == Dialect::V3 && !facts.is_empty() && schema.contains_key("$ref") {
        schema = object([("allOf", json!([schema]))]);
    }
    schema.extend(facts);
    Value::Object(schema)
}
