//! How many requests a server gets from one client: a generic cell rate algorithm (ITU-T I.371), which is a token
//! bucket without a timer.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// A bound on requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second in the long run, at least 1.
    pub per_second: u32,
    /// Requests at once after a pause, at least 1.
    pub burst: u32,
}

/// Lets each request wait for its place.
#[derive(Debug)]
pub(crate) struct Limiter {
    interval: Duration,
    tolerance: Duration,
    /// When the next request would be due if all came evenly.
    due: Mutex<Instant>,
}

impl Limiter {
    pub(crate) fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        Self {
            interval,
            tolerance: interval * rate.burst.max(1),
            due: Mutex::new(Instant::now()),
        }
    }

    /// Waits for the next place. Whoever stops to wait leaves it to others.
    pub(crate) async fn wait(&self) {
        let at = self.take();
        let place = Place(self);
        tokio::time::sleep_until(at).await;
        std::mem::forget(place);
    }

    /// Takes the next place; says when it is.
    fn take(&self) -> Instant {
        let now = Instant::now();
        let mut due = self.due.lock().expect("no holder panics");
        *due = (*due).max(now) + self.interval;
        due.checked_sub(self.tolerance).map_or(now, |at| at.max(now))
    }
}

/// A place that nobody has come to yet.
struct Place<'a>(&'a Limiter);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut due = self.0.due.lock().expect("no holder panics");
        *due = due.checked_sub(self.0.interval).unwrap_or(*due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_holds_up_nobody() {
        let limiter = Limiter::new(Rate {
            per_second: 10,
            burst: 1,
        });
        let start = Instant::now();
        limiter.wait().await;
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(limiter.wait())).collect();
        for wait in &mut waiting {
            assert!(futures::poll!(wait).is_pending());
        }
        let first = waiting.remove(0);
        drop(waiting);
        // What was still waited for is kept.
        first.await;
        assert_eq!(start.elapsed().as_millis(), 100);
        limiter.wait().await;
        assert_eq!(start.elapsed().as_millis(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_comes_evenly() {
        let limiter = Limiter::new(Rate {
            per_second: 10,
            burst: 3,
        });
        let start = Instant::now();
        let waits = |count: usize| -> Vec<u128> {
            (0..count).map(|_| (limiter.take() - start).as_millis()).collect()
        };
        assert_eq!(waits(6), [0, 0, 0, 100, 200, 300]);
        // After a pause the burst is there again, and no more than that.
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(waits(4), [60_000, 60_000, 60_000, 60_100]);
    }
}
