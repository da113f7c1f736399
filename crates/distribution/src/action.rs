//! What a plan consists of.

use std::time::Duration;

use api::{apps, finalizers, reasons};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::labels;

/// A named object, pinned to one life of it where the uid is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Target {
    /// The object itself.
    pub fn of(object: &Value) -> Self {
        Self {
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
            uid: meta::uid(object).to_owned(),
        }
    }
}

/// How serious an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One thing to do. A shell stops at the first that fails and plans again from fresh state.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Create an object; that it exists already is a failure like any other.
    Create {
        /// Its resource.
        resource: ApiResource,
        /// All of it.
        object: Value,
    },
    /// Apply a JSON merge patch. One that replaces a list carries the resource version it was planned from.
    Patch {
        /// The object's resource.
        resource: ApiResource,
        /// The object.
        target: Target,
        /// `status`, or none.
        subresource: Option<&'static str>,
        /// The patch.
        patch: Value,
    },
    /// Delete an object in the background, if it is still the same one; that it is gone is success.
    Delete {
        /// The object's resource.
        resource: ApiResource,
        /// The object.
        target: Target,
    },
    /// Tell people.
    Event {
        /// What it is about: an object, or at least its kind and metadata.
        about: Value,
        /// How serious it is.
        kind: EventKind,
        /// One of `api::reasons`.
        reason: String,
        /// For people.
        note: String,
    },
}

impl Action {
    /// A merge patch of an object.
    pub fn patch(resource: &ApiResource, object: &Value, patch: Value) -> Self {
        Self::Patch {
            resource: resource.clone(),
            target: Target::of(object),
            subresource: None,
            patch,
        }
    }

    /// A deletion of an object.
    pub fn delete(resource: &ApiResource, object: &Value) -> Self {
        Self::Delete {
            resource: resource.clone(),
            target: Target::of(object),
        }
    }

    /// A normal event.
    pub fn normal(about: &Value, reason: &str, note: impl Into<String>) -> Self {
        Self::event(about, EventKind::Normal, reason, note.into())
    }

    /// A warning.
    pub fn warning(about: &Value, reason: &str, note: impl Into<String>) -> Self {
        Self::event(about, EventKind::Warning, reason, note.into())
    }

    /// The reason of the event about an object that tells of this action's failure; none for the usual one.
    pub fn trouble(&self, about: &Value) -> Option<&'static str> {
        let (resource, patch) = match self {
            Self::Create { resource, .. } | Self::Delete { resource, .. } => (resource, None),
            Self::Patch { resource, patch, .. } => (resource, Some(patch)),
            Self::Event { .. } => return None,
        };
        let kind = meta::kind(about);
        if kind == resource.kind {
            let finalizers = patch.and_then(|patch| patch["metadata"]["finalizers"].as_array());
            let is_added = finalizers.is_some_and(|all| all.iter().any(|it| it == finalizers::APP));
            return is_added.then_some(reasons::FAILED_INJECTING_FINALIZER);
        }
        if kind == apps::SUBSCRIPTIONS.kind && *resource == apps::BASES {
            return Some(reasons::FAILED_SYNCING_BASE);
        }
        (kind == apps::BASES.kind && *resource == apps::LOCALIZATIONS)
            .then_some(reasons::FAILED_SYNCING_LOCALIZATION)
    }

    fn event(about: &Value, kind: EventKind, reason: &str, note: String) -> Self {
        let about = json!({
            "apiVersion": meta::api_version(about), "kind": meta::kind(about),
            "metadata": {
                "namespace": meta::namespace(about), "name": meta::name(about), "uid": meta::uid(about),
                "resourceVersion": meta::resource_version(about),
            },
        });
        Self::Event {
            about,
            kind,
            reason: reason.to_owned(),
            note,
        }
    }
}

/// What to do after the actions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Next {
    /// All is as wanted.
    #[default]
    Done,
    /// Nothing can be done until something changes; why, for people.
    Blocked(String),
    /// Plan again after this time, even if nothing changes.
    Again(Duration),
}

/// What to do about one object.
#[must_use]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// And then.
    pub next: Next,
}

impl Plan {
    /// Whether there is something to write. Events alone are nothing to write.
    pub fn writes(&self) -> bool {
        self.actions
            .iter()
            .any(|action| !matches!(action, Action::Event { .. }))
    }

    /// Adds an action.
    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }
}

/// The patch that adds a finalizer, if it is missing.
pub(crate) fn add_finalizer(object: &Value, finalizer: &str) -> Option<Value> {
    let mut changed = object.clone();
    meta::add_finalizer(&mut changed, finalizer).then(|| with_finalizers(object, &changed))
}

/// The patch that gives an object the finalizer of ours, the labels and the controller that are wanted of it, and
/// exactly this spec; `None` if it has them.
pub(crate) fn correction(have: &Value, wanted: &Value, spec: &Value) -> Option<Value> {
    let untouched = json!({"metadata": {}});
    let mut patch = add_finalizer(have, finalizers::APP).unwrap_or_else(|| untouched.clone());
    if let Some(labels) = meta::labels(wanted) {
        let missing = labels::missing(have, labels);
        if !missing.is_empty() {
            patch["metadata"]["labels"] = Value::Object(missing);
        }
    }
    let controller = |object: &Value| meta::controller(object).map(|owner| owner.uid);
    if controller(have) != controller(wanted) {
        patch["metadata"]["ownerReferences"] = wanted["metadata"]["ownerReferences"].clone();
    }
    if have["spec"] != *spec {
        patch["spec"] = replacing(&have["spec"], spec);
    }
    (patch != untouched).then_some(patch)
}

/// A merge patch's content that leaves exactly `new` of the fields of `old`.
pub fn replacing(old: &Value, new: &Value) -> Value {
    let mut patch = new.clone();
    if let (Value::Object(old), Value::Object(patch)) = (old, &mut patch) {
        for key in old.keys() {
            patch.entry(key.as_str()).or_insert(Value::Null);
        }
    }
    patch
}

/// The patch that removes finalizers, if any of them is there.
pub(crate) fn remove_finalizers(object: &Value, gone: &[&str]) -> Option<Value> {
    let mut changed = object.clone();
    let removed = gone
        .iter()
        .filter(|finalizer| meta::remove_finalizer(&mut changed, finalizer))
        .count();
    (removed > 0).then(|| with_finalizers(object, &changed))
}

fn with_finalizers(object: &Value, changed: &Value) -> Value {
    let finalizers: Vec<&str> = meta::finalizers(changed).collect();
    let mut metadata = json!({"finalizers": finalizers});
    if !meta::resource_version(object).is_empty() {
        metadata["resourceVersion"] = json!(meta::resource_version(object));
    }
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_under_the_peers_reason() {
        let of = |resource: &ApiResource| json!({"kind": resource.kind, "metadata": {"namespace": "n", "name": "x", "uid": "u"}});
        let (subscription, base) = (of(&apps::SUBSCRIPTIONS), of(&apps::BASES));
        let finalizer = add_finalizer(&subscription, finalizers::APP).unwrap();
        let mut held = subscription.clone();
        held["metadata"]["finalizers"] = json!([finalizers::APP, "others"]);
        let released = remove_finalizers(&held, &[finalizers::APP]).unwrap();
        let patch =
            |resource: &ApiResource, patch: &Value| Action::patch(resource, &of(resource), patch.clone());
        let spec = json!({"spec": {}});
        for (about, action, expected) in [
            (
                &subscription,
                patch(&apps::SUBSCRIPTIONS, &finalizer),
                Some("FailedInjectingFinalizer"),
            ),
            (&subscription, patch(&apps::SUBSCRIPTIONS, &released), None),
            (&subscription, patch(&apps::SUBSCRIPTIONS, &spec), None),
            (
                &subscription,
                patch(&apps::BASES, &finalizer),
                Some("FailedSyncingBase"),
            ),
            (
                &subscription,
                Action::delete(&apps::BASES, &base),
                Some("FailedSyncingBase"),
            ),
            (
                &base,
                Action::Create {
                    resource: apps::LOCALIZATIONS,
                    object: of(&apps::LOCALIZATIONS),
                },
                Some("FailedSyncingLocalization"),
            ),
            (&base, patch(&apps::DESCRIPTIONS, &spec), None),
            (&subscription, patch(&apps::MANIFESTS, &spec), None),
            (&subscription, Action::normal(&subscription, "Synced", "x"), None),
        ] {
            assert_eq!(action.trouble(about), expected, "{action:?}");
        }
    }
}
