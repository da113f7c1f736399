//! What a child may not change of its own ManagedCluster although it may write it: who it is, and what is selected by.
//! RBAC knows no fields, so an API server is told twice: a real one by a policy of admission, the embedded one by a
//! function that says the same.

use serde_json::{Value, json};

use crate::clusters;
use crate::labels::NODE_PREFIX;

/// Name of the policy and of its binding.
pub const POLICY: &str = "tombolo-children";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// What is said of a change that is refused.
const SPEC: &str = "the spec of a ManagedCluster is the parent's to change, not the child's";
const LABELS: &str = "a child changes only those labels of its ManagedCluster that it takes over from its nodes: clusters \
                      are selected by the others";
const FINALIZERS: &str = "the finalizers of a ManagedCluster are the parent's to change, not the child's";

/// The policy for a real parent, and its binding. `prefixes` are those of the labels that children take over.
pub(super) fn policy(prefixes: &[String]) -> Vec<Value> {
    let (now, was) = (
        "object.metadata.?labels.orValue({})",
        "oldObject.metadata.?labels.orValue({})",
    );
    let list = json!(prefixes);
    let own = format!("{list}.exists(p, k.startsWith(p))");
    let labels = format!(
        "{now}.all(k, {own} || (k in {was} && {was}[k] == {now}[k])) && {was}.all(k, {own} || k in {now})"
    );
    let finalizers = "object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])";
    vec![
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [&*clusters::MANAGED_CLUSTERS.group], "apiVersions": ["*"],
                    "operations": ["UPDATE"], "resources": [&*clusters::MANAGED_CLUSTERS.plural],
                }]},
                "matchConditions": [{
                    "name": "by-the-child",
                    "expression": "request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')",
                }],
                "validations": [
                    {"expression": "object.spec == oldObject.spec", "message": SPEC, "reason": "Forbidden"},
                    {"expression": labels, "message": LABELS, "reason": "Forbidden"},
                    {"expression": finalizers, "message": FINALIZERS, "reason": "Forbidden"},
                ],
            },
        }),
        json!({
            "apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        }),
    ]
}

/// Why a user may not make `new` of `old`, an object of a kind as `GROUP/PLURAL`; `None` if this says nothing against it.
pub fn refusal(user: &str, kind: &str, old: &Value, new: &Value) -> Option<&'static str> {
    let (group, plural) = kind.split_once('/')?;
    let resource = &clusters::MANAGED_CLUSTERS;
    if (group, plural) != (&*resource.group, &*resource.plural) || !is_child(user, new) {
        return None;
    }
    if old["spec"] != new["spec"] {
        return Some(SPEC);
    }
    if selected(old) != selected(new) {
        return Some(LABELS);
    }
    let finalizers = |object: &Value| {
        object["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    (finalizers(old) != finalizers(new)).then_some(FINALIZERS)
}

/// Whether a user is an account of the object's own namespace.
fn is_child(user: &str, object: &Value) -> bool {
    let account = user.strip_prefix("system:serviceaccount:");
    let home = account.and_then(|account| account.split_once(':'));
    home.is_some_and(|(namespace, _)| object["metadata"]["namespace"] == namespace)
}

/// The labels that are not taken over from nodes.
fn selected(object: &Value) -> Vec<(&String, &Value)> {
    let labels = object["metadata"]["labels"].as_object();
    labels
        .into_iter()
        .flatten()
        .filter(|(key, _)| !key.starts_with(NODE_PREFIX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "clusters.clusternet.io/managedclusters";

    /// The changes, by whom, and whether they are refused. The end-to-end tests try the same on a real API server.
    #[test]
    fn a_child_does_not_say_what_it_is_selected_by() {
        let cluster = json!({
            "metadata": {
                "name": "edge-7", "namespace": "clusternet-x", "finalizers": ["f"],
                "labels": {"env": "test", "node.clusternet.io/zone": "a"},
            },
            "spec": {"clusterId": "id", "syncMode": "Pull", "taints": [{"key": "a", "effect": "NoSchedule"}]},
        });
        let (child, other) = (
            "system:serviceaccount:clusternet-x:clusternet-y",
            "system:serviceaccount:clusternet-system:clusternet-controller-manager",
        );
        for (change, refused) in [
            (json!({}), None),
            (json!({"metadata": {"annotations": {"a": "b"}}}), None),
            (
                json!({"metadata": {"labels": {"node.clusternet.io/zone": "b"}}}),
                None,
            ),
            (
                json!({"metadata": {"labels": {"node.clusternet.io/zone": null, "node.clusternet.io/rack": "c"}}}),
                None,
            ),
            (json!({"status": {"platform": "x"}}), None),
            (json!({"metadata": {"labels": {"env": "prod"}}}), Some(LABELS)),
            (json!({"metadata": {"labels": {"env": null}}}), Some(LABELS)),
            (json!({"metadata": {"labels": {"tier": "gold"}}}), Some(LABELS)),
            (json!({"metadata": {"labels": null}}), Some(LABELS)),
            (json!({"metadata": {"finalizers": []}}), Some(FINALIZERS)),
            (json!({"metadata": {"finalizers": ["f", "g"]}}), Some(FINALIZERS)),
            (json!({"spec": {"taints": null}}), Some(SPEC)),
            (json!({"spec": {"syncMode": "Push"}}), Some(SPEC)),
        ] {
            let mut changed = cluster.clone();
            machinery::patch::merge_patch(&mut changed, &change);
            assert_eq!(refusal(child, KIND, &cluster, &changed), refused, "{change}");
            for (user, kind) in [
                (other, KIND),
                ("admin", KIND),
                (child, "apps.clusternet.io/descriptions"),
            ] {
                assert_eq!(refusal(user, kind, &cluster, &changed), None, "{user} {change}");
            }
        }
    }
}
