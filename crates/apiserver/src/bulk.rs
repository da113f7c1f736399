//! Requests with large bodies. What is done with one can take a while and many times its size in memory: so they are
//! worked on a few at a time, and away from the threads that answer everybody else. Those that wait for that, and those
//! that are still coming in, have a bounded [`Room`].

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies of this size are large.
pub(crate) const LARGE: usize = 128 * 1_024;
/// Large bodies have at most so many bytes together.
const ROOM: usize = 64 * 1_024 * 1_024;
/// So many are worked on at a time.
const AT_A_TIME: usize = 2;

/// Admits large bodies.
#[derive(Debug)]
pub(crate) struct Bulk(Semaphore);

impl Default for Bulk {
    fn default() -> Self {
        Self(Semaphore::new(AT_A_TIME))
    }
}

impl Bulk {
    /// Does what is to be done with a body of a size.
    pub(crate) async fn run<T>(&self, size: usize, work: impl Future<Output = T>) -> T {
        if size < LARGE {
            return work.await;
        }
        let permit = self.0.acquire().await;
        let many_threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let done = if many_threads {
            tokio::task::block_in_place(|| Handle::current().block_on(work))
        } else {
            work.await
        };
        drop(permit);
        done
    }
}

/// Memory for large bodies.
#[derive(Debug)]
pub(crate) struct Room {
    free: Arc<Semaphore>,
    size: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self::of(ROOM)
    }
}

impl Room {
    pub(crate) fn of(size: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(size)),
            size,
        }
    }

    /// Waits until there is room for so many bytes, and takes it: all at once, so that nobody who has some waits for
    /// more.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Place> {
        let bytes = u32::try_from(bytes.min(self.size)).unwrap_or(u32::MAX);
        // It is never closed.
        self.free.clone().acquire_many_owned(bytes).await.ok()
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.free.available_permits()
    }
}

/// Some of a room, free again when this is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// The same bytes, which keep a place as long as they are referred to.
pub(crate) fn hold(bytes: Bytes, place: Place) -> Bytes {
    struct Held {
        bytes: Bytes,
        _place: Place,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Held { bytes, _place: place })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn admits_a_few_at_a_time() {
        let (bulk, running, most) = (Bulk::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |size: usize| {
            let (bulk, running, most) = (&bulk, &running, &most);
            async move {
                let busy = async {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                bulk.run(size, busy).await;
            }
        };
        futures::future::join_all((0..9).map(|_| work(LARGE))).await;
        assert_eq!(most.swap(0, Ordering::SeqCst), AT_A_TIME);
        futures::future::join_all((0..9).map(|_| work(LARGE - 1))).await;
        assert_eq!(most.into_inner(), 9);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn keeps_no_worker_from_others() {
        let bulk = Arc::new(Bulk::default());
        let (tell, told) = std::sync::mpsc::channel();
        let busy = tokio::spawn(async move {
            // blocks its thread until somebody else has run
            bulk.run(LARGE, async move { told.recv().is_ok() }).await
        });
        let other = tokio::spawn(async move { tell.send(()).is_ok() });
        assert!(busy.await.unwrap() && other.await.unwrap());
    }
}
