//! Which Subscriptions a change of a ManagedCluster wakes.

use std::collections::BTreeMap;

use placement::{Cluster, FailOver, Health, Subscription};
use serde_json::Value;

/// A ManagedCluster as the scheduler remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What placement reads.
    pub cluster: Cluster,
}

impl Seen {
    /// From a ManagedCluster object; `None` if it has no namespace or name.
    pub fn from_value(object: &Value) -> Option<Self> {
        Some(Self {
            cluster: Cluster::from_value(object)?,
        })
    }
}

/// Whether a change from `old` to `new` can matter to anybody.
///
/// Labels, taints, coming, going and the begin of a deletion do; a heartbeat does not. Getting ready or unready does once,
/// not at each further update, and with the gate `FailOver` closed not at all.
pub fn matters(old: Option<&Seen>, new: Option<&Seen>, fail_over: FailOver) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            let view = |cluster: &Cluster| match fail_over {
                FailOver::On => cluster.clone(),
                FailOver::Off => Cluster {
                    health: Health::default(),
                    ..cluster.clone()
                },
            };
            old.cluster != new.cluster && view(&old.cluster) != view(&new.cluster)
        }
        (None, None) => false,
        (None, Some(_)) | (Some(_), None) => true,
    }
}

/// Whether a change of a cluster concerns a Subscription: some subscriber matches it as it was or as it is, or it is
/// bound to it, as division by room leaves replicas in clusters that no longer match.
pub fn concerns(subscription: &Subscription, old: Option<&Seen>, new: Option<&Seen>) -> bool {
    let is_concerned = |seen: &Seen| {
        let Cluster { key, labels, .. } = &seen.cluster;
        subscription.matches(labels) || subscription.bound.clusters.contains(key)
    };
    old.is_some_and(is_concerned) || new.is_some_and(is_concerned)
}

/// The keys of the Subscriptions that a change wakes, in their order.
pub fn woken<'a, K>(
    subscriptions: &'a BTreeMap<K, Subscription>,
    old: Option<&Seen>,
    new: Option<&Seen>,
    fail_over: FailOver,
) -> Vec<&'a K> {
    if !matters(old, new, fail_over) {
        return Vec::new();
    }
    let concerned = subscriptions
        .iter()
        .filter(|(_, subscription)| concerns(subscription, old, new));
    concerned.map(|(key, _)| key).collect()
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
        if text.contains("deleting") {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Seen::from_value(&object)
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
        ] {
            let woken = woken(
                &subscriptions,
                seen(old).as_ref(),
                seen(new).as_ref(),
                FailOver::On,
            );
            assert_eq!(
                woken.into_iter().copied().collect::<Vec<_>>(),
                expected,
                "{old} -> {new}"
            );
        }
        let spec = json!({"subscribers": [{"clusterAffinity": {"matchLabels": {"area": "1"}}}]});
        let bound = json!({"spec": spec, "status": {"bindingClusters": ["ns/c"]}});
        let bound = BTreeMap::from([("bound", Subscription::from_value(&bound).unwrap())]);
        for (old, new, wakes) in [
            ("3", "", true),
            ("3 ready", "3", true),
            ("3", "3 taint", true),
            ("3", "3", false),
        ] {
            let (old, new) = (seen(old), seen(new));
            let woken = woken(&bound, old.as_ref(), new.as_ref(), FailOver::On);
            assert_eq!(!woken.is_empty(), wakes, "{old:?} -> {new:?}");
        }
        let off = woken(
            &subscriptions,
            seen("1 ready").as_ref(),
            seen("1").as_ref(),
            FailOver::Off,
        );
        assert_eq!(off, Vec::<&&str>::new());
    }
}
