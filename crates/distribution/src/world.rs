//! A toy API server for tests: carries plans out on a map of objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::{ApiResource, meta, patch};
use serde_json::{Value, json};

use crate::action::{Action, Plan};

/// Plural, namespace, name.
type Place = (String, String, String);

/// Objects with uids, resource versions and finalizers, and the events that were told.
#[derive(Debug, Default)]
pub(crate) struct World {
    objects: BTreeMap<Place, Arc<Value>>,
    pub(crate) events: Vec<String>,
    version: u64,
}

impl World {
    /// Adds or replaces an object as it is, with a uid and a creation time if it has none.
    pub(crate) fn put(&mut self, resource: &ApiResource, mut object: Value) {
        self.version += 1;
        let version = self.version;
        let metadata = meta::ensure_metadata(&mut object);
        metadata
            .entry("uid")
            .or_insert_with(|| json!(format!("uid-{version}")));
        metadata
            .entry("creationTimestamp")
            .or_insert_with(|| json!(format!("2026-01-01T00:{version:05}Z")));
        metadata.insert("resourceVersion".into(), json!(version.to_string()));
        object["kind"] = json!(resource.kind);
        object["apiVersion"] = json!(resource.api_version());
        let place = (
            resource.plural.to_string(),
            meta::namespace(&object).into(),
            meta::name(&object).into(),
        );
        if meta::is_deleting(&object) && meta::finalizers(&object).next().is_none() {
            self.objects.remove(&place);
        } else {
            self.objects.insert(place, Arc::new(object));
        }
    }

    pub(crate) fn get(&self, resource: &ApiResource, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects
            .get(&(resource.plural.to_string(), namespace.into(), name.into()))
    }

    pub(crate) fn list(&self, resource: &ApiResource) -> Vec<Arc<Value>> {
        let all = self
            .objects
            .iter()
            .filter(|((plural, ..), _)| *plural == resource.plural);
        all.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Those that carry a label.
    pub(crate) fn labelled(&self, resource: &ApiResource, key: &str, value: &str) -> Vec<Arc<Value>> {
        let all = self.list(resource).into_iter();
        all.filter(|object| meta::label(object, key) == Some(value))
            .collect()
    }

    /// Marks an object for deletion, or removes it if nothing holds it.
    pub(crate) fn delete(&mut self, resource: &ApiResource, namespace: &str, name: &str) {
        let mut object = Value::clone(
            self.get(resource, namespace, name)
                .expect("what is deleted exists"),
        );
        object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        self.put(resource, object);
    }

    /// Takes a finalizer off, as its owner would.
    pub(crate) fn release(&mut self, resource: &ApiResource, namespace: &str, name: &str, finalizer: &str) {
        let mut object = Value::clone(
            self.get(resource, namespace, name)
                .expect("what is released exists"),
        );
        meta::remove_finalizer(&mut object, finalizer);
        self.put(resource, object);
    }

    /// Carries a plan out; every precondition must hold.
    pub(crate) fn apply(&mut self, plan: &Plan) {
        for action in &plan.actions {
            match action {
                Action::Create { resource, object } => {
                    let taken = self.get(resource, meta::namespace(object), meta::name(object));
                    assert!(taken.is_none(), "{} is created twice", meta::name(object));
                    self.put(resource, object.clone());
                }
                Action::Patch {
                    resource,
                    target,
                    patch,
                    ..
                } => {
                    let have = self
                        .get(resource, &target.namespace, &target.name)
                        .expect("what is patched exists");
                    if let Some(version) = patch["metadata"]["resourceVersion"].as_str() {
                        assert_eq!(version, meta::resource_version(have), "planned from an old state");
                    }
                    let mut object = Value::clone(have);
                    patch::merge_patch(&mut object, patch);
                    if object["spec"] != have["spec"] {
                        object["metadata"]["generation"] = json!(meta::generation(have) + 1);
                    }
                    self.put(resource, object);
                }
                Action::Delete { resource, target } => self.delete(resource, &target.namespace, &target.name),
                Action::Event { reason, .. } => self.events.push(reason.clone()),
            }
        }
    }
}
