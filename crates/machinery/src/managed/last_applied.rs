//! The way from client-side to server-side apply: `kubectl` may take over, without force, the fields that its own
//! last-applied annotation shows to be its own.

use serde_json::Value;

use super::{Conflict, Writer, walk};
use crate::meta;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How large all annotations may be together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The conflicts that the annotation does not settle.
pub(super) fn remaining(conflicts: Vec<Conflict>, live: &Value, writer: &Writer<'_>) -> Vec<Conflict> {
    let applied = meta::annotation(live, ANNOTATION)
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .filter(|applied| meta::api_version(applied) == writer.api_version);
    let Some(applied) = applied else {
        return conflicts;
    };
    let of = writer.of();
    let found = walk::compare(&applied, live, of);
    let own = walk::field_set(&applied, of)
        .difference(&found.modified)
        .difference(&found.added)
        .difference(&found.removed);
    conflicts
        .into_iter()
        .filter(|conflict| !own.contains(&conflict.steps))
        .collect()
}

/// Keeps an annotation that is there in step with what is applied.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if meta::annotation(object, ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{config}\n");
    let annotations = meta::ensure_annotations(object);
    annotations.insert(ANNOTATION.to_owned(), Value::from(text));
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > ANNOTATIONS_LIMIT {
        annotations.remove(ANNOTATION);
    }
}
