//! The store with its writer thread: grouped syncs, readers that never wait for the disk, ends.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use clock::disk::{SimDisk, SystemDisk};
use common::asking::{AskingDisk, Gate};
use common::{content, key, open, put, small};
use source::conformance::draft;
use source::{Change, Error, Expect, ListRequest, ObjectSource, Resource, Revision, WatchRequest, Write};
use store::{Mode, Options, Store};

fn gated() -> (AskingDisk<Gate>, Arc<Store>) {
    let disk = AskingDisk::new(&SimDisk::new(1), Gate::default());
    let store = open(&disk, Options::default(), Mode::Thread).unwrap();
    (disk, store)
}

#[tokio::test]
async fn many_writers_share_a_sync_and_none_is_answered_before_it() {
    let (disk, store) = gated();
    disk.asked.set(true);
    let before = disk.disk.syncs();
    let mut writers = Vec::new();
    for index in 0..200 {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            store.write(put(&format!("x{index}"), "1")).await
        }));
    }
    // All are queued now: the test's runtime has one thread.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(writers.iter().all(|writer| !writer.is_finished()));
    assert_eq!(
        content(&store).await.len(),
        0,
        "reads go on, and see nothing that is not durable"
    );
    assert_eq!(
        store.get(&key("x0")).await.unwrap().map(|object| object.revision),
        None
    );
    assert_eq!(disk.disk.syncs(), before);
    disk.asked.set(false);
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let syncs = disk.disk.syncs() - before;
    assert!(syncs <= 5, "{syncs} syncs for 200 writes");
    assert_eq!(store.stats().batches, syncs);
    let copy = disk.disk.after_crash(3);
    let reopened = open(&copy, Options::default(), Mode::Inline).unwrap();
    assert_eq!(content(&reopened).await, content(&store).await);
}

#[tokio::test]
async fn a_batch_decides_by_what_it_has_staged() {
    let (disk, store) = gated();
    disk.asked.set(true);
    let first = {
        let store = store.clone();
        tokio::spawn(async move { store.write(put("first", "1")).await })
    };
    let expectations = [
        Expect::Absent,
        Expect::Absent,
        Expect::Present,
        Expect::Revision(Revision(3)),
    ];
    let mut writers = Vec::new();
    for expect in expectations {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            let write = Write {
                expect,
                ..put("same", "1")
            };
            store.write(write).await
        }));
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    disk.asked.set(false);
    first.await.unwrap().unwrap();
    let mut answers = Vec::new();
    for writer in writers {
        answers.push(match writer.await.unwrap() {
            Ok(object) => object.revision.to_string(),
            Err(error) => error.to_string(),
        });
    }
    let expected = [
        "3",
        r#"pods "default/same" already exists"#,
        "4",
        r#"pods "default/same" was changed: it is at revision 4"#,
    ];
    assert_eq!(answers, expected);
}

#[tokio::test]
async fn an_abandoned_write_still_happens() {
    let (disk, store) = gated();
    disk.asked.set(true);
    let writer = {
        let store = store.clone();
        tokio::spawn(async move { store.write(put("x", "1")).await })
    };
    tokio::task::yield_now().await;
    writer.abort();
    disk.asked.set(false);
    store.write(put("y", "1")).await.unwrap();
    assert_eq!(content(&store).await.len(), 2);
}

#[tokio::test]
async fn closing_finishes_what_was_begun_and_ends_watches() {
    let disk = SimDisk::new(1);
    let store = open(&disk, small(), Mode::Thread).unwrap();
    let resource = Resource::new("", "pods");
    let request = WatchRequest {
        resource: &resource,
        namespace: None,
        after: Revision(1),
    };
    let mut watch = store.watch(&request).await.unwrap();
    let mut writers = Vec::new();
    for index in 0..50 {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            store.write(put(&format!("x{index}"), "1")).await
        }));
    }
    tokio::task::yield_now().await;
    store.close().await;
    let mut written = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(_) => written += 1,
            Err(error) => assert!(matches!(error, Error::Closed(_)), "{error}"),
        }
    }
    let mut seen = 0;
    let error = loop {
        match watch.next().await {
            Ok(events) => seen += events.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Closed(_)), "{error}");
    assert_eq!(seen, written);
    assert!(matches!(store.write(put("x", "1")).await, Err(Error::Closed(_))));
    assert!(matches!(store.get(&key("x")).await, Err(Error::Closed(_))));
    store.close().await;
    let reopened = open(&disk, small(), Mode::Thread).unwrap();
    assert_eq!(content(&reopened).await.len(), written);
}

#[tokio::test]
async fn a_failed_sync_closes_the_store_for_all_waiting() {
    let disk = SimDisk::new(1);
    let store = open(&disk, small(), Mode::Thread).unwrap();
    store.write(put("x", "1")).await.unwrap();
    disk.fail_sync_at(0);
    let mut writers = Vec::new();
    for index in 0..20 {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            store.write(put(&format!("x{index}"), "1")).await
        }));
    }
    for writer in writers {
        let error = writer.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Closed(_)), "{error}");
    }
    let reason = store.closed().unwrap();
    assert!(reason.contains("sync"), "{reason}");
}

#[tokio::test]
async fn too_large_objects_are_refused() {
    let options = Options {
        object_limit: 200,
        ..Options::default()
    };
    let store = open(&SimDisk::new(1), options, Mode::Thread).unwrap();
    let error = store.write(put("x", &"x".repeat(300))).await.unwrap_err();
    let expected = r#"pods "default/x" has 378 bytes, the limit is 200"#;
    assert_eq!(error.to_string(), expected);
    store.write(put("x", "x")).await.unwrap();
}

#[tokio::test]
async fn snapshots_are_made_beside_the_writes() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 20_000,
        snapshot_bytes: 50_000,
        ..Options::default()
    };
    let disk = Arc::new(SystemDisk::open(directory.path()).unwrap());
    let store = Store::open(disk, options.clone(), Mode::Thread).unwrap();
    for index in 0..2_000 {
        store
            .write(put(&format!("x{}", index % 20), &"x".repeat(500)))
            .await
            .unwrap();
    }
    let before = content(&store).await;
    let incarnation = store.incarnation();
    store.close().await;
    assert!(store.stats().snapshots >= 5);
    drop(store);
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert!(files < 12, "{files} files are left");
    let disk = Arc::new(SystemDisk::open(directory.path()).unwrap());
    let store = Store::open(disk, options, Mode::Thread).unwrap();
    assert_eq!(content(&store).await, before);
    assert_eq!(store.revision(), Revision(2_001));
    assert_eq!(store.incarnation(), incarnation);
}

#[tokio::test]
async fn long_lists_are_whole_while_writers_write() {
    let store = open(&SimDisk::new(1), Options::default(), Mode::Thread).unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for index in 0..6_000 {
        let store = store.clone();
        writers.spawn(async move { store.write(put(&format!("x{index:05}"), "1")).await.unwrap() });
    }
    writers.join_all().await;
    let churn = {
        let store = store.clone();
        tokio::spawn(async move {
            for index in 0..300 {
                store
                    .write(put(&format!("x{:05}", index * 17), "2"))
                    .await
                    .unwrap();
            }
        })
    };
    let resource = Resource::new("", "pods");
    for _ in 0..30 {
        let request = ListRequest {
            resource: &resource,
            namespace: None,
            filter: &|_| true,
            at: None,
            after: None,
            limit: 0,
        };
        let page = store.list(&request).await.unwrap();
        assert_eq!(page.objects.len(), 6_000);
        assert!(page.objects.iter().all(|object| object.revision <= page.revision));
        tokio::task::yield_now().await;
    }
    churn.await.unwrap();
}

#[tokio::test]
async fn a_thousand_watchers_see_a_thousand_creations() {
    let store = open(&SimDisk::new(1), Options::default(), Mode::Thread).unwrap();
    let resource = Resource::new("", "pods");
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let request = WatchRequest {
            resource: &resource,
            namespace: None,
            after: Revision(1),
        };
        let mut watch = store.watch(&request).await.unwrap();
        watchers.spawn(async move {
            let mut seen = 1;
            while seen < 1_001 {
                for event in watch.next().await.unwrap() {
                    seen += 1;
                    assert_eq!(event.revision(), Revision(seen));
                }
            }
        });
    }
    let mut writers = tokio::task::JoinSet::new();
    for index in 0..1_000 {
        let store = store.clone();
        writers.spawn(async move {
            let write = Write {
                key: key(&format!("x{index}")),
                expect: Expect::Absent,
                change: Change::Put(draft(&format!("x{index}"), "l", "1")),
            };
            store.write(write).await.unwrap();
        });
    }
    writers.join_all().await;
    let all = tokio::time::timeout(Duration::from_secs(60), watchers.join_all());
    assert_eq!(all.await.expect("every watcher gets there").len(), 1_000);
}
