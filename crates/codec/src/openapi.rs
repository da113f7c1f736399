//! OpenAPI v2 documents as protobuf (`openapi.v2.Document` of gnostic), the form in which Go clients ask for them.
//!
//! The tables say which number carries which key; [`encode()`] walks a document along them. What a document holds
//! beyond that has no protobuf form and is left out.

use serde_json::Value;

use crate::wire;

/// The media type as clients ask for it.
pub const CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type as answers name it: `@` is not allowed in one.
pub const ANSWER_CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// How deep a document is followed.
const DEPTH: usize = 256;

/// A message: the numbers of its keys.
struct Message {
    fields: &'static [(&'static str, u32, Shape)],
    /// Where other keys go, each with its value.
    others: Option<(u32, &'static Shape)>,
    /// Where keys go that begin with `x-`; 0 for nowhere.
    extensions: u32,
}

/// What becomes of a value. One that does not fit is left out.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Whole,
    Float,
    /// Any value, as YAML.
    Any,
    One(fn() -> &'static Message),
    /// Each item of a list; a value that is no list counts as its only item.
    List(&'static Shape),
    /// A message with one of several fields.
    Choice(fn(&Value) -> Option<(u32, Shape)>),
}

const TEXTS: Shape = Shape::List(&Shape::Text);
const ANYS: Shape = Shape::List(&Shape::Any);
const SCHEMAS: Shape = Shape::List(&Shape::One(|| &SCHEMA));
const PARAMETERS: Shape = Shape::List(&Shape::Choice(parameter_or_reference));
const SECURITY: Shape = Shape::List(&Shape::One(|| &REQUIREMENT));

/// A message of keys and values alone.
const fn names(of: &'static Shape) -> Message {
    Message {
        fields: &[],
        others: Some((1, of)),
        extensions: 0,
    }
}

const WORDS: Shape = Shape::Choice(|_| Some((1, TEXTS)));

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Shape::Text),
        ("info", 2, Shape::One(|| &INFO)),
        ("host", 3, Shape::Text),
        ("basePath", 4, Shape::Text),
        ("schemes", 5, TEXTS),
        ("consumes", 6, TEXTS),
        ("produces", 7, TEXTS),
        ("paths", 8, Shape::One(|| &PATHS)),
        ("definitions", 9, Shape::One(|| &PROPERTIES)),
        ("parameters", 10, Shape::One(|| &PARAMETERS_BY_NAME)),
        ("responses", 11, Shape::One(|| &RESPONSES_BY_NAME)),
        ("security", 12, SECURITY),
        ("securityDefinitions", 13, Shape::One(|| &SECURITY_DEFINITIONS)),
        ("externalDocs", 15, Shape::One(|| &EXTERNAL_DOCS)),
    ],
    others: None,
    extensions: 16,
};

static INFO: Message = Message {
    fields: &[
        ("title", 1, Shape::Text),
        ("version", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("termsOfService", 4, Shape::Text),
    ],
    others: None,
    extensions: 7,
};

static EXTERNAL_DOCS: Message = Message {
    fields: &[("description", 1, Shape::Text), ("url", 2, Shape::Text)],
    others: None,
    extensions: 3,
};

static PATHS: Message = Message {
    fields: &[],
    others: Some((2, &Shape::One(|| &PATH_ITEM))),
    extensions: 1,
};

static PATH_ITEM: Message = Message {
    fields: &[
        ("$ref", 1, Shape::Text),
        ("get", 2, Shape::One(|| &OPERATION)),
        ("put", 3, Shape::One(|| &OPERATION)),
        ("post", 4, Shape::One(|| &OPERATION)),
        ("delete", 5, Shape::One(|| &OPERATION)),
        ("options", 6, Shape::One(|| &OPERATION)),
        ("head", 7, Shape::One(|| &OPERATION)),
        ("patch", 8, Shape::One(|| &OPERATION)),
        ("parameters", 9, PARAMETERS),
    ],
    others: None,
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, TEXTS),
        ("summary", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("externalDocs", 4, Shape::One(|| &EXTERNAL_DOCS)),
        ("operationId", 5, Shape::Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, PARAMETERS),
        ("responses", 9, Shape::One(|| &RESPONSES)),
        ("schemes", 10, TEXTS),
        ("deprecated", 11, Shape::Flag),
        ("security", 12, SECURITY),
    ],
    others: None,
    extensions: 13,
};

static RESPONSES: Message = Message {
    fields: &[],
    others: Some((1, &Shape::Choice(response_or_reference))),
    extensions: 2,
};

static RESPONSE: Message = Message {
    fields: &[
        ("description", 1, Shape::Text),
        // the schema is one of two kinds, of which the other is files
        ("schema", 2, Shape::Choice(|_| Some((1, Shape::One(|| &SCHEMA))))),
    ],
    others: None,
    extensions: 5,
};

static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Shape::Text), ("description", 2, Shape::Text)],
    others: None,
    extensions: 0,
};

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("required", 4, Shape::Flag),
        ("schema", 5, Shape::One(|| &SCHEMA)),
    ],
    others: None,
    extensions: 6,
};

/// Parameters in headers and paths.
static PLAIN_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Shape::Flag),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 5, Shape::Text),
        ("format", 6, Shape::Text),
        ("default", 9, Shape::Any),
        ("maximum", 10, Shape::Float),
        ("minimum", 12, Shape::Float),
        ("maxLength", 14, Shape::Whole),
        ("minLength", 15, Shape::Whole),
        ("pattern", 16, Shape::Text),
        ("uniqueItems", 19, Shape::Flag),
        ("enum", 20, ANYS),
    ],
    others: None,
    extensions: 22,
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Shape::Flag),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("allowEmptyValue", 5, Shape::Flag),
        ("type", 6, Shape::Text),
        ("format", 7, Shape::Text),
        ("default", 10, Shape::Any),
        ("maximum", 11, Shape::Float),
        ("minimum", 13, Shape::Float),
        ("maxLength", 15, Shape::Whole),
        ("minLength", 16, Shape::Whole),
        ("pattern", 17, Shape::Text),
        ("uniqueItems", 20, Shape::Flag),
        ("enum", 21, ANYS),
    ],
    others: None,
    extensions: 23,
};

static API_KEY: Message = Message {
    fields: &[
        ("type", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("description", 4, Shape::Text),
    ],
    others: None,
    extensions: 5,
};

static PROPERTIES: Message = names(&Shape::One(|| &SCHEMA));
static REQUIREMENT: Message = names(&WORDS);
static PARAMETERS_BY_NAME: Message = names(&Shape::Choice(parameter));
static RESPONSES_BY_NAME: Message = names(&Shape::One(|| &RESPONSE));
static SECURITY_DEFINITIONS: Message = names(&Shape::Choice(security));

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Shape::Text),
        ("format", 2, Shape::Text),
        ("title", 3, Shape::Text),
        ("description", 4, Shape::Text),
        ("default", 5, Shape::Any),
        ("multipleOf", 6, Shape::Float),
        ("maximum", 7, Shape::Float),
        ("exclusiveMaximum", 8, Shape::Flag),
        ("minimum", 9, Shape::Float),
        ("exclusiveMinimum", 10, Shape::Flag),
        ("maxLength", 11, Shape::Whole),
        ("minLength", 12, Shape::Whole),
        ("pattern", 13, Shape::Text),
        ("maxItems", 14, Shape::Whole),
        ("minItems", 15, Shape::Whole),
        ("uniqueItems", 16, Shape::Flag),
        ("maxProperties", 17, Shape::Whole),
        ("minProperties", 18, Shape::Whole),
        ("required", 19, TEXTS),
        ("enum", 20, ANYS),
        ("additionalProperties", 21, Shape::Choice(additional)),
        ("type", 22, WORDS),
        ("items", 23, Shape::Choice(|_| Some((1, SCHEMAS)))),
        ("allOf", 24, SCHEMAS),
        ("properties", 25, Shape::One(|| &PROPERTIES)),
        ("discriminator", 26, Shape::Text),
        ("readOnly", 27, Shape::Flag),
        ("externalDocs", 29, Shape::One(|| &EXTERNAL_DOCS)),
        ("example", 30, Shape::Any),
    ],
    others: None,
    extensions: 31,
};

fn is_reference(value: &Value) -> bool {
    value.get("$ref").is_some()
}

fn parameter_or_reference(value: &Value) -> Option<(u32, Shape)> {
    Some(if is_reference(value) {
        (2, Shape::One(|| &REFERENCE))
    } else {
        (1, Shape::Choice(parameter))
    })
}

fn parameter(value: &Value) -> Option<(u32, Shape)> {
    Some(if value["in"] == "body" {
        (1, Shape::One(|| &BODY_PARAMETER))
    } else {
        (2, Shape::Choice(plain_parameter))
    })
}

fn plain_parameter(value: &Value) -> Option<(u32, Shape)> {
    match value["in"].as_str()? {
        "header" => Some((1, Shape::One(|| &PLAIN_PARAMETER))),
        "query" => Some((3, Shape::One(|| &QUERY_PARAMETER))),
        "path" => Some((4, Shape::One(|| &PLAIN_PARAMETER))),
        _ => None,
    }
}

fn response_or_reference(value: &Value) -> Option<(u32, Shape)> {
    Some(if is_reference(value) {
        (2, Shape::One(|| &REFERENCE))
    } else {
        (1, Shape::One(|| &RESPONSE))
    })
}

fn security(value: &Value) -> Option<(u32, Shape)> {
    (value["type"] == "apiKey").then_some((2, Shape::One(|| &API_KEY)))
}

fn additional(value: &Value) -> Option<(u32, Shape)> {
    Some(if value.is_boolean() {
        (2, Shape::Flag)
    } else {
        (1, Shape::One(|| &SCHEMA))
    })
}

/// Encodes an OpenAPI v2 document.
#[must_use]
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    message(&DOCUMENT, document, &mut out, DEPTH);
    out
}

fn message(of: &Message, value: &Value, out: &mut Vec<u8>, depth: usize) {
    let (Some(map), Some(depth)) = (value.as_object(), depth.checked_sub(1)) else {
        return;
    };
    for (key, value) in map {
        if let Some((_, number, shape)) = of.fields.iter().find(|(name, _, _)| name == key) {
            field(*number, *shape, value, out, depth);
        } else if of.extensions > 0 && key.starts_with("x-") {
            named(of.extensions, key, Shape::Any, value, out, depth);
        } else if let Some((number, shape)) = of.others {
            named(number, key, *shape, value, out, depth);
        }
    }
}

/// A key with its value.
fn named(number: u32, key: &str, shape: Shape, value: &Value, out: &mut Vec<u8>, depth: usize) {
    wire::nested(out, number, |out| {
        wire::put_bytes(out, 1, key.as_bytes());
        field(2, shape, value, out, depth);
    });
}

fn field(number: u32, shape: Shape, value: &Value, out: &mut Vec<u8>, depth: usize) {
    match shape {
        Shape::Text => {
            if let Some(text) = value.as_str() {
                wire::put_bytes(out, number, text.as_bytes());
            }
        }
        Shape::Flag => {
            if let Some(flag) = value.as_bool() {
                wire::put_int(out, number, i64::from(flag));
            }
        }
        Shape::Whole => {
            if let Some(whole) = value.as_i64() {
                wire::put_int(out, number, whole);
            }
        }
        Shape::Float => {
            if let Some(float) = value.as_f64() {
                wire::put_double(out, number, float);
            }
        }
        // JSON is YAML
        Shape::Any => wire::nested(out, number, |out| {
            wire::put_bytes(out, 2, value.to_string().as_bytes());
        }),
        Shape::One(of) => {
            if value.is_object() {
                wire::nested(out, number, |out| message(of(), value, out, depth));
            }
        }
        Shape::List(of) => {
            let items = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            for item in items {
                field(number, *of, item, out, depth);
            }
        }
        Shape::Choice(choose) => {
            if let Some((inner, shape)) = choose(value) {
                wire::nested(out, number, |out| field(inner, shape, value, out, depth));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// A field's value as it lies in the bytes.
    #[derive(Debug, Clone)]
    enum Raw {
        Number(u64),
        Bytes(Vec<u8>),
    }

    /// A message's fields by their numbers.
    #[derive(Debug, Clone, Default)]
    struct Read(BTreeMap<u32, Vec<Raw>>);

    impl Read {
        fn of(mut bytes: &[u8]) -> Self {
            let mut found = Self::default();
            while let Some((number, kind)) = wire::tag(&mut bytes).unwrap() {
                let raw = match kind {
                    wire::VARINT => Raw::Number(wire::varint(&mut bytes).unwrap()),
                    wire::FIXED64 => Raw::Number(wire::fixed64(&mut bytes).unwrap()),
                    wire::BYTES => Raw::Bytes(wire::bytes(&mut bytes).unwrap().to_vec()),
                    other => panic!("wire type {other}"),
                };
                found.0.entry(number).or_default().push(raw);
            }
            found
        }

        fn each(&self, number: u32) -> Vec<Read> {
            let all = self.0.get(&number).map(Vec::as_slice).unwrap_or_default();
            all.iter()
                .map(|raw| match raw {
                    Raw::Bytes(bytes) => Read::of(bytes),
                    Raw::Number(_) => panic!("{number} is no message"),
                })
                .collect()
        }

        /// The message at the end of a path of numbers.
        fn at(&self, path: &[u32]) -> Read {
            path.iter().fold(self.clone(), |read, number| {
                let [one] = &read.each(*number)[..] else {
                    panic!("not one {number} of {path:?}")
                };
                one.clone()
            })
        }

        /// The value of a name in a message of names.
        fn named(&self, number: u32, name: &str) -> Read {
            let found = self.each(number).into_iter().find(|entry| entry.text(1) == name);
            found.unwrap_or_else(|| panic!("no {name}")).at(&[2])
        }

        fn texts(&self, number: u32) -> Vec<String> {
            let all = self.0.get(&number).map(Vec::as_slice).unwrap_or_default();
            all.iter()
                .map(|raw| match raw {
                    Raw::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
                    Raw::Number(_) => panic!("{number} is no text"),
                })
                .collect()
        }

        fn text(&self, number: u32) -> String {
            self.texts(number).concat()
        }

        fn number(&self, number: u32) -> Option<u64> {
            match self.0.get(&number)?.first()? {
                Raw::Number(found) => Some(*found),
                Raw::Bytes(_) => None,
            }
        }
    }

    fn document() -> Value {
        json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.34"},
            "paths": {"/apis/apps/v1/deployments/{name}": {
                "parameters": [
                    {"in": "path", "name": "name", "type": "string", "required": true, "uniqueItems": true},
                    {"$ref": "#/parameters/pretty"},
                ],
                "patch": {
                    "operationId": "patchIt", "tags": ["apps_v1"], "consumes": ["a/b", "c/d"],
                    "parameters": [
                        {"in": "body", "name": "body", "required": true, "schema": {"$ref": "#/definitions/Patch"}},
                        {"in": "query", "name": "force", "type": "boolean"},
                    ],
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Deployment"}}},
                    "x-kubernetes-group-version-kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
                },
            }},
            "definitions": {"Deployment": {
                "type": "object", "required": ["a"], "x-odd": [1], "minProperties": 1, "nobody knows": 1,
                "properties": {
                    "x-name": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                    "map": {"additionalProperties": {"type": "integer", "format": "int64", "maximum": 1.5}},
                    "free": {"additionalProperties": false},
                },
            }},
            "security": [{"BearerToken": []}],
            "securityDefinitions": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
        })
    }

    #[test]
    fn puts_everything_where_go_looks_for_it() {
        let read = Read::of(&encode(&document()));
        assert_eq!(read.text(1), "2.0");
        assert_eq!(read.at(&[2]).text(1), "Kubernetes");
        let path = read.at(&[8]).named(2, "/apis/apps/v1/deployments/{name}");
        let [parameter, reference] = &path.each(9)[..] else {
            panic!("two parameters")
        };
        let parameter = parameter.at(&[1, 2, 4]);
        assert_eq!(
            (parameter.text(4), parameter.text(5)),
            ("name".into(), "string".into())
        );
        assert_eq!((parameter.number(1), parameter.number(19)), (Some(1), Some(1)));
        assert_eq!(reference.at(&[2]).text(1), "#/parameters/pretty");
        let patch = path.at(&[8]);
        assert_eq!(patch.text(5), "patchIt");
        assert_eq!(patch.texts(7), ["a/b", "c/d"]);
        let [body, force] = &patch.each(8)[..] else {
            panic!("two parameters")
        };
        assert_eq!(body.at(&[1, 1, 5]).text(1), "#/definitions/Patch");
        let force = force.at(&[1, 2, 3]);
        assert_eq!((force.text(4), force.text(6)), ("force".into(), "boolean".into()));
        let answer = patch.at(&[9]).named(1, "200").at(&[1]);
        assert_eq!(answer.at(&[2, 1]).text(1), "#/definitions/Deployment");
        assert_eq!(
            patch.named(13, "x-kubernetes-group-version-kind").text(2),
            r#"{"group":"apps","kind":"Deployment","version":"v1"}"#
        );
        let schema = read.at(&[9]).named(1, "Deployment");
        assert_eq!(schema.at(&[22]).texts(1), ["object"]);
        assert_eq!(schema.texts(19), ["a"]);
        assert_eq!(schema.number(18), Some(1));
        assert_eq!(schema.named(31, "x-odd").text(2), "[1]");
        let field = |name: &str| schema.at(&[25]).named(1, name);
        let items = field("x-name").at(&[23, 1]);
        assert_eq!(items.at(&[22]).texts(1), ["string"]);
        assert_eq!(
            items.each(20).iter().map(|any| any.text(2)).collect::<String>(),
            r#""a""b""#
        );
        let values = field("map").at(&[21, 1]);
        assert_eq!(
            (values.text(2), values.number(7)),
            ("int64".into(), Some(1.5f64.to_bits()))
        );
        assert_eq!(field("free").at(&[21]).number(2), Some(0));
        assert_eq!(read.at(&[12]).named(1, "BearerToken").texts(1), [""; 0]);
        assert_eq!(
            read.at(&[13]).named(1, "BearerToken").at(&[2]).text(2),
            "authorization"
        );
    }

    #[test]
    fn leaves_out_what_does_not_fit() {
        let odd = json!({
            "swagger": 2, "info": [], "paths": {"/a": {"get": 1, "parameters": [{"in": "cookie"}]}},
            "definitions": {"A": {"type": 1, "items": [1], "properties": [], "maxLength": -0.5}},
        });
        let read = Read::of(&encode(&odd));
        assert!(read.text(1).is_empty() && read.each(2).is_empty());
        let mut deep = json!({});
        for _ in 0..1_000 {
            deep = json!({"items": deep});
        }
        assert!(!encode(&json!({"definitions": {"A": deep}})).is_empty());
        assert!(encode(&json!(1)).is_empty());
    }
}
