//! One stream of a session.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::types::CloseReason;
use crate::frame::{self, ConnId, Frame};
use crate::inbox::Inbox;

/// A waiting Data frame shorter than this grows instead of a new one being made.
const GROW_BELOW: usize = 16 << 10;

/// Where a stream is in its life.
#[derive(Debug)]
pub(crate) enum State {
    /// From a Connect (sent or received) on.
    Open,
    /// This end shut it down; its last bytes are still to be sent, then `EOF`.
    Flushing,
    /// Off the wire; unread bytes may be left. Forgotten when its owner releases it.
    Ended(CloseReason),
}

#[derive(Debug)]
enum Waiting {
    Connect(Bytes),
    Data { frame: BytesMut, payload: usize },
}

/// A stream's state, buffers and flags.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) state: State,
    pub(crate) inbox: Inbox,
    outbox: VecDeque<Waiting>,
    /// Payload bytes in `outbox`.
    pub(crate) outbox_bytes: usize,
    /// The peer sent Pause.
    pub(crate) paused_by_peer: bool,
    /// This end sent Pause. (Upstream keeps both in one flag and confuses them.)
    pub(crate) pausing_peer: bool,
    /// In the session's `ready` queue.
    pub(crate) queued: bool,
    /// The reader found nothing and waits for an event.
    pub(crate) want_read: bool,
    /// The writer found no room and waits for an event.
    pub(crate) want_write: bool,
    /// Since when nobody owns it any more.
    pub(crate) released_at: Option<Duration>,
}

impl Conn {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Open,
            inbox: Inbox::default(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            paused_by_peer: false,
            pausing_peer: false,
            queued: false,
            want_read: false,
            want_write: false,
            released_at: None,
        }
    }

    pub(crate) fn push_connect(&mut self, frame: &Frame) {
        self.outbox.push_back(Waiting::Connect(frame.encode()));
    }

    pub(crate) fn push_data(&mut self, frame_id: i64, id: ConnId, bytes: &[u8], max_payload: usize) {
        self.outbox_bytes += bytes.len();
        if let Some(Waiting::Data { frame, payload }) = self.outbox.back_mut()
            && *payload < GROW_BELOW
            && *payload + bytes.len() <= max_payload
        {
            frame.extend_from_slice(bytes);
            *payload += bytes.len();
            return;
        }
        let mut frame = frame::start_data(frame_id, id, bytes.len());
        frame.extend_from_slice(bytes);
        self.outbox.push_back(Waiting::Data {
            frame,
            payload: bytes.len(),
        });
    }

    /// Whether [`Conn::take_frame`] would give one.
    pub(crate) fn has_frame_to_send(&self) -> bool {
        match self.outbox.front() {
            Some(Waiting::Connect(_)) => true,
            Some(Waiting::Data { .. }) => !self.paused_by_peer,
            None => false,
        }
    }

    /// The next frame with the size of its payload.
    pub(crate) fn take_frame(&mut self) -> Option<(Bytes, usize)> {
        if !self.has_frame_to_send() {
            return None;
        }
        match self.outbox.pop_front()? {
            Waiting::Connect(bytes) => Some((bytes, 0)),
            Waiting::Data { frame, payload } => {
                self.outbox_bytes -= payload;
                Some((frame.freeze(), payload))
            }
        }
    }

    /// Whether the peer has not heard of the stream yet.
    pub(crate) fn is_unannounced(&self) -> bool {
        matches!(self.outbox.front(), Some(Waiting::Connect(_)))
    }

    pub(crate) fn outbox_is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Drops what waits; gives its payload bytes.
    pub(crate) fn clear_outbox(&mut self) -> usize {
        self.outbox.clear();
        std::mem::take(&mut self.outbox_bytes)
    }
}
