//! Where the hub is.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubeio::{Client, Discovery};
use serde_json::Value;

use crate::Error;

/// What the command line and the environment say about the hub.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--data-dir`, whose kubeconfig is meant.
    pub data_dir: Option<PathBuf>,
    /// `$KUBECONFIG`; only its first file counts.
    pub environment: Option<String>,
    /// `$HOME`, where kubectl's own kubeconfig is.
    pub home: Option<PathBuf>,
}

impl Place {
    /// The kubeconfig to use: the flag, the data folder's, the environment's, `.tombolo/kubeconfig`, kubectl's own.
    ///
    /// # Errors
    /// [`Error::NoHub`] if none is named and the last two are not there.
    pub fn find(&self) -> Result<PathBuf, Error> {
        if let Some(path) = &self.kubeconfig {
            return Ok(path.clone());
        }
        if let Some(folder) = &self.data_dir {
            return Ok(folder.join("kubeconfig"));
        }
        let first = self
            .environment
            .as_deref()
            .and_then(|list| list.split(':').find(|path| !path.is_empty()));
        if let Some(path) = first {
            return Ok(path.into());
        }
        let of_kubectl = self.home.as_ref().map(|home| home.join(".kube/config"));
        let usual = [Some(PathBuf::from(".tombolo/kubeconfig")), of_kubectl];
        usual
            .into_iter()
            .flatten()
            .find(|path| path.is_file())
            .ok_or(Error::NoHub)
    }
}

/// A hub that answers.
#[derive(Debug, Clone)]
pub struct Hub {
    /// A client of the hub's cluster.
    pub client: Client,
    kubeconfig: Value,
    /// What the kubeconfig's paths are meant from.
    folder: PathBuf,
}

/// Where a hub is, as a kubeconfig says.
pub(crate) struct Door {
    /// Its URL, without a slash at the end.
    pub(crate) server: String,
    /// Its certificate authority (PEM), if the kubeconfig names one.
    pub(crate) authority: Option<Vec<u8>>,
}

impl Hub {
    /// Reads the kubeconfig and makes a client; nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Hub`] for a kubeconfig that cannot be used.
    pub async fn connect(place: &Place) -> Result<Self, Error> {
        let path = place.find()?;
        let text = std::fs::read_to_string(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let kubeconfig = codec::yaml::parse_one(&text).map_err(|error| Error::Parse {
            path: path.display().to_string(),
            problem: error.to_string(),
        })?;
        let client = Client::from_kubeconfig_file(&path)
            .await
            .map_err(Error::hub(format!(
                "the kubeconfig {} cannot be used",
                path.display()
            )))?;
        Ok(Self {
            client,
            kubeconfig,
            folder: path.parent().map(ToOwned::to_owned).unwrap_or_default(),
        })
    }

    /// The cluster of the kubeconfig's current context.
    pub(crate) fn door(&self) -> Result<Door, Error> {
        let by_name = |list: &str, name: &Value| -> Value {
            let entries = self.kubeconfig[list].as_array();
            let found = entries.into_iter().flatten().find(|entry| entry["name"] == *name);
            found.cloned().unwrap_or_default()
        };
        let context = by_name("contexts", &self.kubeconfig["current-context"]);
        let cluster = &by_name("clusters", &context["context"]["cluster"])["cluster"];
        let text = |field: &str| cluster[field].as_str();
        let authority = match (text("certificate-authority-data"), text("certificate-authority")) {
            (Some(data), _) => Some(STANDARD.decode(data).map_err(|error| {
                Error::Missing(format!(
                    "the hub's kubeconfig has a certificate-authority-data that is no base64: {error}"
                ))
            })?),
            (None, Some(file)) => {
                let path = self.folder.join(file);
                let pem = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
                Some(pem)
            }
            (None, None) => None,
        };
        Ok(Door {
            server: text("server")
                .unwrap_or_default()
                .trim_end_matches('/')
                .to_owned(),
            authority,
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
        let all = Place {
            kubeconfig: Some("a".into()),
            data_dir: Some("b".into()),
            environment: Some(":c:d".into()),
            home: None,
        };
        assert_eq!(all.find().expect("named"), PathBuf::from("a"));
        let folder = Place {
            kubeconfig: None,
            ..all
        };
        assert_eq!(folder.find().expect("named"), PathBuf::from("b/kubeconfig"));
        let environment = Place {
            data_dir: None,
            ..folder
        };
        assert_eq!(environment.find().expect("named"), PathBuf::from("c"));
        let home = tempfile::tempdir().expect("a folder");
        let of_kubectl = home.path().join(".kube/config");
        std::fs::create_dir(home.path().join(".kube")).expect("a folder");
        std::fs::write(&of_kubectl, "").expect("a file");
        let kubectl = Place {
            home: Some(home.path().to_owned()),
            ..Place::default()
        };
        assert_eq!(kubectl.find().expect("it is there"), of_kubectl);
    }

    #[tokio::test]
    async fn the_door_is_the_current_contexts_and_paths_are_meant_from_the_kubeconfigs_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        let text = "
            current-context: here
            contexts:
            - {name: there, context: {cluster: a, user: u}}
            - {name: here, context: {cluster: b, user: u}}
            clusters:
            - {name: a, cluster: {server: 'http://a', certificate-authority-data: bm8=}}
            - {name: b, cluster: {server: 'http://b/', certificate-authority: keys/ca}}
            users: [{name: u, user: {}}]";
        std::fs::write(&path, text).expect("a file");
        std::fs::create_dir(folder.path().join("keys")).expect("a folder");
        let pem = rcgen::generate_simple_self_signed(["b".to_owned()])
            .expect("a certificate")
            .cert
            .pem();
        std::fs::write(folder.path().join("keys/ca"), &pem).expect("a file");
        let place = Place {
            kubeconfig: Some(path),
            ..Place::default()
        };
        let hub = Hub::connect(&place).await.expect("it can be used");
        let door = hub.door().expect("it is there");
        assert_eq!(door.server, "http://b");
        assert_eq!(door.authority, Some(pem.into_bytes()));
    }
}
