//! The store: opening it, and the contract that it keeps.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use clock::disk::Disk;
use futures::future::BoxFuture;
use smol_str::SmolStr;
use source::{
    Change, Error, Key, ListRequest, Object, ObjectSource, Page, Resource, Revision, Watch, WatchRequest,
    Write,
};
use tokio::sync::{mpsc, oneshot};

use crate::error::OpenError;
use crate::frame::{Header, Kind};
use crate::options::{Mode, Options};
use crate::recover::{self, Recovered, disk_error};
use crate::segment::{Failure, Segment};
use crate::snapshot;
use crate::state::{Limits, Progress, Scan};
use crate::stats::Stats;
use crate::watch::Cursor;
use crate::writer::{self, Answer, Committed, Parts, Shared, Writer, make_snapshot};

/// Entries of a list that are visited under one lock, so that a long list does not keep the writer waiting.
const VISITS: usize = 2_048;

/// Commands that are taken from the queue at once.
const BATCH_WRITES: usize = 512;

/// A batch is closed once its objects have this many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// How far the revision jumps at a new incarnation.
const JUMP: u64 = 1 << 32;

/// Versioned objects in memory, with a log on a disk.
pub struct Store {
    shared: Arc<Shared>,
    backend: Backend,
    object_limit: usize,
    incarnation: u128,
}

enum Backend {
    /// `None` once it is closed.
    Inline(Box<Mutex<Option<Writer>>>),
    Thread {
        /// `None` only while the store is dropped.
        commands: Option<mpsc::Sender<Command>>,
        thread: Option<JoinHandle<()>>,
    },
}

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are writes; a box would cost each of them"
)]
enum Command {
    Write(Write, oneshot::Sender<Answer>),
    Close(oneshot::Sender<()>),
}

impl Store {
    /// Opens the store on a disk, or makes a new one there. Blocks while it reads.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if acknowledged writes would be lost, [`OpenError::Format`] if a newer program wrote
    /// the files, [`OpenError::Missing`] if a new incarnation shall begin of nothing (as of a backup that was not
    /// finished), [`OpenError::Disk`] if the disk refuses.
    pub fn open(disk: Arc<dyn Disk>, options: Options, mode: Mode) -> Result<Arc<Self>, OpenError> {
        let limits = Limits {
            events: options.window_events,
            bytes: options.window_bytes,
        };
        let mut recovered = recover::recover(disk.as_ref(), limits)?;
        if options.new_incarnation && recovered.incarnation.is_none() {
            return Err(OpenError::Missing);
        }
        writer::tidy(disk.as_ref(), recovered.base.as_ref(), &recovered.untrimmed)
            .map_err(disk_error("tidy", ""))?;
        let incarnation = match (recovered.incarnation, options.new_incarnation) {
            (Some(incarnation), false) => incarnation,
            (Some(_), true) => begin_incarnation(disk.as_ref(), &options, &mut recovered)?,
            (None, _) => random(&options),
        };
        let Recovered {
            state,
            incarnation: _,
            base: _,
            untrimmed: _,
            tail,
            next_segment,
            log_bytes,
            snapshot_size,
        } = recovered;
        let segment = match tail {
            Some(tail) => {
                let last = (tail.last.0, tail.last.1.as_slice());
                Segment::resume(
                    disk.as_ref(),
                    tail.number,
                    tail.salt,
                    tail.end,
                    last,
                    options.segment_bytes,
                )
                .map_err(disk_error("mend", &crate::segment::name(tail.number)))?
            }
            None => {
                let header = Header {
                    kind: Kind::Segment,
                    incarnation,
                    segment: next_segment,
                    revision: state.revision().0,
                    count: 0,
                };
                Segment::create(disk.as_ref(), &header, options.segment_bytes, 0)
                    .map_err(open_failure("begin the log"))?
            }
        };
        let shared = Arc::new(Shared::new(state));
        let mut writer = Writer::new(Parts {
            shared: shared.clone(),
            disk,
            mode,
            segment_bytes: options.segment_bytes,
            snapshot_bytes: options.snapshot_bytes,
            incarnation,
            segment,
            log_bytes,
            snapshot_size,
            reserve_bytes: options.reserve_bytes,
        });
        writer.begin().map_err(open_failure("prepare the log"))?;
        let backend = match mode {
            Mode::Inline => Backend::Inline(Box::new(Mutex::new(Some(writer)))),
            Mode::Thread => start(writer, options.queue).map_err(disk_error("start a thread for", ""))?,
        };
        Ok(Arc::new(Self {
            shared,
            backend,
            object_limit: options.object_limit,
            incarnation,
        }))
    }

    /// Which life of the store this is, as a hexadecimal text. It changes when a backup is restored.
    pub fn incarnation(&self) -> String {
        format!("{:032x}", self.incarnation)
    }

    /// The oldest revision that every resource can be listed at and watched from.
    pub fn oldest(&self) -> Revision {
        self.shared.read().oldest()
    }

    /// Why the store is closed, if it is: it was asked to, or its disk failed.
    pub fn closed(&self) -> Option<String> {
        self.shared.read().closed().map(str::to_owned)
    }

    /// What the store has done and how large it is.
    pub fn stats(&self) -> Stats {
        let counters = &self.shared.counters;
        let state = self.shared.read();
        let (objects, object_bytes) = state.size();
        let (events, event_bytes) = state.window();
        Stats {
            writes: counters.writes.get(),
            refused: counters.refused.get(),
            full: counters.full.get(),
            read_only: counters.read_only.get(),
            batches: counters.batches.get(),
            log_bytes: counters.log_bytes.get(),
            snapshots: counters.snapshots.get(),
            snapshots_full: counters.snapshots_full.get(),
            objects: objects as u64,
            object_bytes,
            events: events as u64,
            event_bytes: event_bytes as u64,
            revision: state.revision(),
            oldest: state.oldest(),
        }
    }

    /// Finishes the writes that were begun and closes the store; later reads and writes are refused, watches end.
    /// The files are free when this returns.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Inline(writer) => {
                let writer = lock(writer).take();
                if let Some(writer) = writer {
                    writer.finish(CLOSED);
                }
            }
            Backend::Thread { commands, .. } => {
                let (done, wait) = oneshot::channel();
                if let Some(commands) = commands
                    && commands.send(Command::Close(done)).await.is_ok()
                {
                    // An error means that the writer is gone already.
                    wait.await.ok();
                }
            }
        }
    }

    /// Writes a consistent copy of all objects to an empty disk while the store runs. Blocks while it writes. Open the
    /// copy with [`Options::new_incarnation`]: that refuses one that was not finished.
    ///
    /// # Errors
    /// What the other disk says.
    pub fn backup(&self, disk: &dyn Disk) -> Result<Copied, OpenError> {
        let (objects, revision) = {
            let state = self.shared.read();
            (state.all(), state.revision())
        };
        copy(disk, self.incarnation, &objects, revision)
    }

    /// The same of a store that nobody has open, which is only read.
    ///
    /// # Errors
    /// As [`Store::open`]; [`OpenError::Missing`] if there is none.
    pub fn backup_closed(from: &dyn Disk, to: &dyn Disk) -> Result<Copied, OpenError> {
        let recovered = recover::recover(from, Limits { events: 1, bytes: 1 })?;
        let incarnation = recovered.incarnation.ok_or(OpenError::Missing)?;
        copy(
            to,
            incarnation,
            &recovered.state.all(),
            recovered.state.revision(),
        )
    }

    fn closed_error(&self) -> Error {
        Error::Closed(self.closed().unwrap_or_else(|| CLOSED.to_owned()))
    }

    fn check(&self, write: &Write) -> Result<(), Error> {
        let Change::Put(draft) = &write.change else {
            return Ok(());
        };
        assert!(
            is_draft(&draft.json, draft.splice),
            "a draft has an empty resource version at its splice"
        );
        let size = draft.json.len();
        if size > self.object_limit {
            return Err(Error::TooLarge {
                key: write.key.clone(),
                size,
                limit: self.object_limit,
            });
        }
        Ok(())
    }

    async fn commit(&self, write: Write) -> Result<Arc<Object>, Error> {
        self.check(&write)?;
        match &self.backend {
            Backend::Inline(writer) => {
                let committed = match lock(writer).as_mut() {
                    Some(writer) => writer.commit(vec![write]),
                    None => return Err(self.closed_error()),
                };
                committed.wake();
                let Committed { mut answers, .. } = committed;
                answers.pop().expect("each write has an answer")
            }
            Backend::Thread { commands, .. } => {
                let (answer, wait) = oneshot::channel();
                let commands = commands.as_ref().ok_or_else(|| self.closed_error())?;
                if commands.send(Command::Write(write, answer)).await.is_err() {
                    return Err(self.closed_error());
                }
                wait.await.unwrap_or_else(|_| Err(self.closed_error()))
            }
        }
    }

    /// One list; `visits` entries under one lock.
    fn page(&self, request: &ListRequest<'_>, visits: usize) -> Result<Page, Error> {
        let mut progress = Progress {
            position: request
                .after
                .map(|(namespace, name)| (SmolStr::new(namespace), SmolStr::new(name))),
            ..Progress::default()
        };
        let mut at = request.at;
        loop {
            let state = self.shared.read();
            state.check_open()?;
            let revision = *at.get_or_insert(state.revision());
            state.check(request.resource, revision)?;
            let scan = Scan {
                resource: request.resource,
                namespace: request.namespace,
                filter: request.filter,
                at: revision,
                limit: request.limit,
                visits,
            };
            if state.scan(&scan, &mut progress) {
                return Ok(Page {
                    objects: progress.objects,
                    revision,
                    more: progress.remaining > 0,
                    remaining: Some(progress.remaining),
                });
            }
        }
    }
}

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The revision at which everything was copied.
    pub revision: Revision,
    /// How many objects there were.
    pub objects: u64,
}

fn copy(
    disk: &dyn Disk,
    incarnation: u128,
    objects: &[Arc<Object>],
    revision: Revision,
) -> Result<Copied, OpenError> {
    let header = Header {
        kind: Kind::Snapshot,
        incarnation,
        segment: 1,
        revision: revision.0,
        count: objects.len() as u64,
    };
    snapshot::write(disk, &header, objects).map_err(open_failure("write a backup"))?;
    Ok(Copied {
        revision,
        objects: header.count,
    })
}

const CLOSED: &str = "it is shutting down";

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random(options: &Options) -> u128 {
    let mut bytes = [0; 16];
    options.env.random.fill(&mut bytes);
    u128::from_le_bytes(bytes)
}

fn is_draft(json: &[u8], splice: usize) -> bool {
    splice > 0 && json.get(splice - 1..=splice) == Some(b"\"\"")
}

fn open_failure(action: &'static str) -> impl FnOnce(Failure) -> OpenError {
    move |failure| {
        let error = match failure {
            Failure::Full => std::io::Error::from(std::io::ErrorKind::StorageFull),
            Failure::Fatal(reason) => std::io::Error::other(reason),
        };
        disk_error(action, "")(error)
    }
}

/// Jumps far ahead under a new identity: a snapshot of it replaces all that was before.
fn begin_incarnation(
    disk: &dyn Disk,
    options: &Options,
    recovered: &mut Recovered,
) -> Result<u128, OpenError> {
    let incarnation = random(options);
    let revision = Revision(recovered.state.revision().0 + JUMP);
    recovered.state.jump(revision);
    let objects = recovered.state.all();
    let header = Header {
        kind: Kind::Snapshot,
        incarnation,
        segment: recovered.next_segment,
        revision: revision.0,
        count: objects.len() as u64,
    };
    recovered.snapshot_size =
        make_snapshot(disk, &header, &objects).map_err(open_failure("begin a new incarnation"))?;
    recovered.tail = None;
    recovered.log_bytes = 0;
    Ok(incarnation)
}

fn start(writer: Writer, queue: usize) -> std::io::Result<Backend> {
    let (commands, queue) = mpsc::channel(queue.max(1));
    let thread = std::thread::Builder::new()
        .name("store-writer".to_owned())
        .spawn(move || {
            let _guard = CloseOnPanic(writer.shared.clone());
            run(writer, queue);
        })?;
    Ok(Backend::Thread {
        commands: Some(commands),
        thread: Some(thread),
    })
}

/// Ends all watches if the writer panics: nobody else would.
struct CloseOnPanic(Arc<Shared>);

impl Drop for CloseOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.write().close("its writer panicked");
        }
    }
}

/// The writer thread: what waits together is committed together.
fn run(mut writer: Writer, mut queue: mpsc::Receiver<Command>) {
    let mut commands = Vec::with_capacity(BATCH_WRITES);
    let mut closing = Vec::new();
    while closing.is_empty() && queue.blocking_recv_many(&mut commands, BATCH_WRITES) > 0 {
        let mut batch = Batch::default();
        for command in commands.drain(..) {
            match command {
                Command::Write(write, answer) => batch.push(write, answer),
                Command::Close(done) => closing.push(done),
            }
            if batch.bytes >= BATCH_BYTES {
                std::mem::take(&mut batch).commit(&mut writer);
            }
        }
        batch.commit(&mut writer);
    }
    queue.close();
    // What is still in the queue is dropped unanswered, which its writers take as closed.
    drop(queue);
    writer.finish(CLOSED);
    for done in closing {
        // An error means that nobody waits for it any more.
        done.send(()).ok();
    }
}

#[derive(Default)]
struct Batch {
    writes: Vec<Write>,
    answers: Vec<oneshot::Sender<Answer>>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, write: Write, answer: oneshot::Sender<Answer>) {
        self.bytes += match &write.change {
            Change::Put(draft) => draft.json.len(),
            Change::Delete => 0,
        };
        self.writes.push(write);
        self.answers.push(answer);
    }

    fn commit(self, writer: &mut Writer) {
        if self.writes.is_empty() {
            return;
        }
        let mut committed = writer.commit(self.writes);
        for (waiting, answer) in self.answers.into_iter().zip(committed.answers.drain(..)) {
            // An error means that the writer of it has gone; the write stands.
            waiting.send(answer).ok();
        }
        committed.wake();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Backend::Thread { commands, thread } = &mut self.backend {
            drop(commands.take());
            if let Some(thread) = thread.take()
                && thread.join().is_err()
            {
                tracing::error!("the object store's writer panicked");
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("incarnation", &self.incarnation())
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl ObjectSource for Store {
    fn revision(&self) -> Revision {
        self.shared.read().revision()
    }

    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Arc<Object>>, Error>> {
        Box::pin(async move {
            let state = self.shared.read();
            state.check_open()?;
            Ok(state.get(key).cloned())
        })
    }

    fn list<'a>(&'a self, request: &'a ListRequest<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            match self.page(request, VISITS) {
                // The newest state cannot expire: it did so only between two parts.
                Err(Error::Expired { .. }) if request.at.is_none() => self.page(request, usize::MAX),
                result => result,
            }
        })
    }

    fn watch<'a>(&'a self, request: &'a WatchRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            let cursor = self.cursor(request.resource, request.namespace, request.after)?;
            Ok(Box::new(cursor) as Box<dyn Watch>)
        })
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Arc<Object>, Error>> {
        Box::pin(self.commit(write))
    }
}

impl Store {
    fn cursor(&self, resource: &Resource, namespace: Option<&str>, after: Revision) -> Result<Cursor, Error> {
        let changed = {
            let state = self.shared.read();
            state.check_open()?;
            state.check(resource, after)?;
            state.changed(resource)
        };
        Ok(Cursor {
            shared: self.shared.clone(),
            resource: resource.clone(),
            namespace: namespace.map(SmolStr::new),
            seen: after,
            changed: changed.unwrap_or_else(|| self.shared.write().make_changed(resource)),
        })
    }
}
