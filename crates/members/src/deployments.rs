//! Deployments make one ReplicaSet a template and move pods from the old ones to the new one.

use serde_json::{Value, json};

use crate::action::Action;
use crate::owned;
use crate::replicasets::push_status;
use crate::world::{
    DEPLOYMENTS, REPLICA_SETS, World, controlled_by, deleting, name, namespace, number, text,
};

const HASH_LABEL: &str = "pod-template-hash";
/// Counts a Deployment's templates: `kubectl rollout history` and `undo` go by it.
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(crate) fn plan(world: &World, now: &str, actions: &mut Vec<Action>) {
    for deployment in world
        .deployments
        .iter()
        .filter(|deployment| !deleting(deployment))
    {
        let sets: Vec<&Value> = world
            .replica_sets
            .iter()
            .map(|set| &**set)
            .filter(|set| controlled_by(set, deployment))
            .collect();
        let hash = owned::suffix(owned::hash(&deployment["spec"]["template"], ""), 10);
        let wanted = number(deployment, "/spec/replicas").unwrap_or(1);
        let current = sets.iter().copied().find(|set| label(set) == hash);
        let old: Vec<&Value> = sets.iter().copied().filter(|set| label(set) != hash).collect();
        let newest_old = old.iter().map(|set| revision(set)).max().unwrap_or(0);
        let newest = match current.map(revision) {
            Some(current) if current > newest_old => current,
            Some(_) | None => newest_old + 1,
        };
        if current.is_none() {
            let start = if old.is_empty() {
                wanted
            } else {
                surge(deployment, wanted).min(wanted)
            };
            actions.push(Action::Create {
                resource: &REPLICA_SETS,
                namespace: Some(namespace(deployment).to_owned()),
                object: replica_set(deployment, &hash, start, newest),
            });
        }
        // The Deployment follows once its ReplicaSet is there.
        for (object, resource) in current
            .into_iter()
            .flat_map(|set| [(set, &REPLICA_SETS), (&**deployment, &DEPLOYMENTS)])
            .filter(|(object, _)| revision(object) != newest)
        {
            actions.push(Action::Patch {
                resource,
                namespace: Some(namespace(object).to_owned()),
                name: name(object).to_owned(),
                subresource: None,
                patch: json!({"metadata": {"annotations": {REVISION: newest.to_string()}}}),
            });
        }
        if let Some(current) = current {
            roll(deployment, current, &old, wanted, actions);
        }
        report(deployment, &sets, current, wanted, now, actions);
    }
}

fn label(set: &Value) -> &str {
    text(set, "/metadata/labels/pod-template-hash")
}

/// 0 for an object that has none yet.
fn revision(object: &Value) -> i64 {
    object["metadata"]["annotations"][REVISION]
        .as_str()
        .and_then(|revision| revision.parse().ok())
        .unwrap_or(0)
}

fn replica_set(deployment: &Value, hash: &str, replicas: i64, revision: i64) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let labels = template["metadata"]["labels"].clone();
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)), "namespace": namespace(deployment), "labels": labels,
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": replicas.to_string(),
                REVISION: revision.to_string(),
            },
            "ownerReferences": [owned::reference("apps/v1", "Deployment", deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    })
}

/// `maxSurge` or `maxUnavailable` as a number: percentages round up for the first, down for the second.
fn allowance(deployment: &Value, field: &str, wanted: i64, round_up: bool) -> i64 {
    match deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}")) {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(percent)) => {
            let share: i64 = percent.trim_end_matches('%').parse().unwrap_or(25);
            if round_up {
                (wanted * share + 99) / 100
            } else {
                wanted * share / 100
            }
        }
        _ => {
            if round_up {
                (wanted + 3) / 4
            } else {
                wanted / 4
            }
        }
    }
}

fn surge(deployment: &Value, wanted: i64) -> i64 {
    let unavailable = allowance(deployment, "maxUnavailable", wanted, false);
    let surge = allowance(deployment, "maxSurge", wanted, true);
    // Both zero would never move: Kubernetes then lets one be unavailable.
    if surge == 0 && unavailable == 0 { 0 } else { surge }
}

fn roll(deployment: &Value, current: &Value, old: &[&Value], wanted: i64, actions: &mut Vec<Action>) {
    let replicas = |set: &Value| number(set, "/spec/replicas").unwrap_or(1);
    // A set that was just scaled down still reports the pods that are about to go.
    let available = |set: &Value| {
        number(set, "/status/availableReplicas")
            .unwrap_or(0)
            .min(replicas(set))
    };
    let recreate = text(deployment, "/spec/strategy/type") == "Recreate";
    let old_total: i64 = old.iter().map(|set| replicas(set)).sum();
    let old_pods: i64 = old
        .iter()
        .map(|set| number(set, "/status/replicas").unwrap_or(0))
        .sum();
    let (most, least) = if recreate {
        (if old_pods == 0 { wanted } else { 0 }, 0)
    } else {
        let unavailable = allowance(deployment, "maxUnavailable", wanted, false);
        let surge = surge(deployment, wanted);
        let unavailable = if surge == 0 {
            unavailable.max(1)
        } else {
            unavailable
        };
        (wanted + surge, wanted - unavailable)
    };
    let target = if old_total == 0 {
        wanted
    } else {
        (most - old_total).clamp(replicas(current).min(wanted), wanted)
    };
    if target != replicas(current) {
        actions.push(scale(current, target));
    }
    // How many old pods may go: whatever is available above the floor, and those that are not available at all.
    let mut spare = if recreate {
        old_total
    } else {
        available(current) + old.iter().map(|set| available(set)).sum::<i64>() - least
    };
    for set in old {
        let unhealthy = (replicas(set) - available(set)).max(0);
        let healthy = spare.clamp(0, replicas(set) - unhealthy);
        let remove = unhealthy + healthy;
        spare -= healthy;
        if remove > 0 {
            actions.push(scale(set, replicas(set) - remove));
        }
    }
}

fn scale(set: &Value, replicas: i64) -> Action {
    Action::Patch {
        resource: &REPLICA_SETS,
        namespace: Some(namespace(set).to_owned()),
        name: name(set).to_owned(),
        subresource: None,
        patch: json!({"spec": {"replicas": replicas}}),
    }
}

fn report(
    deployment: &Value,
    sets: &[&Value],
    current: Option<&Value>,
    wanted: i64,
    now: &str,
    actions: &mut Vec<Action>,
) {
    let sum = |field: &str| -> i64 {
        sets.iter()
            .map(|set| number(set, &format!("/status/{field}")).unwrap_or(0))
            .sum()
    };
    let (replicas, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let updated = current
        .and_then(|set| number(set, "/status/replicas"))
        .unwrap_or(0);
    let floor = wanted - allowance(deployment, "maxUnavailable", wanted, false);
    let complete = updated == wanted && replicas == wanted && available == wanted;
    let conditions = json!([
        condition(
            deployment,
            "Available",
            available >= floor,
            ["MinimumReplicasAvailable", "MinimumReplicasUnavailable"],
            [
                "Deployment has minimum availability.",
                "Deployment does not have minimum availability."
            ],
            now
        ),
        condition(
            deployment,
            "Progressing",
            true,
            [if complete {
                "NewReplicaSetAvailable"
            } else {
                "ReplicaSetUpdated"
            }; 2],
            [if complete {
                "ReplicaSet has successfully progressed."
            } else {
                "ReplicaSet is progressing."
            }; 2],
            now
        ),
    ]);
    let status = json!({
        "observedGeneration": deployment.pointer("/metadata/generation").cloned().unwrap_or(json!(1)),
        "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available,
        "unavailableReplicas": (wanted - available).max(0), "conditions": conditions,
    });
    push_status(deployment, &DEPLOYMENTS, status, actions);
}

fn condition(
    object: &Value,
    kind: &str,
    holds: bool,
    reasons: [&str; 2],
    messages: [&str; 2],
    now: &str,
) -> Value {
    let status = if holds { "True" } else { "False" };
    let index = usize::from(!holds);
    let existing = crate::world::condition(object, kind);
    if let Some(existing) = existing
        && existing["status"] == status
        && existing["reason"] == reasons[index]
    {
        return existing.clone();
    }
    let transition = existing
        .filter(|existing| existing["status"] == status)
        .map_or(json!(now), |existing| existing["lastTransitionTime"].clone());
    json!({
        "type": kind, "status": status, "reason": reasons[index], "message": messages[index],
        "lastUpdateTime": now, "lastTransitionTime": transition,
    })
}
