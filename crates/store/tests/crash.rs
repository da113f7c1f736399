//! Crashes and failing disks: nothing acknowledged is lost, nothing is half applied, revisions never go back.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use clock::disk::SimDisk;
use common::asking::{Ask, AskingDisk, Change};
use common::{Outcome, check, content, open, put, run, small, workload};
use source::{Error, ObjectSource};
use store::{Mode, OpenError};

/// How many steps the workload takes on a good disk.
async fn steps() -> u64 {
    let disk = SimDisk::new(0);
    let store = open(&disk, small(), Mode::Inline).unwrap();
    let mut outcome = Outcome::default();
    run(&store, &workload(), &mut outcome).await;
    assert!(outcome.error.is_none());
    let snapshots = store.stats().snapshots;
    assert!(snapshots >= 3, "the workload makes {snapshots} snapshots");
    disk.steps()
}

/// Crashes at a step, opens again (crashing now and then while it opens), writes on, opens once more.
async fn crash_at(step: u64, seed: u64, mode: Mode) {
    let disk = SimDisk::new(seed);
    disk.crash_at(step);
    let mut outcome = Outcome::default();
    let context = format!("step {step}, seed {seed}, {mode:?}");
    if let Ok(store) = open(&disk, small(), mode) {
        run(&store, &workload(), &mut outcome).await;
        if let Some(error) = &outcome.error {
            assert!(matches!(error, Error::Closed(_)), "{context}: {error}");
        }
    }
    let mut crashes = (step + seed) % 4;
    let store = loop {
        disk.restart();
        if crashes > 0 {
            disk.crash_at(disk.steps() + crashes);
            crashes -= 1;
        }
        match open(&disk, small(), Mode::Inline) {
            Ok(store) if !disk.is_crashed() => break store,
            Ok(_) => {}
            Err(OpenError::Disk { .. }) if disk.is_crashed() => {}
            Err(error) => panic!("{context}: {error}"),
        }
    };
    disk.crash_at(u64::MAX);
    check(&store, &mut outcome, &context).await;
    run(&store, &workload()[..20], &mut outcome).await;
    assert!(outcome.error.is_none(), "{context}: {:?}", outcome.error);
    drop(store);
    disk.restart();
    let store = open(&disk, small(), Mode::Inline).unwrap_or_else(|error| panic!("{context}: {error}"));
    check(&store, &mut outcome, &context).await;
}

#[tokio::test]
async fn a_crash_at_any_step_loses_nothing_acknowledged() {
    let steps = steps().await;
    for step in 1..=steps {
        for seed in 0..6 {
            crash_at(step, seed * 1_000_003 + step, Mode::Inline).await;
        }
    }
}

/// With a thread of its own a snapshot's steps fall between those of later writes, each time otherwise.
#[tokio::test]
async fn a_crash_while_a_snapshot_is_made_beside_writes_loses_nothing_acknowledged() {
    for step in 1..=steps().await {
        crash_at(step, step, Mode::Thread).await;
    }
}

/// The process ends, the machine does not: its cache shows more than the disk holds.
async fn check_killed(disk: &SimDisk, outcome: &mut Outcome, context: &str) {
    disk.kill();
    disk.fail_sync_at(u64::MAX);
    for _ in 0..2 {
        let store = open(disk, small(), Mode::Inline).unwrap_or_else(|error| panic!("{context}: {error}"));
        check(&store, outcome, context).await;
        drop(store);
        // What was read once stays, even if the machine ends now.
        disk.restart();
    }
}

async fn sync_fails_at(step: u64, mode: Mode) {
    let context = format!("step {step}, {mode:?}");
    let disk = SimDisk::new(step);
    disk.fail_sync_at(step);
    let mut outcome = Outcome::default();
    if let Ok(store) = open(&disk, small(), mode) {
        run(&store, &workload(), &mut outcome).await;
        // Else no sync came after this step, or it was a snapshot's beside the last writes.
        if outcome.error.is_some() {
            assert!(store.closed().is_some(), "{context}");
            let before = disk.steps();
            let error = store.write(put("later", "x")).await.unwrap_err();
            assert!(matches!(error, Error::Closed(_)), "{context}: {error}");
            // A snapshot being made beside the writes is ended.
            if mode == Mode::Inline {
                assert_eq!(disk.steps(), before, "{context}: nothing is tried again");
            }
        }
    }
    check_killed(&disk, &mut outcome, &context).await;
}

#[tokio::test]
async fn a_sync_that_fails_at_any_step_closes_the_store_for_good() {
    for step in 1..steps().await {
        for mode in [Mode::Inline, Mode::Thread] {
            sync_fails_at(step, mode).await;
        }
    }
}

/// Lets one of the changes fail that are made beside the writes.
#[derive(Debug)]
struct FailsBeside {
    at: u64,
    changes: AtomicU64,
}

impl Ask for FailsBeside {
    fn ask(&self, _: Change, file: &str) -> io::Result<()> {
        let is_beside = std::thread::current().name() == Some("store-snapshot");
        if is_beside && self.changes.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(io::Error::other(format!("no luck with \"{file}\"")));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_snapshot_beside_the_writes_that_fails_at_any_step_closes_the_store_for_good() {
    for at in 0.. {
        let context = format!("change {at}");
        let disk = SimDisk::new(at);
        let changes = AtomicU64::new(0);
        let asking = AskingDisk::new(&disk, FailsBeside { at, changes });
        let store = open(&asking, small(), Mode::Thread).unwrap();
        let mut outcome = Outcome::default();
        run(&store, &workload(), &mut outcome).await;
        // One that nobody has noticed yet is noticed now.
        store.close().await;
        let reason = store.closed().unwrap();
        let changes = asking.asked.changes.load(Ordering::Relaxed);
        if changes <= at {
            assert!(outcome.error.is_none() && changes >= 10, "{context}: {reason}");
            return;
        }
        assert_eq!(changes, at + 1, "{context}: nothing is tried again");
        assert!(reason.contains("no luck"), "{context}: {reason}");
        if let Some(error) = &outcome.error {
            let is_it = matches!(error, Error::Closed(told) if *told == reason);
            assert!(is_it, "{context}: {error}");
        }
        drop(store);
        check_killed(&disk, &mut outcome, &context).await;
    }
}

#[tokio::test]
async fn every_acknowledgement_has_its_sync() {
    let disk = SimDisk::new(7);
    let store = open(&disk, small(), Mode::Inline).unwrap();
    let mut outcome = Outcome::default();
    for (index, op) in workload().iter().enumerate() {
        let before = disk.syncs();
        let revision = outcome.revision;
        run(&store, std::slice::from_ref(op), &mut outcome).await;
        if outcome.revision == revision {
            continue;
        }
        assert!(disk.syncs() > before, "acknowledged without a sync");
        let copy = disk.after_crash(index as u64);
        let reopened = open(&copy, small(), Mode::Inline).unwrap();
        assert_eq!(content(&reopened).await, outcome.expected);
        assert_eq!(reopened.revision(), outcome.revision);
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = SimDisk::new(3);
    let store = open(&disk, small(), Mode::Inline).unwrap();
    disk.set_capacity(Some(6_000));
    let mut outcome = Outcome::default();
    while outcome.error.is_none() {
        run(&store, &workload(), &mut outcome).await;
    }
    assert!(matches!(outcome.error, Some(Error::Full)), "{:?}", outcome.error);
    outcome.error = None;
    assert!(disk.used() <= 6_000);
    assert_eq!(content(&store).await, outcome.expected, "reads go on");
    for _ in 0..3 {
        let error = store.write(put("more", &"x".repeat(1_400))).await.unwrap_err();
        assert!(matches!(error, Error::Full), "{error}");
    }
    assert!(store.closed().is_none());
    assert!(store.stats().full >= 4);
    // What was refused never comes back, and a crash while full is harmless.
    let copy = disk.after_crash(9);
    let reopened = open(&copy, small(), Mode::Inline).unwrap();
    assert_eq!(content(&reopened).await, outcome.expected);
    disk.set_capacity(None);
    run(&store, &workload(), &mut outcome).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    drop(store);
    disk.restart();
    let store = open(&disk, small(), Mode::Inline).unwrap();
    check(&store, &mut outcome, "after the disk was full").await;
}

#[tokio::test]
async fn any_capacity_and_a_crash_lose_nothing() {
    for seed in 0..300 {
        let context = format!("seed {seed}");
        let disk = SimDisk::new(seed);
        let store = open(&disk, small(), Mode::Inline).unwrap();
        let mut outcome = Outcome::default();
        for round in 0..6 {
            disk.set_capacity(Some(2_000 + (seed * 131 + round * 977) % 15_000));
            run(&store, &workload(), &mut outcome).await;
            if let Some(error) = outcome.error.take() {
                assert!(matches!(error, Error::Full), "{context}: {error}");
            }
        }
        assert_eq!(content(&store).await, outcome.expected, "{context}");
        drop(store);
        disk.set_capacity(None);
        disk.restart();
        let store = open(&disk, small(), Mode::Inline).unwrap_or_else(|error| panic!("{context}: {error}"));
        check(&store, &mut outcome, &context).await;
    }
}

/// Some file systems need room even to overwrite what was reserved.
#[tokio::test]
async fn a_write_that_finds_no_room_at_any_step_leaves_nothing_behind() {
    let steps = steps().await;
    for step in 1..steps {
        for seed in 0..6 {
            let context = format!("step {step}, seed {seed}");
            let disk = SimDisk::new(seed * 1_000 + step);
            disk.fill_at(step);
            let mut outcome = Outcome::default();
            let Ok(store) = open(&disk, small(), Mode::Inline) else {
                continue;
            };
            for _ in 0..2 {
                run(&store, &workload(), &mut outcome).await;
                if let Some(error) = outcome.error.take() {
                    assert!(matches!(error, Error::Full), "{context}: {error}");
                    if (step + seed) % 3 == 0 {
                        break;
                    }
                    // A small one goes where the large one did not fit.
                    run(&store, &[common::Op::Put(0, 1)], &mut outcome).await;
                    if (step + seed) % 3 == 1 {
                        break;
                    }
                }
            }
            drop(store);
            disk.restart();
            let store =
                open(&disk, small(), Mode::Inline).unwrap_or_else(|error| panic!("{context}: {error}"));
            check(&store, &mut outcome, &context).await;
        }
    }
}
