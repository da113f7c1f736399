//! Every custom resource type, and the words of the wire: labels, annotations, finalizers, reasons, names.
//!
//! One module a group ([`apps`], [`clusters`], [`mcs`], [`proxies`]); the built-in kinds that roles use are in
//! [`kubernetes`]. [`crds`] generates the CustomResourceDefinitions from the types; [`facts`] reduces a definition to
//! the facts that a compatible one must keep. No I/O here, and no rule beyond what a schema can say.

pub mod annotations;
pub mod apps;
pub mod clusters;
mod crd;
pub mod descriptions;
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
pub mod proxies;
pub mod reasons;
pub mod secret;
pub mod shadow_url;

pub use object::{Condition, ConditionStatus};

use serde_json::Value;

/// The CustomResourceDefinitions of all our kinds, generated from their types.
pub fn crds() -> Vec<Value> {
    [apps::DEFINITIONS, clusters::DEFINITIONS, mcs::DEFINITIONS]
        .into_iter()
        .flatten()
        .map(crd::Definition::crd)
        .collect()
}
