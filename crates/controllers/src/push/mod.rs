//! Description → child, from the parent: for clusters whose sync mode says that the parent applies.
//!
//! Each such cluster has a [`deployer::Deployer`] here, the very one that agents run. It reaches
//! the child with the credential that the agent published, through the hub's proxy or straight ([`way`]); a new
//! credential replaces its client at once.

pub mod way;

use std::collections::BTreeMap;
use std::sync::Arc;

use ::deployer::{Deployer, Duty, Metrics, Parts};
use api::{apps, clusters, kubernetes, names, reasons};
use distribution::EventKind;
use distribution::sync::{self, Impasse};
use kubeio::{Cache, CacheOptions, Change, Changes, ObjectKey};
use machinery::meta;
use runtime::{CancellationToken, Chain};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::way::{Link, Way};
use crate::shared::Shared;

/// How many Descriptions of one cluster are worked on at once.
const WORKERS: usize = 2;

/// Pushes until the token is cancelled, then finishes what is under way.
pub(crate) async fn run(shared: &Arc<Shared>, metrics: &Metrics, stop: &CancellationToken) {
    let mut members = shared.cache(&clusters::MANAGED_CLUSTERS).subscribe();
    let mut descriptions = shared.cache(&apps::DESCRIPTIONS).subscribe();
    let mut pusher = Pusher {
        shared: Arc::clone(shared),
        metrics: metrics.clone(),
        pushed: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return pusher.stop().await,
            change = members.next() => pusher.follow(&change),
            change = descriptions.next() => {
                if let Some(new) = &change.new
                    && change.old.as_ref().is_none_or(|old| old["spec"] != new["spec"])
                {
                    warn(shared, new);
                }
            }
        }
    }
}

/// All that are pushed to.
struct Pusher {
    shared: Arc<Shared>,
    metrics: Metrics,
    /// By ManagedCluster.
    pushed: BTreeMap<ObjectKey, Pushed>,
    tasks: JoinSet<()>,
}

/// A cluster that is pushed to.
struct Pushed {
    link: Link,
    stop: CancellationToken,
    /// Cancelled when its task is over.
    over: CancellationToken,
}

impl Pusher {
    /// Starts or stops pushing to a cluster, or starts it anew when the way to it is another; tells where nobody applies.
    fn follow(&mut self, change: &Change) {
        let cluster = change.new.as_deref();
        if impasse(change.old.as_deref()) != impasse(cluster) {
            let descriptions = self.shared.cache(&apps::DESCRIPTIONS);
            for description in descriptions.list_namespace(&change.key.namespace) {
                warn(&self.shared, &description);
            }
        }
        let wanted = cluster
            .filter(|cluster| sync::deployer_of(cluster) == sync::Deployer::Parent)
            .map(Link::of);
        if self.pushed.get(&change.key).map(|pushed| &pushed.link) == wanted.as_ref() {
            return;
        }
        // What is under way there ends by itself.
        let earlier = self.pushed.remove(&change.key);
        if let Some(earlier) = &earlier {
            earlier.stop.cancel();
        }
        let ObjectKey { namespace, name } = &change.key;
        tracing::info!(%namespace, %name, way = ?wanted, "the parent applies, or applies no more");
        if let Some(link) = wanted {
            let pushed = self.start(namespace.clone(), link, earlier);
            self.pushed.insert(change.key.clone(), pushed);
        }
    }

    fn start(&mut self, namespace: String, link: Link, earlier: Option<Pushed>) -> Pushed {
        while self.tasks.try_join_next().is_some() {}
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let pushed = Pushed {
            link: link.clone(),
            stop: stop.clone(),
            over: over.clone(),
        };
        let (shared, metrics) = (Arc::clone(&self.shared), self.metrics.clone());
        self.tasks.spawn(async move {
            let _over = over.drop_guard();
            if let Some(earlier) = earlier {
                earlier.over.cancelled().await;
            }
            push(&shared, &metrics, &namespace, &link, &stop).await;
        });
        pushed
    }

    async fn stop(mut self) {
        for pushed in self.pushed.values() {
            pushed.stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Applies the Descriptions of one namespace into its child until `stop`.
async fn push(shared: &Shared, metrics: &Metrics, namespace: &str, link: &Link, stop: &CancellationToken) {
    let options = CacheOptions {
        field_selector: format!("metadata.name={}", names::CHILD_DEPLOYER_SECRET),
        ..CacheOptions::namespace(namespace)
    };
    let published = Cache::start(shared.client.clone(), kubernetes::SECRETS, options);
    let mut changes = published.subscribe();
    while !stop.is_cancelled() {
        let (way, child) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            reached = reach(shared, namespace, link, &published, &mut changes) => reached,
        };
        let deployer = Deployer::new(Parts {
            parent: shared.client.clone(),
            child,
            namespace: namespace.to_owned(),
            duty: watch::channel(Some(Duty::Deploy)).1,
            recovery: true,
            workers: WORKERS,
            component: names::CONTROLLERS,
            metrics: metrics.clone(),
            env: shared.env.clone(),
        });
        let over = stop.child_token();
        let mut running = std::pin::pin!(deployer.run(over.clone()));
        let other_way = async {
            while find(link, &published) == Ok(way.clone()) {
                changes.next().await;
            }
        };
        tokio::select! {
            biased;
            () = &mut running => {}
            () = other_way => {
                over.cancel();
                running.await;
            }
        }
    }
}

fn find(link: &Link, published: &Cache) -> Result<Way, way::Lack> {
    Way::of(link, published.list().first().map(|secret| &**secret))
}

/// Waits for a credential with which the child can be reached.
async fn reach(
    shared: &Shared,
    namespace: &str,
    link: &Link,
    published: &Cache,
    changes: &mut Changes,
) -> (Way, kubeio::Client) {
    published.ready().await;
    loop {
        match find(link, published) {
            Ok(way) => match way.client(&shared.client) {
                Ok(client) => {
                    let client = client.with_user_agent(names::CONTROLLERS);
                    let client = match link.rate {
                        Some(rate) => client.limited(rate),
                        None => client,
                    };
                    return (way, client);
                }
                Err(error) => {
                    tracing::warn!(namespace, error = %Chain(&error), "the child's credential is not usable");
                }
            },
            Err(lack) => tracing::warn!(namespace, error = %lack, "the child cannot be pushed to"),
        }
        changes.next().await;
    }
}

fn impasse(cluster: Option<&Value>) -> Option<Impasse> {
    match sync::deployer_of(cluster?) {
        sync::Deployer::Nobody(impasse) => Some(impasse),
        sync::Deployer::Agent | sync::Deployer::Parent => None,
    }
}

/// Tells on a Description that nobody applies it, if that is so.
fn warn(shared: &Shared, description: &Value) {
    let members = shared
        .cache(&clusters::MANAGED_CLUSTERS)
        .list_namespace(meta::namespace(description));
    if let Some(impasse) = impasse(members.first().map(|cluster| &**cluster)) {
        let note = impasse.to_string();
        shared.tell(
            description,
            EventKind::Warning,
            reasons::UNSUCCESSFULLY_DEPLOYED,
            &note,
        );
    }
}
