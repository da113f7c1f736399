//! The three servers under load, each a process of its own.

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
    /// From the start of the (first) process to the first successful answer of `/readyz`.
    pub(crate) start_to_ready: Duration,
    processes: Vec<Child>,
    realkube: PathBuf,
}

const KUBERNETES_PORT: u16 = 17_200;

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
                let child = spawn(
                    Command::new(program).arg("null-server").arg(scratch.join("null")),
                    scratch,
                )?;
                (vec![child], kubeconfig)
            }
            Kind::Tombolo => {
                let data = scratch.join("tombolo");
                let program = std::env::current_exe()?.with_file_name("tombolo");
                let mut command = Command::new(program);
                command
                    .args([
                        "up",
                        "--members",
                        "0",
                        "--listen",
                        "127.0.0.1:17190",
                        "--data-dir",
                    ])
                    .arg(&data);
                (vec![spawn(&mut command, scratch)?], data.join("kubeconfig"))
            }
            Kind::Kubernetes => {
                script(realkube, "up")?;
                (Vec::new(), realkube.join("cp/bench/admin.kubeconfig"))
            }
        };
        let target = wait_until_ready(&kubeconfig)
            .await
            .with_context(|| format!("{kind:?}"))?;
        Ok(Self {
            kind,
            target,
            start_to_ready: start.elapsed(),
            processes,
            realkube: realkube.to_owned(),
        })
    }

    /// Resident memory of its processes.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let mut pids: Vec<u32> = self.processes.iter().map(Child::id).collect();
        if self.kind == Kind::Kubernetes {
            for part in ["etcd", "api"] {
                let path = self.realkube.join(format!("cp/bench/{part}.pid"));
                pids.push(std::fs::read_to_string(path)?.trim().parse()?);
            }
        }
        let mut sum_kib = 0.0;
        for pid in pids {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
            let line = status
                .lines()
                .find(|line| line.starts_with("VmRSS:"))
                .context("no VmRSS")?;
            sum_kib += line
                .split_whitespace()
                .nth(1)
                .context("no number")?
                .parse::<f64>()?;
        }
        Ok(sum_kib / 1_024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.processes {
            // It may have ended by itself.
            child.kill().ok();
            child.wait().ok();
        }
        if self.kind == Kind::Kubernetes {
            // The next run begins with the same.
            script(&self.realkube, "down").ok();
        }
    }
}

fn spawn(command: &mut Command, scratch: &Path) -> anyhow::Result<Child> {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(scratch.join("servers.log"))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn();
    child.with_context(|| format!("cannot start {command:?}"))
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
