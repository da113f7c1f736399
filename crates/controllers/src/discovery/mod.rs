//! Clusters of Cluster API join by themselves: a ClusterResourceSet carries the agent into each that is provisioned.
//!
//! The management cluster may be another than the parent, so it has a client of its own. What a namespace needs is
//! decided in [`plan`].

pub mod plan;

use std::time::Duration;

use api::{kubernetes, names, reasons};
use clock::Env;
use kubeio::{
    Cache, CacheOptions, Client, Discovered, Error, EventType, Outcome, Patch, Queue, QueueOptions, Recorder,
};
use machinery::{ApiResource, meta};
use runtime::{CancellationToken, Chain};
use serde_json::{Value, json};

use plan::{SETTINGS, SETTINGS_NAMESPACE, Settings};

/// The versions that are understood, the best first.
const VERSIONS: [&str; 3] = ["v1beta1", "v1beta2", "v1alpha4"];

/// How many namespaces are worked on at a time.
const WORKERS: usize = 2;

struct Discovery {
    client: Client,
    recorder: Recorder,
    clusters: Cache,
    settings: Cache,
    sets: ApiResource,
    /// Namespaces with clusters.
    queue: Queue<String>,
}

/// Serves the clusters of a management cluster until the token is cancelled.
pub(crate) async fn run(client: &Client, env: &Env, stop: &CancellationToken) {
    let longest = Duration::from_mins(1);
    let found = kubeio::until_answered("the kinds of Cluster API", longest, env, || async {
        let served = client.discover().await?.resources;
        Ok(choose(&served, "cluster.x-k8s.io", "clusters").zip(choose(
            &served,
            "addons.cluster.x-k8s.io",
            "clusterresourcesets",
        )))
    });
    let (clusters, sets) = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        found = found => found,
    };
    let settings = CacheOptions {
        namespace: Some(SETTINGS_NAMESPACE.to_owned()),
        field_selector: format!("metadata.name={SETTINGS}"),
        ..CacheOptions::default()
    };
    let discovery = Discovery {
        client: client.clone(),
        recorder: Recorder::start(client.clone(), env.clone(), names::CONTROLLERS),
        clusters: Cache::start(client.clone(), clusters, CacheOptions::default()),
        settings: Cache::start(client.clone(), kubernetes::SECRETS, settings),
        sets,
        queue: Queue::new(QueueOptions {
            base: Duration::from_millis(100),
            max: Duration::from_mins(1),
        }),
    };
    tokio::select! {
        biased;
        () = discovery.route() => {}
        () = discovery.queue.serve(WORKERS, stop, |namespace| discovery.work(namespace)) => {}
    }
}

/// The best version of a resource that is served.
fn choose(served: &[Discovered], group: &str, plural: &str) -> Option<ApiResource> {
    let of_version = |version: &&str| {
        served
            .iter()
            .map(|it| &it.resource)
            .find(|it| it.group == group && it.plural == plural && it.version == *version)
    };
    VERSIONS.iter().find_map(of_version).cloned()
}

impl Discovery {
    /// Reads changes for ever.
    async fn route(&self) {
        self.settings.ready().await;
        let (mut clusters, mut settings) = (self.clusters.subscribe(), self.settings.subscribe());
        loop {
            tokio::select! {
                biased;
                change = clusters.next() => self.queue.add(change.key.namespace),
                _ = settings.next() => {
                    for cluster in self.clusters.list() {
                        self.queue.add(meta::namespace(&cluster).to_owned());
                    }
                }
            }
        }
    }

    async fn work(&self, namespace: String) -> Outcome {
        let clusters = self.clusters.list_namespace(&namespace);
        let served: Vec<&Value> = clusters
            .iter()
            .map(|it| &**it)
            .filter(|it| plan::is_provisioned(it))
            .collect();
        // Whoever enters the settings later wakes the namespace.
        let Some(secret) = self.settings.get(Some(SETTINGS_NAMESPACE), SETTINGS) else {
            tracing::debug!(
                namespace,
                "clusters wait for Secret {SETTINGS_NAMESPACE}/{SETTINGS}"
            );
            return Outcome::Done;
        };
        if served.is_empty() {
            return Outcome::Done;
        }
        let settings = match Settings::of(&secret) {
            Ok(settings) => settings,
            Err(fault) => {
                tracing::warn!(fault, "clusters of Cluster API cannot join");
                self.tell(&secret, &fault);
                return Outcome::Done;
            }
        };
        match self.provide(&namespace, &settings, &served).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                if !(error.is_conflict() || error.is_already_exists()) {
                    let text = Chain(&error).to_string();
                    tracing::warn!(namespace, error = text, "clusters of Cluster API cannot join yet");
                    for cluster in served {
                        self.tell(cluster, &text);
                    }
                }
                Outcome::Retry
            }
        }
    }

    /// Brings a namespace to what it is to have.
    async fn provide(&self, namespace: &str, settings: &Settings, clusters: &[&Value]) -> Result<(), Error> {
        let home = Some(namespace);
        for (resource, wanted) in plan::wanted(settings, &self.sets, namespace) {
            let name = meta::name(&wanted);
            match self.client.get_opt(&resource, home, name).await? {
                None => {
                    self.client.create(&resource, home, &wanted).await?;
                }
                Some(have) => {
                    if let Some(patch) = plan::correction(&have, &wanted) {
                        self.client
                            .patch(&resource, home, name, None, Patch::Merge, &patch)
                            .await?;
                    }
                }
            }
        }
        for cluster in clusters {
            if let Some(mut patch) = plan::label(cluster) {
                patch["metadata"]["uid"] = json!(meta::uid(cluster));
                let resource = self.clusters.resource();
                self.client
                    .patch(resource, home, meta::name(cluster), None, Patch::Merge, &patch)
                    .await?;
            }
        }
        Ok(())
    }

    fn tell(&self, about: &Value, note: &str) {
        let reason = reasons::FAILED_CLUSTER_DISCOVERY;
        self.recorder.record(about, EventType::Warning, reason, note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_is_understood_is_used() {
        let served = |versions: &[&str]| -> Vec<Discovered> {
            let of = |version: &&str| Discovered {
                resource: ApiResource {
                    group: "cluster.x-k8s.io".into(),
                    version: (*version).to_owned().into(),
                    plural: "clusters".into(),
                    kind: "Cluster".into(),
                    namespaced: true,
                },
                verbs: Vec::new(),
                short_names: Vec::new(),
                categories: Vec::new(),
                subresources: Vec::new(),
            };
            versions.iter().map(of).collect()
        };
        for (versions, expected) in [
            (&["v1alpha4", "v1beta1"][..], Some("v1beta1")),
            (&["v1beta2", "v1beta1"], Some("v1beta1")),
            (&["v1beta2"], Some("v1beta2")),
            (&["v1alpha4"], Some("v1alpha4")),
            (&["v1alpha3"], None),
            (&[], None),
        ] {
            let chosen = choose(&served(versions), "cluster.x-k8s.io", "clusters");
            assert_eq!(
                chosen.map(|it| it.version.to_string()).as_deref(),
                expected,
                "{versions:?}"
            );
            assert_eq!(choose(&served(versions), "other.x-k8s.io", "clusters"), None);
        }
    }
}
