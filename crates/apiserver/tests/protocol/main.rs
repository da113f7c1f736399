//! The Kubernetes REST protocol, spoken with a server in this process.

mod builtins;
mod customs;
mod guests;
mod harness;
mod objects;
mod watches;
