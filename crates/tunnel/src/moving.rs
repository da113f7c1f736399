//! Socket I/O that notes whether bytes move, for a message takes long on a slow link: the first byte of one says that
//! somebody is there, not only its last.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// I/O whose owner asks now and then whether anything has moved.
#[derive(Debug)]
pub(crate) struct Moving<S> {
    io: S,
    pace: Pace,
    /// Bytes were received since the owner looked.
    pub(crate) received: bool,
    /// Bytes were taken since the owner looked.
    pub(crate) taken: bool,
}

impl<S> Moving<S> {
    pub(crate) fn new(io: S) -> Self {
        Self {
            io,
            pace: Pace::new(Instant::now()),
            received: false,
            taken: false,
        }
    }
}

/// How many bytes one write may have, and so one TLS record, of which nothing is seen at the far side until it is there
/// as a whole: what the link has lately taken in a second, by the slowest of a few windows, for buffers on the way take
/// the first of it at once.
#[derive(Debug)]
struct Pace {
    begin: Instant,
    taken: usize,
    /// Bytes taken in each of the windows before.
    before: [usize; 3],
}

impl Pace {
    const WINDOW: Duration = Duration::from_millis(100);
    /// 2 s at 2 kB/s.
    const LEAST: usize = 4 << 10;
    const MOST: usize = 64 << 10;

    fn new(now: Instant) -> Self {
        Self {
            begin: now,
            taken: 0,
            before: [0; 3],
        }
    }

    /// The most bytes of the next write.
    fn limit(&mut self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.begin);
        if passed >= Self::WINDOW {
            // Nothing was taken in the windows between.
            let windows = passed.as_millis() / Self::WINDOW.as_millis();
            let [first, second, _] = self.before;
            self.before = match windows {
                1 => [self.taken, first, second],
                2 => [0, self.taken, first],
                _ => [0; 3],
            };
            (self.begin, self.taken) = (now, 0);
        }
        let slowest = self.before.into_iter().min().unwrap_or(0);
        slowest.saturating_mul(10).clamp(Self::LEAST, Self::MOST)
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
        let limit = self.pace.limit(Instant::now());
        let part = &bytes[..bytes.len().min(limit)];
        let size = ready!(Pin::new(&mut self.io).poll_write(context, part))?;
        self.taken |= size > 0;
        self.pace.taken = self.pace.taken.saturating_add(size);
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
        assert_eq!(near.write(&[0; 1 << 16]).await.unwrap(), Pace::LEAST);
        assert_eq!((near.received, near.taken), (false, true));
        far.write_all(b"x").await.unwrap();
        near.read_u8().await.unwrap();
        assert!(near.received);
    }

    /// The limits that follow when so many bytes are taken in each window.
    fn limits(taken: &[usize]) -> Vec<usize> {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        let limits = taken.iter().map(|bytes| {
            pace.taken += bytes;
            now += Pace::WINDOW;
            pace.limit(now)
        });
        limits.collect()
    }

    #[test]
    fn writes_are_as_long_as_the_link_is_fast() {
        const MIB: usize = 1 << 20;
        assert_eq!(limits(&[MIB; 4]), [4096, 4096, 65536, 65536]);
        assert_eq!(limits(&[2_000; 5])[2..], [20_000; 3]);
        assert_eq!(limits(&[200; 5]), [4096; 5], "2 kB a second");
        // Buffers take much at once, the link little.
        assert_eq!(limits(&[4 * MIB, 4 * MIB, 200, 200, 200, 200]), [4096; 6]);
        assert_eq!(limits(&[MIB, MIB, MIB, 0, MIB])[2..], [65536, 4096, 4096]);
    }

    #[test]
    fn a_pause_makes_the_next_write_short() {
        let now = Instant::now();
        for (pause, limit) in [(1, 65536), (2, 4096), (5, 4096)] {
            let mut pace = Pace::new(now);
            pace.before = [1 << 20; 3];
            pace.taken = 1 << 20;
            assert_eq!(pace.limit(now + Pace::WINDOW * pause), limit, "{pause}");
        }
    }
}
