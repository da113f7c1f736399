//! What goes wrong in a hub as a whole; single requests answer with a `Status`.

use std::io;
use std::net::SocketAddr;

/// Why a hub cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used.
    #[error("the hub's configuration is not usable")]
    Config(#[from] crate::ConfigError),
    /// The parent does not answer.
    #[error("the parent cluster cannot be read")]
    Parent(#[from] kubeio::Error),
    /// The port for other hubs cannot be listened on.
    #[error("other hubs cannot be heard at {address}")]
    Peers {
        /// Where it was tried.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The serving certificate or its authority cannot be used or made.
    #[error("the hub's serving certificate is not usable")]
    Pki(#[from] apiserver::pki::PkiError),
}
