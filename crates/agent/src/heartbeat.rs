//! Looks at the child and reports to the parent.

use std::sync::Arc;
use std::time::Duration;

use api::{clusters, kubernetes, labels};
use clock::{Backoff, Env};
use http::Request;
use kubeio::{Cache, Client, ListOptions, ObjectKey, Patch};
use machinery::meta;
use machinery::quantity::Quantity;
use sealing::KeyRing;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::Config;
use crate::error::chain;
use crate::payloads;
use crate::report::{self, Cidrs, Health, Snapshot, Usage};
use crate::sealing_key;
use crate::sight::Sight;

/// How long the first look waits for the watches of the child.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// How often a report is tried when others write the object meanwhile.
const CONFLICT_TRIES: u32 = 5;
/// Refusals in a row that end the session.
const REFUSALS: u32 = 3;

/// Why the parent has no use for reports any more.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The parent does not know the credential any more.
    Unauthorized,
    /// The parent has no ManagedCluster for this child any more.
    Gone,
}

/// Looks and reports for one session.
pub(crate) struct Heartbeat {
    pub(crate) config: Arc<Config>,
    pub(crate) env: Env,
    pub(crate) child: Client,
    pub(crate) sight: Arc<Sight>,
    pub(crate) parent: Client,
    pub(crate) namespace: String,
    pub(crate) cluster_id: String,
    /// The ManagedCluster, in a cache of its namespace.
    pub(crate) clusters: Cache,
    /// The keys of the cluster, the first of which the parent is told.
    pub(crate) ring: Arc<KeyRing>,
}

impl Heartbeat {
    /// Reports for ever; dropping the future ends it.
    pub(crate) async fn run(self) -> Lost {
        let wait = async {
            self.sight.nodes().ready().await;
            if let Some(pods) = self.pods() {
                pods.ready().await;
            }
        };
        if tokio::time::timeout(FIRST_LOOK, wait).await.is_err() {
            tracing::warn!("nodes or pods of the cluster cannot be watched; the report will lack them");
        }
        let mut cidrs = Cidrs::default();
        let mut features = Vec::new();
        let mut last: Option<(Instant, Value)> = None;
        let mut refusals = 0;
        let mut backoff = Backoff::new(Duration::from_secs(1), self.config.collect_interval);
        loop {
            let due = last
                .as_ref()
                .is_none_or(|(at, _)| at.elapsed() >= self.config.report_interval);
            if due && (cidrs.cluster.is_none() || cidrs.service.is_none()) {
                cidrs = self.find_cidrs().await;
            }
            if due && let Some(now) = payloads::features(&self.parent).await {
                features = now;
            }
            if due {
                sealing_key::refresh(&self.child, &self.config.namespace, &self.ring, &self.env).await;
            }
            let look = self.look().await;
            let changed = last
                .as_ref()
                .is_none_or(|(_, key)| *key != look.key(&self.config));
            let mut pause = self.config.collect_interval;
            if due || changed {
                match self.report(&look, &cidrs, &features).await {
                    Ok(true) => {
                        refusals = 0;
                        backoff.reset();
                        last = Some((Instant::now(), look.key(&self.config)));
                    }
                    Ok(false) => return Lost::Gone,
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "report not delivered");
                        refusals = if error.is_unauthorized() { refusals + 1 } else { 0 };
                        if refusals >= REFUSALS {
                            return Lost::Unauthorized;
                        }
                        pause = backoff.next_delay(self.env.random_u64());
                    }
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The pods, if they are counted by a watch.
    fn pods(&self) -> Option<&Cache> {
        (!self.config.use_metrics_server).then(|| self.sight.pods())
    }

    async fn look(&self) -> Look {
        let (healthz, livez, readyz, version) = tokio::join!(
            self.answers_well("/healthz"),
            self.answers_well("/livez"),
            self.answers_well("/readyz"),
            self.child.get_path("/version"),
        );
        let usage = match self.pods() {
            Some(pods) if pods.is_ready() => {
                let all = pods.list();
                let running = all
                    .iter()
                    .filter(|pod| pod["status"]["phase"] == "Running")
                    .count();
                Usage {
                    pods: Some((running, all.len())),
                    resources: None,
                }
            }
            Some(_) => Usage::default(),
            None => self.measured().await,
        };
        Look {
            health: Health {
                healthz,
                livez,
                readyz,
            },
            version: version.unwrap_or_default(),
            nodes: self.sight.nodes().list(),
            usage,
        }
    }

    async fn answers_well(&self, path: &str) -> bool {
        let Ok(request) = Request::get(path).body(Vec::new()) else {
            return false;
        };
        self.child
            .request(request)
            .await
            .is_ok_and(|response| response.status() == http::StatusCode::OK)
    }

    /// What the metrics API says.
    async fn measured(&self) -> Usage {
        let everything = ListOptions::default();
        let pods = self
            .child
            .list_all(&kubernetes::POD_METRICS, None, &everything)
            .await;
        let nodes = self
            .child
            .list_all(&kubernetes::NODE_METRICS, None, &everything)
            .await;
        let total = self.child.list_all(&kubernetes::PODS, None, &everything).await;
        let has_containers = |pod: &&Value| pod["containers"].as_array().is_some_and(|list| !list.is_empty());
        let sum = |field: &str| {
            let mut sum = Quantity::zero();
            for node in nodes.as_ref().ok()?.items.iter() {
                sum = sum.checked_add(&Quantity::from_json(&node["usage"][field]).ok()?)?;
            }
            Some(sum.to_string())
        };
        Usage {
            pods: pods.ok().map(|pods| {
                let running = pods.items.iter().filter(has_containers).count();
                (running, total.map_or(running, |total| total.items.len()))
            }),
            resources: sum("cpu").zip(sum("memory")),
        }
    }

    async fn find_cidrs(&self) -> Cidrs {
        let mut pods = Vec::new();
        for selector in [
            "component in (kube-apiserver,kube-controller-manager)",
            "app.kubernetes.io/component in (kube-apiserver,kube-controller-manager)",
            "k8s-app=kube-proxy",
        ] {
            let listed = self
                .child
                .list(
                    &kubernetes::PODS,
                    Some("kube-system"),
                    &ListOptions::labels(selector),
                )
                .await;
            pods.extend(listed.map(|listed| listed.items).unwrap_or_default());
        }
        report::find_cidrs(pods.iter())
    }

    /// Writes one report; `false` if there is no ManagedCluster to write to.
    async fn report(&self, look: &Look, cidrs: &Cidrs, features: &[&str]) -> Result<bool, kubeio::Error> {
        let mut cluster = self.clusters.list().first().map(|cluster| (**cluster).clone());
        for _ in 0..CONFLICT_TRIES {
            let Some(current) = cluster else {
                let selector = format!("{}={}", labels::CLUSTER_ID, self.cluster_id);
                let listed = self
                    .parent
                    .list(
                        &clusters::MANAGED_CLUSTERS,
                        Some(&self.namespace),
                        &ListOptions::labels(selector),
                    )
                    .await?;
                cluster = listed.items.into_iter().next();
                if cluster.is_none() {
                    return Ok(false);
                }
                continue;
            };
            match self.write(look, cidrs, features, &current).await {
                Ok(()) => return Ok(true),
                // Somebody else wrote, or it was made anew: look at what there is now.
                Err(error) if error.is_conflict() || error.is_not_found() => cluster = None,
                Err(error) => return Err(error),
            }
        }
        // It is written too often; the next report will do.
        Ok(true)
    }

    async fn write(
        &self,
        look: &Look,
        cidrs: &Cidrs,
        features: &[&str],
        cluster: &Value,
    ) -> Result<(), kubeio::Error> {
        let key = ObjectKey::of(cluster);
        let snapshot = Snapshot {
            now: self.env.now(),
            version: &look.version,
            nodes: &look.nodes,
            health: look.health,
            cidrs,
            usage: &look.usage,
            features,
            encryption_key: self.ring.public().map(|key| key.to_string()),
            conditions: cluster["status"]["conditions"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default(),
        };
        let patch = json!({
            "metadata": {"resourceVersion": meta::resource_version(cluster)},
            "status": report::status(&self.config, &snapshot),
        });
        self.patch(&key, Some("status"), &patch).await?;
        let promotion = &self.config.promotion;
        let promoted = report::promote(&look.nodes, &promotion.prefixes, promotion.threshold);
        if let Some(patch) = report::label_changes(cluster, &promoted, &promotion.prefixes) {
            self.patch(&key, None, &patch).await?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<(), kubeio::Error> {
        let answer = self
            .parent
            .patch(
                &clusters::MANAGED_CLUSTERS,
                key.namespace(),
                &key.name,
                subresource,
                Patch::Merge,
                patch,
            )
            .await?;
        self.clusters.put(answer);
        Ok(())
    }
}

/// What one look saw.
struct Look {
    health: Health,
    version: Value,
    nodes: Vec<Arc<Value>>,
    usage: Usage,
}

impl Look {
    /// What makes a report due before its time when it changes.
    fn key(&self, config: &Config) -> Value {
        let promotion = &config.promotion;
        json!([
            [self.health.healthz, self.health.livez, self.health.readyz],
            self.version["gitVersion"],
            report::statistics(&self.nodes),
            report::sums(&self.nodes, "allocatable"),
            report::promote(&self.nodes, &promotion.prefixes, promotion.threshold),
        ])
    }
}
