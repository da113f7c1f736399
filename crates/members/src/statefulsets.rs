//! StatefulSets make pods one after the other, named by ordinal, and take them away from the end.

use serde_json::{Value, json};

use crate::action::Action;
use crate::owned;
use crate::plan::Room;
use crate::replicasets::push_status;
use crate::world::{
    PODS, STATEFUL_SETS, World, controlled_by, deleting, name, namespace, number, pod_active, pod_ready,
    text, uid,
};

const REVISION_LABEL: &str = "controller-revision-hash";

pub(crate) fn plan(world: &World, room: &mut Room, actions: &mut Vec<Action>) {
    for set in world.stateful_sets.iter().filter(|set| !deleting(set)) {
        let revision = format!(
            "{}-{}",
            name(set),
            owned::suffix(owned::hash(&set["spec"]["template"], ""), 10)
        );
        let wanted = number(set, "/spec/replicas").unwrap_or(1).max(0);
        let parallel = text(set, "/spec/podManagementPolicy") == "Parallel";
        let pods: Vec<&Value> = world
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| controlled_by(pod, set))
            .collect();
        let last = pods.iter().filter_map(|pod| ordinal(set, pod)).max();
        let have = last.map_or(0, |last| last.saturating_add(1));
        let missing = usize::try_from(wanted.saturating_sub(have)).unwrap_or(0);
        let wanted = wanted.min(have.saturating_add(i64::try_from(room.take(missing)).unwrap_or(0)));
        let find = |ordinal: i64| {
            let wanted = format!("{}-{ordinal}", name(set));
            pods.iter().copied().find(|pod| name(pod) == wanted)
        };
        let mut settled = true;
        for ordinal in 0..wanted {
            match find(ordinal) {
                None => {
                    actions.push(create(set, ordinal, &revision));
                    settled = false;
                }
                Some(pod) if !pod_active(pod) => {
                    if !deleting(pod) {
                        actions.push(remove(pod));
                    }
                    settled = false;
                }
                Some(pod) => settled &= pod_ready(pod),
            }
            if !settled && !parallel {
                break;
            }
        }
        let surplus = pods
            .iter()
            .copied()
            .filter(|pod| ordinal(set, pod).is_none_or(|ordinal| ordinal >= wanted));
        let mut surplus: Vec<&Value> = surplus.collect();
        surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(set, pod)));
        if settled || parallel {
            let most = if parallel { surplus.len() } else { 1 };
            for pod in surplus.iter().take(most).filter(|pod| !deleting(pod)) {
                actions.push(remove(pod));
            }
            if surplus.is_empty() && text(set, "/spec/updateStrategy/type") != "OnDelete" {
                // One outdated pod at a time, from the highest ordinal.
                let outdated = (0..wanted)
                    .rev()
                    .filter_map(find)
                    .find(|pod| revision_of(pod) != revision);
                if let Some(pod) = outdated.filter(|pod| !deleting(pod)) {
                    actions.push(remove(pod));
                }
            }
        }
        report(set, &pods, &revision, actions);
    }
}

fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

fn revision_of(pod: &Value) -> &str {
    text(pod, "/metadata/labels/controller-revision-hash")
}

fn create(set: &Value, ordinal: i64, revision: &str) -> Action {
    let pod_name = format!("{}-{ordinal}", name(set));
    let mut pod = owned::pod("apps/v1", "StatefulSet", set, &pod_name);
    pod["metadata"]["labels"][REVISION_LABEL] = json!(revision);
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(pod_name);
    pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
    pod["spec"]["hostname"] = json!(pod_name);
    mount_claims(set, &pod_name, &mut pod);
    Action::Create {
        resource: &PODS,
        namespace: Some(namespace(set).to_owned()),
        object: pod,
    }
}

/// Puts a pod's own claims among its volumes, in place of those of the template with the same name. Nothing makes the
/// claims themselves: there is no storage here.
fn mount_claims(set: &Value, pod_name: &str, pod: &mut Value) {
    let claims = set["spec"]["volumeClaimTemplates"].as_array();
    for claim in claims.into_iter().flatten().map(name) {
        let volumes = &mut pod["spec"]["volumes"];
        if volumes.is_null() {
            *volumes = json!([]);
        }
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|volume| volume["name"] != claim);
            let claimed = json!({"claimName": format!("{claim}-{pod_name}")});
            volumes.push(json!({"name": claim, "persistentVolumeClaim": claimed}));
        }
    }
}

fn remove(pod: &Value) -> Action {
    Action::Delete {
        resource: &PODS,
        namespace: namespace(pod).to_owned(),
        name: name(pod).to_owned(),
        uid: uid(pod).to_owned(),
        at_once: false,
    }
}

fn report(set: &Value, pods: &[&Value], revision: &str, actions: &mut Vec<Action>) {
    let active: Vec<&&Value> = pods.iter().filter(|pod| pod_active(pod)).collect();
    let ready = active.iter().filter(|pod| pod_ready(pod)).count();
    let updated = active.iter().filter(|pod| revision_of(pod) == revision).count();
    let status = json!({
        "observedGeneration": set.pointer("/metadata/generation").cloned().unwrap_or(json!(1)),
        "replicas": active.len(), "readyReplicas": ready, "availableReplicas": ready,
        "currentReplicas": updated, "updatedReplicas": updated,
        "currentRevision": revision, "updateRevision": revision, "collisionCount": 0,
    });
    push_status(set, &STATEFUL_SETS, status, actions);
}
