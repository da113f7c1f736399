//! Real control planes, through the scripts in `tests/realkube`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Bench, Kubectl};

/// A running control plane: etcd, kube-apiserver and what else was asked for. Dropping it ends it and its data.
#[derive(Debug)]
pub struct ControlPlane {
    bench: Bench,
    name: String,
    port: u16,
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/e2e lies in tests")
        .join("realkube")
}

impl ControlPlane {
    /// Starts one with fresh data. `parts` besides etcd: `api kcm scheduler kwok`. It takes ports `port` to
    /// `port + 5` on loopback.
    ///
    /// # Panics
    /// When it does not become ready.
    pub fn start(bench: &Bench, name: &str, port: u16, parts: &str) -> Self {
        let plane = Self {
            bench: bench.clone(),
            name: name.to_owned(),
            port,
        };
        plane.script("down", parts);
        plane.script("up", parts);
        plane
    }

    fn script(&self, verb: &str, parts: &str) {
        let status = Command::new("bash")
            .arg(scripts().join("control-plane.sh"))
            .args([verb, &self.name, &self.port.to_string()])
            .arg(&self.bench.realkube)
            .env("PARTS", parts)
            .env("PURGE", "1")
            // Aggregated APIs are reached by the Service's name: the hub under test runs outside the cluster, behind a
            // Service of type ExternalName, which endpoint routing refuses.
            .env("API_FLAGS", "--enable-aggregator-routing=false")
            .status()
            .expect("bash starts");
        assert!(status.success(), "control-plane.sh {verb} {} failed", self.name);
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.bench
            .realkube
            .join("cp")
            .join(&self.name)
            .join("admin.kubeconfig")
    }

    /// A kubectl for its administrator.
    pub fn kubectl(&self) -> Kubectl {
        self.bench.kubectl(self.kubeconfig())
    }

    /// The address of its API server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Its certificate authority, as PEM.
    pub fn ca(&self) -> PathBuf {
        self.bench.realkube.join("cp").join(&self.name).join("pki/ca.crt")
    }

    /// Adds ready nodes that kwok runs.
    ///
    /// # Panics
    /// When that fails.
    pub fn add_nodes(&self, count: usize) {
        let status = Command::new("bash")
            .arg(scripts().join("fake-nodes.sh"))
            .arg(count.to_string())
            .arg(self.kubeconfig())
            .arg(self.bench.realkube.join("bin/kubectl"))
            .status()
            .expect("bash starts");
        assert!(status.success(), "fake-nodes.sh failed");
    }

    /// Writes a kubeconfig that acts as a service account of this cluster, by a token that lasts an hour.
    ///
    /// # Panics
    /// When no token can be had.
    pub fn service_account_kubeconfig(&self, namespace: &str, account: &str, folder: &Path) -> PathBuf {
        let token = self
            .kubectl()
            .run(&format!("-n {namespace} create token {account} --duration=1h"));
        let path = folder.join(format!("{}-{account}.kubeconfig", self.name));
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"{}\", \
             certificate-authority: \"{}\"}}}}]\nusers: [{{name: u, user: {{token: \"{}\"}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n",
            self.url(),
            self.ca().display(),
            token.trim(),
        );
        std::fs::write(&path, text).expect("a kubeconfig can be written");
        path
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.script("down", "");
    }
}
