//! Kubernetes as the roles see it: a client of untyped objects, a watch cache, a work queue, leader election,
//! events, kubeconfigs and the map from kinds to resources.
//!
//! A [`Client`] speaks to a server in this process ([`Client::from_service`]) or over HTTPS; nothing above knows
//! which. Only the HTTPS transport is the `kube` crate's. No business rules here, no rule of any kind of object.

mod cache;
mod client;
mod elect;
mod error;
pub mod fuzz;
mod key;
mod kubeconfig;
mod mapper;
mod options;
mod queue;
mod rate;
mod recorder;
mod reload;
mod retry;
mod transport;
mod watch;

#[cfg(test)]
mod fake;

pub use cache::{Cache, CacheOptions, Change, Changes};
pub use client::{Bounds, Client, Listed};
pub use elect::{Elector, ElectorConfig, Leadership};
pub use error::{BoxError, Error};
pub use key::ObjectKey;
pub use kubeconfig::{Choice, Kubeconfig, Target};
pub use mapper::{Discovered, Discovery, Mapper};
pub use options::{DeleteOptions, DryRun, Form, ListOptions, Patch, Propagation, WatchOptions};
pub use queue::{Outcome, Queue, QueueOptions};
pub use rate::Rate;
pub use recorder::{EventType, Recorder};
pub use retry::until_answered;
pub use tokio_util::sync::CancellationToken;
pub use transport::{Body, Connection, Trust};
pub use watch::{WatchEvent, WatchStream};
