//! What Kubernetes v1.34 has built in: its resources ([`resources()`]) and the types of their objects ([`schema`]).
//!
//! Both are read out of small committed tables (`cargo xtask codegen`), resources at once, types one by one when they
//! are first asked for. Nothing here knows what an object means.

mod resources;
mod types;

#[cfg(test)]
mod tests;

pub use resources::{Resource, Subresource, group_versions, resource, resource_of_kind, resources};
pub use types::{schema, schema_by_name};

pub(crate) use types::{Body, Field, Library, Plain, Shape, TypeDef, default_value};
