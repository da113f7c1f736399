//! The options of deletes.

use machinery::ApiError;
use serde_json::Value;

use super::{dry_run, verdict};
use crate::problems::Problems;
use crate::query::Query;

/// What becomes of an object's dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// `DeleteOptions`, but for the grace period: what is deleted here goes at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The identity that the object must have.
    pub uid: Option<String>,
    /// The revision that the object must have.
    pub revision: Option<String>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
    /// Whether it is only tried.
    pub dry_run: bool,
}

/// The options as they were given.
#[derive(Default)]
struct Given<'a> {
    uid: Option<&'a str>,
    revision: Option<&'a str>,
    propagation: Option<&'a str>,
    orphan: Option<bool>,
    dry_run: Vec<&'a str>,
}

impl DeleteOptions {
    /// From the query of a request without a body: a body's options are all that count.
    ///
    /// # Errors
    /// 400 for a number that cannot be read, 422 for values that are not known or do not go together.
    pub fn of_query(query: &Query) -> Result<Self, ApiError> {
        query.number("gracePeriodSeconds")?;
        Self::judge(&Given {
            uid: query.get("uid").filter(|uid| !uid.is_empty()),
            revision: query
                .get("resourceVersion")
                .filter(|revision| !revision.is_empty()),
            propagation: query.get("propagationPolicy"),
            orphan: query.flag("orphanDependents"),
            dry_run: query.all("dryRun").collect(),
        })
    }

    /// From a body.
    ///
    /// # Errors
    /// 400 for what is no `DeleteOptions` or has a field of another type, 422 as [`Self::of_query`].
    pub fn of_body(body: &Value) -> Result<Self, ApiError> {
        if !body.is_null() && !body.is_object() {
            return Err(ApiError::bad_request("the body is no DeleteOptions"));
        }
        if let Some(kind) = text(body, "kind")?.filter(|kind| !matches!(*kind, "" | "DeleteOptions")) {
            return Err(ApiError::bad_request(format!(
                "the body is a {kind}, not DeleteOptions"
            )));
        }
        let typed = |field, is, fits| typed(body, field, is, fits);
        typed("gracePeriodSeconds", "an integer", Value::is_i64)?;
        typed(
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "a boolean",
            Value::is_boolean,
        )?;
        typed("preconditions", "an object", Value::is_object)?;
        typed("dryRun", "a list of strings", |value| {
            let is_text = |item: &Value| item.is_string() || item.is_null();
            value.as_array().is_some_and(|list| list.iter().all(is_text))
        })?;
        let tries = body["dryRun"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self::judge(&Given {
            uid: text(&body["preconditions"], "uid")?,
            revision: text(&body["preconditions"], "resourceVersion")?,
            propagation: text(body, "propagationPolicy")?,
            orphan: typed("orphanDependents", "a boolean", Value::is_boolean)?.and_then(Value::as_bool),
            dry_run: tries
                .iter()
                .map(|item| item.as_str().unwrap_or_default())
                .collect(),
        })
    }

    fn judge(given: &Given<'_>) -> Result<Self, ApiError> {
        const POLICY: &str = "propagationPolicy";
        let mut problems = Problems::default();
        if let (Some(policy), Some(_)) = (given.propagation, given.orphan) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            problems.invalid(POLICY, &Value::from(policy), why);
        }
        let propagation = match (given.propagation, given.orphan) {
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some(other), _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                problems.unsupported(POLICY, &Value::from(other), &supported);
                None
            }
            (None, None) => None,
        };
        let dry_run = dry_run(given.dry_run.iter().copied(), &mut problems);
        verdict("DeleteOptions", problems)?;
        Ok(Self {
            uid: given.uid.map(str::to_owned),
            revision: given.revision.map(str::to_owned),
            propagation,
            dry_run,
        })
    }
}

/// A field of a type, unless it is not set.
fn typed<'a>(
    parent: &'a Value,
    field: &str,
    is: &str,
    fits: fn(&Value) -> bool,
) -> Result<Option<&'a Value>, ApiError> {
    match parent.get(field).filter(|value| !value.is_null()) {
        Some(value) if !fits(value) => Err(ApiError::bad_request(format!(
            "DeleteOptions.{field} must be {is}, not {value}"
        ))),
        found => Ok(found),
    }
}

fn text<'a>(parent: &'a Value, field: &str) -> Result<Option<&'a str>, ApiError> {
    Ok(typed(parent, field, "a string", Value::is_string)?.and_then(Value::as_str))
}
