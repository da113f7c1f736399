//! Counters, and how they look as metrics.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use source::Revision;

/// What a store has done since it was opened, and how large it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Writes that were made durable.
    pub writes: u64,
    /// Writes refused because of what they expected.
    pub refused: u64,
    /// Writes refused because there was no room.
    pub full: u64,
    /// Whether it is read-only but for removals and small updates, for want of room.
    pub read_only: bool,
    /// Batches of writes, each with one sync.
    pub batches: u64,
    /// Bytes appended to the log.
    pub log_bytes: u64,
    /// Snapshots made.
    pub snapshots: u64,
    /// Snapshots given up for want of room.
    pub snapshots_full: u64,
    /// Objects stored.
    pub objects: u64,
    /// Bytes of JSON of the objects stored.
    pub object_bytes: u64,
    /// Events kept for watches and pages.
    pub events: u64,
    /// Bytes of events kept.
    pub event_bytes: u64,
    /// The newest revision.
    pub revision: Revision,
    /// The oldest revision that every resource can be watched and listed from.
    pub oldest: Revision,
}

impl Stats {
    /// As metrics in the text form of OpenMetrics, without its end mark.
    pub fn to_metrics(&self) -> String {
        // Destructured so that a new field cannot be forgotten.
        let Self {
            writes,
            refused,
            full,
            read_only,
            batches,
            log_bytes,
            snapshots,
            snapshots_full,
            objects,
            object_bytes,
            events,
            event_bytes,
            revision,
            oldest,
        } = *self;
        let mut text = String::new();
        for (name, total) in [
            ("writes", writes),
            ("writes_refused", refused),
            ("writes_without_room", full),
            ("batches", batches),
            ("log_bytes", log_bytes),
            ("snapshots", snapshots),
            ("snapshots_without_room", snapshots_full),
        ] {
            let name = format!("tombolo_store_{name}");
            writeln!(text, "# TYPE {name} counter\n{name}_total {total}")
                .expect("a string takes every write");
        }
        for (name, value) in [
            ("read_only", u64::from(read_only)),
            ("objects", objects),
            ("object_bytes", object_bytes),
            ("window_events", events),
            ("window_bytes", event_bytes),
            ("revision", revision.0),
            ("oldest_revision", oldest.0),
        ] {
            let name = format!("tombolo_store_{name}");
            writeln!(text, "# TYPE {name} gauge\n{name} {value}").expect("a string takes every write");
        }
        text
    }
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) writes: Counter,
    pub(crate) refused: Counter,
    pub(crate) full: Counter,
    pub(crate) read_only: Flag,
    pub(crate) batches: Counter,
    pub(crate) log_bytes: Counter,
    pub(crate) snapshots: Counter,
    pub(crate) snapshots_full: Counter,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Its value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that is so or not.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    /// Sets it.
    pub(crate) fn set(&self, is_so: bool) {
        self.0.store(is_so, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_say_what_a_person_would_look_for() {
        let stats = Stats {
            writes: 7,
            read_only: true,
            objects: 5,
            ..Stats::default()
        };
        let text = stats.to_metrics();
        for line in [
            "# TYPE tombolo_store_writes counter",
            "tombolo_store_writes_total 7",
            "tombolo_store_read_only 1",
            "tombolo_store_objects 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(text.lines().count(), 2 * 14);
    }
}
