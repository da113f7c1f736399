//! What lies between two clusters: it can break, fall silent and lose answers. Streams and bodies that go through it
//! notice.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::{Body, BoxError};
use bytes::Bytes;
use clock::SplitMix;
use futures::future::BoxFuture;
use http_body::{Body as HttpBody, Frame, SizeHint};
use runtime::CancellationToken;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// How a link is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It carries everything.
    Open,
    /// Connecting fails at once.
    Refused,
    /// Nothing arrives and nobody says so.
    Silent,
}

#[derive(Debug, Clone, Copy)]
struct State {
    condition: Condition,
    /// Grows when everything that goes through it is reset.
    generation: u64,
    /// Of how many answers in a thousand get lost.
    lost_per_mille: usize,
}

/// A link. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    state: watch::Sender<State>,
    random: Arc<Mutex<SplitMix>>,
    /// Messages take up to this long.
    latency: Duration,
}

impl Link {
    /// An open link.
    pub(crate) fn new(seed: u64, name: &str, latency: Duration) -> Self {
        let state = State {
            condition: Condition::Open,
            generation: 0,
            lost_per_mille: 0,
        };
        Self {
            state: watch::Sender::new(state),
            random: Arc::new(Mutex::new(SplitMix::named(seed, name))),
            latency,
        }
    }

    /// Resets everything on it; new connections work.
    pub(crate) fn reset(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Breaks it: what is on it is reset, new connections are refused.
    pub(crate) fn refuse(&self) {
        self.state.send_modify(|state| {
            state.condition = Condition::Refused;
            state.generation += 1;
        });
    }

    /// Nothing arrives any more.
    pub(crate) fn silence(&self) {
        self.state
            .send_modify(|state| state.condition = Condition::Silent);
    }

    /// Carries everything again; what was on it when it broke or fell silent is lost.
    pub(crate) fn mend(&self) {
        self.state.send_modify(|state| {
            if state.condition != Condition::Open {
                state.condition = Condition::Open;
                state.generation += 1;
            }
        });
    }

    /// Sets how many answers in a thousand get lost.
    pub(crate) fn lose(&self, per_mille: usize) {
        self.state.send_modify(|state| state.lost_per_mille = per_mille);
    }

    /// Whether nothing arrives.
    fn is_silent(&self) -> bool {
        self.state.borrow().condition == Condition::Silent
    }

    /// Whether this answer gets lost.
    pub(crate) fn loses_answer(&self) -> bool {
        let per_mille = self.state.borrow().lost_per_mille;
        per_mille > 0 && self.draw(1_000) < per_mille
    }

    fn draw(&self, bound: usize) -> usize {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .below(bound)
    }

    /// How long one message takes.
    pub(crate) async fn travel(&self) {
        let micros = usize::try_from(self.latency.as_micros()).unwrap_or(0);
        tokio::time::sleep(Duration::from_micros(self.draw(micros) as u64)).await;
    }

    /// A connection that exists from now on.
    ///
    /// # Errors
    /// When connecting is refused.
    pub(crate) fn connect(&self, peer: CancellationToken) -> io::Result<Connection> {
        let state = *self.state.borrow();
        if state.condition == Condition::Refused {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the simulated network is down",
            ));
        }
        let mut changes = self.state.subscribe();
        let broken = async move {
            tokio::select! {
                biased;
                () = peer.cancelled_owned() => {}
                // The sender lives as long as the link, which the connection holds.
                _ = changes.wait_for(|now| now.generation != state.generation) => {}
            }
        };
        Ok(Connection {
            link: self.clone(),
            broken: Box::pin(broken),
        })
    }
}

fn reset() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "the simulated connection was reset",
    )
}

/// One connection over a link, to a peer that may die.
pub(crate) struct Connection {
    link: Link,
    broken: BoxFuture<'static, ()>,
}

impl Connection {
    /// An error once it is broken; pending for ever while silent; else ready.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.broken.as_mut().poll(context).is_ready() {
            // A future must not be polled after its end.
            self.broken = Box::pin(std::future::ready(()));
            return Poll::Ready(Err(reset()));
        }
        if self.link.is_silent() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for something to arrive: not while it is silent, and not if it breaks.
    pub(crate) async fn carry<F: Future + Send>(&mut self, future: F) -> io::Result<F::Output> {
        let mut future = Box::pin(future);
        let mut done = None;
        std::future::poll_fn(|context| {
            if done.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                done = Some(output);
            }
            match self.poll(context) {
                Poll::Ready(Ok(())) => done
                    .take()
                    .map_or(Poll::Pending, |output| Poll::Ready(Ok(output))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// A byte stream over a connection.
pub(crate) struct Carried<S> {
    stream: S,
    connection: Connection,
}

impl<S> Carried<S> {
    /// Puts a stream on a connection.
    pub(crate) fn new(stream: S, connection: Connection) -> Self {
        Self { stream, connection }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Carried<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        std::task::ready!(this.connection.poll(context))?;
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Carried<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        std::task::ready!(this.connection.poll(context))?;
        Pin::new(&mut this.stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        std::task::ready!(this.connection.poll(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The body of an answer that came over a connection.
pub(crate) struct CarriedBody {
    body: Body,
    connection: Connection,
}

impl CarriedBody {
    /// Puts a body on a connection.
    pub(crate) fn new(body: Body, connection: Connection) -> Self {
        Self { body, connection }
    }
}

impl HttpBody for CarriedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match this.connection.poll(context) {
            Poll::Ready(Ok(())) => Pin::new(&mut this.body).poll_frame(context),
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
