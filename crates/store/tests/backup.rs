//! Backups, and stores that begin anew from them: whole or recognised as not, whatever happens on the way.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::sync::Arc;

use clock::disk::{Disk, SimDisk};
use common::{Expected, content, open, put, small};
use source::{Error, ObjectSource, Resource, Revision, WatchRequest};
use store::{Mode, OpenError, Options, Store};

/// How a backup is opened.
fn restore() -> Options {
    Options {
        new_incarnation: true,
        ..small()
    }
}

#[tokio::test]
async fn a_backup_is_consistent_and_opens_as_a_new_incarnation() {
    let disk = SimDisk::new(1);
    let store = open(&disk, small(), Mode::Thread).unwrap();
    for index in 0..100 {
        store.write(put(&format!("x{}", index % 30), "1")).await.unwrap();
    }
    let copy = SimDisk::new(2);
    let copied = store.backup(&copy).unwrap();
    let revision = copied.revision;
    assert_eq!(copied.objects, 30);
    assert_eq!(revision, store.revision());
    let before = content(&store).await;
    store.write(put("later", "1")).await.unwrap();
    let restored = open(&copy, restore(), Mode::Inline).unwrap();
    assert_eq!(content(&restored).await, before);
    assert_eq!(restored.revision(), Revision(revision.0 + (1 << 32)));
    assert_ne!(restored.incarnation(), store.incarnation());
    let resource = Resource::new("", "pods");
    let request = WatchRequest {
        resource: &resource,
        namespace: None,
        after: revision,
    };
    let error = restored
        .watch(&request)
        .await
        .err()
        .expect("all before is expired");
    assert!(matches!(error, Error::Expired { .. }), "{error}");
    let object = restored.write(put("x1", "2")).await.unwrap();
    assert_eq!(object.revision.0, revision.0 + (1 << 32) + 1);
    let (after, incarnation) = (content(&restored).await, restored.incarnation());
    drop(restored);
    copy.restart();
    let again = open(&copy, small(), Mode::Inline).unwrap();
    assert_eq!(content(&again).await, after);
    assert_eq!(again.incarnation(), incarnation);
}

#[tokio::test]
async fn a_crash_while_a_new_incarnation_begins_leaves_the_old_or_the_new() {
    for step in 1.. {
        let disk = SimDisk::new(step);
        let store = open(&disk, small(), Mode::Inline).unwrap();
        for index in 0..60 {
            store.write(put(&format!("x{}", index % 9), "1")).await.unwrap();
        }
        let (before, old) = (content(&store).await, store.revision());
        drop(store);
        disk.crash_at(disk.steps() + step);
        let done = open(&disk, restore(), Mode::Inline).is_ok() && !disk.is_crashed();
        disk.restart();
        let store = open(&disk, small(), Mode::Inline).unwrap();
        assert_eq!(content(&store).await, before, "step {step}");
        let new = Revision(old.0 + (1 << 32));
        assert!(
            [old, new].contains(&store.revision()),
            "step {step}: {}",
            store.revision()
        );
        if done {
            assert_eq!(store.revision(), new);
            return;
        }
    }
}

/// A store with some objects, and what is in it.
async fn filled(disk: &SimDisk) -> (Arc<Store>, Expected) {
    let store = open(disk, small(), Mode::Inline).unwrap();
    for index in 0..30 {
        store.write(put(&format!("x{}", index % 9), "1")).await.unwrap();
    }
    let before = content(&store).await;
    (store, before)
}

/// Opens what a backup left: all of it, or refused as nothing.
async fn restored(copy: &SimDisk, context: &str) -> Option<Expected> {
    match open(copy, restore(), Mode::Inline) {
        Ok(store) => Some(content(&store).await),
        Err(OpenError::Missing) => None,
        Err(error) => panic!("{context}: {error}"),
    }
}

/// The store that a failed backup was made of goes on, and its files are as they were.
async fn check_unhurt(store: &Store, disk: &SimDisk, before: &Expected, context: &str) {
    assert_eq!(store.closed(), None, "{context}");
    assert_eq!(content(store).await, *before, "{context}");
    let reopened = open(&disk.after_crash(1), small(), Mode::Inline).unwrap();
    assert_eq!(content(&reopened).await, *before, "{context}");
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_backup_leaves_all_of_it_or_nothing() {
    let disk = SimDisk::new(1);
    let (store, mut before) = filled(&disk).await;
    let (mut whole, mut nothing) = (0, 0);
    for step in 1.. {
        for seed in 0..20 {
            let context = format!("step {step}, seed {seed}");
            let copy = SimDisk::new(seed * 1_000_003 + step);
            copy.crash_at(step);
            let steps = disk.steps();
            let result = store.backup(&copy);
            assert_eq!(disk.steps(), steps, "{context}: the store's disk is left alone");
            if !copy.is_crashed() {
                assert_eq!(result.unwrap().revision, store.revision());
                assert!(step > 5 && whole > 0 && nothing > 0, "{step} {whole} {nothing}");
                return;
            }
            assert!(
                matches!(result, Err(OpenError::Disk { .. })),
                "{context}: {result:?}"
            );
            check_unhurt(&store, &disk, &before, &context).await;
            copy.restart();
            match restored(&copy, &context).await {
                Some(found) => {
                    assert_eq!(found, before, "{context}");
                    whole += 1;
                }
                None => nothing += 1,
            }
        }
        store.write(put(&format!("x{step}"), "later")).await.unwrap();
        before = content(&store).await;
    }
}

#[tokio::test]
async fn a_backup_that_fails_can_be_made_again_in_the_same_place() {
    let disk = SimDisk::new(1);
    let (store, before) = filled(&disk).await;
    let steps = {
        let copy = SimDisk::new(1);
        store.backup(&copy).unwrap();
        copy.steps()
    };
    for step in 1..=steps {
        for is_full in [false, true] {
            let context = format!("step {step}, full: {is_full}");
            let copy = SimDisk::new(step);
            if is_full {
                copy.set_capacity(Some(step * 100));
            } else {
                copy.fail_sync_at(step);
            }
            let result = store.backup(&copy);
            assert!(
                matches!(result, Err(OpenError::Disk { .. })),
                "{context}: {result:?}"
            );
            check_unhurt(&store, &disk, &before, &context).await;
            copy.set_capacity(None);
            assert_eq!(
                store.backup(&copy).unwrap().revision,
                store.revision(),
                "{context}"
            );
            copy.restart();
            assert_eq!(restored(&copy, &context).await, Some(before.clone()), "{context}");
        }
    }
}

#[tokio::test]
async fn a_backup_that_was_not_finished_is_refused_and_left_as_it_is() {
    let copy = SimDisk::new(1);
    copy.plant("snapshot.tmp", b"the half of it");
    let error = open(&copy, restore(), Mode::Inline).unwrap_err();
    let expected = "there is no object store in the directory to begin a new incarnation of: \
                    if it should hold a backup, that was not finished, make it again";
    assert_eq!(error.to_string(), expected);
    assert_eq!(copy.list().unwrap(), ["snapshot.tmp"]);
    let empty = open(&SimDisk::new(1), restore(), Mode::Inline);
    assert!(matches!(empty, Err(OpenError::Missing)));
}
