//! Looks that are to come again when a cluster reports: replicas are held back in one until they are, or are not, in
//! another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use super::Job;

/// The looks that wait, by the uid of their Subscription.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<String, BTreeSet<Job>>>);

impl Waits {
    fn inner(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<Job>>> {
        self.0.lock().expect("no holder panics")
    }

    /// A look begins that may have to wait. Said before anything is read, so that no report is missed.
    pub(super) fn begin(&self, subscription: &str, look: &Job) {
        let mut inner = self.inner();
        inner
            .entry(subscription.to_owned())
            .or_default()
            .insert(look.clone());
    }

    /// A look has found nothing to wait for.
    pub(super) fn end(&self, subscription: &str, look: &Job) {
        let mut inner = self.inner();
        if let Some(looks) = inner.get_mut(subscription) {
            looks.remove(look);
            if looks.is_empty() {
                inner.remove(subscription);
            }
        }
    }

    /// The looks that wait: they come again now, and begin anew.
    pub(super) fn take(&self, subscription: &str) -> BTreeSet<Job> {
        self.inner().remove(subscription).unwrap_or_default()
    }
}
