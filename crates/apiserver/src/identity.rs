//! Which object a body is: its name, namespace, version and kind have to be those of the request's path. What lost them
//! lost the rest too, and would empty the object that it is written over.

use machinery::{ApiError, Gvk, meta};
use serde_json::Value;

/// Whether an object that is to be changed has the name that its path has.
///
/// # Errors
/// 400 for another name, and for none.
pub fn check_name(found: &str, name: &str) -> Result<(), ApiError> {
    if found == name {
        return Ok(());
    }
    Err(if found.is_empty() {
        undeterminable(name)
    } else {
        ApiError::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))
    })
}

/// 400 for a body of which nobody can say what it is.
pub(crate) fn undeterminable(name: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Whether an object is in the namespace that its path has, as far as it says so.
///
/// # Errors
/// 400 for another namespace.
pub fn check_namespace(found: &str, namespace: &str) -> Result<(), ApiError> {
    if found.is_empty() || found == namespace {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Whether a configuration to apply is of the kind that its path has: unlike other bodies it has to say so.
///
/// # Errors
/// 400 if it says another, or nothing.
pub fn check_applied(config: &Value, is_expected: impl FnOnce(&Gvk) -> bool) -> Result<(), ApiError> {
    let gvk = meta::gvk(config);
    if is_expected(&gvk) {
        return Ok(());
    }
    let Gvk { group, version, kind } = gvk;
    Err(ApiError::bad_request(format!(
        "invalid object type: {group}/{version}, Kind={kind}"
    )))
}

/// Whether a body is of a version and kind, as far as it says so; puts there what it does not say.
///
/// # Errors
/// 400 for another version or kind, and for what is no object.
pub fn check_type(object: &mut Value, expected_version: &str, expected_kind: &str) -> Result<(), ApiError> {
    let Some(map) = object.as_object_mut() else {
        return Err(ApiError::bad_request("the body is no object"));
    };
    for (field, expected, what) in [
        ("apiVersion", expected_version, "API version"),
        ("kind", expected_kind, "kind"),
    ] {
        let found = match map.get(field) {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => return Err(ApiError::bad_request(format!("{field} must be a string"))),
        };
        if found.is_empty() {
            map.insert(field.to_owned(), Value::from(expected));
        } else if found != expected {
            return Err(ApiError::bad_request(format!(
                "the {what} in the data ({found}) does not match the expected {what} ({expected})"
            )));
        }
    }
    Ok(())
}
