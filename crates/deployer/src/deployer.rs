//! The loop over Descriptions: applies, prunes, removes, reports.

mod orphans;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;
use std::time::Duration;

use api::entry::Entry;
use api::{apps, finalizers, labels, reasons};
use clock::Env;
use futures::StreamExt;
use futures::future::BoxFuture;
use kubeio::{
    Cache, CancellationToken, Client, EventType, ListOptions, Mapper, ObjectKey, Outcome, Patch, Queue,
    QueueOptions, Recorder,
};
use machinery::{ApiResource, Gvk, meta};
use runtime::Chain;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use self::orphans::{Left, Orphans};
use crate::apply::{Applier, Cause};
use crate::charts::{self, Step};
use crate::contents::Contents;
use crate::metrics::Metrics;
use crate::outcome::{self, Observed, Problem, Sight, Verdict};
use crate::plan::{self, Asked, Desired, ObjectId, Wave};
use crate::watches::Watches;

/// Requests in flight for one Description.
const PARALLEL: usize = 8;
/// Between two looks at objects that are to go.
const REMOVAL_PERIOD: Duration = Duration::from_secs(2);
/// Between two looks at objects whose kind cannot be watched, or that change for another Description.
const BLIND_PERIOD: Duration = Duration::from_mins(1);
/// Before a report is repeated that another has overwritten: two who report may see the child at different times. It
/// doubles, for two who report differently would never end.
const OVERWRITTEN_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at everything, whatever the watches say.
const RESYNC_PERIOD: Duration = Duration::from_mins(30);

/// What is to be done about the Descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Apply, remove, report.
    Deploy,
    /// Another applies and removes: report what is seen.
    Observe,
    /// Nobody applies: report what is seen, and let Descriptions go that are deleted.
    Release,
    /// Another applies, reports and removes, but not what a Description asks for no longer: remove that.
    Prune,
}

/// What a deployer is made of.
#[derive(Debug)]
pub struct Parts {
    /// The parent, which has the Descriptions.
    pub parent: Client,
    /// The child, which is to have the objects.
    pub child: Client,
    /// The child's dedicated namespace on the parent.
    pub namespace: String,
    /// Where the contents of what stands for objects come from.
    pub contents: Contents,
    /// What is to be done; nothing is done before that is known.
    pub duty: watch::Receiver<Option<Duty>>,
    /// Whether applied objects are watched, so that drift is undone and their status reported at once.
    pub recovery: bool,
    /// How many Descriptions are worked on at once.
    pub workers: usize,
    /// Who deploys: the source of the events.
    pub component: &'static str,
    /// What is counted.
    pub metrics: Metrics,
    /// Time and randomness.
    pub env: Env,
}

/// Applies the Descriptions of one child.
pub struct Deployer {
    parts: Parts,
    descriptions: Cache,
    applier: Applier,
    recorder: Recorder,
    queue: Queue<ObjectKey>,
    /// Last told verdict of each Description, so that an event is recorded once.
    told: Mutex<BTreeMap<ObjectKey, String>>,
    /// What was last written into each Description about its objects.
    reported: Mutex<BTreeMap<ObjectKey, Reported>>,
    orphans: Orphans,
}

impl std::fmt::Debug for Deployer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployer")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Deployer {
    /// A deployer that begins to read its Descriptions (on the current runtime) and does not run yet.
    pub fn new(parts: Parts) -> Self {
        let queue = Queue::new(QueueOptions {
            base: Duration::from_millis(500),
            max: Duration::from_mins(1),
        });
        Self {
            descriptions: Cache::start(
                parts.parent.clone(),
                apps::DESCRIPTIONS,
                kubeio::CacheOptions::namespace(parts.namespace.clone()),
            ),
            applier: Applier {
                child: parts.child.clone(),
                mapper: Mapper::new(parts.child.clone()),
                watches: Watches::new(parts.child.clone(), queue.clone()),
                metrics: parts.metrics.clone(),
            },
            recorder: Recorder::start(parts.parent.clone(), parts.env.clone(), parts.component),
            queue,
            told: Mutex::default(),
            reported: Mutex::default(),
            orphans: Orphans::default(),
            parts,
        }
    }

    /// Works until `shutdown`, then finishes what is under way.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = self.descriptions.ready() => {}
        }
        let mut changes = self.descriptions.subscribe();
        let descriptions = async {
            loop {
                let change = changes.next().await;
                self.orphans.see(&change);
                if self.duty() == Some(Duty::Prune) {
                    self.orphans.see_dropped(&change);
                }
                if plan::asks_anew(change.old.as_deref(), change.new.as_deref()) {
                    self.queue.add(change.key);
                } else if let Some(new) = change.new
                    && let Some(pause) = self.overwritten(&change.key, &new)
                {
                    self.queue.add_after(change.key, pause);
                }
            }
        };
        let mut duties = self.parts.duty.clone();
        let duties = async {
            // Whatever came before the first duty was passed over.
            let mut duty = None;
            // Whoever tells the duty may go; then it stays what it is.
            while duties.changed().await.is_ok() {
                let now = self.duty();
                if now != duty {
                    tracing::info!(namespace = %self.parts.namespace, duty = ?now, "duty changed");
                    duty = now;
                    for description in self.descriptions.list() {
                        self.queue.add(ObjectKey::of(&description));
                    }
                    self.orphans.look_again();
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = self.queue.serve(self.parts.workers, &shutdown, |key| self.reconcile(key)) => {}
            () = descriptions => {}
            () = duties => {}
            () = self.look_for_orphans() => {}
        }
    }

    fn duty(&self) -> Option<Duty> {
        *self.parts.duty.borrow()
    }

    /// Boxed, because the compiler cannot tell that a future behind a closure's borrow is `Send`.
    fn reconcile(&self, key: ObjectKey) -> BoxFuture<'_, Outcome> {
        Box::pin(self.settle(key))
    }

    async fn settle(&self, key: ObjectKey) -> Outcome {
        // It comes again when the duty is known.
        let Some(duty) = self.duty() else {
            return Outcome::Done;
        };
        let result = match self.descriptions.get_key(&key) {
            None => self.prune(&key, duty).await,
            Some(description) if description["spec"]["deployer"] == "Helm" => {
                self.decline(&key, &description, duty).await
            }
            Some(description) if description["spec"]["deployer"] != "Generic" => Ok(Outcome::Done),
            Some(description) => match (duty, meta::is_deleting(&description)) {
                (Duty::Deploy, false) => self.deploy(&key, &description).await,
                (Duty::Deploy | Duty::Release, true) => self.remove(&key, &description).await,
                (Duty::Observe | Duty::Release, false) => self.observe(&key, &description).await,
                (Duty::Prune, false) => self.prune_for_another(&key, &description).await,
                (Duty::Observe | Duty::Prune, true) => Ok(Outcome::Done),
            },
        };
        result.unwrap_or_else(|error| {
            tracing::warn!(namespace = key.namespace, name = key.name, error = %Chain(&error), "description not settled");
            Outcome::Retry
        })
    }

    /// Applies what is wanted, removes what is wanted no longer, reports.
    async fn deploy(&self, key: &ObjectKey, description: &Value) -> Result<Outcome, kubeio::Error> {
        if !meta::has_finalizer(description, finalizers::APP) {
            // Its answer comes back as a change.
            self.set_finalizer(key, description, true).await?;
            return Ok(Outcome::Done);
        }
        let (asked, mut problems) = plan::asked(description);
        let asked_for = plan::ids(&asked);
        let (wanted, missing) = self.obtain(key, asked, &mut problems).await;
        for problem in &problems {
            self.warn(description, reasons::FAILED_MARSHALING_RESOURCE, problem);
        }
        let (started, cause) = (Instant::now(), Cause::of(description));
        let Left { ids, held } = self.left(key, description).await?;
        let leftovers = plan::leftovers(description, ids.iter().cloned(), &asked_for);
        self.record_first(key, description, &asked_for, &leftovers)
            .await?;
        let Applied {
            mut observed,
            resources,
        } = self.apply_all(&wanted, cause, &mut problems).await;
        let mut stuck = Vec::new();
        let left = self.remove_all(key, description, &leftovers, &mut stuck).await;
        for problem in &stuck {
            self.warn(description, reasons::UNSUCCESSFULLY_PRUNING_FEED, problem);
        }
        problems.append(&mut stuck);
        for gone in leftovers
            .iter()
            .filter(|id| !left.iter().any(|left| left.id == **id))
        {
            let note = format!("{gone} is wanted no longer and gone");
            self.recorder.record(
                description,
                EventType::Normal,
                reasons::SUCCESSFULLY_PRUNING_FEED,
                &note,
            );
        }
        let removing = !left.is_empty();
        let shares = observed.iter().any(|it| matches!(it.sight, Sight::Shared(_)));
        if !removing && problems.is_empty() && !held {
            self.orphans.forget(key, &ids);
        }
        // What is not had now stays as it is in the child.
        observed.extend(missing.into_iter().map(|id| Observed {
            id,
            sight: Sight::Unknown,
        }));
        observed.extend(left);
        if self.parts.recovery {
            self.applier.watches.set(key, &resources);
        }
        let verdict = Verdict::Done(&problems);
        let manifests = outcome::manifest_statuses(&observed, description);
        self.report(key, description, verdict, manifests).await?;
        self.tell(key, description, &problems);
        for problem in &problems {
            self.parts.metrics.problem(problem.word());
        }
        self.parts.metrics.passed(started.elapsed());
        Ok(if !problems.is_empty() {
            Outcome::Retry
        } else if removing {
            Outcome::After(REMOVAL_PERIOD)
        } else if !held && !shares && self.applier.watches.sees_all(key) {
            Outcome::After(RESYNC_PERIOD)
        } else {
            Outcome::After(BLIND_PERIOD)
        })
    }

    /// The objects that are asked for, as they are to be in the child, and those that cannot be had now.
    async fn obtain(
        &self,
        key: &ObjectKey,
        asked: Vec<Asked>,
        problems: &mut Vec<Problem>,
    ) -> (Vec<Desired>, Vec<ObjectId>) {
        let (mut wanted, mut missing) = (Vec::new(), Vec::new());
        for Asked { id, entry } in asked {
            match self.parts.contents.object(key, entry).await {
                Ok(object) => wanted.push(plan::prepare(object, key)),
                Err(why) => {
                    problems.push(Problem::Unavailable { id: id.clone(), why });
                    missing.push(id);
                }
            }
        }
        (wanted, missing)
    }

    /// Removes what is wanted no longer, for whoever applies and does not.
    async fn prune_for_another(
        &self,
        key: &ObjectKey,
        description: &Value,
    ) -> Result<Outcome, kubeio::Error> {
        let asked_for = plan::ids(&plan::asked(description).0);
        let Left { ids, held: _ } = self.left(key, description).await?;
        let leftovers = plan::leftovers(description, ids.iter().cloned(), &asked_for);
        let mut problems = Vec::new();
        let left = self.remove_all(key, description, &leftovers, &mut problems).await;
        for Observed { id, sight } in &left {
            if matches!(sight, Sight::Ours(live) if !meta::is_deleting(live)) {
                let note = format!("{id} is wanted no longer and removed for the cluster's agent");
                self.recorder.record(
                    description,
                    EventType::Normal,
                    reasons::SUCCESSFULLY_PRUNING_FEED,
                    &note,
                );
            }
        }
        for problem in &problems {
            self.warn(description, reasons::UNSUCCESSFULLY_PRUNING_FEED, problem);
        }
        if !problems.is_empty() {
            return Ok(Outcome::Retry);
        }
        if !left.is_empty() {
            return Ok(Outcome::After(REMOVAL_PERIOD));
        }
        self.orphans.forget(key, &ids);
        Ok(Outcome::Done)
    }

    /// Before an object is applied for the first time its name is in the status: whatever happens, it is found again.
    async fn record_first(
        &self,
        key: &ObjectKey,
        description: &Value,
        wanted: &[ObjectId],
        leftovers: &[ObjectId],
    ) -> Result<(), kubeio::Error> {
        let recorded = plan::recorded(description);
        let all_known = wanted
            .iter()
            .all(|wanted| recorded.iter().any(|id| id.is_same_object(wanted)));
        if all_known {
            return Ok(());
        }
        let old = description["status"]["manifestStatuses"].as_array();
        let entries = wanted.iter().chain(leftovers).map(|id| {
            old.into_iter()
                .flatten()
                .find(|entry| ObjectId::from_feed(entry).is_some_and(|other| other.is_same_object(id)))
                .cloned()
                .unwrap_or_else(|| id.to_feed())
        });
        self.report(key, description, Verdict::Begun, entries.collect())
            .await
    }

    async fn apply_all(&self, wanted: &[Desired], cause: Cause, problems: &mut Vec<Problem>) -> Applied {
        let mut results: BTreeMap<&ObjectId, Observed> = BTreeMap::new();
        let mut broken_namespaces: BTreeSet<&str> = BTreeSet::new();
        for wave in Wave::ALL {
            let (doomed, ready): (Vec<_>, Vec<_>) = wanted
                .iter()
                .filter(|desired| Wave::of(&desired.id.kind) == wave)
                .partition(|desired| broken_namespaces.contains(desired.id.key.namespace.as_str()));
            for desired in doomed {
                problems.push(Problem::NoNamespace(desired.id.clone()));
            }
            let applying: Vec<_> = ready
                .into_iter()
                .map(|desired| self.apply_one(desired, cause))
                .collect();
            let done: Vec<_> = futures::stream::iter(applying).buffered(PARALLEL).collect().await;
            for (desired, observed, problem) in done {
                if let Some(problem) = problem {
                    // One that another Description has is there all the same.
                    let is_there = matches!(problem, Problem::OwnedByAnother { .. });
                    if wave == Wave::Namespaces && !is_there {
                        broken_namespaces.insert(&desired.id.key.name);
                    }
                    problems.push(problem);
                } else if wave == Wave::Definitions
                    && let Ok(resource) = self.applier.resource(&desired.id).await
                {
                    self.applier.established(&resource, &observed).await;
                }
                results.insert(&desired.id, observed);
            }
        }
        let mut resources = BTreeMap::new();
        for desired in wanted {
            if let Ok(resource) = self.applier.resource(&desired.id).await {
                resources.insert(desired.id.kind.clone(), resource);
            }
        }
        let observed = wanted
            .iter()
            .map(|desired| {
                results.remove(&desired.id).unwrap_or_else(|| Observed {
                    id: desired.id.clone(),
                    sight: Sight::Unknown,
                })
            })
            .collect();
        Applied { observed, resources }
    }

    /// Boxed for the same reason as [`Self::reconcile`].
    fn apply_one<'a>(
        &'a self,
        desired: &'a Desired,
        cause: Cause,
    ) -> BoxFuture<'a, (&'a Desired, Observed, Option<Problem>)> {
        Box::pin(async move {
            let is_there = |key: &ObjectKey| self.is_there(key);
            let (observed, problem) = self.applier.apply(desired, cause, &is_there).await;
            (desired, observed, problem)
        })
    }

    /// What other Descriptions of the child ask for, which are there to stay.
    fn asked_by_others(&self, key: &ObjectKey) -> Vec<(ObjectId, ObjectKey)> {
        let all = self.descriptions.list().into_iter();
        let others = all.filter(|it| !meta::is_deleting(it) && it["spec"]["deployer"] == "Generic");
        others
            .map(|it| (ObjectKey::of(&it), it))
            .filter(|(other, _)| other != key)
            .flat_map(|(other, it)| {
                let asked = plan::ids(&plan::asked(&it).0).into_iter();
                asked.map(move |id| (id, other.clone()))
            })
            .collect()
    }

    /// Removes objects of the Description in order; answers those that are still there. What another Description asks
    /// for too is left to that. One that may not be looked at
    /// is still there only if it was seen before: what was never applied keeps nobody waiting.
    async fn remove_all(
        &self,
        key: &ObjectKey,
        description: &Value,
        ids: &[ObjectId],
        problems: &mut Vec<Problem>,
    ) -> Vec<Observed> {
        let in_sight = self.applier.watches.owned(key);
        let was_applied = |id: &ObjectId| {
            outcome::last_seen(description, id).is_some()
                || in_sight.iter().any(|other| other.is_same_object(id))
        };
        let mut left = BTreeMap::new();
        for id in ids {
            match self.applier.owned(id, key).await {
                Ok(None) => {}
                Ok(Some(live)) => {
                    left.insert(id.clone(), Sight::Ours(live));
                }
                Err(Problem::Forbidden { .. }) if !was_applied(id) => {}
                Err(problem) => {
                    left.insert(id.clone(), Sight::Unknown);
                    problems.push(problem);
                }
            }
        }
        let heirs = if left.is_empty() {
            Vec::new()
        } else {
            self.asked_by_others(key)
        };
        for id in plan::removable(&left) {
            let Some(Sight::Ours(live)) = left.get(id) else {
                continue;
            };
            let heir = heirs.iter().find(|(asked, _)| asked.is_same_object(id));
            let done = match heir {
                Some((_, heir)) => {
                    let handed_over = self.applier.hand_over(id, live, heir).await;
                    self.queue.add(heir.clone());
                    handed_over
                }
                None => self.applier.remove(id, live).await,
            };
            problems.extend(done.err());
        }
        left.into_iter()
            .map(|(id, sight)| Observed { id, sight })
            .collect()
    }

    /// Follows the deletion of a Description to its end, then lets it go.
    async fn remove(&self, key: &ObjectKey, description: &Value) -> Result<Outcome, kubeio::Error> {
        if !meta::has_finalizer(description, finalizers::APP) {
            return Ok(Outcome::Done);
        }
        let Left { ids, held } = self.left(key, description).await?;
        let ids = plan::brought(description, ids);
        let mut problems = Vec::new();
        let mut left = self.remove_all(key, description, &ids, &mut problems).await;
        if !left.is_empty() && problems.is_empty() {
            // Many objects are gone as soon as they are asked to go.
            let ids: Vec<ObjectId> = left.into_iter().map(|left| left.id).collect();
            left = self.remove_all(key, description, &ids, &mut problems).await;
        }
        if left.is_empty() && problems.is_empty() {
            self.applier.watches.set(key, &BTreeMap::new());
            if !held {
                self.orphans.release(key, description, &ids);
            }
            self.set_finalizer(key, description, false).await?;
            return Ok(Outcome::Done);
        }
        for problem in &problems {
            self.warn(description, reasons::FAILED_DELETING_DESCRIPTION, problem);
        }
        let failed = !problems.is_empty();
        problems.extend(left.iter().map(|left| Problem::NotGone(left.id.clone())));
        let verdict = Verdict::Removing(&problems);
        let manifests = outcome::manifest_statuses(&left, description);
        match self.report(key, description, verdict, manifests).await {
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(if failed {
            Outcome::Retry
        } else {
            Outcome::After(REMOVAL_PERIOD)
        })
    }

    /// Says of charts that nobody executes them, and lets their releases go. Whoever has the duty instead may be able.
    async fn decline(
        &self,
        key: &ObjectKey,
        description: &Value,
        duty: Duty,
    ) -> Result<Outcome, kubeio::Error> {
        if matches!(duty, Duty::Observe | Duty::Prune) {
            return Ok(Outcome::Done);
        }
        let own = ListOptions::labels(format!("{}={}", labels::CONFIG_UID, meta::uid(description)));
        let parent = &self.parts.parent;
        let releases = parent
            .list(&apps::HELM_RELEASES, key.namespace(), &own)
            .await?
            .items;
        for release in &releases {
            let (subresource, patch) = match charts::step(release) {
                Step::Say(patch) => (Some("status"), patch),
                Step::Release { patch, installed } => {
                    if installed {
                        let note = "what another agent installed stays in the cluster";
                        self.recorder.record(
                            release,
                            EventType::Warning,
                            reasons::HELM_RELEASE_FAILURE,
                            note,
                        );
                    }
                    (None, patch)
                }
                Step::Nothing => continue,
            };
            let name = meta::name(release);
            let written = parent
                .patch(
                    &apps::HELM_RELEASES,
                    key.namespace(),
                    name,
                    subresource,
                    Patch::Merge,
                    &patch,
                )
                .await;
            match written {
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        if duty == Duty::Deploy && !meta::is_deleting(description) {
            let names = charts::names(description).into_iter();
            let problems: Vec<Problem> = names.map(Problem::NotExecuted).collect();
            self.report(key, description, Verdict::Done(&problems), Vec::new())
                .await?;
            self.tell(key, description, &problems);
        }
        Ok(if charts::are_settled(description, &releases) {
            Outcome::Done
        } else {
            Outcome::Retry
        })
    }

    /// Another applies: only the objects' status is reported.
    async fn observe(&self, key: &ObjectKey, description: &Value) -> Result<Outcome, kubeio::Error> {
        if !self.parts.recovery {
            return Ok(Outcome::Done);
        }
        let wanted = plan::asked(description).0;
        // What whoever applies has still to remove stays on record.
        let leftovers = plan::leftovers(description, [], &plan::ids(&wanted));
        let mut resources = BTreeMap::new();
        let mut observed = Vec::new();
        let mut blind = false;
        for Asked { id, entry } in wanted {
            let Ok(resource) = self.applier.resource(&id).await else {
                blind = true;
                let sight = Sight::Unknown;
                observed.push(Observed { id, sight });
                continue;
            };
            let seen = self.applier.watches.get(&id);
            blind |= seen.is_none();
            let live = match seen.flatten() {
                Some(live) => Ok(Some((*live).clone())),
                // Not in sight, or without the label that the watch goes by.
                None => {
                    let (namespace, name) = (id.key.namespace(), id.key.name.as_str());
                    self.parts.child.get_opt(&resource, namespace, name).await
                }
            };
            resources.insert(id.kind.clone(), resource);
            let sight = match live {
                Ok(Some(live)) if self.shares(key, entry, &live).await => Sight::Shared(live),
                live => Sight::of_answer(live, key),
            };
            blind |= matches!(sight, Sight::Unknown | Sight::Shared(_));
            observed.push(Observed { id, sight });
        }
        self.applier.watches.set(key, &resources);
        observed.extend(leftovers.into_iter().map(|id| Observed {
            id,
            sight: Sight::Unknown,
        }));
        let manifests = json!(outcome::manifest_statuses(&observed, description));
        if description["status"]["manifestStatuses"] == manifests {
            self.note_reported(key, description);
        } else {
            self.patch_status(key, &json!({"status": {"manifestStatuses": manifests}}))
                .await?;
        }
        Ok(if blind {
            Outcome::After(BLIND_PERIOD)
        } else {
            Outcome::Done
        })
    }

    /// Whether an object that is there is another Description's, and as this one wants it.
    async fn shares(&self, key: &ObjectKey, entry: Entry, live: &Value) -> bool {
        let Some(owner) = plan::owner(live).filter(|owner| owner != key) else {
            return false;
        };
        let wanted = self.parts.contents.object(key, entry).await;
        let wanted = wanted.map(|object| plan::prepare(object, key));
        self.is_there(&owner)
            && wanted.is_ok_and(|it| plan::step(&it, Some(live), |_| true) == plan::Step::Share)
    }

    /// Whether the child has a Description of this key.
    fn is_there(&self, key: &ObjectKey) -> bool {
        key.namespace == self.parts.namespace && self.descriptions.get_key(key).is_some()
    }

    async fn report(
        &self,
        key: &ObjectKey,
        description: &Value,
        verdict: Verdict<'_>,
        manifests: Vec<Value>,
    ) -> Result<(), kubeio::Error> {
        // An earlier report of this very pass is in the cache, not in the snapshot that the pass began with.
        let mut basis = description.clone();
        if let Some(latest) = self.descriptions.get_key(key) {
            basis["status"] = latest["status"].clone();
        }
        let status = outcome::status(&basis, verdict, manifests, self.parts.env.now());
        match outcome::status_patch(&basis, status) {
            Some(patch) => self.patch_status(key, &patch).await,
            None => {
                self.note_reported(key, &basis);
                Ok(())
            }
        }
    }

    /// Notes what a Description, or a patch of its status, says about its objects: that is how the child is seen.
    fn note_reported(&self, key: &ObjectKey, description: &Value) {
        let says = hash_of(&description["status"]["manifestStatuses"]);
        let mut reported = self.reported.lock().expect("no holder panics");
        if reported.get(key).is_none_or(|it| it.says != says) {
            let overwritten = 0;
            reported.insert(key.clone(), Reported { says, overwritten });
        }
    }

    /// After what time to look again at a Description that says something else about its objects than was last
    /// reported: another reported, or an older report of this deployer came late.
    fn overwritten(&self, key: &ObjectKey, description: &Value) -> Option<Duration> {
        let mut reported = self.reported.lock().expect("no holder panics");
        let says = hash_of(&description["status"]["manifestStatuses"]);
        let reported = reported.get_mut(key).filter(|it| it.says != says)?;
        let pause = OVERWRITTEN_PAUSE.saturating_mul(1 << reported.overwritten.min(16));
        reported.overwritten += 1;
        Some(pause.min(RESYNC_PERIOD))
    }

    async fn patch_status(&self, key: &ObjectKey, patch: &Value) -> Result<(), kubeio::Error> {
        // Before it is sent: its event may be here before its answer.
        self.note_reported(key, patch);
        let answer = self
            .parts
            .parent
            .patch(
                &apps::DESCRIPTIONS,
                key.namespace(),
                &key.name,
                Some("status"),
                Patch::Merge,
                patch,
            )
            .await?;
        self.descriptions.put(answer);
        Ok(())
    }

    async fn set_finalizer(
        &self,
        key: &ObjectKey,
        description: &Value,
        wanted: bool,
    ) -> Result<(), kubeio::Error> {
        let mut list: Vec<&str> = meta::finalizers(description)
            .filter(|finalizer| *finalizer != finalizers::APP)
            .collect();
        if wanted {
            list.push(finalizers::APP);
        }
        let patch = json!({"metadata": {
            "finalizers": list,
            "resourceVersion": meta::resource_version(description),
        }});
        let result = self
            .parts
            .parent
            .patch(
                &apps::DESCRIPTIONS,
                key.namespace(),
                &key.name,
                None,
                Patch::Merge,
                &patch,
            )
            .await;
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn warn(&self, description: &Value, reason: &str, problem: &Problem) {
        self.recorder
            .record(description, EventType::Warning, reason, &problem.to_string());
    }

    fn tell(&self, key: &ObjectKey, description: &Value, problems: &[Problem]) {
        let text = match problems {
            [] => "all objects are applied".to_owned(),
            problems => problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        };
        let verdict = format!("{} {text}", meta::generation(description));
        let told = self
            .told
            .lock()
            .expect("no holder panics")
            .insert(key.clone(), verdict.clone());
        if told.as_ref() == Some(&verdict) {
            return;
        }
        // After a restart, success that was told before is not told again.
        if told.is_none() && problems.is_empty() && description["status"]["phase"] == "Success" {
            return;
        }
        if problems.is_empty() {
            self.recorder.record(
                description,
                EventType::Normal,
                reasons::SUCCESSFULLY_DEPLOYED,
                &text,
            );
        } else {
            self.recorder.record(
                description,
                EventType::Warning,
                reasons::UNSUCCESSFULLY_DEPLOYED,
                &text,
            );
        }
    }
}

/// What was last written into a Description about its objects.
struct Reported {
    /// It, hashed.
    says: u64,
    /// How often another has overwritten it.
    overwritten: u32,
}

fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

struct Applied {
    observed: Vec<Observed>,
    resources: BTreeMap<Gvk, ApiResource>,
}
