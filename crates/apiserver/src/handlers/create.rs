//! Creating objects.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::{ApiError, Reason};
use serde_json::{Value, json};
use smol_str::SmolStr;
use source::{Change, Error, Expect, Key, Object, Resource, Write};

use super::update::Tracked;
use super::{Call, Part, metadata, present, update};
use crate::authz::{Attributes, require};
use crate::body::Body;
use crate::problems::Problems;
use crate::registry::Served;
use crate::strategy::Generation;
use crate::{error, object};

/// How often a generated name is tried anew.
const NAME_ATTEMPTS: u32 = 8;
/// A generated name's first part is cut to this length.
const GENERATED_BASE: usize = 58;

/// Answers a create.
pub(super) async fn create(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let mut object = call.decode(&body)?;
    drop(body);
    metadata::admit(&call.served, call.namespace(), &mut object, None)?;
    let outcome = create_object(call, object, Tracked::ByDifference).await?;
    outcome.respond(call, StatusCode::CREATED)
}

/// What a write made.
pub(super) enum Outcome {
    /// It is stored.
    Stored(Arc<Object>),
    /// It would have been (dry run), or is gone for good.
    Tree(Value),
}

impl Outcome {
    /// As an answer.
    pub(super) fn respond(self, call: &Call<'_>, status: StatusCode) -> Result<Response<Body>, ApiError> {
        match self {
            Self::Stored(object) => present::stored(call, status, &object),
            Self::Tree(value) => present::tree(call, status, value),
        }
    }
}

/// Creates an object that is admitted.
pub(super) async fn create_object(
    call: &mut Call<'_>,
    mut object: Value,
    tracked: Tracked,
) -> Result<Outcome, ApiError> {
    let served = call.served.clone();
    may_create(call).await?;
    let text =
        |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    if !text(&object, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    if served.custom.as_ref().is_some_and(|custom| custom.terminating) {
        return Err(ApiError::new(
            Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    let prefix = text(&object, "generateName");
    let generated = text(&object, "name").is_empty() && !prefix.is_empty();
    update::check_whole(call, &mut object)?;
    namespace_accepts(call, &text(&object, "name")).await?;
    // What a name is generated for is made anew for each name: rules may look at it.
    let template = generated.then(|| object.clone());
    for attempt in 1.. {
        if let Some(template) = &template {
            object = template.clone();
            let base: String = prefix.chars().take(GENERATED_BASE).collect();
            let suffix = call.server.env().suffix(5);
            object["metadata"]["name"] = Value::from(format!("{base}{suffix}"));
            (served.strategy.default)(&mut object);
        }
        // What the server itself decides is nobody's.
        if tracked == Tracked::ByDifference {
            update::track(call, None, &mut object, Part::Main);
        }
        prepare(&served, call.now(), call.server.env().uuid(), &mut object);
        validate(&served, &object)?;
        let grant = call.server.settle(&served, call.user, None, &mut object).await?;
        let name = text(&object, "name");
        let key = Key::new(&served.storage, call.namespace(), &name);
        if call.options.dry_run {
            call.server.addresses.give_back(&key, grant);
            return dry_create(call, &name, object).await;
        }
        let write = Write {
            key: key.clone(),
            expect: Expect::Absent,
            change: Change::Put(object::draft(&served, &update::to_storage(&served, &object))),
        };
        let error = match call.server.write(write).await {
            Ok(stored) => return Ok(Outcome::Stored(stored)),
            Err(error) => error,
        };
        call.server.addresses.give_back(&key, grant);
        let taken = generated && matches!(error, Error::AlreadyExists(_));
        if !taken {
            return Err(error::of_object(&served, &name, error));
        }
        if attempt >= NAME_ATTEMPTS {
            let mut error = ApiError::already_exists(&served.group, &served.plural, &name);
            error.message = format!(
                "{}, the server was not able to generate a unique name for the object",
                error.message
            );
            return Err(error);
        }
    }
    Err(ApiError::internal("no name could be made"))
}

/// An update or an apply of what is not there needs the right to create it, besides that to its own verb.
async fn may_create(call: &Call<'_>) -> Result<(), ApiError> {
    if call.info.verb == "create" {
        return Ok(());
    }
    let mut wanted = Attributes::of_request(call.info);
    wanted.verb = SmolStr::new_static("create");
    require(call.server.gate.authorizer(), call.user, &wanted).await
}

async fn dry_create(call: &Call<'_>, name: &str, object: Value) -> Result<Outcome, ApiError> {
    let existing = call.server.config.source.get(&call.key_of(name)).await;
    if existing.map_err(error::of_source)?.is_some() {
        return Err(ApiError::already_exists(
            &call.served.group,
            &call.served.plural,
            name,
        ));
    }
    Ok(Outcome::Tree(object))
}

/// Sets what the server decides about a new object.
pub(super) fn prepare(served: &Served, now: String, uid: String, object: &mut Value) {
    if served.has_status
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
        ] {
            metadata.remove(field);
        }
        metadata.insert("uid".to_owned(), Value::from(uid));
        metadata.insert("creationTimestamp".to_owned(), Value::from(now));
        if served.strategy.generation == Generation::None {
            metadata.remove("generation");
        } else {
            metadata.insert("generation".to_owned(), json!(1));
        }
    }
    (served.strategy.create)(object);
}

/// Refuses a new object that breaks its kind's rules.
pub(super) fn validate(served: &Served, object: &Value) -> Result<(), ApiError> {
    let mut problems = Problems::default();
    metadata::validate(served, object, &mut problems);
    if let Some(schema) = &served.schema {
        problems.extend(update::refused(served, schema.get().validate(object)));
    }
    (served.strategy.validate)(object, &mut problems);
    update::verdict(served, object, problems)
}

/// A namespaced object needs a namespace that is there and is not going away.
async fn namespace_accepts(call: &Call<'_>, name: &str) -> Result<(), ApiError> {
    let namespace = call.namespace();
    if !call.served.namespaced || !call.server.config.namespaces_must_exist {
        return Ok(());
    }
    let key = Key::new(&Resource::new("", "namespaces"), "", namespace);
    let found = call
        .server
        .config
        .source
        .get(&key)
        .await
        .map_err(error::of_source)?;
    match found {
        None => Err(ApiError::not_found("", "namespaces", namespace)),
        Some(object) if object.head.deleting => {
            let mut error = ApiError::new(
                Reason::Forbidden,
                format!(
                    "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it \
                     is being terminated",
                    call.served.qualified()
                ),
            )
            .about(&call.served.group, &call.served.plural, name);
            error.causes.push(machinery::Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
            Err(error)
        }
        Some(_) => Ok(()),
    }
}
