//! `proxies.clusternet.io/v1alpha1`: the tunnels' end, and requests through them.
//!
//! - `GET sockets/{id}` with a WebSocket upgrade is an agent's tunnel; who may open it is RBAC on `sockets` by name.
//! - `sockets/{id}/proxy/direct/…`, `…/proxy/http/{host[:port]}/…` and `…/proxy/https/{host[:port]}/…` carry a request
//!   into the cluster. Whose authority it has there is in the child credential that the caller hands over as
//!   impersonation extras ([`credentials`]); nothing of the caller's own credential goes along.
//! - `GET sockets/{id}/payloads/{digest}?description=NAME` is what a Description of the cluster refers to.

mod clusters;
mod credentials;
mod forward;
mod headers;
mod payloads;
mod pool;
mod target;
mod tls;

use std::sync::{Arc, OnceLock};

use apiserver::{Body, GroupHandler, RequestInfo, UserInfo};
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kubeio::Client;
use machinery::{ApiError, Reason};
use runtime::CancellationToken;
use serde_json::{Value, json};
use tunnel::Registry;

pub(crate) use self::clusters::Clusters;
pub(crate) use self::credentials::Credentials;
use self::pool::Pool;
pub(crate) use self::target::Target;
use crate::Config;
use crate::peers::Peers;
use crate::respond;

/// How long an agent's HTTP connection may take to become a WebSocket.
const UPGRADE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(5);

/// The longest cluster id that is looked at.
const MAX_ID: usize = 253;

/// The handler of the group.
pub struct Proxy {
    config: Arc<Config>,
    registry: Registry,
    peers: OnceLock<Peers>,
    client: Client,
    clusters: Clusters,
    pool: Arc<Pool>,
    shutdown: CancellationToken,
}

impl Proxy {
    pub(crate) fn new(
        config: Arc<Config>,
        registry: Registry,
        client: Client,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            config,
            registry,
            peers: OnceLock::new(),
            clusters: Clusters::start(client.clone()),
            client,
            pool: Arc::new(Pool::default()),
            shutdown,
        }
    }

    /// Asks other hubs for clusters whose tunnels do not end here. Once; later calls change nothing.
    pub(crate) fn ask_peers(&self, peers: Peers) {
        if self.peers.set(peers).is_err() {
            tracing::debug!("the peers are known already");
        }
    }

    async fn answer(
        &self,
        info: RequestInfo,
        user: UserInfo,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        if info.subresource == "payloads" && *info.resource == *api::proxies::SOCKETS.plural {
            if request.method() != Method::GET {
                return Err(respond::method_not_allowed());
            }
            let (id, digest) = (info.name.as_str(), info.rest.as_str());
            return payloads::get(&self.client, &self.clusters, id, digest, request.uri()).await;
        }
        if !self.config.socket_connection {
            let text = "tunnels are switched off on this hub (feature gate SocketConnection)";
            return Err(ApiError::new(Reason::ServiceUnavailable, text));
        }
        if *info.resource != *api::proxies::SOCKETS.plural {
            return Err(ApiError::not_found(
                api::proxies::GROUP,
                &info.resource,
                &info.name,
            ));
        }
        let id = info.name.as_str();
        if id.is_empty() {
            return match (info.verb.as_str(), info.subresource.as_str()) {
                ("list", "") => Ok(respond::json(StatusCode::OK, &self.list())),
                _ => Err(ApiError::bad_request("the cluster id is empty")),
            };
        }
        if id.len() > MAX_ID {
            return Err(ApiError::bad_request(format!(
                "the cluster id is longer than {MAX_ID} bytes"
            )));
        }
        match info.subresource.as_str() {
            "" if request.method() != Method::GET => Err(respond::method_not_allowed()),
            "" if tunnel::is_upgrade(request.headers()) => self.take_tunnel(id, request),
            "" => self.get(id),
            "proxy" => self.forward(id, user, request).await,
            other => Err(ApiError::not_found(
                api::proxies::GROUP,
                &format!("sockets/{other}"),
                id,
            )),
        }
    }

    /// Answers 101 and serves the tunnel on the connection.
    fn take_tunnel(&self, id: &str, mut request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let response = tunnel::switch_protocols(request.headers())
            .map_err(|error| ApiError::bad_request(format!("no tunnel for cluster {id:?}: {error}")))?;
        let upgrade = hyper::upgrade::on(&mut request);
        let registry = self.registry.clone();
        let shutdown = self.shutdown.clone();
        let id = id.to_owned();
        tokio::spawn(async move {
            let upgraded = match tokio::time::timeout(UPGRADE_DEADLINE, upgrade).await {
                Ok(Ok(upgraded)) => upgraded,
                Ok(Err(error)) => return tracing::warn!(cluster = id, %error, "tunnel was not upgraded"),
                Err(_) => {
                    return tracing::warn!(cluster = id, error = "timed out", "tunnel was not upgraded");
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _end = registry.serve(&id, TokioIo::new(upgraded)) => {}
            }
        });
        Ok(response.map(|()| Body::empty()))
    }

    fn get(&self, id: &str) -> Result<Response<Body>, ApiError> {
        if self.registry.is_connected(id) {
            Ok(respond::json(StatusCode::OK, &socket(id)))
        } else {
            Err(ApiError::not_found(
                api::proxies::GROUP,
                &api::proxies::SOCKETS.plural,
                id,
            ))
        }
    }

    fn list(&self) -> Value {
        let items: Vec<Value> = self
            .registry
            .connected()
            .iter()
            .map(|connected| socket(&connected.cluster_id))
            .collect();
        json!({
            "apiVersion": api::proxies::SOCKETS.api_version(), "kind": "SocketList",
            "metadata": {"resourceVersion": ""}, "items": items,
        })
    }

    async fn forward(
        &self,
        id: &str,
        user: UserInfo,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let asked = Target::parse(request.uri())?;
        let ways = forward::Ways {
            registry: &self.registry,
            peers: self.peers.get(),
            pool: &self.pool,
        };
        if !self.registry.is_connected(id) && ways.peers.is_none() {
            return Err(not_connected(id));
        }
        let credentials = Credentials::from_extra(&user.extra)?;
        let cluster = self.clusters.find(id).await?;
        let destination = asked.resolve(id, cluster.as_deref())?;
        let ca = match (&cluster, destination.tls) {
            (Some(cluster), true) => Some(self.clusters.ca(cluster).await?),
            (None, true) => {
                return Err(ApiError::not_found(
                    "clusters.clusternet.io",
                    "managedclusters",
                    id,
                ));
            }
            (_, false) => None,
        };
        let call = forward::Call {
            cluster_id: id,
            destination: &destination,
            credentials: &credentials,
            ca,
        };
        forward::forward(ways, &call, request).await
    }
}

fn socket(id: &str) -> Value {
    json!({
        "apiVersion": api::proxies::SOCKETS.api_version(), "kind": "Socket",
        "metadata": {"name": id}, "spec": {}, "status": {"connected": true},
    })
}

/// 400, as existing clients expect it.
pub(crate) fn not_connected(id: &str) -> ApiError {
    ApiError::bad_request(format!(
        "cluster {id:?} is not connected: its agent has no tunnel to this hub or another; check that the agent runs and may \
         reach the hub"
    ))
    .about(api::proxies::GROUP, "sockets", id)
}

impl GroupHandler for Proxy {
    fn group(&self) -> &str {
        api::proxies::GROUP
    }

    fn version(&self) -> &str {
        api::proxies::VERSION
    }

    fn discovery(&self) -> Value {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": api::proxies::SOCKETS.api_version(),
            "resources": [
                {
                    "name": "sockets", "singularName": "socket", "namespaced": false, "kind": "Socket",
                    "verbs": ["get", "list"], "shortNames": ["ss"], "categories": ["clusternet"],
                },
                {
                    "name": "sockets/proxy", "singularName": "", "namespaced": false, "kind": "Socket",
                    "verbs": ["create", "delete", "get", "patch", "update"],
                },
                {
                    "name": api::proxies::PAYLOADS, "singularName": "", "namespaced": false, "kind": "Socket",
                    "verbs": ["get"],
                },
            ],
        })
    }

    fn handle(
        &self,
        info: RequestInfo,
        user: UserInfo,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        Box::pin(async move {
            match self.answer(info, user, request).await {
                Ok(response) => response,
                Err(error) => respond::error(&error),
            }
        })
    }
}
