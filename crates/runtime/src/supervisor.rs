//! Named tasks that end together: the first that fails stops the others.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// A boxed error that can cross tasks.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// A named task that failed.
#[derive(Debug, thiserror::Error)]
#[error("{task} failed")]
pub struct TaskError {
    /// The task's name.
    pub task: String,
    #[source]
    source: BoxError,
}

/// Runs named tasks under one shutdown token.
#[derive(Debug)]
pub struct Supervisor {
    shutdown: CancellationToken,
    tasks: JoinSet<(String, Result<(), BoxError>)>,
}

impl Supervisor {
    /// A supervisor whose tasks stop when `shutdown` is cancelled.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            shutdown,
            tasks: JoinSet::new(),
        }
    }

    /// The token that tasks watch.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Starts a task. It should end soon after the token is cancelled.
    pub fn spawn<E, F>(&mut self, name: impl Into<String>, task: F)
    where
        E: Into<BoxError>,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let name = name.into();
        let span = tracing::info_span!("task", name = %name);
        self.tasks
            .spawn(async move { (name, task.await.map_err(Into::into)) }.instrument(span));
    }

    /// Waits until the token is cancelled or a task fails, then cancels the token and waits for the rest.
    ///
    /// # Errors
    /// The first task's failure. Tasks that are not done after `deadline` are dropped.
    pub async fn run(mut self, deadline: Duration) -> Result<(), TaskError> {
        let mut failure = None;
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => break,
                ended = self.tasks.join_next() => match ended {
                    Some(Ok((_, Ok(())))) => {}
                    Some(Ok((task, Err(source)))) => {
                        failure = Some(TaskError { task, source });
                        break;
                    }
                    Some(Err(error)) => {
                        failure = Some(TaskError { task: "a task".to_owned(), source: error.into() });
                        break;
                    }
                    None => self.shutdown.cancelled().await,
                },
            }
        }
        self.shutdown.cancel();
        let drained = tokio::time::timeout(deadline, async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Ok((task, Err(source))) = ended {
                    tracing::debug!(task, error = %Chain(&*source), "task ended with an error while stopping");
                }
            }
        });
        if drained.await.is_err() {
            tracing::warn!(
                deadline_ms = deadline.as_millis(),
                "tasks were dropped at the shutdown deadline"
            );
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Shows an error with its causes, `: ` between them.
pub struct Chain<'a>(pub &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_failure_stops_the_others() {
        let mut supervisor = Supervisor::new(CancellationToken::new());
        let shutdown = supervisor.shutdown().clone();
        supervisor.spawn("waits", async move {
            shutdown.cancelled().await;
            Ok::<(), BoxError>(())
        });
        supervisor.spawn("fails", async { Err::<(), BoxError>("no luck".into()) });
        let error = supervisor
            .run(Duration::from_secs(1))
            .await
            .expect_err("one task fails");
        assert_eq!(Chain(&error).to_string(), "fails failed: no luck");
    }

    #[tokio::test]
    async fn a_cancelled_token_ends_it_well() {
        let mut supervisor = Supervisor::new(CancellationToken::new());
        let shutdown = supervisor.shutdown().clone();
        shutdown.cancel();
        supervisor.spawn("waits", async move {
            shutdown.cancelled().await;
            Ok::<(), BoxError>(())
        });
        supervisor
            .run(Duration::from_secs(1))
            .await
            .expect("nothing failed");
    }
}
