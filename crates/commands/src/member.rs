//! `exec`, `logs` and `port-forward`: kubectl's own, pointed at a member through the hub.

use std::io::Write;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use crate::kubeconfig::kubeconfig;
use crate::{Error, Hub};

/// Runs kubectl in a member: `verb` and what follows it are kubectl's words. Gives kubectl's exit code.
///
/// # Errors
/// [`Error`] if there is no way into the cluster, or no kubectl.
pub async fn in_member(
    hub: &Hub,
    cluster: &str,
    kubectl: &str,
    verb: &str,
    words: &KubectlWords,
) -> Result<u8, Error> {
    let mut text = Vec::new();
    kubeconfig(hub, cluster, &mut text).await?;
    // Only its owner can read it, and it is gone when kubectl has ended.
    let mut file = tempfile::Builder::new().prefix("tombolo-member-").tempfile()?;
    file.write_all(&text)?;
    file.flush()?;
    let mut command = Command::new(kubectl);
    command
        .arg("--kubeconfig")
        .arg(file.path())
        .arg(verb)
        .args(&words.0);
    run(command, kubectl).await
}

/// Lets kubectl make an object of a command line such as `deployment web --image nginx`, and gives it as JSON.
///
/// # Errors
/// [`Error`] if there is no kubectl, or it does not understand.
pub(crate) fn generate(kubectl: &str, words: &KubectlWords) -> Result<Vec<u8>, Error> {
    let mut command = Command::new(kubectl);
    command
        .arg("create")
        .args(&words.0)
        .args(["--dry-run=client", "--output=json"]);
    let output = command.output().map_err(|source| missing(kubectl, &source))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Error::Usage(
        complaint.trim().trim_start_matches("error: ").to_owned(),
    ))
}

/// Flags that say where to go: among kubectl's words they would lead past the hub that was meant.
const ELSEWHERE: [&str; 6] = [
    "--cluster",
    "--context",
    "--data-dir",
    "--kubeconfig",
    "--server",
    "--user",
];

/// What is handed over to kubectl: nothing that would lead it elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubectlWords(Vec<String>);

impl KubectlWords {
    /// Takes the words that follow `command` on a command line. What follows `--` among them is for a container.
    ///
    /// # Errors
    /// [`Error::Usage`] for flags that say where to go.
    pub fn parse(command: &str, words: Vec<String>) -> Result<Self, Error> {
        let flags = words.iter().take_while(|word| *word != "--");
        for word in flags {
            let name = word.split('=').next().unwrap_or_default();
            // kubectl's short form of --server takes its value with or without a space.
            let short = word.starts_with("-s").then_some("-s");
            if let Some(name) = short.or(Some(name).filter(|name| ELSEWHERE.contains(name))) {
                return Err(Error::Usage(format!(
                    "{name} stands among kubectl's words, where it does not say which hub is meant: name the hub \
                     before them, with --kubeconfig, --context or --data-dir, as in `tombolo {command} --kubeconfig \
                     FILE …`"
                )));
            }
        }
        Ok(Self(words))
    }
}

async fn run(mut command: Command, kubectl: &str) -> Result<u8, Error> {
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    let status = match ended {
        Ok(Ok(status)) => status,
        Ok(Err(source)) => return Err(missing(kubectl, &source)),
        Err(error) => return Err(Error::Missing(format!("kubectl was not waited for: {error}"))),
    };
    // Ended by a signal: as shells say it.
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn missing(kubectl: &str, source: &std::io::Error) -> Error {
    Error::Missing(format!(
        "{kubectl:?} cannot be started: {source}; install kubectl, or name it with --kubectl or TOMBOLO_KUBECTL"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectls_words_cannot_lead_elsewhere() {
        let words = |line: &str| line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        for line in [
            "deployment web --kubeconfig f",
            "web --kubeconfig=f -- ls",
            "--context x web",
            "web --data-dir d",
            "web -s https://elsewhere -- ls",
            "web -shttps://elsewhere",
            "web --user=x",
        ] {
            let error = KubectlWords::parse("create", words(line)).expect_err(line);
            let part = "as in `tombolo create --kubeconfig FILE …`";
            assert!(
                matches!(&error, Error::Usage(text) if text.contains(part)),
                "{line}: {error}"
            );
        }
        for line in ["deployment web --image nginx", "web -- tool --kubeconfig f"] {
            KubectlWords::parse("exec", words(line)).expect(line);
        }
    }

    #[test]
    fn without_kubectl_it_says_what_to_do() {
        let error = generate("no-such-kubectl", &KubectlWords::default()).expect_err("there is none");
        assert!(error.to_string().contains("--kubectl"), "{error}");
        let error = generate("false", &KubectlWords::default()).expect_err("it fails");
        assert!(matches!(error, Error::Usage(_)));
    }
}
