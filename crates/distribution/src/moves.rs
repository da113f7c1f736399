//! What the two ways of moving replicas between clusters look at: never fewer than a floor ([`crate::floor`]), and never
//! more than are wanted ([`crate::stateful`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use api::clusters;
use api::entry::{self, Entry};
use machinery::meta;
use serde_json::Value;

use crate::feed::Feed;

/// What is known of a Subscription and one of its clusters.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// What of it is divided.
    pub inventory: Option<&'a Value>,
    /// The dedicated namespace of the cluster.
    pub namespace: &'a str,
    /// The Descriptions of the cluster's Base.
    pub own: &'a [Arc<Value>],
    /// Every Description of the Subscription, those that go as well. Asked for only where replicas are to move: there may
    /// be thousands.
    pub all: &'a dyn Fn() -> Vec<Arc<Tally>>,
    /// The ManagedClusters of a dedicated namespace.
    pub clusters: &'a dyn Fn(&str) -> Vec<Arc<Value>>,
}

impl<'a> Situation<'a> {
    /// How many replicas of a feed there are to be in all.
    pub(crate) fn desired(&self, feed: &Feed) -> Option<u64> {
        let mut entries = self.inventory?["spec"]["feeds"].as_array()?.iter();
        entries
            .find(|entry| Feed::from_value(entry).is_same(feed))?
            .get("desiredReplicas")?
            .as_u64()
    }

    /// The clusters that are bound, by their namespaces and in the order of the binding, and how many replicas of a feed
    /// each is to have.
    pub(crate) fn shares(&self, feed: &Feed) -> Option<Vec<(&'a str, u64)>> {
        let status = &self.subscription["status"];
        let shares = status["replicas"][feed.key()].as_array()?;
        let bound = status["bindingClusters"].as_array()?.iter().zip(shares);
        let share =
            |(key, share): (&'a Value, &Value)| Some((key.as_str()?.split_once('/')?.0, share.as_u64()?));
        Some(bound.filter_map(share).collect())
    }

    /// Whether a cluster is heard of: what was last said of one that is not may no longer be so.
    pub(crate) fn is_ready(&self, home: &str) -> bool {
        (self.clusters)(home).iter().any(|it| clusters::is_ready(it))
    }

    /// Whether a cluster may still run what it was given.
    pub(crate) fn may_run(&self, home: &str) -> bool {
        (self.clusters)(home).iter().any(|it| !clusters::is_fenced(it))
    }
}

/// A Description, and the numbers of replicas that it delivers and that its cluster says there are. They are read once,
/// however many clusters of the Subscription are looked at.
#[derive(Debug)]
pub struct Tally {
    description: Arc<Value>,
    reports: OnceLock<Vec<Report>>,
    /// By feed and path.
    delivered: Mutex<Vec<(Feed, String, Option<u64>)>>,
}

/// What a cluster says of one object.
#[derive(Debug)]
struct Report {
    feed: Feed,
    replicas: Option<u64>,
    ready: Option<u64>,
}

impl Tally {
    /// Of a Description.
    pub fn of(description: &Arc<Value>) -> Self {
        Self {
            description: Arc::clone(description),
            reports: OnceLock::new(),
            delivered: Mutex::default(),
        }
    }

    /// The Description.
    pub fn description(&self) -> &Arc<Value> {
        &self.description
    }

    /// The dedicated namespace of its cluster.
    pub(crate) fn home(&self) -> &str {
        meta::namespace(&self.description)
    }

    fn report(&self, feed: &Feed) -> Option<&Report> {
        let read = |entry: &Value| {
            let number = |field: &str| entry["observedStatus"][field].as_u64();
            Report {
                feed: Feed::from_value(entry),
                replicas: number("replicas"),
                ready: number("readyReplicas"),
            }
        };
        let entries = || {
            let entries = self.description["status"]["manifestStatuses"].as_array();
            entries.into_iter().flatten().map(read).collect()
        };
        let mut reports = self.reports.get_or_init(entries).iter();
        reports.find(|report| report.feed.is_same(feed))
    }

    /// How many replicas of a feed its cluster says are ready.
    pub(crate) fn ready(&self, feed: &Feed) -> u64 {
        let report = self
            .report(feed)
            .filter(|_| !meta::is_deleting(&self.description));
        report.and_then(|report| report.ready).unwrap_or(0)
    }

    /// How many replicas of a feed its cluster says there are.
    pub(crate) fn running(&self, feed: &Feed) -> Option<u64> {
        self.report(feed)?.replicas
    }

    /// How many replicas of a feed it delivers now.
    pub(crate) fn delivers(&self, feed: &Feed, path: &str) -> Option<u64> {
        let mut known = self.delivered.lock().expect("no holder panics");
        let read = known.iter().find(|(of, at, _)| of == feed && at == path);
        if let Some((_, _, replicas)) = read {
            return *replicas;
        }
        let replicas = delivered(std::slice::from_ref(&self.description), feed, path);
        known.push((feed.clone(), path.to_owned(), replicas));
        replicas
    }
}

/// Tallies by the dedicated namespaces of their clusters.
pub(crate) fn by_home(all: &[Arc<Tally>]) -> BTreeMap<&str, Vec<&Tally>> {
    let mut of_home: BTreeMap<&str, Vec<&Tally>> = BTreeMap::new();
    for tally in all {
        of_home.entry(tally.home()).or_default().push(tally);
    }
    of_home
}

/// How many replicas of a feed the Descriptions of a cluster deliver now.
pub(crate) fn delivered(descriptions: &[Arc<Value>], feed: &Feed, path: &str) -> Option<u64> {
    let live = descriptions.iter().filter(|it| !meta::is_deleting(it));
    let mut entries = live.flat_map(|it| entry::entries(it));
    match entries.find(|entry| entry.feed().is_same(feed))? {
        Entry::Object(object) => object.pointer(path)?.as_u64(),
        // Nothing that is divided is packed so.
        Entry::Reference(_) | Entry::Sealed(_) => None,
    }
}
