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
    /// What a command was to follow came to a bad end.
    #[error("{0}")]
    Failed(String),
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
    /// More than one object failed; each is told of in a line of its own.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
    /// `diff` found differences; exit code 1, nothing more to say.
    #[error("there are differences")]
    Differs,
}

/// One line for each error, with all its causes; the first is left for the caller to begin.
fn lines(errors: &[Error]) -> String {
    let line = |error: &Error| runtime::Chain(error).to_string();
    errors.iter().map(line).collect::<Vec<_>>().join("\nerror: ")
}

/// What failed while a command went through many objects: as with kubectl, one that fails holds up no other.
#[derive(Default)]
pub(crate) struct Failures(Vec<Error>);

impl Failures {
    /// Takes what became of one object.
    ///
    /// # Errors
    /// [`Error::Output`]: where nobody reads the output there is no use in going on.
    pub(crate) fn take(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        match outcome {
            Ok(()) => {}
            Err(error @ Error::Output(_)) => return Err(error),
            Err(error) => self.0.push(error),
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What became of all.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(Error::Several(self.0)),
        }
    }
}

impl Error {
    pub(crate) fn hub(doing: impl Into<String>) -> impl FnOnce(kubeio::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Hub { doing, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_holds_up_no_other_and_is_told_of() {
        let missing = |name: &str| Err(Error::Missing(format!("{name} is not there")));
        let mut failures = Failures::default();
        for outcome in [missing("a"), Ok(()), missing("b")] {
            failures.take(outcome).expect("it goes on");
        }
        let told = failures.end().expect_err("two failed").to_string();
        assert_eq!(told, "a is not there\nerror: b is not there");

        let mut failures = Failures::default();
        failures.take(missing("a")).expect("it goes on");
        assert_eq!(
            failures.end().expect_err("one failed").to_string(),
            "a is not there"
        );
        Failures::default().end().expect("nothing failed");
    }

    #[test]
    fn nothing_goes_on_for_nobody() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let outcome = Failures::default().take(Err(Error::Output(closed)));
        assert!(matches!(outcome, Err(Error::Output(_))));
    }
}
