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

/// Tells each request how long to wait.
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

    /// Takes the next place; says when it is.
    pub(crate) fn take(&self) -> Instant {
        let now = Instant::now();
        let mut due = self.due.lock().expect("no holder panics");
        *due = (*due).max(now) + self.interval;
        due.checked_sub(self.tolerance).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
