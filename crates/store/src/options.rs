//! How a store is set up.

use clock::Env;

/// How a store is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the store's identity comes from.
    pub env: Env,
    /// The largest object in bytes of JSON. Default 3 MiB.
    pub object_limit: usize,
    /// How many events are kept for watches and pages, at most. Default 100,000, at least 1.
    pub window_events: usize,
    /// How many bytes of events are kept, at most. Default 64 MiB.
    pub window_bytes: usize,
    /// A log segment is closed once it has this many bytes. Default 64 MiB.
    pub segment_bytes: u64,
    /// A snapshot is made once the log behind the last one has this many bytes, and as many as the objects
    /// themselves; when the store is opened, already with 4 MiB if that is four times the objects. Default 64 MiB.
    pub snapshot_bytes: u64,
    /// Room on the disk that is kept back for removals, and half of it for updates of at most 16 KiB: they still go
    /// through when everything else is refused as [`source::Error::Full`]. Beside it as much room is kept back as a
    /// snapshot of the objects takes (at most 32 times this), so that a long log can always be replaced and room
    /// comes back by itself. Default 512 KiB.
    pub reserve_bytes: u64,
    /// How many writes wait for the writer before callers wait for room in the queue. Default 4,096, at least 1.
    pub queue: usize,
    /// Begin a new incarnation, as after a backup was restored: the revision jumps by 2^32, everything before is
    /// expired. There must be a store (or a whole backup of one). Default false.
    pub new_incarnation: bool,
}

impl Options {
    /// The defaults, with this source of randomness.
    pub fn new(env: Env) -> Self {
        Self {
            env,
            object_limit: 3 << 20,
            window_events: 100_000,
            window_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            snapshot_bytes: 64 << 20,
            reserve_bytes: 512 << 10,
            queue: 4_096,
            new_incarnation: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(Env::system())
    }
}

/// Where commits happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On an operating system thread of the store's own; waiting writes share a sync.
    Thread,
    /// On the task that writes, at once and without any thread: for deterministic simulation.
    Inline,
}
