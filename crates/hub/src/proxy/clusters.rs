//! What the proxy knows of clusters: their ManagedCluster, and the CA of their API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::clusters::{MANAGED_CLUSTERS, trusted_id};
use api::kubernetes::{NAMESPACES, SECRETS};
use api::labels;
use api::names::CHILD_DEPLOYER_SECRET;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeio::{Cache, CacheOptions, Client};
use machinery::{ApiError, Reason, meta};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::respond;

/// How long a CA is used before the Secret is read again.
const CA_FRESH: Duration = Duration::from_secs(30);

/// How long a request waits for the first list of clusters.
const READY_DEADLINE: Duration = Duration::from_secs(10);

/// CAs that are kept.
const MAX_CAS: usize = 4_096;

/// CA bundles by namespace, with when they were read.
type Cas = BTreeMap<String, (Instant, Arc<[u8]>)>;

/// The clusters of the fleet.
pub(crate) struct Clusters {
    client: Client,
    cache: Cache,
    /// Those that were made for clusters.
    namespaces: Cache,
    cas: Mutex<Cas>,
}

impl Clusters {
    pub(crate) fn start(client: Client) -> Self {
        let options = CacheOptions {
            project,
            ..CacheOptions::default()
        };
        let dedicated = CacheOptions {
            project: project_namespace,
            ..CacheOptions::labels(format!("{}={}", labels::CREATED_BY, labels::CREATED_BY_AGENT))
        };
        Self {
            cache: Cache::start(client.clone(), MANAGED_CLUSTERS, options),
            namespaces: Cache::start(client.clone(), NAMESPACES, dedicated),
            client,
            cas: Mutex::default(),
        }
    }

    /// The ManagedCluster with an id.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Arc<Value>>, ApiError> {
        let ready = async { tokio::join!(self.cache.ready(), self.namespaces.ready()) };
        tokio::time::timeout(READY_DEADLINE, ready).await.map_err(|_| {
            ApiError::new(
                Reason::ServiceUnavailable,
                "the hub has not read the lists of clusters and their namespaces yet",
            )
        })?;
        Ok(pick(&self.namespaces.list(), id, |namespace| {
            self.cache.list_namespace(namespace)
        }))
    }

    /// The CA bundle (PEM) of a cluster's API server, as its agent published it.
    pub(crate) async fn ca(&self, cluster: &Value) -> Result<Arc<[u8]>, ApiError> {
        let namespace = cluster["metadata"]["namespace"].as_str().unwrap_or_default();
        if let Some((at, ca)) = self.cas().get(namespace)
            && at.elapsed() < CA_FRESH
        {
            return Ok(Arc::clone(ca));
        }
        let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
        let secret = self
            .client
            .get_opt(&SECRETS, Some(namespace), CHILD_DEPLOYER_SECRET)
            .await
            .map_err(respond::from_parent)?;
        let ca = secret
            .as_ref()
            .and_then(|secret| secret["data"]["ca.crt"].as_str());
        let ca = ca.and_then(|text| STANDARD.decode(text).ok()).ok_or_else(|| {
            respond::bad_gateway(format!(
                "cluster {name:?} has published no CA: secret \"{namespace}/{CHILD_DEPLOYER_SECRET}\" has no ca.crt, \
                 so its API server cannot be verified"
            ))
        })?;
        let ca: Arc<[u8]> = ca.into();
        let mut cas = self.cas();
        if cas.len() >= MAX_CAS {
            cas.clear();
        }
        cas.insert(namespace.to_owned(), (Instant::now(), Arc::clone(&ca)));
        Ok(ca)
    }

    fn cas(&self) -> std::sync::MutexGuard<'_, Cas> {
        self.cas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ManagedCluster in the namespace that was made for the cluster with an id; what a child says in another is not
/// believed. Of several such namespaces the oldest counts, as for registration.
fn pick(
    namespaces: &[Arc<Value>],
    id: &str,
    clusters_of: impl Fn(&str) -> Vec<Arc<Value>>,
) -> Option<Arc<Value>> {
    let age = |namespace: &&Arc<Value>| {
        (
            meta::is_deleting(namespace),
            meta::creation_timestamp(namespace).to_owned(),
            meta::name(namespace).to_owned(),
        )
    };
    let made_for = |namespace: &&Arc<Value>| meta::label(namespace, labels::CLUSTER_ID) == Some(id);
    let home = namespaces.iter().filter(made_for).min_by_key(age)?;
    let mut clusters = clusters_of(meta::name(home)).into_iter();
    clusters.find(|cluster| trusted_id(cluster, Some(home)).is_some())
}

/// What the proxy reads of a namespace.
fn project_namespace(namespace: Value) -> Value {
    let metadata = &namespace["metadata"];
    json!({"metadata": {
        "name": metadata["name"], "labels": {labels::CLUSTER_ID: metadata["labels"][labels::CLUSTER_ID]},
        "creationTimestamp": metadata["creationTimestamp"], "deletionTimestamp": metadata["deletionTimestamp"],
    }})
}

/// What the proxy reads of a ManagedCluster.
fn project(cluster: Value) -> Value {
    json!({
        "metadata": {
            "name": cluster["metadata"]["name"], "namespace": cluster["metadata"]["namespace"],
            "uid": cluster["metadata"]["uid"], "resourceVersion": cluster["metadata"]["resourceVersion"],
        },
        "spec": {"clusterId": cluster["spec"]["clusterId"]},
        "status": {"apiserverURL": cluster["status"]["apiserverURL"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_cannot_pass_for_another() {
        let namespace = |name: &str, id: &str, created: &str| {
            Arc::new(project_namespace(json!({"metadata": {"name": name,
                "labels": {labels::CLUSTER_ID: id}, "creationTimestamp": created}})))
        };
        let cluster = |namespace: &str, id: &str| {
            Arc::new(project(json!({"metadata": {"name": "c", "namespace": namespace},
                "spec": {"clusterId": id}})))
        };
        let namespaces = [
            namespace("aaa", "a", "2026-01-01T00:00:00Z"),
            namespace("bbb", "b", "2026-01-02T00:00:00Z"),
            namespace("late", "b", "2026-01-03T00:00:00Z"),
        ];
        let found = |clusters: &[Arc<Value>], id: &str| {
            let of = |namespace: &str| {
                let here = clusters
                    .iter()
                    .filter(|cluster| meta::namespace(cluster) == namespace);
                here.cloned().collect()
            };
            pick(&namespaces, id, of).map(|cluster| meta::namespace(&cluster).to_owned())
        };
        let honest = [cluster("aaa", "a"), cluster("bbb", "b"), cluster("late", "b")];
        let posing = [cluster("aaa", "b"), cluster("bbb", "b")];
        let nobody = [cluster("aaa", "b"), cluster("elsewhere", "b")];
        for (clusters, id, expected) in [
            (&honest[..], "a", Some("aaa")),
            (&honest, "b", Some("bbb")),
            (&posing, "a", None),
            (&posing, "b", Some("bbb")),
            (&nobody, "b", None),
            (&honest, "c", None),
        ] {
            assert_eq!(found(clusters, id).as_deref(), expected, "{clusters:?} {id}");
        }
    }
}
