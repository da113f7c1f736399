//! When the parent first saw each cluster's latest report.
//!
//! A report states a time by the child's clock, which may be wrong: it is only compared with the one before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubeio::ObjectKey;
use tokio::time::Instant;

/// The reports that were seen, and when. After a start everything counts as just seen.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<BTreeMap<ObjectKey, (Option<String>, Instant)>>);

impl Heard {
    fn inner(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Option<String>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long the report of a cluster has been there.
    pub(crate) fn age(&self, cluster: &ObjectKey, report: Option<&str>, now: Instant) -> Duration {
        let mut inner = self.inner();
        match inner.get(cluster) {
            Some((known, since)) if known.as_deref() == report => now.saturating_duration_since(*since),
            Some(_) | None => {
                inner.insert(cluster.clone(), (report.map(str::to_owned), now));
                Duration::ZERO
            }
        }
    }

    /// The cluster is gone.
    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.inner().remove(cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_ages_until_there_is_another() {
        let (heard, start) = (Heard::default(), Instant::now());
        let key = ObjectKey {
            namespace: "home".into(),
            name: "edge-7".into(),
        };
        for (at, report, age) in [
            (0, None, 0),
            (5, Some("12:00"), 0),
            (9, Some("12:00"), 4),
            // Back in time is news too.
            (20, Some("11:00"), 0),
            (50, Some("11:00"), 30),
        ] {
            let found = heard.age(&key, report, start + Duration::from_secs(at));
            assert_eq!(found, Duration::from_secs(age), "at {at}");
        }
        heard.forget(&key);
        assert_eq!(heard.age(&key, Some("11:00"), start), Duration::ZERO);
    }
}
