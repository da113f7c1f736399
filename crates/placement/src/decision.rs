//! What a decision looks at, and what it says.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::bind::Binding;
use crate::config::{Plugin, Profile};
use crate::fleet::Fleet;
use crate::model::{ClusterKey, Inventory, Subscription};
use crate::outage::{FailOver, Report};
use crate::predict::Prediction;
use crate::taints::Taint;

/// Everything one decision may look at.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// What is to be placed.
    pub subscription: &'a Subscription,
    /// Every cluster there is.
    pub clusters: &'a Fleet,
    /// The inventory of the same name, read only for the dividing strategies.
    pub inventory: Option<&'a Inventory>,
    /// The plugins of the Subscription's scheduler name.
    pub profile: &'a Profile,
    /// `percentageOfClustersToScore`, 0 for adaptive.
    pub percentage_to_score: u8,
    /// Where sampling starts among the candidates: advance it by each decision, for fairness.
    pub start: usize,
    /// What came of asking clusters for their room; only those that a decision asked for.
    pub predictions: &'a BTreeMap<ClusterKey, Prediction>,
    /// How many clusters may fail to predict.
    pub tolerance: Tolerance,
    /// Now; without it whatever has not been ready is taken for lost at once.
    pub now: Option<Timestamp>,
    /// Whether replicas leave clusters that are not ready.
    pub fail_over: FailOver,
}

static NO_PREDICTIONS: BTreeMap<ClusterKey, Prediction> = BTreeMap::new();

impl<'a> Snapshot<'a> {
    /// A Subscription among clusters; all else is as if nobody had configured or said anything.
    pub fn of(subscription: &'a Subscription, clusters: &'a Fleet, profile: &'a Profile) -> Self {
        Self {
            subscription,
            clusters,
            inventory: None,
            profile,
            percentage_to_score: 0,
            start: 0,
            predictions: &NO_PREDICTIONS,
            tolerance: Tolerance::None,
            now: None,
            fail_over: FailOver::On,
        }
    }
}

/// How many clusters may fail to say what room they have (the gate `FeasibleClustersToleration`). One that is put up
/// with counts as full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// None: one failure is a failure of all.
    None,
    /// This percentage of the clusters that are asked, rounded down.
    Percent(u8),
}

impl Tolerance {
    pub(crate) fn of(self, clusters: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Percent(percent) => clusters * usize::from(percent) / 100,
        }
    }
}

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement<'a> {
    /// What to do.
    pub decision: Decision<'a>,
    /// What was found about each cluster, in the order of their keys.
    pub verdicts: BTreeMap<ClusterKey, Verdict>,
    /// How fail-over stands; `None` if nothing is divided.
    pub fail_over: Option<Report>,
}

/// What people should hear when there is no weight to divide replicas by.
pub const UNDIVIDED: &str = "no subscriber that selects a cluster of these has a weight above 0, so replicas are not \
                             divided: each cluster gets all of them";

/// What the scheduler is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Write this binding.
    Bind {
        /// Where it goes.
        binding: Binding<'a>,
        /// For each feed key how many replicas found no room: say so, look again when there may be some.
        short: BTreeMap<String, u32>,
        /// Whether replicas are to be divided by weight and no cluster has any: say [`UNDIVIDED`].
        is_undivided: bool,
    },
    /// Ask these clusters for their room, then decide again with the answers.
    Predict(Vec<&'a ClusterKey>),
    /// No cluster fits: say so and keep the present binding, so that nobody loses the last copy without a
    /// replacement. Look again at the next event that matters.
    Unfit {
        /// Why.
        error: FitError,
        /// The present binding without clusters that are gone or going, if there are any such.
        kept: Option<Binding<'a>>,
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
    /// The profile has no plugin that divides so.
    #[error("the scheduler's profile enables no plugin for this division: {0} is needed")]
    NoPlugin(Plugin),
    /// Too many clusters do not say what room they have.
    #[error("{failed} of {asked} cluster(s) do not say what room they have (limit {limit}): {examples}")]
    Prediction {
        /// How many do not.
        failed: usize,
        /// How many were asked.
        asked: usize,
        /// How many would be put up with.
        limit: usize,
        /// The first few, with their reasons.
        examples: String,
    },
}

impl Failure {
    /// Whether trying again later may help; the others wait for a change of the Subscription or of the configuration.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoClusters | Self::EmptySubGroups(_) | Self::Prediction { .. } => true,
            Self::SubGroupStrategyMissing(_) | Self::NoPlugin(_) => false,
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
    /// It was not ready, and replicas do not come back yet.
    Unsteady,
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
            Self::Unsteady => Some("cluster(s) were not ready for long enough".to_owned()),
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
