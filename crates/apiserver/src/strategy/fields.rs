//! Rules of single fields that several kinds share, in the words of Kubernetes.

use machinery::names;
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;
use serde_json::Value;

use crate::problems::Problems;

/// A field's text, empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The items of a list, none where there is none.
pub(super) fn items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

/// Refuses a text that is none of a few.
pub(super) fn one_of(value: &Value, path: &str, supported: &[&str], problems: &mut Problems) {
    if !value.is_null() && !supported.iter().any(|word| value == word) {
        problems.unsupported(path, value, supported);
    }
}

/// Refuses a number below zero.
pub(super) fn not_negative(value: &Value, path: &str, problems: &mut Problems) {
    if value.as_i64().is_some_and(|number| number < 0) {
        problems.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// Refuses a text that is there and breaks the rules of a kind of names.
pub(super) fn named(value: &Value, path: &str, rules: fn(&str) -> Vec<String>, problems: &mut Problems) {
    for problem in value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(rules)
        .unwrap_or_default()
    {
        problems.invalid(path, value, problem);
    }
}

/// Refuses a text that is not there, or is empty.
pub(super) fn present(value: &Value, path: &str, why: &str, problems: &mut Problems) {
    if text(value).is_empty() {
        problems.required(path, why);
    }
}

/// Refuses what is neither a port's number nor its name.
pub(super) fn port(value: &Value, path: &str, problems: &mut Problems) {
    let found = match (value.as_str(), value.as_i64()) {
        (Some(name), _) => names::port_name_problems(name),
        (None, Some(number)) => names::port_number_problems(number),
        (None, None) => Vec::new(),
    };
    for problem in found {
        problems.invalid(path, value, problem);
    }
}

/// Refuses what is neither a count nor a percentage of up to a hundred.
pub(super) fn count_or_percent(value: &Value, path: &str, problems: &mut Problems) {
    const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                           '93%', regex used for validation is '[0-9]+%')";
    let Some(text) = value.as_str() else {
        not_negative(value, path, problems);
        return;
    };
    match text.strip_suffix('%') {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            if digits.parse::<u32>().map_or(true, |percent| percent > 100) {
                problems.invalid(path, value, "must not be greater than 100%");
            }
        }
        _ => problems.invalid(path, value, PERCENT),
    }
}

/// Refuses labels that can be nobody's.
pub(super) fn labels(value: &Value, path: &str, problems: &mut Problems) {
    for (key, value) in value.as_object().into_iter().flatten() {
        named(
            &Value::from(key.as_str()),
            path,
            names::qualified_name_problems,
            problems,
        );
        named(value, path, names::label_value_problems, problems);
    }
}

/// Refuses a selector that can be none.
pub(super) fn selector(value: &Value, path: &str, problems: &mut Problems) {
    labels(&value["matchLabels"], &format!("{path}.matchLabels"), problems);
    if let Some(expressions) = value.get("matchExpressions") {
        let alone = serde_json::json!({"matchExpressions": expressions});
        if let Err(error) = LabelSelector::from_value(&alone) {
            problems.invalid(format!("{path}.matchExpressions"), expressions, error);
        }
    }
}

/// The amount in a field, if there is one.
pub(super) fn amount(value: &Value) -> Option<Quantity> {
    Some(value)
        .filter(|value| !value.is_null())
        .and_then(|value| Quantity::from_json(value).ok())
}
