//! What a cluster needs that joins.

use serde_json::Value;

use super::{
    account_subject, binding, cluster_binding, cluster_role, named_rule, namespace, reviews, role, rule,
    service_account,
};
use crate::names::{AGENT, APP_DEPLOYER, SYSTEM_NAMESPACE};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// Resources of one group that the agent may apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kinds {
    /// The group, empty for core.
    pub group: String,
    /// Plural names.
    pub resources: Vec<String>,
}

impl Kinds {
    fn of(group: &str, resources: &[&str]) -> Self {
        Self {
            group: group.to_owned(),
            resources: resources.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Namespaces and the namespaced built-in kinds, without RBAC and webhooks.
    pub fn usual() -> Vec<Self> {
        vec![
            Self::of(
                "",
                &[
                    "namespaces",
                    "pods",
                    "services",
                    "configmaps",
                    "secrets",
                    "serviceaccounts",
                    "persistentvolumeclaims",
                    "endpoints",
                    "limitranges",
                    "resourcequotas",
                    "podtemplates",
                    "replicationcontrollers",
                ],
            ),
            Self::of(
                "apps",
                &[
                    "deployments",
                    "replicasets",
                    "statefulsets",
                    "daemonsets",
                    "controllerrevisions",
                ],
            ),
            Self::of("batch", &["jobs", "cronjobs"]),
            Self::of("autoscaling", &["horizontalpodautoscalers"]),
            Self::of("networking.k8s.io", &["ingresses", "networkpolicies"]),
            Self::of("policy", &["poddisruptionbudgets"]),
            Self::of("discovery.k8s.io", &["endpointslices"]),
            Self::of("coordination.k8s.io", &["leases"]),
        ]
    }
}

/// How a child is prepared.
#[derive(Debug, Clone)]
pub struct ChildOptions {
    /// What the parent may send there.
    pub allow: Vec<Kinds>,
}

impl Default for ChildOptions {
    fn default() -> Self {
        Self {
            allow: Kinds::usual(),
        }
    }
}

const DEPLOYER: &str = "clusternet:app-deployer";
const OBSERVER: &str = "clusternet:agent";
const VISITOR: &str = "clusternet:visitor";

/// Namespace, identities and rights of the agent, in an order in which they can be made.
pub fn child(options: &ChildOptions) -> Vec<Value> {
    let mut manifests = vec![
        namespace(SYSTEM_NAMESPACE),
        service_account(AGENT),
        service_account(APP_DEPLOYER),
        deployer(&options.allow),
        observer(),
        visitor(&options.allow),
    ];
    manifests.extend([
        cluster_binding(
            "clusternet:parent-visits",
            VISITOR,
            vec![account_subject(APP_DEPLOYER)],
        ),
        cluster_binding("clusternet:agent-deploys", DEPLOYER, vec![account_subject(AGENT)]),
        cluster_binding(
            "clusternet:parent-deploys",
            DEPLOYER,
            vec![account_subject(APP_DEPLOYER)],
        ),
        cluster_binding(
            "clusternet:agent-observes",
            OBSERVER,
            vec![account_subject(AGENT)],
        ),
    ]);
    manifests.extend(own_namespace());
    manifests
}

/// What the parent may send.
fn deployer(allow: &[Kinds]) -> Value {
    let rules = allow
        .iter()
        .map(|kinds| {
            let resources: Vec<&str> = kinds.resources.iter().map(String::as_str).collect();
            rule(&[kinds.group.as_str()], &resources, WRITE)
        })
        .collect();
    cluster_role(DEPLOYER, rules)
}

/// What the agent reports of.
fn observer() -> Value {
    let mut health = serde_json::json!({"verbs": ["get"]});
    health["nonResourceURLs"] = serde_json::json!(["/healthz", "/livez", "/readyz", "/version"]);
    cluster_role(
        OBSERVER,
        vec![
            rule(&[""], &["nodes", "pods"], READ),
            rule(&["metrics.k8s.io"], &["nodes", "pods"], &["get", "list"]),
            rule(
                &["multicluster.x-k8s.io"],
                &["serviceexports"],
                &["get", "list", "watch", "update", "patch"],
            ),
            rule(
                &["multicluster.x-k8s.io"],
                &["serviceexports/status"],
                &["update", "patch"],
            ),
            // What is exported.
            rule(&[""], &["services"], READ),
            rule(&["discovery.k8s.io"], &["endpointslices"], READ),
            rule(
                &["", "events.k8s.io"],
                &["events"],
                &["create", "patch", "update"],
            ),
            // Who may read the agent's own metrics.
            reviews(),
            health,
        ],
    )
}

/// What a person wants who comes through the hub; whoever may make pods could do all of it anyway, and whoever may
/// write a workload may scale it.
fn visitor(allow: &[Kinds]) -> Value {
    const SCALABLE: &[&str] = &["deployments", "replicasets", "statefulsets"];
    let mut rules = vec![
        rule(&["", "events.k8s.io"], &["nodes", "events"], READ),
        rule(&[""], &["pods/log", "pods/status"], &["get"]),
        rule(&["metrics.k8s.io"], &["nodes", "pods"], &["get", "list"]),
        rule(
            &[""],
            &["pods/exec", "pods/attach", "pods/portforward"],
            &["get", "create"],
        ),
    ];
    let scales: Vec<String> = allow
        .iter()
        .filter(|kinds| kinds.group == "apps")
        .flat_map(|kinds| &kinds.resources)
        .filter(|resource| SCALABLE.contains(&resource.as_str()))
        .map(|resource| format!("{resource}/scale"))
        .collect();
    if !scales.is_empty() {
        let scales: Vec<&str> = scales.iter().map(String::as_str).collect();
        rules.push(rule(&["apps"], &scales, &["get", "update", "patch"]));
    }
    cluster_role(VISITOR, rules)
}

/// What the agent keeps in its own namespace.
fn own_namespace() -> Vec<Value> {
    vec![
        role(
            "clusternet-agent-state",
            SYSTEM_NAMESPACE,
            vec![
                rule(&["coordination.k8s.io"], &["leases"], WRITE),
                rule(&[""], &["secrets", "serviceaccounts"], WRITE),
                rule(&[""], &["serviceaccounts/token"], &["create"]),
            ],
        ),
        // The parent may turn the account's lasting token into one that ends soon.
        role(
            "clusternet-app-deployer-token",
            SYSTEM_NAMESPACE,
            vec![named_rule(
                &[""],
                &["serviceaccounts/token"],
                &[APP_DEPLOYER],
                &["create"],
            )],
        ),
        binding(
            "clusternet-app-deployer-token",
            SYSTEM_NAMESPACE,
            "Role",
            "clusternet-app-deployer-token",
            vec![account_subject(APP_DEPLOYER)],
        ),
        binding(
            "clusternet-agent-state",
            SYSTEM_NAMESPACE,
            "Role",
            "clusternet-agent-state",
            vec![account_subject(AGENT)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_write_a_workload_may_scale_it() {
        let table: [(&[&str], &str, &[&str]); 3] = [
            (
                &["deployments", "daemonsets", "statefulsets", "replicasets"],
                "apps",
                &["deployments/scale", "statefulsets/scale", "replicasets/scale"],
            ),
            (&["deployments"], "apps", &["deployments/scale"]),
            (&["deployments"], "x.io", &[]),
        ];
        for (resources, group, expected) in table {
            let allow = vec![Kinds::of(group, resources)];
            let manifests = child(&ChildOptions { allow });
            let visitor = manifests
                .iter()
                .find(|it| it["kind"] == "ClusterRole" && it["metadata"]["name"] == VISITOR)
                .unwrap();
            let rules = visitor["rules"].as_array().unwrap();
            let scale = rules.iter().find(|rule| rule["apiGroups"][0] == "apps");
            let got = scale.map(|rule| rule["resources"].clone());
            assert_eq!(
                got.unwrap_or_else(|| serde_json::json!([])),
                serde_json::json!(expected)
            );
            if let Some(rule) = scale {
                assert_eq!(rule["verbs"], serde_json::json!(["get", "update", "patch"]));
            }
        }
    }
}
