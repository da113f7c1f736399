//! A real Kubernetes for the end-to-end tests and the bench, built from Go modules.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// What the tests run.
const BINARIES: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
];

/// Where the binaries and the state of the tests lie.
pub(crate) fn directory() -> PathBuf {
    std::env::var_os("TOMBOLO_REALKUBE")
        .map_or_else(|| shell::root().join("target").join("realkube"), PathBuf::from)
}

/// Builds what is missing or outdated. With a warm Go build cache this only links.
pub(crate) fn build(directory: &Path) -> anyhow::Result<()> {
    let script = shell::root().join("tests/realkube/build.sh");
    shell::run(Command::new("bash").arg(script).arg(directory).args(BINARIES))
}
