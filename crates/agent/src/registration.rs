//! The request of a child, the parent's answer, and the Secret that keeps it. Pure.

use api::{clusters, labels, names, secret};
use machinery::meta;
use serde_json::{Value, json};

use crate::config::Config;
use crate::parent::Credential;

/// What the parent's answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nobody has answered, or the answer lacks something still.
    Waiting,
    /// Taken in.
    Approved(Membership),
    /// Not taken in, for this reason; the parent may change its mind.
    Refused(String),
}

/// What a child that was taken in has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Its namespace on the parent.
    pub namespace: String,
    /// Its ManagedCluster; empty if the answer is older than that field.
    pub cluster: String,
    /// Its credential on the parent.
    pub credential: Credential,
}

/// The request.
pub fn request(config: &Config, cluster_id: &str, cluster_name: &str) -> Value {
    let mut request = json!({
        "apiVersion": clusters::REGISTRATION_REQUESTS.api_version(),
        "kind": clusters::REGISTRATION_REQUESTS.kind,
        "metadata": {
            "name": names::for_cluster(cluster_id),
            "labels": {
                labels::REGISTERED_BY: labels::CREATED_BY_AGENT,
                labels::CLUSTER_ID: cluster_id,
                labels::CLUSTER_NAME: cluster_name,
            },
        },
        "spec": {
            "clusterId": cluster_id,
            "clusterName": cluster_name,
            "clusterType": config.cluster_type,
            "syncMode": config.sync_mode.as_str(),
        },
    });
    if let Some(namespace) = &config.cluster_namespace {
        request["spec"]["clusterNamespace"] = json!(namespace);
    }
    if !config.cluster_labels.is_empty() {
        request["spec"]["clusterLabels"] = json!(config.cluster_labels);
    }
    request
}

/// Reads the parent's answer out of the request.
pub fn answer(request: &Value) -> Answer {
    let status = &request["status"];
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    match text("result") {
        "" => match text("errorMessage") {
            "" => Answer::Waiting,
            message => Answer::Refused(message.to_owned()),
        },
        "Approved" => {
            let (Some(token), Some(ca)) = (
                secret::decode(&status["token"]),
                secret::decode(&status["caCertificate"]),
            ) else {
                return Answer::Waiting;
            };
            let Ok(token) = String::from_utf8(token) else {
                return Answer::Refused("the token in the answer is not text".to_owned());
            };
            if text("dedicatedNamespace").is_empty() || token.is_empty() {
                return Answer::Waiting;
            }
            Answer::Approved(Membership {
                namespace: text("dedicatedNamespace").to_owned(),
                cluster: text("managedClusterName").to_owned(),
                credential: Credential {
                    token,
                    ca: Some(ca).filter(|ca| !ca.is_empty()),
                },
            })
        }
        other => Answer::Refused(match text("errorMessage") {
            "" => other.to_owned(),
            message => format!("{other}: {message}"),
        }),
    }
}

/// The Secret in the child that keeps a membership.
pub fn parent_secret(
    config: &Config,
    cluster_id: &str,
    cluster_name: &str,
    membership: &Membership,
) -> Value {
    let Membership {
        namespace,
        cluster: _,
        credential,
    } = membership;
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": names::PARENT_CLUSTER_SECRET,
            "namespace": config.namespace,
            "labels": {
                labels::BOOTSTRAPPING: labels::CREDENTIALS_AUTO,
                labels::CLUSTER_ID: cluster_id,
                labels::CLUSTER_NAME: cluster_name,
            },
        },
        "data": {
            "ca.crt": secret::encode(credential.ca.as_deref().unwrap_or_default()),
            "token": secret::encode(&credential.token),
            "namespace": secret::encode(namespace),
            names::ADVERTISE_URL_KEY: secret::encode(&config.parent_url),
        },
    })
}

/// Reads a kept membership; `None` if it is not of this parent or lacks something.
pub fn kept(config: &Config, cluster_id: &str, kept: &Value) -> Option<Membership> {
    let text = |field: &str| secret::text(kept, field);
    // Another id means that the Lease was made anew: a new cluster.
    let same_cluster = meta::label(kept, labels::CLUSTER_ID).is_none_or(|id| id == cluster_id);
    if !same_cluster || text(names::ADVERTISE_URL_KEY)? != config.parent_url {
        return None;
    }
    Some(Membership {
        namespace: text("namespace")?,
        cluster: String::new(),
        credential: Credential {
            token: text("token")?,
            ca: secret::bytes(kept, "ca.crt"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let mut config = Config::new("https://parent:6443", "abcdef.0123456789abcdef", "host_1");
        config.cluster_labels.insert("region".into(), "north".into());
        config
    }

    fn approved() -> Value {
        json!({"status": {"result": "Approved", "dedicatedNamespace": "clusternet-x7k2p", "managedClusterName": "edge-7",
            "token": secret::encode("t"), "caCertificate": secret::encode("pem")}})
    }

    #[test]
    fn the_request_has_the_shape_of_the_wire() {
        let request = request(&config(), "id-1", "edge-7");
        assert_eq!(request["metadata"]["name"], "clusternet-id-1");
        assert_eq!(
            request["metadata"]["labels"]["clusters.clusternet.io/registered-by"],
            "clusternet-agent"
        );
        assert_eq!(
            request["spec"],
            json!({"clusterId": "id-1", "clusterName": "edge-7", "clusterType": "StandardCluster", "syncMode": "Pull", "clusterLabels": {"region": "north"}})
        );
    }

    #[test]
    fn an_answer_counts_only_with_its_credential() {
        assert_eq!(answer(&json!({})), Answer::Waiting);
        let Answer::Approved(membership) = answer(&approved()) else {
            panic!("approved")
        };
        assert_eq!(membership.credential.token, "t");
        for field in ["token", "caCertificate", "dedicatedNamespace"] {
            let mut early = approved();
            early["status"].as_object_mut().unwrap().remove(field);
            assert_eq!(answer(&early), Answer::Waiting, "without {field}");
        }
        let open = json!({"status": {"errorMessage": "the name is taken"}});
        assert_eq!(answer(&open), Answer::Refused("the name is taken".to_owned()));
        let denied = json!({"status": {"result": "Denied", "errorMessage": "wrong name"}});
        assert_eq!(answer(&denied), Answer::Refused("Denied: wrong name".to_owned()));
    }

    #[test]
    fn a_membership_is_kept_for_its_parent_and_cluster_only() {
        let Answer::Approved(membership) = answer(&approved()) else {
            panic!("approved")
        };
        let secret = parent_secret(&config(), "id-1", "edge-7", &membership);
        let mut expected = membership.clone();
        expected.cluster.clear();
        assert_eq!(kept(&config(), "id-1", &secret), Some(expected));
        assert_eq!(kept(&config(), "id-2", &secret), None);
        let mut elsewhere = config();
        elsewhere.parent_url = "https://other".to_owned();
        assert_eq!(kept(&elsewhere, "id-1", &secret), None);
        let mut empty = secret;
        empty["data"]["token"] = json!("");
        assert_eq!(kept(&config(), "id-1", &empty), None);
    }
}
