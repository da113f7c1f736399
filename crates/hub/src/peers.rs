//! Several hubs of one parent: each says in a Lease where it is, and takes streams for the clusters whose tunnels end at
//! it. A hub that is asked for a cluster without a tunnel here asks the others in turn.
//!
//! Between hubs is TLS with certificates of the hubs' own authority on both sides; each stream is an HTTP/1.1 request
//! that is upgraded. A hub never passes on what a peer asks of it, so that nothing goes in circles.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::kubernetes::LEASES;
use api::labels::{CREATED_BY, CREATED_BY_HUB};
use api::names::SYSTEM_NAMESPACE;
use apiserver::listen::Handle;
use apiserver::query::Query;
use apiserver::{Body, Peer};
use bytes::Bytes;
use clock::Env;
use futures::future::BoxFuture;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use kubeio::{Cache, CacheOptions, Client, Patch};
use machinery::{ApiError, Reason, meta};
use serde_json::{Value, json};
use tunnel::{BoxIo, Connector, DialFailure, Registry};

use crate::respond;

/// Names of the Leases, before the random part.
const LEASE_PREFIX: &str = "clusternet-hub-peer-";

/// Between two renewals of a Lease.
const RENEW: Duration = Duration::from_secs(5);

/// How long a Lease counts that is not renewed, in seconds. Clocks may differ by a part of this.
const LEASE_SECONDS: i64 = 30;

/// Leases that were not renewed for that long are cleared away.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// How long another hub may take to answer whether it has a cluster.
const ASK_DEADLINE: Duration = Duration::from_secs(5);

/// The protocol between hubs.
const PROTOCOL: HeaderValue = HeaderValue::from_static("tombolo-stream");

/// Where a hub takes streams from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress {
    /// The hub's Lease; no two have the same.
    pub id: String,
    /// A host name or an address, as its certificate has it.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why a Lease's holder is no hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} does not say where a hub is: it has no {field}")]
pub struct BadPeer {
    text: String,
    field: &'static str,
}

impl PeerAddress {
    /// Reads a Lease's `holderIdentity`.
    ///
    /// # Errors
    /// [`BadPeer`] with what is missing.
    pub fn parse(text: &str) -> Result<Self, BadPeer> {
        let bad = |field| BadPeer {
            text: text.to_owned(),
            field,
        };
        let value: Value = serde_json::from_str(text).map_err(|_| bad("JSON object"))?;
        let word = |field| {
            let word = value[field].as_str().filter(|word| !word.is_empty());
            word.map(str::to_owned).ok_or_else(|| bad(field))
        };
        let port = value["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        Ok(Self {
            id: word("id")?,
            host: word("host")?,
            port: port.filter(|port| *port > 0).ok_or_else(|| bad("port"))?,
        })
    }

    pub(crate) fn holder(&self) -> String {
        let Self { id, host, port } = self;
        json!({"identity": id, "id": id, "host": host, "port": port}).to_string()
    }
}

/// The other hubs.
pub struct Peers {
    others: Box<dyn Fn() -> Vec<PeerAddress> + Send + Sync>,
    connector: Arc<dyn Connector>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

impl Peers {
    /// `others` says who they are now, `connector` reaches them.
    pub fn new(
        others: impl Fn() -> Vec<PeerAddress> + Send + Sync + 'static,
        connector: Arc<dyn Connector>,
    ) -> Self {
        Self {
            others: Box::new(others),
            connector,
        }
    }

    /// A stream to an address in a cluster, by way of the hub that has its tunnel; `None` if none has.
    pub(crate) async fn dial(&self, cluster_id: &str, address: &str) -> Option<BoxIo> {
        for peer in (self.others)() {
            match tokio::time::timeout(ASK_DEADLINE, self.ask(&peer, cluster_id, address)).await {
                Ok(Ok(Some(stream))) => return Some(stream),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(peer = peer.id, host = peer.host, error = %runtime::Chain(&error), "a hub does not answer");
                }
                Err(_) => tracing::warn!(
                    peer = peer.id,
                    host = peer.host,
                    error = "timed out",
                    "a hub does not answer"
                ),
            }
        }
        None
    }

    async fn ask(&self, peer: &PeerAddress, cluster_id: &str, address: &str) -> io::Result<Option<BoxIo>> {
        let socket = self.connector.connect(&peer.host, peer.port, true).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection.with_upgrades());
        let parameters = crate::shadow::Parameters::default()
            .add("cluster", cluster_id)
            .add("address", address);
        let request = Request::get(format!("/connect{parameters}"))
            .header(HOST, &peer.host)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, PROTOCOL)
            .body(Body::empty())
            .map_err(io::Error::other)?;
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                let stream = hyper::upgrade::on(response).await.map_err(io::Error::other)?;
                Ok(Some(Box::new(TokioIo::new(stream))))
            }
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(io::Error::other(format!("it answers {other}"))),
        }
    }
}

/// Takes streams from other hubs. Whoever reaches it has shown a certificate of the hubs' authority.
pub(crate) struct Door(pub(crate) Registry);

impl Handle for Door {
    fn handle(self: Arc<Self>, request: Request<Body>, _: Peer) -> BoxFuture<'static, Response<Body>> {
        Box::pin(std::future::ready(take_stream(&self.0, request)))
    }
}

/// Answers another hub that asks for a stream into a cluster.
pub(crate) fn take_stream(registry: &Registry, mut request: Request<Body>) -> Response<Body> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let (cluster_id, address) = (
        query.get("cluster").unwrap_or_default(),
        query.get("address").unwrap_or_default(),
    );
    if request.uri().path() != "/connect" || request.headers().get(UPGRADE) != Some(&PROTOCOL) {
        return respond::error(&ApiError::bad_request(
            "hubs ask for streams here, and for nothing else",
        ));
    }
    let mut stream = match registry.dial(cluster_id, "tcp", address) {
        Ok(stream) => stream,
        Err(DialFailure::NotConnected { .. }) => {
            return respond::error(&ApiError::not_found(api::proxies::GROUP, "sockets", cluster_id));
        }
        Err(error @ DialFailure::Session { .. }) => {
            let text = runtime::Chain(&error).to_string();
            return respond::error(&ApiError::new(Reason::ServiceUnavailable, text));
        }
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = match upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "a peer's stream was not upgraded"),
        };
        let mut peer = TokioIo::new(upgraded);
        if let Err(error) = tokio::io::copy_bidirectional(&mut peer, &mut stream).await {
            tracing::debug!(%error, "a peer's stream broke");
        }
    });
    let mut response = Response::new(Body::from(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, PROTOCOL);
    response
}

/// The Leases of all hubs of a parent.
pub(crate) struct Roll {
    client: Client,
    cache: Cache,
    own: PeerAddress,
    env: Env,
}

impl Roll {
    /// `host` and `port` are where this hub takes streams.
    pub(crate) fn start(client: Client, host: String, port: u16, env: Env) -> Self {
        let mut options = CacheOptions::namespace(SYSTEM_NAMESPACE);
        options.label_selector = format!("{CREATED_BY}={CREATED_BY_HUB}");
        let id = format!("{LEASE_PREFIX}{}", env.suffix(api::names::SUFFIX_LENGTH));
        Self {
            cache: Cache::start(client.clone(), LEASES, options),
            client,
            own: PeerAddress { id, host, port },
            env,
        }
    }

    /// Where the other hubs are now.
    pub(crate) fn others(&self) -> Vec<PeerAddress> {
        let leases = self.cache.list();
        others(leases.iter().map(AsRef::as_ref), &self.own.id, self.env.now())
    }

    /// Keeps this hub's Lease until `end`, then takes it away.
    pub(crate) async fn keep(&self, end: impl Future<Output = ()>) {
        tokio::pin!(end);
        loop {
            if let Err(error) = self.renew().await {
                tracing::warn!(error = %runtime::Chain(&error), "this hub's Lease is not renewed: the others do not find it");
            }
            tokio::select! {
                biased;
                () = &mut end => break,
                () = tokio::time::sleep(RENEW) => {}
            }
        }
        self.remove(&self.own.id).await;
    }

    async fn renew(&self) -> Result<(), kubeio::Error> {
        let now = self.env.now();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": self.own.id, "namespace": SYSTEM_NAMESPACE, "labels": {CREATED_BY: CREATED_BY_HUB},
            },
            "spec": {
                "holderIdentity": self.own.holder(), "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            },
        });
        let apply = Patch::Apply {
            manager: api::names::HUB.to_owned(),
            force: true,
        };
        self.client
            .patch(&LEASES, Some(SYSTEM_NAMESPACE), &self.own.id, None, apply, &lease)
            .await?;
        for lease in self.cache.list() {
            if meta::name(&lease).starts_with(LEASE_PREFIX)
                && renewed(&lease).is_some_and(|renewed| now.duration_since(renewed) > FORGOTTEN)
            {
                self.remove(meta::name(&lease)).await;
            }
        }
        Ok(())
    }

    async fn remove(&self, name: &str) {
        let options = kubeio::DeleteOptions::default();
        let removed = self
            .client
            .delete(&LEASES, Some(SYSTEM_NAMESPACE), name, &options)
            .await;
        if let Err(error) = removed
            && !error.is_not_found()
        {
            tracing::debug!(name, error = %runtime::Chain(&error), "a hub's Lease is not removed");
        }
    }
}

fn renewed(lease: &Value) -> Option<Timestamp> {
    lease["spec"]["renewTime"].as_str()?.parse().ok()
}

/// Who of the Leases' holders are other hubs that live, by id.
fn others<'a>(leases: impl Iterator<Item = &'a Value>, own: &str, now: Timestamp) -> Vec<PeerAddress> {
    let limit = SignedDuration::from_secs(LEASE_SECONDS);
    let mut others: Vec<PeerAddress> = leases
        .filter(|lease| meta::name(lease).starts_with(LEASE_PREFIX))
        .filter(|lease| renewed(lease).is_some_and(|renewed| now.duration_since(renewed) < limit))
        .filter_map(|lease| {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            PeerAddress::parse(holder)
                .inspect_err(
                    |error| tracing::debug!(name = meta::name(lease), %error, "a Lease is passed over"),
                )
                .ok()
        })
        .filter(|peer| peer.id != own)
        .collect();
    others.sort();
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U18.
    #[test]
    fn a_holder_says_where_a_hub_is_or_what_is_missing() {
        let address = PeerAddress {
            id: "clusternet-hub-peer-abcde".to_owned(),
            host: "10.0.0.7".to_owned(),
            port: 8_123,
        };
        assert_eq!(PeerAddress::parse(&address.holder()), Ok(address));
        for (text, field) in [
            ("junk", "JSON object"),
            ("{}", "id"),
            (r#"{"id":"a"}"#, "host"),
            (r#"{"id":"a","host":"b"}"#, "port"),
            (r#"{"id":"a","host":"b","port":0}"#, "port"),
            (r#"{"id":"a","host":"b","port":70000}"#, "port"),
        ] {
            assert_eq!(PeerAddress::parse(text).unwrap_err().field, field, "{text}");
        }
    }

    #[test]
    fn only_other_hubs_that_live_are_asked() {
        let lease = |name: &str, id: &str, renewed: &str| {
            let holder = json!({"id": id, "host": "h", "port": 1}).to_string();
            json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder, "renewTime": renewed}})
        };
        let leases = [
            lease("clusternet-hub-peer-b", "b", "2026-01-01T00:00:50.000000Z"),
            lease("clusternet-hub-peer-a", "a", "2026-01-01T00:00:55Z"),
            lease("clusternet-hub-peer-own", "own", "2026-01-01T00:00:55Z"),
            lease("clusternet-hub-peer-old", "old", "2026-01-01T00:00:00Z"),
            lease("clusternet-scheduler", "x", "2026-01-01T00:00:55Z"),
            json!({"metadata": {"name": "clusternet-hub-peer-c"}, "spec": {"holderIdentity": "junk",
                "renewTime": "2026-01-01T00:00:55Z"}}),
        ];
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let found = others(leases.iter(), "own", now);
        let ids: Vec<&str> = found.iter().map(|peer| peer.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
    }
}
