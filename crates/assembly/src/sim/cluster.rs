//! One simulated control plane: it starts from its disk, dies, and starts again.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::authn::{self, Anonymous, Authenticator};
use apiserver::authz::Rbac;
use apiserver::bootstrap_policy::Facts;
use apiserver::controllers;
use apiserver::tokens::{DEFAULT_ISSUER, TokenKeys};
use apiserver::{ApiServer, UserInfo};
use clock::disk::SimDisk;
use clock::{Clock, Env, SeededRandom};
use hub::Hub;
use jiff::{SignedDuration, Timestamp};
use kubeio::Client;
use machinery::ApiResource;
use members::SimulatedPods;
use runtime::{BoxError, CancellationToken};
use serde_json::Value;
use source::ObjectSource as _;
use store::{Mode, Options, Store};
use tokio::sync::watch;
use tokio::time::Instant;

use super::door::{Behind, Door, Fuse, Identity, Way};
use super::link::Link;
use super::recorded::{Promises, Recorded};
use super::trace::Trace;
use crate::ensure;

/// What clients of a simulated cluster are told to trust; nobody checks it.
pub(crate) const AUTHORITY_PEM: &str =
    "-----BEGIN CERTIFICATE-----\nc2ltdWxhdGVk\n-----END CERTIFICATE-----\n";

/// When every run begins.
const BEGINNING: &str = "2026-01-01T00:00:00Z";

/// Wall time of one cluster: the runtime's paused time, and how wrong its clock is.
#[derive(Debug)]
pub(crate) struct SimClock {
    start: Instant,
    base: Timestamp,
    /// In milliseconds.
    wrong: AtomicI64,
}

impl SimClock {
    fn new(base: &str, wrong: SignedDuration) -> Self {
        Self {
            start: Instant::now(),
            base: base.parse().expect("it is a time"),
            wrong: AtomicI64::new(i64::try_from(wrong.as_millis()).unwrap_or(0)),
        }
    }

    /// Somebody sets it: it jumps.
    pub(crate) fn set_forward(&self, millis: i64) {
        self.wrong.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        let wrong = SignedDuration::from_millis(self.wrong.load(Ordering::Relaxed));
        self.base
            .saturating_add(elapsed.saturating_add(wrong))
            .expect("an absolute duration always adds")
    }
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// The machine loses power: what was not synced may be gone.
    PowerLoss,
    /// The process is killed: everything written is still there.
    Kill,
}

/// What a cluster starts with.
pub(crate) struct Blueprint {
    /// Its name.
    pub(crate) name: String,
    /// The run's seed.
    pub(crate) seed: u64,
    /// How wrong its clock is.
    pub(crate) skew: SignedDuration,
    /// What is made there before anybody comes.
    pub(crate) objects: Vec<Value>,
    /// Whether a hub runs in its process.
    pub(crate) hub: bool,
}

/// A cluster.
pub(crate) struct Cluster {
    pub(crate) blueprint: Blueprint,
    pub(crate) disk: SimDisk,
    pub(crate) door: Arc<Door>,
    /// Held by whoever lets it die, until it is there again.
    pub(crate) dying: tokio::sync::Mutex<()>,
    /// Of everything in it.
    pub(crate) clock: Arc<SimClock>,
    env: Env,
    tokens: Arc<TokenKeys>,
    trace: Trace,
    promises: Arc<Mutex<Promises>>,
    hub: Mutex<Option<Hub>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.blueprint.name)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// A cluster with an empty disk, not yet started.
    pub(crate) fn new(blueprint: Blueprint, trace: Trace) -> Result<Self, BoxError> {
        let Blueprint { name, seed, .. } = &blueprint;
        let clock = Arc::new(SimClock::new(BEGINNING, blueprint.skew));
        let env = environment(*seed, name, &clock);
        let tokens = TokenKeys::seeded(&env, DEFAULT_ISSUER, &[DEFAULT_ISSUER.to_owned()])?;
        let mut random = clock::SplitMix::named(*seed, &format!("{name} disk"));
        Ok(Self {
            disk: SimDisk::new(random.next()),
            door: Arc::default(),
            dying: tokio::sync::Mutex::default(),
            clock,
            env,
            tokens: Arc::new(tokens),
            trace,
            promises: Arc::default(),
            hub: Mutex::default(),
            blueprint,
        })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.blueprint.name
    }

    /// Time and randomness for a part that runs in this cluster.
    pub(crate) fn environment(&self, part: &str) -> Env {
        let Blueprint { name, seed, .. } = &self.blueprint;
        environment(*seed, &format!("{name} {part}"), &self.clock)
    }

    /// A client of this cluster.
    pub(crate) fn client(&self, user: UserInfo, link: &Link, fuse: &Arc<Fuse>) -> Client {
        Client::from_service(Way {
            door: self.door.clone(),
            identity: Identity::User(user),
            link: link.clone(),
            fuse: fuse.clone(),
            process: None,
        })
    }

    /// A client that no fault of a link reaches.
    pub(crate) fn administrator(&self) -> Client {
        let link = Link::new(self.blueprint.seed, "administrator", Duration::ZERO);
        self.client(UserInfo::loopback(), &link, &Arc::default())
    }

    /// The clusters that have a tunnel here.
    pub(crate) fn tunnels(&self) -> usize {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        hub.as_ref().map_or(0, |hub| hub.registry().connected().len())
    }

    /// Starts from the disk. What was acknowledged must be there.
    ///
    /// # Errors
    /// What does not start.
    pub(crate) async fn start(&self) -> Result<(), BoxError> {
        // Small, so that old events are forgotten, segments end and snapshots are made within a run.
        let options = Options {
            window_events: 300,
            segment_bytes: 128 << 10,
            snapshot_bytes: 256 << 10,
            reserve_bytes: 16 << 10,
            ..Options::new(self.environment("store"))
        };
        let store = Store::open(Arc::new(self.disk.clone()), options, Mode::Inline)?;
        // Nobody else holds it: the last process is dead.
        let mut promises = std::mem::take(&mut *self.promises.lock().unwrap_or_else(PoisonError::into_inner));
        for broken in promises.check(&store).await {
            self.trace
                .violation(format!("{} broke a promise: {broken}", self.name()));
        }
        if let Some((key, found)) = promises.resolved.take() {
            let new = found.as_ref().map(|object| &*object.json);
            self.trace.written(self.name(), &key, new);
        }
        *self.promises.lock().unwrap_or_else(PoisonError::into_inner) = promises;

        let revision = store.revision();
        let dead = CancellationToken::new();
        let source = Arc::new(Recorded::new(
            self.name(),
            store,
            self.disk.clone(),
            self.trace.clone(),
            self.promises.clone(),
            dead.clone(),
        ));
        let authenticator = Authenticator::new(authn::Config {
            source: source.clone(),
            env: self.env.clone(),
            tokens: self.tokens.clone(),
            client_authorities_pem: None,
            front_proxy: None,
            anonymous: Anonymous::Allowed,
        })?;
        let server = ApiServer::start(apiserver::Config {
            authenticator: Some(Arc::new(authenticator)),
            pods: Some(Arc::new(SimulatedPods)),
            guard: Some(api::install::limits::refusal),
            ..apiserver::Config::new(
                source.clone(),
                self.env.clone(),
                Arc::new(Rbac::new(source.clone())),
            )
        })
        .await?;
        let facts = Facts {
            authority_pem: Some(AUTHORITY_PEM.to_owned()),
            ..Facts::default()
        };
        drop(controllers::govern(&server, facts, &dead).await?);
        let client = Client::from_service(server.client_service(UserInfo::loopback()));
        ensure(&client, &resources(), &self.blueprint.objects).await?;
        if self.blueprint.hub {
            let user = UserInfo::service_account(api::names::SYSTEM_NAMESPACE, api::names::HUB);
            // Through the door and not to the server itself: the two would keep each other alive.
            let client = Client::from_service(Way {
                door: self.door.clone(),
                identity: Identity::User(user),
                link: Link::new(self.blueprint.seed, "hub", Duration::ZERO),
                fuse: Arc::default(),
                process: Some(dead.clone()),
            });
            let hub = Hub::new(
                client,
                self.environment("hub"),
                hub::Config::default(),
                dead.clone(),
            );
            for group in hub.groups() {
                server.add_group(group);
            }
            *self.hub.lock().unwrap_or_else(PoisonError::into_inner) = Some(hub);
        }
        self.door.open(Behind { server, dead });
        self.trace
            .line(self.name(), &format!("started, was at r{revision}"));
        Ok(())
    }

    /// Ends the process and everything in it.
    pub(crate) fn die(&self, death: Death) {
        if let Ok(behind) = self.door.behind() {
            behind.dead.cancel();
        }
        self.door.close();
        *self.hub.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match death {
            Death::PowerLoss => self.disk.restart(),
            Death::Kill => self.disk.kill(),
        }
    }
}

fn environment(seed: u64, part: &str, clock: &Arc<SimClock>) -> Env {
    Env {
        clock: clock.clone(),
        random: Arc::new(SeededRandom::named(seed, part)),
    }
}

/// How the kinds that a cluster begins with are addressed.
fn resources() -> BTreeMap<&'static str, ApiResource> {
    api::kubernetes::ALL
        .iter()
        .map(|resource| (kind(resource), resource.clone()))
        .collect()
}

fn kind(resource: &'static ApiResource) -> &'static str {
    &resource.kind
}

/// A part of the system that can be killed at any of its writes and comes back.
pub(crate) struct Role {
    /// Where it runs.
    pub(crate) cluster: String,
    /// What it is.
    pub(crate) name: &'static str,
    /// Kills it.
    pub(crate) fuse: Arc<Fuse>,
    /// What its requests to its own cluster go over.
    pub(crate) link: Link,
    /// Whether it is to run at all.
    pub(crate) wanted: watch::Sender<bool>,
    /// Runs it until it is dropped.
    pub(crate) run: Box<dyn Fn() -> RunningRole + Send + Sync>,
}

/// A role at work.
pub(crate) type RunningRole = std::pin::Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl Role {
    /// Runs it, again and again; `pauses` decides how long it is away.
    pub(crate) async fn keep(&self, trace: &Trace, pauses: &mut clock::SplitMix) {
        let (mut wanted, mut unwanted) = (self.wanted.subscribe(), self.wanted.subscribe());
        loop {
            // The sender lives as long as the role.
            if wanted.wait_for(|wanted| *wanted).await.is_err() {
                return;
            }
            let ended = tokio::select! {
                biased;
                () = self.fuse.blown() => End::Died,
                _ = unwanted.wait_for(|wanted| !*wanted) => End::Dismissed,
                ended = (self.run)() => End::ByItself(ended),
            };
            match ended {
                End::Died => trace.fault(&self.cluster, &format!("{} died", self.name)),
                End::Dismissed => {
                    trace.line(&self.cluster, &format!("{} is stopped", self.name));
                    continue;
                }
                End::ByItself(Ok(())) => {
                    trace.violation(format!("{} of {} ended by itself", self.name, self.cluster));
                }
                End::ByItself(Err(error)) => {
                    let error = runtime::Chain(&*error).to_string();
                    trace.violation(format!("{} of {} ended: {error}", self.name, self.cluster));
                }
            }
            tokio::time::sleep(Duration::from_millis(pauses.below(3_000) as u64 + 10)).await;
            trace.line(&self.cluster, &format!("{} starts again", self.name));
        }
    }
}

/// How a role's life ends.
enum End {
    Died,
    Dismissed,
    ByItself(Result<(), BoxError>),
}
