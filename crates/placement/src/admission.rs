//! Whether a dividing Subscription can be decided now.

use crate::model::{Inventory, Subscription};

/// Whether the inventory is for exactly the Subscription's feeds, in their order.
pub fn is_inventory_current(subscription: &Subscription, inventory: &Inventory) -> bool {
    subscription
        .feeds
        .iter()
        .eq(inventory.feeds.iter().map(|wanted| &wanted.feed))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Cluster, Config, Decision, Fleet, Snapshot, place, status_patch};

    /// The kinds of the feeds and how many replicas each wants.
    type Wanted = [(&'static str, Option<u32>)];

    fn feeds(wanted: &Wanted) -> Value {
        let feed = |(kind, desired): &(&str, Option<u32>)| json!({"apiVersion": "v1", "kind": kind, "name": "x", "desiredReplicas": desired});
        wanted.iter().map(feed).collect()
    }

    fn inventory(wanted: &Wanted) -> Inventory {
        Inventory::from_value(&json!({"spec": {"feeds": feeds(wanted)}}))
    }

    /// Divides among two clusters by what they have room for.
    fn subscription(status: &Value) -> Subscription {
        let subscriber = |zone: &str| json!({"clusterAffinity": {"matchLabels": {"zone": zone}}});
        let wanted = [("Deployment", None), ("StatefulSet", None), ("ConfigMap", None)];
        let spec = json!({"schedulingStrategy": "Dividing", "dividingScheduling": {"type": "Dynamic"},
            "subscribers": [subscriber("a"), subscriber("b")], "feeds": feeds(&wanted)});
        Subscription::from_value(&json!({"metadata": {"name": "s"}, "spec": spec, "status": status})).unwrap()
    }

    fn decide(status: &Value, inventory: &Inventory) -> Decision<'static> {
        let cluster = |zone: &str| {
            let object = json!({"metadata": {"namespace": format!("ns-{zone}"), "name": zone, "labels": {"zone": zone}}});
            Cluster::from_value(&object).unwrap()
        };
        let clusters: Fleet = ["a", "b"].map(cluster).into_iter().collect();
        let config: &Config = Box::leak(Box::default());
        let subscription = Box::leak(Box::new(subscription(status)));
        let profile = config.profile("default").unwrap();
        place(&Snapshot {
            inventory: Some(Box::leak(Box::new(inventory.clone()))),
            ..Snapshot::of(subscription, Box::leak(Box::new(clusters)), profile)
        })
        .decision
    }

    /// Whether deciding again changes the status.
    fn changes(status: &Value, (deployment, stateful_set): (u32, u32)) -> bool {
        let inventory = inventory(&[
            ("Deployment", Some(deployment)),
            ("StatefulSet", Some(stateful_set)),
            ("ConfigMap", None),
        ]);
        match decide(status, &inventory) {
            Decision::Bind { binding, .. } => status_patch(status, &binding).is_some(),
            // Whoever asks what there is room for is about to change something.
            Decision::Predict(_) => true,
            decision @ (Decision::Unfit { .. } | Decision::Waiting(_) | Decision::Failed(_)) => {
                panic!("{decision:?}")
            }
        }
    }

    #[test]
    fn a_decision_is_written_when_it_differs() {
        let hash = subscription(&json!({})).spec_hash;
        let all = json!({"bindingClusters": ["ns-a/a", "ns-b/b"], "desiredReleases": 2, "specHash": hash, "replicas":
            {"v1/Deployment/x": [1, 2], "v1/StatefulSet/x": [1, 1], "v1/ConfigMap/x": []}});
        let without = |key: &str| {
            let mut status = all.clone();
            status["replicas"].as_object_mut().unwrap().remove(key);
            status
        };
        let mut old_hash = all.clone();
        old_hash["specHash"] = json!(1);
        for (row, status, desired, expected) in [
            ("Q1", &all, (3, 2), false),
            ("Q2", &all, (5, 2), true),
            ("Q3", &all, (2, 1), true),
            ("Q4", &without("v1/StatefulSet/x"), (3, 2), true),
            ("Q5", &without("v1/ConfigMap/x"), (3, 2), true),
            ("Q6", &old_hash, (3, 2), true),
        ] {
            assert_eq!(changes(status, desired), expected, "{row}");
        }
    }

    #[test]
    fn an_inventory_of_other_feeds_is_waited_for() {
        let short = inventory(&[("Deployment", Some(3)), ("StatefulSet", Some(2))]);
        assert!(matches!(decide(&json!({}), &short), Decision::Waiting(_)));
    }
}
