//! What goes into and comes out of a session.

use std::time::Duration;

use bytes::Bytes;

use crate::frame::{ConnId, FrameError};
use crate::limits::Limits;

/// Which end a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Dials through the tunnel; a Connect frame from the peer ends the session.
    Hub,
    /// Opened the WebSocket; dials what the hub's Connect frames name, if its allow list does.
    Agent,
}

/// What a session is made with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which end this is.
    pub role: Role,
    /// The cluster id, for error texts.
    pub client_key: String,
    /// A number for this session, for error texts.
    pub session_key: u64,
    /// The first frame's id; random by convention.
    pub first_frame: i64,
    /// Bounds.
    pub limits: Limits,
}

/// A WebSocket message from the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A binary message: one frame.
    Binary(Bytes),
    /// A text message; ends the session.
    Text,
    /// A ping with its payload (the shell's WebSocket layer answers it).
    Ping(Bytes),
    /// A pong.
    Pong,
    /// A close message, or the socket's end.
    Close,
}

/// A WebSocket message for the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A binary message.
    Frame(Bytes),
    /// A ping with its payload.
    Ping(Bytes),
    /// A close message; nothing follows.
    Close,
}

/// Something the shell has to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The hub asks for a stream: dial, then carry bytes; answer a failure with `Session::fail`. Whoever takes this
    /// event owns the stream and has to release it.
    Opened {
        /// The stream.
        conn: ConnId,
        /// The network, such as `tcp`.
        proto: String,
        /// The address, such as `10.0.0.1:443`.
        address: String,
    },
    /// A reader that was told to wait has bytes, or the stream's end, to read.
    Readable(ConnId),
    /// A writer that was told to wait has room, or an error, to see.
    Writable(ConnId),
    /// The session is over, and all its streams with it.
    Ended(SessionEnd),
}

/// Why a stream is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer ended it in good order.
    #[error("the far side closed the stream")]
    Eof,
    /// The peer ended it with this text, or this end did.
    #[error("{0}")]
    Error(String),
    /// This end closed it.
    #[error("the stream is closed")]
    Local,
    /// The tunnel is gone.
    #[error("the tunnel is disconnected: {0}")]
    Session(SessionEnd),
}

/// Why a session is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The socket was closed by the peer, or lost.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// No sign of life.
    #[error("the peer has been silent for {} s", silent_for.as_secs())]
    PeerSilent {
        /// Since its last message.
        silent_for: Duration,
    },
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// The peer sent a message that is no frame.
    #[error("the peer sent a bad message: {0}")]
    Frame(FrameError),
    /// A newer session of the same cluster took over.
    #[error("a newer connection of the same cluster took over")]
    Replaced,
    /// This end is stopping.
    #[error("this end is stopping")]
    Stopped,
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(String),
}

/// Why a stream cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Only a hub dials.
    #[error("this end of the tunnel does not dial")]
    Role,
    /// The wire has no room for the target.
    #[error("the target is {size} bytes long (limit {})", crate::MAX_TEXT)]
    TargetTooLong {
        /// Bytes in `<proto>/<address>`.
        size: usize,
    },
    /// The session is full.
    #[error("too many streams in this tunnel (limit {limit})")]
    TooManyConns {
        /// The limit.
        limit: usize,
    },
    /// The session is over.
    #[error("the tunnel is disconnected: {0}")]
    Ended(SessionEnd),
}

/// What a read gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// Nothing yet; [`Event::Readable`] follows.
    Blocked,
    /// Nothing any more.
    Closed(CloseReason),
}

/// What a write gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// That many bytes were taken, at least one unless none were offered.
    Accepted(usize),
    /// No room; [`Event::Writable`] follows.
    Blocked,
    /// Nobody takes them any more.
    Closed(CloseReason),
}

/// Counters since the session began, and sizes now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Streams now.
    pub conns: usize,
    /// Unread bytes now.
    pub inbox_bytes: usize,
    /// Unsent bytes now.
    pub outbox_bytes: usize,
    /// Frames received.
    pub frames_in: u64,
    /// Bytes received in frames.
    pub bytes_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Bytes sent in frames.
    pub bytes_out: u64,
    /// Bytes given to readers.
    pub bytes_read: u64,
    /// Streams opened.
    pub opened_conns: u64,
    /// Streams refused for a limit.
    pub refused_conns: u64,
    /// Streams ended because the peer ignored Pause.
    pub overflowed_conns: u64,
    /// Pause frames sent.
    pub pauses_sent: u64,
    /// Error replies not sent because too many waited.
    pub dropped_replies: u64,
}
