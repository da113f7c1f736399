//! What is left of a body when its request is answered. HTTP/1.1 puts the next request behind it: it has to be taken in,
//! or the connection has to end, and the client be told so.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;

/// More than this is not taken in for the sake of a connection (as in Go's server).
const LIMIT: u64 = 256 * 1_024;

/// A body that is lent to who answers its request, and comes back if it is dropped before its end.
pub(super) struct Lent<B: HttpBody> {
    body: Option<B>,
    back: Option<oneshot::Sender<B>>,
}

/// Where a lent body comes back to.
pub(super) struct Rest<B>(oneshot::Receiver<B>);

/// Lends a body.
pub(super) fn lend<B: HttpBody>(body: B) -> (Lent<B>, Rest<B>) {
    let (sender, receiver) = oneshot::channel();
    let lent = Lent {
        body: Some(body),
        back: Some(sender),
    };
    (lent, Rest(receiver))
}

impl<B: HttpBody<Data = Bytes> + Unpin> Rest<B> {
    /// Takes in what is left of a body that nobody reads any longer; `false` if the connection cannot be used again:
    /// it is too much, does not come within `time`, or the client `waits` to be told that it is wanted.
    pub(super) async fn take_in(mut self, waits: bool, time: Duration) -> bool {
        let Ok(mut body) = self.0.try_recv() else {
            return true;
        };
        if waits || body.size_hint().lower() > LIMIT {
            return false;
        }
        let all = async {
            let mut room = LIMIT;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                let size = frame.data_ref().map_or(0, |data| data.len() as u64);
                match room.checked_sub(size) {
                    Some(left) => room = left,
                    None => return false,
                }
            }
            true
        };
        tokio::time::timeout(time, all).await.unwrap_or(false)
    }
}

impl<B: HttpBody> Drop for Lent<B> {
    fn drop(&mut self) {
        let left = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Some(back)) = (left, self.back.take()) {
            // If nobody waits for it, the connection is gone.
            drop(back.send(body));
        }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Lent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
