//! An agent between two API servers in this process, on paused time; the parent's side is played by hand.

mod deploying;
mod harness;
mod leaving;
mod registering;
