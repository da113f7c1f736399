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
use tokio::time::Sleep;

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
    /// How many answers in a thousand get lost.
    lost_per_mille: usize,
    /// How many writes, and how many pieces of a watch, in a thousand arrive twice.
    twice_per_mille: usize,
    /// Each piece of a watch takes up to this long, so that one watch overtakes another.
    hold: Duration,
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
            twice_per_mille: 0,
            hold: Duration::ZERO,
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

    /// Sets how many writes, and pieces of a watch, in a thousand arrive twice.
    pub(crate) fn repeat(&self, per_mille: usize) {
        self.state.send_modify(|state| state.twice_per_mille = per_mille);
    }

    /// Sets how long a piece of a watch takes at most.
    pub(crate) fn hold(&self, most: Duration) {
        self.state.send_modify(|state| state.hold = most);
    }

    /// Whether this arrives twice.
    pub(crate) fn repeats(&self) -> bool {
        let per_mille = self.state.borrow().twice_per_mille;
        per_mille > 0 && self.draw(1_000) < per_mille
    }

    /// How long this piece of a watch takes.
    fn held_for(&self) -> Duration {
        let most = self.state.borrow().hold.as_millis();
        let most = usize::try_from(most).unwrap_or(0);
        if most == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.draw(most) as u64)
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
    /// Whether it is a watch: pieces of it may come late, and twice.
    watch: bool,
    /// What has been sent and is still under way.
    late: Option<(Pin<Box<Sleep>>, Frame<Bytes>)>,
    /// What comes once more.
    again: Option<Bytes>,
}

impl CarriedBody {
    /// Puts a body on a connection.
    pub(crate) fn new(body: Body, connection: Connection, watch: bool) -> Self {
        Self {
            body,
            connection,
            watch,
            late: None,
            again: None,
        }
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
        if let Err(error) = std::task::ready!(this.connection.poll(context)) {
            return Poll::Ready(Some(Err(error.into())));
        }
        if let Some((due, _)) = &mut this.late {
            std::task::ready!(due.as_mut().poll(context));
            let late = this.late.take();
            return Poll::Ready(late.map(|(_, frame)| Ok(frame)));
        }
        if let Some(again) = this.again.take() {
            return Poll::Ready(Some(Ok(Frame::data(again))));
        }
        let frame = match std::task::ready!(Pin::new(&mut this.body).poll_frame(context)) {
            Some(Ok(frame)) if this.watch => frame,
            other => return Poll::Ready(other),
        };
        let link = &this.connection.link;
        if link.repeats() {
            this.again = frame.data_ref().cloned();
        }
        let takes = link.held_for();
        if takes.is_zero() {
            return Poll::Ready(Some(Ok(frame)));
        }
        this.late = Some((Box::pin(tokio::time::sleep(takes)), frame));
        Pin::new(this).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.late.is_none() && self.again.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.watch {
            SizeHint::default()
        } else {
            self.body.size_hint()
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    async fn arrives(link: &Link, watch: bool) -> Vec<Bytes> {
        let pieces =
            ["one", "two"].map(|text| Ok::<_, BoxError>(Frame::data(Bytes::from_static(text.as_bytes()))));
        let body = Body::new(StreamBody::new(futures::stream::iter(pieces)));
        let connection = link.connect(CancellationToken::new()).unwrap();
        let mut body = CarriedBody::new(body, connection, watch);
        let mut arrived = Vec::new();
        while let Some(frame) = body.frame().await {
            arrived.push(frame.unwrap().into_data().unwrap());
        }
        arrived
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_of_a_watch_arrive_twice_and_late_and_in_order() {
        let link = Link::new(1, "link", Duration::from_millis(1));
        assert_eq!(arrives(&link, true).await, ["one", "two"]);
        link.repeat(1_000);
        assert_eq!(arrives(&link, true).await, ["one", "one", "two", "two"]);
        assert_eq!(arrives(&link, false).await, ["one", "two"]);
        link.repeat(0);
        link.hold(Duration::from_secs(9));
        let start = tokio::time::Instant::now();
        assert_eq!(arrives(&link, true).await, ["one", "two"]);
        assert!(start.elapsed() > Duration::from_millis(100));
        link.hold(Duration::ZERO);
        let start = tokio::time::Instant::now();
        assert_eq!(arrives(&link, true).await, ["one", "two"]);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
