//! Serving over TLS: accepts connections, bounds what strangers can make it hold, and hands each request to a
//! [`Handle`]. Knows nothing of what requests mean. The entry point is [`serve`].

mod rest;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::Body;
use crate::complaint::Complaint;
use crate::server::ApiServer;
use crate::user::{Caller, Peer};

/// Answers the requests of a listener.
pub trait Handle: Send + Sync + 'static {
    /// Answers one request of a peer.
    fn handle(self: Arc<Self>, request: Request<Body>, peer: Peer) -> BoxFuture<'static, Response<Body>>;
}

impl Handle for ApiServer {
    fn handle(self: Arc<Self>, request: Request<Body>, peer: Peer) -> BoxFuture<'static, Response<Body>> {
        Box::pin(async move { ApiServer::handle(&self, request, Caller::Peer(peer)).await })
    }
}

/// What a listener may be made to hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Unfinished TLS handshakes (default 1,024). One more ends the oldest of them.
    pub handshakes: usize,
    /// How long a handshake may take (default 10 s).
    pub handshake_timeout: Duration,
    /// Open connections (default 20,000). One more is closed at once.
    pub connections: usize,
    /// How long an HTTP/1.1 client may take for a request's headers, and be idle between requests (default 60 s).
    pub header_timeout: Duration,
    /// How long the rest of a body is waited for that nobody read (default 5 s); then the connection ends.
    pub body_rest: Duration,
    /// Bytes of a request's headers (default 64 KiB).
    pub header_bytes: u32,
    /// Open HTTP/2 streams of one connection (default 250, as Go's server has it).
    pub streams: u32,
    /// How long answers may still run once the listener is told to end (default 5 s).
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 1_024,
            handshake_timeout: Duration::from_secs(10),
            connections: 20_000,
            header_timeout: Duration::from_secs(60),
            body_rest: Duration::from_secs(5),
            header_bytes: 64 * 1024,
            streams: 250,
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves a listener until `shutdown`, then lets running answers end for [`Limits::drain`].
pub async fn serve<H: Handle>(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handler: Arc<H>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let door = Arc::new(Door {
        handler,
        acceptor: TlsAcceptor::from(tls),
        limits,
        shutdown: shutdown.clone(),
        end: CancellationToken::new(),
        handshakes: Handshakes::default(),
        open: AtomicUsize::new(0),
        complaint: Complaint::default(),
        nonsense: Complaint::default(),
        too_large: Arc::default(),
    });
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                door.complaint.about("connections cannot be accepted", &error);
                // Most often file descriptors ran out: others must close theirs first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if door.open.load(Ordering::Relaxed) >= limits.connections {
            door.complaint
                .about("too many connections are open: a new one is closed", &address);
            continue;
        }
        let (ticket, evicted) = door.handshakes.begin(limits.handshakes);
        if evicted {
            door.complaint.about(
                "too many handshakes are unfinished: the oldest is ended",
                &address,
            );
        }
        door.open.fetch_add(1, Ordering::Relaxed);
        let door = door.clone();
        tasks.spawn(async move {
            door.attend(stream, address, ticket).await;
            door.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, tasks.wait()).await.is_err() {
        door.end.cancel();
        tasks.wait().await;
    }
}

struct Door<H> {
    handler: Arc<H>,
    acceptor: TlsAcceptor,
    limits: Limits,
    /// Ends connections when their running requests are answered.
    shutdown: CancellationToken,
    /// Ends connections at once.
    end: CancellationToken,
    handshakes: Handshakes,
    open: AtomicUsize,
    /// About what is held too often.
    complaint: Complaint,
    /// About what peers say.
    nonsense: Complaint,
    /// About what they send too much of.
    too_large: Arc<Complaint>,
}

impl<H: Handle> Door<H> {
    async fn attend(&self, stream: TcpStream, address: SocketAddr, ticket: Ticket) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection's delay cannot be switched off");
        }
        let number = ticket.number;
        let stream = tokio::select! {
            biased;
            () = self.end.cancelled() => None,
            () = self.shutdown.cancelled() => None,
            () = ticket.evicted.cancelled() => None,
            done = tokio::time::timeout(self.limits.handshake_timeout, self.acceptor.accept(stream)) => match done {
                Ok(Ok(stream)) => Some(stream),
                Ok(Err(error)) => {
                    tracing::debug!(%error, peer = %address, "a TLS handshake failed");
                    if error.kind() == std::io::ErrorKind::InvalidData {
                        self.nonsense.about("a TLS handshake failed", &format_args!("{address}: {error}"));
                    }
                    None
                }
                Err(_) => None,
            },
        };
        let in_time = self.handshakes.end(number);
        let Some(stream) = stream.filter(|_| in_time) else {
            return;
        };
        let (_, session) = stream.get_ref();
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let peer = Peer {
            address: Some(address),
            certificates: session
                .peer_certificates()
                .map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect())
                .unwrap_or_default(),
        };
        let served = if is_http2 {
            self.serve_http2(stream, peer).await
        } else {
            self.serve_http1(stream, peer).await
        };
        if let Err(error) = served {
            tracing::debug!(%error, peer = %address, "a connection ended early");
            if is_nonsense(&error) {
                self.nonsense.about(
                    "a connection that broke the protocol was ended",
                    &format_args!("{address}: {error}"),
                );
            }
        }
    }

    fn answers(&self) -> Answers<H> {
        Answers {
            handler: self.handler.clone(),
            too_large: self.too_large.clone(),
        }
    }

    async fn serve_http1(&self, stream: TlsStream<TcpStream>, peer: Peer) -> Result<(), hyper::Error> {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(
                usize::try_from(self.limits.header_bytes)
                    .unwrap_or(usize::MAX)
                    .max(8_192),
            )
            .max_headers(256);
        let rest = self.limits.body_rest;
        let service = service_fn(move |request| {
            let answered = answer_in_turn(self.answers(), request, peer.clone(), rest);
            Box::pin(answered)
        });
        let connection = builder
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            result = connection.as_mut() => return result,
            () = self.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        self.until_end(connection).await
    }

    async fn serve_http2(&self, stream: TlsStream<TcpStream>, peer: Peer) -> Result<(), hyper::Error> {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(self.limits.header_bytes)
            // Clients cancel watches in bursts; a flood of resets beyond that ends the connection.
            .max_pending_accept_reset_streams(200)
            .max_local_error_reset_streams(200)
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_send_buf_size(64 * 1024)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        let answers = self.answers();
        let service = service_fn(move |request| answer(answers.clone(), request, peer.clone()));
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            result = connection.as_mut() => return result,
            () = self.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        self.until_end(connection).await
    }

    async fn until_end(
        &self,
        connection: impl Future<Output = Result<(), hyper::Error>>,
    ) -> Result<(), hyper::Error> {
        tokio::select! {
            biased;
            result = connection => result,
            () = self.end.cancelled() => Ok(()),
        }
    }
}

/// Whether a peer sent what is no HTTP, rather than went away.
fn is_nonsense(error: &hyper::Error) -> bool {
    let gone = std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>());
    !(gone || error.is_incomplete_message() || error.is_canceled() || error.is_timeout())
}

/// What one connection's requests are answered by.
struct Answers<H> {
    handler: Arc<H>,
    too_large: Arc<Complaint>,
}

impl<H> Clone for Answers<H> {
    fn clone(&self) -> Self {
        Self {
            handler: self.handler.clone(),
            too_large: self.too_large.clone(),
        }
    }
}

impl<H: Handle> Answers<H> {
    async fn answer(self, request: Request<Body>, peer: Peer) -> Response<Body> {
        let address = peer.address;
        let response = self.handler.handle(request, peer).await;
        if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let from = address.map_or_else(String::new, |address| address.to_string());
            self.too_large
                .about("a request that was too large was refused", &from);
        }
        response
    }
}

async fn answer<H: Handle>(
    answers: Answers<H>,
    request: Request<Incoming>,
    peer: Peer,
) -> Result<Response<Body>, Infallible> {
    Ok(answers.answer(request.map(Body::new), peer).await)
}

/// The same where the next request comes behind the body of this one.
async fn answer_in_turn<H: Handle>(
    answers: Answers<H>,
    request: Request<Incoming>,
    peer: Peer,
    time: Duration,
) -> Result<Response<Body>, Infallible> {
    let waits = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let (lent, rest) = rest::lend(body);
    let request = Request::from_parts(parts, Body::new(lent));
    let mut response = answers.answer(request, peer).await;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS && !rest.take_in(waits, time).await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    Ok(response)
}

/// The unfinished handshakes, oldest first.
#[derive(Debug, Default)]
struct Handshakes {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, CancellationToken>>,
}

struct Ticket {
    number: u64,
    evicted: CancellationToken,
}

impl Handshakes {
    /// Enters one more; the oldest has to go if that is too many.
    fn begin(&self, limit: usize) -> (Ticket, bool) {
        let ticket = Ticket {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            evicted: CancellationToken::new(),
        };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if running.len() >= limit.max(1) {
            running.pop_first()
        } else {
            None
        };
        running.insert(ticket.number, ticket.evicted.clone());
        drop(running);
        let evicted = oldest.is_some();
        if let Some((_, token)) = oldest {
            token.cancel();
        }
        (ticket, evicted)
    }

    /// Whether one ended before it was evicted.
    fn end(&self, number: u64) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&number).is_some()
    }
}

#[cfg(test)]
mod tests;
