//! The steps from a request to an approved cluster, each made if it is absent and safe to repeat.
//!
//! Approval is automatic for every well-formed request, and comes last: never before the credential exists. A name is
//! the first cluster's that asks for it: what is selected by name must not go to whoever takes the same one.

use std::time::Duration;

use api::{annotations, clusters, kubernetes, labels, names, reasons};
use distribution::{Action, Next, Plan, Target};
use jiff::Timestamp;
use machinery::{ApiResource, meta, names as rules};
use serde_json::{Map, Value, json};

use super::rights;
use crate::lifecycle::leave;

/// How soon to look again for the token, the first time.
const TOKEN_POLL: Duration = Duration::from_millis(100);
/// The schema's limit for a ManagedCluster's name in statuses.
const CLUSTER_NAME_LIMIT: usize = 63;
/// The type of a token Secret.
pub(super) const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

/// What one plan may look at: what there is already.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The ClusterRegistrationRequest.
    pub request: Value,
    /// Whether a new cluster waits for its init workload (the gate `ClusterInit`).
    pub waits_for_init: bool,
    /// What time it is.
    pub now: Timestamp,
    /// The dedicated namespace.
    pub namespace: Option<Value>,
    /// The ManagedCluster.
    pub cluster: Option<Value>,
    /// A ManagedCluster of the same name that is another cluster's; looked for only while there is none of its own.
    pub namesake: Option<Value>,
    /// The child's ServiceAccount.
    pub service_account: Option<Value>,
    /// Its token Secret.
    pub token: Option<Value>,
    /// The parent's certificate authorities, base64, as far as they are known otherwise.
    pub authority: Option<String>,
    /// Its ClusterRole.
    pub cluster_role: Option<Value>,
    /// Its ClusterRoleBinding.
    pub cluster_role_binding: Option<Value>,
    /// Its Role.
    pub role: Option<Value>,
    /// Its RoleBinding.
    pub role_binding: Option<Value>,
}

/// Whether a request waits for an answer.
pub fn is_open(request: &Value) -> bool {
    !meta::is_deleting(request)
        && request["status"]["result"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
}

/// Whether a request was granted.
pub fn is_approved(request: &Value) -> bool {
    !meta::is_deleting(request) && request["status"]["result"] == "Approved"
}

/// Whether a request has the name that belongs to a cluster id.
pub fn is_named_after(request: &Value, id: &str) -> bool {
    !id.is_empty() && meta::name(request) == names::for_cluster(id)
}

/// The name that a request is for.
pub fn cluster_name(request: &Value) -> &str {
    request["spec"]["clusterName"].as_str().unwrap_or_default()
}

/// What puts objects in the order in which they were made.
pub fn age(object: &Value) -> (&str, &str) {
    (meta::creation_timestamp(object), meta::name(object))
}

/// Of several objects the one that was there first.
pub fn oldest(objects: Vec<Value>) -> Option<Value> {
    objects
        .into_iter()
        .filter(|object| !meta::is_deleting(object))
        .min_by(|one, other| age(one).cmp(&age(other)))
}

/// The next steps for a request. Carry them out, look again, and plan again until there is nothing to write.
pub fn plan(view: &View) -> Plan {
    let mut plan = Plan::default();
    let request = &view.request;
    if !is_open(request) {
        return plan;
    }
    let id = request["spec"]["clusterId"].as_str().unwrap_or_default();
    if !is_named_after(request, id) {
        let why = format!(
            "ClusterRegistrationRequest must be named \"{}\", after spec.clusterId",
            names::for_cluster(id)
        );
        plan.push(answer(request, json!({"result": "Denied", "errorMessage": why})));
        return plan;
    }
    if let Some(why) = fault(request) {
        plan.next = Next::Blocked(why);
        return plan;
    }
    if view.cluster.is_none() && view.namesake.is_some() {
        plan.next = Next::Blocked(taken(request));
        return plan;
    }
    let Some(namespace) = &view.namespace else {
        plan.push(create(&kubernetes::NAMESPACES, new_namespace(request)));
        return plan;
    };
    if view.cluster.is_none() {
        plan.push(create(&clusters::MANAGED_CLUSTERS, new_cluster(view, namespace)));
    }
    if let Some(account) = enable(view, id, namespace, &mut plan)
        && let Some(secret) = equip(view, account, &mut plan)
        && !plan.writes()
    {
        approve(view, secret, &mut plan);
    }
    plan
}

/// Whether an agent works with a credential that ends and that it renews itself, and is heard from: then the one that
/// never ends is nobody's to have. As soon as it is not heard from any more it may come back with nothing but a bootstrap
/// token.
pub fn renews_itself(cluster: &Value, now: Timestamp) -> bool {
    let ends = meta::annotation(cluster, annotations::CREDENTIAL_ENDS);
    let holds = ends
        .and_then(|text| text.parse::<Timestamp>().ok())
        .is_some_and(|ends| now < ends);
    holds && clusters::is_ready(cluster)
}

/// The next steps for a request that was granted: its account, its rights as this version wants them, its credential,
/// and the answer, which hands that out, or neither as long as the agent needs none. Nothing for a cluster that leaves:
/// it loses all of this on purpose.
pub fn keep_up(view: &View) -> Plan {
    let mut plan = Plan::default();
    let request = &view.request;
    let id = request["spec"]["clusterId"].as_str().unwrap_or_default();
    if !is_approved(request) || !is_named_after(request, id) {
        return plan;
    }
    let (Some(namespace), Some(cluster)) = (&view.namespace, &view.cluster) else {
        return plan;
    };
    let Some(account) = enable(view, id, namespace, &mut plan) else {
        return plan;
    };
    if renews_itself(cluster, view.now) {
        put_away(view, account, &mut plan);
    } else if let Some(secret) = equip(view, account, &mut plan) {
        hand_out(request, secret, &mut plan);
    }
    plan
}

/// As what a cluster works on the parent: its account and its rights. Gives the account once it is there.
fn enable<'a>(view: &'a View, id: &str, namespace: &Value, plan: &mut Plan) -> Option<&'a Value> {
    let request = &view.request;
    let Some(account) = &view.service_account else {
        plan.push(create(
            &kubernetes::SERVICE_ACCOUNTS,
            new_account(request, namespace),
        ));
        return None;
    };
    grant(view, id, namespace, account, plan);
    Some(account)
}

/// The credential of an account that never ends, once it is there.
fn equip<'a>(view: &'a View, account: &Value, plan: &mut Plan) -> Option<&'a Value> {
    let Some(token) = &view.token else {
        plan.push(create(&kubernetes::SECRETS, new_token(&view.request, account)));
        return None;
    };
    if is_token_of(token, account) {
        return Some(token);
    }
    // The child may write Secrets. One of another kind in the token's place is never filled, and makes room for it.
    if meta::is_deleting(token) {
        plan.next = Next::Again(TOKEN_POLL);
    } else {
        plan.push(Action::delete(&kubernetes::SECRETS, token));
    }
    None
}

/// Takes that credential back, and out of the answer, which goes on telling the parent's authority: agents follow it there.
fn put_away(view: &View, account: &Value, plan: &mut Plan) {
    let lasting = view.token.as_ref().filter(|token| is_token_of(token, account));
    if let Some(token) = lasting.filter(|token| !meta::is_deleting(token)) {
        plan.push(Action::delete(&kubernetes::SECRETS, token));
    }
    let (told, mut changes) = (&view.request["status"], Map::new());
    if !told["token"].is_null() {
        changes.insert("token".to_owned(), Value::Null);
    }
    if let Some(authority) = view
        .authority
        .as_deref()
        .filter(|it| told["caCertificate"] != **it)
    {
        changes.insert("caCertificate".to_owned(), authority.into());
    }
    if !changes.is_empty() {
        plan.push(answer(&view.request, Value::Object(changes)));
    }
}

/// Whether a Secret is one that the parent fills with the token of an account.
fn is_token_of(secret: &Value, account: &Value) -> bool {
    secret["type"] == TOKEN_TYPE
        && meta::annotation(secret, annotations::SERVICE_ACCOUNT_NAME) == Some(meta::name(account))
}

/// Puts a credential into the answer that has another.
fn hand_out(request: &Value, secret: &Value, plan: &mut Plan) {
    let Some((token, authority)) = credential(secret) else {
        plan.next = Next::Again(TOKEN_POLL);
        return;
    };
    let status = &request["status"];
    if status["token"] != token || status["caCertificate"] != authority {
        plan.push(answer(
            request,
            json!({"token": token, "caCertificate": authority}),
        ));
    }
}

/// Token and authority of a token Secret, as the wire has them, once both are there.
fn credential(secret: &Value) -> Option<(&str, &str)> {
    let data = |key: &str| secret["data"][key].as_str().filter(|text| !text.is_empty());
    data("token").zip(data("ca.crt"))
}

/// Why a request can never be granted as it is; it may still be corrected.
pub fn fault(request: &Value) -> Option<String> {
    let name = cluster_name(request);
    if name.is_empty() {
        return Some("spec.clusterName: Required value".to_owned());
    }
    if name.len() > CLUSTER_NAME_LIMIT {
        return Some(format!(
            "spec.clusterName: \"{name}\" is too long (limit {CLUSTER_NAME_LIMIT})"
        ));
    }
    rules::is_dns1123_label(name)
        .err()
        .map(|problem| format!("spec.clusterName: Invalid value: \"{name}\": {problem}"))
}

/// What is said of a name that another cluster has. Nothing that leads to that cluster: whoever knows its id may read
/// its credential with any bootstrap token.
fn taken(request: &Value) -> String {
    let name = cluster_name(request);
    format!(
        "spec.clusterName: \"{name}\" is the name of another cluster: change it to a name of its own, or delete the \
         ManagedCluster of that name if this cluster takes its place"
    )
}

/// Once the credential is there.
fn approve(view: &View, secret: &Value, plan: &mut Plan) {
    let Some((token, authority)) = credential(secret) else {
        plan.next = Next::Again(TOKEN_POLL);
        return;
    };
    let (Some(namespace), Some(cluster)) = (&view.namespace, &view.cluster) else {
        return;
    };
    plan.push(answer(
        &view.request,
        json!({
            "result": "Approved", "errorMessage": null,
            "dedicatedNamespace": meta::name(namespace), "managedClusterName": meta::name(cluster),
            "token": token, "caCertificate": authority,
        }),
    ));
}

fn answer(request: &Value, status: Value) -> Action {
    Action::Patch {
        resource: clusters::REGISTRATION_REQUESTS,
        target: Target::of(request),
        subresource: Some("status"),
        patch: json!({"status": status}),
    }
}

fn create(resource: &ApiResource, object: Value) -> Action {
    Action::Create {
        resource: resource.clone(),
        object,
    }
}

/// The labels that tie everything of a child together.
fn own_labels(request: &Value) -> Map<String, Value> {
    let spec = &request["spec"];
    Map::from_iter([
        (labels::CREATED_BY.to_owned(), json!(labels::CREATED_BY_AGENT)),
        (labels::CLUSTER_ID.to_owned(), spec["clusterId"].clone()),
        (labels::CLUSTER_NAME.to_owned(), spec["clusterName"].clone()),
    ])
}

fn new_namespace(request: &Value) -> Value {
    let mut namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": own_labels(request)}});
    match request["spec"]["clusterNamespace"]
        .as_str()
        .filter(|name| !name.is_empty())
    {
        Some(name) => namespace["metadata"]["name"] = json!(name),
        None => namespace["metadata"]["generateName"] = json!(names::PREFIX),
    }
    namespace
}

fn new_cluster(view: &View, namespace: &Value) -> Value {
    let request = &view.request;
    let spec = &request["spec"];
    // A child chooses its labels, but cannot pass for another.
    let mut all = spec["clusterLabels"].as_object().cloned().unwrap_or_default();
    all.extend(own_labels(request));
    let mut cluster = json!({
        "apiVersion": clusters::MANAGED_CLUSTERS.api_version(), "kind": clusters::MANAGED_CLUSTERS.kind,
        "metadata": {
            "namespace": meta::name(namespace), "name": spec["clusterName"], "labels": all,
            "finalizers": [leave::FINALIZER],
        },
        "spec": {"clusterId": spec["clusterId"]},
    });
    for field in ["clusterType", "syncMode"] {
        if !spec[field].is_null() {
            cluster["spec"][field] = spec[field].clone();
        }
    }
    if let Some(why) = meta::annotation(request, annotations::HOLD_ORPHANS) {
        meta::set_annotation(&mut cluster, annotations::HOLD_ORPHANS, why);
    }
    // From the first moment: nothing may be placed before, and nothing where nobody ever is. Whoever may ask for a cluster
    // gets no share of what others have by asking for many.
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let mut taints = vec![taint(
        reasons::TAINT_UNSCHEDULABLE,
        reasons::CLUSTER_STATUS_NEVER_UPDATED,
    )];
    if view.waits_for_init {
        taints.push(taint(
            reasons::TAINT_INITIALIZATION,
            reasons::CLUSTER_INIT_WAITING,
        ));
    }
    cluster["spec"]["taints"] = json!(taints);
    cluster
}

fn new_account(request: &Value, namespace: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": meta::name(namespace), "generateName": names::PREFIX, "labels": own_labels(request)},
    })
}

fn new_token(request: &Value, account: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TOKEN_TYPE,
        "metadata": {
            "namespace": meta::namespace(account), "name": meta::name(account), "labels": own_labels(request),
            "annotations": {annotations::SERVICE_ACCOUNT_NAME: meta::name(account)},
        },
    })
}

/// Roles and bindings, made or corrected.
fn grant(view: &View, id: &str, namespace: &Value, account: &Value, plan: &mut Plan) {
    let home = meta::name(namespace);
    let wanted = [
        (
            &kubernetes::CLUSTER_ROLES,
            &view.cluster_role,
            rights::cluster_role(id),
            "rules",
        ),
        (
            &kubernetes::CLUSTER_ROLE_BINDINGS,
            &view.cluster_role_binding,
            rights::cluster_role_binding(id, account, cluster_name(&view.request)),
            "subjects",
        ),
        (
            &kubernetes::ROLES,
            &view.role,
            rights::role(id, home, account),
            "rules",
        ),
        (
            &kubernetes::ROLE_BINDINGS,
            &view.role_binding,
            rights::role_binding(id, home, account),
            "subjects",
        ),
    ];
    for (resource, have, object, field) in wanted {
        match have {
            None => plan.push(create(resource, object)),
            Some(have) => {
                if let Some(patch) = rights::correction(have, &object, field) {
                    plan.push(Action::patch(resource, have, patch));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000-0000-4000-8000-000000000001";

    fn request() -> Value {
        json!({
            "apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ClusterRegistrationRequest",
            "metadata": {"name": format!("clusternet-{ID}"), "uid": "r"},
            "spec": {"clusterId": ID, "clusterName": "edge-7", "clusterType": "EdgeCluster", "syncMode": "Dual",
                     "clusterLabels": {"region": "north", labels::CLUSTER_ID: "somebody-else"}},
        })
    }

    fn slot<'a>(view: &'a mut View, resource: &ApiResource) -> &'a mut Option<Value> {
        match &*resource.plural {
            "namespaces" => &mut view.namespace,
            "managedclusters" => &mut view.cluster,
            "serviceaccounts" => &mut view.service_account,
            "secrets" => &mut view.token,
            "clusterroles" => &mut view.cluster_role,
            "clusterrolebindings" => &mut view.cluster_role_binding,
            "roles" => &mut view.role,
            "rolebindings" => &mut view.role_binding,
            other => panic!("{other}"),
        }
    }

    /// Carries a plan out on the view, as the server would.
    fn apply(view: &mut View, plan: &Plan) {
        for action in &plan.actions {
            match action {
                Action::Create { resource, object } => {
                    let mut object = object.clone();
                    let metadata = object["metadata"].as_object_mut().unwrap();
                    if let Some(prefix) = metadata.remove("generateName") {
                        metadata.insert("name".into(), json!(format!("{}x7k2p", prefix.as_str().unwrap())));
                    }
                    let slot = slot(view, resource);
                    assert!(slot.is_none(), "{} twice", resource.plural);
                    *slot = Some(object);
                }
                Action::Patch { resource, patch, .. } if *resource == clusters::REGISTRATION_REQUESTS => {
                    machinery::patch::merge_patch(&mut view.request, patch);
                }
                Action::Patch { resource, patch, .. } => {
                    machinery::patch::merge_patch(slot(view, resource).as_mut().unwrap(), patch);
                }
                Action::Delete { resource, .. } => {
                    assert_eq!(*resource, kubernetes::SECRETS, "nothing else is taken away");
                    view.token = None;
                }
                Action::Event { .. } => panic!("nothing is told"),
            }
        }
    }

    fn settle(view: &mut View) -> Next {
        settle_by(plan, view)
    }

    fn settle_by(plan: fn(&View) -> Plan, view: &mut View) -> Next {
        for _ in 0..10 {
            let plan = plan(view);
            if !plan.writes() {
                return plan.next;
            }
            apply(view, &plan);
        }
        panic!("never settles");
    }

    fn credential_of(token: &str) -> Value {
        json!({"token": token, "ca.crt": "Y2E="})
    }

    /// What happened, and what the view is then.
    type Case = (&'static str, fn(&mut View));

    /// A view of a cluster that was approved.
    fn approved() -> View {
        let mut view = View {
            request: request(),
            ..View::default()
        };
        settle(&mut view);
        view.token.as_mut().unwrap()["data"] = credential_of("dG9r");
        settle(&mut view);
        assert!(is_approved(&view.request));
        view
    }

    #[test]
    fn a_cluster_that_was_a_member_before_keeps_what_the_parent_does_not_know() {
        for why in [None, Some("restored")] {
            let mut view = View {
                request: request(),
                ..View::default()
            };
            if let Some(why) = why {
                meta::set_annotation(&mut view.request, annotations::HOLD_ORPHANS, why);
            }
            settle(&mut view);
            let cluster = view.cluster.as_ref().unwrap();
            assert_eq!(meta::annotation(cluster, annotations::HOLD_ORPHANS), why);
        }
    }

    #[test]
    fn an_approved_cluster_gets_back_what_it_lost() {
        let whole = approved();
        assert_eq!(keep_up(&whole), Plan::default());
        let losses: [Case; 11] = [
            ("another Secret in place of the token", |it| {
                let name = it.token.as_ref().unwrap()["metadata"]["name"].clone();
                it.token = Some(
                    json!({"type": "Opaque", "metadata": {"name": name}, "data": credential_of("bWluZQ==")}),
                );
            }),
            ("the token of another account", |it| {
                let token = it.token.as_mut().unwrap();
                meta::set_annotation(token, annotations::SERVICE_ACCOUNT_NAME, "default");
                token["data"] = credential_of("b3RoZXI=");
            }),
            ("other rules", |it| it.role.as_mut().unwrap()["rules"] = json!([])),
            ("other cluster rules", |it| {
                it.cluster_role.as_mut().unwrap()["rules"] = json!([]);
            }),
            ("another subject", |it| {
                it.role_binding.as_mut().unwrap()["subjects"] = json!([]);
            }),
            ("no role", |it| it.role = None),
            ("no cluster role", |it| it.cluster_role = None),
            ("no binding", |it| it.role_binding = None),
            ("no cluster binding", |it| it.cluster_role_binding = None),
            ("no token", |it| it.token = None),
            ("no account", |it| (it.service_account, it.token) = (None, None)),
        ];
        for (what, lose) in losses {
            let mut view = whole.clone();
            lose(&mut view);
            let mut next = settle_by(keep_up, &mut view);
            if next == Next::Again(TOKEN_POLL) {
                view.token.as_mut().unwrap()["data"] = credential_of("bmV3");
                next = settle_by(keep_up, &mut view);
                assert_eq!(view.request["status"]["token"], "bmV3", "{what}");
            }
            assert_eq!(next, Next::Done, "{what}");
            assert_eq!(view.role, whole.role, "{what}");
            assert_eq!(view.cluster_role, whole.cluster_role, "{what}");
            assert_eq!(view.role_binding, whole.role_binding, "{what}");
            assert_eq!(view.cluster_role_binding, whole.cluster_role_binding, "{what}");
            assert_eq!(view.request["status"]["result"], "Approved", "{what}");
        }
    }

    #[test]
    fn the_credential_that_never_ends_is_there_for_whoever_needs_it_alone() {
        let now: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        for (ends, ready, is_put_away) in [
            (None, Some("True"), false),
            (Some("2026-12-02T00:00:00Z"), Some("True"), true),
            (Some("2026-12-02T00:00:00Z"), Some("Unknown"), false),
            (Some("2026-12-02T00:00:00Z"), Some("False"), false),
            (Some("2026-12-02T00:00:00Z"), None, false),
            (Some("2026-12-01T00:00:00Z"), Some("True"), false),
            (Some("soon"), Some("True"), false),
        ] {
            let what = format!("{ends:?} {ready:?}");
            let mut view = View { now, ..approved() };
            let conditions: Vec<Value> = ready
                .iter()
                .map(|status| json!({"type": "Ready", "status": status}))
                .collect();
            let cluster = view.cluster.as_mut().unwrap();
            if let Some(ends) = ends {
                meta::set_annotation(cluster, annotations::CREDENTIAL_ENDS, ends);
            }
            cluster["status"]["conditions"] = json!(conditions);
            assert_eq!(settle_by(keep_up, &mut view), Next::Done, "{what}");
            let is_away = view.token.is_none() && view.request["status"]["token"].is_null();
            assert_eq!(is_away, is_put_away, "{what}");
            assert!(
                view.role_binding.is_some() && view.request["status"]["caCertificate"].is_string(),
                "{what}"
            );
            // Another authority is told all the same, by the Secret if there is one.
            view.authority = Some("bmV4dA==".to_owned());
            if let Some(token) = &mut view.token {
                token["data"]["ca.crt"] = json!("bmV4dA==");
            }
            assert_eq!(settle_by(keep_up, &mut view), Next::Done, "{what}");
            assert_eq!(view.request["status"]["caCertificate"], "bmV4dA==", "{what}");
            // Once it is not heard from any more, it gets one again.
            view.cluster.as_mut().unwrap()["status"]["conditions"] = json!([]);
            if settle_by(keep_up, &mut view) == Next::Again(TOKEN_POLL) {
                view.token.as_mut().unwrap()["data"] = credential_of("bmV3");
                assert_eq!(settle_by(keep_up, &mut view), Next::Done, "{what}");
            }
            assert!(view.request["status"]["token"].is_string(), "{what}");
        }
    }

    #[test]
    fn a_secret_that_will_not_go_is_waited_for() {
        let mut view = approved();
        view.token = Some(json!({"type": "Opaque", "metadata": {"deletionTimestamp": "x"}}));
        let plan = keep_up(&view);
        assert_eq!((plan.writes(), plan.next), (false, Next::Again(TOKEN_POLL)));
    }

    #[test]
    fn a_new_credential_is_handed_out_in_the_answer() {
        let mut view = approved();
        view.token.as_mut().unwrap()["data"] = credential_of("bmV3");
        assert_eq!(settle_by(keep_up, &mut view), Next::Done);
        assert_eq!(view.request["status"]["token"], "bmV3");
        assert_eq!(view.request["status"]["dedicatedNamespace"], "clusternet-x7k2p");
    }

    #[test]
    fn whoever_leaves_or_was_not_approved_gets_nothing_back() {
        let cases: [Case; 4] = [
            ("its cluster is gone", |it| it.cluster = None),
            ("its namespace is gone", |it| it.namespace = None),
            ("its request goes", |it| {
                it.request["metadata"]["deletionTimestamp"] = json!("x");
            }),
            ("it was denied", |it| {
                it.request["status"]["result"] = json!("Denied")
            }),
        ];
        for (what, change) in cases {
            let mut view = approved();
            (view.role, view.cluster_role, view.token) = (None, None, None);
            change(&mut view);
            assert_eq!(keep_up(&view), Plan::default(), "{what}");
        }
    }

    #[test]
    fn approves_only_when_the_credential_is_there() {
        let mut view = View {
            request: request(),
            ..View::default()
        };
        assert_eq!(settle(&mut view), Next::Again(TOKEN_POLL));
        assert!(is_open(&view.request));
        view.token.as_mut().unwrap()["data"] = json!({"token": "dG9r"});
        assert_eq!(
            settle(&mut view),
            Next::Again(TOKEN_POLL),
            "the authority is missing"
        );
        view.token.as_mut().unwrap()["data"] = json!({"token": "dG9r", "ca.crt": "Y2E="});
        assert_eq!(settle(&mut view), Next::Done);
        assert_eq!(
            view.request["status"],
            json!({"result": "Approved", "dedicatedNamespace": "clusternet-x7k2p", "managedClusterName": "edge-7",
                   "token": "dG9r", "caCertificate": "Y2E="})
        );
        assert_eq!(plan(&view), Plan::default());
    }

    #[test]
    fn makes_a_cluster_that_cannot_pass_for_another() {
        let mut view = View {
            request: request(),
            ..View::default()
        };
        settle(&mut view);
        let cluster = view.cluster.unwrap();
        assert_eq!(meta::label(&cluster, labels::CLUSTER_ID), Some(ID));
        assert_eq!(meta::label(&cluster, "region"), Some("north"));
        assert_eq!(
            cluster["spec"],
            json!({"clusterId": ID, "clusterType": "EdgeCluster", "syncMode": "Dual", "taints": [
                {"key": reasons::TAINT_UNSCHEDULABLE, "value": "ClusterStatusNeverUpdated", "effect": "NoSchedule"},
            ]})
        );
        let secret = view.token.unwrap();
        assert_eq!(meta::name(&secret), meta::name(&view.service_account.unwrap()));
        assert_eq!(secret["type"], "kubernetes.io/service-account-token");
    }

    #[test]
    fn a_name_belongs_to_the_first_that_asked_for_it() {
        let namesake = json!({
            "metadata": {"namespace": "clusternet-aaaaa", "name": "edge-7"}, "spec": {"clusterId": "id-of-another"}});
        let mut view = View {
            request: request(),
            namesake: Some(namesake.clone()),
            ..View::default()
        };
        let Next::Blocked(why) = settle(&mut view) else {
            panic!("it waits")
        };
        for (part, told) in [
            ("spec.clusterName", true),
            ("edge-7", true),
            ("clusternet-aaaaa", false),
            ("id-of-another", false),
        ] {
            assert_eq!(why.contains(part), told, "{part} in {why}");
        }
        assert!(
            view.namespace.is_none() && view.cluster.is_none(),
            "nothing is made for it"
        );
        view.namesake = None;
        assert_ne!(settle(&mut view), Next::Blocked(why.clone()), "the other left");
        assert!(view.cluster.is_some());
        view.namesake = Some(namesake);
        assert_ne!(settle(&mut view), Next::Blocked(why), "it has the name already");
    }

    #[test]
    fn denies_a_request_with_a_wrong_name() {
        let mut object = request();
        object["metadata"]["name"] = json!("clusternet-other");
        let mut view = View {
            request: object,
            ..View::default()
        };
        settle(&mut view);
        assert_eq!(view.request["status"]["result"], "Denied");
        assert!(
            view.request["status"]["errorMessage"]
                .as_str()
                .unwrap()
                .contains(ID)
        );
        assert!(view.namespace.is_none());
        view.request["status"] = json!({"result": "Approved"});
        assert_eq!(plan(&view), Plan::default(), "what is answered stays answered");
    }

    #[test]
    fn says_what_is_wrong_with_a_request() {
        for (name, problem) in [
            ("", "spec.clusterName: Required value"),
            ("Edge_7", "spec.clusterName: Invalid value: \"Edge_7\": "),
            (&"a".repeat(64), "is too long (limit 63)"),
        ] {
            let mut object = request();
            object["spec"]["clusterName"] = json!(name);
            let Next::Blocked(why) = plan(&View {
                request: object,
                ..View::default()
            })
            .next
            else {
                panic!("{name}")
            };
            assert!(why.contains(problem), "{why}");
        }
    }

    #[test]
    fn uses_the_namespace_that_was_asked_for() {
        let mut object = request();
        object["spec"]["clusterNamespace"] = json!("edges");
        let Action::Create { object, .. } = &plan(&View {
            request: object,
            ..View::default()
        })
        .actions[0] else {
            panic!()
        };
        assert_eq!(object["metadata"]["name"], "edges");
    }

    #[test]
    fn a_cluster_that_waits_for_its_init_workload_is_closed_from_the_first_moment() {
        let taints = |waits_for_init: bool| {
            let view = View {
                request: request(),
                waits_for_init,
                namespace: Some(json!({"metadata": {"name": "clusternet-abcde"}})),
                ..View::default()
            };
            let Action::Create { object, .. } = &plan(&view).actions[0] else {
                panic!()
            };
            assert_eq!(object["kind"], "ManagedCluster");
            object["spec"]["taints"].clone()
        };
        let keys = |taints: &Value| -> Vec<String> {
            let taints = taints.as_array().unwrap().iter();
            taints
                .map(|taint| taint["key"].as_str().unwrap().to_owned())
                .collect()
        };
        let (unheard, waiting) = (
            "clusters.clusternet.io/unschedulable",
            "clusters.clusternet.io/initialization",
        );
        assert_eq!(keys(&taints(false)), [unheard]);
        assert_eq!(keys(&taints(true)), [unheard, waiting]);
    }
}
