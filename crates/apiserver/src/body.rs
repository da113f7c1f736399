//! Bodies of requests and answers: some bytes, or any stream of them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

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
        while let Some(frame) = stream.frame().await {
            let Ok(data) = frame.map_err(ReadError::Broken)?.into_data() else {
                continue;
            };
            let so_far = rest.as_ref().map_or(first.len(), BytesMut::len);
            if so_far + data.len() > limit {
                discard(stream).await;
                return Err(ReadError::TooLarge(limit));
            }
            match &mut rest {
                Some(buffer) => buffer.extend_from_slice(&data),
                None if first.is_empty() => first = data,
                None => {
                    let mut buffer = BytesMut::with_capacity((so_far + data.len()) * 2);
                    buffer.extend_from_slice(&first);
                    buffer.extend_from_slice(&data);
                    rest = Some(buffer);
                }
            }
        }
        Ok(rest.map_or(first, BytesMut::freeze))
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
}
