//! A client from a file that somebody rewrites while the process runs, such as a kubeconfig whose certificate ends.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use crate::client::Client;
use crate::error::{BoxError, Error};
use crate::transport::Transport;

/// Between two looks at the file.
const LOOK_PERIOD: Duration = Duration::from_mins(1);

impl Client {
    /// A client from a kubeconfig's file (its current context). When the file changes, requests from the next minute
    /// on go by what it says then; one that cannot be used changes nothing. The name of the server stays.
    ///
    /// # Errors
    /// [`Error::Config`] for a file that cannot be used.
    pub async fn from_kubeconfig_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::Config(error.into()))?;
        let client = Self::from_kubeconfig(&text, None).await?;
        let (carriers, carrier) = watch::channel(client.transport());
        let path = path.to_owned();
        let load = |text: String| async move { Ok(Self::from_kubeconfig(&text, None).await?.transport()) };
        tokio::spawn(follow(path, text, carriers, load));
        Ok(client.over(Transport::latest(carrier)))
    }
}

/// Looks at a file until nobody uses what it says any more.
async fn follow<F, R>(path: PathBuf, mut text: String, carriers: watch::Sender<Transport>, load: F)
where
    F: Fn(String) -> R,
    R: Future<Output = Result<Transport, BoxError>>,
{
    loop {
        tokio::select! {
            biased;
            () = carriers.closed() => return,
            () = tokio::time::sleep(LOOK_PERIOD) => {}
        }
        let loaded = match std::fs::read_to_string(&path) {
            Ok(now) if now == text => continue,
            Ok(now) => load(now.clone()).await.map(|carrier| (now, carrier)),
            Err(error) => Err(error.into()),
        };
        match loaded {
            Ok((now, carrier)) => {
                tracing::info!(path = %path.display(), "kubeconfig changed, its credential is used from now on");
                carriers.send_replace(carrier);
                text = now;
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "kubeconfig changed to something that cannot be used");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::{Fake, json_answer};

    /// A carrier whose server answers with a text.
    fn saying(text: &str) -> Transport {
        let fake = Fake::default();
        for _ in 0..10 {
            fake.answer(json_answer(&json!({"says": text})));
        }
        fake.client().transport()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_by_what_the_file_says_last_and_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, "one").unwrap();
        let (carriers, carrier) = watch::channel(saying("one"));
        let load = |text: String| async move {
            if text == "junk" {
                return Err(BoxError::from("junk"));
            }
            Ok(saying(&text))
        };
        let following = tokio::spawn(follow(path.clone(), "one".to_owned(), carriers, load));
        let client = Fake::default().client().over(Transport::latest(carrier));
        for (text, expected) in [
            (Some("two"), "two"),
            (Some("junk"), "two"),
            (None, "two"),
            (Some("three"), "three"),
        ] {
            match text {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            tokio::time::sleep(LOOK_PERIOD * 2).await;
            assert_eq!(client.get_path("/x").await.unwrap()["says"], expected, "{text:?}");
        }
        drop(client);
        following.await.unwrap();
    }
}
