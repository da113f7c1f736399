//! The one writer: a batch of writes becomes one frame, one sync, and then visible.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

use clock::disk::Disk;
use source::{Change, Error, Event, EventKind, Key, Object, Resource, Revision, Write};
use tokio::sync::Notify;

use crate::codec;
use crate::decide::decide;
use crate::frame::{self, Header, Kind};
use crate::options::Mode;
use crate::recover::{self, BATCH};
use crate::relief::Shortage;
use crate::room::Need;
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
    /// All of them refused.
    pub(crate) fn refused(count: usize, error: &Error) -> Self {
        Self {
            answers: vec![Err(error.clone()); count],
            signals: Vec::new(),
        }
    }

    /// Goes on with another batch's.
    pub(crate) fn append(&mut self, other: Self) {
        self.answers.extend(other.answers);
        self.signals.extend(other.signals);
    }

    /// Puts the answer of a batch of one in the place of another.
    pub(crate) fn replace(&mut self, index: usize, mut other: Self) {
        self.answers[index] = other.answers.pop().expect("each write has an answer");
        self.signals.append(&mut other.signals);
    }

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
    /// Bytes of the newest snapshot.
    pub(crate) snapshot_size: u64,
    pub(crate) reserve_bytes: u64,
    pub(crate) shortage: Shortage,
    pub(crate) buffer: Vec<u8>,
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
    pub(crate) snapshot_size: u64,
    pub(crate) reserve_bytes: u64,
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
            snapshot_size,
            reserve_bytes,
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
            snapshot_size,
            reserve_bytes,
            shortage: Shortage::default(),
            buffer: Vec::new(),
            snapshotting: None,
            failed: None,
        }
    }

    /// Commits a batch: when this returns, what was granted is durable and visible.
    pub(crate) fn commit(&mut self, writes: Vec<Write>) -> Committed {
        let count = writes.len();
        if let Some(reason) = &self.failed {
            return Committed::refused(count, &Error::Closed(reason.clone()));
        }
        if count > 1 && self.shortage.is_short() {
            return self.commit_apart(writes);
        }
        let removals = if count > 1 { removals(&writes) } else { Vec::new() };
        let Staged {
            answers,
            events,
            need,
        } = self.stage(writes);
        let refused = (answers.len() - events.len()) as u64;
        if events.is_empty() {
            self.shared.counters.refused.add(refused);
            return Committed {
                answers,
                signals: Vec::new(),
            };
        }
        // If it fails, refusals are void too: they may rest on writes of the same batch.
        match self.persist(need) {
            Ok(()) => {
                let counters = &self.shared.counters;
                counters.refused.add(refused);
                counters.writes.add(events.len() as u64);
                counters.batches.add(1);
                counters.log_bytes.add(self.buffer.len() as u64);
                let signals = self.publish(events);
                Committed { answers, signals }
            }
            Err(Failure::Full) => {
                self.shared.counters.full.add(events.len() as u64);
                self.commit_removals(count, removals)
            }
            Err(Failure::Fatal(reason)) => {
                self.fail(&reason);
                Committed::refused(count, &Error::Closed(reason))
            }
        }
    }

    fn fail(&mut self, reason: &str) {
        tracing::error!(error = reason, "the object store's disk failed, it is closed");
        self.failed = Some(reason.to_owned());
        self.shared.write().close(reason);
    }

    /// Decides every write and puts the frame into the buffer. Only granted writes have an event.
    fn stage(&mut self, writes: Vec<Write>) -> Staged {
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
        let mut need = Need::Removals;
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
                            let is_update = event.kind == EventKind::Modified;
                            need = need.max(Need::of_put(is_update, object.json.len()));
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
        Staged {
            answers,
            events,
            need,
        }
    }

    /// Makes the frame in the buffer durable.
    fn persist(&mut self, need: Need) -> Result<(), Failure> {
        if self
            .snapshotting
            .as_ref()
            .is_some_and(|job| job.thread.is_finished())
        {
            self.reap()?;
        }
        if !self.shortage.is_short() && self.segment.is_full_for(self.buffer.len() as u64) {
            match self.rotate(false) {
                // Without room for another segment this one goes on.
                Ok(()) | Err(Failure::Full) => {}
                Err(error @ Failure::Fatal(_)) => return Err(error),
            }
        }
        self.persist_somehow(need)
    }

    /// Appends the frame in the buffer; `wish` and `keep` as for [`Segment::append`].
    pub(crate) fn append(&mut self, wish: u64, keep: u64) -> Result<(), Failure> {
        frame::end(&mut self.buffer, self.segment.salt());
        self.segment.append(&self.buffer, wish, keep)?;
        self.log_bytes += self.buffer.len() as u64;
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

    /// Begins a new segment, and a snapshot if the log has become long or is said to be.
    pub(crate) fn rotate(&mut self, is_long: bool) -> Result<(), Failure> {
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
        let room = self.room(0).all();
        // First, so that what was kept back here can be kept back there.
        self.segment.release()?;
        match Segment::create(self.disk.as_ref(), &header, self.segment_bytes, room) {
            Ok(next) => self.segment = next,
            Err(error) => {
                self.segment.keep_back(room)?;
                return Err(error);
            }
        }
        let is_long = is_long || self.log_bytes >= self.snapshot_bytes.max(live_bytes);
        if self.snapshotting.is_none() && is_long {
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

    /// Whether a snapshot is being made beside the writes.
    pub(crate) fn is_snapshotting(&self) -> bool {
        self.snapshotting.is_some()
    }

    /// Waits for the snapshot being made, if there is one.
    pub(crate) fn reap(&mut self) -> Result<(), Failure> {
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
                self.snapshot_size = bytes;
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

/// A batch that is decided; its frame is in the buffer.
struct Staged {
    answers: Vec<Answer>,
    /// Of the writes that were granted.
    events: Vec<Arc<Event>>,
    need: Need,
}

/// A batch's removals and where in it they are.
fn removals(writes: &[Write]) -> Vec<(usize, Write)> {
    let removal = |(index, write): (usize, &Write)| match write.change {
        Change::Delete => Some((
            index,
            Write {
                key: write.key.clone(),
                expect: write.expect,
                change: Change::Delete,
            },
        )),
        Change::Put(_) => None,
    };
    writes.iter().enumerate().filter_map(removal).collect()
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

/// Removes what a crash may have left behind: a snapshot half made, files that the newest snapshot replaces, room
/// reserved behind the frames of segments that have a successor.
pub(crate) fn tidy(disk: &dyn Disk, base: Option<&Header>, untrimmed: &[(u64, u64)]) -> io::Result<()> {
    match disk.remove(snapshot::TEMPORARY) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    base.map_or(Ok(()), |header| remove_old(disk, header))?;
    for (number, end) in untrimmed {
        disk.open(&segment::name(*number))?.truncate(*end)?;
    }
    Ok(())
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
