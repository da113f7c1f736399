//! Brings the objects of Descriptions into a child and keeps them there: the same for the agent, which does it from
//! inside (`Pull`), and for the controllers, which do it from the parent (`Push`).
//!
//! [`plan`], [`charts`] and [`outcome`] decide; `apply` talks to the child about one object; `watches` follows what was applied;
//! [`contents`] gets what a Description only refers to; [`Deployer`] is the loop over Descriptions; [`find`] looks through a child for everything that was applied.
//! Deliberately absent: whose turn it is (`distribution::sync`; here it comes in as a [`Duty`]), where the clients come
//! from, and Helm: of charts it is said that nobody executes them.

mod apply;
pub mod charts;
pub mod contents;
mod deployer;
mod found;
pub mod fuzz;
mod metrics;
pub mod outcome;
pub mod plan;
mod watches;

pub use crate::contents::Contents;
pub use crate::deployer::{Deployer, Duty, Parts};
pub use crate::found::{Found, find};
pub use crate::metrics::Metrics;
