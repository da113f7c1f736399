//! A client from a file that somebody rewrites while the process runs, such as a kubeconfig whose certificate ends.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::Kubeconfig as Parsed;
use tokio::sync::watch;

use crate::client::Client;
use crate::error::{BoxError, Error};
use crate::kubeconfig::{Choice, Kubeconfig};
use crate::transport::Transport;

/// Between two looks at the files.
const LOOK_PERIOD: Duration = Duration::from_mins(1);

impl Client {
    /// A client from a kubeconfig's file (its current context), whose paths are meant from its folder. When the file
    /// or a certificate or key that it names changes, requests from the next minute on go by what they say then; what
    /// cannot be used changes nothing. The name of the server stays.
    ///
    /// # Errors
    /// [`Error::Config`] for a file that cannot be used.
    pub async fn from_kubeconfig_file(path: &Path) -> Result<Self, Error> {
        let seen = look(path).map_err(Error::Config)?;
        let client = load(path.to_owned()).await?;
        let (carriers, carrier) = watch::channel(client.transport());
        let load = |path| async { Ok(load(path).await?.transport()) };
        tokio::spawn(follow(path.to_owned(), seen, carriers, load));
        Ok(client.over(Transport::latest(carrier)))
    }
}

async fn load(path: PathBuf) -> Result<Client, Error> {
    let kubeconfig = Kubeconfig::read(&[path])?;
    Ok(kubeconfig.choose(&Choice::default()).await?.client)
}

/// What is in a kubeconfig's file, and in those that it names. Files with tokens are left to the client below.
fn look(path: &Path) -> Result<Vec<Vec<u8>>, BoxError> {
    let mut seen = vec![std::fs::read(path)?];
    let config = Parsed::read_from(path).unwrap_or_default();
    let clusters = config.clusters.iter().flat_map(|named| &named.cluster);
    let users = config.auth_infos.iter().flat_map(|named| &named.auth_info);
    let named = clusters
        .flat_map(|cluster| &cluster.certificate_authority)
        .chain(users.flat_map(|user| user.client_certificate.iter().chain(&user.client_key)));
    // One that is not there may be another context's.
    seen.extend(named.map(|file| std::fs::read(file).unwrap_or_default()));
    Ok(seen)
}

/// Looks at files until nobody uses what they say any more.
async fn follow<F, R>(path: PathBuf, mut seen: Vec<Vec<u8>>, carriers: watch::Sender<Transport>, load: F)
where
    F: Fn(PathBuf) -> R,
    R: Future<Output = Result<Transport, BoxError>>,
{
    loop {
        tokio::select! {
            biased;
            () = carriers.closed() => return,
            () = tokio::time::sleep(LOOK_PERIOD) => {}
        }
        let loaded = match look(&path) {
            Ok(now) if now == seen => continue,
            Ok(now) => load(path.clone()).await.map(|carrier| (now, carrier)),
            Err(error) => Err(error),
        };
        match loaded {
            Ok((now, carrier)) => {
                tracing::info!(path = %path.display(), "kubeconfig changed, its credential is used from now on");
                carriers.send_replace(carrier);
                seen = now;
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

    #[tokio::test]
    async fn the_files_that_a_kubeconfig_names_are_looked_for_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let config = json!({
            "clusters": [
                {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}},
                {"name": "d", "cluster": {"server": "https://127.0.0.1:2", "certificate-authority": "keys/ca"}},
            ],
            "users": [
                {"name": "u", "user": {"tokenFile": "token"}},
                {"name": "v", "user": {"client-certificate": "crt", "client-key": "key"}},
            ],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        write("kubeconfig", &config.to_string());
        write("token", "secret");
        std::fs::create_dir(folder.path().join("keys")).unwrap();
        Client::from_kubeconfig_file(&path).await.unwrap();
        let mut seen = look(&path).unwrap();
        for (name, is_news) in [
            ("keys/ca", true),
            ("crt", true),
            ("key", true),
            ("token", false),
            ("other", false),
        ] {
            write(name, "new");
            let now = look(&path).unwrap();
            assert_eq!(now != seen, is_news, "{name}");
            seen = now;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_by_what_the_file_says_last_and_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, "one").unwrap();
        let (carriers, carrier) = watch::channel(saying("one"));
        let load = |path: PathBuf| async move {
            let text = std::fs::read_to_string(path)?;
            if text == "junk" {
                return Err(BoxError::from("junk"));
            }
            Ok(saying(&text))
        };
        let seen = look(&path).unwrap();
        let following = tokio::spawn(follow(path.clone(), seen, carriers, load));
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
