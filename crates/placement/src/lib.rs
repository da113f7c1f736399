//! Where a Subscription goes: from a snapshot of clusters to a binding, with the reasons for each cluster.
//!
//! [`place`] is the whole decision: candidates by label, filter, score, subgroups, division, order. It is pure:
//! the scheduler takes the snapshot, calls it and carries the answer out. [`queue::Queue`] says what to decide
//! next; [`config::Config`] reads the scheduler's configuration file. This crate knows neither clients nor clocks.

pub mod admission;
pub mod bind;
pub mod config;
pub mod divide;
pub mod fuzz;
pub mod hash;
pub mod model;
pub mod plan;
pub mod queue;
pub mod sampling;
pub mod score;
pub mod taints;

pub use api::feed::Feed;
pub use bind::{Binding, status_patch};
pub use config::{Config, ConfigError, Profile};
pub use model::{Cluster, ClusterKey, InvalidSubscription, Inventory, Strategy, Subscriber, Subscription};
pub use plan::{Decision, Failure, FitError, Placement, Snapshot, Verdict, Waiting, place};
