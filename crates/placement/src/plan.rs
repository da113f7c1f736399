//! The decision itself: [`place`].

use std::collections::BTreeMap;

use crate::admission;
use crate::bind::Binding;
use crate::config::{Plugin, Point, Profile};
use crate::decision::{Decision, Failure, FitError, Placement, PluginScore, Snapshot, Verdict, Waiting};
use crate::divide;
use crate::dynamic::{self, Assigned};
use crate::model::{Cluster, ClusterKey, Inventory, Strategy, Subscription, Wanted, selects};
use crate::outage::{Outages, Strict};
use crate::predict::Room;
use crate::sampling;
use crate::score;
use crate::shares::Shares;
use crate::taints::{self, Taint};

/// How many clusters a failure names.
const EXAMPLES: usize = 3;

/// Decides where a Subscription goes.
pub fn place(snapshot: &Snapshot<'_>) -> Placement {
    let mut verdicts = BTreeMap::new();
    let division = match division(snapshot) {
        Ok(division) => division,
        Err(decision) => {
            return Placement {
                decision,
                verdicts,
                fail_over: None,
            };
        }
    };
    let wanted = division.wanted();
    let outages = if division.is_whole() {
        Outages::default()
    } else {
        Outages::of(snapshot, |cluster| takes(snapshot, division, cluster))
    };
    let mut left = false;
    let decision = decide(snapshot, division, &outages, &mut verdicts, &mut left);
    let fail_over = (!division.is_whole()).then(|| outages.report(snapshot, wanted, left));
    Placement {
        decision,
        verdicts,
        fail_over,
    }
}

/// Whether a cluster that is ready could get replicas.
fn takes(snapshot: &Snapshot<'_>, division: Division<'_>, cluster: &Cluster) -> bool {
    let subscription = snapshot.subscription;
    let is_meant = !cluster.deleting && subscription.matches(&cluster.labels);
    let has_weight = !matches!(division, Division::ByWeight(_)) || weight(subscription, cluster) > 0;
    let is_open = || {
        let mut taints = cluster.taints.iter();
        taints.all(|taint| !taints::keeps_off(taint, &subscription.tolerations))
    };
    is_meant && has_weight && is_open()
}

fn decide(
    snapshot: &Snapshot<'_>,
    division: Division<'_>,
    outages: &Outages<'_>,
    verdicts: &mut BTreeMap<ClusterKey, Verdict>,
    left: &mut bool,
) -> Decision {
    let subscription = snapshot.subscription;
    if snapshot.clusters.is_empty() && subscription.bound.clusters.is_empty() {
        return Decision::Failed(Failure::NoClusters);
    }
    let feasible = filter(snapshot, division, outages, verdicts);
    let Held { held, silent } = Held::of(snapshot, division, outages);
    if feasible.is_empty() && held.clusters().is_empty() {
        return unfit(snapshot, verdicts);
    }
    let ranked = rank(snapshot, &feasible, verdicts);
    let chosen = match select(subscription, &ranked) {
        Ok(chosen) => chosen,
        Err(Failure::EmptySubGroups(_)) if !held.clusters().is_empty() => Vec::new(),
        Err(failure) => return Decision::Failed(failure),
    };
    for cluster in &chosen {
        if let Some(Verdict::Feasible { chosen, .. }) = verdicts.get_mut(&cluster.key) {
            *chosen = true;
        }
    }
    let keys = || -> Vec<ClusterKey> { chosen.iter().map(|cluster| cluster.key.clone()).collect() };
    let (clusters, replicas, short) = match division {
        Division::Whole => (keys(), BTreeMap::new(), BTreeMap::new()),
        Division::ByWeight(inventory) => {
            let Some(replicas) = divide(subscription, inventory, &chosen, outages) else {
                return unfit(snapshot, verdicts);
            };
            (keys(), replicas, BTreeMap::new())
        }
        Division::ByRoom(inventory) => {
            let keys = keys().into_iter().filter(|key| outages.can_take(key)).collect();
            let candidates = match candidates(snapshot, inventory, &held, keys) {
                Ok(candidates) => candidates,
                Err(decision) => return decision,
            };
            let mut assigned = dynamic::assign(held, inventory, &candidates);
            dynamic::leave_behind(&mut assigned, &silent);
            *left = !assigned.short.is_empty();
            let Assigned { shares, short } = assigned;
            let (clusters, replicas) = shares.into_parts();
            (clusters, replicas, short)
        }
    };
    let binding = Binding::new(clusters, replicas, subscription.spec_hash);
    Decision::Bind { binding, short }
}

/// How a Subscription's feeds are divided.
#[derive(Clone, Copy)]
enum Division<'a> {
    Whole,
    ByWeight(&'a Inventory),
    ByRoom(&'a Inventory),
}

impl<'a> Division<'a> {
    /// What is divided.
    fn wanted(self) -> &'a [Wanted] {
        match self {
            Self::Whole => &[],
            Self::ByWeight(inventory) | Self::ByRoom(inventory) => &inventory.feeds,
        }
    }

    /// Whether there is nothing to divide: each cluster gets all of it, as under replication.
    fn is_whole(self) -> bool {
        match self {
            Self::Whole => true,
            Self::ByWeight(inventory) | Self::ByRoom(inventory) => !inventory.is_divisible(),
        }
    }
}

/// How the feeds are divided, or why that cannot be said.
fn division<'a>(snapshot: &Snapshot<'a>) -> Result<Division<'a>, Decision> {
    let assigner = match snapshot.subscription.strategy {
        Strategy::Replication => return Ok(Division::Whole),
        Strategy::StaticDividing => Plugin::StaticAssigner,
        Strategy::DynamicDividing => Plugin::DynamicAssigner,
    };
    let enabled = |point, plugin| snapshot.profile.enabled(point).any(|it| it.plugin == plugin);
    if !enabled(Point::Assign, assigner) {
        return Err(Decision::Failed(Failure::NoPlugin(assigner)));
    }
    if assigner == Plugin::DynamicAssigner && !enabled(Point::Predict, Plugin::Predictor) {
        return Err(Decision::Failed(Failure::NoPlugin(Plugin::Predictor)));
    }
    let current = |inventory: &&Inventory| admission::is_inventory_current(snapshot.subscription, inventory);
    let Some(inventory) = snapshot.inventory.filter(current) else {
        return Err(Decision::Waiting(Waiting::Inventory));
    };
    Ok(if assigner == Plugin::StaticAssigner {
        Division::ByWeight(inventory)
    } else {
        Division::ByRoom(inventory)
    })
}

fn unfit(snapshot: &Snapshot<'_>, verdicts: &BTreeMap<ClusterKey, Verdict>) -> Decision {
    let mut reasons = BTreeMap::new();
    for reason in verdicts.values().filter_map(Verdict::reason) {
        *reasons.entry(reason).or_default() += 1;
    }
    let error = FitError {
        total: snapshot.clusters.len(),
        reasons,
    };
    Decision::Unfit {
        error,
        kept: keep(snapshot),
    }
}

/// What clusters have already while replicas are divided by room.
#[derive(Default)]
struct Held {
    /// They keep it.
    held: Shares,
    /// They fell silent: what finds room elsewhere goes there, the rest may still run where it is.
    silent: Shares,
}

impl Held {
    /// Clusters that are gone or going, or that a user closes with `NoExecute`, hold nothing.
    fn of(snapshot: &Snapshot<'_>, division: Division<'_>, outages: &Outages<'_>) -> Self {
        let subscription = snapshot.subscription;
        let bound = &subscription.bound;
        if !matches!(division, Division::ByRoom(_)) || division.is_whole() || bound.replicas.is_empty() {
            return Self::default();
        }
        let stays = |key: &ClusterKey| {
            let cluster = snapshot.clusters.get(key).filter(|cluster| !cluster.deleting);
            let evicts = |taint: &Taint| taints::evicts(taint, &subscription.tolerations);
            cluster.is_some_and(|it| {
                !it.taints
                    .iter()
                    .any(|taint| evicts(taint) && !taint.means_not_ready())
            })
        };
        let stays: Vec<bool> = bound.clusters.iter().map(stays).collect();
        let silent = |index: usize, feed: &str| {
            let key = &bound.clusters[index];
            let wanted = division.wanted().iter().find(|wanted| wanted.feed.key() == feed);
            outages.is_lost(key) && !wanted.is_some_and(|wanted| outages.counts(key, wanted))
        };
        let part = |wanted: bool| {
            let of = |index: &usize| {
                let key = &bound.clusters[*index];
                let lost = outages.is_lost(key);
                let held = !lost || outages.stays(key, division.wanted());
                stays[*index] && if wanted { lost } else { held }
            };
            let places: Vec<usize> = (0..stays.len()).filter(of).collect();
            let pick = |feed: &str, list: &Vec<i64>| {
                let fits = list.len() == stays.len();
                let share = |place: &usize| {
                    if silent(*place, feed) == wanted {
                        list[*place]
                    } else {
                        0
                    }
                };
                places.iter().filter(|_| fits).map(share).collect()
            };
            let replicas = bound
                .replicas
                .iter()
                .map(|(feed, list)| (feed.clone(), pick(feed, list)));
            let clusters = places.iter().map(|place| bound.clusters[*place].clone());
            Shares::new(clusters.collect(), replicas.collect())
        };
        Self {
            held: part(false),
            silent: part(true),
        }
    }
}

/// The clusters that missing replicas can go to, in the order of their keys, and their room; or what has to be done to
/// know it.
fn candidates(
    snapshot: &Snapshot<'_>,
    inventory: &Inventory,
    held: &Shares,
    mut keys: Vec<ClusterKey>,
) -> Result<Vec<(ClusterKey, Room)>, Decision> {
    keys.sort_unstable();
    if !dynamic::needs_room(held, inventory) {
        return Ok(keys.into_iter().map(|key| (key, Room::new())).collect());
    }
    let unknown = |key: &&ClusterKey| !snapshot.predictions.contains_key(*key);
    let missing: Vec<ClusterKey> = keys.iter().filter(unknown).cloned().collect();
    if !missing.is_empty() {
        return Err(Decision::Predict(missing));
    }
    let asked = keys.len();
    let (mut failures, mut candidates) = (Vec::new(), Vec::new());
    for key in keys {
        let room = match &snapshot.predictions[&key] {
            Ok(room) => room.clone(),
            Err(why) => {
                failures.push(format!("{key}: {why}"));
                Room::new()
            }
        };
        candidates.push((key, room));
    }
    let limit = snapshot.tolerance.of(asked);
    if failures.len() > limit {
        let failed = failures.len();
        failures.truncate(EXAMPLES);
        return Err(Decision::Failed(Failure::Prediction {
            failed,
            asked,
            limit,
            examples: failures.join("; "),
        }));
    }
    Ok(candidates)
}

/// What stays of the present binding where nothing is decided anew: all but the clusters that are gone or going. `None` if
/// all of it does.
pub fn keep(snapshot: &Snapshot<'_>) -> Option<Binding> {
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
fn filter<'a>(
    snapshot: &Snapshot<'a>,
    division: Division<'_>,
    outages: &Outages<'_>,
    verdicts: &mut BTreeMap<ClusterKey, Verdict>,
) -> Vec<Candidate<'a>> {
    let whole = division.is_whole();
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
    // What is not divided goes to every feasible cluster, however many there are.
    let wanted = if whole {
        candidates.len()
    } else {
        sampling::sample_size(candidates.len(), snapshot.percentage_to_score)
    };
    let mut feasible = Vec::new();
    for offset in 0..candidates.len() {
        let cluster = candidates[(snapshot.start + offset) % candidates.len()];
        if feasible.len() >= wanted {
            verdicts.insert(cluster.key.clone(), Verdict::Unsampled);
            continue;
        }
        let is_bound = subscription.bound.clusters.contains(&cluster.key);
        if !is_bound && outages.waits(&cluster.key) {
            verdicts.insert(cluster.key.clone(), Verdict::Unsteady);
            continue;
        }
        let stays = is_bound && (whole || outages.stays(&cluster.key, division.wanted()));
        match examine(snapshot.profile, subscription, cluster, stays) {
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
    stays: bool,
) -> Result<Candidate<'a>, Verdict> {
    let mut candidate = Candidate {
        cluster,
        kept_despite: None,
    };
    for enabled in profile.enabled(Point::Filter) {
        match enabled.plugin {
            Plugin::TaintToleration => {
                candidate.kept_despite =
                    pass_taints(subscription, cluster, stays).map_err(|taint| Verdict::Rejected {
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
/// silent for a while would lose all its workloads, with nothing gained elsewhere, for what is not divided has no
/// elsewhere.
fn pass_taints<'a>(
    subscription: &Subscription,
    cluster: &'a Cluster,
    stays: bool,
) -> Result<Option<&'a Taint>, &'a Taint> {
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
/// If no chosen cluster has any weight, nothing is divided. `None` if replicas have no place but with clusters that are not
/// ready.
fn divide(
    subscription: &Subscription,
    inventory: &Inventory,
    chosen: &[&Cluster],
    outages: &Outages<'_>,
) -> Option<BTreeMap<String, Vec<u32>>> {
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by(|a, b| chosen[*a].key.cmp(&chosen[*b].key));
    let weights: Vec<u64> = order
        .iter()
        .map(|index| weight(subscription, chosen[*index]))
        .collect();
    if weights.iter().all(|weight| *weight == 0) {
        return Some(BTreeMap::new());
    }
    let shares = |wanted: &Wanted, desired: u32| {
        let divided = [Strict::Yes, Strict::No].into_iter().find_map(|strict| {
            let caps = order
                .iter()
                .map(|index| outages.cap(&chosen[*index].key, wanted, strict));
            divide::by_weight_up_to(desired, &weights, &caps.collect::<Vec<_>>())
        })?;
        let mut shares = vec![0; chosen.len()];
        for (index, share) in order.iter().zip(divided) {
            shares[*index] = share;
        }
        Some(shares)
    };
    let of = |wanted: &Wanted| match wanted.desired {
        Some(desired) => Some((wanted.feed.key(), shares(wanted, desired)?)),
        None => Some((wanted.feed.key(), Vec::new())),
    };
    inventory.feeds.iter().map(of).collect()
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
