//! What happens in a run: a fleet comes up, an application is sent out, changed and taken back, while things go wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::{annotations, apps, clusters, kubernetes, names, reasons};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::SplitMix;
use futures::FutureExt as _;
use kubeio::{Client, DeleteOptions, Error, Patch};
use machinery::{ApiResource, meta};
use placement::outage::{FLAPPING, STEADY};
use runtime::{BoxError, CancellationToken};
use serde_json::{Value, json};
use source::{Key, Resource};
use tokio::task::JoinSet;

use super::fault::{Fault, Planned, Span, plan};
use super::fleet::{Fleet, SIDE, side};
use super::invariants::{Application, Goal, NOTE, lacks};
use super::trace::Trace;
use super::world::{CLUSTERS, MANIFESTS, MEANT, PARENT, SUBSCRIPTIONS, World, key_of};
use super::{SimConfig, is_sign_of_life};
use crate::fleet as overview;

/// How long everything may take to come right once nothing goes wrong any more.
const CONVERGENCE: Duration = Duration::from_secs(300);
/// How long it takes until every part has noticed everything: longer than a watch waits before it tries again.
const SETTLED: Duration = Duration::from_secs(20);
/// How many looks it takes until somebody who waits is told what is missing.
const LOOKS_TO_TELL: usize = 30;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long nothing may be written once everything is right.
const QUIET: Duration = Duration::from_secs(45);

/// How long a member is away beyond what the parent takes to know it.
const AWAY: Duration = Duration::from_secs(5);

/// How many clusters are asked through the hub in one look.
const ASKED_AT_ONCE: usize = 12;

/// How many events may be told then.
const FEW_EVENTS: usize = 6;

/// The sample application: the same shape as `examples/nginx`.
pub(super) const NAMESPACE: &str = "web";
pub(super) const NAME: &str = "nginx";

/// Lives one run.
///
/// # Errors
/// What was violated.
pub(crate) async fn live(config: &SimConfig, trace: &Trace) -> Result<(), String> {
    let fleet = Fleet::start(config.seed, config.clusters, trace)
        .await
        .map_err(|error| told("the fleet does not start", &error))?;
    let mut roles = JoinSet::new();
    fleet.run_roles(config.seed, &mut roles);
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let mut run = Run::of(config, fleet, trace);
    let counter = tokio::spawn(count(run.admin.clone(), stop.clone()));
    run.begin().await?;
    run.change_template().await?;
    if run.random.coin() {
        run.round().await?;
    }
    while run.is_to_go_on() {
        run.round().await?;
    }
    run.take_back().await?;
    stop.cancel();
    match counter.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(lost)) => Err(lost),
        Err(error) => Err(format!("the counting client failed: {error}")),
    }
}

/// Whether a line of trace is about the credential of a child, which it exchanges for one that ends when it comes to it:
/// the parent then puts the first one away.
fn is_credential(line: &str) -> bool {
    line.contains(" secrets \"clusternet-")
        || line.contains(" clusters.clusternet.io/clusterregistrationrequests ")
}

fn moment(random: &mut SplitMix, millis: usize) -> Duration {
    Duration::from_millis(random.below(millis) as u64)
}

fn told(what: &str, error: &BoxError) -> String {
    format!("{what}: {}", runtime::Chain(&**error))
}

pub(super) type Look<'a> = futures::future::BoxFuture<'a, Vec<String>>;

/// A fleet in a run.
pub(super) struct Run<'a> {
    config: &'a SimConfig,
    pub(super) fleet: Arc<Fleet>,
    pub(super) trace: &'a Trace,
    /// A client of the parent.
    pub(super) admin: Client,
    random: SplitMix,
    /// What should come true.
    goal: Goal,
    /// How much a cluster of the left and of the right side counts where replicas are divided.
    weights: [u64; 2],
    /// How often clusters were asked through the hub.
    asked: usize,
}

/// How replicas come to clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each cluster gets all.
    Replicated,
    /// Each cluster gets its share, and so many of a hundred must be ready at any time.
    Divided { floor: Option<u64> },
}

impl Shape {
    fn choose(random: &mut SplitMix) -> Self {
        match random.below(4) {
            0 | 1 => Self::Replicated,
            2 => Self::Divided { floor: None },
            _ => Self::Divided {
                floor: Some(50 + random.below(51) as u64),
            },
        }
    }
}

impl<'a> Run<'a> {
    /// A run of this fleet.
    pub(super) fn of(config: &'a SimConfig, fleet: Fleet, trace: &'a Trace) -> Self {
        let admin = fleet.parent.administrator();
        Self {
            random: SplitMix::named(config.seed, "scenario"),
            goal: Goal {
                fleet: (fleet.members.iter())
                    .map(|it| (it.cluster.name().to_owned(), it.nodes))
                    .collect(),
                application: None,
            },
            weights: [1, 1],
            asked: 0,
            config,
            fleet: Arc::new(fleet),
            trace,
            admin,
        }
    }
}

impl Run<'_> {
    /// The fleet comes up, and the application is sent out.
    async fn begin(&mut self) -> Result<(), String> {
        let shape = Shape::choose(&mut self.random);
        let divided = shape != Shape::Replicated;
        self.trace.line("-", &format!("{shape:?}"));
        // Registration begins at once, the Subscription follows.
        let (prepare, send) = (self.moment(5_000), self.moment(20_000));
        let span = Span {
            whole: Duration::from_secs(60),
            busy: &[Duration::ZERO, prepare + send, prepare + send],
        };
        let faults = self.faults(self.config.faults, span);
        tokio::time::sleep(prepare).await;
        let replicas = 2 * self.parts(divided);
        for object in templates(replicas) {
            self.create(&shadow(&object), namespace(&object), &object).await?;
        }
        tokio::time::sleep(send).await;
        self.goal.application = Some(Application {
            places: BTreeMap::new(),
            divided,
            replicas,
            notes: BTreeMap::new(),
            parts: templates(0).iter().map(key_of).collect(),
        });
        self.place();
        self.create(
            &apps::SUBSCRIPTIONS,
            Some("default"),
            &subscription(shape, self.weights),
        )
        .await?;
        self.trace.line("-", "subscription created");
        self.settle(faults, "everything runs").await?;
        self.quiet().await
    }

    /// Everything is taken back; perhaps one member is away meanwhile.
    async fn take_back(&mut self) -> Result<(), String> {
        let away = if self.random.coin() && self.config.faults > 0 {
            self.send_away().await?.1
        } else {
            JoinSet::new()
        };
        let (when, mut faults) = self.next_part();
        faults.spawn(away.join_all().map(drop));
        tokio::time::sleep(when).await;
        self.delete(&apps::SUBSCRIPTIONS, Some("default"), NAME).await?;
        self.trace.line("-", "subscription deleted");
        self.goal.application = None;
        self.settle(faults, "everything is taken back").await?;
        for object in templates(2) {
            self.delete(&shadow(&object), namespace(&object), meta::name(&object))
                .await?;
        }
        self.until("the templates are gone", |run| {
            Box::pin(async {
                run.trace.with_world(|world| {
                    let left = world.all(PARENT, MANIFESTS);
                    left.map(|(key, it)| format!("{key} {}", it["metadata"]["finalizers"]))
                        .collect()
                })
            })
        })
        .await?;
        self.quiet().await
    }

    /// Whether there is time left for another round.
    fn is_to_go_on(&self) -> bool {
        let passed = Duration::from_millis(self.trace.elapsed_ms());
        self.config.lasts.is_some_and(|lasts| passed < lasts)
    }

    /// One thing happens, while others go wrong, and comes right.
    async fn round(&mut self) -> Result<(), String> {
        match self.random.below(6) {
            0 => self.change_template().await,
            1 => self.leave_and_return().await,
            2 => self.override_one().await,
            3 => self.leave_the_fleet_and_join().await,
            4 if self.config.faults > 0 => self.go_away_and_come_back().await,
            _ if self.application().divided => self.change_weights().await,
            _ => self.change_template().await,
        }
    }

    fn application(&self) -> &Application {
        let application = &self.goal.application;
        application.as_ref().expect("rounds are played while it is there")
    }

    fn change(&mut self, change: impl FnOnce(&mut Application)) {
        if let Some(application) = &mut self.goal.application {
            change(application);
        }
    }

    /// The application belongs on every cluster of the fleet.
    fn place(&mut self) {
        let fleet = self.fleet.clone();
        let weights = self.weights;
        let known = self.goal.fleet.clone();
        let places = (1..).zip(&fleet.members).map(|(index, member)| {
            let weight = weights[usize::from(side(index) == "right")];
            (member.cluster.name().to_owned(), weight)
        });
        let places = places.filter(|(name, _)| known.contains_key(name)).collect();
        self.change(|application| application.places = places);
    }

    /// How many clusters share what the template has.
    fn parts(&self, divided: bool) -> u64 {
        if divided {
            self.fleet.members.len() as u64
        } else {
            1
        }
    }

    fn moment(&mut self, millis: usize) -> Duration {
        moment(&mut self.random, millis)
    }

    /// Chooses what goes wrong from now on, and lets it.
    fn faults(&mut self, most: usize, span: Span<'_>) -> JoinSet<()> {
        let mut faults = JoinSet::new();
        for Planned { at, fault } in plan(&mut self.random, &self.fleet, most, span) {
            let fleet = self.fleet.clone();
            faults.spawn(async move {
                tokio::time::sleep(at).await;
                fault.happen(&fleet).await;
            });
        }
        faults
    }

    /// When the next thing is to happen, and what goes wrong around it.
    fn next_part(&mut self) -> (Duration, JoinSet<()>) {
        let when = self.moment(10_000);
        let span = Span {
            whole: Duration::from_secs(30),
            busy: &[when],
        };
        (when, self.faults(self.config.faults / 2, span))
    }

    /// The template gets other replicas.
    async fn change_template(&mut self) -> Result<(), String> {
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        let each = 1 + self.random.below(4) as u64;
        let replicas = each * self.parts(self.application().divided);
        let deployment = &templates(0)[2];
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch(&shadow(deployment), namespace(deployment), NAME, &patch)
            .await?;
        self.trace
            .line("-", &format!("template changed to {replicas} replicas"));
        self.change(|application| application.replicas = replicas);
        self.settle(faults, "the change is everywhere").await
    }

    /// Replicas move from one side to the other.
    async fn change_weights(&mut self) -> Result<(), String> {
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        self.weights = [0; 2].map(|_| 1 + self.random.below(5) as u64);
        let patch = json!({"spec": {"subscribers": subscribers(self.weights)}});
        self.patch(&apps::SUBSCRIPTIONS, Some("default"), NAME, &patch)
            .await?;
        self.trace.line("-", &format!("weights are {:?}", self.weights));
        self.place();
        self.settle(faults, "the replicas have moved").await
    }

    /// One cluster gets something of its own.
    async fn override_one(&mut self) -> Result<(), String> {
        let member = self.random.below(self.fleet.members.len());
        let name = self.fleet.members[member].cluster.name().to_owned();
        let (place, _) = self.registered(&name)?;
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        let note = format!("{}", self.random.below(1_000));
        let (resource, there) = (&apps::LOCALIZATIONS, self.application().notes.contains_key(&name));
        if there && self.random.coin() {
            self.delete(resource, Some(&place), NOTE).await?;
            self.change(|application| {
                application.notes.remove(&name);
            });
        } else {
            let object = localization(&place, &note);
            if there {
                self.patch(resource, Some(&place), NOTE, &json!({"spec": object["spec"]}))
                    .await?;
            } else {
                self.create(resource, Some(&place), &object).await?;
            }
            self.change(|application| {
                application.notes.insert(name.clone(), note);
            });
        }
        self.trace.line(&name, "has another override");
        self.settle(faults, "the override counts").await
    }

    /// One cluster is no longer meant by the Subscription, and then it is again.
    async fn leave_and_return(&mut self) -> Result<(), String> {
        let member = self.random.below(self.fleet.members.len());
        let name = self.fleet.members[member].cluster.name().to_owned();
        let (place, _) = self.registered(&name)?;
        let label = |value: Value| json!({"metadata": {"labels": {MEANT.0: value}}});
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        let clusters = &clusters::MANAGED_CLUSTERS;
        self.patch(clusters, Some(&place), &name, &label(Value::Null))
            .await?;
        self.trace.line(&name, "is no longer meant");
        self.change(|application| {
            application.places.remove(&name);
        });
        self.settle(faults, "it is gone from where it is not meant")
            .await?;
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        self.patch(clusters, Some(&place), &name, &label(json!(MEANT.1)))
            .await?;
        self.trace.line(&name, "is meant again");
        self.place();
        self.settle(faults, "it is everywhere again").await
    }

    /// One cluster leaves the fleet, as `tombolo leave` does it, and joins anew.
    async fn leave_the_fleet_and_join(&mut self) -> Result<(), String> {
        let fleet = self.fleet.clone();
        let member = &fleet.members[self.random.below(fleet.members.len())];
        let name = member.cluster.name().to_owned();
        let (place, _) = self.registered(&name)?;
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        member.agent.wanted.send_replace(false);
        let cluster = Key::new(&Resource::new(clusters::GROUP, "managedclusters"), &place, &name);
        self.trace.with_world(|world| {
            world.by_hand(PARENT, cluster);
            for part in &self.application().parts {
                world.by_hand(&name, part.clone());
            }
        });
        let (child, admin) = (member.cluster.administrator(), self.admin.clone());
        self.persist("a cluster leaves the fleet", || async {
            let leaving = agent::Leaving::default();
            match agent::leave(&child, Some(&admin), &leaving).await {
                Ok(left) if left.remaining.is_empty() => Ok(()),
                Ok(left) => Err(left.remaining.join("; ")),
                Err(error) => Err(runtime::Chain(&error).to_string()),
            }
        })
        .await?;
        self.trace.line(&name, "has left the fleet");
        let nodes = self.goal.fleet.remove(&name).unwrap_or_default();
        self.change(|application| {
            application.places.remove(&name);
            application.notes.remove(&name);
        });
        self.settle(faults, "it is gone from the fleet").await?;
        let (when, faults) = self.next_part();
        tokio::time::sleep(when).await;
        member.agent.wanted.send_replace(true);
        self.goal.fleet.insert(name.clone(), nodes);
        self.place();
        self.trace.line(&name, "joins again");
        self.settle(faults, "it is in the fleet again").await
    }

    /// One cluster is away for so long that the parent knows it, and comes back.
    async fn go_away_and_come_back(&mut self) -> Result<(), String> {
        let (_, away) = self.send_away().await?;
        let (_, mut faults) = self.next_part();
        faults.spawn(away.join_all().map(drop));
        self.settle(faults, "it is there again").await
    }

    /// The dedicated namespace of a cluster, and the cluster.
    fn registered(&self, name: &str) -> Result<(String, Value), String> {
        let found = self.trace.with_world(|world| {
            let mut all = world.all(PARENT, CLUSTERS).filter(|(key, _)| key.name == name);
            all.next()
                .map(|(key, it)| (key.namespace.to_string(), it.clone()))
        });
        found.ok_or_else(|| format!("{name} is not registered"))
    }

    fn check(&self) -> Result<(), String> {
        self.trace.violated().map_or(Ok(()), Err)
    }

    /// Waits until the faults are over, and then until nothing is missing.
    async fn settle(&mut self, mut faults: JoinSet<()>, what: &str) -> Result<(), String> {
        while let Some(over) = faults.join_next().await {
            over.map_err(|error| format!("a fault failed: {error}"))?;
            self.check()?;
        }
        self.trace.line("-", "no more faults");
        self.asked += 1;
        self.until(what, |run| Box::pin(run.lacks())).await?;
        self.trace.with_world(World::hands_off);
        Ok(())
    }

    /// How long everything may take to come right once nothing goes wrong any more.
    fn convergence(&self) -> Duration {
        CONVERGENCE + self.fleet.pace.report * 5
    }

    /// Whether nothing goes to a cluster that came and went, and the Subscription says so.
    fn waits_for_the_steady(&self) -> bool {
        self.trace.with_world(|world| {
            world.all(PARENT, SUBSCRIPTIONS).any(|(_, it)| {
                let mut conditions = it["status"]["conditions"].as_array().into_iter().flatten();
                conditions.any(|it| it["type"] == reasons::FAIL_OVER && it["reason"] == FLAPPING)
            })
        })
    }

    /// Waits until nothing is missing.
    pub(super) async fn until(
        &self,
        what: &str,
        look: impl for<'b> Fn(&'b Self) -> Look<'b>,
    ) -> Result<(), String> {
        let start = tokio::time::Instant::now();
        let mut begin = start;
        let mut settled = false;
        for looks in 1_usize.. {
            let missing = look(self).await;
            self.check()?;
            if looks.is_multiple_of(LOOKS_TO_TELL) && !missing.is_empty() {
                let (count, first) = (missing.len(), &missing[0]);
                self.trace.tell(&format!(
                    "{count} things are missing until {what}, such as: {first}"
                ));
            }
            if missing.is_empty() && settled {
                self.trace.line("-", what);
                return Ok(());
            }
            if missing.is_empty() {
                // A part that was cut off may still act on what it missed: what is right must be right twice.
                settled = true;
                tokio::time::sleep(SETTLED).await;
                continue;
            }
            settled = false;
            if self.waits_for_the_steady() && start.elapsed() < STEADY * 2 {
                begin = tokio::time::Instant::now();
            }
            if begin.elapsed() > self.convergence() {
                return Err(format!(
                    "not within {} virtual seconds: {what}; missing: {}",
                    self.convergence().as_secs(),
                    missing
                        .iter()
                        .take(8)
                        .map(String::as_str)
                        .collect::<Vec<_>>()
                        .join("; ")
                ));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// What has not come right.
    async fn lacks(&self) -> Vec<String> {
        let mut missing = self.trace.with_world(|world| lacks(world, &self.goal));
        let (tunnels, fleet) = (self.fleet.parent.tunnels(), self.goal.fleet.len());
        if tunnels != fleet {
            missing.push(format!("{tunnels} of {fleet} tunnels"));
        }
        if !missing.is_empty() || self.goal.application.is_none() {
            return missing;
        }
        let places: Vec<&String> = self.application().places.keys().collect();
        let every = places.len().div_ceil(ASKED_AT_ONCE);
        for name in places
            .iter()
            .skip(self.asked % every.max(1))
            .step_by(every.max(1))
        {
            let reached = match self.registered(name) {
                Ok((_, cluster)) => self.reach_through_the_hub(&cluster).await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = reached {
                missing.push(format!("{name} is not reached through the hub: {problem}"));
            }
        }
        missing
    }

    /// Nothing is written when nothing happens, but for signs of life.
    pub(super) async fn quiet(&self) -> Result<(), String> {
        let from = self.trace.len();
        tokio::time::sleep(QUIET).await;
        self.check()?;
        let noise = self
            .trace
            .lines_from(from)
            .into_iter()
            .filter(|line| !is_sign_of_life(line));
        // Events are told late when the parent was away, and forgotten after an hour.
        let (events, noise): (Vec<String>, Vec<String>) = noise.partition(|line| line.contains(" events "));
        let noise: Vec<String> = noise.into_iter().filter(|line| !is_credential(line)).collect();
        if events.len() > FEW_EVENTS {
            return Err(format!(
                "{} events though nothing happens, such as: {}",
                events.len(),
                events[0]
            ));
        }
        if noise.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} writes though nothing happens, such as: {}",
            noise.len(),
            noise[..noise.len().min(6)].join(" | ")
        ))
    }

    /// Does something until it works: the server may be down.
    async fn persist<F, E>(&self, what: &str, attempt: impl Fn() -> F) -> Result<(), String>
    where
        F: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let deadline = tokio::time::Instant::now() + CONVERGENCE;
        loop {
            let Err(error) = attempt().await else {
                return Ok(());
            };
            self.check()?;
            if tokio::time::Instant::now() > deadline {
                return Err(format!("{what}: {error}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A member is away for so long that the parent knows it, and then comes back by itself. What is deleted meanwhile is
    /// deleted without it.
    async fn send_away(&mut self) -> Result<(String, JoinSet<()>), String> {
        let member = self.random.below(self.fleet.members.len());
        let lasts = self.fleet.pace.report * 4 + AWAY + self.moment(40_000);
        let fault = if self.random.coin() {
            Fault::Silence { member, lasts }
        } else {
            Fault::Partition { member, lasts }
        };
        let (mut away, fleet) = (JoinSet::new(), self.fleet.clone());
        away.spawn(async move { fault.happen(&fleet).await });
        let name = self.fleet.members[member].cluster.name().to_owned();
        let back = tokio::time::Instant::now() + lasts;
        while tokio::time::Instant::now() < back {
            tokio::time::sleep(LOOK_EVERY).await;
            self.check()?;
            if self
                .registered(&name)
                .is_ok_and(|(_, it)| !overview::is_ready(&it))
            {
                self.trace.line(&name, "is known to be away");
                break;
            }
        }
        Ok((name, away))
    }

    async fn patch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<(), String> {
        self.persist(&format!("{name} is changed"), || async {
            let patched = self
                .admin
                .patch(resource, namespace, name, None, Patch::Merge, patch);
            patched.await.map(drop).map_err(|error| said(&error))
        })
        .await
    }

    pub(super) async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<(), String> {
        self.persist(&format!("{} is created", meta::name(object)), || async {
            match self.admin.create(resource, namespace, object).await {
                Err(error) if error.is_already_exists() => Ok(()),
                other => other.map(drop).map_err(|error| said(&error)),
            }
        })
        .await
    }

    async fn delete(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), String> {
        self.trace.with_world(|world| {
            for resource in [SUBSCRIPTIONS, MANIFESTS] {
                let keys: Vec<Key> = world.all(PARENT, resource).map(|(key, _)| key.clone()).collect();
                keys.into_iter().for_each(|key| world.by_hand(PARENT, key));
            }
        });
        self.persist(&format!("{name} is deleted"), || async {
            match self
                .admin
                .delete(resource, namespace, name, &DeleteOptions::background())
                .await
            {
                Err(error) if error.is_not_found() => Ok(()),
                other => other.map_err(|error| said(&error)),
            }
        })
        .await
    }

    /// Reads the application's namespace in a member as a user of the hub does.
    async fn reach_through_the_hub(&self, cluster: &Value) -> Result<(), String> {
        let place = Some(meta::namespace(cluster));
        let secret = self
            .admin
            .get(&kubernetes::SECRETS, place, names::CHILD_DEPLOYER_SECRET)
            .await
            .map_err(|error| said(&error))?;
        let token = secret["data"]["token"]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .unwrap_or_default();
        let id = cluster["spec"]["clusterId"].as_str().unwrap_or_default();
        let path = format!(
            "/apis/{}/{}/sockets/{id}/proxy/direct/api/v1/namespaces/{NAMESPACE}",
            api::proxies::GROUP,
            api::proxies::VERSION
        );
        let request = http::Request::get(path)
            .header("Impersonate-User", "clusternet")
            .header("Impersonate-Extra-Clusternet-Token", token.as_slice())
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        let response = self.admin.request(request).await.map_err(|error| said(&error))?;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if response.status().is_success() && meta::name(&answer) == NAMESPACE {
            return Ok(());
        }
        Err(format!("{} {answer}", response.status()))
    }
}

pub(super) fn said(error: &Error) -> String {
    runtime::Chain(error).to_string()
}

fn resource(object: &Value) -> ApiResource {
    match meta::kind(object) {
        "Namespace" => kubernetes::NAMESPACES,
        "Service" => kubernetes::SERVICES,
        _ => kubernetes::DEPLOYMENTS,
    }
}

pub(super) fn templates(replicas: u64) -> [Value; 3] {
    let app = json!({"app": NAME});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": app},
            "spec": {"selector": app, "ports": [{"name": "http", "port": 80, "targetPort": 80}]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": app},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": app},
                "template": {
                    "metadata": {"labels": app},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:1.29", "resources": {
                        "requests": {"cpu": "100m", "memory": "64Mi"},
                    }}]},
                },
            },
        }),
    ]
}

pub(super) fn subscription(shape: Shape, weights: [u64; 2]) -> Value {
    let feeds: Vec<Value> = templates(0).iter().map(feed).collect();
    let mut subscription = json!({
        "apiVersion": apps::SUBSCRIPTIONS.api_version(), "kind": "Subscription",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"schedulingStrategy": "Replication", "subscribers": subscribers(weights), "feeds": feeds},
    });
    if let Shape::Divided { floor } = shape {
        subscription["spec"]["schedulingStrategy"] = json!("Dividing");
        subscription["spec"]["dividingScheduling"] = json!({"type": "Static"});
        if let Some(floor) = floor {
            subscription["metadata"]["annotations"] =
                json!({annotations::MIN_AVAILABLE: format!("{floor}%")});
        }
    }
    subscription
}

fn feed(object: &Value) -> Value {
    let mut feed = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": meta::name(object),
    });
    if !meta::namespace(object).is_empty() {
        feed["namespace"] = json!(meta::namespace(object));
    }
    feed
}

/// The clusters that are meant, by their sides.
fn subscribers(weights: [u64; 2]) -> Value {
    let of = |side: &str, weight: u64| json!({"clusterAffinity": {"matchLabels": {MEANT.0: MEANT.1, SIDE: side}}, "weight": weight});
    json!([of("left", weights[0]), of("right", weights[1])])
}

/// What gives the Deployment of one cluster a note.
fn localization(namespace: &str, note: &str) -> Value {
    let deployment = feed(&templates(0)[2]);
    let value = json!({"metadata": {"annotations": {NOTE: note}}});
    json!({
        "apiVersion": apps::LOCALIZATIONS.api_version(), "kind": "Localization",
        "metadata": {"name": NOTE, "namespace": namespace},
        "spec": {"overridePolicy": "ApplyNow", "feed": deployment, "overrides": [
            {"name": NOTE, "type": "MergePatch", "value": value.to_string()},
        ]},
    })
}

/// The kind of an object once more, where writing it makes a template.
pub(super) fn shadow(object: &Value) -> ApiResource {
    let ApiResource {
        plural,
        kind,
        namespaced,
        ..
    } = resource(object);
    ApiResource {
        group: "shadow".into(),
        version: "v1alpha1".into(),
        plural,
        kind,
        namespaced,
    }
}

pub(super) fn namespace(object: &Value) -> Option<&str> {
    Some(meta::namespace(object)).filter(|namespace| !namespace.is_empty())
}

/// A client that counts in a ConfigMap, and minds when a number that was acknowledged is forgotten.
async fn count(client: Client, stop: CancellationToken) -> Result<(), String> {
    let maps = &kubernetes::CONFIG_MAPS;
    let (mut next, mut acknowledged) = (1_u64, 0_u64);
    while !stop.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        let found = match client.get_opt(maps, Some("default"), "count").await {
            Ok(found) => found,
            Err(_) => continue,
        };
        let number = found
            .as_ref()
            .and_then(|map| map["data"]["number"].as_str()?.parse().ok())
            .unwrap_or(0_u64);
        if number < acknowledged {
            return Err(format!(
                "a client counted to {acknowledged}, and the parent has {number}"
            ));
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "count", "namespace": "default"},
            "data": {"number": next.to_string()},
        });
        let written = match found {
            None => client.create(maps, Some("default"), &map).await,
            Some(_) => {
                client
                    .patch(maps, Some("default"), "count", None, Patch::Merge, &map)
                    .await
            }
        };
        if written.is_ok() {
            acknowledged = next;
        }
        next += 1;
    }
    Ok(())
}
