//! Writes that wait together: crashes and failing syncs at every step of their batches, on disks with room and on
//! full ones.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use clock::disk::SimDisk;
use common::asking::{AskingDisk, Gate};
use common::{Op, Outcome, check, open, run_batches};
use source::Error;
use store::{Mode, Options, Stats};

#[derive(Debug, Clone, Copy)]
enum Fault {
    Crash,
    FailedSync,
}

/// Where batches are written, and how.
struct Case {
    options: Options,
    capacity: Option<u64>,
    batches: Vec<Vec<Op>>,
}

impl Case {
    /// Writes all batches on a disk that does not crash. How many steps that takes, and what the store has done.
    async fn whole(&self) -> (u64, Stats) {
        let disk = SimDisk::new(0);
        let mut outcome = Outcome::default();
        let stats = self.write(&disk, &mut outcome).await.unwrap();
        assert!(outcome.pending.is_empty(), "{:?}", outcome.error);
        (disk.steps(), stats)
    }

    async fn write(&self, disk: &SimDisk, outcome: &mut Outcome) -> Option<Stats> {
        disk.set_capacity(self.capacity);
        let asking = AskingDisk::new(disk, Gate::default());
        let store = open(&asking, self.options.clone(), Mode::Thread).ok()?;
        run_batches(&store, &asking.asked, &self.batches, outcome).await;
        Some(store.stats())
    }

    /// Crashes at a step or lets a sync fail from there on, looks at what is left, writes on, and looks once more.
    async fn fault_at(&self, step: u64, seed: u64, fault: Fault) {
        let context = format!("step {step}, seed {seed}, {fault:?}");
        let disk = SimDisk::new(seed);
        match fault {
            Fault::Crash => disk.crash_at(step),
            Fault::FailedSync => disk.fail_sync_at(step),
        }
        let mut outcome = Outcome::default();
        self.write(&disk, &mut outcome).await;
        if !outcome.pending.is_empty() {
            assert!(matches!(outcome.error, Some(Error::Closed(_))), "{context}");
        }
        match fault {
            Fault::Crash => disk.restart(),
            Fault::FailedSync => {
                disk.kill();
                disk.fail_sync_at(u64::MAX);
            }
        }
        self.look(&disk, &mut outcome, &context).await;
        // What was read once stays, even if the machine ends now.
        disk.restart();
        self.look(&disk, &mut outcome, &context).await;
        let stats = self.write(&disk, &mut outcome).await;
        assert!(stats.is_some_and(|stats| stats.writes > 0), "{context}");
        assert!(outcome.pending.is_empty(), "{context}: {:?}", outcome.error);
        disk.restart();
        self.look(&disk, &mut outcome, &context).await;
    }

    async fn look(&self, disk: &SimDisk, outcome: &mut Outcome, context: &str) {
        let store = open(disk, self.options.clone(), Mode::Inline)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        check(&store, outcome, context).await;
    }

    async fn fault_everywhere(&self, steps: u64, seeds: u64) {
        for step in 1..=steps {
            for seed in 0..seeds {
                self.fault_at(step, seed * 1_000_003 + step, Fault::Crash).await;
            }
        }
        for step in 1..=steps {
            self.fault_at(step, step, Fault::FailedSync).await;
        }
    }
}

/// Objects are created, updated and removed, some of them twice in one batch.
fn mixed() -> Vec<Vec<Op>> {
    let length = |round: usize| 20 + (round * 37) % 130;
    let batch = |round: usize| {
        let [a, b, c, d] = [0, 2, 3, 5].map(|offset| 1 + (round * 3 + offset) % 7);
        vec![
            Op::Put(0, length(round)),
            Op::Put(a, length(round + 1)),
            Op::Delete(b),
            Op::Put(c, length(round + 2)),
            Op::Delete(a),
            Op::Put(b, length(round + 3)),
            Op::Put(c, length(round + 4)),
            Op::Delete(d),
        ]
    };
    (0..14).map(batch).collect()
}

/// The writer's steps alone: each run of a seed is the same.
#[tokio::test]
async fn a_fault_at_any_step_of_batches_loses_nothing_acknowledged() {
    let case = Case {
        options: Options {
            segment_bytes: 4_000,
            snapshot_bytes: u64::MAX,
            reserve_bytes: 600,
            ..Options::default()
        },
        capacity: None,
        batches: mixed(),
    };
    let (steps, stats) = case.whole().await;
    assert_eq!(
        stats.batches,
        2 * case.batches.len() as u64,
        "a first write, then the others"
    );
    assert_eq!(case.whole().await, (steps, stats));
    case.fault_everywhere(steps, 6).await;
}

/// A snapshot's steps fall between those of the batches, each time otherwise.
#[tokio::test]
async fn a_fault_while_a_snapshot_is_made_beside_batches_loses_nothing_acknowledged() {
    let case = Case {
        options: Options {
            segment_bytes: 3_000,
            snapshot_bytes: 5_000,
            reserve_bytes: 600,
            ..Options::default()
        },
        capacity: None,
        batches: mixed(),
    };
    let (steps, stats) = case.whole().await;
    // How many are made, the machine's pace decides.
    assert!(stats.snapshots >= 1, "{stats:?}");
    case.fault_everywhere(steps, 6).await;
}

/// Batches that find no room: their removals are committed apart from the rest, and so is each write from then on.
#[tokio::test]
async fn a_fault_at_any_step_of_batches_on_a_full_disk_loses_nothing_acknowledged() {
    const LARGE: usize = 2_500;
    let batch = |round: usize| {
        let [a, b, c, d] = [0, 1, 2, 9].map(|offset| 1 + (round * 3 + offset) % 14);
        vec![
            Op::Put(0, 1 + round),
            Op::Put(a, LARGE + round),
            Op::Delete(b),
            Op::Put(b, LARGE / 2),
            Op::Put(0, 100 + round),
            Op::Put(c, LARGE),
            Op::Delete(d),
        ]
    };
    let case = Case {
        options: Options {
            segment_bytes: 1 << 20,
            snapshot_bytes: 1 << 20,
            reserve_bytes: 2_000,
            ..Options::default()
        },
        capacity: Some(34_000),
        batches: (0..14).map(batch).collect(),
    };
    let (steps, stats) = case.whole().await;
    assert!(stats.full > 20 && stats.snapshots >= 2, "{stats:?}");
    let together = 2 * case.batches.len() as u64;
    assert!(
        stats.batches > together + 10,
        "{stats:?}: many are committed apart"
    );
    assert_eq!(case.whole().await, (steps, stats));
    case.fault_everywhere(steps, 3).await;
}
