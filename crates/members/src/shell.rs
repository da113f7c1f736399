//! Watches, plans, carries out.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Env;
use futures::StreamExt;
use futures::future::{join_all, select_all};
use kubeio::{Cache, CacheOptions, Changes, Client, DeleteOptions, ObjectKey, Patch};
use machinery::ApiResource;
use runtime::CancellationToken;
use serde_json::json;

use crate::NodeSpec;
use crate::action::Action;
use crate::plan::plan;
use crate::world::{
    DAEMON_SETS, DEPLOYMENTS, DISRUPTION_BUDGETS, JOBS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS, World,
};

/// How many writes are under way at once.
const CONCURRENT_WRITES: usize = 16;
/// When to look again after a write that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a pod that was made may be out of sight: one that went at once is never seen.
const OUT_OF_SIGHT: Duration = Duration::from_secs(5);
/// When to look again if nothing happens at all.
const IDLE: Duration = Duration::from_secs(300);

/// A simulated cluster.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its nodes.
    pub nodes: Vec<NodeSpec>,
}

/// Why a simulated cluster stops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node's name stands twice.
    #[error("two nodes are named {0:?}")]
    TwoNodes(String),
}

struct Caches(BTreeMap<&'static str, Cache>);

impl Caches {
    fn start(client: &Client) -> Self {
        let kinds: [&'static ApiResource; 8] = [
            &NODES,
            &PODS,
            &DEPLOYMENTS,
            &REPLICA_SETS,
            &STATEFUL_SETS,
            &DAEMON_SETS,
            &JOBS,
            &DISRUPTION_BUDGETS,
        ];
        let start = |resource: &'static ApiResource| {
            (
                &*resource.plural,
                Cache::start(client.clone(), resource.clone(), CacheOptions::default()),
            )
        };
        Self(kinds.into_iter().map(start).collect())
    }

    fn world(&self) -> World {
        let of = |resource: &ApiResource| self.0[&*resource.plural].list();
        World {
            nodes: of(&NODES),
            pods: of(&PODS),
            deployments: of(&DEPLOYMENTS),
            replica_sets: of(&REPLICA_SETS),
            stateful_sets: of(&STATEFUL_SETS),
            daemon_sets: of(&DAEMON_SETS),
            jobs: of(&JOBS),
            budgets: of(&DISRUPTION_BUDGETS),
        }
    }

    async fn changed(changes: &mut [Changes]) {
        select_all(changes.iter_mut().map(|changes| Box::pin(changes.next()))).await;
        for changes in changes {
            while changes.try_next().is_some() {}
        }
    }
}

/// Runs a cluster's nodes and workloads until the token is cancelled.
///
/// # Errors
/// [`Error`] for a configuration that makes no sense.
pub async fn run(config: Config, client: Client, env: Env, shutdown: CancellationToken) -> Result<(), Error> {
    let mut names: Vec<&str> = config.nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twin) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::TwoNodes(twin[0].to_owned()));
    }
    let caches = Caches::start(&client);
    tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(()),
        _ = join_all(caches.0.values().map(Cache::ready)) => {}
    }
    let mut changes: Vec<Changes> = caches.0.values().map(Cache::subscribe).collect();
    let mut random = env.random_u64();
    // Pods that were made and are not in sight yet. As long as there are any, the same random number makes the same
    // names, so that nothing is made twice.
    let mut unseen: Vec<ObjectKey> = Vec::new();
    let mut patience = env.now();
    loop {
        unseen.retain(|pod| caches.0[&*PODS.plural].get_key(pod).is_none());
        if unseen.is_empty() || env.now() > patience {
            unseen.clear();
            random = env.random_u64();
        }
        let plan = plan(&config.nodes, &caches.world(), env.now(), random);
        let made = plan.actions.iter().filter_map(Action::made_pod);
        let made: Vec<ObjectKey> = made.collect();
        let failed = apply_all(&client, &caches, plan.actions).await;
        if !made.is_empty() {
            patience = env.now() + OUT_OF_SIGHT;
            unseen.extend(made);
        }
        let until_due = plan.wake_at.map_or(IDLE, |due| {
            Duration::try_from(due.duration_since(env.now())).unwrap_or(Duration::from_millis(1))
        });
        let pause = if failed {
            until_due.min(RETRY_AFTER)
        } else {
            until_due
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = Caches::changed(&mut changes) => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Carries out what was planned; says whether something failed that a fresh look may not show.
async fn apply_all(client: &Client, caches: &Caches, actions: Vec<Action>) -> bool {
    let outcomes = futures::stream::iter(actions.into_iter().map(|action| apply(client, caches, action)))
        .buffered(CONCURRENT_WRITES)
        .collect::<Vec<bool>>()
        .await;
    outcomes.into_iter().any(|failed| failed)
}

async fn apply(client: &Client, caches: &Caches, action: Action) -> bool {
    let outcome = match &action {
        Action::Create {
            resource,
            namespace,
            object,
        } => client
            .create(resource, namespace.as_deref(), object)
            .await
            .map(|made| Some((*resource, made))),
        Action::Patch {
            resource,
            namespace,
            name,
            subresource,
            patch,
        } => client
            .patch(
                resource,
                namespace.as_deref(),
                name,
                *subresource,
                Patch::Merge,
                patch,
            )
            .await
            .map(|patched| Some((*resource, patched))),
        Action::Bind {
            namespace,
            name,
            node,
        } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            client
                .create_subresource(&PODS, Some(namespace), name, "binding", &binding)
                .await
                .map(|_| None)
        }
        Action::Delete {
            resource,
            namespace,
            name,
            uid,
            at_once,
        } => {
            let options = DeleteOptions {
                uid: Some(uid.clone()),
                grace_period_seconds: at_once.then_some(0),
                ..DeleteOptions::background()
            };
            client
                .delete(resource, Some(namespace), name, &options)
                .await
                .map(|()| None)
        }
    };
    match outcome {
        Ok(Some((resource, object))) => {
            caches.0[&*resource.plural].put(object);
            false
        }
        Ok(None) => false,
        // The snapshot was behind: the change that it lacks is on its way.
        Err(error) if error.is_already_exists() || error.is_conflict() || error.is_not_found() => {
            tracing::debug!(?action, %error, "planned on an old snapshot");
            false
        }
        Err(error) => {
            tracing::warn!(?action, %error, "a simulated cluster's write failed");
            true
        }
    }
}
