//! What one session may use.

use std::time::Duration;

/// The bounds of one session. [`Limits::default`] is what both ends run with; tests use smaller ones.
///
/// The memory one peer can make this end hold is at most `session_inbox_hard` plus one frame of received bytes (times
/// at most four where the shell's read buffer is shared by several frames) and `session_outbox` plus 16 KiB a
/// stream of bytes to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest message accepted, in bytes. Default 4 MiB. A shell refuses longer ones before it allocates.
    pub max_message: usize,
    /// The longest payload that this end puts in one Data frame, in bytes. Default 64 KiB.
    pub max_payload: usize,
    /// Streams at one time. Default 2,048; one more is refused with an Error frame.
    pub max_conns: usize,
    /// More unread bytes than this in one stream pause the peer. Default 2 MiB.
    pub pause_above: usize,
    /// Fewer unread bytes than this let the peer go on. Default 256 KiB.
    pub resume_below: usize,
    /// More unread bytes than this in one stream end it: the peer ignores Pause. Default 32 MiB.
    pub conn_inbox_hard: usize,
    /// More unread bytes than this in all streams together pause each stream that receives. Default 32 MiB.
    pub session_inbox_soft: usize,
    /// More unread bytes than this in all streams end the stream that holds the most. Default 64 MiB.
    pub session_inbox_hard: usize,
    /// Bytes waiting to be sent in one stream before its writer blocks. Default 256 KiB.
    pub conn_outbox: usize,
    /// Bytes waiting to be sent in all streams before each may only hold 16 KiB. Default 32 MiB.
    pub session_outbox: usize,
    /// How often this end pings, and says so. Default 2 s.
    pub ping_every: Duration,
    /// After this long without a sign of life a peer is dead that does not say how often it pings. Default 15 s. One
    /// that says so is dead after two and a half times that, but not before it would be at this end's own pace: 5 s.
    pub dead_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: usize = 1 << 10;
        const MIB: usize = 1 << 20;
        Self {
            max_message: 4 * MIB,
            max_payload: 64 * KIB,
            max_conns: 2_048,
            pause_above: 2 * MIB,
            resume_below: 256 * KIB,
            conn_inbox_hard: 32 * MIB,
            session_inbox_soft: 32 * MIB,
            session_inbox_hard: 64 * MIB,
            conn_outbox: 256 * KIB,
            session_outbox: 32 * MIB,
            ping_every: Duration::from_secs(2),
            dead_after: Duration::from_secs(15),
        }
    }
}
