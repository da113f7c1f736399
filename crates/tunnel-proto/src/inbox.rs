//! Received bytes that nobody has read yet.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

/// Payloads shorter than this are copied together, so that a flood of one-byte frames costs what its bytes cost and
/// a short view does not keep a long read buffer alive.
const COPY_BELOW: usize = 16 << 10;

/// A queue of chunks.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    chunks: VecDeque<Bytes>,
    /// The last chunk, while it still grows.
    tail: BytesMut,
    len: usize,
}

impl Inbox {
    /// Unread bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        if bytes.len() < COPY_BELOW {
            self.tail.extend_from_slice(&bytes);
            if self.tail.len() >= COPY_BELOW {
                self.chunks.push_back(self.tail.split().freeze());
            }
        } else {
            if !self.tail.is_empty() {
                self.chunks.push_back(self.tail.split().freeze());
            }
            self.chunks.push_back(bytes);
        }
    }

    /// The next bytes in order, at most `max` of them.
    pub(crate) fn pop(&mut self, max: usize) -> Option<Bytes> {
        if self.chunks.is_empty() && !self.tail.is_empty() {
            self.chunks.push_back(self.tail.split().freeze());
        }
        let first = self.chunks.front_mut()?;
        let bytes = if first.len() <= max {
            self.chunks.pop_front()?
        } else {
            let part = first.slice(..max);
            first.advance(max);
            part
        };
        self.len -= bytes.len();
        Some(bytes)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_went_in_whatever_the_sizes() {
        let mut inbox = Inbox::default();
        let mut sent = Vec::new();
        for size in [1, 0, 5, COPY_BELOW, 3, COPY_BELOW - 1, 2, COPY_BELOW + 7] {
            let bytes: Vec<u8> = (0..size).map(|n| (n * 7 + size) as u8).collect();
            sent.extend_from_slice(&bytes);
            inbox.push(bytes.into());
        }
        assert_eq!(inbox.len(), sent.len());
        let mut read = Vec::new();
        while let Some(bytes) = inbox.pop(1_000) {
            assert!(bytes.len() <= 1_000);
            read.extend_from_slice(&bytes);
        }
        assert_eq!(read, sent);
        assert_eq!(inbox.len(), 0);
    }

    #[test]
    fn many_one_byte_frames_share_chunks() {
        let mut inbox = Inbox::default();
        for _ in 0..100_000 {
            inbox.push(Bytes::from_static(b"x"));
        }
        assert!(inbox.chunks.len() <= 100_000 / COPY_BELOW + 1);
    }
}
