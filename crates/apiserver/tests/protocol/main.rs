//! The Kubernetes REST protocol, spoken with a server in this process.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod builtins;
mod customs;
mod forms;
mod guests;
mod harness;
mod identities;
mod objects;
mod options;
mod pods;
mod watches;
