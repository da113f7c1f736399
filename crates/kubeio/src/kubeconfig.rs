//! Kubeconfigs as kubectl reads them: several files as one, a context chosen from what they hold. What changes in a
//! file later is `reload`'s business.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{Cluster, Context, KubeConfigOptions};

use crate::client::Client;
use crate::error::{BoxError, Error};

/// The namespace of a context that names none.
const USUAL_NAMESPACE: &str = "default";

/// One or more kubeconfig files, read as one.
#[derive(Debug, Clone)]
pub struct Kubeconfig(pub(crate) kube::config::Kubeconfig);

/// What of a kubeconfig is to be used, where it is not what its current context says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// The context.
    pub context: Option<String>,
    /// The user, in place of the context's.
    pub user: Option<String>,
}

/// What a context of a kubeconfig says.
#[derive(Debug, Clone)]
pub struct Target {
    /// A client of its cluster.
    pub client: Client,
    /// The namespace of what names none.
    pub namespace: String,
    /// The cluster's URL, as it is written.
    pub server: String,
    /// The cluster's certificate authority (PEM), if it names one.
    pub authority: Option<Vec<u8>>,
}

impl Kubeconfig {
    /// Reads files as one: the first to set a value, or to hold an entry of a name, wins, and paths are meant from the
    /// folder of the file that they stand in. Of several, those that are not there are passed over
    /// (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/>).
    ///
    /// # Errors
    /// [`Error::Config`] for a file that cannot be read or understood, or if none is there.
    pub fn read(files: &[PathBuf]) -> Result<Self, Error> {
        let mut merged: Option<kube::config::Kubeconfig> = None;
        let mut missing = None;
        for file in files {
            let of_file = |problem: &dyn Display| unusable(format!("{}: {problem}", file.display()));
            let bytes = match std::fs::read(file) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing = missing.or(Some(file));
                    continue;
                }
                Err(error) => return Err(of_file(&error)),
            };
            let read =
                parse(&bytes, file.parent().unwrap_or(Path::new(""))).map_err(|error| of_file(&error))?;
            merged = Some(match merged {
                None => read,
                Some(before) => before.merge(read).map_err(|error| of_file(&error))?,
            });
        }
        merged.map(Self).ok_or_else(|| match missing {
            Some(file) if files.len() == 1 => unusable(format!("{} is not there", file.display())),
            _ => unusable("none of its files is there"),
        })
    }

    /// What a choice leads to; nothing is asked of the cluster yet.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such context or user, or what it says cannot be used.
    pub async fn choose(&self, choice: &Choice) -> Result<Target, Error> {
        let context = self.context(choice)?;
        let cluster = self.cluster(context)?;
        if let Some(user) = &choice.user
            && !self.0.auth_infos.iter().any(|entry| entry.name == *user)
        {
            let known = self.0.auth_infos.iter().map(|entry| entry.name.as_str());
            return Err(unknown("user", user, known));
        }
        let options = KubeConfigOptions {
            context: choice.context.clone(),
            cluster: None,
            user: choice.user.clone(),
        };
        let config = kube::Config::from_custom_kubeconfig(self.0.clone(), &options).await;
        let namespace = context.namespace.as_deref().filter(|name| !name.is_empty());
        Ok(Target {
            client: Client::from_config(config.map_err(|error| Error::Config(error.into()))?)?,
            namespace: namespace.unwrap_or(USUAL_NAMESPACE).to_owned(),
            server: cluster.server.clone().unwrap_or_default(),
            authority: authority(cluster)?,
        })
    }

    pub(crate) fn context(&self, choice: &Choice) -> Result<&Context, Error> {
        let known = || self.0.contexts.iter().map(|entry| entry.name.as_str());
        let chosen = choice.context.as_ref().or(self.0.current_context.as_ref());
        let name = chosen.ok_or_else(|| {
            let known = listed(known());
            unusable(format!(
                "it has no current-context: name one of its contexts ({known})"
            ))
        })?;
        let found = self.0.contexts.iter().find(|entry| entry.name == *name);
        let found = found.and_then(|entry| entry.context.as_ref());
        found.ok_or_else(|| unknown("context", name, known()))
    }

    pub(crate) fn cluster(&self, context: &Context) -> Result<&Cluster, Error> {
        let name = &context.cluster;
        let found = self.0.clusters.iter().find(|entry| entry.name == *name);
        let found = found.and_then(|entry| entry.cluster.as_ref());
        found.ok_or_else(|| {
            let known = self.0.clusters.iter().map(|entry| entry.name.as_str());
            unknown("cluster", name, known)
        })
    }
}

/// One file's text. Paths in it are meant from its folder.
pub(crate) fn parse(bytes: &[u8], folder: &Path) -> Result<kube::config::Kubeconfig, BoxError> {
    let mut read = kube::config::Kubeconfig::from_yaml(&text(bytes)?)?;
    read.current_context = read.current_context.filter(|name| !name.is_empty());
    let absolute = |path: &mut Option<String>| {
        if let Some(path) = path
            && let Some(joined) = folder.join(&path).to_str()
        {
            joined.clone_into(path);
        }
    };
    for cluster in read
        .clusters
        .iter_mut()
        .filter_map(|entry| entry.cluster.as_mut())
    {
        absolute(&mut cluster.certificate_authority);
    }
    for user in read
        .auth_infos
        .iter_mut()
        .filter_map(|entry| entry.auth_info.as_mut())
    {
        absolute(&mut user.client_certificate);
        absolute(&mut user.client_key);
        absolute(&mut user.token_file);
        // A bare name is looked for among the programs of the system.
        if let Some(exec) = &mut user.exec
            && exec
                .command
                .as_ref()
                .is_some_and(|command| command.contains(MAIN_SEPARATOR))
        {
            absolute(&mut exec.command);
        }
    }
    Ok(read)
}

/// UTF-8, or UTF-16 behind a byte order mark, as editors on Windows save it.
fn text(bytes: &[u8]) -> Result<String, BoxError> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0xef, 0xbb, 0xbf, rest @ ..] => return Ok(str::from_utf8(rest)?.to_owned()),
        _ => return Ok(str::from_utf8(bytes)?.to_owned()),
    };
    let (units, []) = bytes[2..].as_chunks() else {
        return Err("it ends within a character of UTF-16".into());
    };
    let units: Vec<u16> = units.iter().copied().map(unit).collect();
    Ok(String::from_utf16(&units)?)
}

fn authority(cluster: &Cluster) -> Result<Option<Vec<u8>>, Error> {
    if let Some(data) = &cluster.certificate_authority_data {
        let decoded = STANDARD.decode(data);
        return decoded.map(Some).map_err(|error| {
            unusable(format!(
                "it has a certificate-authority-data that is no base64: {error}"
            ))
        });
    }
    let Some(file) = &cluster.certificate_authority else {
        return Ok(None);
    };
    let read = std::fs::read(file);
    read.map(Some)
        .map_err(|error| unusable(format!("the certificate-authority {file}: {error}")))
}

fn unusable(problem: impl Into<BoxError>) -> Error {
    Error::Config(problem.into())
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known = listed(known);
    unusable(format!("there is no {what} {name:?}; there are: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "
        contexts:
        - {name: here, context: {cluster: a, user: u, namespace: shop}}
        clusters: [{name: a, cluster: {server: 'http://one:1/'}}]
        users: [{name: u, user: {token: one}}]";
    const TWO: &str = "
        current-context: here
        contexts:
        - {name: here, context: {cluster: b, user: u, namespace: other}}
        - {name: there, context: {cluster: b, user: u}}
        clusters:
        - {name: a, cluster: {server: 'http://two:1', certificate-authority-data: bm8=}}
        - {name: b, cluster: {server: 'http://two:2', certificate-authority: keys/ca}}
        users: [{name: v, user: {token: two}}]";

    fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Server and namespace, or what is wrong.
    async fn choose(files: &[PathBuf], context: Option<&str>) -> Result<String, String> {
        let choice = Choice {
            context: context.map(ToOwned::to_owned),
            user: None,
        };
        let told = |error: Error| std::error::Error::source(&error).unwrap().to_string();
        let chosen = Kubeconfig::read(files).map_err(told)?.choose(&choice).await;
        chosen
            .map(|target| format!("{} {}", target.server, target.namespace))
            .map_err(told)
    }

    #[tokio::test]
    async fn files_are_read_as_one_and_the_first_to_set_something_wins() {
        let folder = tempfile::tempdir().unwrap();
        let one = write(folder.path(), "one/config", ONE);
        let two = write(folder.path(), "two/config", TWO);
        write(folder.path(), "two/keys/ca", "# No certificate.\n");
        let empty = write(folder.path(), "empty", "");
        let blank = write(
            folder.path(),
            "blank",
            "current-context: ''\ncontexts: null\nclusters: null",
        );
        let gone = folder.path().join("gone");
        let list = |files: &[&PathBuf]| files.iter().copied().cloned().collect::<Vec<_>>();

        let both = list(&[&gone, &blank, &empty, &one, &two]);
        assert_eq!(choose(&both, None).await.unwrap(), "http://one:1/ shop");
        assert_eq!(
            choose(&both, Some("there")).await.unwrap(),
            "http://two:2 default",
            "the path of its authority is meant from its own folder"
        );
        let turned = list(&[&two, &one]);
        assert_eq!(choose(&turned, None).await.unwrap(), "http://two:2 other");
        let alone = list(&[&one]);
        for (files, context, complaint) in [
            (
                &alone,
                None,
                "it has no current-context: name one of its contexts (\"here\")",
            ),
            (
                &alone,
                Some("there"),
                "there is no context \"there\"; there are: \"here\"",
            ),
            (&list(&[&gone, &gone]), None, "none of its files is there"),
            (&list(&[&gone]), None, &format!("{} is not there", gone.display())),
            (
                &list(&[&empty]),
                Some("x"),
                "there is no context \"x\"; there are: none",
            ),
        ] {
            assert_eq!(choose(files, context).await.unwrap_err(), complaint);
        }
    }

    #[tokio::test]
    async fn a_file_of_the_list_that_makes_no_sense_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let one = write(folder.path(), "one", ONE);
        let odd = write(folder.path(), "odd", "contexts: 7");
        let complaint = choose(&[one, odd.clone()], None).await.unwrap_err();
        assert!(complaint.starts_with(&odd.display().to_string()), "{complaint}");
    }

    #[test]
    fn what_editors_put_before_a_text_is_no_part_of_it() {
        let unit = |unit: u16| unit.to_be_bytes();
        let wide = |order: fn([u8; 2]) -> [u8; 2]| -> Vec<u8> {
            std::iter::once(0xfeff)
                .chain("kind: Config".encode_utf16())
                .flat_map(|one| order(unit(one)))
                .collect()
        };
        let (big, little) = (wide(|pair| pair), wide(|[high, low]| [low, high]));
        for bytes in [&b"kind: Config"[..], b"\xef\xbb\xbfkind: Config", &big, &little] {
            assert_eq!(text(bytes).unwrap(), "kind: Config");
        }
        for (bytes, complaint) in [
            (&big[..big.len() - 1], "it ends within a character of UTF-16"),
            (b"\xff\xfe\x00", "it ends within a character of UTF-16"),
            (b"\xfe\xff\xd8\x00", "invalid utf-16: lone surrogate found"),
            (b"\xff", "invalid utf-8 sequence of 1 bytes from index 0"),
        ] {
            assert_eq!(text(bytes).unwrap_err().to_string(), complaint);
        }
    }

    #[tokio::test]
    async fn a_user_is_chosen_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = [write(folder.path(), "one", ONE), write(folder.path(), "two", TWO)];
        let kubeconfig = Kubeconfig::read(&files).unwrap();
        let choice = |user: &str| Choice {
            context: Some("here".into()),
            user: Some(user.into()),
        };
        kubeconfig.choose(&choice("v")).await.unwrap();
        let complaint = kubeconfig.choose(&choice("w")).await.unwrap_err();
        let complaint = std::error::Error::source(&complaint).unwrap().to_string();
        assert_eq!(complaint, "there is no user \"w\"; there are: \"u\", \"v\"");
    }
}
