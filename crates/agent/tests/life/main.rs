//! An agent between two API servers in this process, on paused time; the parent's side is played by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod deploying;
mod exporting;
mod harness;
mod leaving;
mod orphans;
mod registering;
