//! `metadata`: what the server decides, what it refuses.

use machinery::ApiError;
use machinery::{meta, names};
use serde_json::{Map, Value};

use super::Call;
use crate::identity::{check_name, check_namespace, check_type};
use crate::problems::Problems;
use crate::registry::Served;

/// All annotations of an object together may have this many bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1_024;

/// Objects may not nest deeper: what is stored must be readable again.
const DEPTH_LIMIT: usize = 120;

/// What is left out of `metadata` where it holds nothing, as Go's `omitempty` does.
const OMITTED_IF_EMPTY: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

fn is_empty(value: &Value) -> bool {
    match (value.as_object(), value.as_array()) {
        (Some(map), _) => map.is_empty(),
        (None, Some(list)) => list.is_empty(),
        (None, None) => false,
    }
}

/// Whether a value nests deeper than so many levels.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else {
        return value.is_object() || value.is_array();
    };
    match (value.as_object(), value.as_array()) {
        (Some(map), _) => map.values().any(|value| is_deeper(value, levels)),
        (None, Some(list)) => list.iter().any(|value| is_deeper(value, levels)),
        (None, None) => false,
    }
}

/// A body's object: checks that it is one of the resource, of the `name` that the path has and of its namespace, which
/// alone may be left out.
pub(super) fn admit(
    served: &Served,
    namespace: &str,
    object: &mut Value,
    name: Option<&str>,
) -> Result<(), ApiError> {
    if is_deeper(object, DEPTH_LIMIT) {
        return Err(ApiError::bad_request(format!(
            "the object nests deeper than {DEPTH_LIMIT} levels"
        )));
    }
    check_kind(served, object)?;
    let map = object.as_object_mut().expect("checked to be an object");
    let metadata = map.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(ApiError::bad_request("metadata must be an object"));
    };
    metadata.remove("selfLink");
    metadata.retain(|field, value| {
        let left_out = value.is_null() || OMITTED_IF_EMPTY.contains(&field.as_str()) && is_empty(value);
        !left_out
    });
    for field in ["name", "generateName", "namespace", "resourceVersion", "uid"] {
        if metadata.get(field).is_some_and(|value| !value.is_string()) {
            return Err(ApiError::bad_request(format!(
                "metadata.{field} must be a string"
            )));
        }
    }
    fn text<'a>(metadata: &'a Map<String, Value>, field: &str) -> &'a str {
        metadata.get(field).and_then(Value::as_str).unwrap_or_default()
    }
    if let Some(name) = name {
        check_name(text(metadata, "name"), name)?;
    }
    let found = text(metadata, "namespace");
    if served.namespaced {
        check_namespace(found, namespace)?;
        if found.is_empty() {
            metadata.insert("namespace".to_owned(), Value::from(namespace));
        }
    } else {
        metadata.remove("namespace");
    }
    Ok(())
}

/// The same as [`admit`] for a body of another kind than the resource's, of which one version is taken. Whether its
/// name has to be the path's is its own matter.
pub(super) fn admit_other(
    call: &Call<'_>,
    object: &mut Value,
    api_version: &str,
    kind: &str,
) -> Result<(), ApiError> {
    check_type(object, api_version, kind)?;
    let metadata = &object["metadata"];
    if !metadata.is_object() && !metadata.is_null() {
        return Err(ApiError::bad_request("metadata must be an object"));
    }
    if call.served.namespaced {
        check_namespace(meta::namespace(object), call.namespace())?;
    }
    Ok(())
}

fn check_kind(served: &Served, object: &mut Value) -> Result<(), ApiError> {
    if served.custom.is_some()
        && let Some(map) = object.as_object()
    {
        let missing = ["kind", "apiVersion"].into_iter().find(|field| {
            let value = map.get(*field).unwrap_or(&Value::Null);
            value.is_null() || value == ""
        });
        if let Some(missing) = missing {
            let missing = if missing == "kind" { "Kind" } else { missing };
            return Err(ApiError::bad_request(format!(
                "Object '{missing}' is missing in '{object}'"
            )));
        }
    }
    check_type(object, &served.api_version, &served.kind)
}

/// Checks a new or changed object's metadata.
pub(super) fn validate(served: &Served, object: &Value, problems: &mut Problems) {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        problems.required("metadata.name", "name or generateName is required");
    } else {
        for problem in name_problems(served, name) {
            problems.invalid("metadata.name", &metadata["name"], problem);
        }
    }
    text_map(
        &metadata["labels"],
        "metadata.labels",
        problems,
        |key, value, problems| {
            for problem in names::qualified_name_problems(key) {
                problems.invalid("metadata.labels", &Value::from(key), problem);
            }
            for problem in names::label_value_problems(value) {
                problems.invalid("metadata.labels", &Value::from(value), problem);
            }
        },
    );
    let mut size = 0;
    text_map(
        &metadata["annotations"],
        "metadata.annotations",
        problems,
        |key, value, problems| {
            size += key.len() + value.len();
            if let Err(problem) = names::validate_annotation_key(key) {
                problems.invalid("metadata.annotations", &Value::from(key), problem);
            }
        },
    );
    if size > ANNOTATIONS_LIMIT {
        problems.too_long(
            "metadata.annotations",
            &format!("may not be more than {ANNOTATIONS_LIMIT} bytes"),
        );
    }
    finalizers(served, &metadata["finalizers"], problems);
    owners(&metadata["ownerReferences"], problems);
}

fn name_problems(served: &Served, name: &str) -> Vec<String> {
    if served.strategy.label_names {
        names::dns1123_label_problems(name)
    } else if served.strategy.dns_names {
        names::dns1123_subdomain_problems(name)
    } else {
        names::path_segment_problems(name)
    }
}

fn text_map(
    value: &Value,
    field: &str,
    problems: &mut Problems,
    mut check: impl FnMut(&str, &str, &mut Problems),
) {
    let Some(map) = value.as_object() else {
        if !value.is_null() {
            problems.invalid(field, value, "must be an object of strings");
        }
        return;
    };
    for (key, value) in map {
        match value.as_str() {
            Some(text) => check(key, text, problems),
            None => problems.invalid(format!("{field}.{key}"), value, "must be a string"),
        }
    }
}

fn finalizers(served: &Served, value: &Value, problems: &mut Problems) {
    let Some(list) = value.as_array() else {
        if !value.is_null() {
            problems.invalid("metadata.finalizers", value, "must be a list of strings");
        }
        return;
    };
    // Definitions come from another program's code, and Kubernetes' own finalizer of theirs has none.
    let needs_domain = served.custom.is_none()
        && !matches!(&*served.group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
    for (index, finalizer) in list.iter().enumerate() {
        match finalizer.as_str() {
            Some(text) => {
                for problem in names::qualified_name_problems(text) {
                    problems.invalid("metadata.finalizers", finalizer, problem);
                }
                let is_fine = text.contains('/') || STANDARD_FINALIZERS.contains(&text);
                if !is_fine && needs_domain {
                    let why = "name is neither a standard finalizer name nor is it fully qualified";
                    problems.invalid(format!("metadata.finalizers[{index}]"), finalizer, why);
                }
            }
            None => problems.invalid("metadata.finalizers", finalizer, "must be a string"),
        }
    }
    if ["orphan", "foregroundDeletion"]
        .iter()
        .all(|one| list.iter().any(|other| other == one))
    {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        problems.invalid("metadata.finalizers", value, why);
    }
}

/// What only Kubernetes itself means, and may leave without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

fn owners(value: &Value, problems: &mut Problems) {
    let Some(list) = value.as_array() else {
        if !value.is_null() {
            problems.invalid("metadata.ownerReferences", value, "must be a list");
        }
        return;
    };
    let mut controllers = 0;
    for (index, owner) in list.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                problems.invalid(
                    format!("metadata.ownerReferences[{index}].{field}"),
                    &owner[field],
                    "must not be empty",
                );
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        problems.invalid(
            "metadata.ownerReferences",
            value,
            "Only one reference can have Controller set to true",
        );
    }
}

/// Refuses another identity and another end of life; leaving them out is fine.
pub(super) fn no_change_of_life(new: &Value, old: &Value, problems: &mut Problems) {
    let (new, old) = (&new["metadata"], &old["metadata"]);
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (wanted, found) = (&new[field], &old[field]);
        // Once it is deleted, the time of that is the server's own.
        let is_kept = field == "deletionTimestamp" && !found.is_null();
        if !(wanted.is_null() || wanted == "" || wanted == found || is_kept) {
            problems.invalid(format!("metadata.{field}"), wanted, "field is immutable");
        }
    }
}

/// Takes over from the old version what no client may change.
pub(super) fn keep_system_fields(new: &mut Value, old: &Value) {
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        match old["metadata"].get(field) {
            None => {
                metadata.remove(field);
            }
            Some(value) => {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
    }
}

/// Refuses finalizers that are new on an object that is going away.
pub(super) fn no_new_finalizers(new: &Value, old: &Value, problems: &mut Problems) {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let list = |object: &Value| {
        object["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let before = list(old);
    let added: Vec<Value> = list(new)
        .into_iter()
        .filter(|finalizer| !before.contains(finalizer))
        .collect();
    if !added.is_empty() {
        problems.forbidden(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                Value::Array(added)
            ),
        );
    }
}

/// Whether anything still holds an object that is to be deleted.
pub(super) fn is_held(served: &Served, object: &Value) -> bool {
    let some = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    some(&object["metadata"]["finalizers"])
        || (served.group.is_empty() && served.plural == "namespaces" && some(&object["spec"]["finalizers"]))
}
