//! One request through a tunnel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use apiserver::{Body, BoxError};
use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use machinery::ApiError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tunnel::{BoxIo, DialFailure, Registry};

use super::credentials::Credentials;
use super::headers;
use super::pool::{Key, Pool};
use super::target::Destination;
use crate::peers::Peers;
use crate::respond;

/// How long dialing and the TLS handshake may take together.
const CONNECT_DEADLINE: Duration = Duration::from_secs(30);

/// How long a waiting connection may take to be ready for a request.
const READY_DEADLINE: Duration = Duration::from_millis(100);

/// The ways into clusters.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) registry: &'a Registry,
    /// Other hubs, which may have a tunnel that this one has not.
    pub(crate) peers: Option<&'a Peers>,
    pub(crate) pool: &'a Arc<Pool>,
}

/// What one request needs.
pub(crate) struct Call<'a> {
    pub(crate) cluster_id: &'a str,
    pub(crate) destination: &'a Destination,
    pub(crate) credentials: &'a Credentials,
    /// The CA that the destination is verified by; there if it speaks TLS.
    pub(crate) ca: Option<Arc<[u8]>>,
}

impl Call<'_> {
    fn failed(&self, what: &str, error: &dyn std::error::Error) -> ApiError {
        let Self {
            cluster_id,
            destination,
            ..
        } = self;
        respond::bad_gateway(format!(
            "cluster {cluster_id:?}: {what} {}: {}",
            destination.address(),
            root_cause(error)
        ))
    }
}

/// The innermost error's text: what the agent or the server said.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Sends a request into a cluster and gives the answer, both streaming; an upgrade is carried as bytes.
pub(crate) async fn forward(
    ways: Ways<'_>,
    call: &Call<'_>,
    mut request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let upgrading = headers::upgrade(request.headers()).is_some();
    let caller = upgrading.then(|| hyper::upgrade::on(&mut request));
    let request = prepare(call, request)?;
    let key = Key {
        cluster_id: call.cluster_id.to_owned(),
        tls: call.destination.tls,
        address: call.destination.address(),
        ca: call.ca.clone(),
        identity: call.credentials.identity.clone(),
    };
    let (response, sender) = send(ways, call, &key, request).await?;
    Ok(answer(response, sender, caller, Arc::clone(ways.pool), key))
}

/// Makes the caller's request one to the cluster.
fn prepare(call: &Call<'_>, request: Request<Body>) -> Result<Request<Body>, ApiError> {
    let (mut parts, body) = request.into_parts();
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    let path = PathAndQuery::try_from(call.destination.path_and_query.as_str())
        .map_err(|error| ApiError::bad_request(format!("the path cannot be passed on: {error}")))?;
    parts.uri = Uri::from(path);
    headers::for_cluster(&mut parts.headers);
    let host = HeaderValue::try_from(call.destination.authority.as_str())
        .map_err(|_| ApiError::bad_request("the host cannot be passed on"))?;
    parts.headers.insert(HOST, host);
    for (name, value) in &call.credentials.headers {
        parts.headers.append(name.clone(), value.clone());
    }
    Ok(Request::from_parts(parts, body))
}

/// Sends on a waiting connection, or on a new one if there is none (or it was closed before the request left).
async fn send(
    ways: Ways<'_>,
    call: &Call<'_>,
    key: &Key,
    mut request: Request<Body>,
) -> Result<(Response<Incoming>, SendRequest<Body>), ApiError> {
    while let Some(mut sender) = ways.pool.take(key) {
        // Just answered connections take a moment; one whose request was not read to its end never gets ready.
        match tokio::time::timeout(READY_DEADLINE, sender.ready()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => continue,
        }
        match sender.try_send_request(request).await {
            Ok(response) => return Ok((response, sender)),
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(call.failed("no answer from", error.error())),
            },
        }
    }
    let mut sender = match tokio::time::timeout(CONNECT_DEADLINE, connect(ways, call)).await {
        Ok(sender) => sender?,
        Err(_) => return Err(call.failed("cannot connect to", &io::Error::from(io::ErrorKind::TimedOut))),
    };
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| call.failed("no answer from", &error))?;
    Ok((response, sender))
}

async fn connect(ways: Ways<'_>, call: &Call<'_>) -> Result<SendRequest<Body>, ApiError> {
    let address = call.destination.address();
    let stream: BoxIo = match (ways.registry.dial(call.cluster_id, "tcp", &address), ways.peers) {
        (Ok(stream), _) => Box::new(stream),
        (Err(DialFailure::Session { source, .. }), _) => return Err(call.failed("cannot reach", &source)),
        (Err(DialFailure::NotConnected { .. }), None) => return Err(super::not_connected(call.cluster_id)),
        (Err(DialFailure::NotConnected { .. }), Some(peers)) => {
            peers
                .dial(call.cluster_id, &address)
                .await
                .ok_or_else(|| super::not_connected(call.cluster_id))?
        }
    };
    match &call.ca {
        None => handshake(call, stream).await,
        Some(ca) => {
            let config = ways.pool.tls.get(ca, call.credentials.identity.as_ref())?;
            let stream = secure(call, config, stream).await?;
            handshake(call, stream).await
        }
    }
}

async fn secure(
    call: &Call<'_>,
    config: Arc<rustls::ClientConfig>,
    stream: BoxIo,
) -> Result<tokio_rustls::client::TlsStream<BoxIo>, ApiError> {
    let name = ServerName::try_from(call.destination.host.clone())
        .map_err(|_| ApiError::bad_request(format!("{:?} is not a host's name", call.destination.host)))?;
    tokio_rustls::TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(|error| call.failed("no verified TLS connection to", &error))
}

async fn handshake<S>(call: &Call<'_>, stream: S) -> Result<SendRequest<Body>, ApiError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| call.failed("no HTTP with", &error))?;
    let cluster_id = call.cluster_id.to_owned();
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(cluster = cluster_id, %error, "proxied connection broke");
        }
    });
    Ok(sender)
}

fn answer(
    mut response: Response<Incoming>,
    sender: SendRequest<Body>,
    caller: Option<OnUpgrade>,
    pool: Arc<Pool>,
    key: Key,
) -> Response<Body> {
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if let (true, Some(caller)) = (switching, caller) {
        let cluster = hyper::upgrade::on(&mut response);
        tokio::spawn(carry(caller, cluster));
    }
    headers::for_caller(response.headers_mut(), switching);
    let (mut parts, body) = response.into_parts();
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    if switching {
        return Response::from_parts(parts, Body::empty());
    }
    let body = Streaming {
        body,
        done: Some((pool, key, sender)),
    };
    Response::from_parts(parts, Body::new(body))
}

/// Carries an upgraded connection's bytes until either end closes.
async fn carry(caller: OnUpgrade, cluster: OnUpgrade) {
    let (caller, cluster) = match futures::future::try_join(caller, cluster).await {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "proxied upgrade failed"),
    };
    let (mut caller, mut cluster) = (TokioIo::new(caller), TokioIo::new(cluster));
    let size = 64 << 10;
    if let Err(error) = tokio::io::copy_bidirectional_with_sizes(&mut caller, &mut cluster, size, size).await
    {
        tracing::debug!(%error, "proxied upgrade broke");
    }
}

/// An answer's body; at its end the connection waits in the pool for the next request. Dropped earlier, it closes.
struct Streaming {
    body: Incoming,
    done: Option<(Arc<Pool>, Key, SendRequest<Body>)>,
}

impl Streaming {
    fn finish(&mut self) {
        if let Some((pool, key, sender)) = self.done.take() {
            pool.put(key, sender);
        }
    }
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            None => self.finish(),
            Some(Ok(_)) if http_body::Body::is_end_stream(&self.body) => self.finish(),
            Some(Ok(_)) => {}
            Some(Err(_)) => self.done = None,
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.body)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if http_body::Body::is_end_stream(&self.body) {
            self.finish();
        }
    }
}
