//! JSON patch (RFC 6902) as a Kubernetes API server applies it: negative indexes count from the end, `replace` of a
//! missing key adds it, `test` for null holds where the key is missing.

use serde_json::{Map, Value};

use super::PatchError;

/// How many operations one patch may have.
pub const MAX_OPERATIONS: usize = 10_000;
/// How much `copy` operations may add in all, in bytes of JSON.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Applies all operations or none.
///
/// # Errors
/// [`PatchError`]; the document is as it was.
pub fn json_patch(doc: &Value, operations: &Value) -> Result<Value, PatchError> {
    let Some(operations) = operations.as_array() else {
        return Err(PatchError::Malformed(
            "a JSON patch must be an array of operations".to_owned(),
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations {
            limit: MAX_OPERATIONS,
            found: operations.len(),
        });
    }
    let mut doc = doc.clone();
    let mut copied = 0;
    for operation in operations {
        let Some(operation) = operation.as_object() else {
            return Err(PatchError::Malformed(
                "an operation of a JSON patch must be an object".to_owned(),
            ));
        };
        apply(&mut doc, operation, &mut copied)?;
    }
    Ok(doc)
}

fn failed(text: String, cause: &str) -> PatchError {
    PatchError::DoesNotApply(format!("{text}: {cause}"))
}

const MISSING: &str = "missing value";

fn apply(doc: &mut Value, operation: &Map<String, Value>, copied: &mut usize) -> Result<(), PatchError> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let text = |field: &str, what: &str| match operation.get(field) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) | None => Err(failed(
            format!("{kind} operation failed to decode {what}"),
            MISSING,
        )),
    };
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => {
            let path = text("path", "path")?;
            let Some((container, key)) = find(doc, path) else {
                let text = format!("add operation does not apply: doc is missing path: \"{path}\"");
                return Err(failed(text, MISSING));
            };
            add(container, &key, value())
                .map_err(|cause| failed(format!("error in add for path: '{path}'"), &cause))
        }
        "remove" => {
            let path = text("path", "path")?;
            let Some((container, key)) = find(doc, path) else {
                let text = format!("remove operation does not apply: doc is missing path: \"{path}\"");
                return Err(failed(text, MISSING));
            };
            remove(container, &key)
                .map(drop)
                .map_err(|cause| failed(format!("error in remove for path: '{path}'"), &cause))
        }
        "replace" => replace(doc, text("path", "path")?, value()),
        "move" => {
            let (from, path) = (text("from", "from")?, text("path", "path")?);
            let Some((container, key)) = find(doc, from) else {
                let text = format!("move operation does not apply: doc is missing from path: {from}");
                return Err(failed(text, MISSING));
            };
            let moved = remove(container, &key)
                .map_err(|cause| failed(format!("error in move for path: '{key}'"), &cause))?;
            let Some((container, key)) = find(doc, path) else {
                let text = format!("move operation does not apply: doc is missing destination path: {path}");
                return Err(failed(text, MISSING));
            };
            add(container, &key, moved)
                .map_err(|cause| failed(format!("error in move for path: '{path}'"), &cause))
        }
        "copy" => copy(doc, text("from", "from")?, text("path", "path")?, copied),
        "test" => test(doc, text("path", "path")?, &value()),
        other => Err(PatchError::DoesNotApply(format!("Unexpected kind: {other}"))),
    }
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(PatchError::DoesNotApply(
                "replace operation value must be object or array".to_owned(),
            ));
        }
        *doc = value;
        return Ok(());
    }
    let Some((container, key)) = find(doc, path) else {
        let text = format!("replace operation does not apply: doc is missing path: {path}");
        return Err(failed(text, MISSING));
    };
    match container {
        Value::Array(items) => match index(&key, items.len(), items.len()) {
            Ok(at) if at < items.len() => {
                items[at] = value;
                Ok(())
            }
            Ok(_) | Err(_) => {
                let text = format!("replace operation does not apply: doc is missing key: {path}");
                Err(failed(text, MISSING))
            }
        },
        Value::Object(map) => {
            map.insert(key, value);
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn copy(doc: &mut Value, from: &str, path: &str, copied: &mut usize) -> Result<(), PatchError> {
    let Some((container, key)) = find(doc, from) else {
        let text = format!("copy operation does not apply: doc is missing from path: {from}");
        return Err(failed(text, MISSING));
    };
    let value = get(container, &key)
        .map_err(|cause| failed(format!("error in copy for from: '{from}'"), &cause))?
        .cloned()
        .unwrap_or(Value::Null);
    *copied += value.to_string().len();
    if *copied > MAX_COPIED {
        return Err(PatchError::DoesNotApply(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
        )));
    }
    let Some((container, key)) = find(doc, path) else {
        let text = format!("copy operation does not apply: doc is missing destination path: {path}");
        return Err(failed(text, MISSING));
    };
    add(container, &key, value)
        .map_err(|cause| failed("error while adding value during copy".to_owned(), &cause))
}

fn test(doc: &mut Value, path: &str, want: &Value) -> Result<(), PatchError> {
    let holds = if path.is_empty() {
        same(doc, want)
    } else {
        let Some((container, key)) = find(doc, path) else {
            let text = format!("test operation does not apply: is missing path: {path}");
            return Err(failed(text, MISSING));
        };
        let have = get(container, &key)
            .map_err(|cause| failed(format!("error in test for path: '{path}'"), &cause))?;
        same(have.unwrap_or(&Value::Null), want)
    };
    if holds {
        Ok(())
    } else {
        Err(PatchError::TestFailed {
            path: path.to_owned(),
        })
    }
}

/// Equal where `1` and `1.0` are the same number.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        (left, right) => left == right,
    }
}

fn decode(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The object or list that a path ends in, and the last key.
fn find<'a>(doc: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (_, rest) = path.split_once('/')?;
    let mut node = doc;
    let (parents, last) = match rest.rsplit_once('/') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, rest),
    };
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        node = match node {
            Value::Object(map) => map.get_mut(&decode(part))?,
            Value::Array(items) => {
                let at = index(&decode(part), items.len(), items.len()).ok()?;
                items.get_mut(at)?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    if node.is_object() || node.is_array() {
        Some((node, decode(last)))
    } else {
        None
    }
}

/// An index into a list, from the end if negative; `limit` is the first index behind what is allowed.
fn index(key: &str, length: usize, limit: usize) -> Result<usize, String> {
    let number: i64 = key.parse().map_err(|_| {
        format!(
            "strconv.Atoi: parsing {}: invalid syntax",
            crate::field::quote(key)
        )
    })?;
    let bad = || format!("Unable to access invalid index: {number}: invalid index referenced");
    let at = if number < 0 {
        usize::try_from(number.unsigned_abs())
            .ok()
            .and_then(|back| length.checked_sub(back))
            .ok_or_else(bad)?
    } else {
        usize::try_from(number).map_err(|_| bad())?
    };
    if at < limit { Ok(at) } else { Err(bad()) }
}

fn get<'a>(container: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match container {
        Value::Array(items) => index(key, items.len(), items.len()).map(|at| items.get(at)),
        Value::Object(map) => Ok(map.get(key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(None),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let after = items.len() + 1;
            let at = index(key, after, after).map_err(|cause| {
                if key.parse::<i64>().is_err() {
                    format!("value was not a proper array index: '{key}': {cause}")
                } else {
                    cause
                }
            })?;
            items.insert(at, value);
        }
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(items) => index(key, items.len(), items.len()).map(|at| items.remove(at)),
        Value::Object(map) => map
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Value::Null),
    }
}
