//! Reading and writing an untyped object's `apiVersion`, `kind` and `metadata`. A field that is missing or of the
//! wrong type reads as empty.

use serde_json::{Map, Value, json};

use crate::Gvk;

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Its group, version and kind.
pub fn gvk(object: &Value) -> Gvk {
    Gvk::new(api_version(object), kind(object))
}

/// `apiVersion`
pub fn api_version(object: &Value) -> &str {
    object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `kind`
pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.generateName`
pub fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

/// `metadata.namespace`, empty for a cluster-scoped object.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// `metadata.creationTimestamp`
pub fn creation_timestamp(object: &Value) -> &str {
    text(object, "creationTimestamp")
}

/// `metadata.deletionTimestamp`, `None` for an object that is not being deleted.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    Some(text(object, "deletionTimestamp")).filter(|time| !time.is_empty())
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// `metadata.deletionGracePeriodSeconds`
pub fn deletion_grace_period(object: &Value) -> Option<i64> {
    object
        .get("metadata")?
        .get("deletionGracePeriodSeconds")?
        .as_i64()
}

/// `metadata.generation`, 0 if there is none.
pub fn generation(object: &Value) -> i64 {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("generation"))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// `metadata.labels`
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("labels")?.as_object()
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    labels(object)?.get(key)?.as_str()
}

/// `metadata.annotations`
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// `metadata.finalizers`
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, "finalizers").iter().filter_map(Value::as_str)
}

/// Whether a finalizer is set.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|have| have == finalizer)
}

/// One of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerReference {
    /// The owner's `apiVersion`.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether it is the managing controller.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// A reference that makes `owner` the managing controller, which waits for the object when it is deleted.
    pub fn controller_of(owner: &Value) -> Self {
        Self {
            api_version: api_version(owner).to_owned(),
            kind: kind(owner).to_owned(),
            name: name(owner).to_owned(),
            uid: uid(owner).to_owned(),
            controller: true,
            block_owner_deletion: true,
        }
    }

    /// From its JSON form.
    pub fn from_value(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: value["controller"].as_bool().unwrap_or_default(),
            block_owner_deletion: value["blockOwnerDeletion"].as_bool().unwrap_or_default(),
        }
    }

    /// Its JSON form; the two flags are left out where false.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
        });
        if self.controller {
            value["controller"] = json!(true);
        }
        if self.block_owner_deletion {
            value["blockOwnerDeletion"] = json!(true);
        }
        value
    }
}

/// `metadata.ownerReferences`
pub fn owner_references(object: &Value) -> Vec<OwnerReference> {
    list(object, "ownerReferences")
        .iter()
        .map(OwnerReference::from_value)
        .collect()
}

/// The owner that is the managing controller.
pub fn controller(object: &Value) -> Option<OwnerReference> {
    owner_references(object)
        .into_iter()
        .find(|reference| reference.controller)
}

/// An object's field as a map, made where it is missing or something else. A `Value` that is no object becomes
/// one.
pub fn ensure_map<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else {
        unreachable!("made an object above")
    };
    let slot = map.entry(field).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    let Value::Object(map) = slot else {
        unreachable!("made an object above")
    };
    map
}

/// `metadata` to write to, made where it is missing.
pub fn ensure_metadata(object: &mut Value) -> &mut Map<String, Value> {
    ensure_map(object, "metadata")
}

fn ensure_in_metadata<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    ensure_metadata(object);
    ensure_map(&mut object["metadata"], field)
}

/// `metadata.labels` to write to, made where it is missing.
pub fn ensure_labels(object: &mut Value) -> &mut Map<String, Value> {
    ensure_in_metadata(object, "labels")
}

/// `metadata.annotations` to write to, made where it is missing.
pub fn ensure_annotations(object: &mut Value) -> &mut Map<String, Value> {
    ensure_in_metadata(object, "annotations")
}

/// Sets one label; says whether that changed something.
pub fn set_label(object: &mut Value, key: &str, value: &str) -> bool {
    set(ensure_labels(object), key, value)
}

/// Sets one annotation; says whether that changed something.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) -> bool {
    set(ensure_annotations(object), key, value)
}

fn set(map: &mut Map<String, Value>, key: &str, value: &str) -> bool {
    if map.get(key).and_then(Value::as_str) == Some(value) {
        return false;
    }
    map.insert(key.to_owned(), json!(value));
    true
}

/// Sets a text in `metadata`; the empty text removes the field.
pub fn set_text(object: &mut Value, field: &str, value: &str) {
    let metadata = ensure_metadata(object);
    if value.is_empty() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), json!(value));
    }
}

/// Adds a finalizer at the end; says whether it was missing.
pub fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if has_finalizer(object, finalizer) {
        return false;
    }
    let metadata = ensure_metadata(object);
    match metadata.get_mut("finalizers") {
        Some(Value::Array(list)) => list.push(json!(finalizer)),
        Some(_) | None => {
            metadata.insert("finalizers".to_owned(), json!([finalizer]));
        }
    }
    true
}

/// Removes a finalizer; says whether it was there. The last one takes the field along.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if !has_finalizer(object, finalizer) {
        return false;
    }
    let metadata = ensure_metadata(object);
    if let Some(Value::Array(list)) = metadata.get_mut("finalizers") {
        list.retain(|have| have.as_str() != Some(finalizer));
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_and_empty_what_is_not() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["f"], "generation": 3},
        });
        assert_eq!(gvk(&object).to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(
            (name(&object), namespace(&object), generation(&object)),
            ("web", "", 3)
        );
        assert_eq!((label(&object, "a"), annotation(&object, "a")), (Some("b"), None));
        assert!(has_finalizer(&object, "f") && !is_deleting(&object));
        assert_eq!(name(&json!([1])), "");
    }

    #[test]
    fn writes_say_whether_they_changed_something() {
        let mut object = json!({});
        assert!(set_label(&mut object, "a", "b") && !set_label(&mut object, "a", "b"));
        assert!(add_finalizer(&mut object, "f") && !add_finalizer(&mut object, "f"));
        assert!(remove_finalizer(&mut object, "f") && !remove_finalizer(&mut object, "f"));
        assert_eq!(object, json!({"metadata": {"labels": {"a": "b"}}}));
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}});
        let reference = OwnerReference::controller_of(&owner);
        object["metadata"]["ownerReferences"] = json!([reference.to_value()]);
        assert_eq!(controller(&object), Some(reference));
    }
}
