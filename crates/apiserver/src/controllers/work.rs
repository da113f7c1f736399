//! The frame of a controller: notices say what to look at, a queue without duplicates says when, a bounded number of
//! looks runs at once. A key is never looked at twice at the same time; what changes meanwhile is looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use clock::{Backoff, Env};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use machinery::ApiError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::Notice;

/// How many keys are looked at at once: enough to share the store's syncs.
const PARALLEL: usize = 32;

/// What to do with a key after a look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing until something changes.
    Done,
    /// Look again soon, later and later.
    Retry,
    /// Look again after a while.
    After(Duration),
}

/// Decides what to look at, and brings it in order.
pub(super) trait Controller: Send + Sync + 'static {
    /// What names one thing to look at.
    type Key: Ord + Clone + Debug + Send + Sync + 'static;

    /// For logs.
    const NAME: &'static str;

    /// Takes a notice in; pushes what to look at because of it.
    fn observe(&self, notice: &Notice, wanted: &mut Vec<Self::Key>);

    /// Looks at a thing and brings it in order; pushes what else to look at because of that.
    fn look<'a>(
        &'a self,
        key: &'a Self::Key,
        wanted: &'a mut Vec<Self::Key>,
    ) -> BoxFuture<'a, Result<Next, ApiError>>;
}

/// What waits, what runs and when to look again. Pure but for the time it is given.
#[derive(Debug)]
struct Queue<K> {
    ready: BTreeSet<(u64, K)>,
    /// The place of each key in `ready`.
    places: BTreeMap<K, u64>,
    next_place: u64,
    later: BTreeSet<(Instant, K)>,
    running: BTreeSet<K>,
    /// Running keys to look at again once they are done.
    again: BTreeSet<K>,
    retries: BTreeMap<K, Backoff>,
}

impl<K: Ord + Clone> Queue<K> {
    fn new() -> Self {
        Self {
            ready: BTreeSet::new(),
            places: BTreeMap::new(),
            next_place: 0,
            later: BTreeSet::new(),
            running: BTreeSet::new(),
            again: BTreeSet::new(),
            retries: BTreeMap::new(),
        }
    }

    fn add(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if !self.places.contains_key(&key) {
            self.places.insert(key.clone(), self.next_place);
            self.ready.insert((self.next_place, key));
            self.next_place += 1;
        }
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.add(key);
            }
        }
        if self.running.len() >= PARALLEL {
            return None;
        }
        let (_, key) = self.ready.pop_first()?;
        self.places.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    fn done(&mut self, key: K, next: Next, now: Instant, random: u64) {
        self.running.remove(&key);
        match next {
            Next::Done => {
                self.retries.remove(&key);
            }
            Next::After(delay) => {
                self.retries.remove(&key);
                self.later.insert((now + delay, key.clone()));
            }
            Next::Retry => {
                let backoff = self
                    .retries
                    .entry(key.clone())
                    .or_insert_with(|| Backoff::new(Duration::from_millis(50), Duration::from_secs(10)));
                let delay = backoff.next_delay(random);
                self.later.insert((now + delay, key.clone()));
            }
        }
        if self.again.remove(&key) {
            self.add(key);
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }
}

/// Runs a controller on what its feeds want it to look at, until they end.
pub(super) async fn run<C: Controller>(
    controller: Arc<C>,
    mut wanted: mpsc::Receiver<C::Key>,
    env: Env,
    shutdown: CancellationToken,
) {
    let mut queue: Queue<C::Key> = Queue::new();
    let mut running = FuturesUnordered::new();
    loop {
        while let Some(key) = queue.take(Instant::now()) {
            let controller = controller.clone();
            running.push(async move {
                let mut wanted = Vec::new();
                let result = controller.look(&key, &mut wanted).await;
                (key, result, wanted)
            });
        }
        let wake = queue.wake_at();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            Some((key, result, more)) = running.next(), if !running.is_empty() => {
                for key in more {
                    queue.add(key);
                }
                let next = result.unwrap_or_else(|error| {
                    report(C::NAME, &key, &error);
                    Next::Retry
                });
                queue.done(key, next, Instant::now(), env.random_u64());
            }
            key = wanted.recv() => {
                let Some(key) = key else { return };
                queue.add(key);
            }
            () = async { tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => {}
        }
    }
}

fn report(controller: &'static str, key: &dyn Debug, error: &ApiError) {
    // A conflict means that somebody else was at work too: the next look sees what they did.
    if matches!(error.code, 404 | 409) {
        tracing::debug!(controller, ?key, %error, "an object changed meanwhile");
    } else {
        tracing::warn!(controller, ?key, %error, "an object could not be brought in order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_never_runs_twice_at_a_time() {
        let mut queue = Queue::new();
        let now = Instant::now();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(queue.take(now), Some("a"));
        queue.add("a");
        assert_eq!(queue.take(now), Some("b"));
        assert_eq!(queue.take(now), None);
        queue.done("a", Next::Done, now, 0);
        assert_eq!(queue.take(now), Some("a"), "it was wanted again while it ran");
        queue.done("a", Next::After(Duration::from_secs(5)), now, 0);
        assert_eq!(queue.take(now), None);
        assert_eq!(queue.take(now + Duration::from_secs(5)), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn retries_come_later_and_later() {
        let mut queue = Queue::new();
        let mut now = Instant::now();
        queue.add("a");
        let mut last = Duration::ZERO;
        for _ in 0..6 {
            assert_eq!(queue.take(now), Some("a"));
            queue.done("a", Next::Retry, now, 0);
            let wake = queue.wake_at().unwrap();
            assert!(wake - now > last);
            last = wake - now;
            now = wake;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn few_run_at_once() {
        let mut queue = Queue::new();
        for key in 0..100 {
            queue.add(key);
        }
        let now = Instant::now();
        let mut count = 0;
        while queue.take(now).is_some() {
            count += 1;
        }
        assert_eq!(count, PARALLEL);
    }
}
