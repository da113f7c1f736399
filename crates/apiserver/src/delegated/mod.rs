//! Running as an aggregated API server under a real parent: front-proxy headers are believed as the parent's
//! `extension-apiserver-authentication` says, tokens and rights are asked of the parent, virtual groups answer. Pure
//! HTTP: how the parent is reached is the caller's ([`TokenReviewer`], [`AccessReviewer`]). Entry: [`Delegated`].

mod cache;
pub(crate) mod fuzz;
mod trust;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};

use clock::Env;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response, StatusCode};
use machinery::ApiError;
use serde_json::{Value, json};

use crate::authn::unauthorized;
use crate::authz::{Attributes, Decision};
use crate::body::Body;
use crate::discovery::{AGGREGATED, Discovery};
use crate::error;
use crate::group::GroupHandler;
use crate::health::Health;
use crate::listen::Handle;
use crate::metrics::{Known, Metrics};
use crate::negotiate::Encoding;
use crate::openapi;
use crate::paths;
use crate::pki::PkiError;
use crate::query::Query;
use crate::registry::Snapshot;
use crate::request_info::RequestInfo;
use crate::respond;
use crate::user::{MASTERS, Peer, UserInfo};
use cache::Cache;
use trust::Trust;

/// Asks the parent whose a token is.
pub trait TokenReviewer: Send + Sync + 'static {
    /// Whose the token is, `None` if it is nobody's.
    ///
    /// # Errors
    /// The parent's answer if it could not be asked.
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ApiError>>;
}

/// Asks the parent whether somebody may do something.
pub trait AccessReviewer: Send + Sync + 'static {
    /// Whether the user may.
    ///
    /// # Errors
    /// The parent's answer if it could not be asked.
    fn review<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> BoxFuture<'a, Result<Decision, ApiError>>;
}

/// What a delegated server needs.
pub struct Config {
    /// The virtual groups that it serves.
    pub groups: Vec<Arc<dyn GroupHandler>>,
    /// Whom to ask about tokens.
    pub tokens: Arc<dyn TokenReviewer>,
    /// Whom to ask about rights.
    pub access: Arc<dyn AccessReviewer>,
    /// Wall time.
    pub env: Env,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

/// An aggregated API server. Serve it with [`crate::listen::serve`].
pub struct Delegated {
    groups: Vec<Arc<dyn GroupHandler>>,
    tokens: Arc<dyn TokenReviewer>,
    access: Arc<dyn AccessReviewer>,
    env: Env,
    trust: RwLock<Arc<Trust>>,
    known_tokens: Cache<UserInfo>,
    known_access: Cache<Decision>,
    health: Health,
    metrics: Metrics,
}

impl fmt::Debug for Delegated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegated").finish_non_exhaustive()
    }
}

impl Delegated {
    /// A server that trusts no front proxy yet: see [`Delegated::set_authentication`].
    pub fn new(config: Config) -> Arc<Self> {
        let Config {
            groups,
            tokens,
            access,
            env,
        } = config;
        Arc::new(Self {
            groups,
            tokens,
            access,
            env,
            trust: RwLock::default(),
            known_tokens: Cache::default(),
            known_access: Cache::default(),
            health: Health::default(),
            metrics: Metrics::new(),
        })
    }

    /// Takes over what the ConfigMap `kube-system/extension-apiserver-authentication` says, from the next request on.
    ///
    /// # Errors
    /// [`PkiError`] if it is not usable; what was said before holds on.
    pub fn set_authentication(&self, config_map: &Value) -> Result<(), PkiError> {
        let trust = Arc::new(Trust::read(config_map)?);
        *self.trust.write().unwrap_or_else(PoisonError::into_inner) = trust;
        Ok(())
    }

    /// The checks behind `/healthz`, `/livez` and `/readyz`.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// What `/metrics` shows.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Answers one request of a peer; never fails, every error is a `Status`.
    pub async fn answer(&self, request: Request<Body>, peer: &Peer) -> Response<Body> {
        let running = self.metrics.begin();
        let start = tokio::time::Instant::now();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let known = match self.group_of(&info) {
            Some(_) => Known::Served,
            None => Known::Unknown,
        };
        let answer = AssertUnwindSafe(self.try_answer(&info, &query, request, peer))
            .catch_unwind()
            .await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => respond::error(&error, Encoding::Json),
            Err(_) => {
                tracing::error!(path = %info.path, verb = %info.verb, "a request handler panicked");
                let error = ApiError::internal("the server failed while it handled this request");
                respond::error(&error, Encoding::Json)
            }
        };
        self.metrics
            .answered(&info, known, response.status().as_u16(), start.elapsed());
        drop(running);
        response
    }

    async fn try_answer(
        &self,
        info: &RequestInfo,
        query: &Query,
        mut request: Request<Body>,
        peer: &Peer,
    ) -> Result<Response<Body>, ApiError> {
        // Health is for everybody, as the parent's availability check comes without credentials.
        if let Some(response) = self.health.answer(&info.path, query).await {
            return Ok(response);
        }
        let user = self.authenticate(peer, request.headers_mut()).await?;
        self.authorize(&user, info).await?;
        if !info.is_resource_request {
            return self.path(info, request.headers()).await;
        }
        match self.group_of(info) {
            Some(group) => Ok(group.handle(info.clone(), user, request).await),
            None => Err(error::no_such_path()),
        }
    }

    fn group_of(&self, info: &RequestInfo) -> Option<&Arc<dyn GroupHandler>> {
        self.groups.iter().find(|group| {
            info.is_resource_request && group.group() == info.group && group.version() == info.version
        })
    }

    async fn authenticate(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<UserInfo, ApiError> {
        let trust = self.trust.read().unwrap_or_else(PoisonError::into_inner).clone();
        let authorization = headers.remove(AUTHORIZATION);
        let now = self.env.now();
        let refused = match trust.user(peer, headers, now) {
            Ok(Some(user)) => return Ok(user),
            Ok(None) => false,
            Err(refusal) => {
                tracing::debug!(error = %refusal, "a credential was refused");
                true
            }
        };
        let token = authorization.as_ref().and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("bearer")
                .then(|| token.trim().to_owned())
        });
        let Some(token) = token else {
            return if refused {
                Err(unauthorized())
            } else {
                Ok(UserInfo::anonymous())
            };
        };
        if token.len() > crate::tokens::MAX_TOKEN_BYTES {
            return Err(unauthorized());
        }
        let key = cache::key(&[token.as_bytes()]);
        if let Some(user) = self.known_tokens.get(&key) {
            return Ok(user);
        }
        let Some(user) = self.tokens.review(&token).await? else {
            return Err(unauthorized());
        };
        self.known_tokens.put(key, user.clone());
        Ok(user)
    }

    async fn authorize(&self, user: &UserInfo, info: &RequestInfo) -> Result<(), ApiError> {
        if user.is_in(MASTERS) {
            return Ok(());
        }
        let attributes = Attributes::of_request(info);
        let key = cache::key(&[
            format!("{attributes:?}").as_bytes(),
            format!("{user:?}").as_bytes(),
        ]);
        let decision = match self.known_access.get(&key) {
            Some(decision) => decision,
            None => {
                let decision = self.access.review(user, &attributes).await?;
                self.known_access.put(key, decision.clone());
                decision
            }
        };
        if decision.is_allowed() {
            return Ok(());
        }
        Err(attributes.forbidden(user, &decision.reason))
    }

    async fn path(&self, info: &RequestInfo, headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
        let discovery = Discovery::new(Arc::new(Snapshot::default()), self.groups.clone());
        let path = info.path.trim_matches('/');
        let segments: Vec<&str> = path.split('/').collect();
        let document = match segments[..] {
            ["apis"] if paths::wants_aggregated(headers) => {
                return Ok(paths::tagged(headers, AGGREGATED, &discovery.aggregated(false)));
            }
            ["apis"] => discovery.group_list(),
            ["apis", group] => discovery.group(group).ok_or_else(error::no_such_path)?,
            ["apis", group, version] => discovery
                .resources(group, version)
                .ok_or_else(error::no_such_path)?,
            ["version"] => paths::version(),
            ["metrics"] => return Ok(self.metrics.answer()),
            ["openapi", "v2"] => json!({
                "swagger": "2.0", "info": {"title": "Tombolo", "version": paths::GIT_VERSION}, "paths": {},
            }),
            ["openapi", "v3"] => openapi::shown_index(&self.groups),
            ["openapi", "v3", "apis", group, version] => {
                let mut groups = self.groups.iter();
                let found = groups.find(|it| it.group() == group && it.version() == version);
                let handler = found.ok_or_else(error::no_such_path)?;
                return Ok(openapi::shown(handler.as_ref(), headers).await);
            }
            _ => return Err(error::no_such_path()),
        };
        Ok(respond::json(StatusCode::OK, &document))
    }
}

impl Handle for Delegated {
    fn handle(self: Arc<Self>, request: Request<Body>, peer: Peer) -> BoxFuture<'static, Response<Body>> {
        Box::pin(async move { self.answer(request, &peer).await })
    }
}

#[cfg(test)]
mod tests;
