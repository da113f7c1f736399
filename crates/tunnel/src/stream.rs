//! One byte stream through a tunnel.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tunnel_proto::{CloseReason, ConnId, Read, Write};

use crate::link::Link;

/// A stream through a tunnel. Dropping it closes it in good order; the protocol has no half-close, so shutting down
/// the writing side ends both directions once the written bytes are sent.
pub struct TunnelStream {
    link: Arc<Link>,
    conn: ConnId,
}

impl TunnelStream {
    pub(crate) fn new(link: Arc<Link>, conn: ConnId) -> Self {
        Self { link, conn }
    }

    /// Ends the stream with an error text for the peer.
    pub(crate) fn fail(&self, text: &str) {
        self.link.with(|state| state.session.fail(self.conn, text));
    }

    /// The next received bytes without a copy, at most `max`; `None` at the stream's orderly end.
    pub(crate) async fn chunk(&self, max: usize) -> io::Result<Option<Bytes>> {
        poll_fn(|context| self.poll_chunk(context, max)).await
    }

    /// Writes all bytes.
    pub(crate) async fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = poll_fn(|context| self.poll_send(context, bytes)).await?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn poll_chunk(&self, context: &mut Context<'_>, max: usize) -> Poll<io::Result<Option<Bytes>>> {
        self.link.with(|state| match state.session.read(self.conn, max) {
            Read::Bytes(bytes) => Poll::Ready(Ok(Some(bytes))),
            Read::Blocked => {
                state.readers.insert(self.conn, context.waker().clone());
                Poll::Pending
            }
            Read::Closed(CloseReason::Eof | CloseReason::Local) => Poll::Ready(Ok(None)),
            Read::Closed(reason) => Poll::Ready(Err(io_error(reason))),
        })
    }

    fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.link
            .with(|state| match state.session.write(self.conn, bytes) {
                Write::Accepted(size) => Poll::Ready(Ok(size)),
                Write::Blocked => {
                    state.writers.insert(self.conn, context.waker().clone());
                    Poll::Pending
                }
                Write::Closed(reason) => Poll::Ready(Err(io_error(reason))),
            })
    }
}

fn io_error(reason: CloseReason) -> io::Error {
    let kind = match reason {
        CloseReason::Eof | CloseReason::Local => io::ErrorKind::BrokenPipe,
        CloseReason::Error(_) => io::ErrorKind::ConnectionReset,
        CloseReason::Session(_) => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, reason)
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.poll_chunk(context, buffer.remaining()).map_ok(|bytes| {
            if let Some(bytes) = bytes {
                buffer.put_slice(&bytes);
            }
        })
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The driver sends what was written as soon as the socket takes it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.with(|state| state.session.shutdown(self.conn));
        Poll::Ready(Ok(()))
    }
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        let now = self.link.now();
        self.link.with(|state| {
            state.readers.remove(&self.conn);
            state.writers.remove(&self.conn);
            state.session.release(self.conn, now);
        });
    }
}

impl fmt::Debug for TunnelStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelStream")
            .field("conn", &self.conn)
            .finish_non_exhaustive()
    }
}
