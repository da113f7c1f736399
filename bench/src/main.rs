//! Measures the embedded control plane against etcd (with fsync) + kube-apiserver and against a null server that
//! answers canned bytes: same client, same TLS, one machine, one run; and the scheduler against upstream's over a fleet
//! (`fleet`). `cargo xtask bench` builds all it needs.
//!
//! What the null server reaches is what the client and TLS leave: nothing measured here can be faster.

mod agents;
mod client;
mod demo;
mod figures;
mod fleet;
mod hop;
mod null;
mod phases;
mod report;
mod servers;
mod tunnels;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::report::Report;

/// The same as the program under test has: neither the client nor the null server shall be slower for want of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let outcome = match words.as_slice() {
        ["null-server", folder] => runtime.block_on(null::serve(&PathBuf::from(folder))),
        ["api" | "apiserver"] | [] => runtime.block_on(api_server(&servers::Kind::ALL)),
        ["api", chosen @ ..] => match chosen
            .iter()
            .map(|name| servers::Kind::parse(name))
            .collect::<Option<Vec<_>>>()
        {
            Some(kinds) => runtime.block_on(api_server(&kinds)),
            None => Err(anyhow::anyhow!("known servers: null, tombolo, kubernetes")),
        },
        ["hop"] => runtime.block_on(the_hop()),
        ["tunnels"] => runtime.block_on(the_tunnels(tunnels::CLUSTERS)),
        ["tunnels", count] => match count.parse() {
            Ok(count) => runtime.block_on(the_tunnels(count)),
            Err(_) => Err(anyhow::anyhow!("{count:?} is no number of clusters")),
        },
        ["agents", count, url, token, authority] => match count.parse() {
            Ok(count) => runtime.block_on(agents::run(count, url, token, &PathBuf::from(authority))),
            Err(_) => Err(anyhow::anyhow!("{count:?} is no number of agents")),
        },
        ["fleet", parts @ ..] => runtime.block_on(the_fleet(parts)),
        _ => Err(anyhow::anyhow!(
            "known benchmarks: api [SERVER…], fleet [PART…], tunnels [CLUSTERS], hop"
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stderr, reason = "a command line tool's complaint")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// The folder with Kubernetes, and an empty one for what is measured.
fn folders() -> anyhow::Result<(PathBuf, PathBuf)> {
    let realkube =
        PathBuf::from(std::env::var_os("TOMBOLO_REALKUBE").context("TOMBOLO_REALKUBE is not set")?);
    let scratch = realkube.join("bench");
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch)?;
    Ok((realkube, scratch))
}

async fn the_fleet(parts: &[&str]) -> anyhow::Result<()> {
    let (realkube, scratch) = folders()?;
    fleet::run(parts, &realkube, &scratch).await
}

async fn the_tunnels(count: usize) -> anyhow::Result<()> {
    let (_, scratch) = folders()?;
    tunnels::run(count, &scratch).await
}

async fn the_hop() -> anyhow::Result<()> {
    let (_, scratch) = folders()?;
    hop::run(&scratch).await
}

async fn api_server(kinds: &[servers::Kind]) -> anyhow::Result<()> {
    let (realkube, scratch) = folders()?;
    let mut report = Report::default();
    for kind in kinds.iter().copied() {
        let server = servers::Server::start(kind, &realkube, &scratch).await?;
        phases::run(&server, &mut report)
            .await
            .with_context(|| format!("measuring {kind:?}"))?;
    }
    if kinds.contains(&servers::Kind::Tombolo) {
        demo::run(&scratch, &mut report)
            .await
            .context("measuring the demo")?;
    }
    report.print();
    Ok(())
}
