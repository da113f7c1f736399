//! A running `tombolo up`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Bench, Kubectl, Process, Suite, tombolo, wait_for};

/// The embedded control plane with its members, in a folder of its own.
#[derive(Debug)]
pub struct Up {
    /// Where its program and kubectl are.
    pub bench: Bench,
    /// Its folder, with room for the test's own files.
    pub folder: tempfile::TempDir,
    /// The process.
    pub process: Process,
    flags: Vec<String>,
    listen: String,
}

impl Up {
    /// Starts it with flags (with members, at least), and waits until they are ready, and with `--demo` the sample
    /// application.
    ///
    /// # Panics
    /// When it does not become ready.
    pub fn start(bench: &Bench, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let listen = "127.0.0.1:0".to_owned();
        let process = Self::launch(bench, folder.path(), &listen, &flags);
        let up = Self {
            bench: bench.clone(),
            folder,
            process,
            flags,
            listen,
        };
        up.wait_until_it_runs();
        up
    }

    fn launch(bench: &Bench, folder: &Path, listen: &str, flags: &[String]) -> Process {
        let mut command = tombolo(bench, &["up", "--listen", listen, "--data-dir"]);
        command.arg(folder.join("data")).args(flags);
        Process::start("up", &mut command, folder)
    }

    /// Stops it and starts it again with the same flags and data.
    ///
    /// # Panics
    /// When it does not end, or does not become ready again.
    pub fn restart(&mut self) {
        self.launch_again();
        self.wait_until_it_runs();
    }

    /// The same, but waits for a text of its own output.
    ///
    /// # Panics
    /// When it does not end, or never says that.
    pub fn restart_until(&mut self, text: &str) {
        self.launch_again();
        self.wait_until_it_says(text);
    }

    /// From now on it starts at the address that it has now, and with other flags.
    ///
    /// # Panics
    /// When its kubeconfig does not say where it is.
    pub fn stay_here(&mut self, flags: &[&str]) {
        let server = self
            .kubectl()
            .run("config view -o jsonpath={.clusters[0].cluster.server}");
        let address = server.trim().strip_prefix("https://");
        address.expect("an address").clone_into(&mut self.listen);
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Kills it, lets something happen to its folders meanwhile, and starts it again.
    ///
    /// # Panics
    /// When it does not become ready again.
    pub fn kill_and(&mut self, meanwhile: impl FnOnce(&Self)) {
        self.process.kill();
        meanwhile(self);
        self.process = Self::launch(&self.bench, self.folder.path(), &self.listen, &self.flags);
        self.wait_until_it_runs();
    }

    fn launch_again(&mut self) {
        self.process
            .stop(Duration::from_secs(10))
            .expect("it ends within ten seconds");
        self.process = Self::launch(&self.bench, self.folder.path(), &self.listen, &self.flags);
    }

    fn wait_until_it_runs(&self) {
        let demo = self.flags.iter().any(|flag| flag == "--demo");
        self.wait_until_it_says(if demo {
            "nginx runs in all of them"
        } else {
            "clusters, all ready"
        });
    }

    fn wait_until_it_says(&self, text: &str) {
        wait_for("everything is ready", Duration::from_secs(60), || {
            let output = self.process.output();
            if output.contains(text) {
                Ok(())
            } else {
                Err(output)
            }
        });
    }

    /// Where its data is.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A kubectl for its administrator.
    pub fn kubectl(&self) -> Kubectl {
        self.bench.kubectl(self.data().join("kubeconfig"))
    }

    /// Runs our own command line against it: its output, or its complaint.
    ///
    /// # Errors
    /// What it wrote to standard error when it failed.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn try_ours(&self, line: &[&str]) -> Result<String, String> {
        let (verb, rest) = line.split_first().expect("a command");
        let output = tombolo(&self.bench, &[verb])
            .env("TOMBOLO_KUBECTL", self.bench.realkube.join("bin/kubectl"))
            .arg("--data-dir")
            .arg(self.data())
            .args(rest)
            .output()
            .expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{line:?}: {}", text(&output.stderr)))
        }
    }

    /// Runs our own command line against it; it must succeed.
    ///
    /// # Panics
    /// When it fails, with what it said.
    pub fn ours(&self, line: &[&str]) -> String {
        self.try_ours(line)
            .unwrap_or_else(|complaint| panic!("{complaint}"))
    }

    /// What an application has to find here, in two members.
    ///
    /// # Panics
    /// When there is no way to them.
    pub fn suite(&self) -> Suite<'_> {
        Suite {
            admin: self.kubectl(),
            ours: Box::new(|line| self.try_ours(line)),
            clusters: ["member-1", "member-2"].map(|name| (name.to_owned(), self.member(name))),
            folder: self.folder.path().to_owned(),
        }
    }

    /// A kubectl that reaches a member through the hub.
    ///
    /// # Panics
    /// When there is no way to it within half a minute.
    pub fn member(&self, name: &str) -> Kubectl {
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        let text = wait_for("a kubeconfig through the hub", Duration::from_secs(30), || {
            self.try_ours(&["kubeconfig", name])
        });
        std::fs::write(&path, text).expect("a kubeconfig can be written");
        self.bench.kubectl(path)
    }
}
