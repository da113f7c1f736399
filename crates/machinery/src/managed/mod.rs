//! Server-side apply, and the tracking of who manages which fields (`metadata.managedFields`).
//!
//! How an API server calls it, with `schema` the served version's (`None` where there is none), after conversion to
//! that version and before defaulting of the result, validation and storage:
//! - **create, update, patch** (all but apply), also of a subresource: [`update`] with the stored object (for a create
//!   an object of the same kind without a uid and without anything else) and the object about to be stored, after
//!   admission.
//! - **apply**: [`apply`] with the stored object (or the same empty one) and the configuration as the client sent it;
//!   the answer is the object about to be stored.
//!
//! `reset` names the fields that a request on this resource or subresource cannot change (`status` for the main
//! resource with a status subresource, `spec` for `/status`): they are not tracked for its manager. Sets recorded
//! under other versions are read as if of this version.

mod entries;
mod last_applied;
mod merge;
mod path;
mod set;
mod shape;
#[cfg(test)]
mod tests;
mod walk;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::entries::{Managed, Manager, Managers, Operation};
use self::shape::Type;
use self::walk::Comparison;
use crate::schema::Schema;
use crate::{ApiError, Cause, Reason, meta};

pub use path::{PathElement, Scalar};
pub use set::FieldSet;

/// Who writes, where and when.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// The type of the object in the request's version; `None`: deduce everything from the values.
    pub schema: Option<&'a Schema>,
    /// `fieldManager`, or what stands for it (the user agent up to the first slash).
    pub manager: &'a str,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// `status`, `scale`…, empty for the main resource.
    pub subresource: &'a str,
    /// Fields that this request cannot change.
    pub reset: &'a FieldSet,
    /// Now.
    pub now: Timestamp,
}

impl<'a> Writer<'a> {
    fn of(&self) -> Type<'a> {
        Type::root(self.schema)
    }
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers have set some of the fields to something else.
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the type.
    #[error("{0}")]
    Typed(String),
}

/// One field that another manager manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as messages name it: `"kubectl" using apps/v1`.
    pub manager: String,
    /// The field, such as `.spec.replicas`.
    pub path: String,
    steps: Vec<PathElement>,
}

/// So many conflicts or problems of one request are named.
const SHOWN: usize = 100;

/// How many are only counted.
fn more_than_shown(count: usize) -> Option<usize> {
    count.checked_sub(SHOWN).filter(|more| *more > 0)
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.path
        );
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for conflict in conflicts.iter().take(SHOWN) {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.path));
    }
    if let Some(more) = more_than_shown(conflicts.len()) {
        lines.push(format!("and {more} more"));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

impl From<ApplyError> for ApiError {
    fn from(error: ApplyError) -> Self {
        let message = error.to_string();
        match error {
            ApplyError::Conflict(conflicts) => {
                let mut api = ApiError::new(Reason::Conflict, message);
                let reason = "FieldManagerConflict";
                let more = more_than_shown(conflicts.len()).map(|more| Cause {
                    reason: reason.to_owned(),
                    message: format!("and {more} more"),
                    field: "…".to_owned(),
                });
                let named = conflicts.into_iter().take(SHOWN).map(|conflict| Cause {
                    reason: reason.to_owned(),
                    message: format!("conflict with {}", conflict.manager),
                    field: conflict.path,
                });
                api.causes = named.chain(more).collect();
                api
            }
            ApplyError::BadRequest(_) => ApiError::bad_request(message),
            ApplyError::Typed(_) => ApiError::internal(message),
        }
    }
}

/// Fields that are nobody's.
static NEVER_TRACKED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// The object about to be stored with its `managedFields` brought up to date: what differs from `live` is now the
/// writer's, by the operation Update. A client may replace `managedFields` as such, or empty them to start anew.
pub fn update(live: &Value, mut object: Value, writer: &Writer<'_>) -> Value {
    let from_live = || entries::read(live);
    let mut managers = if !writer.subresource.is_empty() {
        from_live()
    } else if entries::is_reset(&object) {
        Managers::new()
    } else {
        match entries::decode(&object) {
            Some(managers) if !managers.is_empty() => managers,
            Some(_) | None => from_live(),
        }
    };
    entries::strip(&mut object);
    if !meta::uid(live).is_empty() {
        // Objects from before there were managers are not tracked until somebody applies.
        if managers.is_empty() {
            return object;
        }
        // The managers of `live` differ from none at all, but they are nobody's field.
        track(live, &object, &mut managers, writer);
    } else {
        let mut empty = live.clone();
        entries::strip(&mut empty);
        add_structs(&mut empty, &object, writer.schema);
        track(&empty, &object, &mut managers, writer);
    }
    entries::cap(&mut managers);
    entries::encode(&mut object, &managers);
    object
}

/// In Go, an empty object of a built-in kind has its embedded structs, so that nobody sets them as such.
fn add_structs(live: &mut Value, new: &Value, schema: Option<&Schema>) {
    const STRUCTS: [&str; 8] = [
        "spec",
        "status",
        "metadata",
        "template",
        "strategy",
        "updateStrategy",
        "jobTemplate",
        "loadBalancer",
    ];
    let (Some(schema), Some(new)) = (schema, new.as_object()) else {
        return;
    };
    if schema.name.is_empty() || !live.is_object() {
        return;
    }
    for name in STRUCTS {
        if let (Some(value), Some(node)) = (new.get(name), schema.properties.get(name))
            && value.is_object()
        {
            meta::ensure_map(live, name);
            add_structs(&mut live[name], value, Some(node));
        }
    }
    // Lists that are written even if empty.
    for name in ["containers", "rules"] {
        if new.get(name).is_some_and(Value::is_array) && live.get(name).is_none() {
            live[name] = Value::Null;
        }
    }
}

/// Gives the writer what differs.
fn track(live: &Value, new: &Value, managers: &mut Managers, writer: &Writer<'_>) {
    entries::reconcile(managers, writer.of());
    let found = take_over(live, new, managers, None, true, writer).unwrap_or_default();
    let Comparison { modified, added, .. } = found;
    let mut taken = if modified.is_empty() {
        added
    } else {
        modified.union(&added)
    };
    if !writer.reset.is_empty() {
        taken = taken.recursive_difference(writer.reset);
    }
    taken.subtract(&NEVER_TRACKED);
    if taken.is_empty() {
        return;
    }
    let manager = Manager::new(
        writer.manager,
        Operation::Update,
        writer.api_version,
        writer.subresource,
    );
    let before = managers
        .remove(&manager)
        .map(|managed| managed.set)
        .unwrap_or_default();
    managers.insert(
        manager,
        Managed {
            set: taken.union(&before),
            api_version: writer.api_version.to_owned(),
            time: Some(writer.now),
        },
    );
}

/// Compares the two and takes what changed from all managers but one; conflicts are an error unless forced.
fn take_over(
    live: &Value,
    new: &Value,
    managers: &mut Managers,
    but: Option<&Manager>,
    force: bool,
    writer: &Writer<'_>,
) -> Result<Comparison, ApplyError> {
    let found = walk::compare(live, new, writer.of());
    if managers.keys().all(|manager| Some(manager) == but) {
        managers.retain(|_, managed| !managed.set.is_empty());
        return Ok(found);
    }
    let counted = if writer.reset.is_empty() {
        Cow::Borrowed(&found)
    } else {
        Cow::Owned(found.without(writer.reset))
    };
    let mut conflicts: BTreeMap<Manager, FieldSet> = BTreeMap::new();
    for (manager, managed) in managers.iter().filter(|(manager, _)| Some(*manager) != but) {
        let modified = managed.set.intersection(&counted.modified);
        let conflict = modified.union(&managed.set.intersection(&counted.added));
        if !conflict.is_empty() {
            conflicts.insert(manager.clone(), conflict);
        }
    }
    if !force && !conflicts.is_empty() {
        let list = conflicts.iter().flat_map(|(manager, set)| {
            set.paths().into_iter().map(|steps| Conflict {
                manager: manager.describe(),
                path: path::show(&steps),
                steps,
            })
        });
        return Err(ApplyError::Conflict(list.collect()));
    }
    for (manager, managed) in managers.iter_mut() {
        if Some(manager) == but {
            continue;
        }
        if let Some(conflict) = conflicts.get(manager) {
            managed.set.subtract(conflict);
        }
        managed.set.subtract(&counted.removed);
    }
    managers.retain(|_, managed| !managed.set.is_empty());
    drop(counted);
    Ok(found)
}

/// The live object with a configuration applied: the configuration's fields are set and become the writer's, by the
/// operation Apply; fields that the writer applied before and no longer does go, unless somebody else manages them.
///
/// # Errors
/// [`ApplyError::Conflict`] where others have set fields to something else (not with `force`, and not for a
/// `kubectl` that takes over from its own client-side apply); [`ApplyError::BadRequest`] for another version or a
/// configuration with `managedFields`; [`ApplyError::Typed`] for one that does not fit the schema.
pub fn apply(live: &Value, config: &Value, force: bool, writer: &Writer<'_>) -> Result<Value, ApplyError> {
    if meta::api_version(config) != writer.api_version {
        return Err(ApplyError::BadRequest(format!(
            "Incorrect version specified in apply patch. Specified patch version: {}, expected: {}",
            meta::api_version(config),
            writer.api_version
        )));
    }
    if config
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"))
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    let managers = entries::read(live);
    let mut bare = live.clone();
    entries::strip(&mut bare);
    let applied = match apply_once(&bare, config, &managers, force, writer) {
        Err(ApplyError::Conflict(conflicts)) if writer.manager == "kubectl" => {
            let rest = last_applied::remaining(conflicts, &bare, writer);
            if rest.is_empty() {
                apply_once(&bare, config, &managers, true, writer)
            } else {
                Err(ApplyError::Conflict(rest))
            }
        }
        other => other,
    };
    let mut object = applied?;
    if writer.manager == "kubectl" {
        last_applied::refresh(&mut object, config);
    }
    Ok(object)
}

fn apply_once(
    live: &Value,
    config: &Value,
    managers: &Managers,
    force: bool,
    writer: &Writer<'_>,
) -> Result<Value, ApplyError> {
    let of = writer.of();
    let mut managers = managers.clone();
    if managers.is_empty() {
        let empty = json!({
            "apiVersion": meta::api_version(live), "kind": meta::kind(live), "metadata": {},
        });
        let before = Writer {
            manager: "before-first-apply",
            ..*writer
        };
        track(&empty, live, &mut managers, &before);
    }
    let mut problems = Vec::new();
    walk::validate(config, of, "", &mut problems);
    if !problems.is_empty() {
        return Err(ApplyError::Typed(format!(
            "failed to create typed patch object ({}/{}; {}): {}",
            meta::namespace(config),
            meta::name(config),
            meta::gvk(config),
            listed(&problems)
        )));
    }
    entries::reconcile(&mut managers, of);
    let merged = merge::merge(live, config, of)
        .map_err(|problem| ApplyError::Typed(format!("failed to merge config: {problem}")))?;
    let manager = Manager::new(
        writer.manager,
        Operation::Apply,
        writer.api_version,
        writer.subresource,
    );
    let last = managers.get(&manager).cloned();
    let set = walk::field_set(config, of).recursive_difference(writer.reset);
    managers.insert(
        manager.clone(),
        Managed {
            set,
            api_version: writer.api_version.to_owned(),
            time: last.as_ref().and_then(|managed| managed.time),
        },
    );
    let mut object = match &last {
        Some(last) if !last.set.is_empty() => prune(&merged, &managers, &last.set, of),
        Some(_) | None => merged.clone(),
    };
    take_over(live, &object, &mut managers, Some(&manager), force, writer)?;
    let changed = !walk::same(live, &object);
    if let Some(managed) = managers.get_mut(&manager) {
        managed.set = managed.set.difference(&NEVER_TRACKED);
        if changed || managed.time.is_none() {
            managed.time = Some(writer.now);
        }
    }
    managers.retain(|_, managed| !managed.set.is_empty());
    // Only now: an emptied map is still there as far as its managers are concerned.
    merge::drop_new_nulls(&mut object, &merged);
    entries::encode(&mut object, &managers);
    Ok(object)
}

fn listed(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => {
            let mut lines: Vec<String> = many
                .iter()
                .take(SHOWN)
                .map(|problem| format!("  {problem}"))
                .collect();
            if let Some(more) = more_than_shown(many.len()) {
                lines.push(format!("  and {more} more"));
            }
            format!("errors:\n{}", lines.join("\n"))
        }
    }
}

/// Takes out what was applied last time, is not applied now, and is managed by nobody else.
fn prune(merged: &Value, managers: &Managers, last: &FieldSet, of: Type<'_>) -> Value {
    let named = |set: &FieldSet| walk::with_named_fields(set, Some(of));
    let fields = |value: &Value| named(&walk::field_set(value, of));
    let last = named(last);
    let all = fields(merged);
    let pruned = merge::remove(merged, &last, of);
    // Back comes what somebody manages…
    let managed = managers
        .values()
        .fold(FieldSet::default(), |all, managed| all.union(&managed.set));
    let kept = fields(&pruned).union(&named(&managed));
    let pruned = merge::remove(merged, &all.difference(&kept), of);
    // …and what was never the applier's.
    let gone = all.difference(&fields(&pruned)).intersection(&last);
    let result = merge::remove(merged, &gone, of);
    if result.is_object() { result } else { json!({}) }
}
