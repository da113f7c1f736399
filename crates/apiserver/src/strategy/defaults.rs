//! Filling in fields that were left out.

use serde_json::{Map, Value};

/// The field of an object, made an empty object where there is none; `None` if the value is no object at all.
pub(crate) fn field_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let map = value.as_object_mut()?;
    let field = map.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    Some(field)
}

/// Sets a field that is not there or null.
pub(crate) fn default_field(value: &mut Value, name: &str, default: impl Into<Value>) {
    if let Some(map) = value.as_object_mut()
        && map.get(name).is_none_or(Value::is_null)
    {
        map.insert(name.to_owned(), default.into());
    }
}

/// Sets several fields of an object that are not there, from an object of defaults.
pub(crate) fn default_object(value: &mut Value, defaults: Value) {
    if let Value::Object(defaults) = defaults {
        for (name, default) in defaults {
            default_field(value, &name, default);
        }
    }
}

/// What is there at the end of a path of fields. (Indexing a mutable value would insert what is missing.)
pub(crate) fn at_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, field| value.get_mut(*field))
}

/// The items of the list that is there at the end of a path of fields.
pub(crate) fn items_mut<'a>(value: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    at_mut(value, path)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}
