//! How fast the store is: `cargo run --release -p store --example throughput [-- DIRECTORY]`.
//!
//! Without a directory it writes to a disk in memory, which leaves the price of syncs out.

#![allow(clippy::print_stdout, reason = "it is there to print")]

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clock::disk::{Disk, DiskFile, SystemDisk};
use source::conformance::draft;
use source::{Change, Expect, Key, ListRequest, ObjectSource, Resource, Revision, WatchRequest, Write};
use store::{Mode, Options, Store};

const CLIENTS: usize = 32;
const OBJECTS: usize = 100_000;

/// Takes everything and keeps the log's headers at best: only its speed matters.
#[derive(Debug, Clone, Default)]
struct NullDisk(Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct NullFile;

impl Disk for NullDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().expect("nothing panics here").clone())
    }
    fn read(&self, _: &str) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(NullFile))
    }
    fn open(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(NullFile))
    }
    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for NullFile {
    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn report(what: &str, count: usize, took: Duration) {
    let each = took / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<44} {count:>8} in {took:>10.2?}  {each:>10.2?} each  {rate:>12.0} /s");
}

fn pods() -> Resource {
    Resource::new("", "pods")
}

fn write(resource: &Resource, index: usize, expect: Expect, content: &str) -> Write {
    let name = format!("object-{index:06}");
    Write {
        key: Key::new(resource, "default", &name),
        expect,
        change: Change::Put(draft(&name, "l", content)),
    }
}

/// Writes `count` objects from many tasks.
async fn load(store: &Arc<Store>, resource: &str, count: usize, expect: Expect) -> Duration {
    let content = "x".repeat(1_024);
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (store, content, resource) = (store.clone(), content.clone(), Resource::from(resource));
        clients.spawn(async move {
            for index in (client..count).step_by(CLIENTS) {
                store
                    .write(write(&resource, index, expect, &content))
                    .await
                    .expect("the write is granted");
            }
        });
    }
    clients.join_all().await;
    start.elapsed()
}

async fn reads(store: &Arc<Store>) {
    let resource = pods();
    let keys: Vec<Key> = (0..OBJECTS)
        .map(|index| {
            Key::new(
                &resource,
                "default",
                &format!("object-{:06}", (index * 7_919) % OBJECTS),
            )
        })
        .collect();
    let start = Instant::now();
    for key in &keys {
        let object = store.get(key).await.expect("the store is open");
        assert!(object.is_some());
    }
    report("get", keys.len(), start.elapsed());
    for limit in [500, 4_000, 0] {
        let request = ListRequest {
            resource: &resource,
            namespace: None,
            filter: &|_| true,
            at: None,
            after: None,
            limit,
        };
        let start = Instant::now();
        let rounds = 20;
        let mut objects = 0;
        for _ in 0..rounds {
            objects = store
                .list(&request)
                .await
                .expect("the store is open")
                .objects
                .len();
        }
        report(
            &format!("list of {objects} among {OBJECTS}"),
            rounds,
            start.elapsed(),
        );
    }
}

async fn watchers(store: &Arc<Store>, count: usize) {
    let resource = Resource::from("nodes");
    let after = store.revision();
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..count {
        let request = WatchRequest {
            resource: &resource,
            namespace: None,
            after,
        };
        let mut watch = store.watch(&request).await.expect("now can be watched from");
        watchers.spawn(async move {
            let mut seen = 0;
            while seen < 1_000 {
                seen += watch.next().await.expect("nobody is that slow").len();
            }
        });
    }
    let start = Instant::now();
    load(store, "nodes", 1_000, Expect::Absent).await;
    let written = start.elapsed();
    watchers.join_all().await;
    report(&format!("creates before {count} watchers"), 1_000, written);
    report("events seen by them", 1_000 * count, start.elapsed());
}

async fn run(disk: Arc<dyn Disk>, objects: usize) -> Arc<Store> {
    let store = Store::open(disk, Options::default(), Mode::Thread).expect("the disk is good");
    if store.revision() > Revision(1) {
        println!("opened at revision {}", store.revision());
        return store;
    }
    let took = load(&store, "pods", objects, Expect::Absent).await;
    report("creates of 1 KiB by 32 clients", objects, took);
    let took = load(&store, "pods", objects, Expect::Present).await;
    report("updates of 1 KiB by 32 clients", objects, took);
    println!("{:?}", store.stats());
    store
}

#[tokio::main]
async fn main() {
    match std::env::args_os().nth(1) {
        None => {
            let store = run(Arc::new(NullDisk::default()), OBJECTS).await;
            reads(&store).await;
            watchers(&store, 1_000).await;
        }
        Some(directory) => {
            let directory = PathBuf::from(directory);
            let disk = Arc::new(SystemDisk::open(&directory).expect("the directory is free"));
            let store = run(disk, 20_000).await;
            store.close().await;
            drop(store);
            let start = Instant::now();
            let disk = Arc::new(SystemDisk::open(&directory).expect("the directory is free"));
            let store = Store::open(disk, Options::default(), Mode::Thread).expect("the disk is good");
            let stats = store.stats();
            println!(
                "recovery of {} objects and {} events in {:.2?}",
                stats.objects,
                stats.events,
                start.elapsed()
            );
        }
    }
}
