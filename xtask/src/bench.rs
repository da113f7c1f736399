//! Measures against the peers in one run.

use crate::{realkube, shell};

pub(crate) fn run(names: &[&str]) -> anyhow::Result<()> {
    let directory = realkube::directory();
    shell::step("build Kubernetes from its Go modules", || {
        realkube::build(&directory)
    })?;
    shell::run(&mut shell::cargo(&[
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "tombolo",
    ]))?;
    let mut command = shell::cargo(&[
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "bench",
        "--",
    ]);
    shell::run(command.args(names).env("TOMBOLO_REALKUBE", &directory))
}
