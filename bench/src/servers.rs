//! The three servers under load, and the processes that they consist of.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::Method;

use crate::client::Target;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Null,
    Tombolo,
    Kubernetes,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Null, Self::Tombolo, Self::Kubernetes];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| format!("{kind:?}").eq_ignore_ascii_case(name))
    }
}

pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    pub(crate) kubeconfig: PathBuf,
    /// From the start of the (first) process to the first successful answer of `/readyz`.
    pub(crate) start_to_ready: Duration,
    processes: Vec<Process>,
    realkube: PathBuf,
}

/// What `/proc/PID/stat` counts in a second, on every Linux.
const TICKS: f64 = 100.0;
const KUBERNETES_PORT: u16 = 17_200;
/// Where a process says what it says, in the folder given at its start.
pub(crate) const LOG: &str = "servers.log";

/// The program under test: it is built into the same folder as this one.
pub(crate) fn tombolo() -> anyhow::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("tombolo"))
}

/// A process that ends with its handle.
pub(crate) struct Process(Child);

impl Process {
    /// What it says is appended to [`LOG`] in the folder.
    pub(crate) fn start(command: &mut Command, folder: &Path) -> anyhow::Result<Self> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join(LOG))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        child
            .map(Self)
            .with_context(|| format!("cannot start {command:?}"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// How long processors worked for it.
    pub(crate) fn processor_seconds(&self) -> anyhow::Result<f64> {
        processor_seconds(self.id())
    }

    /// `VmRSS`: what is resident now; `VmHWM`: what was at most.
    pub(crate) fn memory_kib(&self, line: &str) -> anyhow::Result<f64> {
        memory_kib(self.0.id(), line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Time that a process has spent on processors.
pub(crate) fn processor_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything: state is the first, user and system time the 12th and 13th.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let mut times = fields.split_whitespace().skip(11).take(2);
    let mut next = || -> anyhow::Result<f64> { Ok(times.next().context("no times in stat")?.parse()?) };
    Ok((next()? + next()?) / TICKS)
}

fn memory_kib(pid: u32, line: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = status
        .lines()
        .find_map(|found| found.strip_prefix(line)?.strip_prefix(':'))
        .and_then(|value| value.split_whitespace().next())
        .with_context(|| format!("process {pid} has no {line}"))?;
    Ok(value.parse()?)
}

impl Server {
    pub(crate) async fn start(kind: Kind, realkube: &Path, scratch: &Path) -> anyhow::Result<Self> {
        if kind == Kind::Kubernetes {
            script(realkube, "down")?;
        }
        let start = Instant::now();
        let (processes, kubeconfig) = match kind {
            Kind::Null => {
                let kubeconfig = scratch.join("null/kubeconfig");
                let program = std::env::current_exe()?;
                let process = Process::start(
                    Command::new(program).arg("null-server").arg(scratch.join("null")),
                    scratch,
                )?;
                (vec![process], kubeconfig)
            }
            Kind::Tombolo => start_up(scratch, &[])?,
            Kind::Kubernetes => {
                script(realkube, "up")?;
                (Vec::new(), realkube.join("cp/bench/admin.kubeconfig"))
            }
        };
        Self::ready(kind, start, processes, kubeconfig, realkube).await
    }

    /// An embedded parent without controllers, in the folder that it had the last time.
    pub(crate) async fn up(scratch: &Path, up: Up) -> anyhow::Result<Self> {
        let without = match up {
            Up::WithScheduler => "controllers",
            Up::WithoutScheduler => "scheduler,controllers",
        };
        let start = Instant::now();
        let (processes, kubeconfig) = start_up(scratch, &["--without", without])?;
        Self::ready(Kind::Tombolo, start, processes, kubeconfig, Path::new("")).await
    }

    async fn ready(
        kind: Kind,
        start: Instant,
        processes: Vec<Process>,
        kubeconfig: PathBuf,
        realkube: &Path,
    ) -> anyhow::Result<Self> {
        let target = wait_until_ready(&kubeconfig)
            .await
            .with_context(|| format!("{kind:?}"))?;
        Ok(Self {
            kind,
            target,
            kubeconfig,
            start_to_ready: start.elapsed(),
            processes,
            realkube: realkube.to_owned(),
        })
    }

    /// How long processors worked for its own processes.
    pub(crate) fn processor_seconds(&self) -> anyhow::Result<f64> {
        self.processes.iter().map(Process::processor_seconds).sum()
    }

    /// Resident memory of its processes.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let mut sum_kib = 0.0;
        for process in &self.processes {
            sum_kib += process.memory_kib("VmRSS")?;
        }
        if self.kind == Kind::Kubernetes {
            for part in ["etcd", "api"] {
                let path = self.realkube.join(format!("cp/bench/{part}.pid"));
                sum_kib += memory_kib(std::fs::read_to_string(path)?.trim().parse()?, "VmRSS")?;
            }
        }
        Ok(sum_kib / 1_024.0)
    }
}

/// Which roles an embedded parent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Up {
    WithScheduler,
    WithoutScheduler,
}

/// Starts `up` in a folder of its own.
fn start_up(scratch: &Path, more: &[&str]) -> anyhow::Result<(Vec<Process>, PathBuf)> {
    let data = scratch.join("tombolo");
    let mut command = Command::new(tombolo()?);
    command
        .args(["up", "--members", "0", "--listen", "127.0.0.1:17190"])
        .args(more)
        .arg("--data-dir")
        .arg(&data);
    let process = Process::start(&mut command, scratch)?;
    Ok((vec![process], data.join("kubeconfig")))
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.kind == Kind::Kubernetes {
            // The next run begins with the same.
            script(&self.realkube, "down").ok();
        }
    }
}

fn script(realkube: &Path, verb: &str) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("bench lies in the workspace")?;
    let status = Command::new("bash")
        .arg(root.join("tests/realkube/control-plane.sh"))
        .args([verb, "bench", &KUBERNETES_PORT.to_string()])
        .arg(realkube)
        .envs([("PARTS", "api"), ("FSYNC", "1"), ("PURGE", "1")])
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("control-plane.sh {verb} failed");
    }
    Ok(())
}

async fn wait_until_ready(kubeconfig: &Path) -> anyhow::Result<Target> {
    let start = Instant::now();
    loop {
        let attempt = async {
            let target = Target::from_kubeconfig(kubeconfig)?;
            let mut client = target.connect().await?;
            client
                .call(Method::GET, "/readyz", "text/plain", Bytes::new())
                .await?;
            anyhow::Ok(target)
        };
        match attempt.await {
            Ok(target) => return Ok(target),
            Err(error) if start.elapsed() > Duration::from_secs(60) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
