//! Watch streams: lines of JSON, decoded as they arrive.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use machinery::ApiError;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::Error;
use crate::transport::Body;

/// The longest line that is taken; an object of the largest size that servers store fits several times.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// An object appeared (or was there at the start).
    Added(Value),
    /// An object changed.
    Modified(Value),
    /// An object went; its last state.
    Deleted(Value),
    /// Nothing before this revision is still to come.
    Bookmark(String),
}

impl WatchEvent {
    /// The revision that a watch can resume from after this event.
    pub fn resource_version(&self) -> &str {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => {
                object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
            }
            Self::Bookmark(version) => version,
        }
    }
}

/// Cuts a stream of bytes into lines of bounded length.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: BytesMut,
    searched: usize,
}

/// A line longer than [`MAX_LINE`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole line, without its end and without blank ones.
    pub(crate) fn next_line(&mut self) -> Option<Result<Bytes, TooLong>> {
        loop {
            let Some(end) = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            else {
                self.searched = self.buffer.len();
                return (self.buffer.len() > MAX_LINE).then_some(Err(TooLong));
            };
            let line = self.buffer.split_to(self.searched + end).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if line.len() > MAX_LINE {
                return Some(Err(TooLong));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Ok(line));
            }
        }
    }
}

/// Why a line is no event.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The server reports a failure in the stream.
    Api(Box<ApiError>),
    /// It is not what the API promises.
    Malformed(String),
}

/// One line of a watch stream.
pub(crate) fn decode(line: &[u8]) -> Result<WatchEvent, LineError> {
    let mut event: Value =
        serde_json::from_slice(line).map_err(|error| LineError::Malformed(error.to_string()))?;
    let object = event.get_mut("object").map(Value::take).unwrap_or_default();
    if !object.is_object() {
        return Err(LineError::Malformed("an event without an object".to_owned()));
    }
    match event["type"].as_str() {
        Some("ADDED") => Ok(WatchEvent::Added(object)),
        Some("MODIFIED") => Ok(WatchEvent::Modified(object)),
        Some("DELETED") => Ok(WatchEvent::Deleted(object)),
        Some("BOOKMARK") => Ok(WatchEvent::Bookmark(
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )),
        Some("ERROR") => {
            let code = object["code"]
                .as_u64()
                .and_then(|code| u16::try_from(code).ok())
                .unwrap_or(500);
            let body = object.to_string();
            Err(LineError::Api(Box::new(ApiError::from_body(
                code,
                body.as_bytes(),
            ))))
        }
        Some(other) => Err(LineError::Malformed(format!("an event of type {:.40?}", other))),
        None => Err(LineError::Malformed("an event without a type".to_owned())),
    }
}

/// A running watch.
pub struct WatchStream {
    request: String,
    body: Body,
    lines: Lines,
    events: VecDeque<Result<WatchEvent, Error>>,
    deadline: Option<Instant>,
    ended: bool,
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

impl WatchStream {
    pub(crate) fn new(request: String, body: Body, deadline: Option<Instant>) -> Self {
        Self {
            request,
            body,
            lines: Lines::default(),
            events: VecDeque::new(),
            deadline,
            ended: false,
        }
    }

    /// The next event; `None` when the server (or the deadline) ended the stream in good order. After an error the
    /// stream is over. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            let frame = match self.deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, self.body.frame())
                    .await
                    .unwrap_or_default(),
                None => self.body.frame().await,
            };
            match frame {
                None => self.ended = true,
                Some(Err(source)) => {
                    self.ended = true;
                    return Some(Err(Error::Transport {
                        request: self.request.clone(),
                        source,
                    }));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.lines.push(&data);
                        self.drain_lines();
                    }
                }
            }
        }
    }

    fn drain_lines(&mut self) {
        while let Some(line) = self.lines.next_line() {
            let event = match line {
                Ok(line) => decode(&line).map_err(|error| match error {
                    LineError::Api(error) => Error::Api(*error),
                    LineError::Malformed(problem) => self.unusable(problem),
                }),
                Err(TooLong) => Err(self.unusable(format!("a line longer than {MAX_LINE} bytes"))),
            };
            let failed = event.is_err();
            self.events.push_back(event);
            if failed {
                self.ended = true;
                return;
            }
        }
    }

    fn unusable(&self, problem: String) -> Error {
        Error::Answer {
            request: self.request.clone(),
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_lines_wherever_chunks_end() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\"";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk);
                while let Some(line) = lines.next_line() {
                    found.push(line.unwrap().trim_ascii().to_vec());
                }
            }
            assert_eq!(
                found,
                vec![b"{\"a\":1}".to_vec(), b"{\"b\":2}".to_vec()],
                "chunks of {size}"
            );
        }
    }

    #[test]
    fn refuses_a_line_without_end() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; MAX_LINE]);
        assert_eq!(lines.next_line(), None);
        lines.push(b"x");
        assert_eq!(lines.next_line(), Some(Err(TooLong)));
    }

    #[test]
    fn tells_events_from_errors() {
        assert!(matches!(
            decode(br#"{"type":"ADDED","object":{"kind":"Pod"}}"#),
            Ok(WatchEvent::Added(_))
        ));
        assert!(matches!(
            decode(br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#),
            Ok(WatchEvent::Bookmark(version)) if version == "7"
        ));
        let gone =
            br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#;
        let Err(LineError::Api(error)) = decode(gone) else {
            panic!("an error event")
        };
        assert!(Error::Api(*error).is_expired());
        for junk in [
            "",
            "[]",
            "{}",
            r#"{"type":"ADDED"}"#,
            r#"{"type":"NEW","object":{}}"#,
            "{\"type\":",
        ] {
            assert!(
                matches!(decode(junk.as_bytes()), Err(LineError::Malformed(_))),
                "{junk}"
            );
        }
    }
}
