//! Disruption budgets: how many of their pods may be evicted.

use jiff::SignedDuration;
use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use crate::action::Action;
use crate::plan::Clockwork;
use crate::world::{
    DISRUPTION_BUDGETS, World, controlled_by, deleting, name, namespace, number, pod_active, pod_ready, time,
};

/// An eviction after which the pod is still there did not happen.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(2);

pub(crate) fn plan(world: &World, clockwork: &mut Clockwork, actions: &mut Vec<Action>) {
    for budget in world.budgets.iter().filter(|budget| !deleting(budget)) {
        let selector = &budget["spec"]["selector"];
        let selector = if selector.is_null() {
            Ok(LabelSelector::nothing())
        } else {
            LabelSelector::from_value(selector)
        };
        let Ok(selector) = selector else { continue };
        let pods: Vec<&Value> = world
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| namespace(pod) == namespace(budget) && pod_active(pod))
            .filter(|pod| selector.matches_labels(&pod["metadata"]["labels"]))
            .collect();
        let mut status = json!({});
        let mut evicted = Vec::new();
        for (pod_name, _) in budget["status"]["disruptedPods"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let there = pods.iter().any(|pod| name(pod) == pod_name);
            let pointer = format!("/status/disruptedPods/{pod_name}");
            let due = time(budget, &pointer).and_then(|time| time.checked_add(FORGOTTEN_AFTER).ok());
            if there && due.is_some_and(|due| !clockwork.is_due(due)) {
                evicted.push(pod_name.as_str());
            } else {
                status["disruptedPods"][pod_name] = Value::Null;
            }
        }
        let healthy = pods
            .iter()
            .filter(|pod| pod_ready(pod) && !evicted.contains(&name(pod)))
            .count();
        let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
        let (expected, desired) = wanted(world, budget, &pods);
        let allowed = if expected > 0 {
            (healthy - desired).max(0)
        } else {
            0
        };
        status["currentHealthy"] = json!(healthy);
        status["desiredHealthy"] = json!(desired);
        status["disruptionsAllowed"] = json!(allowed);
        status["expectedPods"] = json!(expected);
        status["observedGeneration"] = json!(number(budget, "/metadata/generation").unwrap_or(1));
        let found = |key: &str| budget["status"].get(key).cloned().unwrap_or(json!(0));
        let fields = status.as_object().into_iter().flatten();
        if fields.into_iter().all(|(key, value)| found(key) == *value) {
            continue;
        }
        // An eviction meanwhile must not be forgotten.
        let version = &budget["metadata"]["resourceVersion"];
        actions.push(Action::Patch {
            resource: &DISRUPTION_BUDGETS,
            namespace: Some(namespace(budget).to_owned()),
            name: name(budget).to_owned(),
            subresource: Some("status"),
            patch: json!({"metadata": {"resourceVersion": version}, "status": status}),
        });
    }
}

/// How many pods there should be, and how many of them healthy.
fn wanted(world: &World, budget: &Value, pods: &[&Value]) -> (i64, i64) {
    let spec = &budget["spec"];
    let there = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if let Some(most) = spec.get("maxUnavailable").filter(|most| !most.is_null()) {
        let scale = scale(world, pods);
        return (scale, (scale - share(most, scale)).max(0));
    }
    let least = &spec["minAvailable"];
    if least.is_string() {
        let scale = scale(world, pods);
        return (scale, share(least, scale));
    }
    (there, least.as_i64().unwrap_or(1))
}

/// A number as it is, or a percentage of a whole, rounded up.
fn share(value: &Value, whole: i64) -> i64 {
    let Some(percent) = value.as_str() else {
        return value.as_i64().unwrap_or(0);
    };
    let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or(0);
    whole.saturating_mul(percent).saturating_add(99) / 100
}

/// How many pods those who control them want; a pod that nobody controls counts for itself.
fn scale(world: &World, pods: &[&Value]) -> i64 {
    let replicas = |object: &Value| number(object, "/spec/replicas").unwrap_or(1);
    let has = |owner: &Value| pods.iter().any(|pod| controlled_by(pod, owner));
    let sets: Vec<&Value> = world
        .replica_sets
        .iter()
        .map(|set| &**set)
        .filter(|set| has(set))
        .collect();
    let deployments = world
        .deployments
        .iter()
        .filter(|deployment| sets.iter().any(|set| controlled_by(set, deployment)));
    let of_none = |set: &&&Value| !world.deployments.iter().any(|owner| controlled_by(set, owner));
    let stateful = world.stateful_sets.iter().filter(|set| has(set));
    let known = |pod: &&&Value| {
        sets.iter().any(|set| controlled_by(pod, set))
            || world.stateful_sets.iter().any(|set| controlled_by(pod, set))
    };
    let others = pods.iter().filter(|pod| !known(pod)).count();
    deployments
        .chain(stateful)
        .map(|owner| replicas(owner))
        .sum::<i64>()
        + sets.iter().filter(of_none).map(|set| replicas(set)).sum::<i64>()
        + i64::try_from(others).unwrap_or(i64::MAX)
}
