//! What all controllers of a process share: the client, the recorder, and one watch cache a kind.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{apps, clusters, kubernetes, labels, mcs, payloads, rollouts};
use clock::Env;
use kubeio::{Cache, CacheOptions, Client, ListOptions, Recorder};
use machinery::{ApiResource, meta};
use runtime::Chain;
use serde_json::Value;

use crate::config::Config;

/// What only services across clusters need, and may not be there on a parent that was prepared for less.
const OF_SERVICES: [ApiResource; 3] = [
    mcs::SERVICE_IMPORTS,
    kubernetes::SERVICES,
    kubernetes::ENDPOINT_SLICES,
];

/// How long payloads, which a parent may not know that was prepared for less, are waited for.
const PAYLOADS_DEADLINE: Duration = Duration::from_secs(5);

/// The client and the caches.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) env: Env,
    pub(crate) recorder: Recorder,
    /// The gate `ClusterInit`: approval and life cycle read it.
    pub(crate) cluster_init: bool,
    /// By plural; each kind once.
    caches: BTreeMap<String, Cache>,
}

impl Shared {
    /// Starts to fill every cache.
    pub(crate) fn start(client: Client, env: Env, recorder: Recorder, config: &Config) -> Self {
        let dedicated = format!("{}={}", labels::CREATED_BY, labels::CREATED_BY_AGENT);
        let kinds = [
            (apps::SUBSCRIPTIONS, CacheOptions::default()),
            (apps::BASES, CacheOptions::default()),
            (apps::DESCRIPTIONS, CacheOptions::default()),
            (apps::MANIFESTS, CacheOptions::default()),
            (apps::HELM_CHARTS, CacheOptions::default()),
            (apps::HELM_RELEASES, CacheOptions::default()),
            (apps::GLOBALIZATIONS, CacheOptions::default()),
            (apps::LOCALIZATIONS, CacheOptions::default()),
            (apps::FEED_INVENTORIES, CacheOptions::default()),
            (clusters::MANAGED_CLUSTERS, CacheOptions::default()),
            (clusters::REGISTRATION_REQUESTS, CacheOptions::default()),
            (kubernetes::NAMESPACES, CacheOptions::labels(dedicated)),
            (rollouts::ROLLOUTS, CacheOptions::default()),
            (
                kubernetes::SECRETS,
                CacheOptions {
                    namespace: Some(config.reserved_namespace.clone()),
                    ..CacheOptions::labels(labels::REVISION)
                },
            ),
        ];
        let marked = CacheOptions::labels(labels::MULTI_CLUSTER_SERVICE_NAME);
        let of_services = OF_SERVICES.map(|resource| {
            let all = resource == mcs::SERVICE_IMPORTS;
            (
                resource,
                if all {
                    CacheOptions::default()
                } else {
                    marked.clone()
                },
            )
        });
        let payloads = CacheOptions::namespace(payloads::NAMESPACE);
        let kinds = kinds.into_iter().chain([(payloads::PAYLOADS, payloads)]);
        let start = |(resource, options): (ApiResource, CacheOptions)| {
            let project = projection(&resource);
            let options = CacheOptions { project, ..options };
            (
                resource.plural.to_string(),
                Cache::start(client.clone(), resource, options),
            )
        };
        let of_services = of_services.into_iter().filter(|_| config.imports_services());
        let caches = kinds.chain(of_services).map(start).collect();
        Self {
            client,
            env,
            recorder,
            cluster_init: config.cluster_init,
            caches,
        }
    }

    /// Waits until every first list is in that the controllers need in any case.
    pub(crate) async fn ready(&self) {
        for cache in self.caches.values() {
            let wanted = if *cache.resource() == rollouts::ROLLOUTS {
                self.knows_rollouts().await
            } else {
                !OF_SERVICES.contains(cache.resource()) && *cache.resource() != payloads::PAYLOADS
            };
            if wanted {
                cache.ready().await;
            }
        }
        let payloads = self.cache(&payloads::PAYLOADS).ready();
        if tokio::time::timeout(PAYLOADS_DEADLINE, payloads).await.is_err() {
            tracing::warn!(
                "payloads cannot be read: large objects go out whole; apply \"tombolo install\" again"
            );
        }
    }

    /// Whether there may be Rollouts: a parent that was prepared for less has none. Once it has, the cache tells.
    async fn knows_rollouts(&self) -> bool {
        let one = ListOptions {
            limit: 1,
            ..ListOptions::default()
        };
        match self.client.list(&rollouts::ROLLOUTS, None, &one).await {
            Err(error) if error.is_not_found() || error.is_forbidden() => {
                tracing::warn!(
                    error = %Chain(&error),
                    "Rollouts cannot be read, and are taken for none; prepare the parent with `tombolo install`"
                );
                false
            }
            Ok(_) | Err(_) => true,
        }
    }

    /// Waits until every first list is in that services across clusters need.
    pub(crate) async fn services_ready(&self) {
        for resource in &OF_SERVICES {
            self.cache(resource).ready().await;
        }
    }

    /// The cache of a kind that was started.
    pub(crate) fn cache(&self, resource: &ApiResource) -> &Cache {
        self.find(resource)
            .expect("every kind that controllers read is started")
    }

    /// The cache of a kind, if it has one.
    fn find(&self, resource: &ApiResource) -> Option<&Cache> {
        self.caches
            .get(&*resource.plural)
            .filter(|cache| cache.resource() == resource)
    }

    /// Takes in the server's answer to a write of our own, so that the next plan sees it.
    pub(crate) fn learn(&self, resource: &ApiResource, answer: Value) {
        // The namespaces in the cache are a selection; a new one comes by the watch. So are the Secrets.
        let selected = *resource != kubernetes::SECRETS || meta::label(&answer, labels::REVISION).is_some();
        if *resource != kubernetes::NAMESPACES
            && selected
            && let Some(cache) = self.find(resource)
            && !(meta::is_deleting(&answer) && meta::finalizers(&answer).next().is_none())
        {
            cache.put(projection(resource)(answer));
        }
    }
}

/// Which fields of a kind are kept.
fn projection(resource: &ApiResource) -> fn(Value) -> Value {
    if *resource == payloads::PAYLOADS {
        project_payload
    } else {
        project
    }
}

/// That a piece is there is all that is asked.
fn project_payload(mut object: Value) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.remove("spec");
    }
    project(object)
}

/// Leaves out what nothing here reads.
fn project(mut object: Value) -> Value {
    meta::ensure_metadata(&mut object).remove("managedFields");
    object
}
