//! DaemonSets keep one pod on each node that takes it.

use serde_json::{Value, json};

use crate::action::Action;
use crate::owned;
use crate::replicasets::push_status;
use crate::scheduling::{selected, tolerated};
use crate::world::{
    DAEMON_SETS, PODS, World, controlled_by, deleting, name, namespace, pod_active, pod_ready, text, uid,
};

pub(crate) fn plan(world: &World, random: u64, actions: &mut Vec<Action>) {
    for set in world.daemon_sets.iter().filter(|set| !deleting(set)) {
        let template = &set["spec"]["template"];
        let hash = owned::suffix(owned::hash(template, ""), 10);
        let fits = |node: &Value| selected(&template["spec"], node) && tolerated(&template["spec"], node);
        let nodes: Vec<&str> = world
            .nodes
            .iter()
            .filter(|node| fits(node))
            .map(|node| name(node))
            .collect();
        let pods: Vec<&Value> = world
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| controlled_by(pod, set))
            .collect();
        let taken: Vec<&str> = pods.iter().map(|pod| name(pod)).collect();
        let mut names = owned::fresh_names(set, random, &taken, nodes.len()).into_iter();
        for node in &nodes {
            if pods.iter().any(|pod| text(pod, "/spec/nodeName") == *node) {
                continue;
            }
            let pod_name = names.next().expect("there are as many names as nodes");
            let mut pod = owned::pod("apps/v1", "DaemonSet", set, &pod_name);
            pod["spec"]["nodeName"] = json!(node);
            pod["metadata"]["labels"]["controller-revision-hash"] = json!(hash);
            actions.push(Action::Create {
                resource: &PODS,
                namespace: Some(namespace(set).to_owned()),
                object: pod,
            });
        }
        let outdated = |pod: &Value| text(pod, "/metadata/labels/controller-revision-hash") != hash;
        let rolling = text(set, "/spec/updateStrategy/type") != "OnDelete";
        let all_ready = pods.iter().all(|pod| pod_ready(pod));
        let mut replaced = false;
        for pod in pods.iter().filter(|pod| !deleting(pod)) {
            let misplaced = !nodes.contains(&text(pod, "/spec/nodeName"));
            let replace = rolling && all_ready && outdated(pod) && !replaced;
            replaced |= replace;
            if misplaced || replace || !pod_active(pod) || is_one_too_many(pod, &pods) {
                actions.push(Action::Delete {
                    resource: &PODS,
                    namespace: namespace(pod).to_owned(),
                    name: name(pod).to_owned(),
                    uid: uid(pod).to_owned(),
                    at_once: false,
                });
            }
        }
        let ready = pods
            .iter()
            .filter(|pod| pod_active(pod) && pod_ready(pod))
            .count();
        let status = json!({
            "observedGeneration": set.pointer("/metadata/generation").cloned().unwrap_or(json!(1)),
            "desiredNumberScheduled": nodes.len(),
            "currentNumberScheduled": pods.iter().filter(|pod| pod_active(pod)).count(),
            "updatedNumberScheduled": pods.iter().filter(|pod| pod_active(pod) && !outdated(pod)).count(),
            "numberMisscheduled": 0, "numberReady": ready, "numberAvailable": ready,
            "numberUnavailable": nodes.len().saturating_sub(ready),
        });
        push_status(set, &DAEMON_SETS, status, actions);
    }
}

/// Whether an older pod of the same set is on the node already; ties by name.
fn is_one_too_many(pod: &Value, pods: &[&Value]) -> bool {
    let age = |pod: &Value| {
        (
            text(pod, "/metadata/creationTimestamp").to_owned(),
            name(pod).to_owned(),
        )
    };
    let node = text(pod, "/spec/nodeName");
    pods.iter().any(|other| {
        pod_active(other)
            && !deleting(other)
            && text(other, "/spec/nodeName") == node
            && age(other) < age(pod)
    })
}
