//! A real process that is killed in the middle of its writes loses nothing that it has acknowledged.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use clock::disk::SystemDisk;
use common::{content, delete, put};
use source::{Change, Error, ObjectSource, Revision, Write};
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

/// Writers that work side by side, each on objects of its own.
const WRITERS: usize = 8;
/// Objects of each.
const OBJECTS: usize = 50;

/// What a writer does in its n-th step: each object is created, updated, removed, and so on.
fn step(writer: usize, index: usize) -> (String, Write) {
    let name = format!("x{writer}-{}", index % OBJECTS);
    let write = if index / OBJECTS % 3 == 2 {
        delete(&name)
    } else {
        put(&name, &"x".repeat(700))
    };
    (name, write)
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
        for writer in 0..WRITERS {
            let store = store.clone();
            writers.spawn(async move {
                for index in 0.. {
                    let revision = match store.write(step(writer, index).1).await {
                        Ok(object) => object.revision,
                        Err(Error::NotFound(_)) => Revision(0),
                        Err(error) => panic!("{error}"),
                    };
                    let line = format!("ack {writer} {index} {revision}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        writers.join_all().await;
    });
}

/// What is known of the objects: the revision of each that is there.
type Known = BTreeMap<String, u64>;

/// Starts the process, takes in `wanted` of its acknowledgements, kills it and takes in the rest. Answers the first
/// step of each writer that was not acknowledged, and the newest revision that was.
fn write_and_kill(directory: &Path, wanted: usize, known: &mut Known) -> ([usize; WRITERS], u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = [0; WRITERS];
    let (mut count, mut newest) = (0, 0);
    while let Some(Ok(line)) = lines.next() {
        let Some((_, ack)) = line.split_once("ack ") else {
            continue;
        };
        let numbers: Vec<u64> = ack.split(' ').map(|number| number.parse().unwrap()).collect();
        let (writer, index) = (
            usize::try_from(numbers[0]).unwrap(),
            usize::try_from(numbers[1]).unwrap(),
        );
        assert_eq!(index, next[writer], "one after the other");
        next[writer] = index + 1;
        let (name, write) = step(writer, index);
        match write.change {
            Change::Put(_) => {
                let before = known.insert(name, numbers[2]);
                assert!(before.is_none_or(|before| before < numbers[2]), "revisions grow");
            }
            Change::Delete => {
                let before = known.remove(&name);
                assert_eq!(before.is_some(), numbers[2] > 0, "{name}");
            }
        }
        newest = newest.max(numbers[2]);
        count += 1;
        if count == wanted {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(count >= wanted, "only {count} writes");
    (next, newest)
}

#[tokio::test]
async fn a_killed_process_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut known = Known::new();
    for round in 0..4 {
        // Where it is killed each writer updates, removes or creates.
        let wanted = WRITERS * OBJECTS * 3 + 200 + round * 433;
        let (next, newest) = write_and_kill(directory.path(), wanted, &mut known);
        let disk = Arc::new(SystemDisk::open(directory.path()).unwrap());
        let store = Store::open(disk, options(), Mode::Thread).unwrap();
        assert!(store.revision().0 >= newest);
        let found: Known = content(&store)
            .await
            .into_iter()
            .map(|(name, (revision, _))| (name, revision.0))
            .collect();
        // The one write of each writer that was begun may have happened.
        for (writer, index) in next.into_iter().enumerate() {
            let (name, write) = step(writer, index);
            let (before, now) = (known.get(&name).copied(), found.get(&name).copied());
            let is_done = match write.change {
                Change::Put(_) => now > before,
                Change::Delete => now.is_none(),
            };
            assert!(now == before || is_done, "{name}: {before:?} became {now:?}");
            match now {
                Some(revision) => known.insert(name, revision),
                None => known.remove(&name),
            };
        }
        assert_eq!(found, known, "round {round}");
    }
}
