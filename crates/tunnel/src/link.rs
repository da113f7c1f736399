//! One session and its socket: the state that streams share, and the task that moves messages.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tunnel_proto::{Config, ConnId, Event, Incoming, Limits, Outgoing, Session, SessionEnd, Stats};

use crate::moving::Moving;
use crate::stream::TunnelStream;

/// Messages moved in one direction before the other gets its turn.
const BURST: usize = 32;

/// Turns before other tasks get theirs.
const TURNS: usize = 16;

/// How long the socket may take no byte at all.
const WRITE_DEADLINE: Duration = Duration::from_secs(60);

/// How long a farewell may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);

/// A session that streams and the driver share.
pub(crate) struct Link {
    state: Mutex<State>,
    origin: Instant,
}

pub(crate) struct State {
    pub(crate) session: Session,
    pub(crate) readers: BTreeMap<ConnId, Waker>,
    pub(crate) writers: BTreeMap<ConnId, Waker>,
    driver: Option<Waker>,
    opened: Vec<(ConnId, String, String)>,
}

/// A stream that the peer asked for.
pub(crate) struct Opened {
    pub(crate) stream: TunnelStream,
    pub(crate) proto: String,
    pub(crate) address: String,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let state = State {
            session: Session::new(config, Duration::ZERO),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            driver: None,
            opened: Vec::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            origin: Instant::now(),
        })
    }

    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one action on the session, then wakes whoever it concerns.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = action(&mut state);
        state.deliver();
        if state.session.wants_transmit()
            && let Some(driver) = state.driver.take()
        {
            driver.wake();
        }
        result
    }

    /// Ends the session.
    pub(crate) fn close(&self, reason: SessionEnd) {
        self.with(|state| state.session.close(reason));
    }

    pub(crate) fn stats(&self) -> Stats {
        self.lock().session.stats()
    }
}

impl State {
    fn deliver(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Opened { conn, proto, address } => self.opened.push((conn, proto, address)),
                Event::Readable(conn) => {
                    if let Some(waker) = self.readers.remove(&conn) {
                        waker.wake();
                    }
                }
                Event::Writable(conn) => {
                    if let Some(waker) = self.writers.remove(&conn) {
                        waker.wake();
                    }
                }
                Event::Ended(_) => {
                    if let Some(driver) = self.driver.take() {
                        driver.wake();
                    }
                }
            }
        }
    }
}

/// How a tunnel's WebSocket is set up: a frame over the limit is refused from its header, before memory is taken.
pub(crate) fn web_socket_config(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        // What one TLS record carries; a hub holds one for each cluster.
        .read_buffer_size(16 << 10)
        .write_buffer_size(128 << 10)
        .max_write_buffer_size(1 << 20)
        .max_message_size(Some(limits.max_message))
        .max_frame_size(Some(limits.max_message))
}

/// Moves messages between a session and its socket until the session ends; says why it did.
pub(crate) async fn drive<S>(
    link: Arc<Link>,
    socket: WebSocketStream<Moving<S>>,
    mut open: impl FnMut(Opened),
) -> SessionEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut driver = Driver {
        socket,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        unflushed: false,
        blocked_since: None,
        link: Arc::clone(&link),
    };
    let end = poll_fn(|context| driver.poll(context, &mut open)).await;
    // The peer may be gone: what the farewell meets is of no interest.
    drop(tokio::time::timeout(CLOSE_DEADLINE, driver.socket.close(None)).await);
    end
}

struct Driver<S> {
    link: Arc<Link>,
    socket: WebSocketStream<Moving<S>>,
    timer: Pin<Box<Sleep>>,
    /// Messages were handed to the socket and not flushed since.
    unflushed: bool,
    /// Since when the socket takes nothing.
    blocked_since: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn poll(&mut self, context: &mut Context<'_>, open: &mut impl FnMut(Opened)) -> Poll<SessionEnd> {
        self.link.lock().driver = Some(context.waker().clone());
        for _ in 0..TURNS {
            let mut moved = self.poll_write(context);
            moved |= self.poll_read(context);
            moved |= self.poll_timer(context);
            let (opened, ended) = {
                let mut state = self.link.lock();
                (std::mem::take(&mut state.opened), state.session.ended().cloned())
            };
            for (conn, proto, address) in opened {
                let stream = TunnelStream::new(Arc::clone(&self.link), conn);
                open(Opened {
                    stream,
                    proto,
                    address,
                });
            }
            if let Some(end) = ended {
                return Poll::Ready(end);
            }
            if !moved {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands messages to the socket while it takes them, then flushes. Says whether more may be possible at once.
    fn poll_write(&mut self, context: &mut Context<'_>) -> bool {
        for sent in 0..BURST {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Pending => {
                    self.blocked();
                    return sent > 0;
                }
                Poll::Ready(Err(error)) => return self.failed(&error),
                Poll::Ready(Ok(())) => self.progressed(),
            }
            let next = {
                let mut state = self.link.lock();
                let next = state.session.poll_transmit();
                state.deliver();
                next
            };
            let message = match next {
                Some(Outgoing::Frame(bytes)) => Message::Binary(bytes),
                Some(Outgoing::Ping(payload)) => Message::Ping(payload),
                Some(Outgoing::Close) => Message::Close(None),
                None => return self.poll_flush(context),
            };
            self.unflushed = true;
            if let Err(error) = Pin::new(&mut self.socket).start_send(message) {
                return self.failed(&error);
            }
        }
        true
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> bool {
        if !self.unflushed {
            return false;
        }
        match Pin::new(&mut self.socket).poll_flush(context) {
            Poll::Pending => self.blocked(),
            Poll::Ready(Err(error)) => return self.failed(&error),
            Poll::Ready(Ok(())) => {
                self.unflushed = false;
                self.progressed();
            }
        }
        false
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> bool {
        for read in 0..BURST {
            let message = match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Pending => {
                    // The start of a message is a sign of life as well as its end.
                    if std::mem::take(&mut self.socket.get_mut().received) {
                        self.alive();
                    }
                    return read > 0;
                }
                Poll::Ready(None) => Incoming::Close,
                Poll::Ready(Some(Err(error))) => return self.failed(&error),
                Poll::Ready(Some(Ok(Message::Binary(bytes)))) => Incoming::Binary(bytes),
                Poll::Ready(Some(Ok(Message::Text(_)))) => Incoming::Text,
                Poll::Ready(Some(Ok(Message::Ping(payload)))) => {
                    // The WebSocket layer has queued the pong; it leaves with the next flush.
                    self.unflushed = true;
                    Incoming::Ping(payload)
                }
                Poll::Ready(Some(Ok(Message::Pong(_) | Message::Frame(_)))) => Incoming::Pong,
                Poll::Ready(Some(Ok(Message::Close(_)))) => Incoming::Close,
            };
            let now = self.link.now();
            let mut state = self.link.lock();
            state.session.handle_message(message, now);
            state.deliver();
            if state.session.ended().is_some() {
                return false;
            }
        }
        true
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> bool {
        let Some(at) = self.link.lock().session.poll_timeout() else {
            return false;
        };
        let deadline = self.link.origin + at;
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        if self.timer.as_mut().poll(context).is_pending() {
            return false;
        }
        let now = self.link.now();
        let stalled = self
            .blocked_since
            .is_some_and(|since| since.elapsed() >= WRITE_DEADLINE);
        let mut state = self.link.lock();
        if stalled {
            state
                .session
                .close(SessionEnd::Socket("the peer takes no bytes".to_owned()));
        } else {
            state.session.handle_timeout(now);
        }
        state.deliver();
        true
    }

    fn blocked(&mut self) {
        if std::mem::take(&mut self.socket.get_mut().taken) {
            self.progressed();
        }
        self.blocked_since.get_or_insert_with(Instant::now);
    }

    /// A socket that was full takes bytes again: somebody at the far side reads.
    fn progressed(&mut self) {
        if self.blocked_since.take().is_some() {
            self.alive();
        }
    }

    fn alive(&self) {
        let now = self.link.now();
        self.link.lock().session.handle_progress(now);
    }

    fn failed(&mut self, error: &tokio_tungstenite::tungstenite::Error) -> bool {
        let mut state = self.link.lock();
        state.session.close(SessionEnd::Socket(error.to_string()));
        state.deliver();
        false
    }
}
