//! A simulated disk that asks before each change: whoever is asked holds it up, or makes it fail.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use clock::disk::{Disk, DiskFile, SimDisk};
use tokio::sync::Notify;

/// What a disk is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Sync,
    Other,
}

/// Who is asked before a change of a file (or of the directory, which has no name). It runs on the thread that asks.
pub(crate) trait Ask: Debug + Send + Sync + 'static {
    fn ask(&self, change: Change, file: &str) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct AskingDisk<A> {
    pub(crate) disk: SimDisk,
    pub(crate) asked: Arc<A>,
}

impl<A> Clone for AskingDisk<A> {
    fn clone(&self) -> Self {
        Self {
            disk: self.disk.clone(),
            asked: self.asked.clone(),
        }
    }
}

#[derive(Debug)]
struct AskingFile<A> {
    file: Box<dyn DiskFile>,
    name: String,
    asked: Arc<A>,
}

impl<A: Ask> AskingDisk<A> {
    pub(crate) fn new(disk: &SimDisk, asked: A) -> Self {
        Self {
            disk: disk.clone(),
            asked: Arc::new(asked),
        }
    }

    fn file(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(AskingFile {
            file,
            name: name.to_owned(),
            asked: self.asked.clone(),
        })
    }
}

impl<A: Ask> Disk for AskingDisk<A> {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.disk.read(name)
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.asked.ask(Change::Other, name)?;
        Ok(self.file(name, self.disk.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(name, Disk::open(&self.disk, name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.asked.ask(Change::Other, to)?;
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.asked.ask(Change::Other, name)?;
        self.disk.remove(name)
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.asked.ask(Change::Sync, "")?;
        self.disk.sync_directory()
    }
}

impl<A: Ask> DiskFile for AskingFile<A> {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.asked.ask(Change::Other, &self.name)?;
        self.file.write_at(offset, bytes)
    }
    fn reserve(&mut self, size: u64) -> io::Result<()> {
        self.asked.ask(Change::Other, &self.name)?;
        self.file.reserve(size)
    }
    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.asked.ask(Change::Other, &self.name)?;
        self.file.truncate(size)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.asked.ask(Change::Sync, &self.name)?;
        self.file.sync()
    }
}

/// Holds up syncs of the log while it is closed.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
    arrived: Notify,
}

impl Gate {
    pub(crate) fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    /// Waits until the writer is held up.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

impl Ask for Gate {
    fn ask(&self, change: Change, file: &str) -> io::Result<()> {
        if change == Change::Sync && file.ends_with(".log") {
            let closed = self.closed.lock().unwrap();
            if *closed {
                self.arrived.notify_one();
            }
            drop(self.changed.wait_while(closed, |closed| *closed).unwrap());
        }
        Ok(())
    }
}
