//! The traits through which the system asks for wall time, randomness and disk; back-off, and waiting for edits to settle.
//!
//! Nothing outside this crate asks the operating system for the time or for randomness: code takes an
//! [`Env`] (or a value from it) as an argument, so that a simulation can hand in its own. Monotonic time is
//! tokio's, which a paused runtime controls. The entry types are [`Env`] and [`disk::Disk`].

pub mod backoff;
pub mod disk;
mod env;
mod random;
pub mod settle;

pub use backoff::Backoff;
pub use env::{Clock, Env, OsRandom, Random, SystemClock};
pub use random::{SeededRandom, SplitMix};
