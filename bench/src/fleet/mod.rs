//! The fleet: how soon a scheduler has bound many waiting Subscriptions to many clusters, and what a decision alone
//! takes.
//!
//! On a real parent (etcd, with its sync, and kube-apiserver) ours and, if `TOMBOLO_UPSTREAM_BIN` names the folder with
//! it, upstream's `clusternet-scheduler` with its client's limits lifted; each finds the same objects on a parent of its
//! own. On the embedded parent its own scheduler.

mod binding;
mod data;
mod placing;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use self::table::{Figure, Table};
use crate::servers::{self, Kind, Server, Up};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Decisions alone.
    Placement,
    /// The embedded parent.
    Embedded,
    /// Ours on a real parent.
    Real,
    /// Upstream's on a real parent.
    Upstream,
}

impl Part {
    const ALL: [Self; 4] = [Self::Placement, Self::Embedded, Self::Real, Self::Upstream];

    fn parse(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|part| format!("{part:?}").eq_ignore_ascii_case(name));
        found.with_context(|| format!("unknown part \"{name}\": placement, embedded, real or upstream"))
    }
}

/// Measures the named parts, all of them without names, and prints the table.
pub(crate) async fn run(names: &[&str], realkube: &Path, scratch: &Path) -> anyhow::Result<()> {
    let upstream = std::env::var_os("TOMBOLO_UPSTREAM_BIN").map(PathBuf::from);
    let mut parts = names
        .iter()
        .map(|name| Part::parse(name))
        .collect::<Result<Vec<_>, _>>()?;
    if parts.is_empty() {
        parts = Part::ALL.to_vec();
        parts.retain(|part| *part != Part::Upstream || upstream.is_some());
    }
    let mut table = Table::default();
    for part in parts {
        match part {
            Part::Placement => placing::run(&mut table)?,
            Part::Embedded => embedded(scratch, &mut table)
                .await
                .context("the embedded parent")?,
            Part::Real => {
                let program = servers::tombolo()?;
                let arguments = ["scheduler", "--secure-port", "0"].map(str::to_owned);
                let found = real(realkube, scratch, &program, &arguments)
                    .await
                    .context("ours")?;
                table.add(Figure::Seconds, Kind::Tombolo, found.seconds);
                table.add(Figure::ProcessorSeconds, Kind::Tombolo, found.processor_seconds);
                table.add(Figure::PeakMb, Kind::Tombolo, found.peak_mb);
            }
            Part::Upstream => {
                let Some(folder) = &upstream else {
                    bail!("TOMBOLO_UPSTREAM_BIN is not set");
                };
                let program = folder.join("clusternet-scheduler");
                let arguments = [
                    "--leader-elect=false",
                    "--secure-port=0",
                    "--kube-api-qps=100000",
                    "--kube-api-burst=100000",
                ]
                .map(str::to_owned);
                let found = real(realkube, scratch, &program, &arguments)
                    .await
                    .context("upstream's")?;
                table.add(Figure::Seconds, Kind::Kubernetes, found.seconds);
                // What the embedded parent is held against.
                table.add(Figure::EmbeddedSeconds, Kind::Kubernetes, found.seconds);
                table.add(
                    Figure::ProcessorSeconds,
                    Kind::Kubernetes,
                    found.processor_seconds,
                );
                table.add(Figure::PeakMb, Kind::Kubernetes, found.peak_mb);
            }
        }
    }
    table.print();
    Ok(())
}

/// What a scheduler's process took.
struct Taken {
    seconds: f64,
    processor_seconds: f64,
    peak_mb: f64,
}

/// Fills a real parent, then starts a scheduler and waits.
async fn real(
    realkube: &Path,
    scratch: &Path,
    program: &Path,
    arguments: &[String],
) -> anyhow::Result<Taken> {
    let server = Server::start(Kind::Kubernetes, realkube, scratch).await?;
    let expected = data::fill(&server.target, data::Definitions::Missing).await?;
    let mut bound = binding::Watch::start(&server.target).await?;
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&server.kubeconfig);
    let begin = std::time::Instant::now();
    let process = servers::Process::start(&mut command, scratch)?;
    bound.wait().await?;
    let seconds = begin.elapsed().as_secs_f64();
    let taken = Taken {
        seconds,
        processor_seconds: process.processor_seconds()?,
        peak_mb: process.memory_kib("VmHWM")? * 1_024.0 / 1e6,
    };
    data::verify(&server.target, &expected).await?;
    Ok(taken)
}

/// Fills an embedded parent that has no scheduler, then starts it again with its own.
async fn embedded(scratch: &Path, table: &mut Table) -> anyhow::Result<()> {
    let filling = Server::up(scratch, Up::WithoutScheduler).await?;
    let expected = data::fill(&filling.target, data::Definitions::There).await?;
    drop(filling);
    let begin = std::time::Instant::now();
    let server = Server::up(scratch, Up::WithScheduler).await?;
    let mut bound = binding::Watch::start(&server.target).await?;
    bound.wait().await?;
    table.add(
        Figure::EmbeddedSeconds,
        Kind::Tombolo,
        begin.elapsed().as_secs_f64(),
    );
    table.add(
        Figure::EmbeddedProcessorSeconds,
        Kind::Tombolo,
        server.processor_seconds()?,
    );
    data::verify(&server.target, &expected).await
}
