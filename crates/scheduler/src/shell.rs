//! Watches, decides, binds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{apps, clusters, names, reasons};
use clock::Env;
use kubeio::{
    Cache, CacheOptions, Change, Changes, Client, Elector, Error, EventType, ObjectKey, Patch, Recorder,
};
use machinery::meta;
use placement::queue::{Item, Queue};
use placement::{
    Binding, Cluster, ClusterKey, Decision, Inventory, Prediction, Snapshot, Subscription, place,
    status_patch,
};
use runtime::{CancellationToken, Chain};
use serde_json::Value;
use tokio::time::Instant;

use crate::asking::{Asked, Asking, Cycle};
use crate::config::Config;
use crate::metrics::{Ended, Phase};
use crate::predictors::{Predictors, Shared};
use crate::requeue::{Seen, woken};

/// After how long a Subscription whose replicas find no room is looked at again.
const ROOM_PERIOD: Duration = Duration::from_secs(30);

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
    asking: Asking,
    predictors: Shared,
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

/// Of the status only the conditions and the predictor; heartbeats make no difference then.
fn cluster_view(object: Value) -> Value {
    const READ: [&str; 5] = [
        "conditions",
        "predictorAddress",
        "predictorDirectAccess",
        "predictorEnabled",
        "useSocket",
    ];
    let mut object = without_managed_fields(object);
    if let Some(status) = object["status"].as_object_mut() {
        status.retain(|field, _| READ.contains(&field.as_str()));
    }
    object
}

impl<'a> Scheduler<'a> {
    fn start(config: &'a Config, client: &'a Client, env: &Env) -> Self {
        let predictors = Arc::new(Predictors::new(client.clone(), config.direct_access.clone()));
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
            asking: Asking::new(predictors.clone(), config.metrics.clone()),
            predictors,
        }
    }

    async fn run(&mut self) {
        for watched in [&self.subscriptions, &self.clusters, &self.inventories] {
            watched.cache.ready().await;
        }
        loop {
            self.drain();
            while let Some(asked) = self.asking.try_next() {
                self.resume(asked).await;
            }
            let now = self.now();
            if let Some(item) = self.queue.pop(now) {
                self.begin(item).await;
            } else if let Some(asked) = self.wait().await {
                self.drain();
                self.resume(asked).await;
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for a change, for a prediction to end, or for the next item to be due.
    async fn wait(&mut self) -> Option<Asked> {
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
            asked = self.asking.next() => return Some(asked),
            () = timer => {}
        }
        None
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
            self.forget(&key);
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
                self.forget(&key);
            }
            Err(error) => {
                self.forget(&key);
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

    fn forget(&mut self, key: &ObjectKey) {
        self.queue.delete(key);
        self.parsed.remove(key);
        self.asking.stop(key);
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

    fn inventory_of(&self, key: &ObjectKey) -> Option<Inventory> {
        let object = self.inventories.cache.get_key(key)?;
        Some(Inventory::from_value(&object))
    }

    /// Decides what was due.
    async fn begin(&mut self, item: Item<ObjectKey>) {
        self.asking.stop(&item.key);
        let inventory = self.inventory_of(&item.key);
        self.decisions = self.decisions.wrapping_add(1);
        let cycle = Cycle {
            item,
            began: self.now(),
            start: self.decisions,
        };
        self.decide(cycle, inventory, BTreeMap::new()).await;
    }

    /// Decides with the answers of predictors, or begins again if they are about what is wanted no more.
    async fn resume(&mut self, asked: Asked) {
        let Asked {
            cycle,
            inventory,
            answers,
        } = asked;
        self.config
            .metrics
            .phase(Phase::Predict, self.now() - cycle.began);
        let current = self.inventory_of(&cycle.item.key);
        if current.as_ref() == Some(&inventory) {
            self.decide(cycle, current, answers).await;
        } else {
            let now = self.now();
            self.queue.add(cycle.item.key, cycle.item.priority, now);
        }
    }

    async fn decide(
        &mut self,
        cycle: Cycle,
        inventory: Option<Inventory>,
        answers: BTreeMap<ClusterKey, Prediction>,
    ) {
        let Some(subscription) = self.parsed.get(&cycle.item.key) else {
            return;
        };
        let Some(object) = self.subscriptions.cache.get_key(&cycle.item.key) else {
            return;
        };
        let Some(profile) = self.config.placement.profile(&subscription.scheduler_name) else {
            return;
        };
        let decision = place(&Snapshot {
            inventory: inventory.as_ref(),
            percentage_to_score: self.config.placement.percentage_to_score,
            start: cycle.start,
            predictions: &answers,
            tolerance: self.config.tolerance(),
            ..Snapshot::of(subscription, &self.known, profile)
        })
        .decision;
        tracing::debug!(
            namespace = %cycle.item.key.namespace, name = %cycle.item.key.name, ?decision, "decided"
        );
        if let Decision::Predict(clusters) = decision {
            let clusters = clusters.iter().filter_map(|key| self.known.get(key));
            let clusters: Vec<Cluster> = clusters.cloned().collect();
            let args = profile.predictor.clone();
            let asked = Asked {
                cycle,
                inventory: inventory.unwrap_or_default(),
                answers,
            };
            self.predictors
                .keep_only(self.known.values(), &self.config.placement);
            self.asking.start(asked, args, clusters);
            return;
        }
        self.config
            .metrics
            .phase(Phase::Algorithm, self.now() - cycle.began);
        self.carry_out(cycle, &object, decision).await;
    }

    async fn carry_out(&mut self, cycle: Cycle, object: &Value, decision: Decision) {
        match decision {
            Decision::Bind { binding, short } => {
                if !short.is_empty() {
                    let lacks = |(feed, n): (&String, &u32)| format!("{n} replica(s) of {feed}");
                    let lacks: Vec<String> = short.iter().map(lacks).collect();
                    self.warn(object, &format!("no cluster has room for {}", lacks.join(", ")));
                    let now = self.now();
                    self.queue.again(cycle.item.clone(), ROOM_PERIOD, now);
                }
                self.bind(&cycle, object, &binding, Ended::Scheduled).await;
            }
            Decision::Unfit { error, kept } => {
                let left = match &kept {
                    Some(kept) => kept.clusters().len(),
                    None => object["status"]["bindingClusters"].as_array().map_or(0, Vec::len),
                };
                let mut note = error.to_string();
                if left > 0 {
                    note.push_str(&format!(" The present binding to {left} cluster(s) is kept."));
                }
                self.warn(object, &note);
                match kept {
                    Some(kept) => self.bind(&cycle, object, &kept, Ended::Unschedulable).await,
                    None => self.ended(&cycle, object, Ended::Unschedulable),
                }
            }
            Decision::Failed(failure) => {
                self.warn(object, &failure.to_string());
                self.ended(&cycle, object, Ended::Error);
                if failure.may_pass() {
                    let now = self.now();
                    self.queue.failed(cycle.item, now);
                }
            }
            Decision::Waiting(_) | Decision::Predict(_) => {}
        }
    }

    /// Counts a decision that has come to its end.
    fn ended(&self, cycle: &Cycle, object: &Value, result: Ended) {
        let profile = object["spec"]["schedulerName"].as_str().unwrap_or_default();
        self.config
            .metrics
            .ended(result, profile, self.now() - cycle.began);
    }

    fn warn(&self, object: &Value, note: &str) {
        self.recorder
            .record(object, EventType::Warning, reasons::FAILED_SCHEDULING, note);
    }

    async fn bind(&mut self, cycle: &Cycle, object: &Value, binding: &Binding, result: Ended) {
        let key = &cycle.item.key;
        let Some(patch) = status_patch(&object["status"], binding) else {
            return self.ended(cycle, object, result);
        };
        let begin = self.now();
        let written = self
            .client
            .patch(
                &apps::SUBSCRIPTIONS,
                key.namespace(),
                &key.name,
                Some("status"),
                Patch::Merge,
                &pinned(patch, object),
            )
            .await;
        self.config.metrics.phase(Phase::Bind, self.now() - begin);
        match written {
            Ok(answer) => {
                self.subscriptions.cache.put(without_managed_fields(answer));
                let clusters: Vec<String> = binding.clusters().iter().map(ToString::to_string).collect();
                if !clusters.is_empty() {
                    let note = format!("Successfully assigned {key} to {}", clusters.join(", "));
                    self.recorder
                        .record(object, EventType::Normal, reasons::SCHEDULED, &note);
                }
                tracing::info!(namespace = %key.namespace, name = %key.name, clusters = clusters.len(), "bound");
                self.ended(cycle, object, result);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                if !error.is_conflict() {
                    tracing::warn!(
                        namespace = %key.namespace, name = %key.name, error = %Chain(&error), "binding failed"
                    );
                    self.warn(object, &format!("binding failed: {error}"));
                }
                self.ended(cycle, object, Ended::Error);
                let now = self.now();
                self.queue.failed(cycle.item.clone(), now);
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
