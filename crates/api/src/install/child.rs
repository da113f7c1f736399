//! What a cluster needs that joins.

use serde_json::Value;

use super::{
    account_subject, binding, cluster_binding, cluster_role, named_rule, namespace, role, rule,
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

/// Namespace, identities and rights of the agent, in an order in which they can be made.
pub fn child(options: &ChildOptions) -> Vec<Value> {
    const DEPLOYER: &str = "clusternet:app-deployer";
    const OBSERVER: &str = "clusternet:agent";
    const VISITOR: &str = "clusternet:visitor";
    let deployer = options
        .allow
        .iter()
        .map(|kinds| {
            let resources: Vec<&str> = kinds.resources.iter().map(String::as_str).collect();
            rule(&[kinds.group.as_str()], &resources, WRITE)
        })
        .collect();
    let mut health = serde_json::json!({"verbs": ["get"]});
    health["nonResourceURLs"] = serde_json::json!(["/healthz", "/livez", "/readyz", "/version"]);
    vec![
        namespace(SYSTEM_NAMESPACE),
        service_account(AGENT),
        service_account(APP_DEPLOYER),
        cluster_role(DEPLOYER, deployer),
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
                    &["", "events.k8s.io"],
                    &["events"],
                    &["create", "patch", "update"],
                ),
                health,
            ],
        ),
        // What a person wants who comes through the hub; whoever may make pods could do all of it anyway.
        cluster_role(
            VISITOR,
            vec![
                rule(&["", "events.k8s.io"], &["nodes", "events"], READ),
                rule(&[""], &["pods/log", "pods/status"], &["get"]),
                rule(
                    &[""],
                    &["pods/exec", "pods/attach", "pods/portforward"],
                    &["get", "create"],
                ),
            ],
        ),
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
