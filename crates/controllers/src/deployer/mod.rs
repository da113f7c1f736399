//! Subscription → Base → Description → status: the shell around `distribution`'s plans.
//!
//! One task reads the changes of all caches and says which objects have to be looked at ([`route`]); workers look at
//! them ([`work`]). Plans are level-triggered: it does not matter which change, or how many, woke them.

mod indexes;
mod rollout;
mod route;
mod settle;
mod waits;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::entry::Digest;
use api::{apps, clusters, kubernetes, payloads, rollouts};
use distribution::protection::InUse;
use distribution::replicas::OwnKinds;
use distribution::version::Version;
use kubeio::{Changes, ObjectKey, Queue, QueueOptions};
use machinery::ApiResource;
use runtime::CancellationToken;

use crate::config::Config;
use crate::deployer::indexes::Indexes;
use crate::deployer::settle::Settle;
use crate::deployer::waits::Waits;
use crate::seal::Sealer;
use crate::shared::Shared;

/// One object to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    /// A Subscription's Bases.
    Subscription(ObjectKey),
    /// A Base's Descriptions.
    Base(ObjectKey),
    /// A Description that goes.
    Description(ObjectKey),
    /// A Subscription's status.
    Status(ObjectKey),
    /// A Subscription's FeedInventory.
    Inventory(ObjectKey),
    /// A Manifest's protection.
    Manifest(ObjectKey),
    /// A payload, which may be used no longer.
    Payload(Digest),
    /// A HelmChart's protection.
    Chart(ObjectKey),
    /// A Localization, or without a namespace a Globalization.
    Policy(ObjectKey),
    /// The Rollouts of a Subscription, by its key: one at a time, whichever of them counts.
    Rollout(ObjectKey),
}

pub(crate) struct Deployer {
    shared: Arc<Shared>,
    sealer: Arc<Sealer>,
    indexes: Mutex<Indexes>,
    queue: Queue<Job>,
    /// Whether FeedInventories are made here.
    feed_inventory: bool,
    own_kinds: OwnKinds,
    in_use: InUse,
    settle: Settle,
    waits: Waits,
    reserved_namespace: String,
    /// Versions that were read, by their Subscription's uid and their name: they never change.
    versions: Mutex<BTreeMap<(String, String), Arc<Version>>>,
}

impl Deployer {
    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        self.indexes.lock().expect("no holder panics")
    }
}

/// Runs the group until the token is cancelled.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    config: &Config,
    sealer: &Arc<Sealer>,
    stop: &CancellationToken,
) {
    let options = QueueOptions {
        base: Duration::from_millis(20),
        max: Duration::from_secs(30),
    };
    let deployer = Deployer {
        shared: Arc::clone(shared),
        sealer: Arc::clone(sealer),
        indexes: Mutex::new(Indexes::new(shared)),
        queue: Queue::new(options),
        feed_inventory: config.feed_inventory,
        own_kinds: config.own_kinds.clone(),
        in_use: config.in_use,
        settle: Settle::new(config.settle),
        waits: Waits::default(),
        reserved_namespace: config.reserved_namespace.clone(),
        versions: Mutex::default(),
    };
    let subscribe = |resource: &ApiResource| shared.cache(resource).subscribe();
    let changes = Sources {
        subscriptions: subscribe(&apps::SUBSCRIPTIONS),
        bases: subscribe(&apps::BASES),
        descriptions: subscribe(&apps::DESCRIPTIONS),
        manifests: subscribe(&apps::MANIFESTS),
        charts: subscribe(&apps::HELM_CHARTS),
        releases: subscribe(&apps::HELM_RELEASES),
        globalizations: subscribe(&apps::GLOBALIZATIONS),
        localizations: subscribe(&apps::LOCALIZATIONS),
        inventories: subscribe(&apps::FEED_INVENTORIES),
        clusters: subscribe(&clusters::MANAGED_CLUSTERS),
        namespaces: subscribe(&kubernetes::NAMESPACES),
        payloads: subscribe(&payloads::PAYLOADS),
        rollouts: subscribe(&rollouts::ROLLOUTS),
        revisions: subscribe(&kubernetes::SECRETS),
    };
    tokio::select! {
        biased;
        () = deployer.route(changes) => {}
        () = deployer.queue.serve(config.workers, stop, |job| deployer.work(job)) => {}
    }
}

/// The changes of every kind that matters here.
struct Sources {
    subscriptions: Changes,
    bases: Changes,
    descriptions: Changes,
    manifests: Changes,
    charts: Changes,
    releases: Changes,
    globalizations: Changes,
    localizations: Changes,
    inventories: Changes,
    clusters: Changes,
    namespaces: Changes,
    payloads: Changes,
    rollouts: Changes,
    revisions: Changes,
}
