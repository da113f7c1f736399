//! What can go wrong between a client and its server.

use std::time::Duration;

use machinery::{ApiError, Reason};

/// A boxed error that can cross tasks.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request brought no answer that could be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with a failure.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// There was no answer: no connection, or it broke.
    #[error("no answer to {request}")]
    Transport {
        /// Method and path.
        request: String,
        /// What the transport said.
        source: BoxError,
    },
    /// The answer did not come in time.
    #[error("no answer to {request} within {limit:?}")]
    Timeout {
        /// Method and path.
        request: String,
        /// The limit.
        limit: Duration,
    },
    /// The answer is not what the API promises.
    #[error("the answer to {request} is not usable: {problem}")]
    Answer {
        /// Method and path.
        request: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The answer is larger than what is read of this server.
    #[error("the answer to {request} is too large: more than {limit} bytes")]
    TooLarge {
        /// Method and path.
        request: String,
        /// The limit.
        limit: usize,
    },
    /// A kubeconfig, address, certificate or token cannot be used.
    #[error("cannot connect with this configuration")]
    Config(#[source] BoxError),
}

impl Error {
    /// The server's error, if it answered.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            Self::Transport { .. }
            | Self::Timeout { .. }
            | Self::Answer { .. }
            | Self::TooLarge { .. }
            | Self::Config(_) => None,
        }
    }

    fn has(&self, reason: Reason, code: u16) -> bool {
        self.api().is_some_and(|error| {
            error.reason == reason || (error.reason == Reason::Unknown && error.code == code)
        })
    }

    /// No such object or path.
    pub fn is_not_found(&self) -> bool {
        self.has(Reason::NotFound, 404)
    }

    /// The name is taken.
    pub fn is_already_exists(&self) -> bool {
        self.has(Reason::AlreadyExists, 0)
    }

    /// The object was changed meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.has(Reason::Conflict, 0)
    }

    /// The credential is not (or no longer) good.
    pub fn is_unauthorized(&self) -> bool {
        self.has(Reason::Unauthorized, 401)
    }

    /// The credential is good, but the right is missing.
    pub fn is_forbidden(&self) -> bool {
        self.has(Reason::Forbidden, 403)
    }

    /// The object breaks a rule.
    pub fn is_invalid(&self) -> bool {
        self.has(Reason::Invalid, 422)
    }

    /// The revision or continue token is too old: list again.
    pub fn is_expired(&self) -> bool {
        self.has(Reason::Expired, 410) || self.has(Reason::Gone, 410)
    }

    /// More than what is read of this server.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.api()
            .map(|error| error.retry_after_seconds)
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(u64::from(seconds)))
    }
}
