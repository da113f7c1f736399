//! The loop over Descriptions: applies, prunes, removes, reports.

mod decline;
mod observe;
mod orphans;
mod remove;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use api::{apps, finalizers, reasons};
use clock::Env;
use futures::StreamExt;
use futures::future::BoxFuture;
use kubeio::{
    Cache, CancellationToken, Client, EventType, Mapper, ObjectKey, Outcome, Patch, Queue, QueueOptions,
    Recorder,
};
use machinery::{ApiResource, Gvk, meta};
use runtime::Chain;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use self::orphans::{Left, Orphans};
use self::report::Reported;
use crate::apply::{Applier, Cause};
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

    /// Whether the child has a Description of this key.
    fn is_there(&self, key: &ObjectKey) -> bool {
        key.namespace == self.parts.namespace && self.descriptions.get_key(key).is_some()
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
}

struct Applied {
    observed: Vec<Observed>,
    resources: BTreeMap<Gvk, ApiResource>,
}
