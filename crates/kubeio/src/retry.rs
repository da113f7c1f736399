//! Asking until there is an answer.

use std::time::Duration;

use clock::{Backoff, Env};

use crate::{Client, Error};

/// The first pause after a failure.
const FIRST: Duration = Duration::from_secs(1);

/// Asks until there is something, for ever, with pauses that double from a second up to `longest`. `None` is no answer
/// yet; a failure is told (at debug level) as what is asked for `what`.
pub async fn until_answered<T, F>(what: &str, longest: Duration, env: &Env, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<Option<T>, Error>>,
{
    let mut backoff = Backoff::new(FIRST, longest);
    loop {
        match ask().await {
            Ok(Some(answer)) => return answer,
            Ok(None) => {}
            Err(error) => tracing::debug!(error = %runtime::Chain(&error), what, "no answer yet"),
        }
        tokio::time::sleep(backoff.next_delay(env.random_u64())).await;
    }
}

impl Client {
    /// The version of the server (`gitVersion`), asked until it answers; empty if it names none.
    pub async fn await_version(&self, longest: Duration, env: &Env) -> String {
        until_answered("the server's version", longest, env, || async {
            let version = self.get_path("/version").await?;
            Ok(Some(
                version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            ))
        })
        .await
    }
}
