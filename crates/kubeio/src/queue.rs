//! The work queue of a controller: an item is in it once, is worked on by one worker at a time, and comes back
//! later and later while it fails. Its rules are client-go's `workqueue`; time is tokio's, so a paused runtime
//! makes it deterministic.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Back-off of failing items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// Delay after the first failure; it doubles with each further one. Default 5 ms.
    pub base: Duration,
    /// The longest delay. Default 1000 s, as client-go's.
    pub max: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1_000),
        }
    }
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something changes.
    Done,
    /// It failed: again, after a delay that grows.
    Retry,
    /// Look again after this time; the failures so far are forgotten.
    After(Duration),
}

/// A de-duplicating, delaying, rate-limiting queue. Clones share it.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

struct Shared<K> {
    options: QueueOptions,
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    /// Waiting for a worker, in order.
    ready: VecDeque<K>,
    /// In `ready`, or added again while being worked on.
    dirty: BTreeSet<K>,
    /// With a worker now.
    processing: BTreeSet<K>,
    /// To be added at a time, with a sequence number that keeps equal times in order.
    delayed: BTreeMap<(Instant, u64), K>,
    /// Where in `delayed` an item is; at most once.
    delayed_at: BTreeMap<K, (Instant, u64)>,
    failures: BTreeMap<K, u32>,
    sequence: u64,
    closed: bool,
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, item: K) {
        if self.closed || !self.dirty.insert(item.clone()) {
            return;
        }
        if !self.processing.contains(&item) {
            self.ready.push_back(item);
        }
    }

    fn add_at(&mut self, item: K, due: Instant) {
        if self.closed {
            return;
        }
        if let Some(at) = self.delayed_at.get(&item).copied() {
            if at.0 <= due {
                return;
            }
            self.delayed.remove(&at);
        }
        self.sequence += 1;
        let at = (due, self.sequence);
        self.delayed.insert(at, item.clone());
        self.delayed_at.insert(item, at);
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let item = entry.remove();
            self.delayed_at.remove(&item);
            self.add(item);
        }
    }

    fn take(&mut self) -> Option<K> {
        let item = self.ready.pop_front()?;
        self.dirty.remove(&item);
        self.processing.insert(item.clone());
        Some(item)
    }

    fn finish(&mut self, item: &K) {
        self.processing.remove(item);
        if self.dirty.contains(item) {
            self.ready.push_back(item.clone());
        }
    }
}

impl<K: Ord + Clone> Default for Queue<K> {
    fn default() -> Self {
        Self::new(QueueOptions::default())
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue.
    pub fn new(options: QueueOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                options,
                state: Mutex::new(State {
                    ready: VecDeque::new(),
                    dirty: BTreeSet::new(),
                    processing: BTreeSet::new(),
                    delayed: BTreeMap::new(),
                    delayed_at: BTreeMap::new(),
                    failures: BTreeMap::new(),
                    sequence: 0,
                    closed: false,
                }),
                changed: Notify::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.shared.state.lock().expect("no holder panics")
    }

    /// Adds an item, unless it waits already. One that is being worked on comes again afterwards.
    pub fn add(&self, item: K) {
        self.state().add(item);
        self.shared.changed.notify_waiters();
    }

    /// Adds an item after a delay; the earliest of several times counts.
    pub fn add_after(&self, item: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        self.state().add_at(item, Instant::now() + delay);
        self.shared.changed.notify_waiters();
    }

    /// Adds an item after a delay that doubles each time, until [`Queue::forget`].
    pub fn add_rate_limited(&self, item: K) {
        let QueueOptions { base, max } = self.shared.options;
        let delay = {
            let mut state = self.state();
            let failures = state.failures.entry(item.clone()).or_default();
            let factor = 1_u32.checked_shl(*failures).unwrap_or(u32::MAX);
            *failures = failures.saturating_add(1);
            base.saturating_mul(factor).min(max)
        };
        self.add_after(item, delay);
    }

    /// Forgets an item's failures: call it after a success.
    pub fn forget(&self, item: &K) {
        self.state().failures.remove(item);
    }

    /// How often in a row an item was added by [`Queue::add_rate_limited`].
    pub fn failures(&self, item: &K) -> u32 {
        self.state().failures.get(item).copied().unwrap_or(0)
    }

    /// How many items wait for a worker now.
    pub fn len(&self) -> usize {
        self.state().ready.len()
    }

    /// Whether no item waits for a worker now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing waits, is delayed or is being worked on.
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.ready.is_empty() && state.delayed.is_empty() && state.processing.is_empty()
    }

    /// Ends the queue: waiting and future [`Queue::get`]s answer `None`, additions are ignored.
    pub fn close(&self) {
        self.state().closed = true;
        self.shared.changed.notify_waiters();
    }

    /// The next item, as soon as there is one; `None` once the queue is closed. Say [`Queue::done`] afterwards.
    pub async fn get(&self) -> Option<K> {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // Registered before the state is looked at, so that no addition is missed.
            changed.as_mut().enable();
            let next = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                state.promote(Instant::now());
                if let Some(item) = state.take() {
                    return Some(item);
                }
                state.delayed.first_key_value().map(|((due, _), _)| *due)
            };
            match next {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// The worker is done with an item; if it was added meanwhile it is ready again.
    pub fn done(&self, item: &K) {
        self.state().finish(item);
        self.shared.changed.notify_waiters();
    }

    /// Works on items with up to `workers` at a time until `shutdown`, then waits for those under way.
    pub async fn serve<F, R>(&self, workers: usize, shutdown: &CancellationToken, work: F)
    where
        F: Fn(K) -> R,
        R: Future<Output = Outcome>,
    {
        let worker = || async {
            loop {
                let item = tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    item = self.get() => item,
                };
                let Some(item) = item else {
                    return;
                };
                let outcome = work(item.clone()).await;
                match outcome {
                    Outcome::Done => self.forget(&item),
                    Outcome::Retry => self.add_rate_limited(item.clone()),
                    Outcome::After(delay) => {
                        self.forget(&item);
                        self.add_after(item.clone(), delay);
                    }
                }
                self.done(&item);
            }
        };
        futures::future::join_all((0..workers.max(1)).map(|_| worker())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waits(queue: &Queue<&'static str>) -> (Option<&'static str>, Duration) {
        let start = Instant::now();
        let item = queue.get().await;
        (item, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_waits_only_once() {
        let queue = Queue::default();
        for item in ["a", "b", "a", "a"] {
            queue.add(item);
        }
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.get().await, Some("a"));
        assert_eq!(queue.get().await, Some("b"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_added_while_worked_on_comes_again_afterwards() {
        let queue = Queue::default();
        queue.add("a");
        assert_eq!(queue.get().await, Some("a"));
        queue.add("a");
        queue.add("a");
        assert!(queue.is_empty());
        queue.done(&"a");
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.get().await, Some("a"));
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_delay_counts() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(9));
        assert_eq!(waits(&queue).await, (Some("a"), Duration::from_secs(2)));
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_delay_until_forgotten() {
        let queue = Queue::new(QueueOptions {
            base: Duration::from_millis(100),
            max: Duration::from_millis(350),
        });
        for expected in [100, 200, 350, 350] {
            queue.add_rate_limited("a");
            assert_eq!(waits(&queue).await, (Some("a"), Duration::from_millis(expected)));
            queue.done(&"a");
        }
        assert_eq!(queue.failures(&"a"), 4);
        queue.forget(&"a");
        queue.add_rate_limited("a");
        assert_eq!(waits(&queue).await, (Some("a"), Duration::from_millis(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_sees_an_item_that_comes_before_a_delayed_one() {
        let queue = Queue::default();
        queue.add_after("late", Duration::from_secs(60));
        let adder = queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            adder.add("soon");
        });
        assert_eq!(waits(&queue).await, (Some("soon"), Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn closing_ends_the_waiting() {
        let queue: Queue<&str> = Queue::default();
        let closer = queue.clone();
        tokio::spawn(async move { closer.close() });
        assert_eq!(queue.get().await, None);
        queue.add("a");
        assert_eq!(queue.get().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn serving_retries_and_ends_with_the_token() {
        let queue = Queue::default();
        let shutdown = CancellationToken::new();
        queue.add("a");
        let seen = Mutex::new(Vec::new());
        let start = Instant::now();
        queue
            .serve(2, &shutdown, |item| {
                let mut seen = seen.lock().unwrap();
                seen.push((item, start.elapsed().as_millis()));
                let outcome = match seen.len() {
                    1 | 2 => Outcome::Retry,
                    3 => Outcome::After(Duration::from_secs(1)),
                    _ => {
                        shutdown.cancel();
                        Outcome::Done
                    }
                };
                async move { outcome }
            })
            .await;
        assert_eq!(
            seen.into_inner().unwrap(),
            [("a", 0), ("a", 5), ("a", 15), ("a", 1015)]
        );
    }
}
