//! Collecting everything that is wrong with an object, in the words of Kubernetes' field errors.

use std::fmt::Display;

use machinery::Cause;
use serde_json::Value;

/// What is wrong, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Cause>);

impl Problems {
    /// A field that must be set is not.
    pub(crate) fn required(&mut self, field: impl Into<String>, why: &str) {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        self.push("FieldValueRequired", field, message);
    }

    /// A field's value breaks a rule.
    pub(crate) fn invalid(&mut self, field: impl Into<String>, value: &Value, why: impl Display) {
        self.push(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {why}", shown(value)),
        );
    }

    /// A field's value is none of those allowed.
    pub(crate) fn unsupported(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|word| format!("\"{word}\"")).collect();
        self.push(
            "FieldValueNotSupported",
            field,
            format!(
                "Unsupported value: {}: supported values: {}",
                shown(value),
                list.join(", ")
            ),
        );
    }

    /// A field may not be set, or not be changed.
    pub(crate) fn forbidden(&mut self, field: impl Into<String>, why: &str) {
        self.push("FieldValueForbidden", field, format!("Forbidden: {why}"));
    }

    /// A value is there already.
    pub(crate) fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        self.push(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", shown(value)),
        );
    }

    /// A value is larger than allowed.
    pub(crate) fn too_long(&mut self, field: impl Into<String>, why: &str) {
        self.push("FieldValueTooLong", field, format!("Too long: {why}"));
    }

    /// A value refers to something that is not there.
    pub(crate) fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        self.push(
            "FieldValueNotFound",
            field,
            format!("Not found: {}", shown(value)),
        );
    }

    /// A field that must stay as it is was changed.
    pub(crate) fn immutable(&mut self, field: impl Into<String>, value: &Value) {
        self.invalid(field, value, "field is immutable");
    }

    /// Adds what another check found.
    pub(crate) fn extend(&mut self, causes: Vec<Cause>) {
        self.0.extend(causes);
    }

    /// Everything found.
    pub(crate) fn into_causes(self) -> Vec<Cause> {
        self.0
    }

    fn push(&mut self, reason: &str, field: impl Into<String>, message: String) {
        self.0.push(Cause {
            reason: reason.to_owned(),
            message,
            field: field.into(),
        });
    }
}

/// A value as messages show it: strings in quotes, `null` for nothing, long ones cut.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(512) {
        Some((index, _)) => format!("{}…", &text[..index]),
        None => text,
    }
}
