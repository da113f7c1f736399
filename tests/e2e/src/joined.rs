//! An agent that joined as `join` prints it.

use std::path::PathBuf;

use crate::{Process, Up, tombolo};

/// The agent of the Deployment that `join` prints and that was applied in a control plane, as a process: its arguments,
/// its token, its files, its account.
///
/// # Panics
/// When nothing was applied, or it does not start.
pub fn joined_agent(up: &Up) -> Process {
    let (bench, kubectl, folder) = (&up.bench, up.kubectl(), up.folder.path());
    let get = |what: &str| {
        let object = kubectl.json(&format!("{what} -n clusternet-system"));
        object.unwrap_or_else(|complaint| panic!("{complaint}"))
    };
    let deployment = get("deployment clusternet-agent");
    let bootstrap = get("secret clusternet-agent-bootstrap");
    let text = |key: &str| api::secret::text(&bootstrap, key).expect("it is there");
    std::fs::write(folder.join("ca.crt"), text("ca.crt")).expect("a file can be written");
    let words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .expect("arguments");
    let words: Vec<String> = words
        .iter()
        .map(|word| {
            let word = word.as_str().expect("a text");
            word.replace("/var/run/tombolo", &folder.display().to_string())
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = tombolo(bench, &words);
    command
        .arg("--kubeconfig")
        .arg(account(up))
        .env("TOMBOLO_CLUSTER_REG_TOKEN", text("token"));
    Process::start("agent", &mut command, folder)
}

/// A kubeconfig of the account that the agent's pod has.
fn account(up: &Up) -> PathBuf {
    let path = up.folder.path().join("account.kubeconfig");
    std::fs::copy(up.data().join("kubeconfig"), &path).expect("a file can be copied");
    let token = up
        .kubectl()
        .run("create token clusternet-agent -n clusternet-system");
    let account = up.bench.kubectl(&path);
    account.run(&format!("config set-credentials agent --token={}", token.trim()));
    account.run("config set-context --current --user=agent");
    path
}
