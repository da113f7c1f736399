//! What each cluster gets: Subscription → Base per cluster → Description per cluster, and status back.
//!
//! Every `plan` is a pure function from a snapshot of objects to a [`Plan`]: actions in the order in which they are
//! to be carried out, with their events, and what to do next. Planning again after carrying a plan out asks for
//! nothing. Objects are untyped values, so that fields this build does not know survive. The controllers take the
//! snapshots and carry the plans out; this crate knows neither clients nor clocks.
//!
//! [`services`] is the other direction: what clusters export, and who gets it.

pub mod action;
pub mod base;
pub mod change_set;
pub mod description;
pub mod division;
pub mod feed;
pub mod field;
pub mod floor;
pub mod fuzz;
pub mod inventory;
pub mod labels;
pub mod moves;
pub mod overrides;
pub mod pack;
pub mod payload;
pub mod policy;
pub mod protection;
pub mod release;
pub mod replicas;
pub mod rollout;
pub mod services;
pub mod settled;
pub mod stateful;
pub mod status;
pub mod subscription;
pub mod sync;
pub mod version;

#[cfg(test)]
mod world;

pub use action::{Action, EventKind, Next, Plan, Target, replacing};
pub use feed::{Feed, FeedIndex};
