//! Request bodies: JSON, YAML and Kubernetes protobuf, read into a tree.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;

use machinery::{ApiError, Reason};
use serde::de::{self, Deserialize, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What a body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf.
    Protobuf,
}

impl BodyFormat {
    /// From a `Content-Type`; nothing means JSON.
    ///
    /// # Errors
    /// 415 for anything else.
    pub fn from_content_type(content_type: &str) -> Result<Self, ApiError> {
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
pub fn unsupported(supported: &[&str]) -> ApiError {
    ApiError::new(
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        ),
    )
}

/// A body as a tree, and the fields that it names twice.
///
/// # Errors
/// 400 for what cannot be read.
pub fn decode(format: BodyFormat, body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    match format {
        BodyFormat::Json => json(body),
        BodyFormat::Yaml => {
            // most of what is sent as YAML is JSON
            if body.starts_with(b"{") {
                match json(body) {
                    Err(error) if error.reason == Reason::BadRequest => {}
                    read => return read,
                }
            }
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
///
/// # Errors
/// 400 for what cannot be read.
pub fn json(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let bounds = Bounds {
        room: Cell::new(ROOM),
        repeated: Cell::new(false),
    };
    let read = |names| {
        bounds.room.set(ROOM);
        let seed = Tree {
            bounds: &bounds,
            names,
            path: "",
            path_length: 0,
        };
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let value = seed.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok::<Value, serde_json::Error>(value)
    };
    let value = read(None).map_err(|error| {
        if bounds.room.get() == 0 {
            ApiError::new(
                Reason::RequestEntityTooLarge,
                format!("Request entity too large: {TOO_MUCH}"),
            )
        } else {
            ApiError::bad_request(format!("the body is no valid JSON: {error}"))
        }
    })?;
    if !bounds.repeated.get() {
        return Ok((value, Vec::new()));
    }
    let names = RefCell::new(BTreeSet::new());
    let value = read(Some(&names)).unwrap_or(value);
    Ok((value, names.into_inner().into_iter().collect()))
}

/// About so many bytes of memory may a tree take: small values take many times what they take in JSON.
const ROOM: usize = 64 << 20;
const TOO_MUCH: &str = "limit is 64 MiB for the values of a body";
/// What a list or map takes for its first value.
const FIRST: usize = 640;
/// What a value takes in a list or map.
const EACH: usize = 64;
/// The names on the way to a field may have so many bytes together: messages repeat them.
const PATH_LIMIT: usize = 8 * 1_024;
/// So many fields that come twice are told.
const NAMES_LIMIT: usize = 1_000;

struct Bounds {
    /// How many bytes the tree may still take; 0 once it wanted more.
    room: Cell<usize>,
    repeated: Cell<bool>,
}

impl Bounds {
    fn take<E: de::Error>(&self, bytes: usize) -> Result<(), E> {
        match self.room.get().checked_sub(bytes) {
            Some(left) if left > 0 => self.room.set(left),
            Some(_) | None => {
                self.room.set(0);
                return Err(E::custom(TOO_MUCH));
            }
        }
        Ok(())
    }
}

/// Reads a tree and notices names that come twice in one object; only if asked does it keep their paths.
#[derive(Clone, Copy)]
struct Tree<'a> {
    bounds: &'a Bounds,
    names: Option<&'a RefCell<BTreeSet<String>>>,
    path: &'a str,
    path_length: usize,
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
                Some(item) => {
                    self.bounds
                        .take(if items.is_empty() { FIRST / 4 } else { EACH })?;
                    items.push(item);
                }
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let mut path = String::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path_length = self.path_length + key.len() + 1;
            if path_length > PATH_LIMIT {
                return Err(de::Error::custom(format!(
                    "the names on the way to a field have more than {PATH_LIMIT} bytes"
                )));
            }
            self.bounds.take(if map.is_empty() { FIRST } else { EACH })?;
            if self.names.is_some() {
                path = if self.path.is_empty() {
                    key.clone()
                } else {
                    format!("{}.{key}", self.path)
                };
            }
            let inner = Tree {
                path: &path,
                path_length,
                ..self
            };
            let value = entries.next_value_seed(inner)?;
            if map.insert(key, value).is_some() {
                self.bounds.repeated.set(true);
                if let Some(names) = self.names
                    && names.borrow().len() < NAMES_LIMIT
                {
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
    fn takes_little_memory_for_small_bodies() {
        let repeat = |part: &str, count: usize| format!("{{\"a\":[{}1]}}", part.repeat(count));
        for (body, code) in [
            (repeat(r#"{"":1},"#, 90_000), None),
            (repeat(r#"{"":1},"#, 200_000), Some(413)),
            (repeat("[1],", 700_000), Some(413)),
            (repeat("1,", 1_000_000), None),
            (
                format!(r#"{{"{}":{{"a":1,"a":2}}}}"#, "k".repeat(10_000)),
                Some(400),
            ),
        ] {
            for format in [BodyFormat::Json, BodyFormat::Yaml] {
                let read = decode(format, body.as_bytes());
                let start = &body[..20];
                if code == Some(400) && format == BodyFormat::Yaml {
                    continue;
                }
                assert_eq!(read.err().map(|error| error.code), code, "{start}");
            }
        }
        let many: String = (0..5_000).map(|n| format!(r#""k{n}":1,"k{n}":2,"#)).collect();
        let (_, repeated) = json(format!("{{{many}\"z\":1}}").as_bytes()).unwrap();
        assert_eq!(repeated.len(), NAMES_LIMIT);
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
