//! Full disks: removals go through, room comes back by itself, and no crash on the way loses anything.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::sync::Arc;

use clock::disk::SimDisk;
use common::{Op, Outcome, check, content, delete, name, open, put, run};
use source::{Error, ObjectSource};
use store::{Mode, OpenError, Options, Store};

/// The room on the disk: fits a good ten of the [`LARGE`] objects.
const CAPACITY: u64 = 60_000;
const LARGE: usize = 2_500;

/// Files so large that the log is never replaced because of its length.
fn options() -> Options {
    Options {
        segment_bytes: 1 << 20,
        snapshot_bytes: 1 << 20,
        reserve_bytes: 2_000,
        ..Options::default()
    }
}

fn reopen(disk: &SimDisk, store: Arc<Store>) -> Arc<Store> {
    drop(store);
    disk.restart();
    open(disk, options(), Mode::Inline).unwrap()
}

/// Creates objects until there is no room; how many there are.
async fn fill(store: &Store, outcome: &mut Outcome) -> usize {
    for index in 0.. {
        run(store, &[Op::Put(index, LARGE)], outcome).await;
        if let Some(error) = outcome.error.take() {
            assert!(matches!(error, Error::Full), "{error}");
            return index;
        }
    }
    unreachable!("the disk is finite")
}

#[tokio::test]
async fn room_comes_back_once_objects_are_removed() {
    for restarts in 0..8 {
        for part in [1, 2, 4] {
            let context = format!("restarts {restarts:03b}, 1/{part} removed");
            let disk = SimDisk::new(restarts);
            disk.set_capacity(Some(CAPACITY));
            let mut store = open(&disk, options(), Mode::Inline).unwrap();
            let mut outcome = Outcome::default();
            let count = fill(&store, &mut outcome).await;
            assert!(count >= 10, "{count}");
            assert!(store.stats().read_only && store.closed().is_none(), "{context}");
            for round in 0..5 {
                if restarts & 1 != 0 {
                    store = reopen(&disk, store);
                }
                let removals: Vec<_> = (0..count).step_by(part).map(Op::Delete).collect();
                run(&store, &removals, &mut outcome).await;
                assert!(outcome.error.is_none(), "{context}, round {round}: a removal");
                if restarts & 2 != 0 {
                    store = reopen(&disk, store);
                }
                let again: Vec<_> = (0..count)
                    .step_by(part)
                    .map(|index| Op::Put(index, LARGE))
                    .collect();
                run(&store, &again, &mut outcome).await;
                assert!(
                    outcome.error.is_none(),
                    "{context}, round {round}: {:?}",
                    outcome.error
                );
                assert!(!store.stats().read_only, "{context}, round {round}");
                if restarts & 4 != 0 {
                    store = reopen(&disk, store);
                }
            }
            assert!(disk.used() <= CAPACITY);
            assert_eq!(content(&store).await, outcome.expected, "{context}");
            store = reopen(&disk, store);
            check(&store, &mut outcome, &context).await;
        }
    }
}

#[tokio::test]
async fn overwriting_never_finds_the_disk_full() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(CAPACITY));
    let store = open(&disk, options(), Mode::Inline).unwrap();
    for round in 0..300 {
        store
            .write(put(&name(round % 5), &"x".repeat(LARGE)))
            .await
            .unwrap();
    }
    assert!(store.stats().snapshots < 60, "each frees much");
}

#[tokio::test]
async fn removals_and_small_updates_go_through_while_others_are_refused() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(CAPACITY));
    let store = open(&disk, options(), Mode::Inline).unwrap();
    for index in 0..10 {
        store.write(put(&format!("small-{index}"), "x")).await.unwrap();
    }
    let mut outcome = Outcome {
        revision: store.revision(),
        ..Outcome::default()
    };
    fill(&store, &mut outcome).await;
    // Whoever else uses the disk takes the rest.
    disk.set_capacity(Some(disk.used()));
    while store.write(put("another", "x")).await.is_ok() {
        store.write(delete("another")).await.unwrap();
    }
    for round in 0..50 {
        let update = put(&format!("small-{}", round % 10), "y");
        let created = store.write(put("another", "x")).await;
        assert!(created.is_ok() || matches!(created, Err(Error::Full)));
        if let Err(error) = store.write(update).await {
            assert!(
                round >= 3 && matches!(error, Error::Full),
                "round {round}: {error}"
            );
            break;
        }
    }
    for index in 0..10 {
        store.write(delete(&format!("small-{index}"))).await.unwrap();
    }
}

#[tokio::test]
async fn everything_can_be_removed_however_little_is_kept_back() {
    for reserve_bytes in [0, 50, 100, 400, 2_000] {
        let options = || Options {
            reserve_bytes,
            ..options()
        };
        let disk = SimDisk::new(reserve_bytes);
        disk.set_capacity(Some(CAPACITY));
        let store = open(&disk, options(), Mode::Inline).unwrap();
        let mut count = 0;
        while store.write(put(&name(count), "of many")).await.is_ok() {
            count += 1;
        }
        for index in 0..count {
            let removed = store.write(delete(&name(index))).await;
            assert!(
                removed.is_ok() || reserve_bytes < 400,
                "{reserve_bytes}: {index} of {count}"
            );
        }
        if reserve_bytes >= 400 {
            store.write(put("large", &"x".repeat(20_000))).await.unwrap();
        }
    }
}

/// Fills the disk, removes, writes again, twice.
async fn fill_and_remove(store: &Store, outcome: &mut Outcome) {
    for _ in 0..2 {
        for index in 0..25 {
            run(store, &[Op::Put(index, LARGE)], outcome).await;
            match outcome.error.take() {
                None => {}
                Some(Error::Full) => {
                    break;
                }
                error => {
                    outcome.error = error;
                    return;
                }
            }
        }
        let ops: Vec<_> = (0..20)
            .filter(|index| index % 3 != 0)
            .map(Op::Delete)
            .chain((0..8).map(|index| Op::Put(index, LARGE / 2)))
            .collect();
        run(store, &ops, outcome).await;
        if outcome.error.is_some() {
            return;
        }
    }
}

#[tokio::test]
async fn a_crash_at_any_step_on_a_full_disk_loses_nothing_and_room_comes_back() {
    let steps = {
        let disk = SimDisk::new(0);
        disk.set_capacity(Some(CAPACITY));
        let store = open(&disk, options(), Mode::Inline).unwrap();
        let mut outcome = Outcome::default();
        fill_and_remove(&store, &mut outcome).await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let stats = store.stats();
        assert!(stats.snapshots >= 2 && stats.full >= 2, "{stats:?}");
        disk.steps()
    };
    for step in 1..=steps {
        for seed in 0..4 {
            let context = format!("step {step}, seed {seed}");
            let disk = SimDisk::new(seed * 1_000_003 + step);
            disk.set_capacity(Some(CAPACITY));
            disk.crash_at(step);
            let mut outcome = Outcome::default();
            if let Ok(store) = open(&disk, options(), Mode::Inline) {
                fill_and_remove(&store, &mut outcome).await;
            }
            // Crashes again and again while it opens, each time a step later.
            let store = opened_after_crashes(&disk, if seed % 2 == 0 { 1 } else { 60 }, &context);
            check(&store, &mut outcome, &context).await;
            let removals: Vec<_> = (0..25).map(Op::Delete).collect();
            run(&store, &removals, &mut outcome).await;
            assert!(outcome.error.is_none(), "{context}: {:?}", outcome.error);
            let again: Vec<_> = (0..8).map(|index| Op::Put(index, LARGE)).collect();
            run(&store, &again, &mut outcome).await;
            assert!(outcome.error.is_none(), "{context}: {:?}", outcome.error);
            let store = reopen(&disk, store);
            check(&store, &mut outcome, &context).await;
        }
    }
}

fn opened_after_crashes(disk: &SimDisk, first: u64, context: &str) -> Arc<Store> {
    for later in first.. {
        disk.restart();
        disk.crash_at(disk.steps() + later);
        match open(disk, options(), Mode::Inline) {
            Ok(store) if !disk.is_crashed() => {
                disk.crash_at(u64::MAX);
                return store;
            }
            Ok(_) => {}
            Err(OpenError::Disk { .. }) if disk.is_crashed() => {}
            Err(error) => panic!("{context}: {error}"),
        }
    }
    unreachable!("opening takes finitely many steps")
}

#[tokio::test]
async fn a_log_much_longer_than_what_is_alive_is_replaced_when_the_store_opens() {
    for mode in [Mode::Inline, Mode::Thread] {
        let disk = SimDisk::new(1);
        let store = open(&disk, options(), mode).unwrap();
        for _ in 0..600 {
            store.write(put("x", &"x".repeat(2_000))).await.unwrap();
        }
        store.write(put("x", "end")).await.unwrap();
        let before = content(&store).await;
        store.close().await;
        drop(store);
        let options = Options {
            snapshot_bytes: 2 << 20,
            ..options()
        };
        let longer = open(&disk, options.clone(), mode).unwrap();
        for _ in 0..600 {
            longer.write(put("y", &"x".repeat(2_000))).await.unwrap();
        }
        longer.write(delete("y")).await.unwrap();
        longer.close().await;
        let store = open(&disk, options, mode).unwrap();
        store.close().await;
        assert!(disk.used() < 100_000, "{}", disk.used());
        let store = open(&disk, self::options(), mode).unwrap();
        assert_eq!(content(&store).await, before);
    }
}
