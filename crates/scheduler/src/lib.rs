//! The scheduler: runs `placement` for every Subscription and writes what it decides.
//!
//! It watches Subscriptions, ManagedClusters and FeedInventories, keeps them as `placement` reads them and nothing else
//! of them, asks for a decision whenever something that matters changed, and binds by a merge patch of the status: many
//! at a time, one for each Subscription. Where replicas are divided by room it asks the clusters' predictors first, many at a time, and decides for
//! others meanwhile. What matters is decided in [`requeue`]; the order of work by `placement::queue`. The entry is
//! [`run`].

mod asking;
mod conditions;
mod config;
mod direct;
pub mod metrics;
mod predictors;
pub mod requeue;
mod shell;
mod view;
mod writing;

pub use config::Config;
pub use direct::{DirectAccess, InvalidNetwork, Network};
/// Profiles and percentages, as the configuration file has them.
pub use placement::Config as PlacementConfig;
pub use shell::run;
