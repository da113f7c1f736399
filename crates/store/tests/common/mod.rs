//! What the store's tests share: a workload, and the naive model that it is checked against.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::disk::Disk;
use source::conformance::draft;
use source::{Change, Error, Expect, Key, ListRequest, Object, ObjectSource, Resource, Revision, Write};
use store::{Mode, OpenError, Options, Store};

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

/// Applies what was acknowledged.
pub(crate) fn apply(expected: &mut Expected, op: &Op, object: &Object) {
    match op {
        Op::Put(index, _) => {
            expected.insert(name(*index), (object.revision, object.json.to_vec()));
        }
        Op::Delete(index) => {
            expected.remove(&name(*index));
        }
    }
}

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
    /// The write that was begun but not acknowledged.
    pub(crate) pending: Option<Op>,
    pub(crate) error: Option<Error>,
}

/// Writes until the end or the first failure of the disk.
pub(crate) async fn run(store: &Store, ops: &[Op], outcome: &mut Outcome) {
    for op in ops {
        match store.write(op.write()).await {
            Ok(object) => {
                assert!(object.revision > outcome.revision, "revisions grow");
                outcome.revision = object.revision;
                apply(&mut outcome.expected, op, &object);
            }
            Err(Error::NotFound(_)) => {}
            Err(error) => {
                outcome.pending = Some(op.clone());
                outcome.error = Some(error);
                return;
            }
        }
    }
}

/// Checks a reopened store: it holds what was acknowledged, with or without the one write that was begun.
pub(crate) async fn check(store: &Store, outcome: &mut Outcome, context: &str) {
    let found = content(store).await;
    if found == outcome.expected {
        assert!(
            store.revision() >= outcome.revision,
            "{context}: the revision went back"
        );
    } else {
        let pending = outcome.pending.as_ref();
        let pending =
            pending.unwrap_or_else(|| panic!("{context}: {found:#?} is not {:#?}", outcome.expected));
        let next = Revision(outcome.revision.0.max(1) + 1);
        let mut with = outcome.expected.clone();
        match pending {
            Op::Put(index, length) => {
                let draft = draft(&name(*index), "l", &"x".repeat(*length));
                let mut json = draft.json.to_vec();
                json.splice(draft.splice..draft.splice, next.to_string().bytes());
                with.insert(name(*index), (next, json));
            }
            Op::Delete(index) => {
                with.remove(&name(*index));
            }
        }
        assert_eq!(found, with, "{context}");
        assert_eq!(store.revision(), next, "{context}");
    }
    outcome.expected = found;
    outcome.revision = store.revision();
    outcome.pending = None;
    outcome.error = None;
}
