//! The decision itself: [`decide`], and [`place`], which also says why.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::admission;
use crate::bind::Binding;
use crate::config::{Plugin, Point, Profile};
use crate::decision::{Decision, Failure, FitError, Placement, PluginScore, Snapshot, Verdict, Waiting};
use crate::divide;
use crate::dynamic::{self, Assigned};
use crate::fleet::Slot;
use crate::model::{Cluster, ClusterKey, Inventory, Strategy, Subscription, Wanted, selects};
use crate::outage::{Outages, Strict};
use crate::sampling;
use crate::score;
use crate::shares::Shares;
use crate::taints::{self, Taint};

/// How many clusters a failure names.
const EXAMPLES: usize = 3;

/// Decides where a Subscription goes, and says of each cluster why.
pub fn place<'a>(snapshot: &Snapshot<'a>) -> Placement<'a> {
    let mut survey = None;
    let placement = look(snapshot, &mut survey);
    let verdicts = survey.map(|survey| survey.verdicts(snapshot));
    Placement {
        verdicts: verdicts.unwrap_or_default(),
        ..placement
    }
}

/// Decides where a Subscription goes: the same as [`place`], without a word about each cluster.
pub fn decide<'a>(snapshot: &Snapshot<'a>) -> Placement<'a> {
    look(snapshot, &mut None)
}

/// Decides, and leaves what was found about the clusters, unless that was none of their matter.
fn look<'a>(snapshot: &Snapshot<'a>, survey: &mut Option<Survey<'a>>) -> Placement<'a> {
    let placement = |decision, fail_over| Placement {
        decision,
        verdicts: BTreeMap::new(),
        fail_over,
    };
    let division = match division(snapshot) {
        Ok(division) => division,
        Err(decision) => return placement(decision, None),
    };
    let mut left = false;
    if division.is_whole() {
        let decision = settle(snapshot, division, &Outages::default(), survey, &mut left);
        return placement(decision, None);
    }
    let outages = Outages::of(snapshot, |cluster| takes(snapshot, division, cluster));
    let decision = settle(snapshot, division, &outages, survey, &mut left);
    let report = outages.report(snapshot, division.wanted(), left);
    placement(decision, Some(report))
}

/// Whether a cluster that is meant and ready could get replicas.
fn takes(snapshot: &Snapshot<'_>, division: Division<'_>, cluster: &Cluster) -> bool {
    let subscription = snapshot.subscription;
    let has_weight = !matches!(division, Division::ByWeight(_)) || weight(subscription, cluster) > 0;
    let is_open = || {
        let mut taints = cluster.taints.iter();
        taints.all(|taint| !taints::keeps_off(taint, &subscription.tolerations))
    };
    has_weight && is_open()
}

/// Decides on the grounds of a division. `left` says then whether replicas that found no room stay with clusters that are
/// lost.
fn settle<'a>(
    snapshot: &Snapshot<'a>,
    division: Division<'a>,
    outages: &Outages<'a>,
    survey: &mut Option<Survey<'a>>,
    left: &mut bool,
) -> Decision<'a> {
    let subscription = snapshot.subscription;
    if snapshot.clusters.is_empty() && subscription.bound.clusters.is_empty() {
        return Decision::Failed(Failure::NoClusters);
    }
    let survey = survey.insert(Survey::of(snapshot, division, outages));
    let Held { held, silent } = Held::of(snapshot, division, outages);
    if survey.feasible.is_empty() && held.clusters().is_empty() {
        return unfit(snapshot, survey);
    }
    let ranked = rank(snapshot, survey);
    survey.chosen = match select(snapshot, ranked) {
        Ok(chosen) => chosen,
        Err(Failure::EmptySubGroups(_)) if !held.clusters().is_empty() => Vec::new(),
        Err(failure) => return Decision::Failed(failure),
    };
    let mut chosen = survey.chosen.clone();
    let spec_hash = subscription.spec_hash;
    let cluster = |slot: &Slot| snapshot.clusters.cluster(*slot);
    let key = |slot: &Slot| &cluster(slot).key;
    match division {
        Division::Whole => {
            snapshot.clusters.sort_by_text(&mut chosen);
            Decision::Bind {
                binding: Binding::whole(chosen.iter().map(key).collect(), spec_hash),
                short: BTreeMap::new(),
                is_undivided: false,
            }
        }
        Division::ByWeight(inventory) => {
            snapshot.clusters.sort(&mut chosen);
            let clusters: Vec<&Cluster> = chosen.iter().map(cluster).collect();
            let Some(replicas) = divide(subscription, inventory, &clusters, outages) else {
                return unfit(snapshot, survey);
            };
            let is_undivided = replicas.is_empty() && inventory.is_divisible();
            Decision::Bind {
                binding: Binding::new(chosen.iter().map(key).collect(), replicas, spec_hash),
                short: BTreeMap::new(),
                is_undivided,
            }
        }
        Division::ByRoom(inventory) => {
            snapshot.clusters.sort(&mut chosen);
            let keys = chosen
                .iter()
                .map(key)
                .filter(|key| outages.can_take(key))
                .collect();
            let candidates = match candidates(snapshot, inventory, &held, keys) {
                Ok(candidates) => candidates,
                Err(decision) => return decision,
            };
            let mut assigned = dynamic::assign(held, inventory, &candidates);
            dynamic::leave_behind(&mut assigned, &silent);
            *left = !assigned.short.is_empty();
            let Assigned { shares, short } = assigned;
            let (clusters, replicas) = shares.into_parts();
            let binding = Binding::new(clusters, replicas, spec_hash);
            Decision::Bind {
                binding,
                short,
                is_undivided: false,
            }
        }
    }
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
fn division<'a>(snapshot: &Snapshot<'a>) -> Result<Division<'a>, Decision<'a>> {
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

fn unfit<'a>(snapshot: &Snapshot<'a>, survey: &Survey<'a>) -> Decision<'a> {
    let clusters = snapshot.clusters;
    let mut reasons = BTreeMap::new();
    let mut count = |verdict: Verdict, number: usize| {
        if let Some(reason) = verdict.reason().filter(|_| number > 0) {
            *reasons.entry(reason).or_default() += number;
        }
    };
    count(Verdict::Deleting, clusters.leaving());
    let matched = survey.candidates.len();
    count(Verdict::Unmatched, clusters.len() - clusters.leaving() - matched);
    for (_, rejection) in &survey.rejected {
        count(rejection.verdict(), 1);
    }
    let error = FitError {
        total: clusters.len(),
        reasons,
    };
    Decision::Unfit {
        error,
        kept: keep(snapshot),
    }
}

/// What clusters have already while replicas are divided by room.
#[derive(Default)]
struct Held<'a> {
    /// They keep it.
    held: Shares<'a>,
    /// They fell silent: what finds room elsewhere goes there, the rest may still run where it is.
    silent: Shares<'a>,
}

impl<'a> Held<'a> {
    /// Clusters that are gone or going, or that a user closes with `NoExecute`, hold nothing.
    fn of(snapshot: &Snapshot<'a>, division: Division<'_>, outages: &Outages<'_>) -> Self {
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
        let stays: Vec<bool> = bound.clusters.iter().map(|key| stays(key)).collect();
        let silent = |index: usize, feed: &str| {
            let key = &*bound.clusters[index];
            let wanted = division.wanted().iter().find(|wanted| wanted.feed.key() == feed);
            outages.is_lost(key) && !wanted.is_some_and(|wanted| outages.counts(key, wanted))
        };
        let part = |wanted: bool| {
            let of = |index: &usize| {
                let key = &*bound.clusters[*index];
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
            let clusters = places.iter().map(|place| &*bound.clusters[*place]);
            Shares::new(clusters.collect(), replicas.collect())
        };
        Self {
            held: part(false),
            silent: part(true),
        }
    }
}

/// The room of the clusters that missing replicas can go to, which come in the order of their keys; or what has to be
/// done to know it.
fn candidates<'a>(
    snapshot: &Snapshot<'a>,
    inventory: &Inventory,
    held: &Shares<'_>,
    keys: Vec<&'a ClusterKey>,
) -> Result<Vec<dynamic::Candidate<'a>>, Decision<'a>> {
    const FULL: &[Option<u32>] = &[];
    if !dynamic::needs_room(held, inventory) {
        return Ok(keys.into_iter().map(|key| (key, FULL)).collect());
    }
    let asked = keys.len();
    let (mut missing, mut failures, mut candidates) = (Vec::new(), Vec::new(), Vec::with_capacity(asked));
    // Both are in the order of the keys.
    let mut answers = snapshot.predictions.iter().peekable();
    for key in keys {
        let mut answer = None;
        while let Some((of, said)) = answers.next_if(|(of, _)| *of <= key) {
            answer = (of == key).then_some(said);
        }
        match answer {
            Some(Ok(room)) => candidates.push((key, room.as_slice())),
            Some(Err(why)) => {
                failures.push((key, why));
                candidates.push((key, FULL));
            }
            None => missing.push(key),
        }
    }
    if !missing.is_empty() {
        return Err(Decision::Predict(missing));
    }
    let limit = snapshot.tolerance.of(asked);
    if failures.len() > limit {
        let examples = failures.iter().take(EXAMPLES);
        let examples: Vec<String> = examples.map(|(key, why)| format!("{key}: {why}")).collect();
        return Err(Decision::Failed(Failure::Prediction {
            failed: failures.len(),
            asked,
            limit,
            examples: examples.join("; "),
        }));
    }
    Ok(candidates)
}

/// What stays of the present binding where nothing is decided anew: all but the clusters that are gone or going. `None` if
/// all of it does.
pub fn keep<'a>(snapshot: &Snapshot<'a>) -> Option<Binding<'a>> {
    let bound = &snapshot.subscription.bound;
    let stays = |key: &ClusterKey| {
        snapshot
            .clusters
            .get(key)
            .is_some_and(|cluster| !cluster.deleting)
    };
    if bound.clusters.iter().all(|key| stays(key)) {
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
    let clusters = bound.clusters.iter().map(|key| &**key);
    let clusters = clusters.filter(|key| stays(key)).collect();
    Some(Binding::new(clusters, replicas, bound.spec_hash.unwrap_or(0)))
}

/// What was found about the clusters.
struct Survey<'a> {
    /// Whom a subscriber matches, in the order of their keys.
    candidates: Cow<'a, [Slot]>,
    rejected: Vec<(Slot, Rejection<'a>)>,
    /// Candidates that every filter let pass, in the order of their keys.
    feasible: Vec<Slot>,
    /// Whether any of these has taints.
    is_tainted: bool,
    /// See [`Verdict::Feasible`].
    kept_despite: BTreeMap<Slot, &'a Taint>,
    chosen: Vec<Slot>,
}

/// Why a candidate is none.
enum Rejection<'a> {
    /// A filter said no.
    Filter { plugin: Plugin, taint: &'a Taint },
    /// See [`Verdict::Unsteady`].
    Unsteady,
}

impl Rejection<'_> {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Filter { plugin, taint } => Verdict::Rejected {
                plugin: *plugin,
                reason: format!("cluster(s) had taint {taint}, that the subscription didn't tolerate"),
            },
            Self::Unsteady => Verdict::Unsteady,
        }
    }
}

impl<'a> Survey<'a> {
    /// Asks the filters about the candidates, or about as many as it takes.
    fn of(snapshot: &Snapshot<'a>, division: Division<'_>, outages: &Outages<'_>) -> Self {
        let whole = division.is_whole();
        let (subscription, clusters) = (snapshot.subscription, snapshot.clusters);
        let affinities = subscription.subscribers.iter().map(|it| &it.affinity);
        let candidates = clusters.selected_by_any(affinities);
        // What is not divided goes to every feasible cluster, however many there are.
        let (wanted, start) = if whole {
            (candidates.len(), 0)
        } else {
            let wanted = sampling::sample_size(candidates.len(), snapshot.percentage_to_score);
            (wanted, snapshot.start % candidates.len().max(1))
        };
        let mut survey = Self {
            rejected: Vec::new(),
            feasible: Vec::with_capacity(wanted),
            is_tainted: false,
            kept_despite: BTreeMap::new(),
            chosen: Vec::new(),
            candidates,
        };
        let (first, then) = (&survey.candidates[start..], &survey.candidates[..start]);
        for slot in first.iter().chain(then).copied() {
            if survey.feasible.len() >= wanted {
                break;
            }
            let cluster = clusters.cluster(slot);
            let key = &cluster.key;
            if outages.waits(key) && !subscription.bound.contains(key) {
                survey.rejected.push((slot, Rejection::Unsteady));
                continue;
            }
            // Without taints no filter says no.
            if clusters.is_tainted(slot) {
                let stays =
                    || subscription.bound.contains(key) && (whole || outages.stays(key, division.wanted()));
                match examine(snapshot.profile, subscription, cluster, stays) {
                    Ok(Some(taint)) => drop(survey.kept_despite.insert(slot, taint)),
                    Ok(None) => {}
                    Err(rejection) => {
                        survey.rejected.push((slot, rejection));
                        continue;
                    }
                }
                survey.is_tainted = true;
            }
            survey.feasible.push(slot);
        }
        if start > 0 {
            clusters.sort(&mut survey.feasible);
        }
        survey
    }

    /// What was found about each cluster.
    fn verdicts(&self, snapshot: &Snapshot<'_>) -> BTreeMap<ClusterKey, Verdict> {
        let clusters = snapshot.clusters;
        let unseen = clusters.iter().map(|cluster| {
            let verdict = if cluster.deleting {
                Verdict::Deleting
            } else {
                Verdict::Unmatched
            };
            (cluster.key.clone(), verdict)
        });
        let mut verdicts: BTreeMap<ClusterKey, Verdict> = unseen.collect();
        let mut say = |slot: Slot, verdict: Verdict| {
            verdicts.insert(clusters.cluster(slot).key.clone(), verdict);
        };
        for slot in self.candidates.iter() {
            say(*slot, Verdict::Unsampled);
        }
        for (slot, rejection) in &self.rejected {
            say(*slot, rejection.verdict());
        }
        let chosen: BTreeSet<Slot> = self.chosen.iter().copied().collect();
        for (slot, scores) in self.feasible.iter().zip(scores(snapshot, &self.feasible)) {
            let verdict = Verdict::Feasible {
                total: total(&scores),
                scores,
                chosen: chosen.contains(slot),
                kept_despite: self.kept_despite.get(slot).map(|taint| Taint::clone(taint)),
            };
            say(*slot, verdict);
        }
        verdicts
    }
}

/// Asks the filters; the first no counts. Without one, the taint in spite of which it stays where it is.
fn examine<'a>(
    profile: &Profile,
    subscription: &Subscription,
    cluster: &'a Cluster,
    stays: impl Fn() -> bool,
) -> Result<Option<&'a Taint>, Rejection<'a>> {
    let mut kept_despite = None;
    for enabled in profile.enabled(Point::Filter) {
        match enabled.plugin {
            Plugin::TaintToleration => {
                let rejection = |taint| Rejection::Filter {
                    plugin: enabled.plugin,
                    taint,
                };
                kept_despite = pass_taints(subscription, cluster, &stays).map_err(rejection)?;
            }
            Plugin::Predictor | Plugin::StaticAssigner | Plugin::DynamicAssigner | Plugin::DefaultBinder => {}
        }
    }
    Ok(kept_despite)
}

/// The taint that keeps a Subscription off, or else the one in spite of which it stays where it is: a cluster that was
/// silent for a while would lose all its workloads, with nothing gained elsewhere, for what is not divided has no
/// elsewhere.
fn pass_taints<'a>(
    subscription: &Subscription,
    cluster: &'a Cluster,
    stays: impl Fn() -> bool,
) -> Result<Option<&'a Taint>, &'a Taint> {
    let mut despite = None;
    for taint in &cluster.taints {
        if !taints::keeps_off(taint, &subscription.tolerations) {
            continue;
        }
        if !(taint.means_not_ready() && stays()) {
            return Err(taint);
        }
        despite = Some(taint);
    }
    Ok(despite)
}

/// The feasible clusters, best first; equal ones in the order of their keys.
fn rank(snapshot: &Snapshot<'_>, survey: &Survey<'_>) -> Vec<Slot> {
    let feasible = &survey.feasible;
    // Only taints make a difference.
    if !survey.is_tainted {
        return feasible.clone();
    }
    let scores = scores(snapshot, feasible);
    let mut ranked: Vec<(i64, Slot)> = scores
        .iter()
        .map(|scores| total(scores))
        .zip(feasible.iter().copied())
        .collect();
    ranked.sort_by_key(|(total, _)| std::cmp::Reverse(*total));
    ranked.into_iter().map(|(_, slot)| slot).collect()
}

/// What each scoring plugin makes of each of these clusters.
fn scores(snapshot: &Snapshot<'_>, feasible: &[Slot]) -> Vec<Vec<PluginScore>> {
    let tolerations = &snapshot.subscription.tolerations;
    let mut scores: Vec<Vec<PluginScore>> = vec![Vec::new(); feasible.len()];
    for enabled in snapshot.profile.enabled(Point::Score) {
        let normalized = match enabled.plugin {
            Plugin::TaintToleration => {
                let unwelcome =
                    |slot: &Slot| taints::unwelcome(&snapshot.clusters.cluster(*slot).taints, tolerations);
                let raw: Vec<i64> = feasible.iter().map(unwelcome).collect();
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
    scores
}

/// The weighted sum of scores.
fn total(scores: &[PluginScore]) -> i64 {
    scores
        .iter()
        .map(|score| score.score.saturating_mul(score.weight))
        .fold(0, i64::saturating_add)
}

/// All of them, or with subgroups the best of each group, every cluster once.
fn select(snapshot: &Snapshot<'_>, ranked: Vec<Slot>) -> Result<Vec<Slot>, Failure> {
    let subscription = snapshot.subscription;
    if !subscription.by_sub_group {
        return Ok(ranked);
    }
    let mut chosen = Vec::new();
    let mut taken = BTreeSet::new();
    for (index, subscriber) in subscription.subscribers.iter().enumerate() {
        let wanted = subscriber
            .min_clusters
            .ok_or(Failure::SubGroupStrategyMissing(index))?;
        let group = ranked
            .iter()
            .filter(|slot| selects(&subscriber.affinity, &snapshot.clusters.cluster(**slot).labels));
        for slot in group.take(wanted) {
            if taken.insert(*slot) {
                chosen.push(*slot);
            }
        }
    }
    if chosen.is_empty() {
        return Err(Failure::EmptySubGroups(ranked.len()));
    }
    Ok(chosen)
}

/// The replicas of each feed, in the order of `chosen`, which is that of the keys; empty for feeds that cannot be
/// divided.
///
/// If no chosen cluster has any weight, nothing is divided. `None` if replicas have no place but with clusters that are not
/// ready.
fn divide(
    subscription: &Subscription,
    inventory: &Inventory,
    chosen: &[&Cluster],
    outages: &Outages<'_>,
) -> Option<BTreeMap<String, Vec<u32>>> {
    let weights: Vec<u64> = chosen
        .iter()
        .map(|cluster| weight(subscription, cluster))
        .collect();
    if weights.iter().all(|weight| *weight == 0) {
        return Some(BTreeMap::new());
    }
    let shares = |wanted: &Wanted, desired: u32| {
        [Strict::Yes, Strict::No].into_iter().find_map(|strict| {
            let caps = chosen
                .iter()
                .map(|cluster| outages.cap(&cluster.key, wanted, strict));
            divide::by_weight_up_to(desired, &weights, &caps.collect::<Vec<_>>())
        })
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
