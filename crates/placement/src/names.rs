//! One copy of each cluster's key, however many Subscriptions are bound to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ClusterKey;

/// So few keys are never looked through.
const FEW: usize = 1_024;

/// The keys that are in use, by their texts.
#[derive(Debug, Default)]
pub struct Names {
    keys: BTreeMap<Box<str>, Arc<ClusterKey>>,
    /// How many there were when those that nobody uses were taken out.
    swept: usize,
}

impl Names {
    /// The key of a text; `None` if it is none.
    pub fn of(&mut self, text: &str) -> Option<Arc<ClusterKey>> {
        if let Some(key) = self.keys.get(text) {
            return Some(Arc::clone(key));
        }
        let key: Arc<ClusterKey> = Arc::new(text.parse().ok()?);
        if self.keys.len() >= FEW.max(self.swept * 2) {
            self.keys.retain(|_, key| Arc::strong_count(key) > 1);
            self.swept = self.keys.len();
        }
        self.keys.insert(text.into(), Arc::clone(&key));
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_one_copy_and_forgets_what_nobody_uses() {
        let mut names = Names::default();
        let first = names.of("ns/a").unwrap();
        assert!(Arc::ptr_eq(&first, &names.of("ns/a").unwrap()));
        assert_eq!(names.of("junk"), None);
        for index in 0..3 * FEW {
            names.of(&format!("ns/{index}"));
        }
        assert!(names.keys.len() <= FEW, "{}", names.keys.len());
        assert!(Arc::ptr_eq(&first, &names.of("ns/a").unwrap()));
    }
}
