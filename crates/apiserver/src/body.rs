//! Bodies of requests and answers: some bytes, or any stream of them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use crate::bulk::{LARGE, Room, hold};

/// Whatever goes wrong while a body is read.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body of bytes.
pub struct Body(Inner);

enum Inner {
    Full(Option<Bytes>),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It has more bytes than allowed.
    #[error("limit is {0} bytes")]
    TooLarge(usize),
    /// The connection failed.
    #[error("{0}")]
    Broken(BoxError),
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Self(Inner::Full(None))
    }

    /// Any other body.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Inner::Stream(UnsyncBoxBody::new(body.map_err(Into::into))))
    }

    /// A body whose chunks come from a stream.
    pub fn from_stream<S>(stream: S) -> Self
    where
        S: Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    {
        use futures::StreamExt;
        Self::new(http_body_util::StreamBody::new(
            stream.map(|chunk| chunk.map(Frame::data)),
        ))
    }

    /// All its bytes, at most `limit`.
    ///
    /// # Errors
    /// [`ReadError::TooLarge`] as soon as it is known to be, [`ReadError::Broken`] if the stream fails.
    pub async fn read(self, limit: usize) -> Result<Bytes, ReadError> {
        self.read_to_end(limit, None).await
    }

    /// The same. If it is large and still under way, it has room of its own until all that refers to its bytes is gone.
    pub(crate) async fn read_within(self, limit: usize, room: &Room) -> Result<Bytes, ReadError> {
        self.read_to_end(limit, Some(room)).await
    }

    async fn read_to_end(self, limit: usize, room: Option<&Room>) -> Result<Bytes, ReadError> {
        let mut stream = match self.0 {
            Inner::Full(bytes) => {
                let bytes = bytes.unwrap_or_default();
                return if bytes.len() > limit {
                    Err(ReadError::TooLarge(limit))
                } else {
                    Ok(bytes)
                };
            }
            Inner::Stream(stream) => stream,
        };
        if usize::try_from(stream.size_hint().lower()).map_or(true, |lower| lower > limit) {
            discard(stream).await;
            return Err(ReadError::TooLarge(limit));
        }
        let mut first = Bytes::new();
        let mut rest: Option<BytesMut> = None;
        let mut place = None;
        while let Some(frame) = stream.frame().await {
            let Ok(data) = frame.map_err(ReadError::Broken)?.into_data() else {
                continue;
            };
            let so_far = rest.as_ref().map_or(first.len(), BytesMut::len);
            let size = so_far + data.len();
            if size > limit {
                discard(stream).await;
                return Err(ReadError::TooLarge(limit));
            }
            match &mut rest {
                Some(buffer) => buffer.extend_from_slice(&data),
                None if first.is_empty() => first = data,
                None => {
                    let mut buffer = BytesMut::with_capacity(size * 2);
                    buffer.extend_from_slice(&first);
                    buffer.extend_from_slice(&data);
                    rest = Some(buffer);
                }
            }
            if let Some(room) = room.filter(|_| place.is_none() && !stream.is_end_stream()) {
                let left = stream.size_hint().exact();
                let left = left.and_then(|left| usize::try_from(left).ok());
                if size + left.unwrap_or(0) >= LARGE {
                    place = room.take(left.map_or(limit, |left| size + left)).await;
                }
            }
        }
        let bytes = rest.map_or(first, BytesMut::freeze);
        Ok(match place {
            Some(place) => hold(bytes, place),
            None => bytes,
        })
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Full(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::from(Bytes::from_static(text.as_bytes()))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Full(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

/// So much of a body that is too large is still taken in, and dropped: most clients look at the answer only once they
/// have sent everything, and would find a connection that broke instead.
const DISCARD_LIMIT: usize = 16 * 1_024 * 1_024;

async fn discard(mut stream: UnsyncBoxBody<Bytes, BoxError>) {
    let mut room = DISCARD_LIMIT;
    while let Some(Ok(frame)) = stream.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        match room.checked_sub(size) {
            Some(left) => room = left,
            None => return,
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Inner::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Stream(stream) => Pin::new(stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Full(bytes) => bytes.is_none(),
            Inner::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Inner::Stream(stream) => stream.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn reads_up_to_its_limit() {
        let chunks = |sizes: &[usize]| {
            let chunks: Vec<Result<Bytes, BoxError>> = sizes
                .iter()
                .map(|size| Ok(Bytes::from(vec![b'x'; *size])))
                .collect();
            Body::from_stream(futures::stream::iter(chunks))
        };
        assert_eq!(Body::empty().read(0).await.unwrap().len(), 0);
        assert_eq!(Body::from("abc").read(3).await.unwrap().as_ref(), b"abc");
        assert!(Body::from("abc").read(2).await.is_err());
        assert_eq!(chunks(&[2, 3, 4]).read(9).await.unwrap().len(), 9);
        assert!(chunks(&[2, 3, 4]).read(8).await.is_err());
    }

    /// A body of a known or unknown length, whose chunks come when they are sent.
    fn sent(length: Option<usize>) -> (mpsc::UnboundedSender<Bytes>, Body) {
        struct Sent(Option<u64>, mpsc::UnboundedReceiver<Bytes>);
        impl HttpBody for Sent {
            type Data = Bytes;
            type Error = BoxError;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
                if self.is_end_stream() {
                    return Poll::Ready(None);
                }
                let polled = self.1.poll_recv(context);
                if let (Some(left), Poll::Ready(Some(bytes))) = (&mut self.0, &polled) {
                    *left -= bytes.len() as u64;
                }
                polled.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            fn is_end_stream(&self) -> bool {
                self.0 == Some(0)
            }
            fn size_hint(&self) -> SizeHint {
                self.0.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let length = length.map(|length| length as u64);
        (sender, Body::new(Sent(length, receiver)))
    }

    #[tokio::test]
    async fn large_bodies_are_read_as_there_is_room_and_no_other_waits() {
        const LIMIT: usize = 4 * LARGE;
        let room = Room::of(LIMIT);
        let bytes = |size: usize| Bytes::from(vec![b'x'; size]);
        // One of a length that nobody knows takes all of it, once it is seen to be large.
        let (sender, unknown) = sent(None);
        let mut unknown = std::pin::pin!(unknown.read_within(LIMIT, &room));
        for (chunk, left) in [(LARGE - 1, LIMIT), (1, 0), (LARGE, 0)] {
            sender.send(bytes(chunk)).unwrap();
            assert!(futures::poll!(unknown.as_mut()).is_pending());
            assert_eq!(room.left(), left);
        }
        let (large, waiting) = sent(Some(LARGE));
        let mut waiting = std::pin::pin!(waiting.read_within(LIMIT, &room));
        large.send(bytes(1)).unwrap();
        large.send(bytes(LARGE - 1)).unwrap();
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        // Small ones, and those that are in memory as a whole, take none.
        let (small, read) = sent(Some(LARGE - 1));
        small.send(bytes(LARGE - 1)).unwrap();
        assert_eq!(read.read_within(LIMIT, &room).await.unwrap().len(), LARGE - 1);
        let whole = Body::new(http_body_util::Full::new(bytes(LIMIT)));
        assert_eq!(whole.read_within(LIMIT, &room).await.unwrap().len(), LIMIT);
        // The room is free again when the bytes are gone.
        drop(sender);
        let read = unknown.await.unwrap();
        let part = read.slice(..1);
        drop(read);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(part);
        let read = waiting.await.unwrap();
        assert_eq!((read.len(), room.left()), (LARGE, LIMIT - LARGE));
        drop(read);
        // So it is when a client goes away.
        let (large, left) = sent(Some(LARGE));
        large.send(bytes(1)).unwrap();
        let mut left = Box::pin(left.read_within(LIMIT, &room));
        assert!(futures::poll!(left.as_mut()).is_pending());
        assert_eq!(room.left(), LIMIT - LARGE);
        drop(left);
        assert_eq!(room.left(), LIMIT);
    }
}
