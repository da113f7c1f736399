//! Every custom resource type, and the words of the wire: labels, annotations, finalizers, reasons, names.
//!
//! One module a group ([`apps`], [`clusters`], [`mcs`], [`payloads`], [`proxies`], [`rollouts`]); the built-in kinds that roles use are in
//! [`kubernetes`]. [`crds`] gives the CustomResourceDefinitions as [`generate_crds`] made them from the types; [`facts`] reduces
//! a definition to the facts that a compatible one must keep. No I/O here, and no rule beyond what a schema can say.

pub mod annotations;
pub mod apps;
pub mod change_set;
pub mod clusters;
mod crd;
pub mod descriptions;
pub mod entry;
pub mod facts;
pub mod feed;
pub mod finalizers;
pub mod gates;
pub mod install;
pub mod kubernetes;
pub mod labels;
pub mod mcs;
pub mod names;
mod object;
pub mod payloads;
pub mod proxies;
pub mod reasons;
pub mod rollouts;
pub mod secret;
pub mod settle;
pub mod shadow_url;
pub mod spec_hash;
pub mod stateful;
pub mod turns;

pub use object::{Condition, ConditionStatus};

use serde_json::Value;

/// The CustomResourceDefinitions of all our kinds.
pub fn crds() -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).expect("each line is a definition");
    include_str!("crds.jsonl").lines().map(parse).collect()
}

/// The same, generated from the types. It takes 5 MB of program text, which is why a running program does without:
/// `cargo xtask codegen crds` stores what it gives, and a test holds the two together.
pub fn generate_crds() -> Vec<Value> {
    [
        apps::DEFINITIONS,
        clusters::DEFINITIONS,
        mcs::DEFINITIONS,
        payloads::DEFINITIONS,
        rollouts::DEFINITIONS,
    ]
    .into_iter()
    .flatten()
    .map(crd::Definition::crd)
    .collect()
}
