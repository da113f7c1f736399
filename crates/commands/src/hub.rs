//! Where the hub is.

use std::path::PathBuf;

use kubeio::{Client, Discovery};

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
    /// The kubeconfig's text.
    pub kubeconfig: String,
}

impl Hub {
    /// Reads the kubeconfig and makes a client; nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Hub`] for a kubeconfig that cannot be used.
    pub async fn connect(place: &Place) -> Result<Self, Error> {
        let path = place.find()?;
        let kubeconfig = std::fs::read_to_string(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let client = Client::from_kubeconfig(&kubeconfig, None)
            .await
            .map_err(Error::hub(format!(
                "the kubeconfig {} cannot be used",
                path.display()
            )))?;
        Ok(Self { client, kubeconfig })
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
}
