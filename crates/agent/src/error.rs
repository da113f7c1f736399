//! Why an agent ends.

use std::fmt;

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration has faults.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A request failed.
    #[error("cannot {doing}")]
    Request {
        /// What was being done.
        doing: String,
        /// Why not.
        source: kubeio::Error,
    },
    /// The parent does not know the token that the agent registers with; only a person can give it another.
    #[error(
        "the parent refuses --cluster-reg-token: make a new one with `tombolo join`, apply what that prints in this \
         cluster, and restart the agent"
    )]
    TokenRefused(#[source] kubeio::Error),
    /// The tunnel cannot be set up.
    #[error("the tunnel cannot be set up")]
    Tunnel(#[source] kubeio::BoxError),
}

impl Error {
    /// Says what was being done when a request failed.
    pub(crate) fn doing(doing: impl Into<String>) -> impl FnOnce(kubeio::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Request { doing, source }
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// One sentence for each fault, beginning with the flag.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("; "))
    }
}

impl std::error::Error for ConfigError {}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    runtime::Chain(error).to_string()
}
