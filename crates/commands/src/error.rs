//! What goes wrong with a command, in words for the person who typed it.

use std::path::PathBuf;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line makes no sense; exit code 2.
    #[error("{0}")]
    Usage(String),
    /// No hub is known.
    #[error(
        "no hub is known: start one with `tombolo up`, or name its kubeconfig with --kubeconfig or KUBECONFIG"
    )]
    NoHub,
    /// A file cannot be read.
    #[error("{path:?} cannot be read")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is not the YAML or JSON of Kubernetes objects.
    #[error("{path}: {problem}")]
    Parse {
        /// Which file.
        path: String,
        /// What is wrong, with line and column where known.
        problem: String,
    },
    /// The hub does not know the kind.
    #[error("the hub has no resource type {0:?}: `tombolo api-resources` lists them")]
    UnknownType(String),
    /// The hub serves no templates.
    #[error(
        "the hub serves no templates: its API group shadow/v1alpha1 is missing; see that `tombolo hub` (or \
         clusternet-hub with its gate ShadowAPI) runs and that the APIService v1alpha1.shadow is Available"
    )]
    NoTemplates,
    /// There is no such cluster.
    #[error("no cluster is named {0:?}: `tombolo clusters` lists them")]
    UnknownCluster(String),
    /// Something that a command needs is not there (yet).
    #[error("{0}")]
    Missing(String),
    /// The hub refused, or cannot be reached.
    #[error("{doing}")]
    Hub {
        /// What was tried.
        doing: String,
        /// What the hub said.
        #[source]
        source: kubeio::Error,
    },
    /// What a command prints cannot be written.
    #[error("the output cannot be written")]
    Output(#[from] std::io::Error),
    /// `diff` found differences; exit code 1, nothing more to say.
    #[error("there are differences")]
    Differs,
}

impl Error {
    pub(crate) fn hub(doing: impl Into<String>) -> impl FnOnce(kubeio::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Hub { doing, source }
    }
}
