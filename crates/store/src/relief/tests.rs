use std::sync::Arc;

use clock::disk::SimDisk;
use source::conformance::draft;
use source::{Change, Expect, Key, Resource, Revision};

use super::*;
use crate::options::Mode;
use crate::state::{Limits, State};
use crate::writer::{Parts, Shared};

fn key(name: &str) -> Key {
    Key::new(&Resource::new("", "pods"), "default", name)
}

fn put(name: &str, length: usize) -> Write {
    Write {
        key: key(name),
        expect: Expect::Any,
        change: Change::Put(draft(name, "l", &"x".repeat(length))),
    }
}

fn delete(name: &str) -> Write {
    Write {
        key: key(name),
        expect: Expect::Any,
        change: Change::Delete,
    }
}

/// A writer on a disk that is full of these objects.
fn full(names: &[&str]) -> (SimDisk, Writer) {
    let disk = SimDisk::new(1);
    let header = Header {
        kind: Kind::Segment,
        incarnation: 1,
        segment: 1,
        revision: 1,
        count: 0,
    };
    let limits = Limits { events: 1, bytes: 1 };
    let mut writer = Writer::new(Parts {
        shared: Arc::new(Shared::new(State::new(Revision(1), limits))),
        disk: Arc::new(disk.clone()),
        mode: Mode::Inline,
        segment_bytes: 1 << 20,
        snapshot_bytes: 1 << 20,
        incarnation: 1,
        segment: Segment::create(&disk, &header, 1 << 20, 0).unwrap(),
        log_bytes: 0,
        snapshot_size: 0,
        reserve_bytes: 2_000,
    });
    writer.begin().unwrap();
    disk.set_capacity(Some(30_000));
    for name in names {
        let committed = writer.commit(vec![put(name, 2_000)]);
        assert!(committed.answers[0].is_ok(), "{name}");
    }
    // Everything ahead of what is kept back is given back.
    writer.segment.release().unwrap();
    assert!(writer.segment.keep_back(writer.room(0).all()).unwrap());
    disk.set_capacity(Some(disk.used()));
    (disk, writer)
}

/// The answers, shortly.
fn answers(committed: &Committed) -> Vec<&'static str> {
    let answer = |answer: &Result<_, Error>| match answer {
        Ok(_) => "ok",
        Err(Error::Full) => "full",
        Err(Error::NotFound(_)) => "not found",
        Err(_) => "other",
    };
    committed.answers.iter().map(answer).collect()
}

#[test]
fn a_batch_that_finds_no_room_still_removes() {
    let (_, mut writer) = full(&["a", "b", "c"]);
    let batch = vec![put("x", 2_500), delete("a"), delete("x"), put("b", 2_500)];
    let committed = writer.commit(batch);
    assert_eq!(answers(&committed), ["full", "ok", "not found", "full"]);
    let state = writer.shared.read();
    assert!(state.get(&key("a")).is_none() && state.get(&key("x")).is_none());
    assert_eq!(state.revision(), Revision(5));
    assert!(writer.shortage.is_short() && writer.shared.counters.read_only.get());
}

#[test]
fn while_there_is_no_room_no_write_takes_another_with_it() {
    let (_, mut writer) = full(&["a", "b", "c"]);
    assert_eq!(answers(&writer.commit(vec![put("x", 2_500)])), ["full"]);
    let batch = vec![put("x", 2_500), put("a", 100), put("y", 2_500), delete("nothing")];
    assert_eq!(
        answers(&writer.commit(batch)),
        ["full", "ok", "full", "not found"]
    );
}

#[test]
fn it_is_read_only_until_what_found_no_room_fits() {
    let (disk, mut writer) = full(&["a", "b", "c"]);
    assert_eq!(answers(&writer.commit(vec![put("x", 2_500)])), ["full"]);
    disk.set_capacity(Some(disk.used() + 1_000));
    assert_eq!(answers(&writer.commit(vec![put("small", 100)])), ["ok"]);
    assert!(writer.shortage.is_short(), "there is room for a little only");
    disk.set_capacity(Some(disk.used() + 6_000));
    assert_eq!(answers(&writer.commit(vec![put("small", 100)])), ["ok"]);
    assert_eq!(answers(&writer.commit(vec![put("another", 100)])), ["ok"]);
    assert!(!writer.shortage.is_short() && !writer.shared.counters.read_only.get());
}
