//! What a parent cluster needs.

use serde_json::{Value, json};

use super::{
    account_subject, add_probes, binding, cluster_binding, cluster_role, group_subject, limits, named_rule,
    namespace, reviews, role, rule, service_account,
};
use crate::labels::NODE_PREFIX;
use crate::names::{
    BOOTSTRAP_GROUP, CHILD_DEPLOYER_SECRET, CONTROLLERS, HUB, HUB_PROXY, JOIN_GROUP, RESERVED_NAMESPACE,
    ROOT_AUTHORITY, SCHEDULER, SYSTEM_NAMESPACE,
};

const APPS: &str = "apps.clusternet.io";
const CLUSTERS: &str = "clusters.clusternet.io";
const MULTI_CLUSTER: &str = "multicluster.x-k8s.io";
const PAYLOADS: &str = "apps.tombolo.io";
const PROXIES: &str = "proxies.clusternet.io";
const ROLLOUTS: &str = "apps.tombolo.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// How the parent is prepared.
#[derive(Debug, Clone)]
pub struct ParentOptions {
    /// The hub runs outside the cluster, at this DNS name that the parent's API server can resolve.
    pub hub_external_name: Option<String>,
    /// The hub's port.
    pub hub_port: u16,
    /// The image with this program; with it Deployments of the three roles are part of the result.
    pub image: Option<String>,
    /// Lets anybody reach the proxy's door, as upstream does for its kubeconfigs without a parent credential. The
    /// child's own credential still decides what is allowed there.
    pub compat_anonymous_proxy: bool,
    /// Prefixes of the labels of its ManagedCluster that a child may change: those that agents take over from nodes.
    pub child_label_prefixes: Vec<String>,
}

impl Default for ParentOptions {
    fn default() -> Self {
        Self {
            hub_external_name: None,
            hub_port: 443,
            image: None,
            compat_anonymous_proxy: false,
            child_label_prefixes: vec![NODE_PREFIX.to_owned()],
        }
    }
}

/// All objects that a real parent needs, in an order in which they can be made.
pub fn parent(options: &ParentOptions) -> Vec<Value> {
    let mut objects = crate::crds();
    objects.extend(roles(options));
    objects.extend(limits::policy(&options.child_label_prefixes));
    objects.extend(hub_service(options));
    if let Some(image) = &options.image {
        objects.extend(deployments(image, options.hub_port));
    }
    objects
}

/// Namespaces, identities and rights alone: what the embedded parent needs besides the definitions.
pub fn roles(options: &ParentOptions) -> Vec<Value> {
    let mut objects = vec![namespace(SYSTEM_NAMESPACE), namespace(RESERVED_NAMESPACE)];
    objects.extend([HUB, SCHEDULER, CONTROLLERS, HUB_PROXY].map(service_account));
    objects.extend(registration());
    objects.extend(scheduler());
    objects.extend(controllers());
    objects.extend(hub());
    objects.extend(proxy_users(options));
    for account in [HUB, SCHEDULER, CONTROLLERS] {
        objects.push(cluster_binding(account, account, vec![account_subject(account)]));
        objects.push(leases(account));
        objects.push(binding(
            &format!("{account}-leases"),
            SYSTEM_NAMESPACE,
            "Role",
            &format!("{account}-leases"),
            vec![account_subject(account)],
        ));
    }
    objects
}

fn leases(account: &str) -> Value {
    let groups = &["coordination.k8s.io"];
    role(
        &format!("{account}-leases"),
        SYSTEM_NAMESPACE,
        vec![rule(
            groups,
            &["leases"],
            &["get", "list", "watch", "create", "update", "patch"],
        )],
    )
}

/// Who may ask to be taken in. With a token that anybody may have, the answer to any request can be read by whoever
/// knows its name; one that was made for a cluster reads that cluster's, which the controllers see to.
fn registration() -> Vec<Value> {
    const REQUESTS: &[&str] = &["clusterregistrationrequests"];
    const SHARED: &str = "clusternet:system:bootstrapping";
    const JOINING: &str = "clusternet:system:joining";
    vec![
        cluster_role(SHARED, vec![rule(&[CLUSTERS], REQUESTS, &["create", "get"])]),
        cluster_binding(SHARED, SHARED, vec![group_subject(BOOTSTRAP_GROUP)]),
        cluster_role(JOINING, vec![rule(&[CLUSTERS], REQUESTS, &["create"])]),
        cluster_binding(JOINING, JOINING, vec![group_subject(JOIN_GROUP)]),
    ]
}

fn events() -> Value {
    rule(
        &["", "events.k8s.io"],
        &["events"],
        &["create", "patch", "update"],
    )
}

fn scheduler() -> Vec<Value> {
    vec![cluster_role(
        SCHEDULER,
        vec![
            rule(&[APPS], &["subscriptions", "feedinventories"], READ),
            rule(&[APPS], &["subscriptions/status"], &["get", "update", "patch"]),
            rule(&[CLUSTERS], &["managedclusters"], READ),
            // Predictors are asked through the tunnels.
            rule(&[PROXIES], &["sockets/proxy"], &["create"]),
            // Who may read its metrics.
            reviews(),
            events(),
        ],
    )]
}

/// What the controllers do themselves, and what they hand on to each child's account (nobody may grant what he
/// does not have).
fn controllers() -> Vec<Value> {
    let apps = [
        "subscriptions",
        "bases",
        "descriptions",
        "manifests",
        "helmcharts",
        "helmreleases",
        "localizations",
        "globalizations",
        "feedinventories",
    ];
    let statuses = [
        "subscriptions/status",
        "descriptions/status",
        "helmcharts/status",
        "helmreleases/status",
    ];
    let finalizers: Vec<String> = apps
        .iter()
        .map(|resource| format!("{resource}/finalizers"))
        .collect();
    let finalizers: Vec<&str> = finalizers.iter().map(String::as_str).collect();
    vec![cluster_role(
        CONTROLLERS,
        vec![
            rule(&[APPS], &apps, WRITE),
            rule(&[APPS], &statuses, &["get", "list", "watch", "update", "patch"]),
            rule(&[APPS], &finalizers, &["update"]),
            rule(&[PAYLOADS], &["payloads"], WRITE),
            rule(&[ROLLOUTS], &["rollouts"], &["get", "list", "watch", "patch"]),
            rule(&[ROLLOUTS], &["rollouts/status"], &["patch"]),
            rule(
                &[CLUSTERS],
                &["managedclusters", "clusterregistrationrequests"],
                WRITE,
            ),
            rule(
                &[CLUSTERS],
                &["managedclusters/status", "clusterregistrationrequests/status"],
                &["get", "list", "watch", "update", "patch"],
            ),
            rule(
                &[CLUSTERS],
                &[
                    "managedclusters/finalizers",
                    "clusterregistrationrequests/finalizers",
                ],
                &["update"],
            ),
            rule(&[""], &["namespaces", "serviceaccounts", "secrets"], WRITE),
            // Which authority children are to trust.
            named_rule(&[""], &["configmaps"], &[ROOT_AUTHORITY], READ),
            // Handed on: each child renews its own.
            rule(&[""], &["serviceaccounts/token"], &["create"]),
            rule(
                &[RBAC_GROUP],
                &["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
                WRITE,
            ),
            rule(&[MULTI_CLUSTER], &["serviceimports"], READ),
            rule(&[MULTI_CLUSTER], &["serviceimports/status"], &["update", "patch"]),
            rule(&[""], &["services"], WRITE),
            rule(&["discovery.k8s.io"], &["endpointslices"], WRITE),
            rule(&["discovery.k8s.io"], &["endpointslices"], &["deletecollection"]),
            // What an expelled child holds up.
            rule(&[""], &["events"], &["list", "delete"]),
            rule(
                &[PROXIES],
                &["sockets", "sockets/proxy", "sockets/payloads"],
                WRITE,
            ),
            // Who may read its metrics.
            reviews(),
            events(),
        ],
    )]
}

fn hub() -> Vec<Value> {
    vec![
        cluster_role(
            HUB,
            vec![
                rule(&[APPS], &["manifests"], WRITE),
                rule(&[APPS], &["manifests"], &["deletecollection"]),
                rule(&[CLUSTERS], &["managedclusters"], READ),
                // A child gets the payloads that its Descriptions name.
                rule(&[APPS], &["descriptions"], &["get"]),
                rule(&[PAYLOADS], &["payloads"], &["get"]),
                // Their labels say which cluster they were made for.
                rule(&[""], &["namespaces"], READ),
                rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], READ),
                named_rule(&[""], &["secrets"], &[CHILD_DEPLOYER_SECRET], &["get"]),
                // Templates are tried on the parent as the user who wrote them, never with rights of the hub's own.
                rule(&[""], &["users", "groups", "serviceaccounts"], &["impersonate"]),
                rule(&["authentication.k8s.io"], &["uids"], &["impersonate"]),
                reviews(),
                named_rule(
                    &["apiregistration.k8s.io"],
                    &["apiservices"],
                    &["v1alpha1.proxies.clusternet.io", "v1alpha1.shadow"],
                    &["get", "patch"],
                ),
                events(),
            ],
        ),
        role(
            "clusternet-hub-state",
            SYSTEM_NAMESPACE,
            vec![
                rule(&[""], &["secrets"], &["get", "create", "update", "patch"]),
                // Its own Lease among those of several hubs, and those that ended without a word.
                rule(&["coordination.k8s.io"], &["leases"], &["delete"]),
            ],
        ),
        binding(
            "clusternet-hub-state",
            SYSTEM_NAMESPACE,
            "Role",
            "clusternet-hub-state",
            vec![account_subject(HUB)],
        ),
        binding(
            "clusternet-hub-authentication-reader",
            "kube-system",
            "Role",
            "extension-apiserver-authentication-reader",
            vec![account_subject(HUB)],
        ),
    ]
}

/// Who may knock at the proxy's door with a child's credential: whoever may become the user `clusternet`, and that
/// user itself. What is allowed behind the door is decided by the child.
fn proxy_users(options: &ParentOptions) -> Vec<Value> {
    const DOOR: &str = "clusternet:system:socketsproxy";
    const DISGUISE: &str = "clusternet:system:socketsproxy-impersonator";
    let verbs = &["create", "delete", "get", "list", "patch", "update", "watch"];
    // The controllers push through it.
    let mut callers = vec![account_subject(HUB_PROXY), account_subject(CONTROLLERS)];
    if options.compat_anonymous_proxy {
        callers.extend(["system:unauthenticated", "system:authenticated"].map(group_subject));
    }
    let mut visitors = callers.clone();
    visitors.push(json!({"apiGroup": RBAC_GROUP, "kind": "User", "name": "clusternet"}));
    vec![
        cluster_role(DOOR, vec![rule(&[PROXIES], &["sockets/proxy"], verbs)]),
        cluster_binding(DOOR, DOOR, visitors),
        cluster_role(
            DISGUISE,
            vec![
                named_rule(&[""], &["users"], &["clusternet"], &["impersonate"]),
                rule(
                    &["authentication.k8s.io"],
                    &[
                        "userextras/clusternet-token",
                        "userextras/clusternet-certificate",
                        "userextras/clusternet-privatekey",
                    ],
                    &["impersonate"],
                ),
            ],
        ),
        cluster_binding(DISGUISE, DISGUISE, callers),
    ]
}

/// The Service and the two APIServices. The hub puts its certificate authority into them when it starts.
fn hub_service(options: &ParentOptions) -> Vec<Value> {
    let spec = options.hub_external_name.as_ref().map_or_else(
        || json!({"selector": {"app": HUB}, "ports": [{"port": options.hub_port, "targetPort": options.hub_port}]}),
        |name| json!({"type": "ExternalName", "externalName": name, "ports": [{"port": options.hub_port}]}),
    );
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": HUB, "namespace": SYSTEM_NAMESPACE}, "spec": spec,
    });
    let api_service = |group: &str, minimum: u32, priority: u32| {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("v1alpha1.{group}")},
            "spec": {
                "group": group, "version": "v1alpha1",
                "groupPriorityMinimum": minimum, "versionPriority": priority,
                "service": {"name": HUB, "namespace": SYSTEM_NAMESPACE, "port": options.hub_port},
            },
        })
    };
    vec![
        service,
        api_service(PROXIES, 1_000, 100),
        api_service("shadow", 1, 1),
    ]
}

fn deployments(image: &str, hub_port: u16) -> Vec<Value> {
    let deployment = |name: &str, arguments: Value, port: u16| {
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"app": name}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "serviceAccountName": name,
                        "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}},
                        "containers": [{
                            "name": "tombolo", "image": image, "args": arguments,
                            "securityContext": {
                                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                        }],
                    },
                },
            },
        });
        add_probes(&mut deployment, port);
        deployment
    };
    let mut hub = deployment(
        HUB,
        json!(["hub", "--secure-port", hub_port.to_string()]),
        hub_port,
    );
    // So that it can be scaled: each hub says where the others reach it.
    hub["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{
        "name": "TOMBOLO_PEER_ADVERTISE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
    }]);
    vec![
        hub,
        deployment(SCHEDULER, json!(["scheduler", "--leader-elect=true"]), 10_659),
        deployment(
            CONTROLLERS,
            json!(["controllers", "--controllers=*", "--leader-elect=true"]),
            10_660,
        ),
    ]
}
