//! The one writer: a batch of writes becomes one frame, one sync, and then visible.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

use clock::disk::Disk;
use source::{Error, Event, EventKind, Key, Object, Resource, Revision, Write};
use tokio::sync::Notify;

use crate::codec;
use crate::decide::decide;
use crate::frame::{self, Header, Kind};
use crate::options::Mode;
use crate::recover::{self, BATCH};
use crate::segment::{self, Failure, Segment, fatal};
use crate::snapshot;
use crate::state::{Dropped, State};
use crate::stats::Counters;

/// What the writer and the readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<State>,
    pub(crate) counters: Counters,
}

impl Shared {
    /// Shares a state.
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: RwLock::new(state),
            counters: Counters::default(),
        }
    }

    /// For readers; never held across a sync.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the writer, briefly.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to one write.
pub(crate) type Answer = Result<Arc<Object>, Error>;

/// The answer to each write of a batch, and whom to wake.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    pub(crate) answers: Vec<Answer>,
    signals: Vec<Arc<Notify>>,
}

impl Committed {
    /// Wakes the watchers.
    pub(crate) fn wake(&self) {
        for signal in &self.signals {
            signal.notify_waiters();
        }
    }
}

/// A snapshot being made.
#[derive(Debug)]
struct Snapshotting {
    thread: JoinHandle<Result<u64, Failure>>,
    /// Bytes of log that it replaces.
    log_bytes: u64,
}

/// The writer: it owns the log.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) mode: Mode,
    pub(crate) segment_bytes: u64,
    pub(crate) snapshot_bytes: u64,
    pub(crate) incarnation: u128,
    pub(crate) segment: Segment,
    /// Bytes of log that no snapshot covers.
    pub(crate) log_bytes: u64,
    buffer: Vec<u8>,
    snapshotting: Option<Snapshotting>,
    failed: Option<String>,
}

/// What a writer starts with.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) mode: Mode,
    pub(crate) segment_bytes: u64,
    pub(crate) snapshot_bytes: u64,
    pub(crate) incarnation: u128,
    pub(crate) segment: Segment,
    pub(crate) log_bytes: u64,
}

impl Writer {
    /// A writer that goes on with a segment.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            shared,
            disk,
            mode,
            segment_bytes,
            snapshot_bytes,
            incarnation,
            segment,
            log_bytes,
        } = parts;
        Self {
            shared,
            disk,
            mode,
            segment_bytes,
            snapshot_bytes,
            incarnation,
            segment,
            log_bytes,
            buffer: Vec::new(),
            snapshotting: None,
            failed: None,
        }
    }

    /// Commits a batch: when this returns, what was granted is durable and visible.
    pub(crate) fn commit(&mut self, writes: Vec<Write>) -> Committed {
        if let Some(reason) = &self.failed {
            let refuse = |_| Err(Error::Closed(reason.clone()));
            return Committed {
                answers: writes.into_iter().map(refuse).collect(),
                signals: Vec::new(),
            };
        }
        let (mut answers, events) = self.stage(writes);
        let refused = (answers.len() - events.len()) as u64;
        if events.is_empty() {
            self.shared.counters.refused.add(refused);
            return Committed {
                answers,
                signals: Vec::new(),
            };
        }
        let error = match self.persist() {
            Ok(()) => {
                let counters = &self.shared.counters;
                counters.refused.add(refused);
                counters.writes.add(events.len() as u64);
                counters.batches.add(1);
                counters.log_bytes.add(self.buffer.len() as u64);
                let signals = self.publish(events);
                return Committed { answers, signals };
            }
            Err(Failure::Full) => {
                self.shared.counters.full.add(events.len() as u64);
                Error::Full
            }
            Err(Failure::Fatal(reason)) => {
                self.fail(&reason);
                Error::Closed(reason)
            }
        };
        // Refusals too: they may rest on writes of the same batch.
        answers.fill_with(|| Err(error.clone()));
        Committed {
            answers,
            signals: Vec::new(),
        }
    }

    fn fail(&mut self, reason: &str) {
        tracing::error!(error = reason, "the object store's disk failed, it is closed");
        self.failed = Some(reason.to_owned());
        self.shared.write().close(reason);
    }

    /// Decides every write and puts the frame into the buffer. Only granted writes have an event.
    fn stage(&mut self, writes: Vec<Write>) -> (Vec<Answer>, Vec<Arc<Event>>) {
        let (mut revision, found) = {
            let state = self.shared.read();
            let found: Vec<_> = writes
                .iter()
                .map(|write| state.get(&write.key).cloned())
                .collect();
            (state.revision(), found)
        };
        let is_batch = writes.len() > 1;
        let mut staged: BTreeMap<Key, Option<Arc<Object>>> = BTreeMap::new();
        let mut answers = Vec::with_capacity(writes.len());
        let mut events = Vec::with_capacity(writes.len());
        frame::begin(&mut self.buffer);
        self.buffer.push(BATCH);
        for (write, found) in writes.into_iter().zip(found) {
            let previous = match staged.get(&write.key) {
                Some(staged) => staged.clone(),
                None => found,
            };
            match decide(write, previous, Revision(revision.0 + 1)) {
                Ok(event) => {
                    revision.0 += 1;
                    let object = event.object.clone();
                    let newest = match event.kind {
                        EventKind::Added | EventKind::Modified => {
                            codec::put(&mut self.buffer, &object);
                            Some(object.clone())
                        }
                        EventKind::Deleted => {
                            codec::delete(&mut self.buffer, &object.key, revision);
                            None
                        }
                    };
                    if is_batch {
                        staged.insert(object.key.clone(), newest);
                    }
                    answers.push(Ok(object));
                    events.push(Arc::new(event));
                }
                Err(error) => answers.push(Err(error)),
            }
        }
        (answers, events)
    }

    /// Makes the frame in the buffer durable.
    fn persist(&mut self) -> Result<(), Failure> {
        if self
            .snapshotting
            .as_ref()
            .is_some_and(|job| job.thread.is_finished())
        {
            self.reap()?;
        }
        let length = self.buffer.len() as u64;
        if self.segment.is_full_for(length) {
            self.rotate()?;
        }
        frame::end(&mut self.buffer, self.segment.salt());
        self.segment.append(&self.buffer)?;
        self.log_bytes += length;
        Ok(())
    }

    fn publish(&self, events: Vec<Arc<Event>>) -> Vec<Arc<Notify>> {
        let mut dropped = Dropped::default();
        let mut touched: Vec<Resource> = Vec::new();
        for event in &events {
            let resource = &event.object.key.resource;
            if touched.last() != Some(resource) && !touched.contains(resource) {
                touched.push(resource.clone());
            }
        }
        let mut state = self.shared.write();
        for event in events {
            state.apply(event, &mut dropped);
        }
        let signals = state.signals(touched.iter());
        drop(state);
        drop(dropped);
        signals
    }

    /// Begins a new segment, and a snapshot if the log has become long.
    fn rotate(&mut self) -> Result<(), Failure> {
        let (revision, live_bytes) = {
            let state = self.shared.read();
            (state.revision(), state.size().1)
        };
        let header = Header {
            kind: Kind::Segment,
            incarnation: self.incarnation,
            segment: self.segment.number() + 1,
            revision: revision.0,
            count: 0,
        };
        let next = Segment::create(self.disk.as_ref(), &header, self.segment_bytes)?;
        std::mem::replace(&mut self.segment, next).finish()?;
        if self.snapshotting.is_none() && self.log_bytes >= self.snapshot_bytes.max(live_bytes) {
            self.snapshot(revision)?;
        }
        Ok(())
    }

    /// Makes a snapshot that replaces all segments but the newest, which must be empty.
    fn snapshot(&mut self, revision: Revision) -> Result<(), Failure> {
        let objects = self.shared.read().all();
        let header = Header {
            kind: Kind::Snapshot,
            incarnation: self.incarnation,
            segment: self.segment.number(),
            revision: revision.0,
            count: objects.len() as u64,
        };
        let log_bytes = std::mem::take(&mut self.log_bytes);
        let disk = self.disk.clone();
        let job = move || make_snapshot(disk.as_ref(), &header, &objects);
        match self.mode {
            Mode::Inline => self.settle(job(), log_bytes),
            Mode::Thread => {
                let thread = std::thread::Builder::new()
                    .name("store-snapshot".to_owned())
                    .spawn(job)
                    .map_err(|error| Failure::Fatal(format!("cannot start a thread: {error}")))?;
                self.snapshotting = Some(Snapshotting { thread, log_bytes });
                Ok(())
            }
        }
    }

    fn reap(&mut self) -> Result<(), Failure> {
        let Some(Snapshotting { thread, log_bytes }) = self.snapshotting.take() else {
            return Ok(());
        };
        let result = thread
            .join()
            .unwrap_or_else(|_| Err(Failure::Fatal("the snapshot thread panicked".to_owned())));
        self.settle(result, log_bytes)
    }

    fn settle(&mut self, result: Result<u64, Failure>, log_bytes: u64) -> Result<(), Failure> {
        match result {
            Ok(bytes) => {
                tracing::debug!(bytes, "made a snapshot of the object store");
                self.shared.counters.snapshots.add(1);
                Ok(())
            }
            Err(Failure::Full) => {
                tracing::warn!("no room for a snapshot of the object store, its log grows on");
                self.shared.counters.snapshots_full.add(1);
                self.log_bytes += log_bytes;
                Ok(())
            }
            Err(error @ Failure::Fatal(_)) => Err(error),
        }
    }

    /// Ends the writer: waits for a snapshot being made and closes the store.
    pub(crate) fn finish(mut self, reason: &str) {
        if let Err(Failure::Fatal(reason)) = self.reap() {
            self.fail(&reason);
        }
        self.shared.write().close(reason);
    }
}

/// Writes a snapshot, then removes what it replaces.
pub(crate) fn make_snapshot(
    disk: &dyn Disk,
    header: &Header,
    objects: &[Arc<Object>],
) -> Result<u64, Failure> {
    let bytes = snapshot::write(disk, header, objects)?;
    remove_old(disk, header).map_err(|error| fatal("remove", "what a snapshot replaces", &error))?;
    Ok(bytes)
}

/// Removes what a crash may have left behind: a snapshot half made, files that the newest snapshot replaces.
pub(crate) fn tidy(disk: &dyn Disk, base: Option<&Header>) -> io::Result<()> {
    match disk.remove(snapshot::TEMPORARY) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    base.map_or(Ok(()), |header| remove_old(disk, header))
}

/// Removes segments and snapshots that a durable snapshot replaces.
pub(crate) fn remove_old(disk: &dyn Disk, header: &Header) -> io::Result<()> {
    let files = recover::files(disk)?;
    for number in files.segments {
        if number < header.segment {
            disk.remove(&segment::name(number))?;
        }
    }
    for revision in files.snapshots {
        if revision < header.revision {
            disk.remove(&snapshot::name(Revision(revision)))?;
        }
    }
    Ok(())
}
