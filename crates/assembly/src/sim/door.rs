//! The way from a client to an API server: in this process, but as breakable as a network.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use apiserver::{ApiServer, Body, BoxError, Caller, Peer, UserInfo};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use runtime::CancellationToken;
use tokio::sync::Notify;

use super::link::{Carried, CarriedBody, Link};

/// How much a simulated connection holds before its writer waits.
const PIPE_BYTES: usize = 64 * 1024;

/// The server behind a door, while there is one.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    pub(crate) server: Arc<ApiServer>,
    /// Cancelled when the process dies.
    pub(crate) dead: CancellationToken,
}

/// Where a cluster's API server is found, whichever process it is at the moment.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<Option<Behind>>);

impl Door {
    fn inner(&self) -> MutexGuard<'_, Option<Behind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server is there.
    pub(crate) fn open(&self, behind: Behind) {
        *self.inner() = Some(behind);
    }

    /// Nobody is there.
    pub(crate) fn close(&self) {
        *self.inner() = None;
    }

    /// The server, if one is there.
    pub(crate) fn behind(&self) -> io::Result<Behind> {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "the simulated server is down");
        self.inner().clone().ok_or_else(refused)
    }
}

/// As whom a client comes.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    /// As a user that is believed.
    User(UserInfo),
    /// With a token that is checked.
    Token(String),
}

/// When a fuse blows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the write is sent.
    Before,
    /// After it is done and before the writer knows.
    After,
}

/// Kills a role at one of its writes.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    set: Mutex<Option<(u32, Moment)>>,
    blown: Notify,
}

impl Fuse {
    fn set(&self) -> MutexGuard<'_, Option<(u32, Moment)>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blows at this many writes from now.
    pub(crate) fn light(&self, writes: u32, moment: Moment) {
        *self.set() = Some((writes, moment));
    }

    /// Takes the fuse out.
    pub(crate) fn disarm(&self) {
        *self.set() = None;
    }

    /// Waits until it blows.
    pub(crate) async fn blown(&self) {
        self.blown.notified().await;
    }

    /// Counts a write; says when to die, if it is this one.
    fn count(&self) -> Option<Moment> {
        let mut set = self.set();
        match &mut *set {
            Some((left, moment)) if *left <= 1 => {
                let moment = *moment;
                *set = None;
                Some(moment)
            }
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        }
    }

    /// Dies: the role that waits here is dropped.
    async fn blow(&self) -> ! {
        self.blown.notify_one();
        std::future::pending().await
    }
}

/// One client's way through a door. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) door: Arc<Door>,
    pub(crate) identity: Identity,
    pub(crate) link: Link,
    pub(crate) fuse: Arc<Fuse>,
    /// The process that the client is a part of, if that is the server's own: it must not reach the next one.
    pub(crate) process: Option<CancellationToken>,
}

impl Way {
    async fn send(self, request: Request<Full<Bytes>>) -> Result<Response<Body>, BoxError> {
        let Self {
            door,
            identity,
            link,
            fuse,
            process,
        } = self;
        if process.is_some_and(|process| process.is_cancelled()) {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the simulated process is dead").into());
        }
        let deadly = if is_write(request.method()) {
            fuse.count()
        } else {
            None
        };
        if deadly == Some(Moment::Before) {
            fuse.blow().await;
        }
        link.travel().await;
        let Behind { server, dead } = door.behind()?;
        let mut connection = link.connect(dead)?;
        let (mut request, loses) = (request, link.loses_answer());
        if let Identity::Token(token) = &identity {
            let value = HeaderValue::try_from(format!("Bearer {token}"))?;
            request.headers_mut().insert(http::header::AUTHORIZATION, value);
        }
        let caller = || match &identity {
            Identity::User(user) => Caller::User(user.clone()),
            Identity::Token(_) => Caller::Peer(Peer::default()),
        };
        let watch = is_watch(&request);
        let twin = (is_write(request.method()) && link.repeats()).then(|| request.clone());
        // A silent link delays what it has taken on; that is as good as losing it later.
        let answer = server.handle(request.map(Body::new), caller());
        let response = connection.carry(answer).await?;
        if let Some(twin) = twin {
            // What the second one is answered, nobody hears.
            drop(
                connection
                    .carry(server.handle(twin.map(Body::new), caller()))
                    .await?,
            );
        }
        if deadly == Some(Moment::After) {
            fuse.blow().await;
        }
        connection.carry(link.travel()).await?;
        if loses {
            return Err(
                io::Error::new(io::ErrorKind::ConnectionReset, "the simulated answer was lost").into(),
            );
        }
        Ok(response.map(|body| Body::new(CarriedBody::new(body, connection, watch))))
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|part| ["watch=true", "watch=1"].contains(&part))
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

impl tower::Service<Request<Full<Bytes>>> for Way {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// Opens sockets to a door, with an HTTP/1.1 server behind them.
#[derive(Debug, Clone)]
pub(crate) struct Sockets {
    pub(crate) door: Arc<Door>,
    pub(crate) link: Link,
}

impl tunnel::Connector for Sockets {
    fn connect(&self, _: &str, _: u16, _: bool) -> BoxFuture<'static, io::Result<tunnel::BoxIo>> {
        let Self { door, link } = self.clone();
        Box::pin(async move {
            let mut knocking = link.connect(CancellationToken::new())?;
            knocking.carry(link.travel()).await?;
            let Behind { server, dead } = door.behind()?;
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            let near = Carried::new(near, link.connect(dead.clone())?);
            let far = Carried::new(far, link.connect(dead.clone())?);
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let server = server.clone();
                async move {
                    let request = request.map(Body::new);
                    Ok::<_, Infallible>(server.handle(request, Caller::Peer(Peer::default())).await)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(far), service)
                .with_upgrades();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = dead.cancelled() => {}
                    // It ends with the connection; what was wrong with it, the client sees.
                    _ = connection => {}
                }
            });
            Ok(Box::new(near) as tunnel::BoxIo)
        })
    }
}
