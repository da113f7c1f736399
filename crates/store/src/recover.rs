//! From files to a state: the newest valid snapshot, then the log behind it.
//!
//! What a crash can leave is mended: a torn last frame, a segment or snapshot that was never finished. Anything
//! else means that durable bytes have changed, and opening is refused.

use std::io;
use std::sync::Arc;

use clock::disk::Disk;
use source::packed::{Malformed, Reader};
use source::{Event, EventKind, Forms, Key, Object, Revision};

use crate::codec::{self, Record};
use crate::error::OpenError;
use crate::frame::{self, BadHeader, FRAME, HEADER, Header, Kind};
use crate::state::{Dropped, Limits, State};
use crate::{segment, snapshot};

/// The first byte of a segment's frames.
pub(crate) const BATCH: u8 = 1;

/// The revision of a new store. Not 0, because that means "any" to Kubernetes clients.
const FIRST: Revision = Revision(1);

/// What was found on disk.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The state.
    pub(crate) state: State,
    /// Which life of the store this is, `None` for a new store.
    pub(crate) incarnation: Option<u128>,
    /// The segment to go on with.
    pub(crate) tail: Option<Tail>,
    /// The number for a new segment.
    pub(crate) next_segment: u64,
    /// Segments before that one which are longer than their frames, and where those end: a crash kept what was
    /// reserved behind them.
    pub(crate) untrimmed: Vec<(u64, u64)>,
    /// Bytes of log behind the snapshot.
    pub(crate) log_bytes: u64,
    /// The snapshot that it began with.
    pub(crate) base: Option<Header>,
    /// That snapshot's bytes.
    pub(crate) snapshot_size: u64,
}

/// Where the log ends.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) number: u64,
    pub(crate) salt: u32,
    pub(crate) end: u64,
    /// The last frame (or header) and where it is.
    pub(crate) last: (u64, Vec<u8>),
}

/// The store's files by kind, each sorted by number.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) segments: Vec<u64>,
    pub(crate) snapshots: Vec<u64>,
}

/// Lists the store's files. Foreign ones are left alone.
pub(crate) fn files(disk: &dyn Disk) -> io::Result<Files> {
    let mut files = Files::default();
    for name in disk.list()? {
        let Some((stem, kind)) = name.split_once('.') else {
            continue;
        };
        let Some(number) = number(stem) else { continue };
        match kind {
            "log" => files.segments.push(number),
            "snapshot" => files.snapshots.push(number),
            _ => {}
        }
    }
    Ok(files)
}

fn number(stem: &str) -> Option<u64> {
    let canonical = stem.len() == 16 && stem.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    canonical.then(|| u64::from_str_radix(stem, 16).ok()).flatten()
}

/// Adapts an I/O error.
pub(crate) fn disk_error(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Disk {
        action,
        file: file.to_owned(),
        source,
    }
}

fn damaged(file: &str, offset: usize, reason: String) -> OpenError {
    OpenError::Damaged {
        file: file.to_owned(),
        offset: offset as u64,
        reason,
    }
}

fn bad_header(file: &str, bad: BadHeader) -> OpenError {
    match bad {
        BadHeader::Damaged => damaged(file, 0, "its header is not one".to_owned()),
        BadHeader::Version(found) => OpenError::Format {
            file: file.to_owned(),
            found,
            known: frame::VERSION,
        },
    }
}

/// Reads everything; changes nothing on disk.
pub(crate) fn recover(disk: &dyn Disk, limits: Limits) -> Result<Recovered, OpenError> {
    disk.sync_directory().map_err(disk_error("sync", ""))?;
    let files = files(disk).map_err(disk_error("list", ""))?;
    let base = newest_snapshot(disk, &files, limits)?;
    let snapshot_size = base.bytes;
    let mut log = Log::new(base, limits);
    let mut segments: Vec<u64> = files
        .segments
        .into_iter()
        .filter(|number| *number >= log.next)
        .collect();
    if let Some(last) = segments.last().copied() {
        let bytes = read(disk, &segment::name(last))?;
        if is_unfinished(&bytes) {
            segments.pop();
        }
    }
    let count = segments.len();
    for (index, number) in segments.into_iter().enumerate() {
        let bytes = read(disk, &segment::name(number))?;
        log.replay(number, &bytes, index + 1 == count)?;
    }
    let Log {
        state,
        incarnation,
        next,
        tail,
        mut untrimmed,
        log_bytes,
        base,
        damage,
        ended: _,
        dropped: _,
    } = log;
    if let Some((revision, damage)) = damage {
        if tail.is_none() || state.revision().0 < revision {
            return Err(damage);
        }
        tracing::warn!(
            error = %damage,
            "a snapshot of the object store is damaged, but everything is in an older one and the log"
        );
    }
    untrimmed.retain(|(number, _)| tail.as_ref().is_some_and(|tail| tail.number != *number));
    Ok(Recovered {
        base,
        untrimmed,
        state,
        incarnation,
        tail,
        next_segment: next,
        log_bytes,
        snapshot_size,
    })
}

fn read(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, OpenError> {
    disk.read(name).map_err(disk_error("read", name))
}

/// Whether a crash stopped the making of a segment: no header yet, and so no frames.
fn is_unfinished(bytes: &[u8]) -> bool {
    Header::decode(Kind::Segment, bytes) == Err(BadHeader::Damaged)
        && bytes.iter().skip(HEADER).all(|byte| *byte == 0)
}

/// A snapshot that was read, or what is wrong with the newest.
struct Base {
    found: Option<(Header, State)>,
    bytes: u64,
    damage: Option<(u64, OpenError)>,
}

fn newest_snapshot(disk: &dyn Disk, files: &Files, limits: Limits) -> Result<Base, OpenError> {
    let mut base = Base {
        found: None,
        bytes: 0,
        damage: None,
    };
    for revision in files.snapshots.iter().rev() {
        let name = snapshot::name(Revision(*revision));
        let bytes = read(disk, &name)?;
        match load(&name, *revision, &bytes, limits) {
            Ok(found) => {
                base.found = Some(found);
                base.bytes = bytes.len() as u64;
                break;
            }
            Err(error @ OpenError::Format { .. }) => return Err(error),
            Err(error @ (OpenError::Damaged { .. } | OpenError::Disk { .. } | OpenError::Missing)) => {
                base.damage.get_or_insert((*revision, error));
            }
        }
    }
    Ok(base)
}

/// Reads one snapshot file.
pub(crate) fn load(
    name: &str,
    revision: u64,
    bytes: &[u8],
    limits: Limits,
) -> Result<(Header, State), OpenError> {
    let (header, salt) = Header::decode(Kind::Snapshot, bytes).map_err(|bad| bad_header(name, bad))?;
    if header.revision != revision {
        let reason = format!("it is the snapshot of revision {}", header.revision);
        return Err(damaged(name, 0, reason));
    }
    let mut state = State::new(Revision(revision), limits);
    let mut stray = None;
    snapshot::read(bytes, &header, salt, |object| {
        if object.revision.0 > revision || state.get(&object.key).is_some() {
            stray.get_or_insert_with(|| object.key.to_string());
        } else {
            state.load(Arc::new(object));
        }
    })
    .map_err(|(offset, reason)| OpenError::Damaged {
        file: name.to_owned(),
        offset,
        reason,
    })?;
    match stray {
        Some(key) => Err(damaged(name, 0, format!("{key} does not belong here"))),
        None => Ok((header, state)),
    }
}

/// The log while it is replayed.
pub(crate) struct Log {
    state: State,
    incarnation: Option<u128>,
    next: u64,
    tail: Option<Tail>,
    untrimmed: Vec<(u64, u64)>,
    log_bytes: u64,
    base: Option<Header>,
    /// The newest snapshot's revision and what is wrong with it; said instead of what follows from it.
    damage: Option<(u64, OpenError)>,
    /// Where the last segment's frames ended.
    ended: Option<(String, usize)>,
    dropped: Dropped,
}

impl Log {
    fn new(base: Base, limits: Limits) -> Self {
        let Base {
            found,
            bytes: _,
            damage,
        } = base;
        let (base, state) = match found {
            Some((header, state)) => (Some(header), state),
            None => (None, State::new(FIRST, limits)),
        };
        Self {
            state,
            incarnation: base.map(|header| header.incarnation),
            next: base.map_or(1, |header| header.segment),
            base,
            tail: None,
            untrimmed: Vec::new(),
            log_bytes: 0,
            damage,
            ended: None,
            dropped: Dropped::default(),
        }
    }

    /// A log without objects that goes on with a segment.
    pub(crate) fn at(header: &Header, limits: Limits) -> Self {
        let state = State::new(Revision(header.revision), limits);
        let base = Base {
            found: Some((*header, state)),
            bytes: 0,
            damage: None,
        };
        Self::new(base, limits)
    }

    /// Replays one segment.
    pub(crate) fn replay(&mut self, number: u64, bytes: &[u8], is_last: bool) -> Result<(), OpenError> {
        let name = segment::name(number);
        let (header, salt) = Header::decode(Kind::Segment, bytes).map_err(|bad| bad_header(&name, bad))?;
        self.check_header(&name, number, &header)?;
        let mut last = 0..HEADER;
        let mut offset = HEADER;
        while let Some(payload) = frame::read(bytes, offset, salt) {
            self.batch(payload)
                .map_err(|reason| damaged(&name, offset, reason.to_owned()))?;
            let end = offset + FRAME + payload.len();
            last = offset..end;
            offset = end;
        }
        if is_last && let Some(found) = frame::find(bytes, offset, salt) {
            let reason = format!("a checksum is wrong, but the log goes on at byte {found}");
            return Err(damaged(&name, offset, reason));
        }
        self.dropped = Dropped::default();
        if bytes.len() > offset {
            self.untrimmed.push((number, offset as u64));
        }
        self.log_bytes += offset as u64;
        self.next = number.saturating_add(1);
        self.ended = Some((name, offset));
        self.tail = Some(Tail {
            number,
            salt,
            end: offset as u64,
            last: (last.start as u64, bytes[last].to_vec()),
        });
        Ok(())
    }

    fn check_header(&mut self, name: &str, number: u64, header: &Header) -> Result<(), OpenError> {
        let expected = *self.incarnation.get_or_insert(header.incarnation);
        let here = self.state.revision().0;
        let (file, offset) = self.ended.clone().unwrap_or_else(|| (name.to_owned(), 0));
        let reason = if header.segment != number || header.incarnation != expected {
            return Err(damaged(name, 0, "it is a segment of another log".to_owned()));
        } else if number != self.next {
            format!("the log goes on in \"{name}\", what is between is missing")
        } else if header.revision != here {
            format!(
                "the log ends at revision {here}, but goes on in \"{name}\" behind revision {}",
                header.revision
            )
        } else {
            return Ok(());
        };
        Err(self
            .damage
            .take()
            .map_or_else(|| damaged(&file, offset, reason), |(_, damage)| damage))
    }

    fn batch(&mut self, payload: &[u8]) -> Result<(), &'static str> {
        let unreadable = |Malformed| "a batch cannot be read though its checksum is right";
        let mut reader = Reader::new(payload);
        if reader.byte().map_err(unreadable)? != BATCH {
            return Err("a batch is of an unknown kind");
        }
        while !reader.is_done() {
            let event = match codec::record(&mut reader).map_err(unreadable)? {
                Record::Put(object) => self.put(object),
                Record::Delete(key, revision) => self.delete(&key, revision)?,
            };
            if Some(event.revision().0) != self.state.revision().0.checked_add(1) {
                return Err("revisions do not follow one another");
            }
            self.state.apply(Arc::new(event), &mut self.dropped);
        }
        Ok(())
    }

    fn put(&self, object: Object) -> Event {
        let previous = self.state.get(&object.key).cloned();
        Event {
            kind: match previous {
                Some(_) => EventKind::Modified,
                None => EventKind::Added,
            },
            object: Arc::new(object),
            previous,
            forms: Forms::default(),
        }
    }

    fn delete(&self, key: &Key, revision: Revision) -> Result<Event, &'static str> {
        let previous = self
            .state
            .get(key)
            .ok_or("an object is removed that is not there")?;
        Ok(Event {
            kind: EventKind::Deleted,
            object: Arc::new(previous.at(revision)),
            previous: Some(previous.clone()),
            forms: Forms::default(),
        })
    }
}
