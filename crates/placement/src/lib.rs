//! Where a Subscription goes: from a snapshot of clusters to a binding, with the reasons for each cluster.
//!
//! [`place`] is the whole decision: candidates by label, filter, score, subgroups, division, order. It is pure:
//! the scheduler takes the snapshot, calls it and carries the answer out; if clusters have to be asked for their room
//! first, it asks and calls again. [`queue::Queue`] says what to decide next; [`config::Config`] reads the scheduler's
//! configuration file. [`capacity`] is the agent's side of a prediction. This crate knows neither clients nor clocks.

pub mod admission;
pub mod bind;
pub mod capacity;
pub mod config;
pub mod decision;
pub mod divide;
pub mod dynamic;
pub mod explain;
pub mod fuzz;
pub mod model;
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
pub use decision::{Decision, Failure, FitError, Placement, Snapshot, Tolerance, Verdict, Waiting};
pub use model::{
    Cluster, ClusterKey, InvalidSubscription, Inventory, Strategy, Subscriber, Subscription, Wanted,
};
pub use outage::{FailOver, Health, Report};
pub use plan::{keep, place};
pub use predict::{Prediction, Predictor};
