//! What a request's query (or a delete's body) asks for besides the object, typed and judged in one place.
//!
//! Values are read as Go's API machinery reads them (`k8s.io/apimachinery` 1.34, `pkg/runtime/conversion.go`): the first
//! value of a parameter counts, a boolean is on unless it is `0` or `false`, and a number is a number. What cannot be
//! read is a 400; what can, but breaks a rule of `metav1`, a 422 that names each option.

mod delete;
mod list;
mod pods;
mod write;

pub use delete::{DeleteOptions, Propagation};
pub use list::{ListOptions, Match};
pub use pods::{ForwardOptions, LogOptions};
pub use write::{FieldValidation, WriteOptions, Writes};

use machinery::ApiError;
use serde_json::Value;

use crate::problems::Problems;
use crate::query::Query;

/// The revision that a get asks for at least.
///
/// # Errors
/// 400 for the option `export`, which Kubernetes no longer has.
pub fn get_revision(query: &Query) -> Result<&str, ApiError> {
    if query.is_on("export") {
        return Err(ApiError::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    Ok(query.get("resourceVersion").unwrap_or_default())
}

/// Whether a write is only tried.
fn dry_run<'a>(values: impl Iterator<Item = &'a str>, problems: &mut Problems) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        problems.unsupported("dryRun", &Value::from(values.as_slice()), &["All"]);
    }
    !values.is_empty()
}

/// 422 about options of a kind, if there are problems.
fn verdict(kind: &str, problems: Problems) -> Result<(), ApiError> {
    let causes = problems.into_causes();
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", kind, "", causes))
}
