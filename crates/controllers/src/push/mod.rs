//! Description → child, from the parent: for clusters whose sync mode says that the parent applies, and those whose agent
//! applies and leaves what is wanted no longer to the parent.
//!
//! Each such cluster has a [`deployer::Deployer`] here, the very one that agents run. It reaches
//! the child with the credential that the agent published, through the hub's proxy or straight ([`way`]); a new
//! credential replaces its client at once.

mod hitch;
pub mod way;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::deployer::contents::Store;
use ::deployer::{Contents, Deployer, Duty, Metrics, Parts};
use api::{apps, clusters, kubernetes, names};
use distribution::sync;
use kubeio::{Bounds, Cache, CacheOptions, Changes, ObjectKey};
use runtime::{CancellationToken, Chain};
use sealing::KeyRing;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::hitch::Hitches;
use self::way::{Link, Way};
use crate::shared::Shared;

/// How many Descriptions of one cluster are worked on at once.
const WORKERS: usize = 2;
/// How long what is under way may take once a cluster is pushed to no more, or another way.
const FINISH: Duration = Duration::from_secs(4);
/// What is read of a child: it may be hostile, and must leave room for the others.
const BOUNDS: Bounds = Bounds {
    answer: 16 << 20,
    whole: 128 << 20,
    page: 50,
};

/// Pushes until the token is cancelled, then finishes what is under way.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    metrics: &Metrics,
    keys: &Arc<KeyRing>,
    stop: &CancellationToken,
) {
    let mut members = shared.cache(&clusters::MANAGED_CLUSTERS).subscribe();
    let mut namespaces = shared.cache(&kubernetes::NAMESPACES).subscribe();
    let mut descriptions = shared.cache(&apps::DESCRIPTIONS).subscribe();
    let hitches = Arc::new(Hitches::new(shared));
    let mut pusher = Pusher {
        shared: Arc::clone(shared),
        hitches: Arc::clone(&hitches),
        metrics: metrics.clone(),
        contents: Contents::new(Arc::new(Store(shared.client.clone())), Arc::clone(keys)),
        pushed: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    let follow = async {
        loop {
            tokio::select! {
                biased;
                change = members.next() => {
                    let applies = |cluster| Option::map(cluster, sync::deployer_of);
                    if applies(change.old.as_deref()) != applies(change.new.as_deref()) {
                        hitches.look_at_all(&change.key.namespace);
                    }
                    pusher.follow(&change.key);
                }
                change = namespaces.next() => {
                    for cluster in shared.cache(&clusters::MANAGED_CLUSTERS).list_namespace(&change.key.name) {
                        pusher.follow(&ObjectKey::of(&cluster));
                    }
                }
                change = descriptions.next() => hitches.look_at(change.key),
            }
        }
    };
    tokio::select! {
        biased;
        () = hitches.serve(stop) => {}
        () = follow => {}
    }
    pusher.stop().await;
}

/// All that are pushed to.
struct Pusher {
    shared: Arc<Shared>,
    hitches: Arc<Hitches>,
    metrics: Metrics,
    /// One for all clusters: what is kept of payloads is kept once.
    contents: Contents,
    /// By ManagedCluster.
    pushed: BTreeMap<ObjectKey, Pushed>,
    tasks: JoinSet<()>,
}

/// A cluster that is pushed to.
struct Pushed {
    link: Link,
    duty: Duty,
    stop: CancellationToken,
    /// Cancelled when its task is over.
    over: CancellationToken,
}

impl Pusher {
    /// Starts or stops pushing to a cluster, or starts it anew when the way to it is another.
    fn follow(&mut self, key: &ObjectKey) {
        let ObjectKey { namespace, name } = key;
        let cluster = self.shared.cache(&clusters::MANAGED_CLUSTERS).get_key(key);
        let home = self.shared.cache(&kubernetes::NAMESPACES).get(None, namespace);
        let found = cluster.and_then(|cluster| {
            let duty = duty_of(&cluster)?;
            Some(Link::of(&cluster, home.as_deref()).map(|link| (link, duty)))
        });
        let lack = found.as_ref().and_then(|found| found.as_ref().err());
        if let Some(lack) = lack {
            self.hitches.set(namespace, Some(lack.to_string()));
        }
        let wanted = found.and_then(Result::ok);
        let current = self.pushed.get(key).map(|pushed| (&pushed.link, pushed.duty));
        if current == wanted.as_ref().map(|(link, duty)| (link, *duty)) {
            return;
        }
        // What is under way there ends by itself.
        let earlier = self.pushed.remove(key);
        if let Some(earlier) = &earlier {
            earlier.stop.cancel();
        }
        tracing::info!(%namespace, %name, way = ?wanted, "the parent applies, or applies no more");
        if let Some((link, duty)) = wanted {
            let pushed = self.start(namespace.clone(), link, duty, earlier);
            self.pushed.insert(key.clone(), pushed);
        }
    }

    fn start(&mut self, namespace: String, link: Link, duty: Duty, earlier: Option<Pushed>) -> Pushed {
        while self.tasks.try_join_next().is_some() {}
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let pushed = Pushed {
            link: link.clone(),
            duty,
            stop: stop.clone(),
            over: over.clone(),
        };
        let (shared, metrics) = (Arc::clone(&self.shared), self.metrics.clone());
        let (hitches, contents) = (Arc::clone(&self.hitches), self.contents.clone());
        self.tasks.spawn(async move {
            let _over = over.drop_guard();
            if let Some(earlier) = earlier {
                earlier.over.cancelled().await;
            }
            let child = Child {
                shared: &shared,
                hitches: &hitches,
                namespace: &namespace,
                link: &link,
                contents: &contents,
            };
            push(&child, duty, &metrics, &stop).await;
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

/// What the parent does in the child of a ManagedCluster, if anything.
fn duty_of(cluster: &Value) -> Option<Duty> {
    match sync::deployer_of(cluster) {
        sync::Deployer::Parent => Some(Duty::Deploy),
        sync::Deployer::Agent => sync::parent_prunes(cluster).then_some(Duty::Prune),
        sync::Deployer::Nobody(_) => None,
    }
}

/// A child, as it is looked for.
struct Child<'a> {
    shared: &'a Shared,
    hitches: &'a Hitches,
    namespace: &'a str,
    link: &'a Link,
    contents: &'a Contents,
}

/// Does its duty about the Descriptions of one namespace until `stop`.
async fn push(child: &Child<'_>, duty: Duty, metrics: &Metrics, stop: &CancellationToken) {
    let Child {
        shared,
        namespace,
        link,
        contents,
        hitches: _,
    } = *child;
    let options = CacheOptions {
        field_selector: format!("metadata.name={}", names::CHILD_DEPLOYER_SECRET),
        ..CacheOptions::namespace(namespace)
    };
    let published = Cache::start(shared.client.clone(), kubernetes::SECRETS, options);
    let mut changes = published.subscribe();
    while !stop.is_cancelled() {
        let (way, client) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            reached = reach(child, &published, &mut changes) => reached,
        };
        let deployer = Deployer::new(Parts {
            parent: shared.client.clone(),
            child: client,
            namespace: namespace.to_owned(),
            contents: contents.clone(),
            duty: watch::channel(Some(duty)).1,
            recovery: true,
            workers: WORKERS,
            component: names::CONTROLLERS,
            metrics: metrics.clone(),
            env: shared.env.clone(),
        });
        let over = stop.child_token();
        let mut running = pin!(until(&over, namespace, deployer.run(over.clone())));
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

/// Gives what runs until a token is cancelled a while to finish what is under way. A child that hangs holds up nobody.
async fn until(over: &CancellationToken, namespace: &str, running: impl Future<Output = ()>) {
    let mut running = pin!(running);
    tokio::select! {
        biased;
        () = &mut running => return,
        () = over.cancelled() => {}
    }
    if tokio::time::timeout(FINISH, running).await.is_err() {
        tracing::warn!(
            namespace,
            "a description was left in the middle; whoever applies next takes it up"
        );
    }
}

fn find(link: &Link, published: &Cache) -> Result<Way, way::Lack> {
    Way::of(link, published.list().first().map(|secret| &**secret))
}

/// Waits for a credential with which the child can be reached.
async fn reach(child: &Child<'_>, published: &Cache, changes: &mut Changes) -> (Way, kubeio::Client) {
    let Child {
        shared,
        hitches,
        namespace,
        link,
        contents: _,
    } = *child;
    published.ready().await;
    loop {
        let lack = match find(link, published) {
            Ok(way) => match way.client(&shared.client) {
                Ok(client) => {
                    hitches.set(namespace, None);
                    let client = client.with_user_agent(names::CONTROLLERS).bounded(BOUNDS);
                    let client = match link.rate {
                        Some(rate) => client.limited(rate),
                        None => client,
                    };
                    return (way, client);
                }
                Err(error) => format!("what its agent has published is not usable: {}", Chain(&error)),
            },
            Err(lack) => lack.to_string(),
        };
        tracing::warn!(namespace, error = %lack, "the child cannot be reached from the parent");
        hitches.set(namespace, Some(lack));
        changes.next().await;
    }
}
