//! Measures against the peers in one run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::{realkube, shell};

pub(crate) fn run(names: &[&str]) -> anyhow::Result<()> {
    let directory = realkube::directory();
    shell::step("build Kubernetes from its Go modules", || {
        realkube::build(&directory)
    })?;
    // Together, so that what both depend on is built once.
    let build = [
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "tombolo",
        "--package",
        "bench",
    ];
    shell::run(&mut shell::cargo(&build))?;
    let program = target()?.join("release/bench");
    shell::run(
        Command::new(program)
            .args(names)
            .env("TOMBOLO_REALKUBE", &directory),
    )
}

/// The folder that cargo builds into: this program lies in `TARGET/PROFILE`.
fn target() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program
        .ancestors()
        .nth(2)
        .context("cargo put this program somewhere else")?;
    Ok(folder.to_owned())
}
