//! Where a Subscription goes: from a snapshot of clusters to a binding, with the reasons for each cluster.
//!
//! [`decide`] is the whole decision: candidates by label, filter, score, subgroups, division, order; [`place`] is the
//! same and says of each cluster why. They are pure: the scheduler takes the snapshot, calls and carries the answer out;
//! if clusters have to be asked for their room first, it asks and calls again. [`Fleet`] holds the clusters, ready to be
//! selected from. [`queue::Queue`] says what to decide next; [`config::Config`] reads the scheduler's
//! configuration file. [`capacity`] is the agent's side of a prediction. This crate knows neither clients nor clocks.

pub mod admission;
pub mod bind;
pub mod capacity;
pub mod config;
pub mod decision;
pub mod divide;
pub mod dynamic;
pub mod explain;
pub mod fleet;
pub mod fuzz;
pub mod model;
pub mod names;
pub mod outage;
pub mod plan;
pub mod predict;
pub mod queue;
pub mod sampling;
pub mod score;
pub mod shares;
pub mod taints;

pub use api::feed::Feed;
pub use bind::{Binding, status_patch};
pub use config::{Config, ConfigError, PredictorArgs, Profile};
pub use decision::{
    Decision, Failure, FitError, Placement, Snapshot, Tolerance, UNDIVIDED, Verdict, Waiting,
};
pub use fleet::Fleet;
pub use model::{
    Bound, Cluster, ClusterKey, InvalidSubscription, Inventory, Strategy, Subscriber, Subscription, Wanted,
};
pub use names::Names;
pub use outage::{FailOver, Health, Report};
pub use plan::{decide, keep, place};
pub use predict::{Prediction, Predictor};
