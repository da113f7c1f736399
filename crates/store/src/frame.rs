//! Frames and file headers: how bytes on disk are told from garbage.
//!
//! A file is a header and frames. A frame is `mark, length, checksum, payload`; its checksum is salted with the
//! header's, so that neither a frame of another file nor one hidden inside an object passes for one of this file.

/// The format that this program writes, and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

/// Not UTF-8, so it is never part of an object's JSON.
const MARK: [u8; 4] = [0xf8, b'f', b'r', 0xff];

/// Bytes in front of a frame's payload.
pub(crate) const FRAME: usize = 12;

/// Bytes of a file's header.
pub(crate) const HEADER: usize = 64;

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changes in order.
    Segment,
    /// All objects at one revision.
    Snapshot,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Segment => b"tombolo\xf8",
            Self::Snapshot => b"tombolo\xf9",
        }
    }
}

/// The first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// What kind of file it is.
    pub(crate) kind: Kind,
    /// Which life of the store it belongs to.
    pub(crate) incarnation: u128,
    /// The segment's number; for a snapshot: the first segment that comes after it.
    pub(crate) segment: u64,
    /// The revision that the state had when the file was begun.
    pub(crate) revision: u64,
    /// How many objects a snapshot holds.
    pub(crate) count: u64,
}

/// Why a header is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// It is no header of this kind, or a damaged one.
    Damaged,
    /// It is of a format that this program does not know.
    Version(u32),
}

impl Header {
    /// Its bytes, and the salt for the file's frames.
    pub(crate) fn encode(&self) -> ([u8; HEADER], u32) {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(self.kind.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..28].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.segment.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.revision.to_le_bytes());
        bytes[44..52].copy_from_slice(&self.count.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// The header that a file begins with, and the salt of its frames.
    pub(crate) fn decode(kind: Kind, file: &[u8]) -> Result<(Self, u32), BadHeader> {
        let bytes = file.get(..HEADER).ok_or(BadHeader::Damaged)?;
        if &bytes[..8] != kind.magic() {
            return Err(BadHeader::Damaged);
        }
        let checksum = u32_at(bytes, HEADER - 4);
        if checksum != crc32fast::hash(&bytes[..HEADER - 4]) {
            return Err(BadHeader::Damaged);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        let mut incarnation = [0; 16];
        incarnation.copy_from_slice(&bytes[12..28]);
        let header = Self {
            kind,
            incarnation: u128::from_le_bytes(incarnation),
            segment: u64_at(bytes, 28),
            revision: u64_at(bytes, 36),
            count: u64_at(bytes, 44),
        };
        Ok((header, checksum))
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut part = [0; 4];
    part.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(part)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut part = [0; 8];
    part.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(part)
}

fn checksum(salt: u32, length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Begins a frame in an empty buffer; the payload is appended behind it.
pub(crate) fn begin(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(FRAME, 0);
}

/// Ends a frame that [`begin`] began.
pub(crate) fn end(buffer: &mut [u8], salt: u32) {
    let (front, payload) = buffer.split_at_mut(FRAME);
    let length = u32::try_from(payload.len()).expect("batches and chunks are far below 4 GiB");
    front[..4].copy_from_slice(&MARK);
    front[4..8].copy_from_slice(&length.to_le_bytes());
    front[8..].copy_from_slice(&checksum(salt, length, payload).to_le_bytes());
}

/// The payload of the frame at an offset, `None` if there is no whole one.
pub(crate) fn read(file: &[u8], offset: usize, salt: u32) -> Option<&[u8]> {
    let bytes = file.get(offset..)?;
    let front = bytes.get(..FRAME)?;
    if front[..4] != MARK {
        return None;
    }
    let length = u32_at(front, 4);
    let payload = bytes[FRAME..].get(..usize::try_from(length).ok()?)?;
    (checksum(salt, length, payload) == u32_at(front, 8)).then_some(payload)
}

/// Where the next whole frame begins at or behind an offset.
pub(crate) fn find(file: &[u8], offset: usize, salt: u32) -> Option<usize> {
    let rest = file.get(offset..)?;
    memchr::memmem::find_iter(rest, &MARK)
        .map(|at| offset + at)
        .find(|at| read(file, *at, salt).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Segment,
            incarnation: 7,
            segment: 3,
            revision: 99,
            count: 0,
        }
    }

    #[test]
    fn headers_read_back_and_damage_shows() {
        let (bytes, salt) = header().encode();
        assert_eq!(Header::decode(Kind::Segment, &bytes), Ok((header(), salt)));
        assert_eq!(Header::decode(Kind::Snapshot, &bytes), Err(BadHeader::Damaged));
        for index in 0..HEADER {
            let mut damaged = bytes;
            damaged[index] ^= 1;
            assert_eq!(Header::decode(Kind::Segment, &damaged), Err(BadHeader::Damaged));
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let (mut bytes, _) = header().encode();
        bytes[8] = 2;
        let checksum = crc32fast::hash(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Header::decode(Kind::Segment, &bytes), Err(BadHeader::Version(2)));
    }

    #[test]
    fn frames_read_back_and_are_found_behind_garbage() {
        let mut frame = Vec::new();
        begin(&mut frame);
        frame.extend_from_slice(b"payload");
        end(&mut frame, 5);
        assert_eq!(read(&frame, 0, 5), Some(&b"payload"[..]));
        assert_eq!(read(&frame, 0, 6), None, "of another file");
        for cut in 0..frame.len() {
            assert_eq!(read(&frame[..cut], 0, 5), None);
        }
        let mut file = b"garbage \xf8fr\xff more".to_vec();
        let at = file.len();
        file.extend_from_slice(&frame);
        assert_eq!(find(&file, 0, 5), Some(at));
        assert_eq!(find(&file, at + 1, 5), None);
    }
}
