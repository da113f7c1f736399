//! A ManagedCluster that is deleted leaves the fleet, and nothing of it stays behind.
//!
//! First the agent, if it still answers, takes its objects away; then its rights and its request go, then its
//! namespace with everything in it, and last the ManagedCluster itself.
//!
//! One that is expelled is not waited for, for it may be somebody else's by now: its rights go first, and then whatever it
//! holds up by finalizers of its own making.

use std::sync::Arc;
use std::time::Duration;

use api::{annotations, clusters, finalizers, kubernetes, labels};
use distribution::{Action, Next, Plan};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

/// On every ManagedCluster: its departure is seen through.
pub const FINALIZER: &str = "clusters.clusternet.io/deregistration";

/// Before the next look at what an expelled cluster leaves.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// What one plan may look at.
#[derive(Debug, Clone)]
pub struct View {
    /// The ManagedCluster that is deleted.
    pub cluster: Value,
    /// Whether no other ManagedCluster lives in its namespace.
    pub alone: bool,
    /// Its dedicated namespace.
    pub namespace: Option<Value>,
    /// The Bases in it.
    pub bases: Vec<Arc<Value>>,
    /// The Descriptions in it.
    pub descriptions: Vec<Arc<Value>>,
    /// Its ClusterRegistrationRequest.
    pub request: Option<Value>,
    /// Its ClusterRole.
    pub role: Option<Value>,
    /// Its ClusterRoleBinding.
    pub binding: Option<Value>,
    /// The Secret that it published.
    pub credential: Option<Value>,
    /// Of one that is expelled: its accounts, its bindings in the namespace, and what it could join with again.
    pub granted: Vec<(ApiResource, Value)>,
    /// Of one that is expelled: what it may hold up in the namespace.
    pub left: Vec<(ApiResource, Value)>,
}

/// Whether a cluster that leaves is not waited for.
pub fn is_expelled(cluster: &Value) -> bool {
    meta::annotation(cluster, annotations::EXPEL) == Some("true")
}

/// What to do about a cluster that leaves.
pub fn plan(view: &View) -> Plan {
    let mut plan = Plan::default();
    if is_expelled(&view.cluster) {
        expel(view, &mut plan);
        if plan.writes() {
            plan.next = Next::Again(LOOK_PERIOD);
            return plan;
        }
    } else if !view.bases.is_empty() || !view.descriptions.is_empty() {
        let count = view.bases.len() + view.descriptions.len();
        plan.next = Next::Blocked(format!(
            "waiting for {count} Base(s) and Description(s) in its namespace to go"
        ));
        return plan;
    }
    disown(view, &mut plan);
    if let Some(credential) = &view.credential
        && meta::has_finalizer(credential, finalizers::APP)
    {
        plan.push(release(&kubernetes::SECRETS, credential, finalizers::APP));
    }
    if let Some(namespace) = &view.namespace
        && view.alone
        && meta::label(namespace, labels::CREATED_BY) == Some(labels::CREATED_BY_AGENT)
        && !meta::is_deleting(namespace)
    {
        plan.push(Action::delete(&kubernetes::NAMESPACES, namespace));
    }
    plan.push(release(&clusters::MANAGED_CLUSTERS, &view.cluster, FINALIZER));
    plan
}

/// Takes away what it has outside its namespace.
fn disown(view: &View, plan: &mut Plan) {
    let owned = [
        (&kubernetes::CLUSTER_ROLE_BINDINGS, &view.binding),
        (&kubernetes::CLUSTER_ROLES, &view.role),
        (&clusters::REGISTRATION_REQUESTS, &view.request),
    ];
    for (resource, object) in owned {
        if let Some(object) = object.as_ref().filter(|object| !meta::is_deleting(object)) {
            plan.push(Action::delete(resource, object));
        }
    }
}

/// The next step of expelling, if one is left: the rights; then what it could hold up is deleted, and let go.
fn expel(view: &View, plan: &mut Plan) {
    disown(view, plan);
    let delete = |objects: &[(ApiResource, Value)], plan: &mut Plan| {
        for (resource, object) in objects.iter().filter(|(_, object)| !meta::is_deleting(object)) {
            plan.push(Action::delete(resource, object));
        }
    };
    delete(&view.granted, plan);
    if plan.writes() {
        return;
    }
    delete(&view.left, plan);
    for (resource, object) in view.left.iter().filter(|(_, object)| meta::is_deleting(object)) {
        if meta::finalizers(object).next().is_some() {
            plan.push(Action::patch(
                resource,
                object,
                json!({"metadata": {"finalizers": []}}),
            ));
        }
    }
}

fn release(resource: &ApiResource, object: &Value, finalizer: &str) -> Action {
    let left: Vec<&str> = meta::finalizers(object).filter(|it| *it != finalizer).collect();
    let mut patch = json!({"metadata": {"finalizers": left}});
    if !meta::resource_version(object).is_empty() {
        patch["metadata"]["resourceVersion"] = json!(meta::resource_version(object));
    }
    Action::patch(resource, object, patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let object = |name: &str| json!({"metadata": {"name": name, "uid": name}});
        let mut credential = object("child-cluster-deployer");
        credential["metadata"]["finalizers"] = json!([finalizers::APP]);
        let mut namespace = object("ns");
        namespace["metadata"]["labels"] = json!({labels::CREATED_BY: labels::CREATED_BY_AGENT});
        let mut cluster = object("edge-7");
        cluster["metadata"]["finalizers"] = json!([FINALIZER]);
        View {
            cluster,
            alone: true,
            namespace: Some(namespace),
            bases: Vec::new(),
            descriptions: Vec::new(),
            request: Some(object("request")),
            role: Some(object("role")),
            binding: Some(object("binding")),
            credential: Some(credential),
            granted: Vec::new(),
            left: Vec::new(),
        }
    }

    #[test]
    fn an_expelled_cluster_is_not_waited_for() {
        let object =
            |name: &str, finalizers: &[&str]| json!({"metadata": {"name": name, "finalizers": finalizers}});
        let description = object("description", &[finalizers::APP, "of.the.child/own"]);
        let mut expelled = View {
            descriptions: vec![Arc::new(description.clone())],
            granted: vec![
                (kubernetes::SERVICE_ACCOUNTS, object("account", &[])),
                (kubernetes::ROLE_BINDINGS, object("home", &[])),
            ],
            left: vec![
                (api::apps::DESCRIPTIONS, description),
                (kubernetes::SECRETS, object("secret", &[])),
            ],
            ..view()
        };
        meta::set_annotation(&mut expelled.cluster, annotations::EXPEL, "false");
        assert_eq!(
            steps(&expelled),
            ["waiting for 1 Base(s) and Description(s) in its namespace to go"]
        );
        meta::set_annotation(&mut expelled.cluster, annotations::EXPEL, "true");
        assert_eq!(
            steps(&expelled),
            [
                "delete binding",
                "delete role",
                "delete request",
                "delete account",
                "delete home"
            ],
            "nothing else while it could still write"
        );
        (expelled.binding, expelled.role, expelled.request) = (None, None, None);
        expelled.granted.clear();
        assert_eq!(steps(&expelled), ["delete description", "delete secret"]);
        assert_eq!(plan(&expelled).next, Next::Again(LOOK_PERIOD));
        expelled.left.pop();
        expelled.left[0].1["metadata"]["deletionTimestamp"] = json!("now");
        assert_eq!(steps(&expelled), ["description []"]);
        expelled.left.clear();
        assert_eq!(
            steps(&expelled),
            ["child-cluster-deployer []", "delete ns", "edge-7 []"]
        );
    }

    fn steps(view: &View) -> Vec<String> {
        let plan = plan(view);
        let mut steps: Vec<String> = plan
            .actions
            .iter()
            .map(|action| match action {
                Action::Delete { target, .. } => format!("delete {}", target.name),
                Action::Patch { target, patch, .. } => {
                    format!("{} {}", target.name, patch["metadata"]["finalizers"])
                }
                Action::Create { .. } | Action::Event { .. } => "?".to_owned(),
            })
            .collect();
        if let Next::Blocked(why) = plan.next {
            steps.push(why);
        }
        steps
    }

    #[test]
    fn leaves_nothing_behind() {
        assert_eq!(
            steps(&view()),
            [
                "delete binding",
                "delete role",
                "delete request",
                "child-cluster-deployer []",
                "delete ns",
                "edge-7 []"
            ]
        );
    }

    #[test]
    fn waits_for_the_objects_in_the_child() {
        let waiting = View {
            bases: vec![Arc::new(json!({}))],
            ..view()
        };
        assert_eq!(
            steps(&waiting),
            ["waiting for 1 Base(s) and Description(s) in its namespace to go"]
        );
    }

    #[test]
    fn goes_on_where_it_was_interrupted_and_spares_what_is_not_its_own() {
        let mut late = View {
            binding: None,
            role: None,
            request: None,
            credential: None,
            ..view()
        };
        assert_eq!(steps(&late), ["delete ns", "edge-7 []"]);
        late.alone = false;
        assert_eq!(steps(&late), ["edge-7 []"]);
        let foreign = json!({"metadata": {"name": "ns"}});
        assert_eq!(
            steps(&View {
                alone: true,
                namespace: Some(foreign),
                ..late
            }),
            ["edge-7 []"]
        );
    }
}
