//! Everything that must hold before a change lands.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Instant, SystemTime};

use anyhow::bail;

use crate::{check, realkube, shell};

/// How long fresh seeds are simulated.
const SIMULATION_SECONDS: u64 = 60;

pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    // The README's first command, as a newcomer's machine builds it.
    shell::step("build the release binary", || {
        shell::run(&mut shell::cargo(&[
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "tombolo",
        ]))
    })?;
    shell::step("the demo", demo)?;
    shell::step("check", check::run)?;
    shell::step("the small simulation with fresh seeds", simulate)?;
    real_kubernetes()?;
    shell::say(&format!(
        "all passed in {:.1} min",
        start.elapsed().as_secs_f64() / 60.0
    ));
    Ok(())
}

fn binary() -> std::path::PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| shell::root().join("target"), std::path::PathBuf::from);
    target.join("release").join("tombolo")
}

/// Runs the demo twice on the same folder: the second start must find everything as it was.
fn demo() -> anyhow::Result<()> {
    let directory = shell::root().join("target").join("demo");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    // One address for both, as users have: agents whose parent moved register anew.
    let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    for round in ["first start", "second start"] {
        shell::say(round);
        shell::run(
            Command::new(binary())
                .args([
                    "up",
                    "--demo",
                    "--exit-when-ready",
                    "--listen",
                    &listen,
                    "--data-dir",
                ])
                .arg(&directory),
        )?;
    }
    Ok(())
}

fn simulate() -> anyhow::Result<()> {
    let first = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(1, |elapsed| elapsed.as_secs());
    shell::run(Command::new(binary()).args([
        "sim",
        "--seed",
        &first.to_string(),
        "--fresh-seeds-for",
        &format!("{SIMULATION_SECONDS}s"),
    ]))
}

fn real_kubernetes() -> anyhow::Result<()> {
    if !shell::has("go", "version") {
        if shell::in_ci() {
            bail!("Go is missing, and CI is set: the real-Kubernetes tests may not be skipped");
        }
        shell::say(
            "SKIPPED: the tests against real Kubernetes, and those against the original tunnel library, need Go, which is not on this machine",
        );
        return Ok(());
    }
    let directory = realkube::directory();
    shell::step("build Kubernetes from its Go modules", || {
        realkube::build(&directory)
    })?;
    shell::step("end to end on real Kubernetes", || {
        shell::run(
            shell::cargo(&[
                "test",
                "--quiet",
                "--package",
                "e2e",
                "--locked",
                "--",
                "--test-threads=1",
                "--nocapture",
            ])
            .env("TOMBOLO_REALKUBE", &directory)
            .env("TOMBOLO_BINARY", binary()),
        )
    })
}
