//! What the proxy knows of clusters: their ManagedCluster, and the CA of their API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::clusters::MANAGED_CLUSTERS;
use api::kubernetes::SECRETS;
use api::names::CHILD_DEPLOYER_SECRET;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeio::{Cache, CacheOptions, Client};
use machinery::{ApiError, Reason};
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
    cas: Mutex<Cas>,
}

impl Clusters {
    pub(crate) fn start(client: Client) -> Self {
        let options = CacheOptions {
            project,
            ..CacheOptions::default()
        };
        let cache = Cache::start(client.clone(), MANAGED_CLUSTERS, options);
        Self {
            client,
            cache,
            cas: Mutex::default(),
        }
    }

    /// The ManagedCluster with an id.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Arc<Value>>, ApiError> {
        if !self.cache.is_ready() {
            tokio::time::timeout(READY_DEADLINE, self.cache.ready())
                .await
                .map_err(|_| {
                    ApiError::new(
                        Reason::ServiceUnavailable,
                        "the hub has not read the list of clusters yet",
                    )
                })?;
        }
        Ok(self
            .cache
            .list()
            .into_iter()
            .find(|cluster| cluster["spec"]["clusterId"] == id))
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
