//! Bodies for fuzzers: each takes any bytes, and must neither panic nor allocate without bound.

use crate::archive;
use crate::frame::{Header, Kind};
use crate::recover::{self, Log};
use crate::state::Limits;

const LIMITS: Limits = Limits {
    events: 1_000,
    bytes: 1 << 20,
};

/// Replays the bytes as a segment at the place in a log that they name.
pub fn fuzz_segment(bytes: &[u8]) {
    let Ok((header, _)) = Header::decode(Kind::Segment, bytes) else {
        return;
    };
    for is_last in [true, false] {
        // Any bytes may be refused; what matters is how.
        Log::at(&header, LIMITS)
            .replay(header.segment, bytes, is_last)
            .ok();
    }
}

/// Loads the bytes as a snapshot of the revision that they name.
pub fn fuzz_snapshot(bytes: &[u8]) {
    let mut revision = [0; 8];
    if let Some(part) = bytes.get(36..44) {
        revision.copy_from_slice(part);
    }
    // Any bytes may be refused; what matters is how.
    recover::load("fuzz", u64::from_le_bytes(revision), bytes, LIMITS).ok();
}

/// Reads the bytes as an archive of which nothing is kept.
pub fn fuzz_archive(bytes: &[u8]) {
    // Any bytes may be refused; what matters is how.
    archive::unpack(&mut &*bytes, &mut |_| Ok(None)).ok();
}
