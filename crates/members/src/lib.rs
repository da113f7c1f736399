//! Simulated clusters: an embedded control plane's nodes and workloads that come to life, fail and go as a spec
//! says. They state plainly that they are simulated: each node's version and operating system say so.
//!
//! Every controller is a pure function from a [`world::World`] to [`action::Action`]s; [`run`] is the shell that
//! watches, plans and carries out. The names of new pods are made of a random number that is kept while a write may
//! have happened unseen, so that planning anew asks for what is there already instead of for one too many. There is no container runtime, no network and no
//! storage behind any of it.

pub mod action;
mod backend;
pub mod behaviour;
mod budgets;
mod commands;
mod daemonsets;
mod deployments;
mod exec;
pub mod fuzz;
mod jobs;
mod kubelet;
mod metrics;
mod nodes;
mod owned;
mod plan;
mod replicasets;
mod said;
mod scheduling;
mod shell;
mod spdy;
mod statefulsets;
mod streams;
mod upgrade;
pub mod world;

pub use backend::SimulatedPods;
pub use metrics::SimulatedMetrics;
pub use nodes::NodeSpec;
pub use plan::{Plan, plan};
pub use shell::{Config, Error, run};
