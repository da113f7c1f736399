//! Patches inside a string: a field that holds a document of its own, as ConfigMaps have them.

use codec::yaml;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::overrides::Problem;

/// What is wrong with the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// It does not begin with a slash.
    #[error("fieldPath \"{0}\" must begin with a slash")]
    Path(String),
    /// There is nothing there, or no text.
    #[error("fieldPath \"{0}\" does not lead to a string")]
    NotText(String),
    /// Neither of the two.
    #[error("unsupported fieldFormat \"{0}\": must be JSON or YAML")]
    Format(String),
    /// The text is no such document.
    #[error("the text at \"{path}\" is not valid {format}: {problem}")]
    Content {
        /// Where.
        path: String,
        /// As what it was read.
        format: &'static str,
        /// Why it failed.
        problem: String,
    },
}

#[derive(Clone, Copy)]
enum Format {
    Json,
    Yaml,
}

/// Decodes the text that an override's `fieldPath` leads to, changes it and puts it back.
///
/// The path is a JSON pointer (`~1` is a slash in a key, `~0` a tilde). Without a `fieldFormat` the text is taken as
/// JSON if it is, else as YAML. An empty text is left alone.
pub(crate) fn change(
    document: &mut Value,
    item: &Value,
    edit: impl FnOnce(&mut Value) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let path = item["fieldPath"].as_str().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(FieldError::Path(path.to_owned()).into());
    }
    let Some(Value::String(text)) = document.pointer_mut(path) else {
        return Err(FieldError::NotText(path.to_owned()).into());
    };
    if text.is_empty() {
        return Ok(());
    }
    let format = match item["fieldFormat"].as_str().unwrap_or_default() {
        "JSON" => Format::Json,
        "YAML" => Format::Yaml,
        "" if serde_json::from_str::<Value>(text).is_ok() => Format::Json,
        "" => Format::Yaml,
        other => return Err(FieldError::Format(other.to_owned()).into()),
    };
    let mut inner = decode(text, format).map_err(|(format, problem)| FieldError::Content {
        path: path.to_owned(),
        format,
        problem,
    })?;
    edit(&mut inner)?;
    *text = encode(&inner, format);
    Ok(())
}

fn decode(text: &str, format: Format) -> Result<Value, (&'static str, String)> {
    match format {
        Format::Json => serde_json::from_str(text).map_err(|problem| ("JSON", problem.to_string())),
        Format::Yaml => yaml::parse_one(text).map_err(|problem| ("YAML", problem.to_string())),
    }
}

fn encode(value: &Value, format: Format) -> String {
    match format {
        Format::Yaml => yaml::to_string(value),
        Format::Json => {
            let mut bytes = Vec::new();
            let mut serializer =
                Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
            value
                .serialize(&mut serializer)
                .expect("a value serializes into memory");
            String::from_utf8(bytes).expect("JSON is UTF-8")
        }
    }
}
