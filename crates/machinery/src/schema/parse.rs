//! Reading `openAPIV3Schema`.

use std::sync::Arc;

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::{Additional, Kind, Link, ListType, PatchStrategy, Pattern, Rule, Rules, Schema};

/// How deep a schema may nest.
pub const MAX_DEPTH: usize = 128;
/// How many nodes a schema may have.
pub const MAX_NODES: usize = 100_000;

/// Why a value is no schema that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct SchemaError {
    /// Where in the schema, such as `properties[spec].type`; empty for the root.
    pub path: String,
    /// What is wrong there, such as `Invalid value: "x": ...`.
    pub problem: String,
}

impl Schema {
    /// Reads an OpenAPI v3 schema, as in a CustomResourceDefinition's `openAPIV3Schema`.
    ///
    /// # Errors
    /// [`SchemaError`] where a keyword has a value of the wrong type, a type, list type or pattern is not known or
    /// a `$ref` is found, and where the schema is deeper than [`MAX_DEPTH`] or larger than [`MAX_NODES`].
    pub fn from_openapi(value: &Value) -> Result<Self, SchemaError> {
        Self::from_openapi_with(value, &|_| None)
    }

    /// The same, with a way to resolve `$ref`s (the whole reference text is given).
    ///
    /// # Errors
    /// As [`Schema::from_openapi`].
    pub fn from_openapi_with(
        value: &Value,
        refs: &dyn Fn(&str) -> Option<Link>,
    ) -> Result<Self, SchemaError> {
        let mut reader = Reader {
            refs,
            nodes: 0,
            path: Vec::new(),
        };
        reader.node(value)
    }
}

struct Reader<'a> {
    refs: &'a dyn Fn(&str) -> Option<Link>,
    nodes: usize,
    path: Vec<String>,
}

impl Reader<'_> {
    fn error<T>(&self, at: &str, problem: impl Into<String>) -> Result<T, SchemaError> {
        let mut path = self.path.join(".");
        if !at.is_empty() {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(at);
        }
        Err(SchemaError {
            path,
            problem: problem.into(),
        })
    }

    fn wrong_type<T>(&self, at: &str, value: &Value, want: &str) -> Result<T, SchemaError> {
        self.error(at, format!("Invalid value: {}: must be {want}", short(value)))
    }

    fn link(&mut self, value: &Value, step: String) -> Result<Link, SchemaError> {
        self.path.push(step);
        let link = match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => match (self.refs)(reference) {
                Some(link) => link,
                None => return self.error("$ref", "Forbidden: $ref is not supported"),
            },
            None => Link::of(self.node(value)?),
        };
        self.path.pop();
        Ok(link)
    }

    fn node(&mut self, value: &Value) -> Result<Schema, SchemaError> {
        let Some(map) = value.as_object() else {
            return self.wrong_type("", value, "an object");
        };
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return self.error(
                "",
                format!("Too many: the schema has more than {MAX_NODES} nodes"),
            );
        }
        if self.path.len() > MAX_DEPTH {
            return self.error(
                "",
                format!("Too long: the schema nests deeper than {MAX_DEPTH} levels"),
            );
        }
        let mut node = Schema {
            kind: self.kind(map)?,
            description: self.text(map, "description")?.into(),
            nullable: self.flag(map, "nullable")?,
            default: map.get("default").map(|value| Arc::new(value.clone())),
            preserve_unknown: self.flag(map, "x-kubernetes-preserve-unknown-fields")?,
            embedded_resource: self.flag(map, "x-kubernetes-embedded-resource")?,
            list_map_keys: self.texts(map, "x-kubernetes-list-map-keys")?,
            patch_strategy: PatchStrategy::parse(self.text(map, "x-kubernetes-patch-strategy")?),
            patch_merge_key: Some(self.text(map, "x-kubernetes-patch-merge-key")?)
                .filter(|key| !key.is_empty())
                .map(SmolStr::from),
            ..Schema::default()
        };
        node.list_type = match self.text(map, "x-kubernetes-list-type")? {
            "" => None,
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            other => {
                return self.error(
                    "x-kubernetes-list-type",
                    format!("Unsupported value: {other:?}: supported values: \"atomic\", \"map\", \"set\""),
                );
            }
        };
        node.atomic_map = match self.text(map, "x-kubernetes-map-type")? {
            "" | "granular" => false,
            "atomic" => true,
            other => {
                return self.error(
                    "x-kubernetes-map-type",
                    format!("Unsupported value: {other:?}: supported values: \"atomic\", \"granular\""),
                );
            }
        };
        if let Some(properties) = self.object(map, "properties")? {
            for (key, value) in properties {
                let link = self.link(value, format!("properties[{key}]"))?;
                node.properties.insert(key.into(), link);
            }
        }
        node.additional = match map.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Unset,
            Some(Value::Bool(true)) => Additional::Any,
            Some(Value::Bool(false)) => Additional::Forbidden,
            Some(value) => Additional::Values(self.link(value, "additionalProperties".to_owned())?),
        };
        node.items = match map.get("items") {
            None | Some(Value::Null) => None,
            Some(value) => Some(self.link(value, "items".to_owned())?),
        };
        node.rules = self.rules(map)?;
        Ok(node)
    }

    fn kind(&self, map: &Map<String, Value>) -> Result<Kind, SchemaError> {
        if self.flag(map, "x-kubernetes-int-or-string")? {
            return Ok(Kind::IntOrString);
        }
        Ok(match self.text(map, "type")? {
            // The form of the built-in IntOrString.
            "string" if map.get("format").is_some_and(|format| format == "int-or-string") => {
                Kind::IntOrString
            }
            "" => Kind::Any,
            "object" => Kind::Object,
            "array" => Kind::Array,
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            other => {
                return self.error(
                    "type",
                    format!(
                        "Unsupported value: {other:?}: supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""
                    ),
                );
            }
        })
    }

    fn rules(&mut self, map: &Map<String, Value>) -> Result<Option<Box<Rules>>, SchemaError> {
        const KEYWORDS: [&str; 21] = [
            "format",
            "required",
            "enum",
            "pattern",
            "minimum",
            "exclusiveMinimum",
            "maximum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "uniqueItems",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "x-kubernetes-validations",
        ];
        if !KEYWORDS.iter().any(|keyword| map.contains_key(*keyword)) {
            return Ok(None);
        }
        let mut rules = Rules {
            format: self.text(map, "format")?.into(),
            required: self.texts(map, "required")?,
            allowed: self.list(map, "enum")?.map(<[Value]>::to_vec),
            minimum: self.number(map, "minimum")?,
            exclusive_minimum: self.flag(map, "exclusiveMinimum")?,
            maximum: self.number(map, "maximum")?,
            exclusive_maximum: self.flag(map, "exclusiveMaximum")?,
            multiple_of: self.number(map, "multipleOf")?,
            min_length: self.count(map, "minLength")?,
            max_length: self.count(map, "maxLength")?,
            min_items: self.count(map, "minItems")?,
            max_items: self.count(map, "maxItems")?,
            min_properties: self.count(map, "minProperties")?,
            max_properties: self.count(map, "maxProperties")?,
            unique_items: self.flag(map, "uniqueItems")?,
            validations: self
                .list(map, "x-kubernetes-validations")?
                .unwrap_or_default()
                .iter()
                .map(Rule::from_value)
                .collect(),
            ..Rules::default()
        };
        let pattern = self.text(map, "pattern")?;
        if !pattern.is_empty() {
            rules.pattern = match Pattern::new(pattern) {
                Ok(pattern) => Some(pattern),
                Err(problem) => {
                    return self.error(
                        "pattern",
                        format!("Invalid value: {pattern:?}: must be a valid regular expression, but isn't: {problem}"),
                    );
                }
            };
        }
        for (keyword, index) in [("allOf", 0), ("anyOf", 1), ("oneOf", 2)] {
            let mut links = Vec::new();
            for (at, value) in self.list(map, keyword)?.unwrap_or_default().iter().enumerate() {
                links.push(self.link(value, format!("{keyword}[{at}]"))?);
            }
            match index {
                0 => rules.all_of = links,
                1 => rules.any_of = links,
                _ => rules.one_of = links,
            }
        }
        if let Some(value) = map.get("not").filter(|value| !value.is_null()) {
            rules.not = Some(self.link(value, "not".to_owned())?);
        }
        Ok(Some(Box::new(rules)))
    }

    fn text<'v>(&self, map: &'v Map<String, Value>, key: &str) -> Result<&'v str, SchemaError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(other) => self.wrong_type(key, other, "a string"),
        }
    }

    fn flag(&self, map: &Map<String, Value>, key: &str) -> Result<bool, SchemaError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => self.wrong_type(key, other, "a boolean"),
        }
    }

    fn number(&self, map: &Map<String, Value>, key: &str) -> Result<Option<f64>, SchemaError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => self.wrong_type(key, value, "a number"),
            },
        }
    }

    fn count(&self, map: &Map<String, Value>, key: &str) -> Result<Option<u64>, SchemaError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) => Ok(Some(count)),
                None => self.wrong_type(key, value, "greater than or equal to 0"),
            },
        }
    }

    fn list<'v>(&self, map: &'v Map<String, Value>, key: &str) -> Result<Option<&'v [Value]>, SchemaError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => self.wrong_type(key, other, "an array"),
        }
    }

    fn object<'v>(
        &self,
        map: &'v Map<String, Value>,
        key: &str,
    ) -> Result<Option<&'v Map<String, Value>>, SchemaError> {
        match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => self.wrong_type(key, other, "an object"),
        }
    }

    fn texts(&self, map: &Map<String, Value>, key: &str) -> Result<Vec<SmolStr>, SchemaError> {
        let mut texts = Vec::new();
        for value in self.list(map, key)?.unwrap_or_default() {
            match value.as_str() {
                Some(text) => texts.push(text.into()),
                None => return self.wrong_type(key, value, "a string"),
            }
        }
        Ok(texts)
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
