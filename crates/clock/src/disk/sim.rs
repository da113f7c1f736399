//! A simulated disk that keeps no more than the `Disk` contract promises.
//!
//! Until a file is synced its writes are only remembered; a crash keeps any of them, in any order, each whole, torn
//! at any byte or with any of its sectors missing. The same holds for names until the directory is synced. One seed
//! makes one run. Every operation that changes something is a *step*; a crash can be set for any step.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::random::SplitMix;

use super::{Disk, DiskFile};

/// What disks write atomically at best.
const SECTOR: usize = 512;

/// A disk in memory, for one process at a time. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    random: SplitMix,
    files: BTreeMap<u64, File>,
    /// The directory as programs see it.
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    next_file: u64,
    capacity: Option<u64>,
    /// Grows with each restart; handles of an earlier one are dead.
    boot: u64,
    steps: u64,
    syncs: u64,
    crash_at: Option<u64>,
    fail_sync_at: Option<u64>,
    fill_at: Option<u64>,
    crashed: bool,
}

#[derive(Debug, Default, Clone)]
struct File {
    /// As programs see it.
    content: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    /// Grows with zeros to this size.
    Grow(u64),
    Truncate(u64),
}

#[derive(Debug, Clone)]
enum NameChange {
    Put(String, u64),
    Remove(String),
    Rename(String, String, u64),
}

impl SimDisk {
    /// An empty disk without a limit.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            random: SplitMix::new(seed),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            next_file: 0,
            capacity: None,
            boot: 0,
            steps: 0,
            syncs: 0,
            crash_at: None,
            fail_sync_at: None,
            fill_at: None,
            crashed: false,
        })))
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many changing operations there have been.
    pub fn steps(&self) -> u64 {
        self.inner().steps
    }

    /// How many syncs of files have succeeded.
    pub fn syncs(&self) -> u64 {
        self.inner().syncs
    }

    /// Crashes in the middle of this step (counted from 1, as [`Self::steps`] counts): it may happen in part. All
    /// later operations fail until [`Self::restart`].
    pub fn crash_at(&self, step: u64) {
        self.inner().crash_at = Some(step);
    }

    /// Whether it has crashed and was not restarted.
    pub fn is_crashed(&self) -> bool {
        self.inner().crashed
    }

    /// Makes the sync of a file or the directory that is this step fail. What a file's sync should have kept is kept
    /// in part, and no later sync keeps the rest, as on Linux; names stay unsynced. If the step is no sync, the next
    /// one fails.
    pub fn fail_sync_at(&self, step: u64) {
        self.inner().fail_sync_at = Some(step);
    }

    /// Makes the write that is this step (or the next write) find no room though it was reserved, as on file systems
    /// that copy what is overwritten. It happens in part, or even as a whole.
    pub fn fill_at(&self, step: u64) {
        self.inner().fill_at = Some(step);
    }

    /// Sets how many bytes all files together may have.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.inner().capacity = capacity;
    }

    /// How many bytes all files have.
    pub fn used(&self) -> u64 {
        self.inner().used()
    }

    /// Crashes now if it has not crashed, then starts again with what was kept.
    pub fn restart(&self) {
        let mut inner = self.inner();
        inner.lose();
        inner.boot += 1;
        inner.crashed = false;
        inner.crash_at = None;
        inner.fail_sync_at = None;
        inner.fill_at = None;
    }

    /// What a crash now would leave, as another disk; this one goes on.
    pub fn after_crash(&self, seed: u64) -> Self {
        let mut copy = self.inner().copy(seed);
        copy.lose();
        Self(Arc::new(Mutex::new(copy)))
    }

    /// Ends the process but not the machine: open handles die, everything written is still there.
    pub fn kill(&self) {
        let mut inner = self.inner();
        inner.boot += 1;
        inner.crashed = false;
        inner.crash_at = None;
    }

    /// Puts a file there, durably, as if it had always been there.
    pub fn plant(&self, name: &str, bytes: &[u8]) {
        let mut inner = self.inner();
        let id = inner.make();
        let file = File {
            content: bytes.to_vec(),
            durable: bytes.to_vec(),
            pending: Vec::new(),
        };
        inner.files.insert(id, file);
        inner.names.insert(name.to_owned(), id);
        inner.durable_names.insert(name.to_owned(), id);
    }
}

/// What becomes of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// It is remembered like any other unsynced change, then the machine stops.
    Crash,
}

fn crash() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full")
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file \"{name}\""))
}

impl Inner {
    /// The same files with no faults set.
    fn copy(&self, seed: u64) -> Self {
        let Self {
            random: _,
            files,
            names,
            durable_names,
            pending_names,
            next_file,
            capacity,
            boot,
            steps: _,
            syncs: _,
            crash_at: _,
            fail_sync_at: _,
            fill_at: _,
            crashed: _,
        } = self;
        Self {
            random: SplitMix::new(seed),
            files: files.clone(),
            names: names.clone(),
            durable_names: durable_names.clone(),
            pending_names: pending_names.clone(),
            next_file: *next_file,
            capacity: *capacity,
            boot: *boot,
            steps: 0,
            syncs: 0,
            crash_at: None,
            fail_sync_at: None,
            fill_at: None,
            crashed: false,
        }
    }

    fn make(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    fn used(&self) -> u64 {
        let files = self.names.values().filter_map(|id| self.files.get(id));
        files.map(|file| file.content.len() as u64).sum()
    }

    fn check(&self) -> io::Result<()> {
        if self.crashed { Err(crash()) } else { Ok(()) }
    }

    fn step(&mut self) -> io::Result<Fate> {
        self.check()?;
        self.steps += 1;
        if self.crash_at.is_some_and(|step| self.steps >= step) {
            self.crashed = true;
            return Ok(Fate::Crash);
        }
        Ok(Fate::Done)
    }

    fn sync_fails(&mut self) -> bool {
        let fails = self.fail_sync_at.is_some_and(|step| self.steps >= step);
        if fails {
            self.fail_sync_at = None;
        }
        fails
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| missing(name))
    }

    fn rename_in(names: &mut BTreeMap<String, u64>, change: &NameChange) {
        match change {
            NameChange::Put(name, id) => {
                names.insert(name.clone(), *id);
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to, id) => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
        }
    }

    fn change_names(&mut self, change: NameChange) {
        Self::rename_in(&mut self.names, &change);
        self.pending_names.push(change);
    }

    fn change(&mut self, id: u64, change: Change) {
        let file = self.files.entry(id).or_default();
        apply(&mut file.content, &change);
        file.pending.push(change);
    }

    /// Keeps some of the changes to a file's durable bytes.
    fn keep_some(random: &mut SplitMix, durable: &mut Vec<u8>, pending: &[Change]) {
        // Often everything or nothing up to a point, sometimes any subset.
        let prefix = random.below(pending.len() + 1);
        let any_subset = random.coin();
        for (index, change) in pending.iter().enumerate() {
            let keep = if any_subset { random.coin() } else { index < prefix };
            match change {
                Change::Write(offset, bytes) if keep && random.coin() => {
                    for (offset, part) in torn(random, *offset, bytes) {
                        apply(durable, &Change::Write(offset, part));
                    }
                }
                Change::Write(..) | Change::Grow(_) | Change::Truncate(_) if keep => apply(durable, change),
                Change::Write(..) | Change::Grow(_) | Change::Truncate(_) => {}
            }
        }
    }

    fn lose(&mut self) {
        let Self {
            random,
            files,
            names,
            durable_names,
            pending_names,
            ..
        } = self;
        for file in files.values_mut() {
            Self::keep_some(random, &mut file.durable, &file.pending);
            file.pending.clear();
            file.content.clone_from(&file.durable);
        }
        let prefix = random.below(pending_names.len() + 1);
        let any_subset = random.coin();
        for (index, change) in pending_names.drain(..).enumerate() {
            if if any_subset { random.coin() } else { index < prefix } {
                Self::rename_in(durable_names, &change);
            }
        }
        names.clone_from(durable_names);
        self.forget_nameless();
    }

    /// Nothing finds a file again that has no name any more, not even after a crash.
    fn forget_nameless(&mut self) {
        let names = self.names.values().chain(self.durable_names.values());
        let kept: BTreeSet<u64> = names.copied().collect();
        self.files.retain(|id, _| kept.contains(id));
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let size = |size: &u64| usize::try_from(*size).expect("simulated files fit into memory");
    match change {
        Change::Write(offset, part) => {
            let offset = size(offset);
            let end = offset + part.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].copy_from_slice(part);
        }
        Change::Grow(to) => {
            let to = size(to);
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
        }
        Change::Truncate(to) => bytes.truncate(size(to)),
    }
}

/// The parts of a write that are kept: up to any byte, or any of its sectors.
fn torn(random: &mut SplitMix, offset: u64, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    if random.coin() {
        let cut = random.below(bytes.len() + 1);
        return vec![(offset, bytes[..cut].to_vec())];
    }
    let mut parts = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let in_sector =
            usize::try_from((offset + start as u64) % SECTOR as u64).expect("below a sector's size");
        let end = bytes.len().min(start + SECTOR - in_sector);
        if random.coin() {
            parts.push((offset + start as u64, bytes[start..end].to_vec()));
        }
        start = end;
    }
    parts
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let inner = self.inner();
        inner.check()?;
        Ok(inner.names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let inner = self.inner();
        inner.check()?;
        let id = inner.find(name)?;
        Ok(inner.files[&id].content.clone())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        let fate = inner.step()?;
        let id = match inner.find(name) {
            Ok(id) => {
                inner.change(id, Change::Truncate(0));
                id
            }
            Err(_) => {
                let id = inner.make();
                inner.files.insert(id, File::default());
                inner.change_names(NameChange::Put(name.to_owned(), id));
                id
            }
        };
        self.handle(&inner, id, fate)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inner = self.inner();
        inner.check()?;
        let id = inner.find(name)?;
        self.handle(&inner, id, Fate::Done)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        let fate = inner.step()?;
        let id = inner.find(from)?;
        inner.change_names(NameChange::Rename(from.to_owned(), to.to_owned(), id));
        settle(fate)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        let fate = inner.step()?;
        inner.find(name)?;
        inner.change_names(NameChange::Remove(name.to_owned()));
        settle(fate)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut inner = self.inner();
        settle(inner.step()?)?;
        if inner.sync_fails() {
            return Err(io::Error::other("the simulated sync failed"));
        }
        let pending = std::mem::take(&mut inner.pending_names);
        for change in pending {
            Inner::rename_in(&mut inner.durable_names, &change);
        }
        inner.forget_nameless();
        Ok(())
    }
}

fn settle(fate: Fate) -> io::Result<()> {
    match fate {
        Fate::Done => Ok(()),
        Fate::Crash => Err(crash()),
    }
}

impl SimDisk {
    fn handle(&self, inner: &Inner, id: u64, fate: Fate) -> io::Result<Box<dyn DiskFile>> {
        settle(fate)?;
        Ok(Box::new(SimFile {
            disk: self.clone(),
            id,
            boot: inner.boot,
        }))
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: u64,
    boot: u64,
}

impl SimFile {
    fn step(&self) -> io::Result<(std::sync::MutexGuard<'_, Inner>, Fate)> {
        let mut inner = self.disk.inner();
        if inner.boot != self.boot {
            return Err(crash());
        }
        let fate = inner.step()?;
        Ok((inner, fate))
    }

    /// How long the file may be.
    fn room(&self, inner: &Inner) -> u64 {
        let size = inner
            .files
            .get(&self.id)
            .map_or(0, |file| file.content.len() as u64);
        let capacity = inner.capacity.unwrap_or(u64::MAX);
        size + capacity.saturating_sub(inner.used())
    }
}

impl DiskFile for SimFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut inner, fate) = self.step()?;
        let size = inner
            .files
            .get(&self.id)
            .map_or(0, |file| file.content.len() as u64);
        let end = offset + bytes.len() as u64;
        if inner.fill_at.is_some_and(|step| inner.steps >= step) {
            inner.fill_at = None;
            let part = inner.random.below(bytes.len() * 2 + 1).min(bytes.len());
            inner.change(self.id, Change::Write(offset, bytes[..part].to_vec()));
            return settle(fate).and(Err(full()));
        }
        let room = self.room(&inner).max(size);
        if end > room {
            // What fits is written, as by the operating system.
            let fits = usize::try_from(room.saturating_sub(offset)).unwrap_or(0);
            inner.change(self.id, Change::Write(offset, bytes[..fits].to_vec()));
            return settle(fate).and(Err(full()));
        }
        inner.change(self.id, Change::Write(offset, bytes.to_vec()));
        settle(fate)
    }

    fn reserve(&mut self, size: u64) -> io::Result<()> {
        let (mut inner, fate) = self.step()?;
        let before = inner
            .files
            .get(&self.id)
            .map_or(0, |file| file.content.len() as u64);
        if size > before {
            if size > self.room(&inner) {
                return settle(fate).and(Err(full()));
            }
            inner.change(self.id, Change::Grow(size));
        }
        settle(fate)
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let (mut inner, fate) = self.step()?;
        inner.change(self.id, Change::Truncate(size));
        settle(fate)
    }

    fn sync(&mut self) -> io::Result<()> {
        let (mut inner, fate) = self.step()?;
        settle(fate)?;
        let fails = inner.sync_fails();
        let Inner {
            files, random, syncs, ..
        } = &mut *inner;
        let file = files.entry(self.id).or_default();
        let pending = std::mem::take(&mut file.pending);
        if fails {
            Inner::keep_some(random, &mut file.durable, &pending);
            return Err(io::Error::other("the simulated sync failed"));
        }
        for change in &pending {
            apply(&mut file.durable, change);
        }
        *syncs += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
