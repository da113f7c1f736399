//! What a child may do on the parent: its own namespace, its own request, its own tunnel, and no more.

use api::{annotations, labels, names};
use machinery::meta;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What a child may do outside its namespace: ask for itself, open its own tunnel, and get
/// the payloads of its own Descriptions.
pub fn cluster_rules(cluster_id: &str) -> Value {
    json!([
        {"apiGroups": ["clusters.clusternet.io"], "resources": ["clusterregistrationrequests"], "verbs": ["create"]},
        {"apiGroups": ["clusters.clusternet.io"], "resources": ["clusterregistrationrequests"],
         "resourceNames": [names::for_cluster(cluster_id)], "verbs": ["get"]},
        {"apiGroups": ["proxies.clusternet.io"], "resources": ["sockets"], "resourceNames": [cluster_id],
         "verbs": ["create", "get", "update", "patch", "delete"]},
        {"apiGroups": ["proxies.clusternet.io"], "resources": ["sockets/payloads"], "resourceNames": [cluster_id],
         "verbs": ["get"]},
    ])
}

/// What a child may do in its dedicated namespace: exactly what an agent, ours or upstream's, does there, and renew the
/// token of its account.
pub fn namespace_rules(account: &str) -> Value {
    let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let change = ["get", "list", "patch", "update", "watch"];
    let status = ["get", "patch", "update"];
    json!([
        {"apiGroups": ["apps.clusternet.io"], "resources": ["descriptions", "helmreleases"], "verbs": change},
        {"apiGroups": ["apps.clusternet.io"], "resources": ["descriptions/status", "helmreleases/status"], "verbs": status},
        // Upstream's agents do nothing before they have seen them all, though there are none.
        {"apiGroups": ["apps.clusternet.io"], "resources": ["helmcharts"], "verbs": ["get", "list", "watch"]},
        // Not to delete it: registered anew, it would be without the taints and labels that people gave it.
        {"apiGroups": ["clusters.clusternet.io"], "resources": ["managedclusters"], "verbs": change},
        {"apiGroups": ["clusters.clusternet.io"], "resources": ["managedclusters/status"], "verbs": status},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": all},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": all},
        // Upstream's agents take an export back by its label.
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["deletecollection"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account], "verbs": ["create"]},
    ])
}

fn metadata(name: &str, namespace: Option<&str>, cluster_id: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "annotations": {annotations::AUTO_UPDATE: "true"},
        "labels": {
            labels::CREATED_BY: labels::CREATED_BY_CONTROLLERS,
            labels::BOOTSTRAPPING: labels::RBAC_DEFAULTS,
            labels::CLUSTER_ID: cluster_id,
        },
    });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

fn subject(account: &Value) -> Value {
    json!({"kind": "ServiceAccount", "name": meta::name(account), "namespace": meta::namespace(account)})
}

/// Whose a child's ClusterRole is: its account's, and whoever's who holds a token that was made for its name, for such
/// read the account's credential in the answer to the request.
pub fn cluster_subjects(account: &Value, cluster_name: &str) -> Value {
    json!([
        subject(account),
        {"apiGroup": RBAC, "kind": "Group", "name": names::join_group(cluster_name)},
    ])
}

/// The ClusterRole of a child.
pub fn cluster_role(cluster_id: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": metadata(&names::for_cluster(cluster_id), None, cluster_id), "rules": cluster_rules(cluster_id),
    })
}

/// The ClusterRoleBinding of a child.
pub fn cluster_role_binding(cluster_id: &str, account: &Value, cluster_name: &str) -> Value {
    let name = names::for_cluster(cluster_id);
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": metadata(&name, None, cluster_id),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": cluster_subjects(account, cluster_name),
    })
}

/// The Role of a child in its namespace.
pub fn role(cluster_id: &str, namespace: &str, account: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": metadata(names::MANAGED_CLUSTER_ROLE, Some(namespace), cluster_id),
        "rules": namespace_rules(meta::name(account)),
    })
}

/// Whose token the holder of a Role may renew; empty if nobody's.
pub fn renewing(role: &Value) -> &str {
    let rules = role["rules"].as_array().into_iter().flatten();
    let mut names = rules
        .filter(|rule| rule["resources"] == json!(["serviceaccounts/token"]))
        .filter_map(|rule| rule["resourceNames"][0].as_str());
    names.next().unwrap_or_default()
}

/// The RoleBinding of a child in its namespace.
pub fn role_binding(cluster_id: &str, namespace: &str, account: &Value) -> Value {
    let name = names::MANAGED_CLUSTER_ROLE;
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": metadata(name, Some(namespace), cluster_id),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [subject(account)],
    })
}

/// The patch that brings an existing object to the wanted content of `field`; `None` if it has it, or if somebody
/// froze the object by taking the annotation off.
pub fn correction(have: &Value, wanted: &Value, field: &str) -> Option<Value> {
    let ours = meta::annotation(have, annotations::AUTO_UPDATE) == Some("true");
    (ours && have[field] != wanted[field])
        .then(|| json!({field: distribution::replacing(&have[field], &wanted[field])}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_no_wildcards_and_no_reach_beyond_the_own_namespace() {
        for rules in [cluster_rules("id"), namespace_rules("account")] {
            assert!(!rules.to_string().contains("\"*\""));
        }
        for rule in cluster_rules("id").as_array().unwrap() {
            let named = rule["resourceNames"].is_array();
            assert!(named || rule["verbs"] == json!(["create"]), "{rule}");
            assert_ne!(rule["resources"], json!(["secrets"]));
        }
    }

    #[test]
    fn grants_what_agents_do_in_their_namespace() {
        // By hand from what upstream's agent asks for (seen against a real API server), and ours.
        let asked = [
            (
                "apps.clusternet.io",
                "descriptions",
                "list watch get update patch",
            ),
            ("apps.clusternet.io", "descriptions/status", "update patch"),
            ("apps.clusternet.io", "helmreleases", "list watch get update"),
            ("apps.clusternet.io", "helmreleases/status", "update patch"),
            ("apps.clusternet.io", "helmcharts", "list watch"),
            (
                "clusters.clusternet.io",
                "managedclusters",
                "list watch get patch",
            ),
            ("clusters.clusternet.io", "managedclusters/status", "update patch"),
            ("", "secrets", "get create update"),
            ("", "events", "create patch"),
            ("events.k8s.io", "events", "create patch"),
            (
                "discovery.k8s.io",
                "endpointslices",
                "list watch get create update patch delete deletecollection",
            ),
        ];
        let rules = namespace_rules("account");
        let has = |list: &Value, word: &str| list.as_array().unwrap().contains(&json!(word));
        for (group, resource, verbs) in asked {
            for verb in verbs.split(' ') {
                let granted = rules.as_array().unwrap().iter().any(|rule| {
                    has(&rule["apiGroups"], group)
                        && has(&rule["resources"], resource)
                        && has(&rule["verbs"], verb)
                });
                assert!(granted, "{verb} {resource}.{group}");
            }
        }
    }

    #[test]
    fn leaves_frozen_objects_alone() {
        let wanted = role("id", "ns", &json!({"metadata": {"name": "account"}}));
        let mut have = wanted.clone();
        assert_eq!(correction(&have, &wanted, "rules"), None);
        have["rules"] = json!([]);
        assert_eq!(
            correction(&have, &wanted, "rules"),
            Some(json!({"rules": namespace_rules("account")}))
        );
        have["metadata"]["annotations"] = json!({});
        assert_eq!(correction(&have, &wanted, "rules"), None);
    }
}
