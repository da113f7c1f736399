//! ReplicaSets keep their number of pods.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::Action;
use crate::owned;
use crate::plan::{Room, no_room};
use crate::world::{
    PODS, REPLICA_SETS, World, controlled_by, deleting, name, namespace, number, pod_active, pod_ready, text,
    uid,
};

pub(crate) fn plan(world: &World, random: u64, room: &mut Room, actions: &mut Vec<Action>) {
    for set in world.replica_sets.iter().filter(|set| !deleting(set)) {
        let pods: Vec<&Arc<Value>> = world.pods.iter().filter(|pod| controlled_by(pod, set)).collect();
        let active: Vec<&Value> = pods
            .iter()
            .map(|pod| &***pod)
            .filter(|pod| pod_active(pod))
            .collect();
        let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
        let taken: Vec<&str> = pods.iter().map(|pod| name(pod)).collect();
        let missing = wanted.saturating_sub(active.len());
        let granted = room.take(missing);
        for pod_name in owned::fresh_names(set, random, &taken, granted) {
            actions.push(Action::Create {
                resource: &PODS,
                namespace: Some(namespace(set).to_owned()),
                object: owned::pod("apps/v1", "ReplicaSet", set, &pod_name),
            });
        }
        for pod in surplus(&active, wanted) {
            actions.push(Action::Delete {
                resource: &PODS,
                namespace: namespace(set).to_owned(),
                name: name(pod).to_owned(),
                uid: uid(pod).to_owned(),
                at_once: false,
            });
        }
        let ready = active.iter().filter(|pod| pod_ready(pod)).count();
        let mut status = json!({
            "replicas": active.len(), "fullyLabeledReplicas": active.len(),
            "readyReplicas": ready, "availableReplicas": ready,
            "observedGeneration": set.pointer("/metadata/generation").cloned().unwrap_or(json!(1)),
        });
        let failed = json!([{
            "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": no_room(),
        }]);
        let failing = set["status"].get("conditions").is_some_and(|it| *it == failed);
        if granted < missing {
            status["conditions"] = failed;
        } else if failing {
            status["conditions"] = Value::Null;
        }
        push_status(set, &REPLICA_SETS, status, actions);
    }
}

/// The pods to remove: first those without a node, then not ready ones, then the youngest; ties by name.
fn surplus<'a>(active: &[&'a Value], wanted: usize) -> Vec<&'a Value> {
    let mut order: Vec<&Value> = active.to_vec();
    order.sort_by(|a, b| {
        let rank = |pod: &Value| (!text(pod, "/spec/nodeName").is_empty(), pod_ready(pod));
        rank(a)
            .cmp(&rank(b))
            .then_with(|| text(b, "/metadata/creationTimestamp").cmp(text(a, "/metadata/creationTimestamp")))
            .then_with(|| name(a).cmp(name(b)))
    });
    order.truncate(active.len().saturating_sub(wanted));
    order
}

/// Asks for a status patch where any of the wanted fields differs from what is there.
pub(crate) fn push_status(
    object: &Value,
    resource: &'static machinery::ApiResource,
    status: Value,
    actions: &mut Vec<Action>,
) {
    let wanted = status.as_object().expect("a status is an object");
    // An absent number is a zero: Kubernetes leaves zeros out.
    let same = wanted
        .iter()
        .all(|(key, value)| match object.pointer(&format!("/status/{key}")) {
            Some(found) => found == value,
            None => value == &json!(0) || value.is_null(),
        });
    if same {
        return;
    }
    actions.push(Action::Patch {
        resource,
        namespace: Some(namespace(object).to_owned()),
        name: name(object).to_owned(),
        subresource: Some("status"),
        patch: json!({"status": status}),
    });
}
