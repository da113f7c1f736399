//! Fail-over: what becomes of divided replicas while clusters are not ready.
//!
//! A cluster that is not ready keeps its replicas for as long as the Subscription tolerates it; then they go to others, if
//! others fit, and come back some time after it is ready again. One that comes and goes moves nothing until it is
//! steady. Replicas that may not run twice stay with a cluster that may still run them.
//!
//! Whole objects never leave a cluster that is not ready: they are everywhere else already.

use std::collections::BTreeMap;
use std::time::Duration;

use api::annotations::FENCED;
use api::feed::Feed;
use api::{clusters, reasons, turns};
use jiff::Timestamp;
use serde_json::Value;

use crate::decision::Snapshot;
use crate::model::{Bound, Cluster, ClusterKey, Wanted};
use crate::taints::{self, Toleration};

/// For how long a cluster may be not ready before its replicas go elsewhere, where a Subscription says nothing else.
pub const TOLERATED: Duration = Duration::from_mins(5);
/// How long a cluster has to be ready again before replicas come back.
pub const SETTLED: Duration = Duration::from_mins(1);
/// How many turns within [`FLAPPING_SPAN`] a cluster may make that does not come and go.
pub const FLAPPING_TURNS: usize = 3;
/// See [`FLAPPING_TURNS`].
pub const FLAPPING_SPAN: Duration = Duration::from_mins(30);
/// How long a cluster that came and went has to stay as it is before anything moves.
pub const STEADY: Duration = Duration::from_mins(10);
/// How many clusters a message names.
const NAMED: usize = 8;

/// Whether clusters that are not ready lose their replicas to others (the gate `FailOver`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOver {
    /// They do.
    On,
    /// They keep all.
    Off,
}

/// What is known of a cluster's readiness.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether its condition `Ready` is true; none without the condition.
    pub ready: Option<bool>,
    /// When that began, as the condition says.
    pub since: Option<Timestamp>,
    /// The turns that the parent saw, oldest first.
    pub turns: Vec<(Timestamp, bool)>,
    /// Whether a person says that it runs nothing any more.
    pub fenced: bool,
}

impl Health {
    /// Of a ManagedCluster.
    pub fn from_value(object: &Value) -> Self {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.find(|it| it["type"] == reasons::READY);
        let time = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        Self {
            ready: ready.map(|it| it["status"] == "True"),
            since: ready.and_then(|it| time(it["lastTransitionTime"].as_str())),
            turns: turns::of(object)
                .filter_map(|turn| Some((time(Some(turn.at))?, turn.ready)))
                .collect(),
            fenced: clusters::is_fenced(object),
        }
    }

    /// Since when it is as it is, by the parent's clock if that saw it turn.
    fn since(&self) -> Option<Timestamp> {
        match self.turns.last() {
            Some((at, ready)) if Some(*ready) == self.ready => Some(*at),
            Some(_) | None => self.since,
        }
    }

    /// Until when it has to stay as it is, if it came and went too often.
    fn flaps_until(&self) -> Option<Timestamp> {
        let (last, _) = *self.turns.last()?;
        let begin = last.checked_sub(FLAPPING_SPAN).unwrap_or(Timestamp::MIN);
        // The first thing that is known of a cluster is no turn, unless earlier ones are forgotten.
        let known = usize::from(self.turns.len() < turns::KEPT);
        let many = self
            .turns
            .iter()
            .skip(known)
            .filter(|(at, _)| *at > begin)
            .count();
        (many > FLAPPING_TURNS).then(|| later(last, STEADY))
    }

    /// Until when replicas do not come back, if it was not ready before.
    fn back_until(&self) -> Option<Timestamp> {
        let was_away = self.turns.iter().any(|(_, ready)| !ready);
        was_away.then(|| Some(later(self.since()?, SETTLED))).flatten()
    }
}

/// A time after another; the last there is for those that are beyond it.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Why a cluster that is not ready keeps its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// The gate is closed.
    Off,
    /// Not for as long as is tolerated yet.
    Waiting,
    /// It comes and goes.
    Flapping,
    /// Nobody else fits.
    NoTarget,
}

/// What a cluster's readiness means for divided replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It is not ready, and keeps what it has.
    Keeps(Keeps),
    /// It is not ready, and what it has goes elsewhere.
    Lost { fenced: bool },
    /// It is ready, and gets nothing back yet.
    Returning { flapping: bool },
}

/// What a cluster's readiness means, and until when if time alone ends that; `None` if it means nothing.
fn presence(
    cluster: &Cluster,
    tolerations: &[Toleration],
    (fail_over, now): (FailOver, Option<Timestamp>),
) -> Option<(Presence, Option<Timestamp>)> {
    let health = &cluster.health;
    let away = cluster
        .taints
        .iter()
        .any(|taint| taint.means_not_ready() && taints::keeps_off(taint, tolerations));
    let is_later = |until: &Timestamp| now.is_some_and(|now| now < *until);
    let flaps = health.flaps_until().filter(is_later);
    // The taint of one that is ready again is about to go.
    if !away || health.ready == Some(true) {
        if fail_over == FailOver::Off {
            return away.then_some((Presence::Keeps(Keeps::Off), None));
        }
        let until = flaps.or_else(|| health.back_until().filter(is_later));
        let flapping = flaps.is_some();
        return (away || until.is_some()).then_some((Presence::Returning { flapping }, until));
    }
    let lost = Presence::Lost {
        fenced: health.fenced,
    };
    if fail_over == FailOver::Off {
        return Some((Presence::Keeps(Keeps::Off), None));
    }
    if health.fenced {
        return Some((lost, None));
    }
    if let Some(until) = flaps {
        return Some((Presence::Keeps(Keeps::Flapping), Some(until)));
    }
    let patience = taints::patience(tolerations);
    let tolerated = health.since().map(|since| later(since, patience));
    match tolerated.filter(is_later) {
        Some(until) => Some((Presence::Keeps(Keeps::Waiting), Some(until))),
        None => Some((lost, None)),
    }
}

/// Whether clusters that are only just ready again get nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strict {
    Yes,
    No,
}

/// The clusters whose readiness matters to a Subscription that is divided.
#[derive(Debug, Default)]
pub(crate) struct Outages<'a> {
    of: BTreeMap<&'a ClusterKey, (Presence, Option<Timestamp>)>,
    bound: Option<&'a Bound>,
    /// Where those of them that are bound stand in the binding.
    places: BTreeMap<&'a ClusterKey, usize>,
}

impl<'a> Outages<'a> {
    /// Of a Subscription. `has_target` says whether a cluster that is meant and ready could take replicas.
    pub(crate) fn of(snapshot: &Snapshot<'a>, has_target: impl Fn(&Cluster) -> bool) -> Self {
        let (subscription, clusters) = (snapshot.subscription, snapshot.clusters);
        let time = (snapshot.fail_over, snapshot.now);
        let bound = &subscription.bound;
        let is_placed = !bound.clusters.is_empty();
        let seen = |cluster: &'a Cluster| {
            let (presence, until) = presence(cluster, &subscription.tolerations, time)?;
            // Whoever has no place yet takes what is ready.
            let matters = match presence {
                Presence::Returning { .. } => is_placed,
                Presence::Keeps(_) | Presence::Lost { .. } => true,
            };
            (matters && !cluster.deleting).then_some((&cluster.key, (presence, until)))
        };
        let affinities = subscription.subscribers.iter().map(|it| &it.affinity);
        let meant = clusters.selected_by_any(affinities);
        let meant = || meant.iter().map(|slot| clusters.cluster(*slot));
        let held = bound.clusters.iter().filter_map(|key| clusters.get(key));
        let mut outages = Self {
            of: meant().chain(held).filter_map(seen).collect(),
            bound: Some(bound),
            places: BTreeMap::new(),
        };
        if outages.of.is_empty() {
            return outages;
        }
        let places = bound.clusters.iter().map(|key| &**key).zip(0..);
        outages.places = places.filter(|(key, _)| outages.of.contains_key(key)).collect();
        let is_lost = |key: &&ClusterKey| matches!(outages.of.get(key), Some((Presence::Lost { .. }, _)));
        let any_lost = outages.places.keys().any(is_lost);
        let takes = |cluster: &Cluster| !outages.of.contains_key(&cluster.key) && has_target(cluster);
        if any_lost && !meant().any(takes) {
            for (presence, _) in outages.of.values_mut() {
                if matches!(presence, Presence::Lost { .. }) {
                    *presence = Presence::Keeps(Keeps::NoTarget);
                }
            }
        }
        outages
    }

    fn presence(&self, key: &ClusterKey) -> Option<Presence> {
        self.of.get(key).map(|(presence, _)| *presence)
    }

    /// How many replicas of a feed a cluster has.
    fn share(&self, feed: &Feed, key: &ClusterKey) -> i64 {
        let share = || {
            let index = *self.places.get(key)?;
            self.bound?.replicas.get(&feed.key())?.get(index).copied()
        };
        share().unwrap_or(0)
    }

    /// Whether a cluster stays in spite of not being ready, if it is bound; of those that are lost, the ones that may still
    /// run what may not run twice.
    pub(crate) fn stays(&self, key: &ClusterKey, wanted: &[Wanted]) -> bool {
        match self.presence(key) {
            Some(Presence::Keeps(_)) | Some(Presence::Returning { .. }) => true,
            Some(Presence::Lost { .. }) => wanted.iter().any(|wanted| self.counts(key, wanted)),
            None => false,
        }
    }

    /// Whether a cluster that is ready gets nothing before it is steady, unless it is bound.
    pub(crate) fn waits(&self, key: &ClusterKey) -> bool {
        matches!(self.presence(key), Some(Presence::Returning { .. }))
    }

    /// Whether a cluster takes part in the division of a feed: one that is lost does where it may still run what may not run
    /// twice.
    pub(crate) fn counts(&self, key: &ClusterKey, wanted: &Wanted) -> bool {
        match self.presence(key) {
            None | Some(Presence::Keeps(_) | Presence::Returning { .. }) => true,
            Some(Presence::Lost { fenced }) => {
                wanted.stateful && !fenced && self.share(&wanted.feed, key) > 0
            }
        }
    }

    /// How many replicas of a feed a cluster can have at most: nobody gets more before it is steady, unless there is
    /// nobody else.
    pub(crate) fn cap(&self, key: &ClusterKey, wanted: &Wanted, strict: Strict) -> Option<u32> {
        match (self.presence(key)?, strict) {
            (Presence::Returning { flapping: false }, Strict::No) => None,
            _ if self.counts(key, wanted) => {
                Some(u32::try_from(self.share(&wanted.feed, key).max(0)).unwrap_or(u32::MAX))
            }
            _ => Some(0),
        }
    }

    /// Whether a cluster's replicas go elsewhere, but for those that may not run twice.
    pub(crate) fn is_lost(&self, key: &ClusterKey) -> bool {
        matches!(self.presence(key), Some(Presence::Lost { .. }))
    }

    /// Whether a cluster can be given more than it has.
    pub(crate) fn can_take(&self, key: &ClusterKey) -> bool {
        match self.presence(key) {
            None | Some(Presence::Returning { flapping: false }) => true,
            Some(Presence::Keeps(_) | Presence::Lost { .. } | Presence::Returning { flapping: true }) => {
                false
            }
        }
    }

    /// What people are told. `left` says whether replicas that found no room stay with clusters that are lost.
    pub(crate) fn report(&self, snapshot: &Snapshot<'_>, wanted: &[Wanted], left: bool) -> Report {
        let mut groups: BTreeMap<Group, Vec<String>> = BTreeMap::new();
        let mut again: Option<Timestamp> = None;
        for (key, (presence, until)) in &self.of {
            let is_bound = self.places.contains_key(*key);
            again = [again, *until].into_iter().flatten().min();
            let group = match presence {
                Presence::Keeps(Keeps::Off) => Group::Off,
                // Nothing of it is there.
                Presence::Keeps(_) if !is_bound => Group::Moved,
                Presence::Keeps(Keeps::NoTarget) => Group::NoTarget,
                Presence::Keeps(Keeps::Flapping) => Group::Flapping,
                Presence::Keeps(Keeps::Waiting) => Group::Waiting,
                Presence::Lost { .. } if wanted.iter().any(|wanted| self.counts(key, wanted)) => {
                    Group::Stateful
                }
                Presence::Lost { .. } if left && is_bound => Group::NoTarget,
                Presence::Lost { .. } => Group::Moved,
                // It is ready, and may have fewer replicas than it should.
                Presence::Returning { flapping: true } => Group::Flapping,
                // It is ready and has its replicas.
                Presence::Returning { flapping: false } if is_bound => continue,
                Presence::Returning { flapping: false } => Group::Returning,
            };
            let until = until.map(|until| format!(" (until {until:.0})"));
            let names = groups.entry(group).or_default();
            names.push(format!("{}{}", key.name, until.unwrap_or_default()));
        }
        if snapshot.fail_over == FailOver::Off {
            groups.entry(Group::Off).or_default();
        }
        let moved = [Group::Moved, Group::Returning];
        let parts: Vec<String> = groups.iter().map(|(group, names)| group.told(names)).collect();
        Report {
            active: moved.iter().any(|group| groups.contains_key(group)),
            reason: groups.keys().next().map_or(IDLE, |group| group.reason()),
            message: if parts.is_empty() {
                "every cluster that is meant is ready".to_owned()
            } else {
                parts.join("; ")
            },
            again,
        }
    }
}

/// The reason while there is nothing to tell.
pub const IDLE: &str = "AllReady";
/// The reason while nothing moves because clusters come and go.
pub const FLAPPING: &str = "Flapping";

/// What is told of clusters together, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Off,
    NoTarget,
    Stateful,
    Flapping,
    Waiting,
    Moved,
    Returning,
}

impl Group {
    fn reason(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::NoTarget => "NoTarget",
            Self::Stateful => "Stateful",
            Self::Flapping => FLAPPING,
            Self::Waiting => "Waiting",
            Self::Moved | Self::Returning => "Moved",
        }
    }

    fn told(self, names: &[String]) -> String {
        let mut list: String = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if names.len() > NAMED {
            list.push_str(&format!(" and {} more", names.len() - NAMED));
        }
        match self {
            Self::Off if names.is_empty() => "the gate FailOver is closed".to_owned(),
            Self::Off => {
                format!("the gate FailOver is closed, so what is not ready keeps its replicas: {list}")
            }
            Self::NoTarget => {
                format!("no other cluster fits, so what is not ready keeps its replicas: {list}")
            }
            Self::Stateful => format!(
                "replicas that may not run twice stay where they may still run: {list}; where they do not, delete the \
                 ManagedCluster or label it {FENCED}=true"
            ),
            Self::Flapping => format!("ready too seldom or too shortly, so nothing moves: {list}"),
            Self::Waiting => format!("not ready, but not for long enough to move replicas: {list}"),
            Self::Moved => format!("replicas are elsewhere, because these are not ready: {list}"),
            Self::Returning => format!("ready again, but not for long enough to get replicas back: {list}"),
        }
    }
}

/// How fail-over stands for a Subscription: its condition `FailOver`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whether replicas are elsewhere because of clusters that are not ready.
    pub active: bool,
    /// One word: `Off`, `NoTarget`, `Stateful`, `Flapping`, `Waiting`, `Moved`, or [`IDLE`].
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// When to decide again, though nothing changes.
    pub again: Option<Timestamp>,
}

#[cfg(test)]
#[path = "outage_tests.rs"]
mod tests;
