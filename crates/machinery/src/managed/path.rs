//! One step of a field's path, in the form that `managedFields` has: `f:spec`, `k:{"name":"a"}`, `v:"x"`, `i:0`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;
use smol_str::SmolStr;

use crate::field;

/// A value that tells list items apart, with a total order.
#[derive(Debug, Clone)]
pub struct Scalar(Value);

impl Scalar {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl From<&Value> for Scalar {
    fn from(value: &Value) -> Self {
        Self(value.clone())
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                (_, _) => {
                    let float = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
                    float(left).total_cmp(&float(right))
                }
            },
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (left, right) => self
                .rank()
                .cmp(&other.rank())
                .then_with(|| left.to_string().cmp(&right.to_string())),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

/// One step. The order is that in which Kubernetes writes the steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A map's key.
    Field(SmolStr),
    /// The list item with these key fields, which are sorted.
    Key(Vec<(SmolStr, Scalar)>),
    /// The list item that is this scalar.
    Value(Scalar),
    /// The list item at this place.
    Index(i64),
}

impl PathElement {
    /// A map's key.
    pub fn field(name: &str) -> Self {
        Self::Field(SmolStr::new(name))
    }

    /// Reads the stored form; `None` for a kind of step that is not known.
    ///
    /// # Errors
    /// What is wrong, for a known kind with bad content.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_once(':') else {
            return Err(format!("missing colon: {text}"));
        };
        let json = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        Ok(Some(match kind {
            "f" => Self::Field(rest.into()),
            "v" => Self::Value(Scalar(json()?)),
            "i" => Self::Index(rest.parse().map_err(|_| format!("bad index: {text}"))?),
            "k" => match json()? {
                // The map is sorted already.
                Value::Object(map) => Self::Key(
                    map.into_iter()
                        .map(|(name, value)| (name.into(), Scalar(value)))
                        .collect(),
                ),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(format!("a key must be an object: {text}"));
                }
            },
            _ => return Ok(None),
        }))
    }

    /// The stored form.
    pub fn serialize(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, Scalar(value))| format!("{}:{}", Value::from(name.as_str()), go_json(value)))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(Scalar(value)) => format!("v:{}", go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// JSON with those characters escaped that Go escapes.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// As messages show it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, Scalar(value))| format!("{name}={}", field::shown(value)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(Scalar(value)) => write!(f, "[={}]", field::shown(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A whole path as messages show it.
pub(super) fn show(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}
