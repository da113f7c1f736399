//! How the parent is reached.

use std::fmt;
use std::sync::Arc;

use kubeio::{BoxError, Client};

/// What the agent shows the parent, and how it knows the parent.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Bearer token.
    pub token: String,
    /// CA (PEM) of the parent; `None` before the parent has told it. How the parent is verified then is the
    /// connector's business.
    pub ca: Option<Vec<u8>>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").finish_non_exhaustive()
    }
}

/// Makes clients of the parent and sockets for the tunnel; in a simulation without a network.
pub trait ParentConnector: Send + Sync {
    /// A client with a credential.
    ///
    /// # Errors
    /// For a CA that cannot be used.
    fn connect(&self, credential: &Credential) -> Result<Client, kubeio::Error>;

    /// Opens the sockets that the tunnel runs on.
    ///
    /// # Errors
    /// For a CA that cannot be used.
    fn tunnel(&self, credential: &Credential) -> Result<Arc<dyn ::tunnel::Connector>, BoxError>;
}
