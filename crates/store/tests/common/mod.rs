//! What the store's tests share: a workload, and the naive model that it is checked against.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod asking;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use clock::disk::Disk;
use futures::future::{join, join_all, maybe_done};
use source::conformance::draft;
use source::{Change, Error, Expect, Key, ListRequest, Object, ObjectSource, Resource, Revision, Write};
use store::{Mode, OpenError, Options, Store};

use asking::Gate;

/// Small files, so that a short workload rotates and makes snapshots.
pub(crate) fn small() -> Options {
    Options {
        segment_bytes: 1_500,
        snapshot_bytes: 4_000,
        reserve_bytes: 600,
        ..Options::default()
    }
}

pub(crate) fn open(
    disk: &(impl Disk + Clone + 'static),
    options: Options,
    mode: Mode,
) -> Result<Arc<Store>, OpenError> {
    Store::open(Arc::new(disk.clone()), options, mode)
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(&Resource::new("", "pods"), "default", name)
}

pub(crate) fn put(name: &str, content: &str) -> Write {
    Write {
        key: key(name),
        expect: Expect::Any,
        change: Change::Put(draft(name, "l", content)),
    }
}

pub(crate) fn delete(name: &str) -> Write {
    Write {
        key: key(name),
        expect: Expect::Present,
        change: Change::Delete,
    }
}

/// One operation of a workload.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Put(usize, usize),
    Delete(usize),
}

impl Op {
    pub(crate) fn write(&self) -> Write {
        match self {
            Self::Put(index, length) => put(&name(*index), &"x".repeat(*length)),
            Self::Delete(index) => delete(&name(*index)),
        }
    }

    /// Applies it to the objects at a revision; false if it is refused.
    fn apply(&self, objects: &mut Expected, revision: Revision) -> bool {
        match self {
            Self::Put(index, length) => {
                let draft = draft(&name(*index), "l", &"x".repeat(*length));
                let mut json = draft.json.to_vec();
                json.splice(draft.splice..draft.splice, revision.to_string().bytes());
                objects.insert(name(*index), (revision, json));
                true
            }
            Self::Delete(index) => objects.remove(&name(*index)).is_some(),
        }
    }
}

pub(crate) fn name(index: usize) -> String {
    format!("object-{index}")
}

/// A fixed workload that rotates several segments and makes several snapshots.
pub(crate) fn workload() -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..70 {
        ops.push(Op::Put(round % 11, 20 + (round * 37) % 400));
        if round % 4 == 3 {
            ops.push(Op::Delete((round * 5) % 11));
        }
    }
    ops
}

/// What must be there: name to (revision, JSON).
pub(crate) type Expected = BTreeMap<String, (Revision, Vec<u8>)>;

/// Everything that is there.
pub(crate) async fn content(store: &Store) -> Expected {
    let resource = Resource::new("", "pods");
    let request = ListRequest {
        resource: &resource,
        namespace: None,
        filter: &|_| true,
        at: None,
        after: None,
        limit: 0,
    };
    let page = store.list(&request).await.expect("the store is open");
    let entry = |object: &Arc<Object>| {
        (
            object.key.name.to_string(),
            (object.revision, object.json.to_vec()),
        )
    };
    page.objects.iter().map(entry).collect()
}

/// What a run of a workload came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) expected: Expected,
    pub(crate) revision: Revision,
    /// The writes that were begun but not acknowledged, in their order.
    pub(crate) pending: Vec<Op>,
    pub(crate) error: Option<Error>,
}

impl Outcome {
    /// Takes in the answer to a write.
    fn note(&mut self, op: &Op, answer: Result<Arc<Object>, Error>) {
        match answer {
            Ok(object) => {
                assert!(self.pending.is_empty(), "acknowledged behind one that was not");
                assert!(object.revision > self.revision, "revisions grow");
                assert!(op.apply(&mut self.expected, object.revision), "{op:?} is granted");
                self.revision = object.revision;
            }
            Err(Error::NotFound(_)) => {
                let is_missing =
                    matches!(op, Op::Delete(index) if !self.expected.contains_key(&name(*index)));
                assert!(is_missing, "{op:?} is refused");
            }
            // What found no room must never come back.
            Err(error @ Error::Full) => self.error = Some(error),
            Err(error) => {
                self.pending.push(op.clone());
                self.error = Some(error);
            }
        }
    }
}

/// Writes until the end or the first failure of the disk.
pub(crate) async fn run(store: &Store, ops: &[Op], outcome: &mut Outcome) {
    for op in ops {
        outcome.note(op, store.write(op.write()).await);
        if outcome.error.is_some() {
            return;
        }
    }
}

/// Writes in batches: while the writer is held up at the sync of the first write of each, the others come to wait.
/// Ends when the disk fails; a full disk is noted in `error` and gone on with.
pub(crate) async fn run_batches(store: &Store, gate: &Gate, batches: &[Vec<Op>], outcome: &mut Outcome) {
    for batch in batches {
        let (first, others) = batch.split_first().expect("a batch has writes");
        gate.set(true);
        let mut head = maybe_done(store.write(first.write()));
        // Or it is refused before there is anything to sync.
        tokio::select! {
            biased;
            () = &mut head => {}
            () = gate.arrived() => {}
        }
        let mut rest = maybe_done(join_all(others.iter().map(|op| store.write(op.write()))));
        // All of them are in the queue once they were polled.
        tokio::select! {
            biased;
            () = &mut rest => {}
            () = std::future::ready(()) => {}
        }
        gate.set(false);
        join(&mut head, &mut rest).await;
        let (head, rest) = (
            Pin::new(&mut head).take_output(),
            Pin::new(&mut rest).take_output(),
        );
        for (op, answer) in batch
            .iter()
            .zip(head.into_iter().chain(rest.into_iter().flatten()))
        {
            outcome.note(op, answer);
        }
        if !outcome.pending.is_empty() {
            return;
        }
    }
}

/// Whether some of the pending writes, in their order and each whole, make what is found of what was there.
fn explains(there: (&Expected, Revision), pending: &[Op], found: (&Expected, Revision)) -> bool {
    let (objects, revision) = there;
    if revision >= found.1 {
        return there == found;
    }
    let Some((op, rest)) = pending.split_first() else {
        return false;
    };
    let next = Revision(revision.0 + 1);
    let mut with = objects.clone();
    (op.apply(&mut with, next) && explains((&with, next), rest, found)) || explains(there, rest, found)
}

/// Checks a reopened store: it holds what was acknowledged, and of the writes that were begun each whole or not at
/// all.
pub(crate) async fn check(store: &Store, outcome: &mut Outcome, context: &str) {
    let (found, revision) = (content(store).await, store.revision());
    let acknowledged = Revision(outcome.revision.0.max(1));
    assert!(
        explains(
            (&outcome.expected, acknowledged),
            &outcome.pending,
            (&found, revision)
        ),
        "{context}: {found:#?} at {revision} is not {:#?} at {acknowledged} and some of {:?}",
        outcome.expected,
        outcome.pending
    );
    outcome.expected = found;
    outcome.revision = revision;
    outcome.pending.clear();
    outcome.error = None;
}
