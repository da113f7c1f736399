//! The control plane is killed in the midst of writes: everything that it has acknowledged is there afterwards.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::{Bench, Process, tombolo, wait_for};

const WRITERS: usize = 4;
/// Of each writer in each round: more than it gets to.
const OBJECTS: usize = 1_000;

fn launch(bench: &Bench, folder: &Path) -> Process {
    let mut command = tombolo(
        bench,
        &["up", "--members", "0", "--listen", "127.0.0.1:0", "--data-dir"],
    );
    let process = Process::start("up", command.arg(folder.join("data")), folder);
    wait_for("the control plane runs", Duration::from_secs(60), || {
        let output = process.output();
        if output.contains("kubeconfig: ") {
            Ok(())
        } else {
            Err(output)
        }
    });
    process
}

/// A kubectl that creates one ConfigMap after the other and says so of each that is acknowledged.
fn writer(bench: &Bench, folder: &Path, name: &str) -> Process {
    let objects: Vec<String> = (0..OBJECTS)
        .map(|index| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-{index}, namespace: default}}\n"
            )
        })
        .collect();
    let file = folder.join(format!("{name}.yaml"));
    std::fs::write(&file, objects.join("---\n")).expect("a file can be written");
    let mut command = Command::new(bench.realkube.join("bin/kubectl"));
    command
        .arg("--kubeconfig")
        .arg(folder.join("data/kubeconfig"))
        .args(["create", "-o", "name", "-f"])
        .arg(&file);
    Process::start(name, &mut command, folder)
}

/// The names that were acknowledged.
fn acknowledged(writer: &Process) -> Vec<String> {
    let output = writer.output();
    // The last line may be half written.
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter(|line| line.starts_with("configmap/"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_killed_control_plane_loses_nothing_acknowledged() {
    let Some(bench) = Bench::find("a_killed_control_plane_loses_nothing_acknowledged") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut wanted = BTreeSet::new();
    for round in 0..3 {
        let up = launch(&bench, folder.path());
        let writers: Vec<Process> = (0..WRITERS)
            .map(|index| writer(&bench, folder.path(), &format!("x{round}-{index}")))
            .collect();
        let count = || {
            writers
                .iter()
                .map(|writer| acknowledged(writer).len())
                .sum::<usize>()
        };
        wait_for("writes are acknowledged", Duration::from_secs(60), || {
            let count = count();
            if count > 200 {
                Ok(())
            } else {
                Err(format!("{count} are"))
            }
        });
        // The handle's end is SIGKILL.
        drop(up);
        wanted.extend(writers.iter().flat_map(acknowledged));
        assert!(count() < WRITERS * OBJECTS, "the writers were not done");
    }
    let _up = launch(&bench, folder.path());
    let kubectl = bench.kubectl(folder.path().join("data/kubeconfig"));
    let found = kubectl.run("get configmaps -n default -o name");
    let found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
    let lost: Vec<_> = wanted.difference(&found).collect();
    assert!(lost.is_empty(), "of {} acknowledged: {lost:?}", wanted.len());
}
