//! What others plug into the server: virtual API groups, and what stands behind pods and nodes.

use futures::future::BoxFuture;
use http::{Request, Response};
use serde_json::Value;

use crate::body::Body;
use crate::kinds;
use crate::request_info::RequestInfo;
use crate::user::UserInfo;

/// A version of an API group that is computed, not stored. Requests are authenticated and authorized before.
pub trait GroupHandler: Send + Sync {
    /// The group's name.
    fn group(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// Its `APIResourceList`.
    fn discovery(&self) -> Value;

    /// What its OpenAPI document changes with.
    fn openapi_state(&self) -> String {
        self.discovery().to_string()
    }

    /// Its OpenAPI v3 document.
    fn openapi(&self) -> BoxFuture<'_, Value> {
        Box::pin(async { kinds::openapi(self.group(), self.version(), &[]) })
    }

    /// Answers a request below `/apis/GROUP/VERSION/`. Upgrades are in the request's extensions, as hyper puts them.
    fn handle(
        &self,
        info: RequestInfo,
        user: UserInfo,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>>;
}

/// What a connecting request is about: a pod, node or service.
pub struct Subject {
    /// As it was stored when the request came.
    pub object: Value,
    latest: Box<dyn Fn() -> BoxFuture<'static, Option<Value>> + Send + Sync>,
}

impl Subject {
    /// An object, and how to look at it again.
    pub fn new(
        object: Value,
        latest: impl Fn() -> BoxFuture<'static, Option<Value>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            object,
            latest: Box::new(latest),
        }
    }

    /// As it is stored now; `None` once it is gone, or another has its name.
    pub async fn latest(&self) -> Option<Value> {
        let latest = (self.latest)().await?;
        (latest["metadata"]["uid"] == self.object["metadata"]["uid"]).then_some(latest)
    }
}

/// What runs pods: answers `exec`, `attach`, `portforward` and `log` of a pod, and `proxy` of pods, nodes and
/// services. The subject is known to exist; upgrades are in the request's extensions, as hyper puts them.
pub trait PodBackend: Send + Sync {
    /// Answers a request on a connecting subresource.
    fn connect(
        &self,
        info: RequestInfo,
        user: UserInfo,
        subject: Subject,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>>;
}
