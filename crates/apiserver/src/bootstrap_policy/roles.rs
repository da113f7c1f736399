//! The default roles and bindings, as data.

use serde_json::{Value, json};

use super::DefaultObject;
use crate::authz::Rule;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn on(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Rule {
    Rule {
        verbs: strings(verbs),
        api_groups: strings(groups),
        resources: strings(resources),
        ..Rule::default()
    }
}

fn named(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
    Rule {
        resource_names: strings(names),
        ..on(verbs, groups, resources)
    }
}

fn paths(verbs: &[&str], urls: &[&str]) -> Rule {
    Rule {
        verbs: strings(verbs),
        non_resource_urls: strings(urls),
        ..Rule::default()
    }
}

fn metadata(namespace: Option<&str>, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

const API: &str = "/apis/rbac.authorization.k8s.io/v1";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

fn cluster_role(name: &str, rules: Vec<Rule>) -> DefaultObject {
    DefaultObject {
        collection: format!("{API}/clusterroles"),
        object: json!({
            "apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": metadata(None, name), "rules": rules,
        }),
    }
}

/// A role whose rules are those of all roles with a label.
fn aggregated(name: &str, label: &str, feeds: Option<&str>) -> DefaultObject {
    let mut role = cluster_role(name, Vec::new());
    role.object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    if let Some(feeds) = feeds {
        role.object["metadata"]["labels"][feeds] = json!("true");
    }
    role
}

fn feeding(name: &str, label: &str, rules: Vec<Rule>) -> DefaultObject {
    let mut role = cluster_role(name, rules);
    role.object["metadata"]["labels"][label] = json!("true");
    role
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"})
}

fn binding(role: &str, subjects: Vec<Value>) -> DefaultObject {
    DefaultObject {
        collection: format!("{API}/clusterrolebindings"),
        object: json!({
            "apiVersion": API_VERSION, "kind": "ClusterRoleBinding", "metadata": metadata(None, role),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": subjects,
        }),
    }
}

fn role(namespace: &str, name: &str, rules: Vec<Rule>) -> DefaultObject {
    DefaultObject {
        collection: format!("{API}/namespaces/{namespace}/roles"),
        object: json!({
            "apiVersion": API_VERSION, "kind": "Role", "metadata": metadata(Some(namespace), name), "rules": rules,
        }),
    }
}

fn local_binding(namespace: &str, name: &str, role: &str, subjects: Vec<Value>) -> DefaultObject {
    DefaultObject {
        collection: format!("{API}/namespaces/{namespace}/rolebindings"),
        object: json!({
            "apiVersion": API_VERSION, "kind": "RoleBinding", "metadata": metadata(Some(namespace), name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": subjects,
        }),
    }
}

/// Every default role and binding.
pub(super) fn all() -> Vec<DefaultObject> {
    let mut all = everybody();
    all.extend(namespace_users());
    all.extend(components());
    all.extend(kube_system());
    all
}

/// For administrators, for who is authenticated, and for who is not.
fn everybody() -> Vec<DefaultObject> {
    let authenticated = || subject("Group", "system:authenticated");
    vec![
        cluster_role(
            "cluster-admin",
            vec![on(&["*"], &["*"], &["*"]), paths(&["*"], &["*"])],
        ),
        binding("cluster-admin", vec![subject("Group", "system:masters")]),
        cluster_role(
            "system:discovery",
            vec![paths(
                &["get"],
                &[
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz",
                    "/livez",
                    "/openapi",
                    "/openapi/*",
                    "/readyz",
                    "/version",
                    "/version/",
                ],
            )],
        ),
        binding("system:discovery", vec![authenticated()]),
        cluster_role(
            "system:basic-user",
            vec![
                on(
                    &["create"],
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                ),
                on(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
            ],
        ),
        binding("system:basic-user", vec![authenticated()]),
        cluster_role(
            "system:public-info-viewer",
            vec![paths(
                &["get"],
                &["/healthz", "/livez", "/readyz", "/version", "/version/"],
            )],
        ),
        binding(
            "system:public-info-viewer",
            vec![authenticated(), subject("Group", "system:unauthenticated")],
        ),
        cluster_role(
            "system:service-account-issuer-discovery",
            vec![paths(
                &["get"],
                &[
                    "/.well-known/openid-configuration",
                    "/.well-known/openid-configuration/",
                    "/openid/v1/jwks",
                    "/openid/v1/jwks/",
                ],
            )],
        ),
        binding(
            "system:service-account-issuer-discovery",
            vec![subject("Group", "system:serviceaccounts")],
        ),
        cluster_role(
            "system:monitoring",
            vec![paths(
                &["get"],
                &[
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                ],
            )],
        ),
        binding("system:monitoring", vec![subject("Group", "system:monitoring")]),
    ]
}

const AGGREGATE_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
const AGGREGATE_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
const AGGREGATE_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";

/// What people who work in namespaces get: `admin`, `edit`, `view`.
fn namespace_users() -> Vec<DefaultObject> {
    let admin = vec![
        on(
            &["create"],
            &["authorization.k8s.io"],
            &["localsubjectaccessreviews"],
        ),
        on(
            READ_WRITE,
            &["rbac.authorization.k8s.io"],
            &["rolebindings", "roles"],
        ),
    ];
    vec![
        aggregated("admin", AGGREGATE_ADMIN, None),
        aggregated("edit", AGGREGATE_EDIT, Some(AGGREGATE_ADMIN)),
        aggregated("view", AGGREGATE_VIEW, Some(AGGREGATE_EDIT)),
        feeding("system:aggregate-to-admin", AGGREGATE_ADMIN, admin),
        feeding("system:aggregate-to-edit", AGGREGATE_EDIT, edit_rules()),
        feeding("system:aggregate-to-view", AGGREGATE_VIEW, view_rules()),
    ]
}

fn edit_rules() -> Vec<Rule> {
    const APPS: &[&str] = &[
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    vec![
        on(
            READ,
            &[""],
            &[
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
                "secrets",
                "services/proxy",
            ],
        ),
        on(&["impersonate"], &[""], &["serviceaccounts"]),
        on(
            WRITE,
            &[""],
            &[
                "pods",
                "pods/attach",
                "pods/exec",
                "pods/portforward",
                "pods/proxy",
            ],
        ),
        on(&["create"], &[""], &["pods/eviction"]),
        on(
            WRITE,
            &[""],
            &[
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
        ),
        on(&["create"], &[""], &["serviceaccounts/token"]),
        on(WRITE, &["apps"], APPS),
        on(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
        on(WRITE, &["batch"], &["cronjobs", "jobs"]),
        on(WRITE, &["policy"], &["poddisruptionbudgets"]),
        on(WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
        on(READ_WRITE, &["coordination.k8s.io"], &["leases"]),
    ]
}

fn view_rules() -> Vec<Rule> {
    vec![
        on(
            READ,
            &[""],
            &[
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "serviceaccounts",
                "services",
                "services/status",
            ],
        ),
        on(
            READ,
            &[""],
            &[
                "bindings",
                "events",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "replicationcontrollers/status",
                "resourcequotas",
                "resourcequotas/status",
            ],
        ),
        on(READ, &[""], &["namespaces"]),
        on(READ, &["discovery.k8s.io"], &["endpointslices"]),
        on(
            READ,
            &["apps"],
            &[
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ],
        ),
        on(
            READ,
            &["autoscaling"],
            &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
        ),
        on(
            READ,
            &["batch"],
            &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
        ),
        on(
            READ,
            &["policy"],
            &["poddisruptionbudgets", "poddisruptionbudgets/status"],
        ),
        on(
            READ,
            &["networking.k8s.io"],
            &["ingresses", "ingresses/status", "networkpolicies"],
        ),
    ]
}

/// What Kubernetes' own components get.
fn components() -> Vec<DefaultObject> {
    let user = |name: &str| vec![subject("User", name)];
    vec![
        cluster_role(
            "system:auth-delegator",
            vec![
                on(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                on(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
            ],
        ),
        cluster_role(
            "system:node-bootstrapper",
            vec![on(
                &["create", "get", "list", "watch"],
                &["certificates.k8s.io"],
                &["certificatesigningrequests"],
            )],
        ),
        cluster_role(
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            vec![on(
                &["create"],
                &["certificates.k8s.io"],
                &["certificatesigningrequests/nodeclient"],
            )],
        ),
        cluster_role(
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            vec![on(
                &["create"],
                &["certificates.k8s.io"],
                &["certificatesigningrequests/selfnodeclient"],
            )],
        ),
        cluster_role("system:node", node_rules()),
        cluster_role(
            "system:node-proxier",
            vec![
                on(&["list", "watch"], &[""], &["services"]),
                on(&["get", "list", "watch"], &[""], &["nodes"]),
                on(
                    &["create", "patch", "update"],
                    &["", "events.k8s.io"],
                    &["events"],
                ),
                on(&["list", "watch"], &["discovery.k8s.io"], &["endpointslices"]),
                on(READ, &["networking.k8s.io"], &["servicecidrs"]),
            ],
        ),
        binding("system:node-proxier", user("system:kube-proxy")),
        cluster_role("system:kube-scheduler", scheduler_rules()),
        binding("system:kube-scheduler", user("system:kube-scheduler")),
        cluster_role("system:kube-controller-manager", controller_manager_rules()),
        binding(
            "system:kube-controller-manager",
            user("system:kube-controller-manager"),
        ),
        cluster_role(
            "system:kube-dns",
            vec![on(&["list", "watch"], &[""], &["endpoints", "services"])],
        ),
        binding("system:kube-dns", vec![account("kube-dns")]),
    ]
}

fn node_rules() -> Vec<Rule> {
    vec![
        on(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        on(
            &["create"],
            &["authorization.k8s.io"],
            &["localsubjectaccessreviews", "subjectaccessreviews"],
        ),
        on(READ, &[""], &["services"]),
        on(&["create", "get", "list", "watch"], &[""], &["nodes"]),
        on(&["patch", "update"], &[""], &["nodes", "nodes/status"]),
        on(
            &["create", "patch", "update"],
            &["", "events.k8s.io"],
            &["events"],
        ),
        on(READ, &[""], &["pods"]),
        on(&["create", "delete"], &[""], &["pods"]),
        on(&["patch", "update"], &[""], &["pods/status"]),
        on(&["create"], &[""], &["pods/eviction"]),
        on(READ, &[""], &["configmaps", "secrets"]),
        on(&["get"], &[""], &["persistentvolumeclaims", "persistentvolumes"]),
        on(
            &["create", "get", "list", "watch"],
            &["certificates.k8s.io"],
            &["certificatesigningrequests"],
        ),
        on(
            &["create", "delete", "get", "patch", "update"],
            &["coordination.k8s.io"],
            &["leases"],
        ),
        on(&["create"], &[""], &["serviceaccounts/token"]),
        on(READ, &["node.k8s.io"], &["runtimeclasses"]),
        on(READ, &["storage.k8s.io"], &["csidrivers"]),
    ]
}

fn scheduler_rules() -> Vec<Rule> {
    vec![
        on(
            &["create", "patch", "update"],
            &["", "events.k8s.io"],
            &["events"],
        ),
        on(
            &["create", "get", "list", "update", "watch"],
            &["coordination.k8s.io"],
            &["leases"],
        ),
        on(READ, &[""], &["namespaces", "nodes"]),
        on(&["delete", "get", "list", "watch"], &[""], &["pods"]),
        on(&["create"], &[""], &["bindings", "pods/binding"]),
        on(&["patch", "update"], &[""], &["pods/status"]),
        on(
            READ,
            &[""],
            &[
                "persistentvolumeclaims",
                "persistentvolumes",
                "replicationcontrollers",
                "services",
            ],
        ),
        on(READ, &["apps"], &["replicasets", "statefulsets"]),
        on(READ, &["policy"], &["poddisruptionbudgets"]),
        on(
            READ,
            &["storage.k8s.io"],
            &["csidrivers", "csinodes", "csistoragecapacities", "storageclasses"],
        ),
        on(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        on(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ]
}

fn controller_manager_rules() -> Vec<Rule> {
    vec![
        on(
            &["create", "patch", "update"],
            &["", "events.k8s.io"],
            &["events"],
        ),
        on(
            &["create", "get", "list", "update", "watch"],
            &["coordination.k8s.io"],
            &["leases"],
        ),
        on(
            &["create", "delete", "get", "patch", "update"],
            &[""],
            &["configmaps", "namespaces", "secrets", "serviceaccounts"],
        ),
        on(&["create"], &[""], &["serviceaccounts/token"]),
        on(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        on(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
        on(&["list", "watch"], &["*"], &["*"]),
    ]
}

/// Rights inside kube-system and kube-public.
fn kube_system() -> Vec<DefaultObject> {
    let name = "extension-apiserver-authentication-reader";
    vec![
        role(
            "kube-system",
            name,
            vec![named(
                READ,
                &[""],
                &["configmaps"],
                &["extension-apiserver-authentication"],
            )],
        ),
        local_binding(
            "kube-system",
            &format!("system::{name}"),
            name,
            vec![
                subject("User", "system:kube-controller-manager"),
                subject("User", "system:kube-scheduler"),
            ],
        ),
        role(
            "kube-system",
            "system::leader-locking-kube-controller-manager",
            vec![
                on(&["watch"], &[""], &["configmaps"]),
                named(
                    &["get", "update"],
                    &[""],
                    &["configmaps"],
                    &["kube-controller-manager"],
                ),
            ],
        ),
        local_binding(
            "kube-system",
            "system::leader-locking-kube-controller-manager",
            "system::leader-locking-kube-controller-manager",
            vec![
                subject("User", "system:kube-controller-manager"),
                account("kube-controller-manager"),
            ],
        ),
        role(
            "kube-system",
            "system::leader-locking-kube-scheduler",
            vec![
                on(&["watch"], &[""], &["configmaps"]),
                named(&["get", "update"], &[""], &["configmaps"], &["kube-scheduler"]),
            ],
        ),
        local_binding(
            "kube-system",
            "system::leader-locking-kube-scheduler",
            "system::leader-locking-kube-scheduler",
            vec![
                subject("User", "system:kube-scheduler"),
                account("kube-scheduler"),
            ],
        ),
    ]
}
