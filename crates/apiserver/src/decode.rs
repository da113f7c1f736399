//! Request bodies: JSON, YAML and Kubernetes protobuf, read into a tree.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use machinery::{ApiError, Reason};
use serde::de::{self, Deserialize, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What a body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

impl BodyFormat {
    /// From a `Content-Type`; nothing means JSON.
    pub(crate) fn from_content_type(content_type: &str) -> Result<Self, ApiError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(unsupported(&[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ])),
        }
    }
}

/// 415, in Kubernetes' words.
pub(crate) fn unsupported(supported: &[&str]) -> ApiError {
    ApiError::new(
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        ),
    )
}

/// A body as a tree, and the fields that it names twice.
pub(crate) fn decode(format: BodyFormat, body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    match format {
        BodyFormat::Json => json(body),
        BodyFormat::Yaml => {
            let text = std::str::from_utf8(body)
                .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")))?;
            let mut documents = codec::yaml::parse(text)
                .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")))?;
            let value = if documents.is_empty() {
                Value::Null
            } else {
                documents.swap_remove(0)
            };
            Ok((value, Vec::new()))
        }
        BodyFormat::Protobuf => codec::protobuf::decode(body)
            .map(|value| (value, Vec::new()))
            .map_err(|error| ApiError::bad_request(format!("the body cannot be decoded: {error}"))),
    }
}

/// JSON as a tree, and the paths of the fields that it names twice (the last one counts).
pub(crate) fn json(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let repeated = Cell::new(false);
    let read = |seed: Tree<'_>| {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let value = seed.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok::<Value, serde_json::Error>(value)
    };
    let value = read(Tree {
        repeated: &repeated,
        names: None,
        path: "",
    })
    .map_err(|error| ApiError::bad_request(format!("the body is no valid JSON: {error}")))?;
    if !repeated.get() {
        return Ok((value, Vec::new()));
    }
    let names = std::cell::RefCell::new(BTreeSet::new());
    let value = read(Tree {
        repeated: &repeated,
        names: Some(&names),
        path: "",
    })
    .unwrap_or(value);
    Ok((value, names.into_inner().into_iter().collect()))
}

/// Reads a tree and notices names that come twice in one object; only if asked does it keep their paths.
#[derive(Clone, Copy)]
struct Tree<'a> {
    repeated: &'a Cell<bool>,
    names: Option<&'a std::cell::RefCell<BTreeSet<String>>>,
    path: &'a str,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        let mut path = String::new();
        loop {
            if self.names.is_some() {
                path = format!("{}[{}]", self.path, items.len());
            }
            match sequence.next_element_seed(Tree { path: &path, ..self })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let mut path = String::new();
        while let Some(key) = entries.next_key::<String>()? {
            if self.names.is_some() {
                path = if self.path.is_empty() {
                    key.clone()
                } else {
                    format!("{}.{key}", self.path)
                };
            }
            let value = entries.next_value_seed(Tree { path: &path, ..self })?;
            if map.insert(key, value).is_some() {
                self.repeated.set(true);
                if let Some(names) = self.names {
                    names.borrow_mut().insert(path.clone());
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_json_and_names_what_comes_twice() {
        let (value, repeated) = json(br#"{"a":{"b":[{"c":1,"c":2}]},"x":null,"n":-1,"f":1.5}"#).unwrap();
        assert_eq!(value["a"]["b"][0]["c"], 2);
        assert_eq!(repeated, ["a.b[0].c"]);
        assert!(json(br#"{"a":1} x"#).is_err());
        let deep = "[".repeat(100_000);
        assert!(json(deep.as_bytes()).is_err());
    }

    #[test]
    fn knows_content_types() {
        assert_eq!(BodyFormat::from_content_type("").unwrap(), BodyFormat::Json);
        assert_eq!(
            BodyFormat::from_content_type("application/json; charset=utf-8").unwrap(),
            BodyFormat::Json
        );
        assert_eq!(BodyFormat::from_content_type("text/plain").unwrap_err().code, 415);
    }
}
