//! JSONPath in kubectl's dialect: `.spec.containers[0].image`, `['a.b/c']`, `[?(@.type=="Ready")].status`, `[*]`,
//! `[1:3]`, `['a','b']`, `..name`; and templates with `{range …}{end}`.

mod find;
mod parse;
mod template;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use template::Template;

/// How many values one path may find, and visit in between.
const MAX_RESULTS: usize = 100_000;

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The text is no path.
    #[error("{0}")]
    Syntax(String),
    /// The path does not fit the value.
    #[error("{0}")]
    Evaluate(String),
}

/// One compiled path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.a`
    Field(String),
    /// `['a.b']`: the key as it is, else (as kubectl reads it) the path `.a.b`.
    KeyOrPath(String, Vec<Step>),
    /// `.*`
    Wildcard,
    /// `..`
    Recursive,
    /// `[1]`, `[1:2]`, `[*]`
    Slice(Slice),
    /// `['a','b']`, `[0,2]`
    Union(Vec<Vec<Step>>),
    /// `[?(…)]`: all conditions hold.
    Filter(Vec<Condition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// A single index: the end follows from the start.
    single: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    left: Operand,
    /// The comparison, `None` where existence is asked.
    right: Option<(Comparison, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Compiles a path; braces around it and a missing first dot do no harm.
    ///
    /// # Errors
    /// [`JsonPathError::Syntax`]
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let inner = text.trim();
        let inner = match inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(inner) => inner.trim(),
            None => inner,
        };
        let dotted;
        let inner = if inner.is_empty() || inner.starts_with(['.', '[', '$', '@']) {
            inner
        } else {
            dotted = format!(".{inner}");
            &dotted
        };
        parse::steps(inner).map(|steps| Self { steps })
    }

    /// What the path leads to, in order. A missing key leads nowhere.
    ///
    /// # Errors
    /// [`JsonPathError::Evaluate`] for an index out of bounds, an index or filter on what is no list, a comparison of
    /// different types, or too many results.
    pub fn find<'a>(&self, value: &'a Value) -> Result<Vec<&'a Value>, JsonPathError> {
        find::walk(vec![value], &self.steps, value)
    }

    /// The first result, `None` if there is none or the path does not fit.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).ok()?.into_iter().next()
    }
}

/// A result as kubectl prints it: texts plain, lists and maps as JSON.
pub fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "null".to_owned(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(crate::field::go_float).unwrap_or_default()
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
