//! The tunnel's wire format and sessions, without sockets, clocks or threads.
//!
//! A hub reaches a cluster through a WebSocket that the cluster's agent opened. Many byte streams share it; this
//! crate says how: [`Frame`] is one binary message (the format of `rancher/remotedialer` v0.3.0, so that existing
//! agents and hubs can be the other end), [`Session`] is the state of one end. A shell moves messages between a
//! socket and a session and hands it the time; the session decides everything else: who may open streams, when the
//! peer is paused, when it is dead, and how much memory one peer may use ([`Limits`]).
//!
//! Deliberately absent: WebSocket framing, TLS, dialing, reconnecting (crate `tunnel`), and hub-to-hub peering.

mod frame;
pub mod fuzz;
mod inbox;
mod limits;
mod pulse;
mod session;
mod varint;

pub use frame::{ConnId, Frame, FrameError, Kind, MAX_TEXT};
pub use limits::Limits;
pub use session::{
    CloseReason, Config, DialError, Event, Incoming, Outgoing, Read, Role, Session, SessionEnd, Stats, Write,
};
