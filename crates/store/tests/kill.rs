//! A real process that is killed in the middle of its writes loses nothing that it has acknowledged.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clock::disk::SystemDisk;
use common::{content, put};
use source::ObjectSource;
use store::{Mode, Options, Store};

/// Names the directory for the process that is to be killed.
const DIRECTORY: &str = "TOMBOLO_TEST_KILL_DIRECTORY";

fn options() -> Options {
    Options {
        segment_bytes: 100_000,
        snapshot_bytes: 200_000,
        ..Options::default()
    }
}

/// Not a test of its own: the process that the test below starts and kills.
#[test]
fn writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let disk = Arc::new(SystemDisk::open(directory.as_ref()).unwrap());
    let store = Store::open(disk, options(), Mode::Thread).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8 {
            let store = store.clone();
            writers.spawn(async move {
                for index in 0.. {
                    let name = format!("x{writer}-{}", index % 50);
                    let object = store.write(put(&name, &"x".repeat(700))).await.unwrap();
                    let line = format!("ack {name} {}\n", object.revision);
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        writers.join_all().await;
    });
}

#[tokio::test]
async fn a_killed_process_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = std::collections::BTreeMap::new();
    let mut newest = 0;
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut count = 0;
        let wanted = 500 + round * 333;
        // After enough of them the process is killed; what it has said until then still counts.
        while let Some(Ok(line)) = lines.next() {
            let Some((_, ack)) = line.split_once("ack ") else {
                continue;
            };
            let Some((name, revision)) = ack.split_once(' ') else {
                continue;
            };
            let revision: u64 = revision.parse().unwrap();
            let entry = acknowledged.entry(name.to_owned()).or_insert(0);
            *entry = revision.max(*entry);
            newest = revision.max(newest);
            count += 1;
            if count == wanted {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(count >= wanted, "round {round}: only {count} writes");
        let disk = Arc::new(SystemDisk::open(directory.path()).unwrap());
        let store = Store::open(disk, options(), Mode::Thread).unwrap();
        assert!(store.revision().0 >= newest);
        let found = content(&store).await;
        for (name, revision) in &acknowledged {
            assert!(
                found[name].0.0 >= *revision,
                "{name} was acknowledged at {revision}"
            );
        }
    }
}
