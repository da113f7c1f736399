//! A writer on a full disk: what it still takes, how it comes back by itself.

use source::{Error, Write};

use crate::frame::{Header, Kind};
use crate::room::{self, Need, Room};
use crate::segment::{Failure, Segment};
use crate::writer::{Committed, Writer, make_snapshot};

/// What a writer knows about the room on its disk.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// Set while the store is read-only: how many bytes the write had that found no room.
    wanted: Option<u64>,
    /// A snapshot of this many bytes found no room either.
    hopeless: Option<u64>,
}

impl Shortage {
    /// Whether the store is read-only.
    pub(crate) fn is_short(&self) -> bool {
        self.wanted.is_some()
    }
}

impl Writer {
    /// After opening: keeps room back, and makes a snapshot if the log is much longer than what is alive.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        let stored = self.shared.read().stored();
        if !self.segment.keep_back(self.room(0).all())? {
            self.relieve()?;
        } else if room::is_long(self.snapshot_bytes, stored, self.log_bytes) {
            match self.rotate(true) {
                Ok(()) | Err(Failure::Full) => {}
                Err(error @ Failure::Fatal(_)) => return Err(error),
            }
        }
        Ok(())
    }

    /// What is to be kept back once `more` bytes are stored.
    pub(crate) fn room(&self, more: u64) -> Room {
        Room::new(self.reserve_bytes, self.shared.read().stored() + more)
    }

    /// Makes the frame in the buffer durable, if need be after making room.
    pub(crate) fn persist_somehow(&mut self, need: Need) -> Result<(), Failure> {
        let length = self.buffer.len() as u64;
        let room = self.room(length);
        let behind = room.behind(need);
        // Trying for more each time would be slow while there is none.
        let wish = match need {
            Need::Removals | Need::Small if self.shortage.is_short() => behind,
            Need::Removals | Need::Small | Need::Ordinary => room.all(),
        };
        let mut result = self.append(wish, behind);
        if matches!(result, Err(Failure::Full)) && self.relieve()? {
            result = self.append(wish, behind);
        }
        if matches!(result, Err(Failure::Full)) && need == Need::Removals {
            result = self.append(0, 0);
        }
        match &result {
            Ok(()) if need == Need::Ordinary => self.note_room(length, room)?,
            Err(Failure::Full) => self.note_shortage(length, room)?,
            Ok(()) | Err(Failure::Fatal(_)) => {}
        }
        result
    }

    fn note_shortage(&mut self, length: u64, room: Room) -> Result<(), Failure> {
        if !self.segment.has_reserve() {
            self.segment.keep_back(room.all())?;
        }
        if self.shortage.wanted.is_none() {
            tracing::warn!(
                "no space left on the object store's disk: it takes only removals and small updates until there is"
            );
        }
        self.shortage.wanted.get_or_insert(length);
        self.shared.counters.read_only.set(true);
        Ok(())
    }

    /// Leaves the read-only state once what it began with would fit: else it would come and go with every write.
    fn note_room(&mut self, length: u64, room: Room) -> Result<(), Failure> {
        let Some(wanted) = self.shortage.wanted else {
            return Ok(());
        };
        if length >= wanted || self.segment.has_room(wanted + room.all())? {
            self.shortage = Shortage::default();
            self.shared.counters.read_only.set(false);
            tracing::info!("the object store's disk has space again: it takes all writes");
        }
        Ok(())
    }

    /// Makes room by a snapshot, if that frees enough. Whether to try again is the answer.
    fn relieve(&mut self) -> Result<bool, Failure> {
        let waited = self.is_snapshotting();
        // It may just be about to remove what it replaces.
        self.reap()?;
        let stored = self.shared.read().stored();
        let replaced = self.log_bytes + self.snapshot_size;
        let is_hopeless = self.shortage.hopeless.is_some_and(|tried| stored > tried / 4 * 3);
        if is_hopeless || !room::is_worthwhile(self.reserve_bytes, stored, replaced) {
            return Ok(waited);
        }
        let made = self.compact()?;
        self.shortage.hopeless = (!made).then_some(stored);
        self.segment.keep_back(self.room(0).all())?;
        Ok(waited || made)
    }

    /// Makes a snapshot out of what is kept back. On success the log before it is gone.
    fn compact(&mut self) -> Result<bool, Failure> {
        self.segment.release()?;
        let revision = self.shared.read().revision();
        let mut header = Header {
            kind: Kind::Segment,
            incarnation: self.incarnation,
            segment: self.segment.number(),
            revision: revision.0,
            count: 0,
        };
        if !self.segment.is_empty() {
            header.segment += 1;
            match Segment::create(self.disk.as_ref(), &header, self.segment_bytes, 0) {
                Ok(next) => self.segment = next,
                Err(Failure::Full) => return Ok(false),
                Err(error @ Failure::Fatal(_)) => return Err(error),
            }
        }
        let objects = self.shared.read().all();
        header.kind = Kind::Snapshot;
        header.count = objects.len() as u64;
        match make_snapshot(self.disk.as_ref(), &header, &objects) {
            Ok(bytes) => {
                tracing::debug!(bytes, "made a snapshot of the object store to free room");
                self.shared.counters.snapshots.add(1);
                self.log_bytes = 0;
                self.snapshot_size = bytes;
                Ok(true)
            }
            Err(Failure::Full) => {
                self.shared.counters.snapshots_full.add(1);
                Ok(false)
            }
            Err(error @ Failure::Fatal(_)) => Err(error),
        }
    }

    /// Commits each write for itself: one that finds no room must not take the others with it.
    pub(crate) fn commit_apart(&mut self, writes: Vec<Write>) -> Committed {
        let mut all = Committed::default();
        for write in writes {
            all.append(self.commit(vec![write]));
        }
        all
    }

    /// Commits the removals of a batch that found no room; its other writes are refused.
    pub(crate) fn commit_removals(&mut self, count: usize, removals: Vec<(usize, Write)>) -> Committed {
        let mut all = Committed::refused(count, &Error::Full);
        if removals.len() < count {
            for (index, write) in removals {
                all.replace(index, self.commit(vec![write]));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
