//! Where the hub is.

use std::path::PathBuf;

use kubeio::{Choice, Client, Discovery, Kubeconfig};

use crate::Error;
use crate::scope::{Namespaces, Scope};

/// What the command line and the environment say about the hub.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// `--kubeconfig`, one file.
    pub kubeconfig: Option<PathBuf>,
    /// `--data-dir`, whose kubeconfig is meant.
    pub data_dir: Option<PathBuf>,
    /// `$KUBECONFIG`, a list of files that are read as one.
    pub environment: Option<String>,
    /// `$HOME`, where kubectl's own kubeconfig is.
    pub home: Option<PathBuf>,
    /// `--context`, `--user`.
    pub choice: Choice,
}

impl Place {
    /// The kubeconfigs to read as one: the flag's, the data folder's, the environment's, `.tombolo/kubeconfig`,
    /// kubectl's own.
    ///
    /// # Errors
    /// [`Error::NoHub`] if none is named and the last two are not there.
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        if let Some(path) = &self.kubeconfig {
            return Ok(vec![path.clone()]);
        }
        if let Some(folder) = &self.data_dir {
            return Ok(vec![folder.join("kubeconfig")]);
        }
        let list = self.environment.as_deref().unwrap_or_default();
        let files: Vec<PathBuf> = std::env::split_paths(list)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        if !files.is_empty() {
            return Ok(files);
        }
        let of_kubectl = self.home.as_ref().map(|home| home.join(".kube/config"));
        let usual = [Some(PathBuf::from(".tombolo/kubeconfig")), of_kubectl];
        let found = usual.into_iter().flatten().find(|path| path.is_file());
        found.map(|path| vec![path]).ok_or(Error::NoHub)
    }
}

/// A hub that answers.
#[derive(Debug, Clone)]
pub struct Hub {
    /// A client of the hub's cluster.
    pub client: Client,
    pub(crate) scope: Scope,
    pub(crate) door: Door,
}

/// Where a hub is, as a kubeconfig says.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    /// Its URL, without a slash at the end.
    pub(crate) server: String,
    /// Its certificate authority (PEM), if the kubeconfig names one.
    pub(crate) authority: Option<Vec<u8>>,
}

impl Hub {
    /// Reads the kubeconfig and makes a client; nothing is asked yet. `namespaces` says which are meant.
    ///
    /// # Errors
    /// [`Error::NoHub`], and [`Error::Hub`] for a kubeconfig that cannot be used.
    pub async fn connect(place: &Place, namespaces: Namespaces) -> Result<Self, Error> {
        let files = place.files()?;
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        let failed = || Error::hub(format!("the kubeconfig {} cannot be used", names.join(":")));
        let kubeconfig = Kubeconfig::read(&files).map_err(failed())?;
        let target = kubeconfig.choose(&place.choice).await.map_err(failed())?;
        Ok(Self {
            client: target.client,
            scope: Scope::new(namespaces, target.namespace),
            door: Door {
                server: target.server.trim_end_matches('/').to_owned(),
                authority: target.authority,
            },
        })
    }

    pub(crate) async fn discover(&self) -> Result<Discovery, Error> {
        self.client
            .discover()
            .await
            .map_err(Error::hub("the hub does not say what it serves"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_the_flag_then_the_folder_then_the_environment() {
        let files = |place: &Place| {
            let files = place.files().expect("named");
            files
                .iter()
                .map(|file| file.display().to_string())
                .collect::<Vec<_>>()
        };
        let all = Place {
            kubeconfig: Some("a:b".into()),
            data_dir: Some("b".into()),
            environment: Some(":c::d".into()),
            ..Place::default()
        };
        assert_eq!(files(&all), ["a:b"], "one file, whatever its name");
        let folder = Place {
            kubeconfig: None,
            ..all
        };
        assert_eq!(files(&folder), ["b/kubeconfig"]);
        let environment = Place {
            data_dir: None,
            ..folder
        };
        assert_eq!(files(&environment), ["c", "d"]);
        let home = tempfile::tempdir().expect("a folder");
        let of_kubectl = home.path().join(".kube/config");
        std::fs::create_dir(home.path().join(".kube")).expect("a folder");
        std::fs::write(&of_kubectl, "").expect("a file");
        let kubectl = Place {
            environment: Some(":".into()),
            home: Some(home.path().to_owned()),
            ..Place::default()
        };
        assert_eq!(files(&kubectl), [of_kubectl.display().to_string()]);
    }

    #[tokio::test]
    async fn a_hub_is_what_the_context_says_and_paths_are_meant_from_the_kubeconfigs_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        let text = "
            current-context: here
            contexts:
            - {name: there, context: {cluster: a, user: u}}
            - {name: here, context: {cluster: b, user: u, namespace: shop}}
            clusters:
            - {name: a, cluster: {server: 'http://a'}}
            - {name: b, cluster: {server: 'http://b/', certificate-authority: keys/ca}}
            users: [{name: u, user: {}}]";
        std::fs::write(&path, text).expect("a file");
        std::fs::create_dir(folder.path().join("keys")).expect("a folder");
        let pem = rcgen::generate_simple_self_signed(["b".to_owned()])
            .expect("a certificate")
            .cert
            .pem();
        std::fs::write(folder.path().join("keys/ca"), &pem).expect("a file");
        let mut place = Place {
            kubeconfig: Some(path),
            ..Place::default()
        };
        let hub = Hub::connect(&place, Namespaces::Usual)
            .await
            .expect("it can be used");
        assert_eq!(hub.door.server, "http://b");
        assert_eq!(hub.door.authority, Some(pem.into_bytes()));
        assert_eq!(hub.scope, Scope::new(Namespaces::Usual, "shop".into()));
        place.choice.context = Some("there".into());
        let hub = Hub::connect(&place, Namespaces::Usual)
            .await
            .expect("it can be used");
        assert_eq!(hub.door.server, "http://a");
        assert_eq!(hub.door.authority, None);
        assert_eq!(hub.scope, Scope::new(Namespaces::Usual, "default".into()));
    }
}
