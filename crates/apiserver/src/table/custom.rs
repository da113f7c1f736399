//! The rows of custom resources, as their definition says.

use jiff::Timestamp;
use serde_json::Value;

use super::{Cell, Column, age, built_in_column, columns, name_column};
use crate::registry::Custom;
use crate::registry::custom::CustomColumn;

/// The columns of a custom resource.
pub(super) fn columns(custom: &Custom) -> Vec<(Column, Cell)> {
    let mut all = vec![name_column()];
    if custom.columns.is_empty() {
        all.extend(columns::PLAIN.iter().map(|text| built_in_column(text)));
    }
    all.extend(custom.columns.iter().map(|column| {
        let shown = Column {
            name: column.name.clone(),
            kind: column.kind.clone(),
            format: column.format.clone(),
            description: column.description.clone(),
            priority: column.priority,
        };
        (shown, Cell::Custom(column.clone()))
    }));
    all
}

/// A column's cell: nothing where the path leads nowhere or to something of another type.
pub(super) fn cell(column: &CustomColumn, item: &Value, now: Timestamp) -> Value {
    let value = column.path.as_ref().and_then(|path| path.first(item)).cloned();
    let Some(value) = value else {
        return Value::Null;
    };
    match (column.kind.as_str(), value) {
        ("date", Value::String(time)) => Value::from(age::since(&time, now)),
        ("date", _) => Value::from("<unknown>"),
        ("string", Value::String(text)) => Value::from(text),
        ("string", other) => Value::from(other.to_string()),
        ("integer", value) if value.is_i64() || value.is_u64() => value,
        ("integer", Value::Number(number)) => Value::from(number.as_f64().unwrap_or(0.0) as i64),
        ("number", value) if value.is_number() => value,
        ("boolean", value) if value.is_boolean() => value,
        _ => Value::Null,
    }
}
