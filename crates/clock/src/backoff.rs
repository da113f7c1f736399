//! Exponential back-off with jitter; randomness is an argument.

use std::time::Duration;

/// Doubling delays from `base` to `max`, each shortened by up to half at random.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    attempts: u32,
}

impl Backoff {
    /// Delays that start at `base` and never exceed `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            attempts: 0,
        }
    }

    /// The next delay; `random` picks the jitter.
    pub fn next_delay(&mut self, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(self.attempts.min(31)).unwrap_or(u32::MAX);
        let delay = self.base.saturating_mul(factor).min(self.max);
        self.attempts = self.attempts.saturating_add(1);
        let half = delay / 2;
        let share = (random % 1_000) as u32;
        half + half * share / 1_000
    }

    /// How many delays were handed out since the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Starts again from `base`: call it after a success.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit_with_jitter_of_half() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        assert_eq!(backoff.next_delay(0), Duration::from_millis(50));
        assert_eq!(backoff.next_delay(500), Duration::from_millis(150));
        for _ in 0..40 {
            assert!(backoff.next_delay(999) < Duration::from_secs(1));
        }
        backoff.reset();
        assert_eq!(backoff.next_delay(0), Duration::from_millis(50));
    }
}
