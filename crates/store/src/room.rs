//! How much room is kept back behind the log, and for whom: the pure rules.
//!
//! A full disk must not be a trap. What would free room (removals, and the snapshot that replaces a long log) needs
//! room itself, so the log's segment always has some reserved that ordinary writes may not use:
//!
//! - as much as a snapshot of the present objects takes, up to [`SNAPSHOTS`] times [`crate::Options::reserve_bytes`],
//! - and [`crate::Options::reserve_bytes`]: half of it for small updates (a finalizer that goes, a status), all of it
//!   for removals.

/// The part for a snapshot is at most this many times the other part: 16 MiB by default.
const SNAPSHOTS: u64 = 32;

/// A snapshot's and a segment's headers and frames, generously.
const OVERHEAD: u64 = 512;

/// An update with at most this many bytes of JSON is small.
const SMALL: usize = 16 << 10;

/// A log of this length is long enough to be replaced when the store is opened.
const LONG: u64 = 4 << 20;

/// How deep into what is kept back a batch may reach: as deep as its most demanding write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Removals only: as deep as there is anything.
    Removals,
    /// Small updates too.
    Small,
    /// Not at all.
    Ordinary,
}

impl Need {
    /// What a stored version needs: whether it replaces one, and its bytes of JSON.
    pub(crate) fn of_put(is_update: bool, json: usize) -> Self {
        if is_update && json <= SMALL {
            Self::Small
        } else {
            Self::Ordinary
        }
    }
}

/// What is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// For removals and small updates.
    writes: u64,
    /// For a snapshot.
    snapshot: u64,
}

impl Room {
    /// For objects that take `stored` bytes in a snapshot.
    pub(crate) fn new(reserve_bytes: u64, stored: u64) -> Self {
        let snapshot = stored + stored / 16 + OVERHEAD;
        Self {
            writes: reserve_bytes,
            snapshot: snapshot.min(reserve_bytes.saturating_mul(SNAPSHOTS)),
        }
    }

    /// All of it.
    pub(crate) fn all(self) -> u64 {
        self.writes + self.snapshot
    }

    /// What must still be kept back behind a batch.
    pub(crate) fn behind(self, need: Need) -> u64 {
        match need {
            Need::Removals => self.snapshot,
            Need::Small => self.snapshot + self.writes / 2,
            Need::Ordinary => self.all(),
        }
    }
}

/// Whether a snapshot of `stored` bytes frees enough room, given the bytes of log and snapshot that it replaces.
pub(crate) fn is_worthwhile(reserve_bytes: u64, stored: u64, replaced: u64) -> bool {
    replaced.saturating_sub(stored) > (stored / 4).max(reserve_bytes / 8)
}

/// Whether a store that is opened should make a snapshot: its log is much longer than what is alive.
pub(crate) fn is_long(snapshot_bytes: u64, stored: u64, log_bytes: u64) -> bool {
    log_bytes >= snapshot_bytes.min(LONG) && log_bytes / 4 >= stored
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_snapshot_fits_into_what_ordinary_writes_leave() {
        for stored in [0, 1, 1_000, 100_000, MIB, 15 * MIB] {
            let room = Room::new(MIB / 2, stored);
            assert!(room.behind(Need::Removals) >= stored + OVERHEAD, "{stored}");
            assert!(room.behind(Need::Removals) < room.behind(Need::Small));
            assert!(room.behind(Need::Small) < room.behind(Need::Ordinary));
            assert_eq!(room.behind(Need::Ordinary), room.all());
        }
        assert!(Room::new(MIB / 2, 0).all() < MIB, "a new store takes little");
        assert_eq!(Room::new(MIB / 2, 1 << 40).all(), 16 * MIB + MIB / 2, "at most");
    }

    #[test]
    fn small_updates_are_small_and_updates() {
        assert_eq!(Need::of_put(true, 300), Need::Small);
        assert_eq!(Need::of_put(true, SMALL + 1), Need::Ordinary);
        assert_eq!(Need::of_put(false, 300), Need::Ordinary);
        assert_eq!(Need::Small.max(Need::Removals), Need::Small);
        assert_eq!(Need::Ordinary.max(Need::Small), Need::Ordinary);
    }

    #[test]
    fn a_snapshot_is_made_only_if_it_frees_enough() {
        for (stored, replaced, expected) in [
            (0, 0, false),
            (0, 10 * MIB, true),
            (0, 1_000, false),
            (4 * MIB, 4 * MIB, false),
            (4 * MIB, 5 * MIB, false),
            (4 * MIB, 6 * MIB, true),
            (4 * MIB, 2 * MIB, false),
        ] {
            let found = is_worthwhile(MIB / 2, stored, replaced);
            assert_eq!(found, expected, "{replaced} become {stored}");
        }
    }

    #[test]
    fn a_log_is_long_beside_what_is_alive() {
        for (stored, log, expected) in [
            (0, 0, false),
            (0, 3 * MIB, false),
            (0, 4 * MIB, true),
            (MIB, 4 * MIB, true),
            (2 * MIB, 7 * MIB, false),
        ] {
            assert_eq!(is_long(64 * MIB, stored, log), expected, "{log} for {stored}");
        }
        assert!(
            is_long(4_000, 0, 4_000),
            "earlier where snapshots are made earlier"
        );
    }
}
