//! What the verbs do. [`dispatch`] finds the resource and hands over.

mod create;
mod delete;
mod eviction;
pub(crate) mod fuzz;
mod list;
mod metadata;
mod patch;
mod present;
mod scale;
mod subresources;
mod update;
mod watch;

pub(crate) use list::token_is_valid as list_token;
pub(crate) use scale::{scale_of, set};
pub(crate) use update::verdict;

use std::pin::pin;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use machinery::{ApiError, Reason};
use serde_json::Value;
use smol_str::SmolStr;
use source::{Key, Object};

use crate::body::{Body, ReadError};
use crate::bulk::Room;
use crate::decode::{self, BodyFormat};
use crate::error;
use crate::negotiate::{Accepted, Offer, negotiate};
use crate::options::{self, FieldValidation, WriteOptions, Writes};
use crate::query::Query;
use crate::registry::Served;
use crate::request_info::RequestInfo;
use crate::respond;
use crate::server::ApiServer;
use crate::user::UserInfo;

/// Larger bodies are refused.
pub(crate) const BODY_LIMIT: usize = 3 * 1_024 * 1_024;

/// Room for large bodies. The memory is the process's, and so is this.
static ROOM: LazyLock<Room> = LazyLock::new(Room::default);

/// Slower bodies are refused.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// How messages about unknown and repeated fields begin.
const STRICT: &str = "strict decoding error";

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, where that has its own subresource.
    Main,
    /// The status alone.
    Status,
    /// A namespace's finalizers.
    Finalize,
    /// A signing request's verdict.
    Approval,
    /// A pod's ephemeral containers.
    EphemeralContainers,
    /// What a pod's containers may use.
    Resize,
}

/// One request, understood so far.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<ApiServer>,
    pub(crate) served: Arc<Served>,
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a Query,
    pub(crate) user: &'a UserInfo,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) accepted: Accepted,
    /// Of a create, an update or a patch.
    pub(crate) options: WriteOptions,
    pub(crate) warnings: Vec<String>,
}

impl Call<'_> {
    /// The object that the path names.
    pub(crate) fn key(&self) -> Key {
        self.key_of(&self.info.name)
    }

    /// An object in the path's namespace.
    pub(crate) fn key_of(&self, name: &str) -> Key {
        Key::new(&self.served.storage, self.namespace(), name)
    }

    /// The namespace that the path names; empty for cluster-scoped resources (also for namespaces themselves).
    pub(crate) fn namespace(&self) -> &str {
        if self.served.namespaced {
            &self.info.namespace
        } else {
            ""
        }
    }

    /// Reads the object that the path names.
    pub(crate) async fn existing(&self) -> Result<Arc<Object>, ApiError> {
        self.server
            .config
            .source
            .get(&self.key())
            .await
            .map_err(error::of_source)?
            .ok_or_else(|| self.not_found(&self.info.name))
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.served.group, &self.served.plural, name)
    }

    /// The field manager: as the options say, else the first part of the user agent.
    pub(crate) fn manager(&self) -> String {
        if !self.options.manager.is_empty() {
            return self.options.manager.clone();
        }
        let agent = self.header(header::USER_AGENT);
        let name = agent.split('/').next().unwrap_or_default();
        name.chars().take(128).collect()
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Now, as objects write it.
    pub(crate) fn now(&self) -> String {
        timestamp(self.server.env().now())
    }

    /// Judges fields that are unknown or come twice, as the client wants it.
    pub(crate) fn report_fields(&mut self, mut problems: Vec<String>) -> Result<(), ApiError> {
        if problems.is_empty() {
            return Ok(());
        }
        if let Some(more) = problems.len().checked_sub(FIELDS_LIMIT).filter(|more| *more > 0) {
            problems.truncate(FIELDS_LIMIT);
            problems.push(format!("and at least {more} more"));
        }
        match self.options.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(problems),
            FieldValidation::Strict => {
                return Err(ApiError::bad_request(format!(
                    "{STRICT}: {}",
                    problems.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Reads a body into a tree; fields that come twice are reported.
    pub(crate) fn decode(&mut self, body: &Bytes) -> Result<Value, ApiError> {
        let format = BodyFormat::from_content_type(self.header(header::CONTENT_TYPE))?;
        if format == BodyFormat::Protobuf && !self.served.has_protobuf() {
            return Err(decode::unsupported(&["application/json", "application/yaml"]));
        }
        let (value, repeated) = decode::decode(format, body)?;
        let mut problems = duplicates(repeated);
        let strict = self.options.validation == FieldValidation::Strict && !problems.is_empty();
        if strict && matches!(self.info.subresource.as_str(), "" | "status") {
            // What is refused at all is told of in full.
            let schema = self.served.schema.as_ref();
            problems
                .extend(schema.map_or_else(Vec::new, |schema| unknowns(schema.get().unknown_fields(&value))));
        }
        self.report_fields(problems)
            .map_err(|error| update::unfit_fields(&self.served, error))?;
        Ok(value)
    }
}

/// What is said of fields that a body names twice.
fn duplicates(paths: Vec<String>) -> Vec<String> {
    paths
        .iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .collect()
}

/// What is said of fields that a schema does not have.
fn unknowns(paths: Vec<String>) -> Vec<String> {
    paths
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect()
}

/// A point in time as objects write it: whole seconds, UTC.
pub(crate) fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// So many unknown or repeated fields of one body are named: some clients take no more than 100 headers.
const FIELDS_LIMIT: usize = 50;

/// Reads a whole body, in a time in which any honest client sends one.
///
/// # Errors
/// 413 for one of more than 3 MiB, 504 for one that takes longer than a minute, 400 for one that breaks off.
pub async fn read_body(body: Body) -> Result<Bytes, ApiError> {
    let read = tokio::time::timeout(BODY_TIMEOUT, body.read_within(BODY_LIMIT, &ROOM)).await;
    let read = read.map_err(|_| {
        ApiError::new(
            Reason::Timeout,
            format!(
                "Timeout: the body did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            ),
        )
    })?;
    read.map_err(|error| match error {
        ReadError::TooLarge(limit) => ApiError::new(
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {limit}"),
        ),
        ReadError::Broken(error) => ApiError::bad_request(format!("the body ended early: {error}")),
    })
}

/// Answers a request about objects that is authorized.
pub(crate) async fn dispatch(
    server: &Arc<ApiServer>,
    info: &RequestInfo,
    query: &Query,
    user: &UserInfo,
    request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let snapshot = server.registry.snapshot();
    let served = snapshot
        .find(&info.group, &info.version, &info.resource)
        .cloned()
        .ok_or_else(error::no_such_path)?;
    if served.namespaced && info.namespace.is_empty() && !matches!(info.verb.as_str(), "list" | "watch") {
        let wrong_verb = info.name.is_empty() && matches!(info.verb.as_str(), "create" | "deletecollection");
        return Err(if wrong_verb {
            error::no_such_verb()
        } else {
            error::no_such_path()
        });
    }
    if !served.namespaced && !info.namespace.is_empty() && served.plural != "namespaces" {
        return Err(error::no_such_path());
    }
    if !info.rest.is_empty() && info.subresource != "proxy" {
        return Err(error::no_such_path());
    }
    let (parts, body) = request.into_parts();
    let offer = Offer {
        protobuf: served.has_protobuf(),
        forms: true,
    };
    let accept = parts
        .headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let connects = matches!(
        info.subresource.as_str(),
        "log" | "exec" | "attach" | "portforward" | "proxy"
    );
    let accepted = if connects {
        Accepted::default()
    } else {
        negotiate(accept, offer)?
    };
    match info.verb.as_str() {
        "list" => accepted.fits(true)?,
        "get" | "create" | "update" | "patch" => accepted.fits(false)?,
        _ => {}
    }
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let options = match Writes::of(&info.verb, content_type) {
        Some(writes) if !connects => WriteOptions::of_query(writes, query)?,
        Some(_) | None => WriteOptions::default(),
    };
    let mut call = Call {
        server,
        served,
        info,
        query,
        user,
        headers: &parts.headers,
        accepted,
        options,
        warnings: Vec::new(),
    };
    if let Some(deprecation) = call
        .served
        .custom
        .as_ref()
        .and_then(|custom| custom.deprecation.clone())
    {
        call.warnings.push(deprecation);
    }
    let mut response = if connects {
        if call.served.subresource(&info.subresource).is_none() {
            return Err(error::no_such_path());
        }
        let subject = subresources::connected(&call).await?;
        drop(call);
        let request = Request::from_parts(parts, body);
        return Box::pin(subresources::connect(server, info, user, subject, request)).await;
    } else {
        check_verb(&call)?;
        let body = if matches!(info.verb.as_str(), "get" | "list" | "watch") {
            Bytes::new()
        } else {
            read_body(body).await?
        };
        let size = body.len();
        let answer = pin!(async {
            if info.subresource.is_empty() {
                main_resource(&mut call, body).await
            } else {
                Box::pin(subresources::answer(&mut call, body)).await
            }
        });
        server.bulk.run(size, answer).await?
    };
    respond::add_warnings(&mut response, &call.warnings);
    Ok(response)
}

/// Whether the resource, or its subresource, has the verb.
fn check_verb(call: &Call<'_>) -> Result<(), ApiError> {
    let verb = call.info.verb.as_str();
    let allowed = if call.info.subresource.is_empty() {
        call.served.allows(verb)
    } else {
        let subresource = call.served.subresource(&call.info.subresource);
        subresource.ok_or_else(error::no_such_path)?.verbs.contains(&verb)
    };
    if allowed {
        Ok(())
    } else {
        Err(error::no_such_verb())
    }
}

/// What is rare, or takes long anyway, is boxed: every request's future has room for the largest of the others.
async fn main_resource(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let verb: SmolStr = call.info.verb.clone();
    match (verb.as_str(), call.info.name.is_empty()) {
        ("get", false) => {
            let revision = options::get_revision(call.query)?;
            list::reached(call, revision)?;
            let object = call.existing().await?;
            present::stored(call, http::StatusCode::OK, &object)
        }
        ("list", true) => list::list(call).await,
        ("watch", _) => Box::pin(watch::watch(call)).await,
        ("create", true) if is_review(call) => Box::pin(subresources::review(call, body)).await,
        ("create", true) => create::create(call, body).await,
        ("update", false) => update::replace(call, Part::Main, body).await,
        ("patch", false) => patch::patch(call, Part::Main, body).await,
        ("delete", false) => delete::delete(call, body).await,
        ("deletecollection", true) => Box::pin(delete::collection(call, body)).await,
        _ => Err(error::no_such_verb()),
    }
}

/// Whether the resource's objects are answered and never stored.
fn is_review(call: &Call<'_>) -> bool {
    call.served.verbs == ["create"]
}
