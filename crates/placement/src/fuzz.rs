//! Bodies of the fuzz targets: what reads foreign bytes must never panic.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Cluster, Config, Inventory, Snapshot, Subscription, place, status_patch};

/// A JSON array of a Subscription, a FeedInventory, a configuration and ManagedClusters: reads and decides.
pub fn fuzz_place(bytes: &[u8]) {
    let Ok(Value::Array(parts)) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let part = |index: usize| parts.get(index).unwrap_or(&Value::Null);
    let Ok(subscription) = Subscription::from_value(part(0)) else {
        return;
    };
    let inventory = Inventory::from_value(part(1));
    let config = Config::parse(part(2)).unwrap_or_default();
    let clusters: BTreeMap<_, _> = parts
        .iter()
        .skip(3)
        .filter_map(Cluster::from_value)
        .map(|cluster| (cluster.key.clone(), cluster))
        .collect();
    let Some(profile) = config
        .profile(&subscription.scheduler_name)
        .or_else(|| config.profile("default"))
    else {
        return;
    };
    let placement = place(&Snapshot {
        subscription: &subscription,
        clusters: &clusters,
        inventory: Some(&inventory),
        profile,
        percentage_to_score: config.percentage_to_score,
        start: bytes.len(),
    });
    if let crate::Decision::Bind(binding) = placement.decision {
        assert!(
            status_patch(&Value::Null, &binding).is_some(),
            "an empty status lacks a binding"
        );
    }
}
