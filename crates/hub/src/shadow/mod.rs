//! `shadow/v1alpha1`: the parent's kinds once more, where what is written becomes a template.
//!
//! `/apis/shadow/v1alpha1[/namespaces/{ns}]/{plural}[/{name}[/scale]]` takes and gives objects in their own
//! `apiVersion` and `kind`; each is stored as a Manifest in the reserved namespace. Before, it is tried on the parent
//! as a dry run with the *caller's* identity, which fills in defaults and finds faults. [`template`] says how objects
//! and Manifests correspond, [`mirrors`] which kinds there are.

mod body;
mod delete;
mod mirrors;
mod output;
mod parent;
mod read;
mod scale;
mod template;
mod trim;
mod watch;
mod write;

use std::sync::Arc;

use apiserver::query::Query;
use apiserver::{Body, GroupHandler, RequestInfo, UserInfo};
use clock::Env;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use kubeio::Client;
use machinery::{ApiError, ApiResource, Reason};
use runtime::CancellationToken;
use serde_json::Value;

use self::mirrors::{Mirror, Mirrors};
use self::output::Form;
use self::parent::Parent;
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
    info: &'a RequestInfo,
    user: &'a UserInfo,
    query: Query,
    headers: HeaderMap,
    form: Form,
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

    fn is_dry_run(&self) -> bool {
        self.query.get("dryRun") == Some("All")
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
        let (parts, body) = request.into_parts();
        let form = Form::negotiate(&parts.headers)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let call = Call {
            mirror,
            info,
            user,
            query,
            headers: parts.headers,
            form,
        };
        let outsider = !CONTROL_PLANE.contains(&user.name.as_str());
        match (info.verb.as_str(), info.subresource.as_str()) {
            ("list", "") if outsider => self.list(&call).await,
            ("list", "") => self.empty_list(&call),
            ("watch", "") if outsider => self.watch(&call).await,
            ("watch", "") => Ok(self.silent_watch(&call)),
            ("get", "") => self.get(&call).await,
            ("create", "") => self.create(&call, body::read(&call.headers, body).await?).await,
            ("update", "") => self.update(&call, body::read(&call.headers, body).await?).await,
            ("patch", "") => {
                self.patch(&call, body::read_patch(&call.headers, body).await?)
                    .await
            }
            ("delete", "") => {
                self.delete(&call, body::read_optional(&call.headers, body).await?)
                    .await
            }
            ("deletecollection", "") if outsider => {
                self.delete_collection(&call, body::read_optional(&call.headers, body).await?)
                    .await
            }
            ("deletecollection", "") => self.empty_list(&call),
            ("get", "scale") => self.get_scale(&call).await,
            ("update", "scale") => {
                self.update_scale(&call, body::read(&call.headers, body).await?)
                    .await
            }
            ("patch", "scale") => {
                self.patch_scale(&call, body::read_patch(&call.headers, body).await?)
                    .await
            }
            (_, "") => Err(respond::method_not_allowed()),
            (_, "status") => Err(respond::method_not_allowed()),
            (_, other) => Err(ApiError::not_found(
                GROUP,
                &format!("{}/{other}", info.resource),
                &info.name,
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
