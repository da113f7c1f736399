//! What one planning pass may look at.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::ApiResource;
use serde_json::Value;

/// Nodes.
pub static NODES: ApiResource = ApiResource::cluster("", "v1", "nodes", "Node");
/// Pods.
pub static PODS: ApiResource = ApiResource::namespaced("", "v1", "pods", "Pod");
/// Deployments.
pub static DEPLOYMENTS: ApiResource = ApiResource::namespaced("apps", "v1", "deployments", "Deployment");
/// ReplicaSets.
pub static REPLICA_SETS: ApiResource = ApiResource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
/// StatefulSets.
pub static STATEFUL_SETS: ApiResource = ApiResource::namespaced("apps", "v1", "statefulsets", "StatefulSet");
/// DaemonSets.
pub static DAEMON_SETS: ApiResource = ApiResource::namespaced("apps", "v1", "daemonsets", "DaemonSet");
/// Jobs.
pub static JOBS: ApiResource = ApiResource::namespaced("batch", "v1", "jobs", "Job");
/// Disruption budgets.
pub static DISRUPTION_BUDGETS: ApiResource =
    ApiResource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");

/// One cluster's objects, each list ordered by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// Nodes.
    pub nodes: Vec<Arc<Value>>,
    /// Pods.
    pub pods: Vec<Arc<Value>>,
    /// Deployments.
    pub deployments: Vec<Arc<Value>>,
    /// ReplicaSets.
    pub replica_sets: Vec<Arc<Value>>,
    /// StatefulSets.
    pub stateful_sets: Vec<Arc<Value>>,
    /// DaemonSets.
    pub daemon_sets: Vec<Arc<Value>>,
    /// Jobs.
    pub jobs: Vec<Arc<Value>>,
    /// Disruption budgets.
    pub budgets: Vec<Arc<Value>>,
}

/// A text field by JSON pointer, empty if it is absent.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A pod's containers, without those that only start it.
pub(crate) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.pointer("/spec/containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// A number field by JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn deleting(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null())
}

/// Whether `owner` is the object's controller.
pub(crate) fn controlled_by(object: &Value, owner: &Value) -> bool {
    let uid = uid(owner);
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .is_some_and(|owners| {
            owners
                .iter()
                .any(|entry| entry["controller"] == true && entry["uid"] == uid)
        })
}

pub(crate) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Whether the pod's Ready condition is True.
pub(crate) fn pod_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// Whether the pod still counts for its owner: not on its way out and not ended.
pub(crate) fn pod_active(pod: &Value) -> bool {
    !deleting(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == kind))
}
