//! Every custom resource type, and the words of the wire: labels, annotations, finalizers, reasons, names.
//!
//! One module a group ([`apps`], [`clusters`], [`mcs`], [`proxies`]); the built-in kinds that roles use are in
//! [`kubernetes`]. [`crds`] generates the CustomResourceDefinitions from the types; [`facts`] reduces a definition to
//! the facts that a compatible one must keep. No I/O here, and no rule beyond what a schema can say.

pub mod annotations;
pub mod apps;
pub mod clusters;
pub mod finalizers;
pub mod kubernetes;
pub mod labels;
pub mod mcs;
pub mod names;
pub mod proxies;
pub mod reasons;
