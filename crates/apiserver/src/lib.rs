//! The Kubernetes REST protocol over any [`source::ObjectSource`]: requests in, objects as stored bytes out.
//!
//! The entry type is [`ApiServer`]. A request passes through who (`authn`, `impersonate`), may they (`authz`) and
//! what (`request_info`, `registry`, the handlers); nothing here knows what the objects are for. Listeners, keys and
//! identities are the shell of this crate, everything else can be driven in-process through [`ApiServer::handle`].

pub mod authn;
pub mod authz;
pub mod body;
pub mod bootstrap_policy;
pub mod controllers;
pub mod delegated;
pub mod group;
pub mod health;
pub mod impersonate;
pub mod listen;
pub mod metrics;
pub mod pki;
pub mod query;
pub mod request_info;
pub mod reviews;
pub mod server;
pub mod tokens;
pub mod user;

pub use body::{Body, BoxError};
pub use group::{GroupHandler, PodBackend};
pub use request_info::RequestInfo;
pub use server::{ApiServer, Config};
pub use user::{Caller, Peer, UserInfo};
