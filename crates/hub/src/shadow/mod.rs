//! `shadow/v1alpha1`: the parent's kinds once more, where what is written becomes a template.
//!
//! `/apis/shadow/v1alpha1[/namespaces/{ns}]/{plural}[/{name}[/scale]]` takes and gives objects in their own
//! `apiVersion` and `kind`; each is stored as a Manifest in the reserved namespace. Before, it is tried on the parent
//! as a dry run with the *caller's* identity, which fills in defaults and finds faults. [`template`] says how objects
//! and Manifests correspond, [`mirrors`] which kinds there are. Who manages which fields is kept in a template once
//! somebody applied it on the server's side, and not before.

mod body;
mod delete;
mod mirrors;
mod output;
mod parent;
mod read;
mod scale;
pub(crate) mod template;
mod trim;
mod watch;
mod write;

use std::sync::Arc;

use apiserver::kinds::{self, Kind};
use apiserver::negotiate::Accepted;
use apiserver::options::{FieldValidation, ListOptions, WriteOptions, Writes};
use apiserver::query::Query;
use apiserver::respond::add_warnings;
use apiserver::{Body, GroupHandler, RequestInfo, UserInfo};
use clock::Env;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderMap, Request, Response};
use jiff::Timestamp;
use kubeio::Client;
use machinery::{ApiError, ApiResource, Reason};
use runtime::CancellationToken;
use serde_json::{Value, json};

use self::body::Read;
use self::delete::Deletion;
use self::mirrors::{Mirror, Mirrors};
pub(crate) use self::parent::Parameters;
use self::parent::Parent;
pub use self::template::to_manifest;
use crate::Config;
use crate::respond;

/// The group.
pub const GROUP: &str = "shadow";
/// Its version.
pub const VERSION: &str = "v1alpha1";

/// Parts of the parent's control plane that visit every group: the namespace controller (clusternet#528: deleting a
/// namespace would empty it of templates, and templates would keep it from going), the garbage collector and the
/// quota controller. Templates are none of their business: to them the group is empty.
const CONTROL_PLANE: [&str; 4] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:resourcequota-controller",
    "system:kube-controller-manager",
];

/// The handler of the group.
pub struct Shadow {
    config: Arc<Config>,
    parent: Parent,
    mirrors: Arc<Mirrors>,
    env: Env,
    shutdown: CancellationToken,
}

/// What one request is about.
struct Call<'a> {
    mirror: Mirror,
    kind: Kind,
    info: &'a RequestInfo,
    user: &'a UserInfo,
    query: Query,
    headers: HeaderMap,
    accepted: Accepted,
    /// Of a create, an update or a patch.
    options: WriteOptions,
    warnings: Vec<String>,
    now: Timestamp,
}

impl Call<'_> {
    fn resource(&self) -> &ApiResource {
        &self.mirror.resource
    }

    /// The namespace asked for, empty for all and for cluster-scoped kinds.
    fn namespace(&self) -> &str {
        if self.mirror.resource.namespaced {
            &self.info.namespace
        } else {
            ""
        }
    }

    fn name(&self) -> &str {
        &self.info.name
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(
            &self.mirror.resource.group,
            &self.mirror.resource.plural,
            self.name(),
        )
    }

    /// An error about a Manifest, as one about what it stands for.
    fn translate(&self, error: ApiError, name: &str) -> ApiError {
        if error.kind != "manifests" {
            return error;
        }
        let ApiResource { group, plural, .. } = &self.mirror.resource;
        if error.reason == Reason::NotFound {
            ApiError::not_found(group, plural, name)
        } else if error.reason == Reason::AlreadyExists {
            ApiError::already_exists(group, plural, name)
        } else if error.reason == Reason::Conflict {
            conflict(&self.mirror.resource, name)
        } else {
            error.about(group, plural, name)
        }
    }

    /// The field manager: as the options say, else the first part of the user agent.
    fn manager(&self) -> &str {
        let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or_default().split('/').next().unwrap_or_default();
        match self.options.manager.as_str() {
            "" => agent.get(..128).unwrap_or(agent),
            name => name,
        }
    }

    /// What a body holds; fields that it names twice are judged as the client wants it.
    fn take<T>(&mut self, read: Read<T>) -> Result<T, ApiError> {
        let repeated = read.repeated.iter().take(100);
        let repeated: Vec<String> = repeated
            .map(|path| format!("duplicate field \"{path}\""))
            .collect();
        match self.options.validation {
            FieldValidation::Strict if !repeated.is_empty() => Err(ApiError::bad_request(format!(
                "strict decoding error: {}",
                repeated.join(", ")
            ))),
            FieldValidation::Warn => {
                self.warnings.extend(repeated);
                Ok(read.value)
            }
            FieldValidation::Strict | FieldValidation::Ignore => Ok(read.value),
        }
    }
}

/// 409 in Kubernetes' words.
fn conflict(resource: &ApiResource, name: &str) -> ApiError {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    ApiError::conflict(&resource.group, &resource.plural, name, why)
}

impl Shadow {
    pub(crate) fn new(client: Client, env: Env, config: Arc<Config>, shutdown: CancellationToken) -> Self {
        let mirrors = Mirrors::start(client.clone(), shutdown.clone());
        let parent = Parent::new(client, config.reserved_namespace.clone());
        Self {
            config,
            parent,
            mirrors,
            env,
            shutdown,
        }
    }

    /// Reads the parent's kinds now instead of a moment later; says whether it could.
    pub async fn refresh(&self) -> bool {
        self.mirrors.refresh().await
    }

    async fn answer(
        &self,
        info: &RequestInfo,
        user: &UserInfo,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let Some(mirror) = self.mirrors.find(&info.resource).await else {
            return Err(ApiError::not_found(GROUP, &info.resource, &info.name));
        };
        if !mirror.resource.namespaced && !info.namespace.is_empty() && info.resource != "namespaces" {
            return Err(ApiError::not_found(GROUP, &info.resource, &info.name));
        }
        let kind = self.mirrors.kind(&mirror).await;
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let options = match Writes::of(&info.verb, body::media_type(&parts.headers)) {
            Some(writes) => WriteOptions::of_query(writes, &query)?,
            None => WriteOptions::default(),
        };
        let mut call = Call {
            accepted: output::accepted(&parts.headers, &kind)?,
            options,
            mirror,
            kind,
            info,
            user,
            query,
            headers: parts.headers,
            warnings: Vec::new(),
            now: self.env.now(),
        };
        match info.verb.as_str() {
            "list" => call.accepted.fits(true)?,
            "get" | "create" | "update" | "patch" => call.accepted.fits(false)?,
            _ => {}
        }
        let mut response = self.dispatch(&mut call, body).await?;
        add_warnings(&mut response, &call.warnings);
        Ok(response)
    }

    async fn dispatch(&self, call: &mut Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
        let outsider = !CONTROL_PLANE.contains(&call.user.name.as_str());
        match (call.info.verb.as_str(), call.info.subresource.as_str()) {
            ("list", "") => {
                let options = ListOptions::of_query(false, &call.query)?;
                if outsider {
                    self.list(call, &options).await
                } else {
                    call.list(Vec::new(), &nothing())
                }
            }
            ("watch", "") => {
                let options = ListOptions::of_query(true, &call.query)?;
                if outsider {
                    self.watch(call, &options).await
                } else {
                    Ok(self.silent_watch(call, &options))
                }
            }
            // A template has no status of its own.
            ("get", "" | "status") => self.get(call).await,
            ("create", "") => {
                let read = body::read(&call.headers, body).await?;
                let object = call.take(read)?;
                self.create(call, object).await
            }
            ("update", "") => {
                let read = body::read(&call.headers, body).await?;
                let object = call.take(read)?;
                self.update(call, object).await
            }
            ("patch", "") => {
                let read = body::read_patch(&call.headers, body).await?;
                let patch = call.take(read)?;
                self.patch(call, patch).await
            }
            ("delete", "") => {
                let options = Deletion::read(call, body).await?;
                self.delete(call, &options).await
            }
            ("deletecollection", "") => {
                let wanted = ListOptions::of_query(false, &call.query)?;
                let options = Deletion::read(call, body).await?;
                if outsider {
                    self.delete_collection(call, &wanted, &options).await
                } else {
                    call.list(Vec::new(), &nothing())
                }
            }
            ("get", "scale") => self.get_scale(call).await,
            ("update", "scale") => {
                let read = body::read(&call.headers, body).await?;
                let scale = call.take(read)?;
                self.update_scale(call, &scale).await
            }
            ("patch", "scale") => {
                let read = body::read_patch(&call.headers, body).await?;
                let patch = call.take(read)?;
                self.patch_scale(call, &patch).await
            }
            (_, "" | "status" | "scale") => Err(respond::method_not_allowed()),
            (_, other) => Err(ApiError::not_found(
                GROUP,
                &format!("{}/{other}", call.info.resource),
                &call.info.name,
            )),
        }
    }

    /// The Manifest that stands for the object asked for.
    async fn manifest(&self, call: &Call<'_>) -> Result<Value, ApiError> {
        let (resource, namespace, name) = (call.resource(), call.namespace(), call.name());
        for candidate in [
            template::manifest_name(&resource.plural, namespace, name),
            template::legacy_name(&resource.plural, namespace, name),
        ] {
            match self.parent.get_manifest(&candidate).await? {
                Some(manifest) if template::stands_for(&manifest, resource, namespace, name) => {
                    return Ok(manifest);
                }
                Some(_) | None => {}
            }
        }
        Err(call.not_found())
    }
}

/// What is said of a list that is empty whatever happens.
fn nothing() -> Value {
    json!({"resourceVersion": "1"})
}

impl GroupHandler for Shadow {
    fn group(&self) -> &str {
        GROUP
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn discovery(&self) -> Value {
        mirrors::discovery(&self.mirrors.table())
    }

    fn openapi_state(&self) -> String {
        self.mirrors.state()
    }

    fn openapi(&self) -> BoxFuture<'_, Value> {
        Box::pin(async move {
            let mut kinds = Vec::new();
            for mirror in self.mirrors.table().values() {
                kinds.push(self.mirrors.kind(mirror).await);
            }
            let mut document = kinds::openapi(GROUP, VERSION, &kinds);
            if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
                api::descriptions::describe(schemas);
            }
            document
        })
    }

    fn handle(
        &self,
        info: RequestInfo,
        user: UserInfo,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        Box::pin(async move {
            if !self.config.shadow_api {
                let text = "the shadow API is switched off on this hub (feature gate ShadowAPI)";
                return respond::error(&ApiError::new(Reason::ServiceUnavailable, text));
            }
            match self.answer(&info, &user, request).await {
                Ok(response) => response,
                Err(error) => respond::error(&error),
            }
        })
    }
}
