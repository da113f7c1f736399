//! Changing objects: the way that replacing, patching and scaling share.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::ApiError;
use machinery::managed::{self, FieldSet, Writer};
use serde_json::{Value, json};
use source::{Change, Error, Expect, Object, Write};

use super::create::{self, Outcome};
use super::{Call, Part, STRICT, metadata, unknowns};
use crate::body::Body;
use crate::problems::Problems;
use crate::registry::{SchemaRef, Served};
use crate::strategy::{Generation, pod_parts};
use crate::{canonical, error, object};

/// How often a change is made anew on the newest version.
const ATTEMPTS: u32 = 16;

/// Answers an update.
pub(super) async fn replace(
    call: &mut Call<'_>,
    part: Part,
    body: Bytes,
) -> Result<Response<Body>, ApiError> {
    let mut wanted = call.decode(&body)?;
    drop(body);
    let name = call.info.name.clone();
    metadata::admit(&call.served, call.namespace(), &mut wanted, Some(&name))?;
    check_whole(call, &mut wanted)?;
    if part == Part::Main && call.served.strategy.create_on_update {
        let found = call
            .server
            .config
            .source
            .get(&call.key())
            .await
            .map_err(error::of_source)?;
        if found.is_none() {
            wanted["metadata"]
                .as_object_mut()
                .map(|metadata| metadata.remove("resourceVersion"));
            let outcome = create::create_object(call, wanted, Tracked::ByDifference).await?;
            return outcome.respond(call, StatusCode::CREATED);
        }
    }
    let named = wanted["metadata"]["resourceVersion"]
        .as_str()
        .is_some_and(|revision| !revision.is_empty() && revision != "0");
    if !named && part == Part::Main && !call.served.strategy.unconditional_update {
        return Err(ApiError::invalid(
            &call.served.group,
            &call.served.kind,
            &name,
            vec![machinery::Cause {
                reason: "FieldValueInvalid".to_owned(),
                message: "Invalid value: 0x0: must be specified for an update".to_owned(),
                field: "metadata.resourceVersion".to_owned(),
            }],
        ));
    }
    let outcome = change(call, part, !named, Tracked::ByDifference, |_, _| {
        // What names its version is tried once.
        Ok(if named { wanted.take() } else { wanted.clone() })
    })
    .await?;
    outcome.respond(call, StatusCode::OK)
}

/// Reads the object that the path names, makes a new version of it, and stores that. Where `retry` is set this
/// starts again when somebody else was faster.
pub(super) async fn change(
    call: &mut Call<'_>,
    part: Part,
    retry: bool,
    tracked: Tracked,
    mut make: impl FnMut(&mut Call<'_>, &Value) -> Result<Value, ApiError> + Send,
) -> Result<Outcome, ApiError> {
    let served = call.served.clone();
    let name = call.info.name.clone();
    for attempt in 1.. {
        let stored = call.existing().await?;
        let mut old = object::parse(&served, &stored.json)?;
        if served.custom.is_none() {
            // What an earlier release stored is read as it would be stored now, and no worse if it cannot be.
            canonical::settle(&mut old).ok();
        }
        let mut new = make(call, &old)?;
        check_preconditions(call, &new, &old)?;
        if tracked == Tracked::ByDifference {
            keep_managers(&mut new, &old);
        }
        let problems = prepare(&served, part, &mut new, &old);
        validate(&served, part, &new, &old, problems)?;
        if new == old {
            return Ok(Outcome::Stored(stored));
        }
        if tracked == Tracked::ByDifference {
            track(call, Some(&old), &mut new, part);
        }
        let grant = call
            .server
            .settle(&served, call.user, Some(&old), &mut new)
            .await?;
        let outcome = store(call, &stored, &old, new).await;
        if call.options.dry_run || outcome.is_err() {
            call.server.addresses.give_back(&stored.key, grant);
        }
        match outcome {
            Err(Error::Conflict { .. }) if retry && attempt < ATTEMPTS => {}
            Err(error) => return Err(error::of_object(&served, &name, error)),
            Ok(outcome) => return Ok(outcome),
        }
    }
    Err(ApiError::internal("the object changes too fast"))
}

/// How it becomes known who set which fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracked {
    /// What differs from before is the writer's.
    ByDifference,
    /// The new version says so already, as apply makes it.
    Already,
}

/// A client that leaves out who manages which fields does not mean to change that.
pub(super) fn keep_managers(new: &mut Value, old: &Value) {
    let managers = &old["metadata"]["managedFields"];
    if managers.is_null()
        || new["metadata"]["managedFields"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    {
        return;
    }
    if let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.insert("managedFields".to_owned(), managers.clone());
    }
}

/// Stores a new version, or removes the object if nothing holds it any longer.
async fn store(call: &Call<'_>, stored: &Arc<Object>, old: &Value, new: Value) -> Result<Outcome, Error> {
    let served = &call.served;
    let deleting = !old["metadata"]["deletionTimestamp"].is_null();
    let gone = deleting && !metadata::is_held(served, &new) && waits_for_nothing(&new);
    if call.options.dry_run {
        return Ok(Outcome::Tree(new));
    }
    let write = Write {
        key: stored.key.clone(),
        expect: Expect::Revision(stored.revision),
        change: if gone {
            Change::Delete
        } else {
            Change::Put(object::draft(served, &to_storage(served, &new)))
        },
    };
    let written = call.server.write(write).await?;
    Ok(if gone {
        Outcome::Tree(new)
    } else {
        Outcome::Stored(written)
    })
}

/// Whether no grace period runs.
fn waits_for_nothing(object: &Value) -> bool {
    object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0)
        == 0
}

fn check_preconditions(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    let (served, name) = (&call.served, &call.info.name);
    let text =
        |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (wanted, found) = (text(new, "uid"), text(old, "uid"));
    // What a patch says is no precondition: it wants another.
    if !wanted.is_empty() && wanted != found && call.info.verb != "patch" {
        return Err(ApiError::conflict(
            &served.group,
            &served.plural,
            name,
            &format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"),
        ));
    }
    let wanted = text(new, "resourceVersion");
    if !wanted.is_empty() && wanted != "0" && wanted != text(old, "resourceVersion") {
        return Err(ApiError::conflict(
            &served.group,
            &served.plural,
            name,
            error::MODIFIED,
        ));
    }
    Ok(())
}

/// The same for an object that was sent whole.
pub(super) fn check_whole(call: &mut Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    check_schema(call, object).map_err(|error| unfit_fields(&call.served, error))
}

/// A refusal of fields, with what the body cannot be for their sake; other errors as they are.
pub(super) fn unfit_fields(served: &Served, mut error: ApiError) -> ApiError {
    if error.message.starts_with(STRICT) {
        error.message = format!("{}: {}", unfit(served), error.message);
    }
    error
}

/// Prunes what the schema does not know, and fills in its defaults and those of the kind.
pub(super) fn check_schema(call: &mut Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let unknown = fill(&call.served, object)?;
    call.report_fields(unknowns(unknown))
}

/// The same without judging what was not known; says what that was.
pub(super) fn fill(served: &Served, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let mut unknown = Vec::new();
    if let Some(schema) = &served.schema {
        unknown = schema.get().prune(object);
        if served.custom.is_some() {
            schema.get().fill_defaults(object);
        } else {
            schema.get().drop_nulls(object);
            canonical::settle(object)
                .map_err(|error| ApiError::bad_request(format!("{}: {error}", unfit(served))))?;
        }
    }
    (served.strategy.default)(object);
    Ok(unknown)
}

/// Takes over from the old version what this request may not change; tells what of it may not even be asked for.
pub(super) fn prepare(served: &Served, part: Part, new: &mut Value, old: &Value) -> Problems {
    match part {
        Part::Main => {
            if served.has_status {
                copy(new, old, "status");
            }
        }
        Part::Status => {
            let taken = |new: &mut Value, field: &str| new.get_mut(field).map(Value::take);
            let (status, metadata) = (taken(new, "status"), taken(new, "metadata"));
            let mut metadata = metadata.unwrap_or_default();
            if served.custom.is_none() {
                copy(&mut metadata, &old["metadata"], "labels");
                copy(&mut metadata, &old["metadata"], "ownerReferences");
            } else {
                let managers = taken(&mut metadata, "managedFields");
                metadata = fields_but(&old["metadata"], &["managedFields"]);
                set_or_remove(&mut metadata, "managedFields", managers);
            }
            *new = fields_but(old, &["status", "metadata"]);
            set_or_remove(new, "metadata", Some(metadata));
            set_or_remove(new, "status", status);
        }
        Part::Finalize => {
            let finalizers = new["spec"].get("finalizers").cloned();
            let status = old.get("status").cloned();
            set_or_remove(new, "status", status);
            let mut spec = old["spec"].clone();
            set_or_remove(&mut spec, "finalizers", finalizers);
            set_or_remove(new, "spec", Some(spec));
        }
        Part::Approval => {
            let conditions = new["status"].get("conditions").cloned();
            let mut next = old.clone();
            if let Some(status) = crate::strategy::field_mut(&mut next, "status") {
                set_or_remove(status, "conditions", conditions);
            }
            *new = next;
        }
        Part::EphemeralContainers | Part::Resize => {
            let managers = new["metadata"].get("managedFields").cloned();
            *new = if part == Part::Resize {
                pod_parts::with_resources(new, old)
            } else {
                pod_parts::with_ephemeral(new, old)
            };
            set_or_remove(&mut new["metadata"], "managedFields", managers);
        }
    }
    let mut problems = Problems::default();
    metadata::no_change_of_life(new, old, &mut problems);
    metadata::keep_system_fields(new, old);
    if part == Part::Main {
        (served.strategy.update)(new, old);
    }
    if matches!(part, Part::Main | Part::EphemeralContainers | Part::Resize) {
        let changed = match served.strategy.generation {
            Generation::None => false,
            Generation::Spec => new.get("spec") != old.get("spec"),
            Generation::Content => content_differs(served, new, old),
        };
        if changed {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            new["metadata"]["generation"] = json!(generation);
        }
    }
    problems
}

fn content_differs(served: &Served, new: &Value, old: &Value) -> bool {
    let has_status = served.has_status || served.custom.is_none();
    let is_content = |field: &str| field != "metadata" && !(has_status && field == "status");
    let content = |object| fields(object).filter(|(field, _)| is_content(field));
    content(new).ne(content(old))
}

/// An object's fields, in the order of their names.
fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// A copy of an object without some of its fields.
fn fields_but(object: &Value, without: &[&str]) -> Value {
    fields(object)
        .filter(|(field, _)| !without.contains(&field.as_str()))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    let value = from.get(field).cloned();
    set_or_remove(to, field, value);
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    match value {
        None | Some(Value::Null) => {
            map.remove(field);
        }
        Some(value) => {
            map.insert(field.to_owned(), value);
        }
    }
}

pub(super) fn validate(
    served: &Served,
    part: Part,
    new: &Value,
    old: &Value,
    mut problems: Problems,
) -> Result<(), ApiError> {
    metadata::validate(served, new, &mut problems);
    metadata::no_new_finalizers(new, old, &mut problems);
    if let Some(schema) = &served.schema {
        let schema = schema.get();
        // A definition may have become stricter than what is stored, a built-in kind has not.
        let causes = if served.custom.is_some() {
            schema.validate_update(new, old)
        } else {
            schema.validate(new)
        };
        problems.extend(refused(served, causes));
    }
    match part {
        Part::Main => {
            (served.strategy.validate)(new, &mut problems);
            (served.strategy.validate_update)(new, old, &mut problems);
        }
        Part::EphemeralContainers => pod_parts::validate_ephemeral(new, old, &mut problems),
        Part::Resize => pod_parts::validate_resize(new, old, &mut problems),
        Part::Finalize => (served.strategy.validate)(new, &mut problems),
        Part::Status => (served.strategy.validate_status)(new, &mut problems),
        Part::Approval => {}
    }
    verdict(served, new, problems)
}

/// What of a schema's complaints a write is refused for. Lists of built-in kinds may hold items of one key, which only
/// apply and patches go by (variables and ports are often given twice), but for a few whose items must differ.
pub(super) fn refused(served: &Served, mut causes: Vec<machinery::Cause>) -> Vec<machinery::Cause> {
    const DISTINCT: [&str; 3] = [".volumeMounts[", ".volumeDevices[", ".topologySpreadConstraints["];
    if served.custom.is_none() {
        causes.retain(|cause| {
            cause.reason != "FieldValueDuplicate" || DISTINCT.iter().any(|list| cause.field.contains(list))
        });
    }
    causes
}

/// 422 if there are problems.
pub(crate) fn verdict(served: &Served, object: &Value, problems: Problems) -> Result<(), ApiError> {
    let mut causes = problems.into_causes();
    if causes.is_empty() {
        return Ok(());
    }
    // A built-in kind's body of wrong types is no object of that kind at all.
    if served.custom.is_none() && causes.iter().any(|cause| cause.reason == WRONG_TYPE) {
        causes.retain(|cause| cause.reason == WRONG_TYPE);
        causes.truncate(CAUSES_LIMIT);
        let list: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let mut error = ApiError::bad_request(format!("{}: {}", unfit(served), list.join(", ")));
        error.causes = causes;
        return Err(error);
    }
    // Schema and rules of a built-in kind may both have noticed.
    if served.custom.is_none() {
        let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
        causes.retain(|cause| seen.insert((cause.field.clone(), cause.reason.clone())));
    }
    // A hostile body is not answered with a multiple of itself.
    if let Some(more) = causes.len().checked_sub(CAUSES_LIMIT).filter(|more| *more > 0) {
        causes.truncate(CAUSES_LIMIT);
        causes.push(machinery::Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("and {more} more"),
            field: "…".to_owned(),
        });
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(ApiError::invalid(&served.group, &served.kind, name, causes))
}

/// So many problems of one object are told.
const CAUSES_LIMIT: usize = 100;
const WRONG_TYPE: &str = "FieldValueTypeInvalid";

/// How messages about bodies begin that are no objects of their kind.
pub(super) fn unfit(served: &Served) -> String {
    format!(
        "{kind} in version \"{}\" cannot be handled as a {kind}",
        served.version,
        kind = served.kind
    )
}

/// Fields that a request on a part of an object cannot change.
pub(super) fn reset_fields(served: &Served, part: Part) -> &'static FieldSet {
    static NONE: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["status"]));
    static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["spec"]));
    static ALL_BUT_STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["spec", "metadata"]));
    static SPEC_AND_LABELS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&["spec", "metadata.labels"]));
    match part {
        Part::Main if served.has_status => &STATUS,
        Part::Main => &NONE,
        Part::Status if served.custom.is_some() => &ALL_BUT_STATUS,
        Part::Status => &SPEC_AND_LABELS,
        Part::Finalize | Part::EphemeralContainers | Part::Resize => &STATUS,
        Part::Approval => &SPEC,
    }
}

/// Who a request writes as.
pub(super) fn writer<'a>(call: &'a Call<'_>, manager: &'a str, reset: &'a FieldSet) -> Writer<'a> {
    Writer {
        schema: call.served.schema.as_ref().map(SchemaRef::get),
        manager,
        api_version: &call.served.api_version,
        subresource: &call.info.subresource,
        reset,
        now: call.server.env().now(),
    }
}

/// Notes who set which fields.
pub(super) fn track(call: &Call<'_>, old: Option<&Value>, new: &mut Value, part: Part) {
    let manager = call.manager();
    let reset = reset_fields(&call.served, part);
    let writer = writer(call, &manager, reset);
    let empty = json!({"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": {}});
    *new = managed::update(old.unwrap_or(&empty), std::mem::take(new), &writer);
}

/// An object in the version in which it is stored.
pub(super) fn to_storage<'a>(served: &Served, object: &'a Value) -> std::borrow::Cow<'a, Value> {
    match served.strategy.convert {
        Some(convert) if served.api_version != served.storage_version => {
            let mut object = object.clone();
            convert(&mut object, &served.storage_version);
            std::borrow::Cow::Owned(object)
        }
        _ => std::borrow::Cow::Borrowed(object),
    }
}
