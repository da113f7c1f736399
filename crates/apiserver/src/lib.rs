//! The Kubernetes REST protocol over any [`source::ObjectSource`]: requests in, objects as stored bytes out.
//!
//! The entry type is [`ApiServer`]. A request passes through who (`authn`, `impersonate`), may they (`authz`) and
//! what (`request_info`, `registry`, the handlers); nothing here knows what the objects are for. Listeners, keys and
//! identities are the shell of this crate, everything else can be driven in-process through [`ApiServer::handle`].

mod addresses;
pub mod authn;
pub mod authz;
pub mod body;
pub mod bootstrap_policy;
mod bulk;
mod canonical;
mod complaint;
pub mod controllers;
pub mod decode;
mod definitions;
pub mod delegated;
mod discovery;
mod error;
pub mod fuzz;
pub mod group;
mod handlers;
pub mod health;
pub mod identity;
pub mod impersonate;
pub mod kinds;
pub mod listen;
pub mod metrics;
pub mod negotiate;
mod object;
mod openapi;
pub mod options;
mod paths;
pub mod pki;
mod problems;
pub mod query;
mod registry;
pub mod request_info;
pub mod respond;
pub mod reviews;
mod selection;
pub mod server;
mod strategy;
mod table;
pub mod tokens;
pub mod user;

pub use body::{Body, BoxError};
pub use group::{GroupHandler, PodBackend, Subject};
pub use handlers::read_body;
pub use request_info::RequestInfo;
pub use server::{ApiServer, Config};
pub use user::{Caller, Peer, UserInfo};
