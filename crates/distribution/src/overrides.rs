//! What changes a template on its way to a cluster: Globalizations, then Localizations, then what no child needs.
//!
//! Within each of the two, a larger priority is applied later and so wins; equal ones go by age, then by name.
//! Every Localization is applied after every Globalization, whatever their priorities.

use std::sync::Arc;

use api::annotations::CHANGE_SET;
use api::clusters;
use machinery::meta;
use machinery::patch::{self, PatchError};
use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use crate::division::{self, Division};
use crate::feed::Feed;
use crate::field;

/// The priority of an object that states none.
const DEFAULT_PRIORITY: i64 = 500;
/// The most operations of one JSON patch.
const OPERATIONS_LIMIT: usize = 10_000;

/// What may change the templates of one cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overrides<'a> {
    /// Every Globalization.
    pub globalizations: &'a [Arc<Value>],
    /// The Localizations of the dedicated namespace.
    pub localizations: &'a [Arc<Value>],
    /// The ManagedClusters of the dedicated namespace.
    pub clusters: &'a [Arc<Value>],
    /// How feeds are divided, `None` for not at all. It is applied last.
    pub division: Option<&'a Division>,
}

/// Why overrides cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{policy}: override \"{name}\": {problem}")]
pub struct OverrideError {
    /// The Globalization or Localization.
    pub policy: String,
    /// The override's name.
    pub name: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with one override.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The value is neither YAML nor JSON.
    #[error("value is not valid YAML: {0}")]
    Value(String),
    /// There is no such type.
    #[error("unsupported type \"{0}\"")]
    Type(String),
    /// The patch cannot be applied.
    #[error("{0}")]
    Patch(String),
    /// Too many operations.
    #[error("{0} operations are too many (limit {OPERATIONS_LIMIT})")]
    TooMany(usize),
    /// The field inside the object.
    #[error(transparent)]
    Field(#[from] field::FieldError),
    /// The selector of the Globalization.
    #[error("spec.clusterAffinity: {0}")]
    Affinity(String),
}

/// The object that a Manifest becomes.
///
/// # Errors
/// The first override that cannot be applied.
pub fn manifest(overrides: &Overrides<'_>, feed: &Feed, manifest: &Value) -> Result<Value, OverrideError> {
    let mut document = manifest["template"].clone();
    for policy in policies(overrides, feed)? {
        for item in items(policy) {
            if let Some(value) = value_of(policy, item)? {
                change(&mut document, item, &value).map_err(|problem| error(policy, item, problem))?;
            }
        }
    }
    if let Some(share) = overrides.division.and_then(|division| division.share(feed))
        && let Some(replicas) = document.pointer_mut(&share.path)
    {
        *replicas = json!(share.replicas);
    }
    strip(&mut document);
    Ok(document)
}

/// The values and the HelmChart that a HelmChart becomes; no values at all are the empty text.
///
/// # Errors
/// The first override that cannot be applied.
pub fn chart(
    overrides: &Overrides<'_>,
    feed: &Feed,
    chart: &Value,
) -> Result<(String, Value), OverrideError> {
    let (mut values, mut changes) = (Value::Null, Value::Null);
    for policy in policies(overrides, feed)? {
        for item in items(policy) {
            let Some(value) = value_of(policy, item)? else {
                continue;
            };
            if item["overrideChart"] == true && item["type"] == "Helm" {
                if changes.is_null() {
                    changes = value;
                } else {
                    patch::merge_patch(&mut changes, &value);
                }
            } else {
                change(&mut values, item, &value).map_err(|problem| error(policy, item, problem))?;
            }
        }
    }
    // The chart and its home are not open to overrides.
    if let Some(spec) = changes.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("chart");
        spec.remove("targetNamespace");
    }
    let mut chart = chart.clone();
    if changes.is_object() {
        patch::merge_patch(&mut chart, &changes);
    }
    strip(&mut chart);
    strip_chart(&mut chart);
    let values = if values.is_null() {
        String::new()
    } else {
        values.to_string()
    };
    Ok((values, chart))
}

/// What only the parent's server knows about an object.
pub(crate) fn strip(document: &mut Value) {
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("uid");
        // With whom it takes effect is nothing to the clusters: to say it anew changes nothing there.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
            && annotations.remove(CHANGE_SET).is_some()
            && annotations.is_empty()
        {
            metadata.remove("annotations");
        }
    }
    if let Some(object) = document.as_object_mut() {
        object.remove("status");
    }
}

/// What changes in a HelmChart by its use, and would make every use a change.
pub(crate) fn strip_chart(chart: &mut Value) {
    let Some(metadata) = chart.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in [
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "finalizers",
    ] {
        metadata.remove(field);
    }
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|_, value| !matches!(value.as_str(), Some("Base" | "Subscription")));
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
}

/// The policies for a feed, in the order in which they are applied.
fn policies<'a>(overrides: &Overrides<'a>, feed: &Feed) -> Result<Vec<&'a Arc<Value>>, OverrideError> {
    let mut chosen = Vec::new();
    for policy in sorted(overrides.globalizations, feed) {
        if matches_cluster(policy, overrides.clusters)? {
            chosen.push(policy);
        }
    }
    chosen.extend(sorted(overrides.localizations, feed));
    Ok(chosen)
}

pub(crate) fn sorted<'a>(policies: &'a [Arc<Value>], feed: &Feed) -> Vec<&'a Arc<Value>> {
    let concerns = |policy: &&Arc<Value>| {
        !meta::is_deleting(policy)
            && !division::is_made_here(policy)
            && Feed::from_value(&policy["spec"]["feed"]).is_same(feed)
    };
    let mut policies: Vec<_> = policies.iter().filter(concerns).collect();
    policies.sort_by_key(|policy| {
        let priority = policy["spec"]["priority"].as_i64().unwrap_or(DEFAULT_PRIORITY);
        (
            priority,
            meta::creation_timestamp(policy),
            meta::namespace(policy),
            meta::name(policy),
        )
    });
    policies
}

/// A Globalization without affinity is for every cluster, else for those it matches.
fn matches_cluster(policy: &Value, clusters: &[Arc<Value>]) -> Result<bool, OverrideError> {
    let affinity = &policy["spec"]["clusterAffinity"];
    if affinity.is_null() {
        return Ok(true);
    }
    let selector = LabelSelector::from_value(affinity)
        .map_err(|problem| error(policy, &Value::Null, Problem::Affinity(problem.to_string())))?;
    Ok(clusters
        .iter()
        .any(|cluster| selector.matches(|key| clusters::label(cluster, key))))
}

fn items(policy: &Value) -> impl Iterator<Item = &Value> {
    policy["spec"]["overrides"].as_array().into_iter().flatten()
}

fn error(policy: &Value, item: &Value, problem: Problem) -> OverrideError {
    let (kind, namespace, name) = (meta::kind(policy), meta::namespace(policy), meta::name(policy));
    let slash = if namespace.is_empty() { "" } else { "/" };
    OverrideError {
        policy: format!("{kind} {namespace}{slash}{name}"),
        name: item["name"].as_str().unwrap_or_default().to_owned(),
        problem,
    }
}

/// An override's parsed value; `None` if it is blank.
fn value_of(policy: &Value, item: &Value) -> Result<Option<Value>, OverrideError> {
    let text = item["value"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(None);
    }
    match codec::yaml::parse_one(text) {
        Ok(value) => Ok(Some(value)),
        Err(problem) => Err(error(policy, item, Problem::Value(problem.to_string()))),
    }
}

/// Applies one override to a document, which is null while there is none yet.
pub(crate) fn change(document: &mut Value, item: &Value, value: &Value) -> Result<(), Problem> {
    match item["type"].as_str().unwrap_or_default() {
        "Helm" => {
            merge_tables(document, value);
            Ok(())
        }
        "MergePatch" if document.is_null() => {
            *document = value.clone();
            Ok(())
        }
        "MergePatch" => {
            patch::merge_patch(document, value);
            Ok(())
        }
        "JSONPatch" if document.is_null() => Ok(()),
        "JSONPatch" => json_patch(document, value),
        "FieldJSONPatch" | "FieldMergePatch" if document.is_null() => Ok(()),
        "FieldJSONPatch" => field::change(document, item, |inner| json_patch(inner, value)),
        "FieldMergePatch" => field::change(document, item, |inner| {
            patch::merge_patch(inner, value);
            Ok(())
        }),
        other => Err(Problem::Type(other.to_owned())),
    }
}

/// A JSON patch as a unit: if any operation's path is missing nothing changes, which is no error.
fn json_patch(document: &mut Value, operations: &Value) -> Result<(), Problem> {
    let count = operations.as_array().map_or(0, Vec::len);
    if count > OPERATIONS_LIMIT {
        return Err(Problem::TooMany(count));
    }
    check_operations(operations)?;
    match patch::json_patch(document, operations) {
        Ok(changed) => {
            *document = changed;
            Ok(())
        }
        Err(problem) if is_missing(&problem) => Ok(()),
        Err(problem) => Err(Problem::Patch(problem.to_string())),
    }
}

/// What can be wrong with a patch whatever the document is: that must not pass for a missing path.
fn check_operations(operations: &Value) -> Result<(), Problem> {
    const KNOWN: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];
    let Some(operations) = operations.as_array() else {
        return Err(Problem::Patch(
            "a JSON patch must be a list of operations".to_owned(),
        ));
    };
    for (index, operation) in operations.iter().enumerate() {
        let kind = operation["op"].as_str().unwrap_or_default();
        if !KNOWN.contains(&kind) {
            return Err(Problem::Patch(format!(
                "operation {index}: unsupported op \"{kind}\""
            )));
        }
        if !operation["path"].is_string() {
            return Err(Problem::Patch(format!("operation {index}: path is missing")));
        }
    }
    Ok(())
}

fn is_missing(problem: &PatchError) -> bool {
    matches!(problem, PatchError::DoesNotApply(_))
}

/// Helm's way of merging values: tables are merged, everything else is replaced, null takes away.
fn merge_tables(document: &mut Value, value: &Value) {
    if document.is_null() {
        *document = value.clone();
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (&mut *document, value) else {
        *document = value.clone();
        return;
    };
    for (key, value) in new {
        match (old.get_mut(key), value) {
            (_, Value::Null) => {
                old.remove(key);
            }
            (Some(inner @ Value::Object(_)), Value::Object(_)) => merge_tables(inner, value),
            (_, value) => {
                old.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
#[path = "overrides_tests.rs"]
mod tests;
