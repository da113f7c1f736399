//! Patches of four kinds.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use machinery::patch::{json_patch, merge_patch, strategic_merge};
use machinery::schema::Schema;
use machinery::{ApiError, Reason};
use machinery::{managed, meta};
use serde_json::{Value, json};

use super::update::Tracked;
use super::{Call, Part, create, duplicates, metadata, unknowns, update};
use crate::body::Body;
use crate::decode::{self, BodyFormat};
use crate::options::WriteOptions;
use crate::registry::SchemaRef;
use crate::{error, identity};

/// A JSON patch may have this many operations.
const OPERATIONS_LIMIT: usize = 10_000;

/// The kinds of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Kind {
    pub(super) fn from_content_type(content_type: &str, custom: bool) -> Result<Self, ApiError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => {
                let mut supported = vec!["application/json-patch+json", "application/merge-patch+json"];
                if !custom {
                    supported.push("application/strategic-merge-patch+json");
                }
                supported.push("application/apply-patch+yaml");
                Err(decode::unsupported(&supported))
            }
        }
    }
}

/// Answers a patch.
pub(super) async fn patch(call: &mut Call<'_>, part: Part, body: Bytes) -> Result<Response<Body>, ApiError> {
    let kind = Kind::from_content_type(call.header(header::CONTENT_TYPE), call.served.custom.is_some())?;
    if kind == Kind::Apply {
        return Box::pin(apply(call, part, &body)).await;
    }
    let (patch, repeated) = decode::json(&body)?;
    call.report_fields(duplicates(repeated))?;
    check(kind, &patch)?;
    let named = match kind {
        Kind::Json => false,
        Kind::Merge | Kind::Strategic | Kind::Apply => patch["metadata"]["resourceVersion"]
            .as_str()
            .is_some_and(|revision| !revision.is_empty()),
    };
    let outcome = update::change(call, part, !named, Tracked::ByDifference, |call, old| {
        let served = &call.served;
        let schema = served.schema.as_ref().map(SchemaRef::get);
        let about = (&*served.group, &*served.kind, &*call.info.name);
        let mut new = patched(kind, schema, about, old, &patch)?;
        finish(call, &mut new)?;
        Ok(new)
    })
    .await?;
    outcome.respond(call, StatusCode::OK)
}

pub(super) fn check(kind: Kind, patch: &Value) -> Result<(), ApiError> {
    match kind {
        Kind::Json => match patch.as_array() {
            Some(operations) if operations.len() > OPERATIONS_LIMIT => Err(ApiError::new(
                Reason::RequestEntityTooLarge,
                format!(
                    "The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {}",
                    operations.len()
                ),
            )),
            Some(_) => Ok(()),
            None => Err(ApiError::bad_request(
                "error decoding patch: it is no list of operations",
            )),
        },
        Kind::Merge | Kind::Strategic | Kind::Apply if patch.is_object() => Ok(()),
        Kind::Merge | Kind::Strategic | Kind::Apply => {
            Err(ApiError::bad_request("error decoding patch: it is no object"))
        }
    }
}

/// The patched object, before defaults. What it is about, as answers name it: group, kind and name.
pub(super) fn patched(
    kind: Kind,
    schema: Option<&Schema>,
    (group, of_kind, name): (&str, &str, &str),
    old: &Value,
    patch: &Value,
) -> Result<Value, ApiError> {
    match kind {
        Kind::Json => json_patch(old, patch).map_err(|error| unfit(group, of_kind, name, &error)),
        Kind::Strategic => match schema {
            Some(schema) => {
                let mut new = strategic_merge(old, patch, schema)
                    .map_err(|error| ApiError::bad_request(error.to_string()))?;
                // It is applied to a value of the kind, which has no such fields.
                for field in ["apiVersion", "kind"] {
                    new[field] = old[field].clone();
                }
                Ok(new)
            }
            None => Ok(merged(old, patch)),
        },
        Kind::Merge | Kind::Apply => Ok(merged(old, patch)),
    }
}

/// Says why a JSON patch does not fit its object. kubectl prints nothing but the causes of such an answer.
fn unfit(group: &str, kind: &str, name: &str, why: &dyn std::error::Error) -> ApiError {
    let cause = machinery::Cause {
        reason: "FieldValueInvalid".to_owned(),
        message: why.to_string(),
        field: "patch".to_owned(),
    };
    ApiError::invalid(group, kind, name, vec![cause])
}

fn merged(old: &Value, patch: &Value) -> Value {
    let mut new = old.clone();
    merge_patch(&mut new, patch);
    new
}

/// Checks a patched object as if it had been sent whole.
fn finish(call: &mut Call<'_>, new: &mut Value) -> Result<(), ApiError> {
    let name = call.info.name.clone();
    // Kubernetes reads a body without a version as one of no version that it knows, and finds nothing in it.
    if call.served.custom.is_none() && meta::api_version(new).is_empty() {
        return Err(identity::undeterminable(&name));
    }
    metadata::admit(&call.served, call.namespace(), new, Some(&name))?;
    let warnings = call.warnings.len();
    let checked = update::check_schema(call, new);
    // A patch that is tried anew says the same again.
    let mut seen = call.warnings.split_off(warnings);
    seen.retain(|warning| !call.warnings.contains(warning));
    call.warnings.extend(seen);
    checked
}

/// Answers a server-side apply.
async fn apply(call: &mut Call<'_>, part: Part, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let (config, repeated) = decode::decode(BodyFormat::Yaml, body)?;
    call.report_fields(duplicates(repeated))?;
    if !config.is_object() {
        return Err(ApiError::bad_request("the body is no object"));
    }
    let WriteOptions { manager, force, .. } = call.options.clone();
    let mut config = config;
    let name = call.info.name.clone();
    identity::check_applied(&config, |gvk| {
        gvk.api_version() == *call.served.api_version && gvk.kind == *call.served.kind
    })?;
    // A name that it does not have is that of what it is applied to, but one of nothing is none.
    if config["metadata"].get("name").is_some_and(Value::is_null) {
        return Err(identity::undeterminable(&name));
    }
    metadata::admit(&call.served, call.namespace(), &mut config, None)?;
    if let Some(schema) = &call.served.schema {
        let unknown = schema.get().unknown_fields(&config);
        call.report_fields(unknowns(unknown))?;
    }
    let reset = update::reset_fields(&call.served, part);
    let found = call
        .server
        .config
        .source
        .get(&call.key())
        .await
        .map_err(error::of_source)?;
    if found.is_none() && part == Part::Main && call.info.subresource.is_empty() {
        return create_applied(call, &config, &manager, force).await;
    }
    let outcome = update::change(call, part, true, Tracked::Already, |call, old| {
        let mut new = {
            let writer = update::writer(call, &manager, reset);
            managed::apply(old, &config, force, &writer).map_err(|error| {
                ApiError::from(error).about(&call.served.group, &call.served.plural, &name)
            })?
        };
        finish(call, &mut new)?;
        Ok(new)
    })
    .await?;
    outcome.respond(call, StatusCode::OK)
}

/// Creates the object that is applied and not there.
async fn create_applied(
    call: &mut Call<'_>,
    config: &Value,
    manager: &str,
    force: bool,
) -> Result<Response<Body>, ApiError> {
    let name = call.info.name.clone();
    if let Some(uid) = config["metadata"]["uid"].as_str() {
        return Err(ApiError::conflict(
            &call.served.group,
            &call.served.plural,
            &name,
            &format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
        ));
    }
    let reset = update::reset_fields(&call.served, Part::Main);
    let empty = json!({
        "apiVersion": call.served.api_version.as_str(), "kind": call.served.kind.as_str(),
        "metadata": {},
    });
    let mut object = {
        let writer = update::writer(call, manager, reset);
        managed::apply(&empty, config, force, &writer)?
    };
    metadata::admit(&call.served, call.namespace(), &mut object, Some(&name))?;
    let outcome = create::create_object(call, object, Tracked::Already).await?;
    outcome.respond(call, StatusCode::CREATED)
}
