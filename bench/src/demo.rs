//! The demo: how soon its clusters are ready, and how much memory it takes at most.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::phases::REST;
use crate::report::{Metric, Report};
use crate::servers::{self, Kind};

/// What the demo says once every member is ready…
const READY: &str = "3 clusters, all ready";
/// …and once its application runs everywhere, which is all that it does by itself.
const DONE: &str = "nginx runs in all of them";
const LIMIT: Duration = Duration::from_secs(60);

/// Starts `up --demo` in an empty folder and takes both measurements.
pub(crate) async fn run(scratch: &Path, report: &mut Report) -> anyhow::Result<()> {
    let folder = scratch.join("demo");
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(servers::tombolo()?);
    command
        .args(["up", "--demo", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.join("data"));
    let start = Instant::now();
    let process = servers::Process::start(&mut command, &folder)?;
    wait_for(READY, &folder, start).await?;
    report.add(Metric::DemoSeconds, Kind::Tombolo, start.elapsed().as_secs_f64());
    wait_for(DONE, &folder, start).await?;
    tokio::time::sleep(REST).await;
    let bytes = process.memory_kib("VmHWM")? * 1_024.0;
    report.add(Metric::DemoPeakMb, Kind::Tombolo, bytes / 1e6);
    Ok(())
}

async fn wait_for(words: &str, folder: &Path, start: Instant) -> anyhow::Result<()> {
    let output = folder.join(servers::LOG);
    loop {
        let said = std::fs::read_to_string(&output)?;
        if said.contains(words) {
            return Ok(());
        }
        if start.elapsed() > LIMIT {
            bail!("the demo did not say \"{words}\" within {LIMIT:?}, only:\n{said}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
