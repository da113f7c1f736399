//! The decision itself: [`place`].

use std::collections::BTreeMap;
use std::fmt;

use crate::admission;
use crate::bind::Binding;
use crate::config::{Plugin, Point, Profile};
use crate::divide;
use crate::model::{Cluster, ClusterKey, Inventory, Strategy, Subscription, selects};
use crate::sampling;
use crate::score;
use crate::taints::{self, Taint};

/// Everything one decision may look at.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// What is to be placed.
    pub subscription: &'a Subscription,
    /// Every cluster there is.
    pub clusters: &'a BTreeMap<ClusterKey, Cluster>,
    /// The inventory of the same name, read only for the dividing strategies.
    pub inventory: Option<&'a Inventory>,
    /// The plugins of the Subscription's scheduler name.
    pub profile: &'a Profile,
    /// `percentageOfClustersToScore`, 0 for adaptive.
    pub percentage_to_score: u8,
    /// Where sampling starts among the candidates: advance it by each decision, for fairness.
    pub start: usize,
}

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// What to do.
    pub decision: Decision,
    /// What was found about each cluster, in the order of their keys.
    pub verdicts: BTreeMap<ClusterKey, Verdict>,
}

/// What the scheduler is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Write this binding.
    Bind(Binding),
    /// No cluster fits: say so and keep the present binding, so that nobody loses the last copy without a
    /// replacement. Look again at the next event that matters.
    Unfit {
        /// Why.
        error: FitError,
        /// The present binding without clusters that are gone or going, if there are any such.
        kept: Option<Binding>,
    },
    /// Something is still missing that brings its own event: say nothing, look again then.
    Waiting(Waiting),
    /// It cannot be decided: say so, try again after a back-off.
    Failed(Failure),
}

/// What a decision waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// A FeedInventory of the same name whose feeds are those of the Subscription.
    Inventory,
}

/// Why nothing could be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no cluster at all.
    #[error("no clusters available to schedule subscriptions")]
    NoClusters,
    /// Subgroups are asked for, but a subscriber lacks its strategy.
    #[error("spec.subscribers[{0}].subGroupStrategy is required while spec.schedulingBySubGroup is true")]
    SubGroupStrategyMissing(usize),
    /// Every subgroup is empty or wants none.
    #[error("no subgroup selects any of the {0} feasible cluster(s): raise subGroupStrategy.minClusters")]
    EmptySubGroups(usize),
    /// This build does not divide by capacity yet.
    #[error("spec.dividingScheduling.type \"Dynamic\" is not supported")]
    DynamicUnsupported,
}

impl Failure {
    /// Whether trying again later may help; the others wait for a change of the Subscription.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoClusters | Self::EmptySubGroups(_) => true,
            Self::SubGroupStrategyMissing(_) | Self::DynamicUnsupported => false,
        }
    }
}

/// No cluster fits. Its text is what events say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitError {
    /// How many clusters there are.
    pub total: usize,
    /// Each reason with the number of clusters it holds for.
    pub reasons: BTreeMap<String, usize>,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons: Vec<String> = self
            .reasons
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        reasons.sort();
        write!(f, "0/{} clusters are available", self.total)?;
        match reasons.join(", ") {
            none if none.is_empty() => f.write_str("."),
            reasons => write!(f, ": {reasons}."),
        }
    }
}

impl std::error::Error for FitError {}

/// What was found about one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is being deleted.
    Deleting,
    /// No subscriber's affinity matches its labels.
    Unmatched,
    /// There are so many candidates that this one was not looked at.
    Unsampled,
    /// A filter said no.
    Rejected {
        /// Which one.
        plugin: Plugin,
        /// Why.
        reason: String,
    },
    /// It would do.
    Feasible {
        /// Each plugin's opinion.
        scores: Vec<PluginScore>,
        /// Their weighted sum.
        total: i64,
        /// Whether it was taken.
        chosen: bool,
        /// The taint that would keep the Subscription off if it were not there already: kept although not ready.
        kept_despite: Option<Taint>,
    },
}

impl Verdict {
    /// Why the cluster is no choice, in the words of the fit error; `None` if it is one.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Deleting => Some("cluster(s) were being deleted".to_owned()),
            Self::Unmatched => Some("cluster(s) didn't match any subscriber's clusterAffinity".to_owned()),
            Self::Rejected { reason, .. } => Some(reason.clone()),
            Self::Unsampled | Self::Feasible { .. } => None,
        }
    }
}

/// One plugin's score of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginScore {
    /// Which plugin.
    pub plugin: Plugin,
    /// On the scale of 0 to 100.
    pub score: i64,
    /// What it is multiplied by.
    pub weight: i64,
}

/// Decides where a Subscription goes.
pub fn place(snapshot: &Snapshot<'_>) -> Placement {
    let mut verdicts = BTreeMap::new();
    let decision = decide(snapshot, &mut verdicts);
    Placement { decision, verdicts }
}

fn decide(snapshot: &Snapshot<'_>, verdicts: &mut BTreeMap<ClusterKey, Verdict>) -> Decision {
    let Snapshot {
        subscription,
        inventory,
        ..
    } = *snapshot;
    let inventory = match subscription.strategy {
        Strategy::Replication => None,
        Strategy::StaticDividing => match inventory {
            Some(inventory) if admission::is_inventory_current(subscription, inventory) => Some(inventory),
            Some(_) | None => return Decision::Waiting(Waiting::Inventory),
        },
        Strategy::DynamicDividing => return Decision::Failed(Failure::DynamicUnsupported),
    };
    if snapshot.clusters.is_empty() && subscription.bound.clusters.is_empty() {
        return Decision::Failed(Failure::NoClusters);
    }
    let feasible = filter(snapshot, verdicts);
    if feasible.is_empty() {
        let mut reasons = BTreeMap::new();
        for reason in verdicts.values().filter_map(Verdict::reason) {
            *reasons.entry(reason).or_default() += 1;
        }
        let error = FitError {
            total: snapshot.clusters.len(),
            reasons,
        };
        return Decision::Unfit {
            error,
            kept: kept(snapshot),
        };
    }
    let ranked = rank(snapshot, &feasible, verdicts);
    let chosen = match select(subscription, &ranked) {
        Ok(chosen) => chosen,
        Err(failure) => return Decision::Failed(failure),
    };
    for cluster in &chosen {
        if let Some(Verdict::Feasible { chosen, .. }) = verdicts.get_mut(&cluster.key) {
            *chosen = true;
        }
    }
    let replicas = inventory
        .map(|inventory| divide(subscription, inventory, &chosen))
        .unwrap_or_default();
    let keys = chosen.iter().map(|cluster| cluster.key.clone()).collect();
    Decision::Bind(Binding::new(keys, replicas, subscription.spec_hash))
}

/// What stays of the present binding; `None` if all of it does.
fn kept(snapshot: &Snapshot<'_>) -> Option<Binding> {
    let bound = &snapshot.subscription.bound;
    let stays = |key: &ClusterKey| {
        snapshot
            .clusters
            .get(key)
            .is_some_and(|cluster| !cluster.deleting)
    };
    if bound.clusters.iter().all(stays) {
        return None;
    }
    let pick = |list: &Vec<i64>| -> Vec<u32> {
        let places = bound.clusters.iter().zip(list).filter(|(key, _)| stays(key));
        places
            .map(|(_, replicas)| u32::try_from(*replicas).unwrap_or(0))
            .collect()
    };
    let replicas = bound
        .replicas
        .iter()
        .map(|(feed, list)| (feed.clone(), pick(list)))
        .collect();
    let clusters = bound.clusters.iter().filter(|key| stays(key)).cloned().collect();
    Some(Binding::new(clusters, replicas, bound.spec_hash.unwrap_or(0)))
}

/// The candidates that every filter lets pass, in the order of their keys.
fn filter<'a>(snapshot: &Snapshot<'a>, verdicts: &mut BTreeMap<ClusterKey, Verdict>) -> Vec<Candidate<'a>> {
    let subscription = snapshot.subscription;
    let mut candidates = Vec::new();
    for (key, cluster) in snapshot.clusters {
        if cluster.deleting {
            verdicts.insert(key.clone(), Verdict::Deleting);
        } else if subscription.matches(&cluster.labels) {
            candidates.push(cluster);
        } else {
            verdicts.insert(key.clone(), Verdict::Unmatched);
        }
    }
    let wanted = sampling::sample_size(
        candidates.len(),
        snapshot.percentage_to_score,
        subscription.strategy,
    );
    let mut feasible = Vec::new();
    for offset in 0..candidates.len() {
        let cluster = candidates[(snapshot.start + offset) % candidates.len()];
        if feasible.len() >= wanted {
            verdicts.insert(cluster.key.clone(), Verdict::Unsampled);
            continue;
        }
        match examine(snapshot.profile, subscription, cluster) {
            Ok(candidate) => feasible.push(candidate),
            Err(verdict) => {
                verdicts.insert(cluster.key.clone(), verdict);
            }
        }
    }
    feasible.sort_by(|a, b| a.cluster.key.cmp(&b.cluster.key));
    feasible
}

/// A cluster that every filter let pass.
#[derive(Debug, Clone, Copy)]
struct Candidate<'a> {
    cluster: &'a Cluster,
    /// See [`Verdict::Feasible`].
    kept_despite: Option<&'a Taint>,
}

/// Asks the filters; the first no counts.
fn examine<'a>(
    profile: &Profile,
    subscription: &Subscription,
    cluster: &'a Cluster,
) -> Result<Candidate<'a>, Verdict> {
    let mut candidate = Candidate {
        cluster,
        kept_despite: None,
    };
    for enabled in profile.enabled(Point::Filter) {
        match enabled.plugin {
            Plugin::TaintToleration => {
                candidate.kept_despite =
                    pass_taints(subscription, cluster).map_err(|taint| Verdict::Rejected {
                        plugin: enabled.plugin,
                        reason: format!(
                            "cluster(s) had taint {taint}, that the subscription didn't tolerate"
                        ),
                    })?;
            }
            Plugin::Predictor | Plugin::StaticAssigner | Plugin::DynamicAssigner | Plugin::DefaultBinder => {}
        }
    }
    Ok(candidate)
}

/// The taint that keeps a Subscription off, or else the one in spite of which it stays where it is: a cluster that was
/// silent for a while would lose all its workloads, with nothing gained elsewhere, for replication has no elsewhere.
fn pass_taints<'a>(
    subscription: &Subscription,
    cluster: &'a Cluster,
) -> Result<Option<&'a Taint>, &'a Taint> {
    let stays =
        subscription.strategy == Strategy::Replication && subscription.bound.clusters.contains(&cluster.key);
    let mut despite = None;
    for taint in &cluster.taints {
        if !taints::keeps_off(taint, &subscription.tolerations) {
            continue;
        }
        if !(stays && taint.means_not_ready()) {
            return Err(taint);
        }
        despite = Some(taint);
    }
    Ok(despite)
}

/// The feasible clusters, best first; equal ones in the order of their keys.
fn rank<'a>(
    snapshot: &Snapshot<'_>,
    feasible: &[Candidate<'a>],
    verdicts: &mut BTreeMap<ClusterKey, Verdict>,
) -> Vec<&'a Cluster> {
    let tolerations = &snapshot.subscription.tolerations;
    let mut scores: Vec<Vec<PluginScore>> = vec![Vec::new(); feasible.len()];
    for enabled in snapshot.profile.enabled(Point::Score) {
        let normalized = match enabled.plugin {
            Plugin::TaintToleration => {
                let raw: Vec<i64> = feasible
                    .iter()
                    .map(|candidate| taints::unwelcome(&candidate.cluster.taints, tolerations))
                    .collect();
                score::normalize_reversed(&raw)
            }
            Plugin::Predictor | Plugin::StaticAssigner | Plugin::DynamicAssigner | Plugin::DefaultBinder => {
                continue;
            }
        };
        for (scores, score) in scores.iter_mut().zip(normalized) {
            scores.push(PluginScore {
                plugin: enabled.plugin,
                score,
                weight: enabled.weight,
            });
        }
    }
    let mut ranked: Vec<(i64, &Cluster)> = Vec::new();
    for (candidate, scores) in feasible.iter().zip(scores) {
        let cluster = candidate.cluster;
        let total = scores
            .iter()
            .map(|score| score.score.saturating_mul(score.weight))
            .fold(0, i64::saturating_add);
        ranked.push((total, cluster));
        verdicts.insert(
            cluster.key.clone(),
            Verdict::Feasible {
                scores,
                total,
                chosen: false,
                kept_despite: candidate.kept_despite.cloned(),
            },
        );
    }
    ranked.sort_by(|(a, left), (b, right)| (b, &left.key).cmp(&(a, &right.key)));
    ranked.into_iter().map(|(_, cluster)| cluster).collect()
}

/// All of them, or with subgroups the best of each group, every cluster once.
fn select<'a>(subscription: &Subscription, ranked: &[&'a Cluster]) -> Result<Vec<&'a Cluster>, Failure> {
    if !subscription.by_sub_group {
        return Ok(ranked.to_vec());
    }
    let mut chosen: Vec<&Cluster> = Vec::new();
    for (index, subscriber) in subscription.subscribers.iter().enumerate() {
        let wanted = subscriber
            .min_clusters
            .ok_or(Failure::SubGroupStrategyMissing(index))?;
        let group = ranked
            .iter()
            .filter(|cluster| selects(&subscriber.affinity, &cluster.labels));
        for cluster in group.take(wanted) {
            if !chosen.iter().any(|other| other.key == cluster.key) {
                chosen.push(cluster);
            }
        }
    }
    if chosen.is_empty() {
        return Err(Failure::EmptySubGroups(ranked.len()));
    }
    Ok(chosen)
}

/// The replicas of each feed, in the order of `chosen`; empty for feeds that cannot be divided.
///
/// If no chosen cluster has any weight, nothing is divided.
fn divide(
    subscription: &Subscription,
    inventory: &Inventory,
    chosen: &[&Cluster],
) -> BTreeMap<String, Vec<u32>> {
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by(|a, b| chosen[*a].key.cmp(&chosen[*b].key));
    let weights: Vec<u64> = order
        .iter()
        .map(|index| weight(subscription, chosen[*index]))
        .collect();
    if weights.iter().all(|weight| *weight == 0) {
        return BTreeMap::new();
    }
    let shares = |desired: u32| {
        let mut shares = vec![0; chosen.len()];
        for (index, share) in order.iter().zip(divide::by_weight(desired, &weights)) {
            shares[*index] = share;
        }
        shares
    };
    let feeds = inventory.feeds.iter();
    feeds
        .map(|(feed, desired)| (feed.key(), desired.map(shares).unwrap_or_default()))
        .collect()
}

/// A cluster's weight: the sum over the subscribers that match it.
fn weight(subscription: &Subscription, cluster: &Cluster) -> u64 {
    let matching = subscription
        .subscribers
        .iter()
        .filter(|s| selects(&s.affinity, &cluster.labels));
    matching.map(|subscriber| u64::from(subscriber.weight)).sum()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
