//! Objects between their JSON tree and their stored bytes.

use std::borrow::Cow;

use bytes::Bytes;
use machinery::ApiError;
use serde_json::{Map, Value};
use smol_str::SmolStr;
use source::{Draft, Head, Object};

use crate::registry::Served;

/// Writes an object for storage: `apiVersion` and `kind` first, so that another version's can be put there without
/// parsing, and an empty `metadata.resourceVersion` at a known offset. The object's own is not looked at.
pub(crate) fn draft(served: &Served, object: &Value) -> Draft {
    draft_as(
        &served.storage_version,
        &served.kind,
        object,
        head(served, object),
    )
}

/// The same for an object whose resource is not at hand.
pub(crate) fn draft_as(api_version: &str, kind: &str, object: &Value, head: Head) -> Draft {
    let mut json = Vec::with_capacity(1_024);
    json.extend_from_slice(b"{\"apiVersion\":\"");
    json.extend_from_slice(api_version.as_bytes());
    json.extend_from_slice(b"\",\"kind\":\"");
    json.extend_from_slice(kind.as_bytes());
    json.extend_from_slice(b"\",\"metadata\":{\"resourceVersion\":\"");
    let splice = json.len();
    json.push(b'"');
    let empty = Map::new();
    let object = object.as_object().unwrap_or(&empty);
    let metadata = object
        .get("metadata")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (key, value) in metadata {
        if key != "resourceVersion" {
            write_field(&mut json, key, value);
        }
    }
    json.push(b'}');
    for (key, value) in object {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            write_field(&mut json, key, value);
        }
    }
    json.push(b'}');
    Draft {
        json: Bytes::from(json),
        splice,
        head,
    }
}

fn write_field(json: &mut Vec<u8>, key: &str, value: &Value) {
    json.push(b',');
    serde_json::to_writer(&mut *json, key).expect("a string can be written to memory");
    json.push(b':');
    serde_json::to_writer(&mut *json, value).expect("a tree of JSON can be written to memory");
}

/// What selectors and collectors need to know of an object.
pub(crate) fn head(served: &Served, object: &Value) -> Head {
    let metadata = &object["metadata"];
    let mut labels: Vec<(SmolStr, SmolStr)> = metadata["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                SmolStr::new(key),
                SmolStr::new(value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    labels.sort();
    let owners = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
        .map(SmolStr::new)
        .collect();
    Head {
        uid: SmolStr::new(metadata["uid"].as_str().unwrap_or_default()),
        labels: labels.into_boxed_slice(),
        fields: served
            .selectable
            .iter()
            .map(|path| (path.clone(), field_text(object, path)))
            .collect(),
        owners,
        deleting: !metadata["deletionTimestamp"].is_null(),
    }
}

/// A selectable field's value as text; absent ones read as Kubernetes' zero values.
fn field_text(object: &Value, path: &str) -> SmolStr {
    let path = if path == "source" {
        "source.component"
    } else {
        path
    };
    let mut value = object;
    for name in path.split('.') {
        value = &value[name];
    }
    match value.as_str() {
        Some(text) => SmolStr::new(text),
        None if value.is_null() => match path {
            "spec.hostNetwork" | "spec.unschedulable" => SmolStr::new_static("false"),
            "status.replicas" | "status.successful" => SmolStr::new_static("0"),
            _ => SmolStr::default(),
        },
        None => SmolStr::new(value.to_string()),
    }
}

/// An object's stored bytes as a tree, in the version that is asked for.
pub(crate) fn parse(served: &Served, json: &[u8]) -> Result<Value, ApiError> {
    let mut value: Value = serde_json::from_slice(json)
        .map_err(|error| ApiError::internal(format!("a stored object cannot be read: {error}")))?;
    if served.api_version != served.storage_version || value["apiVersion"] != served.api_version.as_str() {
        if let Some(convert) = served.strategy.convert {
            convert(&mut value, &served.api_version);
        }
        value["apiVersion"] = Value::from(served.api_version.as_str());
    }
    Ok(value)
}

/// An object's stored bytes in the version that is asked for: the same bytes, where that is the stored one.
pub(crate) fn in_version<'a>(served: &Served, object: &'a Object) -> Cow<'a, [u8]> {
    const START: &[u8] = b"{\"apiVersion\":\"";
    let json = &object.json;
    if let Some(rest) = json.strip_prefix(START) {
        let wanted = served.api_version.as_bytes();
        if rest.starts_with(wanted) && rest.get(wanted.len()) == Some(&b'"') {
            return Cow::Borrowed(json);
        }
        if served.strategy.convert.is_none()
            && let Some(end) = rest.iter().position(|byte| *byte == b'"')
        {
            let mut bytes = Vec::with_capacity(json.len() + wanted.len());
            bytes.extend_from_slice(START);
            bytes.extend_from_slice(wanted);
            bytes.extend_from_slice(&rest[end..]);
            return Cow::Owned(bytes);
        }
    }
    match parse(served, json) {
        Ok(value) => Cow::Owned(value.to_string().into_bytes()),
        Err(_) => Cow::Borrowed(json),
    }
}

/// Whether the stored bytes are in the version that is asked for.
pub(crate) fn is_native(served: &Served, object: &Object) -> bool {
    matches!(in_version(served, object), Cow::Borrowed(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use serde_json::json;

    #[test]
    fn drafts_have_their_splice_and_head() {
        let snapshot = Registry::new().snapshot();
        let pods = snapshot.find("", "v1", "pods").unwrap();
        let draft = draft(
            pods,
            &json!({
                "kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": "n1"},
                "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"b": "2", "a": "1"},
                    "ownerReferences": [{"uid": "o"}]},
            }),
        );
        let text = std::str::from_utf8(&draft.json).unwrap();
        assert!(
            text.starts_with(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"","#),
            "{text}"
        );
        assert!(text[..draft.splice].ends_with(r#""resourceVersion":""#));
        assert!(text[draft.splice..].starts_with('"'));
        let head = source::PackedHead::from(&draft.head);
        assert_eq!(head.label("b"), Some("2"));
        assert_eq!(head.field("spec.nodeName"), Some("n1"));
        assert_eq!(head.field("spec.hostNetwork"), Some("false"));
        assert_eq!(head.owners().count(), 1);
        let _: Value = serde_json::from_slice(&draft.json).unwrap();
    }
}
