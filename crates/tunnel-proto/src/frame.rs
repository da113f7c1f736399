//! One frame: `varint id, varint connID, varint type`, for Data and Connect `varint deadlineMillis`, then a payload.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::varint;

/// How many bytes of a Connect's target or an Error's text a receiver reads.
pub const MAX_TEXT: usize = 100;

/// The deadline that senders write and receivers ignore.
const DEADLINE_MILLIS: i64 = 15_000;

/// Room for four varints.
pub(crate) const MAX_HEADER: usize = 4 * varint::MAX_LEN;

/// Names one stream within a session. The dialing side allocates them, from 2 upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub i64);

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a frame asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a stream.
    Data(Bytes),
    /// Open a stream to `<proto>/<address>`. Kept as read, at most one byte longer than [`MAX_TEXT`].
    Connect(Bytes),
    /// The stream ended; the text is `EOF` for an orderly end. Cut to [`MAX_TEXT`] bytes.
    Error(String),
    /// A peer hub got a client; unused here.
    AddClient,
    /// A peer hub lost a client; unused here.
    RemoveClient,
    /// Stop sending on this stream.
    Pause,
    /// Go on sending on this stream.
    Resume,
    /// A type that this version does not know.
    Unknown(i64),
}

/// One binary message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// A counter with a random start; receivers ignore it.
    pub id: i64,
    /// The stream it is about.
    pub conn: ConnId,
    /// What it asks for.
    pub kind: Kind,
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A number is cut off or does not fit 64 bits.
    #[error("frame header is cut off or its number is too long")]
    Header,
    /// The message is longer than this end accepts.
    #[error("frame of {size} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Bytes in the message.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl Frame {
    /// Reads one message. The payload of Data is a view of `bytes`, not a copy.
    ///
    /// # Errors
    /// [`FrameError::Header`]: the header cannot be read.
    pub fn decode(mut bytes: Bytes) -> Result<Self, FrameError> {
        let mut at = 0;
        let mut next = || {
            let (value, length) = varint::get(&bytes[at..]).ok_or(FrameError::Header)?;
            at += length;
            Ok(value)
        };
        let id = next()?;
        let conn = ConnId(next()?);
        let kind = next()?;
        if matches!(kind, 1 | 2) {
            next()?;
        }
        bytes::Buf::advance(&mut bytes, at);
        let kind = match kind {
            1 => Kind::Data(bytes),
            2 => Kind::Connect(bytes.slice(..bytes.len().min(MAX_TEXT + 1))),
            3 => Kind::Error(cut(&String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)])).to_owned()),
            4 => Kind::AddClient,
            5 => Kind::RemoveClient,
            6 => Kind::Pause,
            7 => Kind::Resume,
            other => Kind::Unknown(other),
        };
        Ok(Self { id, conn, kind })
    }

    /// The message's bytes.
    pub fn encode(&self) -> Bytes {
        let (number, payload): (i64, &[u8]) = match &self.kind {
            Kind::Data(bytes) => (1, bytes),
            Kind::Connect(target) => (2, target),
            Kind::Error(text) => (3, cut(text).as_bytes()),
            Kind::AddClient => (4, &[]),
            Kind::RemoveClient => (5, &[]),
            Kind::Pause => (6, &[]),
            Kind::Resume => (7, &[]),
            Kind::Unknown(number) => (*number, &[]),
        };
        let mut out = BytesMut::with_capacity(MAX_HEADER + payload.len());
        put_header(&mut out, self.id, self.conn, number);
        out.put_slice(payload);
        out.freeze()
    }
}

/// Starts a Data frame that has room for `payload` bytes.
pub(crate) fn start_data(id: i64, conn: ConnId, payload: usize) -> BytesMut {
    let mut out = BytesMut::with_capacity(MAX_HEADER + payload);
    put_header(&mut out, id, conn, 1);
    out
}

fn put_header(out: &mut BytesMut, id: i64, conn: ConnId, number: i64) {
    varint::put(out, id);
    varint::put(out, conn.0);
    varint::put(out, number);
    if matches!(number, 1 | 2) {
        varint::put(out, DEADLINE_MILLIS);
    }
}

/// The longest start of `text` that a receiver reads, cut between characters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(frame: &Frame, expected: &[u8]) {
        let bytes = frame.encode();
        assert_eq!(bytes, expected, "{frame:?}");
        assert_eq!(&Frame::decode(bytes).unwrap(), frame);
    }

    fn frame(kind: Kind) -> Frame {
        Frame {
            id: 1,
            conn: ConnId(2),
            kind,
        }
    }

    #[test]
    fn frames_have_the_wire_form_of_remotedialer() {
        check(
            &frame(Kind::Data(Bytes::from_static(b"hi"))),
            b"\x02\x04\x02\xb0\xea\x01hi",
        );
        check(
            &frame(Kind::Connect(Bytes::from_static(b"tcp/a:1"))),
            b"\x02\x04\x04\xb0\xea\x01tcp/a:1",
        );
        check(&frame(Kind::Error("EOF".to_owned())), b"\x02\x04\x06EOF");
        check(&frame(Kind::Pause), b"\x02\x04\x0c");
        check(&frame(Kind::Resume), b"\x02\x04\x0e");
        check(&frame(Kind::Unknown(-5)), b"\x02\x04\x09");
    }

    #[test]
    fn texts_are_cut_to_a_hundred_bytes_between_characters() {
        let text = format!("{}é", "x".repeat(99));
        let bytes = frame(Kind::Error(text.clone())).encode();
        assert_eq!(Frame::decode(bytes).unwrap().kind, Kind::Error("x".repeat(99)));
        let mut raw = vec![2, 4, 6];
        raw.extend_from_slice(text.as_bytes());
        let Kind::Error(read) = Frame::decode(raw.into()).unwrap().kind else {
            panic!("not an error")
        };
        assert!(read.len() <= MAX_TEXT);
        let long = frame(Kind::Connect(Bytes::from(vec![b'a'; 5_000]))).encode();
        let Kind::Connect(target) = Frame::decode(long).unwrap().kind else {
            panic!("not a connect")
        };
        assert_eq!(target.len(), MAX_TEXT + 1);
    }

    #[test]
    fn a_cut_off_header_is_refused() {
        for end in 0..6 {
            assert_eq!(
                Frame::decode(Bytes::copy_from_slice(&b"\x02\x04\x02\xb0\xea\x01"[..end])),
                Err(FrameError::Header)
            );
        }
    }
}
