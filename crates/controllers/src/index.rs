//! Looking up cached objects by what they belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::entry::Digest;
use kubeio::{Cache, Changes, ObjectKey};
use serde_json::Value;

/// What an object belongs to, or uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tie {
    /// The object with this uid.
    Uid(String),
    /// A namespace.
    Namespace(String),
    /// A template: kind, namespace, name.
    Feed(String, String, String),
    /// A payload.
    Payload(Digest),
    /// A Subscription: namespace, name.
    Subscription(String, String),
    /// A Service of the clusters: namespace, name.
    Service(String, String),
    /// Those that take effect together, by what their annotation says.
    ChangeSet(String),
}

/// The objects of a cache by their ties, each as what `keep` makes of it. It catches up with the cache each time it is
/// asked, so that it never lags behind what the cache was told of our own writes.
pub(crate) struct Index<V = Arc<Value>> {
    changes: Changes,
    ties: fn(&Value) -> Vec<Tie>,
    keep: fn(&Arc<Value>) -> V,
    objects: BTreeMap<Tie, BTreeMap<ObjectKey, V>>,
}

impl Index {
    pub(crate) fn new(cache: &Cache, ties: fn(&Value) -> Vec<Tie>) -> Self {
        Self::keeping(cache, ties, Arc::clone)
    }
}

impl<V: Clone> Index<V> {
    pub(crate) fn keeping(cache: &Cache, ties: fn(&Value) -> Vec<Tie>, keep: fn(&Arc<Value>) -> V) -> Self {
        Self {
            changes: cache.subscribe(),
            ties,
            keep,
            objects: BTreeMap::new(),
        }
    }

    fn catch_up(&mut self) {
        while let Some(change) = self.changes.try_next() {
            for tie in change.old.iter().flat_map(|old| (self.ties)(old)) {
                if let Some(objects) = self.objects.get_mut(&tie) {
                    objects.remove(&change.key);
                    if objects.is_empty() {
                        self.objects.remove(&tie);
                    }
                }
            }
            if let Some(new) = &change.new {
                let kept = (self.keep)(new);
                for tie in (self.ties)(new) {
                    self.objects
                        .entry(tie)
                        .or_default()
                        .insert(change.key.clone(), kept.clone());
                }
            }
        }
    }

    /// The objects with a tie, in the order of their keys.
    pub(crate) fn find(&mut self, tie: &Tie) -> Vec<V> {
        self.catch_up();
        self.objects
            .get(tie)
            .into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// Whether any object has a tie.
    pub(crate) fn has(&mut self, tie: &Tie) -> bool {
        self.catch_up();
        self.objects.contains_key(tie)
    }

    /// The keys of the objects with any of these ties.
    pub(crate) fn keys(&mut self, ties: &[Tie]) -> BTreeSet<ObjectKey> {
        self.catch_up();
        let found = ties.iter().filter_map(|tie| self.objects.get(tie));
        found.flat_map(BTreeMap::keys).cloned().collect()
    }
}
