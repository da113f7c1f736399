//! The objects that prepare a cluster: [`parent()`] for the one that holds the fleet's objects, [`child()`] for one
//! that joins, with its [`agent()`]. They hold no wildcard and bind nobody to cluster-admin.

mod agent;
mod child;
pub mod limits;
mod parent;

use serde_json::{Value, json};

pub use agent::{AgentOptions, BOOTSTRAP_SECRET, agent, bootstrap_secret};
pub use child::{ChildOptions, Kinds, child};
pub use parent::{ParentOptions, parent, roles};

use crate::names::SYSTEM_NAMESPACE;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn service_account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
    })
}

/// Asking whose a token is, and who may do what: for whoever serves something.
fn reviews() -> Value {
    rule(
        &["authentication.k8s.io", "authorization.k8s.io"],
        &["tokenreviews", "subjectaccessreviews"],
        &["create"],
    )
}

/// Lets a Deployment's container be probed at what its role serves about itself on a port.
pub fn add_probes(deployment: &mut Value, port: u16) {
    let get = |path: &str| json!({"httpGet": {"path": path, "port": port, "scheme": "HTTPS"}});
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["livenessProbe"] = get("/livez");
    container["readinessProbe"] = get("/readyz");
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn named_rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs})
}

fn cluster_role(name: &str, rules: Vec<Value>) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn role(name: &str, namespace: &str, rules: Vec<Value>) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules,
    })
}

fn account_subject(account: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE})
}

fn group_subject(group: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group})
}

fn cluster_binding(name: &str, cluster_role: &str, subjects: Vec<Value>) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
        "subjects": subjects,
    })
}

fn binding(name: &str, namespace: &str, role_kind: &str, role: &str, subjects: Vec<Value>) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": subjects,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_no_wildcard_and_no_cluster_admin() {
        let options = ParentOptions {
            compat_anonymous_proxy: true,
            ..ParentOptions::default()
        };
        let objects = parent(&options)
            .into_iter()
            .chain(child(&ChildOptions::default()));
        for object in objects.filter(|object| object["apiVersion"] == RBAC) {
            let text = object.to_string();
            assert!(!text.contains("\"*\""), "{text}");
            assert!(!text.contains("cluster-admin"), "{text}");
        }
    }

    #[test]
    fn services_across_clusters_have_the_rights_that_they_need() {
        use crate::names::CONTROLLERS;
        let objects: Vec<Value> = parent(&ParentOptions::default())
            .into_iter()
            .chain(child(&ChildOptions::default()))
            .collect();
        let (read, change) = ("get list watch", "patch update");
        for (role, group, resource, expected) in [
            (
                "clusternet:agent",
                "multicluster.x-k8s.io",
                "serviceexports",
                "get list patch update watch",
            ),
            (
                "clusternet:agent",
                "multicluster.x-k8s.io",
                "serviceexports/status",
                change,
            ),
            ("clusternet:agent", "", "services", read),
            ("clusternet:agent", "discovery.k8s.io", "endpointslices", read),
            (CONTROLLERS, "multicluster.x-k8s.io", "serviceimports", read),
            (
                CONTROLLERS,
                "multicluster.x-k8s.io",
                "serviceimports/status",
                change,
            ),
            (
                CONTROLLERS,
                "",
                "services",
                "create delete get list patch update watch",
            ),
        ] {
            let of_role = |it: &&Value| it["kind"] == "ClusterRole" && it["metadata"]["name"] == role;
            let rules = objects
                .iter()
                .filter(of_role)
                .flat_map(|it| it["rules"].as_array());
            let has = |list: &Value, word: &str| list.as_array().is_some_and(|it| it.contains(&json!(word)));
            let granted = rules
                .flatten()
                .filter(|rule| has(&rule["apiGroups"], group) && has(&rule["resources"], resource));
            let verbs: std::collections::BTreeSet<&str> = granted
                .flat_map(|rule| rule["verbs"].as_array())
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let verbs: Vec<&str> = verbs.into_iter().collect();
            assert_eq!(verbs.join(" "), expected, "{role} {group} {resource}");
        }
    }

    #[test]
    fn namespaces_come_before_what_lies_in_them() {
        let objects = parent(&ParentOptions::default());
        for (index, object) in objects.iter().enumerate() {
            let Some(needed) = object["metadata"]["namespace"]
                .as_str()
                .filter(|name| *name != "kube-system")
            else {
                continue;
            };
            let made = objects[..index]
                .iter()
                .any(|earlier| earlier["kind"] == "Namespace" && earlier["metadata"]["name"] == needed);
            assert!(made, "{object} comes before its namespace");
        }
    }
}
