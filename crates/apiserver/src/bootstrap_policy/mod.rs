//! What every control plane starts with: default roles and bindings, namespaces, priority classes, the `kubernetes`
//! Service and the facts that aggregated servers read. Created where absent; a second start writes nothing.

mod roles;

use futures::StreamExt as _;
use machinery::ApiError;
use serde_json::{Value, json};

use crate::authn::FrontProxyHeaders;
use crate::controllers::Local;
use crate::pki::{FRONT_PROXY, Pki};

/// What differs between control planes.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The authority that clients inside the cluster are told to trust (`kube-root-ca.crt`), PEM.
    pub authority_pem: Option<String>,
    /// The authorities of client certificates, PEM.
    pub client_authorities_pem: Option<String>,
    /// The authorities of front proxies, PEM.
    pub front_proxy_authorities_pem: Option<String>,
    /// The common names of front proxies.
    pub front_proxy_names: Vec<String>,
    /// The address of the `kubernetes` Service; without one it is not made.
    pub service_address: Option<String>,
    /// The port at which the server listens.
    pub port: u16,
}

/// A default object with its collection's path.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultObject {
    /// `/api/v1/namespaces`.
    pub collection: String,
    /// The object.
    pub object: Value,
}

impl Facts {
    /// What a control plane with these keys says of itself.
    pub fn of(pki: &Pki, port: u16) -> Self {
        Self {
            authority_pem: Some(pki.trusted_pem.clone()),
            client_authorities_pem: Some(pki.trusted_pem.clone()),
            front_proxy_authorities_pem: Some(pki.front_proxy_authority.certificate_pem().to_owned()),
            front_proxy_names: vec![FRONT_PROXY.to_owned()],
            service_address: None,
            port,
        }
    }
}

impl DefaultObject {
    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// Every default object, in waves: those of one wave need only those of earlier ones.
pub fn objects(facts: &Facts) -> Vec<Vec<DefaultObject>> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"].map(|name| DefaultObject {
        collection: "/api/v1/namespaces".to_owned(),
        object: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    });
    let mut rest = roles::all();
    rest.extend(priority_classes());
    rest.push(extension_authentication(facts));
    rest.extend(kubernetes_service(facts));
    vec![namespaces.into(), rest]
}

fn priority_classes() -> Vec<DefaultObject> {
    [
        (
            "system-cluster-critical",
            2_000_000_000_i64,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
    .map(|(name, value, description)| DefaultObject {
        collection: "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
        object: json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description,
        }),
    })
    .into()
}

/// What aggregated API servers need to know to believe a front proxy.
fn extension_authentication(facts: &Facts) -> DefaultObject {
    let headers = FrontProxyHeaders::default();
    let mut data = serde_json::Map::new();
    if let Some(pem) = &facts.client_authorities_pem {
        data.insert("client-ca-file".into(), json!(pem));
    }
    if let Some(pem) = &facts.front_proxy_authorities_pem {
        data.insert("requestheader-client-ca-file".into(), json!(pem));
        for (key, values) in [
            ("requestheader-allowed-names", &facts.front_proxy_names),
            ("requestheader-extra-headers-prefix", &headers.extra_prefix),
            ("requestheader-group-headers", &headers.group),
            ("requestheader-uid-headers", &headers.uid),
            ("requestheader-username-headers", &headers.user),
        ] {
            data.insert(key.into(), json!(json!(values).to_string()));
        }
    }
    DefaultObject {
        collection: "/api/v1/namespaces/kube-system/configmaps".to_owned(),
        object: json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"}, "data": data,
        }),
    }
}

fn kubernetes_service(facts: &Facts) -> Option<DefaultObject> {
    let address = facts.service_address.as_ref()?;
    Some(DefaultObject {
        collection: "/api/v1/namespaces/default/services".to_owned(),
        object: json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": facts.port}],
            },
        }),
    })
}

/// What a stored object lacks of its default: the rules that an upgrade added to a role, the data that a new
/// authority changed in the ConfigMap. `None` if nothing.
pub(crate) fn refresh(wanted: &Value, found: &Value) -> Option<Value> {
    match wanted["kind"].as_str() {
        Some("ConfigMap") => (found["data"] != wanted["data"]).then(|| json!({"data": wanted["data"]})),
        Some("ClusterRole" | "Role") => {
            let annotations = &found["metadata"]["annotations"];
            if annotations["rbac.authorization.kubernetes.io/autoupdate"] != "true"
                || !wanted["aggregationRule"].is_null()
            {
                return None;
            }
            let held = found["rules"].as_array().cloned().unwrap_or_default();
            let lacking: Vec<&Value> = wanted["rules"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|rule| !held.contains(rule))
                .collect();
            if lacking.is_empty() {
                return None;
            }
            let all: Vec<&Value> = held.iter().chain(lacking).collect();
            Some(json!({ "rules": all }))
        }
        _ => None,
    }
}

/// Creates what is absent and refreshes what an older version left behind. Many writes run at once, so that they
/// share the store's syncs.
///
/// # Errors
/// The first refusal that is not "already there".
pub async fn ensure(api: &Local, facts: &Facts) -> Result<(), ApiError> {
    for wave in objects(facts) {
        let mut done = futures::stream::iter(wave)
            .map(|wanted| ensure_one(api, wanted))
            .buffer_unordered(32);
        while let Some(result) = done.next().await {
            result?;
        }
    }
    Ok(())
}

async fn ensure_one(api: &Local, wanted: DefaultObject) -> Result<(), ApiError> {
    let path = format!("{}/{}", wanted.collection, wanted.name());
    match api.get(&path).await {
        Ok(found) => match refresh(&wanted.object, &found) {
            Some(patch) => api.merge(&path, &patch).await.map(drop),
            None => Ok(()),
        },
        Err(error) if error.code == 404 => match api.create(&wanted.collection, &wanted.object).await {
            // Somebody else was faster.
            Err(error) if error.code == 409 => Ok(()),
            // A resource that this source does not hold needs no defaults.
            Err(error) if error.code == 404 => {
                tracing::debug!(%path, %error, "a default object has no place here");
                Ok(())
            }
            created => created.map(drop),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::authz::{Attributes, Rule};

    #[test]
    fn every_default_has_its_own_path() {
        let facts = Facts {
            service_address: Some("10.96.0.1".into()),
            ..Facts::default()
        };
        let mut seen = BTreeSet::new();
        for default in objects(&facts).into_iter().flatten() {
            assert!(!default.name().is_empty());
            assert!(
                seen.insert(format!("{}/{}", default.collection, default.name())),
                "{default:?}"
            );
        }
        assert!(seen.len() > 40);
    }

    #[test]
    fn every_binding_names_a_role_that_is_there() {
        let all: Vec<DefaultObject> = objects(&Facts::default()).into_iter().flatten().collect();
        for binding in all.iter().filter(|one| one.object["roleRef"].is_object()) {
            let role = &binding.object["roleRef"];
            let there = all.iter().any(|one| {
                one.object["kind"] == role["kind"] && one.object["metadata"]["name"] == role["name"]
            });
            assert!(there, "{}", binding.object);
        }
    }

    fn rules(name: &str) -> Vec<Rule> {
        let all = roles::all();
        let role = all
            .iter()
            .find(|one| one.object["kind"] == "ClusterRole" && one.name() == name)
            .unwrap();
        Rule::of_role(&role.object)
    }

    #[test]
    fn roles_hold_what_their_users_rely_on_and_no_more() {
        let may =
            |role: &str, attributes: Attributes| rules(role).iter().any(|rule| rule.allows(&attributes));
        let on =
            |verb: &str, group: &str, resource: &str| Attributes::resource(verb, group, resource, "a", "b");
        assert!(may("cluster-admin", on("delete", "any", "thing")));
        assert!(may("system:discovery", Attributes::path("get", "/apis/apps/v1")));
        assert!(may("system:discovery", Attributes::path("get", "/openapi/v3")));
        assert!(!may("system:discovery", Attributes::path("get", "/metrics")));
        assert!(may(
            "system:basic-user",
            on("create", "authorization.k8s.io", "selfsubjectaccessreviews")
        ));
        assert!(may("system:aggregate-to-view", on("list", "apps", "deployments")));
        assert!(
            !may("system:aggregate-to-view", on("get", "", "secrets")),
            "viewers see no secrets"
        );
        assert!(may("system:aggregate-to-edit", on("get", "", "secrets")));
        assert!(may(
            "system:aggregate-to-edit",
            on("create", "", "serviceaccounts/token")
        ));
        assert!(!may(
            "system:aggregate-to-edit",
            on("create", "rbac.authorization.k8s.io", "roles")
        ));
        assert!(may(
            "system:aggregate-to-admin",
            on("create", "rbac.authorization.k8s.io", "rolebindings")
        ));
        assert!(may(
            "system:node-bootstrapper",
            on("create", "certificates.k8s.io", "certificatesigningrequests")
        ));
        for role in ["admin", "edit", "view"] {
            assert!(rules(role).is_empty(), "{role} is aggregated");
        }
    }

    #[test]
    fn refreshes_only_what_is_behind() {
        let role = json!({"kind": "ClusterRole", "rules": [{"verbs": ["a"]}, {"verbs": ["b"]}]});
        let auto = json!({"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}});
        let found = json!({"rules": [{"verbs": ["mine"]}, {"verbs": ["a"]}], "metadata": auto});
        let patch = refresh(&role, &found).unwrap();
        assert_eq!(
            patch["rules"],
            json!([{"verbs": ["mine"]}, {"verbs": ["a"]}, {"verbs": ["b"]}])
        );
        assert_eq!(
            refresh(&role, &json!({"rules": patch["rules"], "metadata": auto})),
            None
        );
        assert_eq!(
            refresh(&role, &json!({"rules": []})),
            None,
            "its owner switched the updates off"
        );
        let map = json!({"kind": "ConfigMap", "data": {"a": "1"}});
        assert_eq!(refresh(&map, &json!({"data": {"a": "1"}})), None);
        assert!(refresh(&map, &json!({"data": {"a": "0"}})).is_some());
    }
}
