//! Byte streams through a WebSocket that the far side opened: the shell around `tunnel_proto::Session`.
//!
//! A hub keeps a [`Registry`]: it takes upgraded sockets, one for each cluster, and dials through them. An agent runs
//! [`client::run`]: it connects out, reconnects for ever, and dials what its [`Dialer`] allows. Upgrades (exec,
//! attach, port-forward) pass as opaque bytes. Sockets come from a [`Connector`], so that a simulation can hand in
//! pipes; time is tokio's.
//!
//! Deliberately absent: HTTP through the tunnel, authentication, and which clusters exist (crate `hub`).
//!
//! # Seen with the original
//! `tests/interop.rs` runs this crate against `github.com/rancher/remotedialer` v0.3.0 both ways: its client keeps a
//! session with this registry (and answers its pings), this client keeps one with its server, streams of 16 MiB pass
//! under back-pressure, and texts of failed dials arrive. One fault of the original shows: it has one flag for "the
//! peer paused me" and "I paused the peer", so a stream with more than 2 MiB of pressure in *both* directions at once
//! stops for ever at its end. Between two ends of ours it goes on.

mod bridge;
pub mod client;
mod connector;
mod dialer;
mod handshake;
mod link;
mod metrics;
mod moving;
mod registry;
mod stream;

pub use connector::{BoxIo, Connector, Io, TlsConnector};
pub use dialer::{AllowList, DialRefusal, Dialer, TcpDialer};
pub use handshake::{HandshakeError, is_upgrade, switch_protocols};
pub use metrics::Metrics;
pub use registry::{Connected, DialFailure, Registry};
pub use stream::TunnelStream;
pub use tunnel_proto::{CloseReason, Limits, SessionEnd, Stats};
