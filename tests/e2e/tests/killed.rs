//! The control plane is killed in the midst of writes: everything that it has acknowledged is there
//! afterwards, and nothing that it has acknowledged to be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{Bench, Process, tombolo, wait_for};

/// Of each writer in each round: more than it gets to. kubectl sends 300 requests at once, then 50 a second.
const OBJECTS: usize = 500;
/// Without asking for schemas first, which takes longer than what is to be seen here.
const CREATE: &str = "create --validate=false";
const REPLACE: &str = "replace --validate=false";
const DELETE: &str = "delete --wait=false";

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

/// Writes ConfigMaps of these names into a file; each says in which round it was written.
fn manifests(folder: &Path, file: &str, names: &[String], round: usize) -> PathBuf {
    let objects: Vec<String> = names
        .iter()
        .map(|name| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{round: \"{round}\"}}\n"
            )
        })
        .collect();
    let file = folder.join(format!("{file}.yaml"));
    std::fs::write(&file, objects.join("---\n")).expect("a file can be written");
    file
}

/// A kubectl that does one thing to one object after the other and says so of each that is acknowledged.
fn writer(bench: &Bench, folder: &Path, verb: &str, file: &Path) -> Process {
    let mut command = Command::new(bench.realkube.join("bin/kubectl"));
    command
        .arg("--kubeconfig")
        .arg(folder.join("data/kubeconfig"))
        .args(verb.split(' '))
        .args(["-o", "name", "-f"])
        .arg(file);
    let name = file.file_stem().expect("a file has a name");
    Process::start(&name.to_string_lossy(), &mut command, folder)
}

/// The names that were acknowledged.
fn acknowledged(writer: &Process) -> Vec<String> {
    let output = writer.output();
    // The last line may be half written.
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter_map(|line| line.strip_prefix("configmap/"))
        .map(str::to_owned)
        .collect()
}

fn names(prefix: &str) -> Vec<String> {
    (0..OBJECTS).map(|index| format!("{prefix}-{index}")).collect()
}

/// The round in which each object that is there was written.
fn found(bench: &Bench, folder: &Path) -> BTreeMap<String, usize> {
    let kubectl = bench.kubectl(folder.join("data/kubeconfig"));
    let list = kubectl.json("configmaps -n default").expect("a list");
    let items = list["items"].as_array().expect("items").iter();
    items
        .filter_map(|item| {
            let round = item["data"]["round"].as_str()?.parse().ok()?;
            Some((item["metadata"]["name"].as_str()?.to_owned(), round))
        })
        .collect()
}

/// Waits until each of these writers has so many acknowledgements.
fn wait_for_each(writers: &[&Process], wanted: usize) {
    wait_for("writes are acknowledged", Duration::from_secs(60), || {
        let counts: Vec<_> = writers.iter().map(|writer| acknowledged(writer).len()).collect();
        if counts.iter().all(|count| *count >= wanted) {
            Ok(())
        } else {
            Err(format!("{counts:?} of {wanted} are"))
        }
    });
}

#[test]
fn a_killed_control_plane_loses_nothing_acknowledged() {
    let Some(bench) = Bench::find("a_killed_control_plane_loses_nothing_acknowledged") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let start = |verb: &str, file: &str, prefix: &str, round: usize| {
        let file = manifests(folder, file, &names(prefix), round);
        writer(&bench, folder, verb, &file)
    };
    let mut up = launch(&bench, folder);
    // What is to be updated in every round, and what is to be removed in each.
    let prepare = ["kept", "old-1", "old-2", "old-3"].map(|prefix| start(CREATE, prefix, prefix, 0));
    wait_for_each(&prepare.each_ref(), OBJECTS);
    drop(prepare);
    let mut there: BTreeMap<String, usize> = names("kept").into_iter().map(|name| (name, 0)).collect();
    let mut gone = BTreeSet::new();
    for round in 1..=3 {
        let puts = [
            start(CREATE, "create-1", &format!("new-{round}-1"), round),
            start(CREATE, "create-2", &format!("new-{round}-2"), round),
            start(REPLACE, "replace", "kept", round),
        ];
        wait_for_each(&puts.each_ref(), 10);
        let removals = start(DELETE, "delete", &format!("old-{round}"), round);
        wait_for_each(&[&removals], 40);
        // The handle's end is SIGKILL.
        drop(up);
        let counts = [&puts[0], &puts[1], &puts[2], &removals].map(|writer| acknowledged(writer).len());
        let is_amid = counts.iter().all(|count| *count < OBJECTS);
        assert!(is_amid, "the writers were done: {counts:?}");
        there.extend(puts.iter().flat_map(acknowledged).map(|name| (name, round)));
        gone.extend(acknowledged(&removals));
        drop((puts, removals));
        up = launch(&bench, folder);
        let found = found(&bench, folder);
        let lost: Vec<_> = there
            .iter()
            .filter(|(name, round)| found.get(*name) < Some(round))
            .collect();
        assert!(lost.is_empty(), "of {} acknowledged: {lost:?}", there.len());
        let back: Vec<_> = gone.iter().filter(|name| found.contains_key(*name)).collect();
        assert!(back.is_empty(), "of {} removed: {back:?}", gone.len());
    }
}
