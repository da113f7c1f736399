//! What a node does with its pods: start them, let them end, take them away.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::action::Action;
use crate::behaviour::{Behaviour, Failure};
use crate::owned;
use crate::plan::Clockwork;
use crate::world::{
    PODS, World, condition, containers, deleting, name, namespace, pod_ready, text, time, uid,
};

pub(crate) fn plan(world: &World, clockwork: &mut Clockwork, actions: &mut Vec<Action>) {
    for pod in &world.pods {
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            if deleting(pod) {
                actions.push(remove(pod));
            }
            continue;
        }
        if !world.nodes.iter().any(|candidate| name(candidate) == node) {
            continue;
        }
        if deleting(pod) {
            actions.push(remove(pod));
            continue;
        }
        if let Some(status) = next_status(pod, clockwork) {
            actions.push(Action::Patch {
                resource: &PODS,
                namespace: Some(namespace(pod).to_owned()),
                name: name(pod).to_owned(),
                subresource: Some("status"),
                patch: json!({"status": status}),
            });
        }
    }
}

fn remove(pod: &Value) -> Action {
    Action::Delete {
        resource: &PODS,
        namespace: namespace(pod).to_owned(),
        name: name(pod).to_owned(),
        uid: uid(pod).to_owned(),
        at_once: true,
    }
}

/// The pod's next status, `None` while there is nothing to do or it is not time yet.
fn next_status(pod: &Value, clockwork: &mut Clockwork) -> Option<Value> {
    let behaviour = Behaviour::of(pod);
    let span =
        |duration: std::time::Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    match text(pod, "/status/phase") {
        "Succeeded" | "Failed" => None,
        "Running" => {
            let exit_after = behaviour.exit_after.filter(|_| pod_ready(pod))?;
            let started = condition(pod, "Ready").and_then(|ready| time(ready, "/lastTransitionTime"))?;
            let due = started.checked_add(span(exit_after)).ok()?;
            if !clockwork.is_due(due) {
                return None;
            }
            Some(if behaviour.restarts {
                backing_off(pod, behaviour.exit_code, clockwork.now)
            } else {
                ended(pod, behaviour.exit_code, clockwork.now)
            })
        }
        _ => {
            let Some(bound) = time(pod, "/status/startTime") else {
                // The kubelet saw it: from here its start takes as long as its behaviour says.
                return Some(json!({
                    "phase": "Pending", "startTime": clockwork.now.to_string(),
                    "hostIP": "198.18.0.1", "conditions": [ready("PodScheduled", true, "", clockwork.now)],
                }));
            };
            let due = bound.checked_add(span(behaviour.start_after)).ok()?;
            if !clockwork.is_due(due) {
                return None;
            }
            match behaviour.fail {
                None => Some(running(pod, true, clockwork.now)),
                Some(Failure::NotReady) => Some(running(pod, false, clockwork.now)),
                Some(Failure::CrashLoopBackOff) => waiting(pod, "CrashLoopBackOff", clockwork.now),
                Some(Failure::ImagePullBackOff) => waiting(pod, "ImagePullBackOff", clockwork.now),
            }
        }
    }
}

fn ready(kind: &str, holds: bool, reason: &str, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": seconds(now),
    });
    if !reason.is_empty() {
        condition["reason"] = json!(reason);
    }
    condition
}

fn conditions(is_ready: bool, reason: &str, now: Timestamp) -> Value {
    json!([
        ready("PodReadyToStartContainers", true, "", now),
        ready("Initialized", true, "", now),
        ready("Ready", is_ready, reason, now),
        ready("ContainersReady", is_ready, reason, now),
        ready("PodScheduled", true, "", now),
    ])
}

/// Kubernetes' `Time` has whole seconds.
pub(crate) fn seconds(now: Timestamp) -> String {
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

fn container_statuses(pod: &Value, status: impl Fn(&Value) -> Value) -> Value {
    containers(pod)
        .map(|container| {
            let mut entry = status(container);
            entry["name"] = container["name"].clone();
            entry["image"] = container["image"].clone();
            entry["imageID"] = json!("simulated");
            entry
        })
        .collect()
}

fn running(pod: &Value, is_ready: bool, now: Timestamp) -> Value {
    let hash = owned::hash(&json!(uid(pod)), "ip");
    let address = format!("198.19.{}.{}", (hash >> 8) % 256, hash % 254 + 1);
    json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": conditions(is_ready, if is_ready { "" } else { "ContainersNotReady" }, now),
        "containerStatuses": container_statuses(pod, |container| json!({
            "ready": is_ready, "started": true, "restartCount": 0,
            "containerID": format!("simulated://{:016x}", owned::hash(&container["name"], uid(pod))),
            "state": {"running": {"startedAt": seconds(now)}},
        })),
    })
}

/// `None` if the pod is in that state already.
fn waiting(pod: &Value, reason: &str, now: Timestamp) -> Option<Value> {
    if text(pod, "/status/containerStatuses/0/state/waiting/reason") == reason {
        return None;
    }
    Some(json!({
        "phase": "Pending",
        "conditions": conditions(false, "ContainersNotReady", now),
        "containerStatuses": container_statuses(pod, |_| json!({
            "ready": false, "started": false, "restartCount": 0, "state": {"waiting": {"reason": reason}},
        })),
    }))
}

fn ended(pod: &Value, exit_code: i32, now: Timestamp) -> Value {
    json!({
        "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
        "conditions": conditions(false, "PodCompleted", now),
        "containerStatuses": container_statuses(pod, |_| json!({
            "ready": false, "started": false, "restartCount": 0,
            "state": {"terminated": terminated(pod, exit_code, now)},
        })),
    })
}

/// A pod whose containers ended and would be started anew: they wait for that, and nothing more happens.
fn backing_off(pod: &Value, exit_code: i32, now: Timestamp) -> Value {
    json!({
        "phase": "Running",
        "conditions": conditions(false, "ContainersNotReady", now),
        "containerStatuses": container_statuses(pod, |_| json!({
            "ready": false, "started": false, "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": terminated(pod, exit_code, now)},
        })),
    })
}

fn terminated(pod: &Value, exit_code: i32, now: Timestamp) -> Value {
    const STARTED: &str = "/status/containerStatuses/0/state/running/startedAt";
    let mut state = json!({
        "exitCode": exit_code, "reason": if exit_code == 0 { "Completed" } else { "Error" },
        "finishedAt": seconds(now),
    });
    // Who else wrote the status may have left it out, and the server takes nothing but a time.
    if time(pod, STARTED).is_some() {
        state["startedAt"] = json!(text(pod, STARTED));
    }
    state
}
