//! Requests with large bodies. What is done with one can take a while and many times its size in memory: so they are
//! worked on a few at a time, and away from the threads that answer everybody else.

use std::future::Future;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Bodies of this size are large.
const FROM: usize = 128 * 1_024;
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
        if size < FROM {
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
        futures::future::join_all((0..9).map(|_| work(FROM))).await;
        assert_eq!(most.swap(0, Ordering::SeqCst), AT_A_TIME);
        futures::future::join_all((0..9).map(|_| work(FROM - 1))).await;
        assert_eq!(most.into_inner(), 9);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn keeps_no_worker_from_others() {
        let bulk = Arc::new(Bulk::default());
        let (tell, told) = std::sync::mpsc::channel();
        let busy = tokio::spawn(async move {
            // blocks its thread until somebody else has run
            bulk.run(FROM, async move { told.recv().is_ok() }).await
        });
        let other = tokio::spawn(async move { tell.send(()).is_ok() });
        assert!(busy.await.unwrap() && other.await.unwrap());
    }
}
