//! The server: its configuration, and the way of a request through it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use machinery::{ApiError, Reason};
use serde_json::{Value, json};
use source::{Change, Key, Object, ObjectSource, Write};

use crate::addresses::{Addresses, Grant};
use crate::authn::{Authenticator, Gate};
use crate::authz::{Authorizer, check_binding, check_role, forbidden};
use crate::body::{Body, BoxError};
use crate::bulk::Bulk;
use crate::complaint::Complaint;
use crate::definitions;
use crate::error;
use crate::group::{GroupHandler, PodBackend};
use crate::handlers;
use crate::health::Health;
use crate::listen;
use crate::metrics::{Known, Metrics};
use crate::negotiate::{Encoding, Offer, negotiate};
use crate::paths;
use crate::problems::Problems;
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
    /// Adds descriptions to the schemas of OpenAPI documents, if there are any.
    pub describe: Option<Describe>,
    /// Refuses changes that rights alone would allow, if anybody does.
    pub guard: Option<Guard>,
}

/// Why a user (by name) may not make the second object of the first, both of a kind given as `GROUP/PLURAL` (core: just
/// `PLURAL`); `None` if he may.
pub type Guard = fn(&str, &str, &Value, &Value) -> Option<&'static str>;

/// Adds descriptions to schemas, which it is given by their names in OpenAPI.
pub type Describe = fn(&mut serde_json::Map<String, Value>);

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
            describe: None,
            guard: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("source", &self.source)
            .finish_non_exhaustive()
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
    pub(crate) gate: Gate,
    pub(crate) metrics: Metrics,
    health: Health,
    pub(crate) addresses: Addresses,
    pub(crate) bulk: Bulk,
    refused: Complaint,
    groups: RwLock<Vec<Arc<dyn GroupHandler>>>,
    paths: RwLock<BTreeMap<&'static str, PathHandler>>,
}

/// Answers a `GET` of a path that is no resource.
pub type PathHandler = Arc<dyn Fn() -> Response<Body> + Send + Sync>;

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
        let gate = Gate::new(config.authenticator.clone(), config.authorizer.clone());
        Ok(Arc::new(Self {
            config,
            registry,
            gate,
            metrics: Metrics::new(),
            health: Health::default(),
            addresses: Addresses::default(),
            bulk: Bulk::default(),
            refused: Complaint::default(),
            groups: RwLock::default(),
            paths: RwLock::default(),
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

    /// The checks behind `/healthz`, `/livez` and `/readyz`: parts of the process add theirs.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// What `/metrics` shows: parts of the process add theirs.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Authentication and authorization.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn groups(&self) -> Vec<Arc<dyn GroupHandler>> {
        self.groups.read().expect("no holder panics").clone()
    }

    pub(crate) fn group(&self, group: &str, version: &str) -> Option<Arc<dyn GroupHandler>> {
        let groups = self.groups.read().expect("no holder panics");
        let mut groups = groups.iter();
        groups
            .find(|found| found.group() == group && found.version() == version)
            .cloned()
    }

    /// Adds a virtual API group.
    pub fn add_group(&self, group: Arc<dyn GroupHandler>) {
        self.groups.write().expect("no holder panics").push(group);
    }

    pub(crate) fn path(&self, path: &str) -> Option<PathHandler> {
        self.paths.read().expect("no holder panics").get(path).cloned()
    }

    /// Adds a path that is no resource. Who may `get` it is said by `nonResourceURLs` of roles; without one that is
    /// `system:masters` alone.
    pub fn add_path(&self, path: &'static str, handler: PathHandler) {
        let mut paths = self.paths.write().expect("no holder panics");
        paths.insert(path, handler);
    }

    /// Answers one request; never fails, every error is a `Status`.
    pub async fn handle(self: &Arc<Self>, request: Request<Body>, caller: Caller) -> Response<Body> {
        let running = self.metrics.begin();
        let start = tokio::time::Instant::now();
        let accept = request.headers().get(http::header::ACCEPT).cloned();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let answer = AssertUnwindSafe(self.answer(&info, &query, request, caller))
            .catch_unwind()
            .await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => respond::error(&error, error_encoding(accept.as_ref())),
            Err(_) => {
                tracing::error!(path = %info.path, verb = %info.verb, "a request handler panicked");
                respond::error(
                    &ApiError::internal("the server failed while it handled this request"),
                    error_encoding(accept.as_ref()),
                )
            }
        };
        let status = response.status();
        if is_bad_input(status) {
            // No word of the body: it may be a secret.
            let path = info.path.chars().take(200).collect::<String>();
            self.refused.about(
                "bad input was refused",
                &format_args!("{status}: {} {path:?}", info.verb),
            );
        }
        let known = if self.knows(&info) {
            Known::Served
        } else {
            Known::Unknown
        };
        self.metrics
            .answered(&info, known, status.as_u16(), start.elapsed());
        drop(running);
        response
    }

    fn knows(&self, info: &RequestInfo) -> bool {
        info.is_resource_request
            && self
                .registry
                .snapshot()
                .find(&info.group, &info.version, &info.resource)
                .is_some_and(|served| {
                    info.subresource.is_empty() || served.subresource(&info.subresource).is_some()
                })
    }

    async fn answer(
        self: &Arc<Self>,
        info: &RequestInfo,
        query: &Query,
        mut request: Request<Body>,
        caller: Caller,
    ) -> Result<Response<Body>, ApiError> {
        let user = self.gate.admit(caller, request.headers_mut(), info).await?;
        if !info.is_resource_request {
            let (parts, _) = request.into_parts();
            return paths::answer(self, info, query, &parts).await;
        }
        match self.group(&info.group, &info.version) {
            Some(group) => Ok(group.handle(info.clone(), user, request).await),
            None => handlers::dispatch(self, info, query, &user, request).await,
        }
    }

    /// Writes to the source, and lets the server's own state follow.
    pub(crate) async fn write(&self, write: Write) -> Result<Arc<Object>, source::Error> {
        let deleted = matches!(write.change, Change::Delete);
        let object = self.config.source.write(write).await?;
        let resource = &object.key.resource;
        // The write has happened: what is left to do for definitions is healed by their controller if it fails here.
        let mut cleaned = Ok(());
        if resource.as_str() == definitions::DEFINITIONS {
            if deleted {
                self.registry
                    .set_custom(&object.key.name, object.revision, Vec::new());
            } else {
                definitions::take(&self.registry, &object);
                if object.head.deleting {
                    cleaned = definitions::clean_up(self, &object.key.name).await;
                }
            }
        } else if resource.as_str() == "services" {
            if deleted {
                self.addresses.release(&object.key);
            } else {
                self.addresses.stored(&object.key, &object.json);
            }
        } else if deleted && self.registry.snapshot().is_terminating(resource) {
            let (group, plural) = resource.as_str().split_once('/').unwrap_or_default();
            cleaned = definitions::clean_up(self, &format!("{plural}.{group}")).await;
        }
        if let Err(error) = cleaned {
            tracing::warn!(%error, key = %object.key, "a definition's objects could not all be cleared up");
        }
        Ok(object)
    }

    /// Gives an object what depends on others of its kind (addresses of services, accepted names of definitions),
    /// and refuses rights that the writer does not hold, and what the guard refuses.
    pub(crate) async fn settle(
        &self,
        served: &Served,
        user: &UserInfo,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<Grant, ApiError> {
        if let (Some(guard), Some(old)) = (self.config.guard, old)
            && let Some(why) = guard(&user.name, served.storage.as_str(), old, object)
        {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(forbidden(&served.group, &served.plural, name, why));
        }
        match served.storage.as_str() {
            definitions::DEFINITIONS => {
                let now = handlers::timestamp(self.env().now());
                registry::custom::settle(object, &self.registry.snapshot(), &now);
            }
            "rbac.authorization.k8s.io/roles" | "rbac.authorization.k8s.io/clusterroles" => {
                check_role(self.gate.authorizer(), user, &served.plural, old, object).await?;
            }
            "rbac.authorization.k8s.io/rolebindings" | "rbac.authorization.k8s.io/clusterrolebindings" => {
                check_binding(self.gate.authorizer(), user, &served.plural, old, object).await?;
            }
            "certificates.k8s.io/certificatesigningrequests" if old.is_none() => {
                state_requester(user, object);
            }
            "pods" if old.is_none() && self.config.namespaces_must_exist => {
                account_exists(self.source().as_ref(), object).await?;
            }
            "services" => {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default();
                let key = Key::new(&served.storage, text("namespace"), text("name"));
                let mut problems = Problems::default();
                let random = self.env().random_u64();
                let grant = self
                    .addresses
                    .allocate(self.source().as_ref(), &key, object, random, &mut problems)
                    .await
                    .map_err(error::of_source)?;
                if let Err(error) = handlers::verdict(served, object, problems) {
                    self.addresses.give_back(&key, grant);
                    return Err(error);
                }
                return Ok(grant);
            }
            _ => {}
        }
        Ok(Grant::default())
    }

    /// Serves connections over TLS until `shutdown`, then lets running answers end.
    pub async fn serve(
        self: &Arc<Self>,
        listener: tokio::net::TcpListener,
        tls: Arc<rustls::ServerConfig>,
        shutdown: tokio_util::sync::CancellationToken,
    ) {
        listen::serve(listener, tls, self.clone(), listen::Limits::default(), shutdown).await;
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

/// A pod's account must be there; the one that every namespace has may still be on its way.
async fn account_exists(source: &dyn ObjectSource, pod: &Value) -> Result<(), ApiError> {
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    if matches!(account, "" | "default") {
        return Ok(());
    }
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let key = Key::new(&source::Resource::new("", "serviceaccounts"), namespace, account);
    if source.get(&key).await.map_err(error::of_source)?.is_some() {
        return Ok(());
    }
    let message = format!(
        "pods \"{name}\" is forbidden: error looking up service account {namespace}/{account}: serviceaccount \
         \"{account}\" not found"
    );
    Err(ApiError::new(Reason::Forbidden, message).about("", "pods", name))
}

/// Notes on a new CertificateSigningRequest who asks: signers rely on it, so the body has no say.
fn state_requester(user: &UserInfo, request: &mut Value) {
    let Some(spec) = request["spec"].as_object_mut() else {
        return;
    };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.insert("username".to_owned(), Value::from(user.name.as_str()));
    if !user.uid.is_empty() {
        spec.insert("uid".to_owned(), Value::from(user.uid.as_str()));
    }
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
}

/// Whether a request was refused for what it is made of, rather than for what it asks.
fn is_bad_input(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    )
}

/// What errors are written in: protobuf where the client takes that.
fn error_encoding(accept: Option<&http::HeaderValue>) -> Encoding {
    let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
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
            request
                .headers_mut()
                .insert(http::header::AUTHORIZATION, authorization);
        }
        Box::pin(async move { Ok(server.handle(request, caller).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::AllowAll;
    use crate::authz::fake::FakeSource;

    #[tokio::test]
    async fn a_requests_future_is_small() {
        let source = Arc::new(FakeSource::default());
        let config = Config::new(source, clock::Env::system(), Arc::new(AllowAll));
        let server = ApiServer::start(config).await.unwrap();
        let future = server.handle(Request::new(Body::empty()), Caller::Peer(Peer::default()));
        let size = std::mem::size_of_val(&future);
        assert!(size <= 4_096, "{size} bytes are copied for each request");
    }
}
