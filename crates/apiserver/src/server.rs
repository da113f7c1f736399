//! The server: its configuration, and the way of a request through it.

use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use machinery::ApiError;
use serde_json::Value;
use source::{Change, Object, ObjectSource, Write};

use crate::authn::Authenticator;
use crate::authz::{self, Attributes, Authorizer};
use crate::body::{Body, BoxError};
use crate::definitions;
use crate::error;
use crate::group::{GroupHandler, PodBackend};
use crate::handlers;
use crate::negotiate::{Encoding, Offer, negotiate};
use crate::query::Query;
use crate::registry::{self, Registry, Served};
use crate::request_info::RequestInfo;
use crate::respond;
use crate::user::{Caller, Peer, UserInfo};

/// What a server needs.
pub struct Config {
    /// Where the objects are.
    pub source: Arc<dyn ObjectSource>,
    /// Wall time and randomness.
    pub env: clock::Env,
    /// Who requests from connections are from; without it all of them are anonymous.
    pub authenticator: Option<Arc<Authenticator>>,
    /// What users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// What stands behind pods and nodes; without it their connecting subresources answer 501.
    pub pods: Option<Arc<dyn PodBackend>>,
    /// Whether objects can only be created in namespaces that exist (off for sources that hold only some resources).
    pub namespaces_must_exist: bool,
}

impl Config {
    /// A server over a source with the usual settings.
    pub fn new(source: Arc<dyn ObjectSource>, env: clock::Env, authorizer: Arc<dyn Authorizer>) -> Self {
        Self {
            source,
            env,
            authenticator: None,
            authorizer,
            pods: None,
            namespaces_must_exist: true,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The objects cannot be read.
    #[error("the object store does not answer")]
    Source(#[from] source::Error),
}

/// A Kubernetes API server over an [`ObjectSource`].
pub struct ApiServer {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    groups: RwLock<Vec<Arc<dyn GroupHandler>>>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server that is ready to answer: reads the custom resource definitions that its source holds.
    ///
    /// # Errors
    /// [`Error::Source`] if they cannot be read.
    pub async fn start(config: Config) -> Result<Arc<Self>, Error> {
        let registry = Registry::new();
        definitions::load(&registry, config.source.as_ref()).await?;
        Ok(Arc::new(Self {
            config,
            registry,
            groups: RwLock::default(),
        }))
    }

    /// Where the objects are: for the control plane's own controllers, past every rule.
    pub fn source(&self) -> &Arc<dyn ObjectSource> {
        &self.config.source
    }

    /// Wall time and randomness.
    pub fn env(&self) -> &clock::Env {
        &self.config.env
    }

    /// Adds a virtual API group.
    pub fn add_group(&self, group: Arc<dyn GroupHandler>) {
        self.groups.write().expect("no holder panics").push(group);
    }

    /// Answers one request; never fails, every error is a `Status`.
    pub async fn handle(self: &Arc<Self>, request: Request<Body>, caller: Caller) -> Response<Body> {
        let encoding = error_encoding(&request);
        let answer = AssertUnwindSafe(self.answer(request, caller)).catch_unwind().await;
        match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => respond::error(&error, encoding),
            Err(_) => respond::error(
                &ApiError::internal("the server failed while it handled this request"),
                encoding,
            ),
        }
    }

    async fn answer(self: &Arc<Self>, mut request: Request<Body>, caller: Caller) -> Result<Response<Body>, ApiError> {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let user = match caller {
            Caller::User(user) => user,
            Caller::Peer(peer) => match &self.config.authenticator {
                Some(authenticator) => authenticator.authenticate(&peer, request.headers_mut()).await?,
                None => UserInfo::anonymous(),
            },
        };
        let attributes = Attributes::of_request(&info);
        authz::require(self.config.authorizer.as_ref(), &user, &attributes).await?;
        let group = self
            .groups
            .read()
            .expect("no holder panics")
            .iter()
            .find(|group| group.group() == info.group && group.version() == info.version)
            .cloned();
        if let (true, Some(group)) = (info.is_resource_request, group) {
            return Ok(group.handle(info, user, request).await);
        }
        if info.is_resource_request {
            return handlers::dispatch(self, &info, &query, &user, request).await;
        }
        Err(error::no_such_path())
    }

    /// Writes to the source, and lets the server's own state follow.
    pub(crate) async fn write(&self, write: Write) -> Result<Arc<Object>, source::Error> {
        let deleted = matches!(write.change, Change::Delete);
        let object = self.config.source.write(write).await?;
        let resource = &object.key.resource;
        if resource.as_str() == definitions::DEFINITIONS {
            if deleted {
                self.registry.set_custom(&object.key.name, Vec::new());
            } else {
                definitions::take(&self.registry, &object);
                if object.head.deleting {
                    definitions::clean_up(self, &object.key.name).await?;
                }
            }
        } else if deleted && self.registry.snapshot().is_terminating(resource) {
            let (group, plural) = resource.as_str().split_once('/').unwrap_or_default();
            definitions::clean_up(self, &format!("{plural}.{group}")).await?;
        }
        Ok(object)
    }

    /// Gives an object what depends on others of its kind: addresses of services, accepted names of definitions.
    pub(crate) async fn settle(
        &self,
        served: &Served,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        if served.storage.as_str() == definitions::DEFINITIONS {
            let now = handlers::timestamp(self.env().now());
            registry::custom::settle(object, &self.registry.snapshot(), &now);
        }
        let _ = old;
        Ok(())
    }

    /// A client's service in this process that acts as a user: through authorization like any other.
    pub fn client_service(self: &Arc<Self>, user: UserInfo) -> ClientService {
        ClientService {
            server: self.clone(),
            caller: Caller::User(user),
            authorization: None,
        }
    }

    /// A client's service in this process that carries a bearer token: through authentication like any other.
    pub fn client_service_with_token(self: &Arc<Self>, token: &str) -> ClientService {
        ClientService {
            server: self.clone(),
            caller: Caller::Peer(Peer::default()),
            authorization: http::HeaderValue::try_from(format!("Bearer {token}")).ok(),
        }
    }
}

/// What errors are written in: protobuf where the client takes that.
fn error_encoding(request: &Request<Body>) -> Encoding {
    let accept = request
        .headers()
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let offer = Offer {
        protobuf: true,
        forms: true,
    };
    negotiate(accept, offer).map_or(Encoding::Json, |accepted| accepted.encoding)
}

/// A client's way into the server without a socket.
#[derive(Debug, Clone)]
pub struct ClientService {
    server: Arc<ApiServer>,
    caller: Caller,
    authorization: Option<http::HeaderValue>,
}

impl<B> tower::Service<Request<B>> for ClientService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self {
            server,
            caller,
            authorization,
        } = self.clone();
        let mut request = request.map(Body::new);
        if let Some(authorization) = authorization {
            request.headers_mut().insert(http::header::AUTHORIZATION, authorization);
        }
        Box::pin(async move { Ok(server.handle(request, caller).await) })
    }
}
