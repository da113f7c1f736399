//! Log lines that a stranger can cause: few, however often he tries.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Between two lines.
const PERIOD: Duration = Duration::from_secs(10);

/// Says at most every ten seconds that something is wrong, and how often it was in between.
#[derive(Debug, Default)]
pub(crate) struct Complaint(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    times: u64,
}

impl Complaint {
    /// Logs `what`, once, with a detail that is written only if it is time for a line.
    pub(crate) fn about(&self, what: &'static str, detail: &dyn Display) {
        if let Some(times) = self.count(Instant::now()) {
            tracing::warn!(%detail, times, "{what}");
        }
    }

    /// How often it was since the last line, if it is time for one.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.times += 1;
        let is_early = |last| now.duration_since(last) < PERIOD;
        if state.last.is_some_and(is_early) {
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_one_line_for_many() {
        let complaint = Complaint::default();
        let start = Instant::now();
        assert_eq!(complaint.count(start), Some(1));
        for millis in 1..1_000 {
            assert_eq!(complaint.count(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(complaint.count(start + PERIOD), Some(1_000));
    }
}
