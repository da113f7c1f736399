//! What goes wrong in a hub as a whole; single requests answer with a `Status`.

/// Why a hub cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used.
    #[error("the hub's configuration is not usable")]
    Config(#[from] crate::ConfigError),
    /// The parent does not answer.
    #[error("the parent cluster cannot be read")]
    Parent(#[from] kubeio::Error),
    /// The serving certificate or its authority cannot be used or made.
    #[error("the hub's serving certificate is not usable")]
    Pki(#[from] apiserver::pki::PkiError),
}
