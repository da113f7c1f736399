//! Watches, decides, binds.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{apps, clusters, names, reasons};
use clock::Env;
use kubeio::{
    Cache, CacheOptions, Change, Changes, Client, Elector, ElectorConfig, Error, EventType, ObjectKey, Patch,
    Recorder,
};
use machinery::meta;
use placement::queue::{Item, Queue};
use placement::{
    Binding, Cluster, ClusterKey, Decision, Inventory, Snapshot, Subscription, place, status_patch,
};
use runtime::{CancellationToken, Chain};
use serde_json::Value;
use tokio::time::Instant;

use crate::requeue::{FailOver, Seen, woken};

/// How a scheduler works.
#[derive(Debug, Clone)]
pub struct Config {
    /// Profiles and percentages; default: one profile named `default`.
    pub placement: placement::Config,
    /// The gate `FailOver`; default on.
    pub fail_over: FailOver,
    /// The Lease to hold while working; none in a process that is alone. Default none.
    pub election: Option<ElectorConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            placement: placement::Config::default(),
            fail_over: FailOver::On,
            election: None,
        }
    }
}

/// Schedules until `shutdown`.
///
/// # Errors
/// None at present: what fails is tried again.
pub async fn run(config: Config, client: Client, env: Env, shutdown: CancellationToken) -> Result<(), Error> {
    let (config, client, env) = (&config, &client, &env);
    Elector::lead(
        config.election.clone(),
        client,
        env,
        &shutdown,
        |stop| async move {
            work(config, client, env, &stop).await;
        },
    )
    .await;
    Ok(())
}

/// Schedules until the token is cancelled.
async fn work(config: &Config, client: &Client, env: &Env, stop: &CancellationToken) {
    let mut scheduler = Scheduler::start(config, client, env);
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = scheduler.run() => {}
    }
}

struct Scheduler<'a> {
    config: &'a Config,
    client: &'a Client,
    recorder: Recorder,
    started: Instant,
    queue: Queue<ObjectKey>,
    /// How many decisions were made: where sampling starts.
    decisions: usize,
    subscriptions: Watched,
    clusters: Watched,
    inventories: Watched,
    /// Subscriptions that can be read and have a known scheduler name.
    parsed: BTreeMap<ObjectKey, Subscription>,
    known: BTreeMap<ClusterKey, Cluster>,
    seen: BTreeMap<ObjectKey, Seen>,
}

/// A cache and its pending changes.
struct Watched {
    cache: Cache,
    changes: Changes,
}

impl Watched {
    fn start(client: &Client, resource: machinery::ApiResource, project: fn(Value) -> Value) -> Self {
        let options = CacheOptions {
            project,
            ..CacheOptions::default()
        };
        let cache = Cache::start(client.clone(), resource, options);
        let changes = cache.subscribe();
        Self { cache, changes }
    }
}

/// Without what no decision reads.
fn without_managed_fields(mut object: Value) -> Value {
    meta::ensure_metadata(&mut object).remove("managedFields");
    object
}

/// Of the status only the conditions; heartbeats make no difference then.
fn cluster_view(object: Value) -> Value {
    let mut object = without_managed_fields(object);
    let conditions = object["status"]["conditions"].take();
    object["status"] = serde_json::json!({"conditions": conditions});
    object
}

impl<'a> Scheduler<'a> {
    fn start(config: &'a Config, client: &'a Client, env: &Env) -> Self {
        Self {
            config,
            client,
            recorder: Recorder::start(client.clone(), env.clone(), names::SCHEDULER),
            started: Instant::now(),
            queue: Queue::default(),
            decisions: 0,
            subscriptions: Watched::start(client, apps::SUBSCRIPTIONS, without_managed_fields),
            clusters: Watched::start(client, clusters::MANAGED_CLUSTERS, cluster_view),
            inventories: Watched::start(client, apps::FEED_INVENTORIES, without_managed_fields),
            parsed: BTreeMap::new(),
            known: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    async fn run(&mut self) {
        for watched in [&self.subscriptions, &self.clusters, &self.inventories] {
            watched.cache.ready().await;
        }
        loop {
            self.drain();
            let now = self.now();
            match self.queue.pop(now) {
                Ok(Some(item)) => self.decide(item).await,
                Ok(None) => self.wait().await,
                Err(_) => return,
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for a change, or for the next item to be due.
    async fn wait(&mut self) {
        let due = self.queue.next_due().map(|due| self.started + due);
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            change = self.subscriptions.changes.next() => self.subscription_changed(change),
            change = self.clusters.changes.next() => self.cluster_changed(&change),
            change = self.inventories.changes.next() => self.inventory_changed(&change),
            () = timer => {}
        }
    }

    /// Takes in every change that is there, so that a decision sees all of them.
    fn drain(&mut self) {
        while let Some(change) = self.subscriptions.changes.try_next() {
            self.subscription_changed(change);
        }
        while let Some(change) = self.clusters.changes.try_next() {
            self.cluster_changed(&change);
        }
        while let Some(change) = self.inventories.changes.try_next() {
            self.inventory_changed(&change);
        }
    }

    fn subscription_changed(&mut self, change: Change) {
        let Change { key, old, new } = change;
        let Some(new) = new.filter(|new| !meta::is_deleting(new)) else {
            self.queue.delete(&key);
            self.parsed.remove(&key);
            return;
        };
        let spec_changed = old.is_none_or(|old| old["spec"] != new["spec"]);
        match Subscription::from_value(&new) {
            Ok(subscription)
                if self
                    .config
                    .placement
                    .profile(&subscription.scheduler_name)
                    .is_some() =>
            {
                let priority = subscription.priority;
                self.parsed.insert(key.clone(), subscription);
                if spec_changed {
                    self.queue.add(key, priority, self.now());
                }
            }
            Ok(_) => {
                // Somebody else's.
                self.queue.delete(&key);
                self.parsed.remove(&key);
            }
            Err(error) => {
                self.queue.delete(&key);
                self.parsed.remove(&key);
                if spec_changed {
                    self.recorder.record(
                        &new,
                        EventType::Warning,
                        reasons::FAILED_SCHEDULING,
                        &error.to_string(),
                    );
                }
            }
        }
    }

    fn cluster_changed(&mut self, change: &Change) {
        let new = change.new.as_deref().and_then(Seen::from_value);
        let old = match &new {
            Some(seen) => {
                self.known.insert(seen.cluster.key.clone(), seen.cluster.clone());
                self.seen.insert(change.key.clone(), seen.clone())
            }
            None => {
                self.known
                    .remove(&ClusterKey::new(&*change.key.namespace, &*change.key.name));
                self.seen.remove(&change.key)
            }
        };
        let now = self.now();
        for key in woken(&self.parsed, old.as_ref(), new.as_ref(), self.config.fail_over) {
            self.queue.add(key.clone(), self.parsed[key].priority, now);
        }
    }

    fn inventory_changed(&mut self, change: &Change) {
        if let (Some(_), Some(subscription)) = (&change.new, self.parsed.get(&change.key)) {
            self.queue
                .add(change.key.clone(), subscription.priority, self.now());
        }
    }

    async fn decide(&mut self, item: Item<ObjectKey>) {
        let Some(subscription) = self.parsed.get(&item.key) else {
            return;
        };
        let Some(object) = self.subscriptions.cache.get_key(&item.key) else {
            return;
        };
        let Some(profile) = self.config.placement.profile(&subscription.scheduler_name) else {
            return;
        };
        let inventory = self
            .inventories
            .cache
            .get_key(&item.key)
            .map(|it| Inventory::from_value(&it));
        self.decisions = self.decisions.wrapping_add(1);
        let placement = place(&Snapshot {
            subscription,
            clusters: &self.known,
            inventory: inventory.as_ref(),
            profile,
            percentage_to_score: self.config.placement.percentage_to_score,
            start: self.decisions,
        });
        tracing::debug!(namespace = %item.key.namespace, name = %item.key.name, decision = ?placement.decision, "decided");
        match placement.decision {
            Decision::Bind(binding) => self.bind(item, &object, &binding).await,
            Decision::Unfit { error, kept } => {
                let left = match &kept {
                    Some(kept) => kept.clusters().len(),
                    None => object["status"]["bindingClusters"].as_array().map_or(0, Vec::len),
                };
                let mut note = error.to_string();
                if left > 0 {
                    note.push_str(&format!(" The present binding to {left} cluster(s) is kept."));
                }
                self.recorder
                    .record(&object, EventType::Warning, reasons::FAILED_SCHEDULING, &note);
                if let Some(kept) = kept {
                    self.bind(item, &object, &kept).await;
                }
            }
            Decision::Waiting(_) => {}
            Decision::Failed(failure) => {
                self.recorder.record(
                    &object,
                    EventType::Warning,
                    reasons::FAILED_SCHEDULING,
                    &failure.to_string(),
                );
                if failure.may_pass() {
                    let now = self.now();
                    self.queue.failed(item, now);
                }
            }
        }
    }

    async fn bind(&mut self, item: Item<ObjectKey>, object: &Value, binding: &Binding) {
        let Some(patch) = status_patch(&object["status"], binding) else {
            return;
        };
        let written = self
            .client
            .patch(
                &apps::SUBSCRIPTIONS,
                item.key.namespace(),
                &item.key.name,
                Some("status"),
                Patch::Merge,
                &pinned(patch, object),
            )
            .await;
        match written {
            Ok(answer) => {
                self.subscriptions.cache.put(without_managed_fields(answer));
                let clusters: Vec<String> = binding.clusters().iter().map(ToString::to_string).collect();
                if !clusters.is_empty() {
                    let note = format!("Successfully assigned {} to {}", item.key, clusters.join(", "));
                    self.recorder
                        .record(object, EventType::Normal, reasons::SCHEDULED, &note);
                }
                tracing::info!(namespace = %item.key.namespace, name = %item.key.name, clusters = clusters.len(), "bound");
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                if !error.is_conflict() {
                    tracing::warn!(
                        namespace = %item.key.namespace, name = %item.key.name, error = %Chain(&error), "binding failed"
                    );
                    let note = format!("binding failed: {error}");
                    self.recorder
                        .record(object, EventType::Warning, reasons::FAILED_SCHEDULING, &note);
                }
                let now = self.now();
                self.queue.failed(item, now);
            }
        }
    }
}

/// The patch, for this life of the object only.
fn pinned(mut patch: Value, object: &Value) -> Value {
    if !meta::uid(object).is_empty() {
        patch["metadata"] = serde_json::json!({"uid": meta::uid(object)});
    }
    patch
}
