//! What Kubernetes does to objects, as pure functions over JSON values: names, selectors, quantities, patches,
//! apply, schemas, CEL, JSONPath, tables, and the `Status` that says what went wrong. No I/O, no clock.

pub mod address;
pub mod builtin;
pub mod cel;
pub mod conditions;
pub mod field;
pub mod fuzz;
pub mod jsonpath;
pub mod managed;
pub mod meta;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod quantity;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;

pub use resource::{ApiResource, Gvk};
pub use status::{ApiError, Cause, Reason};
