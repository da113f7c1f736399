//! Brings the objects of Descriptions into the child and keeps them there.
//!
//! [`plan`] and [`outcome`] decide; [`apply`] talks to the child about one object; `watches` follows what was applied;
//! `deployer` is the loop over Descriptions; `found` looks through a child for everything that was applied.

pub(crate) mod apply;
pub(crate) mod deployer;
pub(crate) mod found;
pub mod outcome;
pub mod plan;
pub(crate) mod watches;
