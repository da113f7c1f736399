//! Which Subscriptions a change of a ManagedCluster wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machinery::selector::LabelSelector;
use placement::model::selects;
use placement::{Cluster, FailOver, Subscription};
use serde_json::Value;

/// A ManagedCluster as the scheduler remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What placement reads.
    pub cluster: Arc<Cluster>,
}

impl Seen {
    /// From a ManagedCluster object; `None` if it has no namespace or name.
    pub fn from_value(object: &Value) -> Option<Self> {
        Some(Self {
            cluster: Arc::new(Cluster::from_value(object)?),
        })
    }
}

/// Whether a change from `old` to `new` can matter to anybody.
///
/// Labels, taints, coming, going and the begin of a deletion do; a heartbeat does not. Getting ready or unready does once,
/// not at each further update, and with the gate `FailOver` closed not at all.
pub fn matters(old: Option<&Seen>, new: Option<&Seen>, fail_over: FailOver) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => !is_same_but_labels(old, new, fail_over) || differ_in_labels(old, new),
        (None, None) => false,
        (None, Some(_)) | (Some(_), None) => true,
    }
}

/// Subscriptions by the selectors of their subscribers, so that a change of a cluster is held against each selector
/// once, however many Subscriptions have it.
#[derive(Debug, Clone)]
pub struct Interests<K>(BTreeMap<LabelSelector, BTreeSet<K>>);

impl<K> Default for Interests<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Interests<K> {
    /// Notes what a Subscription selects.
    pub fn add(&mut self, key: &K, subscription: &Subscription) {
        for subscriber in &subscription.subscribers {
            match self.0.get_mut(&subscriber.affinity) {
                Some(keys) => {
                    keys.insert(key.clone());
                }
                None => {
                    let keys = BTreeSet::from([key.clone()]);
                    self.0.insert(subscriber.affinity.clone(), keys);
                }
            }
        }
    }

    /// Forgets what a Subscription selects.
    pub fn remove(&mut self, key: &K, subscription: &Subscription) {
        for subscriber in &subscription.subscribers {
            if let Some(keys) = self.0.get_mut(&subscriber.affinity) {
                keys.remove(key);
                if keys.is_empty() {
                    self.0.remove(&subscriber.affinity);
                }
            }
        }
    }

    /// The Subscriptions that a change wakes: those of which some subscriber selects the cluster as it was or as it is,
    /// and of the others those that `is_bound` tells, as division by room leaves replicas in clusters that no longer
    /// match. A change of nothing but labels wakes only those that select the cluster now and did not before, or the
    /// other way round: labels are read for nothing else.
    pub fn woken<'a>(
        &'a self,
        old: Option<&Seen>,
        new: Option<&Seen>,
        fail_over: FailOver,
        others: impl Iterator<Item = &'a K>,
        is_bound: impl Fn(&K) -> bool,
    ) -> BTreeSet<&'a K> {
        if !matters(old, new, fail_over) {
            return BTreeSet::new();
        }
        let relabelled = old
            .zip(new)
            .is_some_and(|(old, new)| is_same_but_labels(old, new, fail_over));
        let matches =
            |seen: Option<&Seen>, selector| seen.is_some_and(|it| selects(selector, &it.cluster.labels));
        let mut woken = BTreeSet::new();
        for (selector, keys) in &self.0 {
            let (was, is) = (matches(old, selector), matches(new, selector));
            if if relabelled { was != is } else { was || is } {
                woken.extend(keys);
            }
        }
        if !relabelled {
            woken.extend(others.filter(|key| is_bound(key)));
        }
        woken
    }
}

fn differ_in_labels(old: &Seen, new: &Seen) -> bool {
    old.cluster.labels != new.cluster.labels
}

/// Whether nothing but labels differs, of what matters.
fn is_same_but_labels(old: &Seen, new: &Seen, fail_over: FailOver) -> bool {
    let Cluster {
        key,
        labels: _,
        taints,
        deleting,
        id,
        predictor,
        health,
    } = &*old.cluster;
    *key == new.cluster.key
        && *taints == new.cluster.taints
        && *deleting == new.cluster.deleting
        && *id == new.cluster.id
        && *predictor == new.cluster.predictor
        && (fail_over == FailOver::Off || *health == new.cluster.health)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `label [ready] [taint] [deleting]`, or nothing for no cluster.
    fn seen(text: &str) -> Option<Seen> {
        let label = text.split(' ').next().filter(|label| !label.is_empty())?;
        let mut object =
            json!({"metadata": {"namespace": "ns", "name": "c", "labels": {"area": label}}, "spec": {}});
        let status = if text.contains("ready") { "True" } else { "Unknown" };
        object["status"]["conditions"] = json!([{"type": "Ready", "status": status}]);
        if text.contains("taint") {
            object["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        }
        if text.contains("also") {
            object["metadata"]["labels"]["also"] = json!("this");
        }
        if text.contains("deleting") {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Seen::from_value(&object)
    }

    fn wakes<'a>(
        subscriptions: &BTreeMap<&'a str, Subscription>,
        old: &str,
        new: &str,
        fail_over: FailOver,
    ) -> Vec<&'a str> {
        let mut interests = Interests::default();
        for (key, subscription) in subscriptions {
            interests.add(key, subscription);
        }
        let (old, new) = (seen(old), seen(new));
        let cluster = old.as_ref().or(new.as_ref()).map(|seen| seen.cluster.key.clone());
        let is_bound = |key: &&str| subscriptions[key].bound.contains(cluster.as_ref().unwrap());
        let woken = interests.woken(
            old.as_ref(),
            new.as_ref(),
            fail_over,
            subscriptions.keys(),
            is_bound,
        );
        woken.into_iter().copied().collect()
    }

    #[test]
    fn wakes_whom_it_concerns() {
        let subscription = |area: &str| {
            Subscription::from_value(
                &json!({"spec": {"subscribers": [{"clusterAffinity": {"matchLabels": {"area": area}}}]}}),
            )
            .unwrap()
        };
        let subscriptions = BTreeMap::from([("one", subscription("1")), ("two", subscription("2"))]);
        let woken = |old: &str, new: &str, fail_over| wakes(&subscriptions, old, new, fail_over);
        for (old, new, expected) in [
            ("", "1", vec!["one"]),
            ("1", "", vec!["one"]),
            ("1 ready", "1 ready", vec![]),
            ("1", "2", vec!["one", "two"]),
            ("1 ready", "2", vec!["one", "two"]),
            ("1", "1 taint", vec!["one"]),
            ("1", "1 deleting", vec!["one"]),
            ("1 ready", "1", vec!["one"]),
            ("1", "1", vec![]),
            ("1", "1 ready", vec!["one"]),
            ("3", "", vec![]),
            ("1", "1 also", vec![]),
            ("1 ready", "1 also", vec!["one"]),
            ("1", "2 also taint", vec!["one", "two"]),
        ] {
            assert_eq!(woken(old, new, FailOver::On), expected, "{old} -> {new}");
        }
        assert_eq!(woken("1 ready", "1", FailOver::Off), [] as [&str; 0]);
        let spec = json!({"subscribers": [{"clusterAffinity": {"matchLabels": {"area": "1"}}}]});
        let bound = json!({"spec": spec, "status": {"bindingClusters": ["ns/c"]}});
        let bound = BTreeMap::from([("bound", Subscription::from_value(&bound).unwrap())]);
        for (old, new, expected) in [
            ("3", "", true),
            ("3 ready", "3", true),
            ("3", "3 taint", true),
            ("3", "3", false),
            ("3", "4", false),
        ] {
            assert_eq!(
                !wakes(&bound, old, new, FailOver::On).is_empty(),
                expected,
                "{old} -> {new}"
            );
        }
    }

    #[test]
    fn forgets_what_is_gone() {
        let of = |areas: &[&str]| {
            let subscriber = |area: &&str| json!({"clusterAffinity": {"matchLabels": {"area": area}}});
            let subscribers: Vec<Value> = areas.iter().map(subscriber).collect();
            Subscription::from_value(&json!({"spec": {"subscribers": subscribers}})).unwrap()
        };
        let mut interests = Interests::default();
        interests.add(&"one", &of(&["1", "2", "1"]));
        interests.add(&"two", &of(&["1"]));
        interests.remove(&"one", &of(&["1", "2", "1"]));
        assert_eq!(
            interests.0.values().flatten().copied().collect::<Vec<_>>(),
            ["two"]
        );
        interests.remove(&"two", &of(&["1"]));
        assert!(interests.0.is_empty());
    }
}
