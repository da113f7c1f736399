//! YAML as Kubernetes tools understand it: YAML 1.1 scalars (`yes` is true, `017` is fifteen), merge keys, keys of
//! any scalar type turned to strings, timestamps left as strings; written with sorted keys and the quoting that
//! people know from `kubectl -o yaml`. Entry points: [`parse`] and [`to_string`].

mod read;
mod scalar;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// Why a text is not YAML that Kubernetes takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("yaml: line {line}, column {column}: {message}")]
pub struct Error {
    /// Line of the fault, from 1.
    pub line: usize,
    /// Column of the fault in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

/// What a key that stands twice in one mapping means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// It is an error, as in strict decoding.
    Refuse,
    /// The last one counts, as in lenient decoding.
    LastWins,
}

/// Reads all documents of a text; documents that are empty or `null` are left out. A key that stands twice is an error.
///
/// # Errors
/// When the text is not YAML, expands its aliases without measure, or has values that JSON has not (`.inf`).
pub fn parse(text: &str) -> Result<Vec<Value>, Error> {
    parse_with(text, Duplicates::Refuse)
}

/// Like [`parse`], with a choice about keys that stand twice.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(text: &str, duplicates: Duplicates) -> Result<Vec<Value>, Error> {
    let read = read::documents(text, duplicates, usize::MAX);
    if read.is_err() && text.trim_start().starts_with('{') {
        // several JSON objects in a row are no YAML, but kubectl takes them
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Ok(values) = stream.collect::<Result<Vec<_>, _>>() {
            return Ok(values);
        }
    }
    Ok(read?.into_iter().filter(|value| !value.is_null()).collect())
}

/// Reads the first document of a text, `null` when there is none; what follows it is not looked at.
///
/// # Errors
/// As [`parse`].
pub fn parse_one(text: &str) -> Result<Value, Error> {
    Ok(read::documents(text, Duplicates::Refuse, 1)?
        .into_iter()
        .next()
        .unwrap_or(Value::Null))
}

/// Writes one document, ending in a line break, without a document marker.
#[must_use]
pub fn to_string(value: &Value) -> String {
    write::document(value)
}
