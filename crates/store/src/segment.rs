//! The log's newest segment: room is reserved, frames are appended, every frame is synced.
//!
//! Behind the last frame there is always some room reserved that only a few writes may use; see `room`.

use std::io;

use clock::disk::{Disk, DiskFile, is_full};

use crate::frame::{HEADER, Header};

/// Room is reserved at least this far ahead…
const MIN_AHEAD: u64 = 256 << 10;
/// …and at most this far, doubling in between.
const MAX_AHEAD: u64 = 8 << 20;

/// Why something was not written.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no room; everything is as it was.
    Full,
    /// What the disk holds is uncertain: nothing may be written any more.
    Fatal(String),
}

/// Tells a full disk from a broken one.
pub(crate) fn failure(action: &str, file: &str, error: &io::Error) -> Failure {
    if is_full(error) {
        Failure::Full
    } else {
        fatal(action, file, error)
    }
}

/// A failure that ends the store.
pub(crate) fn fatal(action: &str, file: &str, error: &io::Error) -> Failure {
    Failure::Fatal(format!("cannot {action} \"{file}\": {error}"))
}

/// A segment's file name.
pub(crate) fn name(number: u64) -> String {
    format!("{number:016x}.log")
}

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Box<dyn DiskFile>,
    name: String,
    number: u64,
    offset: u64,
    reserved: u64,
    salt: u32,
    /// How long it should become at most.
    limit: u64,
    /// How far ahead room is reserved at most; less where it was not to be had.
    ahead: u64,
}

impl Segment {
    /// A new, empty, durable segment with so much room behind its header. When there is none nothing is left of it.
    pub(crate) fn create(disk: &dyn Disk, header: &Header, limit: u64, room: u64) -> Result<Self, Failure> {
        let name = name(header.segment);
        let (bytes, salt) = header.encode();
        let reserved = HEADER as u64 + room;
        let made = disk.create(&name).and_then(|mut file| {
            file.reserve(reserved)?;
            file.write_at(0, &bytes)?;
            Ok(file)
        });
        let mut file = match made {
            Ok(file) => file,
            Err(error) if is_full(&error) => {
                // A half-made segment must not come back beside frames that go to the one before.
                match disk.remove(&name) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(fatal("remove", &name, &error)),
                }
                disk.sync_directory()
                    .map_err(|error| fatal("sync the directory of", &name, &error))?;
                return Err(Failure::Full);
            }
            Err(error) => return Err(fatal("create", &name, &error)),
        };
        file.sync().map_err(|error| fatal("sync", &name, &error))?;
        disk.sync_directory()
            .map_err(|error| fatal("sync the directory of", &name, &error))?;
        Ok(Self {
            file,
            name,
            number: header.segment,
            offset: HEADER as u64,
            reserved,
            salt,
            limit,
            ahead: MAX_AHEAD,
        })
    }

    /// Goes on with a segment whose valid part ends at `end`. Its last frame is written and synced again: it may
    /// have come from a cache that a failed sync left behind.
    pub(crate) fn resume(
        disk: &dyn Disk,
        number: u64,
        salt: u32,
        end: u64,
        last: (u64, &[u8]),
        limit: u64,
    ) -> io::Result<Self> {
        let name = name(number);
        let mut file = disk.open(&name)?;
        file.truncate(end)?;
        file.write_at(last.0, last.1)?;
        file.sync()?;
        Ok(Self {
            file,
            name,
            number,
            offset: end,
            reserved: end,
            salt,
            limit,
            ahead: MAX_AHEAD,
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The salt of its frames.
    pub(crate) fn salt(&self) -> u32 {
        self.salt
    }

    /// Whether a frame of this length would make it longer than it should be.
    pub(crate) fn is_full_for(&self, length: u64) -> bool {
        self.offset > HEADER as u64 && self.offset + length > self.limit
    }

    /// Whether it has no frames.
    pub(crate) fn is_empty(&self) -> bool {
        self.offset == HEADER as u64
    }

    /// Whether any room is reserved.
    pub(crate) fn has_reserve(&self) -> bool {
        self.reserved > self.offset
    }

    /// Makes sure of room, writes a frame, syncs. `wish` bytes stay reserved behind it, or `keep` if there is no more
    /// room. On [`Failure::Full`] nothing of it is left.
    pub(crate) fn append(&mut self, frame: &[u8], wish: u64, keep: u64) -> Result<(), Failure> {
        let end = self.offset + frame.len() as u64;
        self.reserve(end, wish, keep)?;
        if let Err(error) = self.file.write_at(self.offset, frame) {
            if !is_full(&error) {
                return Err(fatal("write to", &self.name, &error));
            }
            // Some file systems need room to overwrite, too. Once it is refused it must not come back.
            self.file
                .truncate(self.offset)
                .and_then(|()| self.file.sync())
                .map_err(|error| fatal("truncate", &self.name, &error))?;
            self.reserved = self.offset;
            return Err(Failure::Full);
        }
        self.file
            .sync()
            .map_err(|error| fatal("sync", &self.name, &error))?;
        self.offset = end;
        Ok(())
    }

    fn reserve(&mut self, end: u64, wish: u64, keep: u64) -> Result<(), Failure> {
        let is_there = end + wish <= self.reserved
            || self.grow(end, wish)?
            || end + keep <= self.reserved
            || (keep < wish && self.extend(end + keep)?);
        if is_there { Ok(()) } else { Err(Failure::Full) }
    }

    /// Reserves room up to `end` and `wish` behind it, and further ahead if there is some. Whether there was is the
    /// answer.
    fn grow(&mut self, end: u64, wish: u64) -> Result<bool, Failure> {
        let least = end + wish;
        let most = self.limit.saturating_add(wish).max(least);
        let mut ahead = self.offset.clamp(MIN_AHEAD, MAX_AHEAD).min(self.ahead);
        loop {
            let size = (least + ahead).min(most);
            if self.extend(size)? {
                self.ahead = (self.ahead * 2).min(MAX_AHEAD);
                return Ok(true);
            }
            self.ahead = MIN_AHEAD;
            if size == least {
                return Ok(false);
            }
            ahead = if ahead > MIN_AHEAD { ahead / 4 } else { 0 };
        }
    }

    /// Reserves room up to `size`, if there is some.
    fn extend(&mut self, size: u64) -> Result<bool, Failure> {
        if size <= self.reserved {
            return Ok(true);
        }
        match self.file.reserve(size) {
            Ok(()) => {
                self.reserved = size;
                Ok(true)
            }
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(fatal("reserve room in", &self.name, &error)),
        }
    }

    /// Whether so many bytes are (now) reserved behind the last frame.
    pub(crate) fn has_room(&mut self, bytes: u64) -> Result<bool, Failure> {
        self.extend(self.offset + bytes)
    }

    /// Reserves so many bytes behind the last frame, or a part of them if there is no more room. Whether it got all
    /// is the answer.
    pub(crate) fn keep_back(&mut self, bytes: u64) -> Result<bool, Failure> {
        let mut part = bytes;
        while !self.extend(self.offset + part)? {
            part /= 2;
        }
        Ok(part == bytes)
    }

    /// Gives back all reserved room behind the last frame.
    pub(crate) fn release(&mut self) -> Result<(), Failure> {
        self.file
            .truncate(self.offset)
            .map_err(|error| fatal("truncate", &self.name, &error))?;
        self.reserved = self.offset;
        Ok(())
    }
}
