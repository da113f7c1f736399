//! Problems with fields, worded as `field.Error` of Kubernetes words them, as [`Cause`]s.

use serde_json::Value;

use crate::Cause;

/// Quotes a text as Go's `%q` does.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\u{b}' => quoted.push_str("\\v"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => quoted.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() || matches!(c, '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A value as a message shows it: a text quoted, anything else as JSON.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (None, None, Some(float)) => go_float(float),
            (_, _, _) => number.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// A float as Go's `%v` prints it: the shortest digits, an exponent where it is below -4 or from 21 on.
pub fn go_float(float: f64) -> String {
    if float == 0.0 || !float.is_finite() {
        return format!("{float}");
    }
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        format!("{float}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

fn with_detail(head: String, detail: &str) -> String {
    if detail.is_empty() {
        head
    } else {
        format!("{head}: {detail}")
    }
}

impl Cause {
    fn of(reason: &str, field: &str, message: String) -> Self {
        Self {
            reason: reason.to_owned(),
            message,
            field: field.to_owned(),
        }
    }

    /// `Required value`
    pub fn required(field: &str, detail: &str) -> Self {
        let message = with_detail("Required value".to_owned(), detail);
        Self::of("FieldValueRequired", field, message)
    }

    /// `Invalid value: "x": detail`
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        let message = with_detail(format!("Invalid value: {}", shown(value)), detail);
        Self::of("FieldValueInvalid", field, message)
    }

    /// `Invalid value: "x": detail`, because the type is wrong.
    pub fn type_invalid(field: &str, value: &Value, detail: &str) -> Self {
        let message = with_detail(format!("Invalid value: {}", shown(value)), detail);
        Self::of("FieldValueTypeInvalid", field, message)
    }

    /// `Unsupported value: "x": supported values: "a", "b"`
    pub fn not_supported(field: &str, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let detail = if list.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", list.join(", "))
        };
        let message = with_detail(format!("Unsupported value: {}", shown(value)), &detail);
        Self::of("FieldValueNotSupported", field, message)
    }

    /// `Duplicate value: "x"`
    pub fn duplicate(field: &str, value: &Value) -> Self {
        Self::of(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    /// `Not found: "x"`
    pub fn not_found(field: &str, value: &Value) -> Self {
        Self::of(
            "FieldValueNotFound",
            field,
            format!("Not found: {}", shown(value)),
        )
    }

    /// `Forbidden: detail`
    pub fn forbidden(field: &str, detail: &str) -> Self {
        let message = with_detail("Forbidden".to_owned(), detail);
        Self::of("FieldValueForbidden", field, message)
    }

    /// `Too long: may not be more than 30 bytes`
    pub fn too_long(field: &str, limit: u64) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        Self::of(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {limit} {unit}"),
        )
    }

    /// `Too many: 5: must have at most 3 items`
    pub fn too_many(field: &str, actual: u64, limit: u64) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        Self::of(
            "FieldValueTooMany",
            field,
            format!("Too many: {actual}: must have at most {limit} {unit}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_values_as_go_does() {
        for (value, want) in [
            (json!("a\"b\n\u{1}é"), r#""a\"b\n\x01é""#),
            (json!(1), "1"),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-07"),
            (json!(2.0), "2"),
            (json!({"a": [1]}), r#"{"a":[1]}"#),
            (json!(null), "null"),
        ] {
            assert_eq!(shown(&value), want);
        }
        assert_eq!(
            Cause::not_supported("spec.a", &json!("x"), &["a", "b"]).message,
            r#"Unsupported value: "x": supported values: "a", "b""#
        );
        assert_eq!(
            Cause::too_long("a", 1).message,
            "Too long: may not be more than 1 byte"
        );
    }
}
