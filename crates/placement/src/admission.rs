//! Whether a dividing Subscription needs a new decision.

use crate::model::{Inventory, Subscription};

/// Whether the inventory is for exactly the Subscription's feeds, in their order.
pub fn is_inventory_current(subscription: &Subscription, inventory: &Inventory) -> bool {
    subscription
        .feeds
        .iter()
        .eq(inventory.feeds.iter().map(|(feed, _)| feed))
}

/// Whether what the status divides is no longer what the inventory wants.
pub fn is_feed_changed(subscription: &Subscription, inventory: &Inventory) -> bool {
    let replicas = &subscription.bound.replicas;
    replicas.len() != inventory.feeds.len()
        || inventory
            .feeds
            .iter()
            .any(|(feed, desired)| match (replicas.get(&feed.key()), desired) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(list), Some(desired)) => list.iter().sum::<i64>() != i64::from(*desired),
            })
}

/// Whether a dividing Subscription has to be decided again.
pub fn needs_decision(subscription: &Subscription, inventory: &Inventory) -> bool {
    subscription.bound.spec_hash != Some(subscription.spec_hash) || is_feed_changed(subscription, inventory)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn subscription(replicas: &Value, hash: u64) -> Subscription {
        Subscription::from_value(&json!({"spec": {}, "status": {"replicas": replicas, "specHash": hash}}))
            .unwrap()
    }

    fn inventory(deployment: u32, stateful_set: u32) -> Inventory {
        let feed = |kind: &str, desired: Option<u32>| json!({"apiVersion": "v1", "kind": kind, "name": "x", "desiredReplicas": desired});
        Inventory::from_value(&json!({"spec": {"feeds": [
            feed("Deployment", Some(deployment)), feed("StatefulSet", Some(stateful_set)), feed("ConfigMap", None),
        ]}}))
    }

    #[test]
    fn sees_changed_feeds() {
        let all = json!({"v1/Deployment/x": [1, 2], "v1/StatefulSet/x": [1, 1], "v1/ConfigMap/x": []});
        let (mut no_set, mut no_map) = (all.clone(), all.clone());
        no_set.as_object_mut().unwrap().remove("v1/StatefulSet/x");
        no_map.as_object_mut().unwrap().remove("v1/ConfigMap/x");
        for (row, replicas, desired, expected) in [
            ("Q1", &all, (3, 2), false),
            ("Q2", &all, (5, 2), true),
            ("Q3", &all, (2, 1), true),
            ("Q4", &no_set, (3, 2), true),
            ("Q5", &no_map, (3, 2), true),
        ] {
            let inventory = inventory(desired.0, desired.1);
            assert_eq!(
                is_feed_changed(&subscription(replicas, 0), &inventory),
                expected,
                "{row}"
            );
        }
        assert!(needs_decision(&subscription(&all, 1), &inventory(3, 2)), "Q6");
        let hash = crate::hash::spec_hash(&json!({}));
        assert!(!needs_decision(&subscription(&all, hash), &inventory(3, 2)));
    }
}
