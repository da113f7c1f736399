//! Socket I/O that notes whether bytes move, for a message takes long on a slow link: the first byte of one says that
//! somebody is there, not only its last.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of one write, and so of one TLS record, of which nothing is seen at the far side until it is there
/// as a whole: 2 s at 2 kB/s.
const WRITE_LIMIT: usize = 4 << 10;

/// I/O whose owner asks now and then whether anything has moved.
#[derive(Debug)]
pub(crate) struct Moving<S> {
    io: S,
    /// Bytes were received since the owner looked.
    pub(crate) received: bool,
    /// Bytes were taken since the owner looked.
    pub(crate) taken: bool,
}

impl<S> Moving<S> {
    pub(crate) fn new(io: S) -> Self {
        Self {
            io,
            received: false,
            taken: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Moving<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        self.received |= buffer.filled().len() > before;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Moving<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let part = &bytes[..bytes.len().min(WRITE_LIMIT)];
        let size = ready!(Pin::new(&mut self.io).poll_write(context, part))?;
        self.taken |= size > 0;
        Poll::Ready(Ok(size))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn notes_what_moves_in_short_writes() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut near = Moving::new(near);
        assert_eq!(near.write(&[0; 1 << 16]).await.unwrap(), WRITE_LIMIT);
        assert_eq!((near.received, near.taken), (false, true));
        far.write_all(b"x").await.unwrap();
        near.read_u8().await.unwrap();
        assert!(near.received);
    }
}
