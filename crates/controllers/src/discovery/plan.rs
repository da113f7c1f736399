//! What a namespace of Cluster API needs so that its clusters join. Pure.
//!
//! The objects' names, the settings' keys and the agent's mode are Clusternet's, so that a setup of its is taken over.

use api::install::{AgentOptions, ChildOptions, agent, bootstrap_secret, child};
use api::{annotations, kubernetes, labels, secret};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::registration::rights;

/// Where the settings are.
pub const SETTINGS_NAMESPACE: &str = "capi-system";
/// The Secret with the settings.
pub const SETTINGS: &str = "clusternet-cluster-api";
/// Names the objects' cluster: Cluster API's own label.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

const RESOURCE_SET: &str = "clusternet-cluster-api";
const RIGHTS: &str = "clusternet-agent-rbac";
const TOKEN: &str = "clusternet-agent-token";
const DEPLOYMENT: &str = "clusternet-agent-deploy";
/// The only type of Secret that Cluster API carries into clusters.
const CARRIED_SECRET: &str = "addons.cluster.x-k8s.io/resource-set";

/// How clusters join.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    image: String,
    parent_url: String,
    token: String,
    authority: Option<String>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is nobody's business.
        let Self {
            image, parent_url, ..
        } = self;
        write!(f, "Settings({image}, {parent_url})")
    }
}

impl Settings {
    /// From the Secret: `image`, `parentURL`, `regToken`, and, ours, `parentCA` (PEM; without it the clusters' machines
    /// must trust the parent's authority anyway).
    ///
    /// # Errors
    /// For people: the key that is wrong, and what it should be.
    pub fn of(object: &Value) -> Result<Self, String> {
        let needed = |key: &str, what: &str| {
            secret::text(object, key)
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
                .ok_or_else(|| {
                    format!("Secret {SETTINGS_NAMESPACE}/{SETTINGS} has no \"{key}\": it has to hold {what}")
                })
        };
        let parent_url = needed("parentURL", "the https URL of the parent's API server")?;
        if !parent_url.starts_with("https://") {
            return Err(format!(
                "\"parentURL\" of Secret {SETTINGS_NAMESPACE}/{SETTINGS} is {parent_url:?}: it has to begin with https://"
            ));
        }
        Ok(Self {
            image: needed("image", "the agent's image")?,
            parent_url,
            token: needed("regToken", "a bootstrap token of the parent")?,
            authority: secret::text(object, "parentCA"),
        })
    }
}

/// Whether its machines are there, so that an agent can run.
pub fn is_provisioned(cluster: &Value) -> bool {
    cluster["status"]["phase"] == "Provisioned" && !meta::is_deleting(cluster)
}

/// The patch that lets a cluster be found by the label that the set selects by; `None` if it has it.
pub fn label(cluster: &Value) -> Option<Value> {
    meta::label(cluster, CLUSTER_LABEL)
        .is_none()
        .then(|| json!({"metadata": {"labels": {CLUSTER_LABEL: meta::name(cluster)}}}))
}

/// What a namespace with provisioned clusters is to have, in an order in which it can be made.
pub fn wanted(settings: &Settings, sets: &ApiResource, namespace: &str) -> Vec<(ApiResource, Value)> {
    let rights = child(&ChildOptions::default());
    let token = bootstrap_secret(&settings.token, settings.authority.as_deref());
    let deployment = agent(&AgentOptions {
        image: &settings.image,
        parent_url: &settings.parent_url,
        name: None,
        sync_mode: Some("Dual"),
        replicas: 3,
        has_authority: settings.authority.is_some(),
    });
    let metadata = |name: &str| {
        json!({
            "name": name, "namespace": namespace,
            "labels": {labels::CREATED_BY: labels::CREATED_BY_CONTROLLERS},
            "annotations": {annotations::AUTO_UPDATE: "true"},
        })
    };
    let map = |name: &str, key: &str, objects: &[Value]| {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name),
            "data": {key: yaml(objects)},
        });
        (kubernetes::CONFIG_MAPS, object)
    };
    let carried = json!({
        "apiVersion": "v1", "kind": "Secret", "type": CARRIED_SECRET, "metadata": metadata(TOKEN),
        "data": {"token.yaml": secret::encode(yaml(&[token]))},
    });
    let reference = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    let set = json!({
        "apiVersion": sets.api_version(), "kind": sets.kind, "metadata": metadata(RESOURCE_SET),
        "spec": {
            "clusterSelector": {"matchExpressions": [{"key": CLUSTER_LABEL, "operator": "Exists"}]},
            "resources": [
                reference("ConfigMap", RIGHTS), reference("Secret", TOKEN), reference("ConfigMap", DEPLOYMENT),
            ],
            // A new image or token reaches the clusters that have joined.
            "strategy": "Reconcile",
        },
    });
    vec![
        map(RIGHTS, "rbac.yaml", &rights),
        (kubernetes::SECRETS, carried),
        map(DEPLOYMENT, "deploy.yaml", &[deployment]),
        (sets.clone(), set),
    ]
}

fn yaml(objects: &[Value]) -> String {
    let documents = objects.iter().map(codec::yaml::to_string);
    documents.map(|text| format!("---\n{text}")).collect()
}

/// The patch that gives an object what is wanted of it, if it lets itself be changed.
pub fn correction(have: &Value, wanted: &Value) -> Option<Value> {
    if wanted["spec"].is_null() {
        return rights::correction(have, wanted, "data");
    }
    // The selector and the strategy of a set cannot be changed.
    rights::correction(&resources_of(have), &resources_of(wanted), "spec")
}

/// A set cut down to what can be changed of it.
fn resources_of(set: &Value) -> Value {
    json!({"metadata": set["metadata"], "spec": {"resources": set["spec"]["resources"]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: ApiResource = ApiResource::namespaced(
        "addons.cluster.x-k8s.io",
        "v1beta1",
        "clusterresourcesets",
        "ClusterResourceSet",
    );

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let data: serde_json::Map<String, Value> = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(secret::encode(value))))
            .collect();
        Settings::of(&json!({"data": data}))
    }

    const GOOD: [(&str, &str); 4] = [
        ("image", "example.com/tombolo:1"),
        ("parentURL", "https://hub.example.com:6443\n"),
        ("regToken", "abcdef.0123456789abcdef"),
        ("parentCA", "PEM"),
    ];

    #[test]
    fn settings_name_the_key_that_is_wrong() {
        let good = settings(&GOOD).unwrap();
        assert_eq!(good.parent_url, "https://hub.example.com:6443");
        assert!(
            !format!("{good:?}").contains("abcdef"),
            "a token is in nobody's log"
        );
        for (missing, key) in ["image", "parentURL", "regToken"].into_iter().enumerate() {
            let mut less = GOOD.to_vec();
            less.remove(missing);
            assert!(settings(&less).unwrap_err().contains(&format!("\"{key}\"")));
            less.insert(0, (key, " "));
            assert!(settings(&less).unwrap_err().contains(&format!("\"{key}\"")));
        }
        let plain = [GOOD[0], ("parentURL", "http://hub"), GOOD[2]];
        assert!(settings(&plain).unwrap_err().contains("https://"));
        assert_eq!(settings(&GOOD[..3]).unwrap().authority, None);
    }

    #[test]
    fn clusters_whose_machines_are_there_are_served() {
        for (cluster, expected) in [
            (json!({"status": {"phase": "Provisioned"}}), true),
            (json!({"status": {"phase": "Provisioning"}}), false),
            (json!({}), false),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Provisioned"}}),
                false,
            ),
        ] {
            assert_eq!(is_provisioned(&cluster), expected, "{cluster}");
        }
        let named = json!({"metadata": {"name": "a"}});
        let patch = json!({"metadata": {"labels": {CLUSTER_LABEL: "a"}}});
        assert_eq!(label(&named), Some(patch));
        assert_eq!(
            label(&json!({"metadata": {"name": "a", "labels": {CLUSTER_LABEL: "b"}}})),
            None
        );
    }

    #[test]
    fn carries_rights_token_and_agent_in_this_order_and_the_token_in_a_secret_only() {
        let objects = wanted(&settings(&GOOD).unwrap(), &SETS, "fleet");
        let names: Vec<&str> = objects.iter().map(|(_, object)| meta::name(object)).collect();
        assert_eq!(names, [RIGHTS, TOKEN, DEPLOYMENT, RESOURCE_SET]);
        let carried: Vec<&str> = objects[3].1["spec"]["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert_eq!(carried, names[..3]);
        for (resource, object) in &objects {
            assert_eq!(meta::namespace(object), "fleet");
            assert_eq!(meta::api_version(object), resource.api_version());
            let text = object.to_string();
            assert!(!text.contains("0123456789abcdef"), "{text}");
            assert_eq!(correction(object, object), None, "{text}");
        }
        let deployment =
            codec::yaml::parse_one(objects[2].1["data"]["deploy.yaml"].as_str().unwrap()).unwrap();
        assert_eq!(deployment["spec"]["replicas"], 3);
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        assert!(
            args.contains(r#""--cluster-sync-mode","Dual""#) && !args.contains("--cluster-reg-name"),
            "{args}"
        );
        let token = secret::text(&objects[1].1, "token.yaml").unwrap();
        let token = codec::yaml::parse_one(&token).unwrap();
        assert_eq!(secret::text(&token, "ca.crt").as_deref(), Some("PEM"));
        assert_eq!(
            secret::text(&token, "token").as_deref(),
            Some("abcdef.0123456789abcdef")
        );
    }

    #[test]
    fn corrects_what_can_be_changed_of_what_is_not_frozen() {
        let objects = wanted(&settings(&GOOD).unwrap(), &SETS, "fleet");
        for (_, object) in &objects {
            let mut have = object.clone();
            let field = if object["spec"].is_null() { "data" } else { "spec" };
            have[field] = json!({"clusterSelector": {}, "strategy": "ApplyOnce"});
            let patch = correction(&have, object).unwrap();
            machinery::patch::merge_patch(&mut have, &patch);
            assert_eq!(correction(&have, object), None);
            if field == "spec" {
                assert_eq!(
                    have["spec"]["strategy"], "ApplyOnce",
                    "Cluster API lets nobody change it"
                );
            }
            have["metadata"]["annotations"] = json!({});
            have[field] = json!({});
            assert_eq!(correction(&have, object), None, "frozen");
        }
    }
}
