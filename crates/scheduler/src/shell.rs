//! Watches, decides, binds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{apps, clusters, names, reasons};
use clock::Env;
use clock::settle::{Settling, Window};
use jiff::Timestamp;
use kubeio::{Cache, CacheOptions, Change, Changes, Client, Elector, Error, EventType, ObjectKey, Recorder};
use placement::queue::{Item, Queue};
use placement::{
    Binding, Cluster, ClusterKey, Decision, Fleet, Inventory, Names, Placement, Prediction, Snapshot,
    Subscription, UNDIVIDED, decide, keep,
};
use runtime::{CancellationToken, Chain};
use serde_json::Value;
use tokio::time::Instant;

use crate::asking::{Asked, Asking, Cycle};
use crate::conditions;
use crate::config::Config;
use crate::metrics::{Ended, Phase};
use crate::predictors::{Predictors, Shared};
use crate::requeue::{Interests, Seen};
use crate::view::Kept;
use crate::writing::{Bind, Write, Writing, Written};

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
    recorder: Recorder,
    started: Instant,
    queue: Queue<ObjectKey>,
    env: Env,
    /// Placed Subscriptions that are being edited.
    settling: Settling<ObjectKey>,
    /// How many decisions were made: where sampling starts.
    decisions: usize,
    subscriptions: Watched<Kept>,
    clusters: Watched<Option<Seen>>,
    inventories: Watched<Inventory>,
    /// Subscriptions that have a known scheduler name; nothing is decided of those that cannot be read.
    known: BTreeMap<ObjectKey, Arc<Kept>>,
    interests: Interests<ObjectKey>,
    fleet: Fleet,
    asking: Asking,
    writing: Writing,
    predictors: Shared,
}

/// A cache and its pending changes.
struct Watched<T> {
    cache: Cache<T>,
    changes: Changes<T>,
}

impl<T: PartialEq + Send + Sync + 'static> Watched<T> {
    fn start(
        client: &Client,
        resource: machinery::ApiResource,
        read: impl Fn(&Value) -> T + Send + Sync + 'static,
    ) -> Self {
        let read = move |object: Value| read(&object);
        let cache = Cache::start_reading(client.clone(), resource, CacheOptions::default(), read);
        let changes = cache.subscribe();
        Self { cache, changes }
    }
}

impl<'a> Scheduler<'a> {
    fn start(config: &'a Config, client: &'a Client, env: &Env) -> Self {
        let predictors = Arc::new(Predictors::new(client, config.direct_access.clone()));
        let names = Mutex::<Names>::default();
        let keep = move |object: &Value| Kept::from_value(object, &names);
        Self {
            config,
            recorder: Recorder::start(client.clone(), env.clone(), names::SCHEDULER),
            started: Instant::now(),
            queue: Queue::default(),
            env: env.clone(),
            settling: Settling::default(),
            decisions: 0,
            subscriptions: Watched::start(client, apps::SUBSCRIPTIONS, keep),
            clusters: Watched::start(client, clusters::MANAGED_CLUSTERS, Seen::from_value),
            inventories: Watched::start(client, apps::FEED_INVENTORIES, Inventory::from_value),
            known: BTreeMap::new(),
            interests: Interests::default(),
            fleet: Fleet::default(),
            asking: Asking::new(predictors.clone(), config.metrics.clone()),
            writing: Writing::new(client.clone()),
            predictors,
        }
    }

    async fn run(&mut self) {
        self.subscriptions.cache.ready().await;
        self.clusters.cache.ready().await;
        self.inventories.cache.ready().await;
        loop {
            self.drain();
            while let Some(asked) = self.asking.try_next() {
                self.resume(asked);
            }
            let now = self.now();
            while let Some(key) = self.settling.pop(now) {
                if let Some(known) = self.known.get(&key)
                    && let Ok(subscription) = &known.read
                {
                    self.queue.add(key, subscription.priority, now);
                }
            }
            let next = if self.writing.has_room() {
                self.queue.pop(now)
            } else {
                None
            };
            match next {
                Some(item) => self.begin(item),
                None => self.wait().await,
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for a change, for a prediction or a write to end, or for the next item to be due.
    async fn wait(&mut self) {
        let due = self.queue.next_due().filter(|_| self.writing.has_room());
        let due = [due, self.settling.next_due()].into_iter().flatten().min();
        let due = due.map(|due| self.started + due);
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            written = self.writing.next() => self.written(written),
            change = self.subscriptions.changes.next() => self.subscription_changed(change),
            change = self.clusters.changes.next() => self.cluster_changed(&change),
            change = self.inventories.changes.next() => self.inventory_changed(&change),
            asked = self.asking.next() => {
                self.drain();
                self.resume(asked);
            }
            () = timer => {}
        }
    }

    /// Takes in every change that is there, so that a decision sees all of them.
    fn drain(&mut self) {
        while let Some(written) = self.writing.try_next() {
            self.written(written);
        }
        // Clusters first: what a selector selects is found at once then.
        while let Some(change) = self.clusters.changes.try_next() {
            self.cluster_changed(&change);
        }
        while let Some(change) = self.subscriptions.changes.try_next() {
            self.subscription_changed(change);
        }
        while let Some(change) = self.inventories.changes.try_next() {
            self.inventory_changed(&change);
        }
    }

    fn subscription_changed(&mut self, change: Change<Kept>) {
        let Change { key, old, new } = change;
        let Some(new) = new.filter(|new| !new.deleting) else {
            self.forget(&key);
            return;
        };
        let thaws = |old: &Kept| old.is_frozen && !new.is_frozen;
        let spec_changed = old.is_none_or(|old| !new.has_spec_of(&old) || thaws(&old));
        if self.config.placement.profile(&new.scheduler_name).is_none() {
            // Somebody else's.
            self.forget(&key);
            return;
        }
        match &new.read {
            Ok(_) => {
                self.remember(key.clone(), new);
                if spec_changed {
                    self.edited(key);
                }
            }
            Err(error) => {
                if spec_changed {
                    self.forget(&key);
                    self.warn(&key, &new, &error.to_string());
                    // Its condition is to say so, too.
                    let now = self.now();
                    self.queue.add(key.clone(), 0, now);
                }
                self.known.insert(key, new);
            }
        }
    }

    /// A Subscription, or how many replicas it wants, was edited: who edits one thing may be about to edit another. What
    /// has no place yet gets one at once.
    fn edited(&mut self, key: ObjectKey) {
        let Some(known) = self.known.get(&key) else {
            return;
        };
        let Ok(subscription) = &known.read else {
            return;
        };
        let now = self.now();
        if subscription.bound.clusters.is_empty() {
            self.queue.add(key, subscription.priority, now);
        } else {
            let window = Window::of(known.settle.unwrap_or(self.config.settle));
            self.settling.edited(key, window, now);
        }
    }

    /// Whether a Subscription will be decided anyway, once its edits are still.
    fn is_settling(&self, key: &ObjectKey) -> bool {
        self.settling.left(key, self.now()).is_some()
    }

    /// Takes a Subscription in whose state is new.
    fn remember(&mut self, key: ObjectKey, new: Arc<Kept>) {
        let Ok(subscription) = &new.read else {
            return;
        };
        let old = self.known.get(&key).map(Arc::clone);
        let old = old.as_ref().and_then(|old| old.read.as_ref().ok());
        if old.is_none_or(|old| old.subscribers != subscription.subscribers) {
            // In this order: what both select stays ready.
            for subscriber in &subscription.subscribers {
                self.fleet.keep(&subscriber.affinity);
            }
            if let Some(old) = old {
                self.lose_interest(&key, old);
            }
            self.interests.add(&key, subscription);
        }
        self.known.insert(key, new);
    }

    fn lose_interest(&mut self, key: &ObjectKey, old: &Subscription) {
        self.interests.remove(key, old);
        for subscriber in &old.subscribers {
            self.fleet.release(&subscriber.affinity);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.queue.delete(key);
        self.settling.forget(key);
        if let Some(old) = self.known.remove(key)
            && let Ok(old) = &old.read
        {
            self.lose_interest(key, old);
        }
        self.asking.stop(key);
    }

    fn cluster_changed(&mut self, change: &Change<Option<Seen>>) {
        let seen = |state: &'_ Option<Arc<Option<Seen>>>| state.as_deref().and_then(Option::clone);
        let (old, new) = (seen(&change.old), seen(&change.new));
        let ObjectKey { namespace, name } = &change.key;
        let key = ClusterKey::new(namespace.as_str(), name.as_str());
        match &new {
            Some(seen) => drop(self.fleet.put(Arc::clone(&seen.cluster))),
            None => drop(self.fleet.remove(&key)),
        }
        let (known, now) = (&self.known, self.started.elapsed());
        let of = |key: &ObjectKey| known.get(key)?.read.as_ref().ok();
        let is_bound = |subscription: &ObjectKey| of(subscription).is_some_and(|it| it.bound.contains(&key));
        let (old, new, fail_over) = (old.as_ref(), new.as_ref(), self.config.fail_over);
        for key in self.interests.woken(old, new, fail_over, known.keys(), is_bound) {
            let priority = of(key).map_or(0, |it| it.priority);
            self.queue.add(key.clone(), priority, now);
        }
    }

    fn inventory_changed(&mut self, change: &Change<Inventory>) {
        if change.new.is_some() && change.old != change.new {
            self.edited(change.key.clone());
        }
    }

    fn inventory_of(&self, key: &ObjectKey) -> Option<Arc<Inventory>> {
        self.inventories.cache.get_key(key)
    }

    /// Decides what was due.
    fn begin(&mut self, item: Item<ObjectKey>) {
        // Its next state is the one to decide about.
        let Some(item) = self.writing.postpone(item) else {
            return;
        };
        self.asking.stop(&item.key);
        if self.is_settling(&item.key) {
            return;
        }
        let inventory = self.inventory_of(&item.key);
        self.decisions = self.decisions.wrapping_add(1);
        let cycle = Cycle {
            item,
            began: self.now(),
            start: self.decisions,
        };
        self.decide(cycle, inventory, BTreeMap::new());
    }

    /// Decides with the answers of predictors, or begins again if they are about what is wanted no more.
    fn resume(&mut self, asked: Asked) {
        let Asked {
            cycle,
            inventory,
            answers,
        } = asked;
        let all_answered = answers.values().all(Result::is_ok);
        let profile = self
            .known
            .get(&cycle.item.key)
            .map_or("", |it| it.scheduler_name.as_str());
        self.config
            .metrics
            .phase(Phase::Predict, all_answered, profile, self.now() - cycle.began);
        if self.is_settling(&cycle.item.key) {
            return;
        }
        let current = self.inventory_of(&cycle.item.key);
        if current.as_deref() == Some(&*inventory) {
            self.decide(cycle, current, answers);
        } else {
            let now = self.now();
            self.queue.add(cycle.item.key, cycle.item.priority, now);
        }
    }

    fn decide(
        &mut self,
        cycle: Cycle,
        inventory: Option<Arc<Inventory>>,
        answers: BTreeMap<ClusterKey, Prediction>,
    ) {
        let Some(kept) = self.known.get(&cycle.item.key).map(Arc::clone) else {
            return;
        };
        let subscription = match &kept.read {
            Ok(subscription) => subscription,
            Err(error) => {
                let conditions = conditions::unread(error, self.env.now());
                return self.tell(cycle, Arc::clone(&kept), conditions);
            }
        };
        let Some(profile) = self.config.placement.profile(&subscription.scheduler_name) else {
            return;
        };
        let now = self.env.now();
        let snapshot = Snapshot {
            inventory: inventory.as_deref(),
            percentage_to_score: self.config.placement.percentage_to_score,
            start: cycle.start,
            predictions: &answers,
            tolerance: self.config.tolerance(),
            now: Some(now),
            fail_over: self.config.fail_over,
            ..Snapshot::of(subscription, &self.fleet, profile)
        };
        let bind = |binding: &Binding<'_>| {
            let patch = binding.patch(&subscription.bound)?;
            Some(Bind {
                patch: pinned(patch, &kept.uid),
                count: binding.clusters().len(),
                note: assigned(&cycle.item.key, binding.clusters()),
            })
        };
        if kept.is_frozen {
            // Who leaves the fleet does not wait for what is edited.
            if let Some(binding) = keep(&snapshot).as_ref().and_then(bind) {
                let write = Write {
                    binding: Some(binding),
                    conditions: Vec::new(),
                };
                self.writing
                    .start(cycle, Arc::clone(&kept), write, Some(Ended::Scheduled));
            }
            return;
        }
        let Placement {
            decision, fail_over, ..
        } = decide(&snapshot);
        tracing::debug!(
            namespace = %cycle.item.key.namespace, name = %cycle.item.key.name, ?decision, "decided"
        );
        let later = |until: Timestamp| Duration::try_from(until.duration_since(now)).ok();
        let told = Told {
            conditions: conditions::wanted(&kept.conditions, &decision, fail_over.as_ref(), now),
            news: conditions::news(&kept.conditions, fail_over.as_ref()),
            again: fail_over.and_then(|report| report.again).and_then(later),
        };
        let act = Act::of(decision, bind, subscription, &self.fleet);
        if let Act::Ask(clusters) = act {
            let args = profile.predictor.clone();
            let asked = Asked {
                cycle,
                inventory: inventory.unwrap_or_default(),
                answers,
            };
            self.predictors
                .keep_only(self.fleet.iter(), &self.config.placement);
            self.asking.start(asked, args, clusters);
            return;
        }
        self.config.metrics.decided(self.now() - cycle.began);
        self.carry_out(cycle, kept, act, told);
    }

    fn carry_out(&mut self, cycle: Cycle, kept: Arc<Kept>, act: Act, told: Told) {
        let now = self.now();
        let Told {
            conditions,
            news,
            mut again,
        } = told;
        if let Some(news) = news {
            let kind = if news.is_good() {
                EventType::Normal
            } else {
                EventType::Warning
            };
            let reference = kept.reference(&cycle.item.key);
            self.recorder
                .record(&reference, kind, reasons::FAIL_OVER, &news.message);
        }
        let mut write = Write {
            binding: None,
            conditions,
        };
        match act {
            Act::Bind {
                binding,
                warning,
                is_short,
                result,
            } => {
                if let Some(warning) = &warning {
                    self.warn(&cycle.item.key, &kept, warning);
                }
                if is_short {
                    again = again.into_iter().chain([ROOM_PERIOD]).min();
                }
                if binding.is_some() {
                    self.look_again(&cycle, again);
                    write.binding = binding;
                    return self.writing.start(cycle, kept, write, Some(result));
                }
                self.ended(&cycle, &kept, result);
            }
            Act::Fail { why, may_pass } => {
                self.warn(&cycle.item.key, &kept, &why);
                self.ended(&cycle, &kept, Ended::Error);
                if may_pass {
                    self.queue.failed(cycle.item.clone(), now);
                }
            }
            Act::Nothing | Act::Ask(_) => {}
        }
        self.look_again(&cycle, again);
        self.tell(cycle, kept, write.conditions);
    }

    /// Writes conditions, unless they are there, of a decision that binds nothing.
    fn tell(&mut self, cycle: Cycle, kept: Arc<Kept>, conditions: Vec<Value>) {
        if conditions::lack(&kept.conditions, &conditions) {
            let write = Write {
                binding: None,
                conditions,
            };
            self.writing.start(cycle, kept, write, None);
        }
    }

    /// Nothing that changes may say that a time has come.
    fn look_again(&mut self, cycle: &Cycle, after: Option<Duration>) {
        if let Some(after) = after {
            let now = self.now();
            self.queue.again(cycle.item.clone(), after, now);
        }
    }

    /// Counts a decision that has come to its end.
    fn ended(&self, cycle: &Cycle, kept: &Kept, result: Ended) {
        self.config
            .metrics
            .ended(result, &kept.scheduler_name, self.now() - cycle.began);
    }

    fn warn(&self, key: &ObjectKey, kept: &Kept, note: &str) {
        self.recorder.record(
            &kept.reference(key),
            EventType::Warning,
            reasons::FAILED_SCHEDULING,
            note,
        );
    }

    /// A write has ended.
    fn written(&mut self, written: Written) {
        let Written {
            cycle,
            kept,
            write,
            result,
            took,
            answer,
            untold,
            postponed,
        } = written;
        if write.binding.is_some() {
            self.config
                .metrics
                .phase(Phase::Bind, answer.is_ok(), &kept.scheduler_name, took);
        }
        let key = &cycle.item.key;
        let now = self.now();
        match answer {
            Ok(answer) => {
                if let Some(answer) = answer {
                    self.subscriptions.cache.put(answer);
                }
                if let Some(Bind { count, note, .. }) = &write.binding {
                    if *count > 0 {
                        let reference = kept.reference(key);
                        self.recorder
                            .record(&reference, EventType::Normal, reasons::SCHEDULED, note);
                    }
                    tracing::info!(namespace = %key.namespace, name = %key.name, clusters = count, "bound");
                }
                if let Some(result) = result {
                    self.ended(&cycle, &kept, result);
                }
                // Nothing that changes may ever say it again.
                if let Some(error) = untold
                    && self.known.contains_key(key)
                {
                    tracing::debug!(
                        namespace = %key.namespace, name = %key.name, error = %Chain(&error),
                        "the conditions are not written"
                    );
                    self.queue.failed(cycle.item.clone(), now);
                }
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                if !error.is_conflict() {
                    tracing::warn!(
                        namespace = %key.namespace, name = %key.name, error = %Chain(&error), "binding failed"
                    );
                    self.warn(key, &kept, &format!("binding failed: {error}"));
                }
                self.ended(&cycle, &kept, Ended::Error);
                if self.known.contains_key(key) {
                    self.queue.failed(cycle.item.clone(), now);
                }
            }
        }
        // What it waited for is here: the change that brings the new state is taken in before anything is decided.
        if let Some(item) = postponed
            && self.known.contains_key(&item.key)
        {
            self.queue.add(item.key, item.priority, now);
        }
    }
}

/// What people are to hear of a decision, whatever it is, and when to look again.
struct Told {
    conditions: Vec<Value>,
    news: Option<conditions::News>,
    again: Option<Duration>,
}

/// What is to be done about a decision, without the snapshot that it was made of.
enum Act {
    Ask(Vec<Arc<Cluster>>),
    Bind {
        /// `None` if it is there already.
        binding: Option<Bind>,
        /// What people should hear of it.
        warning: Option<String>,
        /// Whether replicas find no room.
        is_short: bool,
        result: Ended,
    },
    Fail {
        why: String,
        may_pass: bool,
    },
    Nothing,
}

impl Act {
    fn of(
        decision: Decision<'_>,
        bind: impl Fn(&Binding<'_>) -> Option<Bind>,
        subscription: &Subscription,
        fleet: &Fleet,
    ) -> Self {
        match decision {
            Decision::Predict(keys) => {
                Self::Ask(keys.into_iter().filter_map(|key| fleet.shared(key)).collect())
            }
            Decision::Bind {
                binding,
                short,
                is_undivided,
            } => {
                let lacks = |(feed, n): (&String, &u32)| format!("{n} replica(s) of {feed}");
                let lacks: Vec<String> = short.iter().map(lacks).collect();
                let is_short = !lacks.is_empty();
                let no_room = is_short.then(|| format!("no cluster has room for {}", lacks.join(", ")));
                Self::Bind {
                    binding: bind(&binding),
                    warning: no_room.or_else(|| is_undivided.then(|| UNDIVIDED.to_owned())),
                    is_short,
                    result: Ended::Scheduled,
                }
            }
            Decision::Unfit { error, kept } => {
                let left = match &kept {
                    Some(kept) => kept.clusters().len(),
                    None => subscription.bound.clusters.len(),
                };
                let mut note = error.to_string();
                if left > 0 {
                    note.push_str(&format!(" The present binding to {left} cluster(s) is kept."));
                }
                Self::Bind {
                    binding: kept.as_ref().and_then(&bind),
                    warning: Some(note),
                    is_short: false,
                    result: Ended::Unschedulable,
                }
            }
            Decision::Failed(failure) => Self::Fail {
                why: failure.to_string(),
                may_pass: failure.may_pass(),
            },
            Decision::Waiting(_) => Self::Nothing,
        }
    }
}

/// More of an event's text nobody sees.
const NOTE_LIMIT: usize = 1_024;

/// What the event of a binding says, as far as an event has room for it.
fn assigned(key: &ObjectKey, clusters: &[&ClusterKey]) -> String {
    let mut note = format!("Successfully assigned {key} to ");
    for (index, cluster) in clusters.iter().enumerate() {
        if note.len() > NOTE_LIMIT {
            break;
        }
        let comma = if index > 0 { ", " } else { "" };
        write!(note, "{comma}{cluster}").expect("a string takes every write");
    }
    note
}

/// The patch, for this life of the object only.
fn pinned(mut patch: Value, uid: &str) -> Value {
    if !uid.is_empty() {
        patch["metadata"] = serde_json::json!({"uid": uid});
    }
    patch
}
