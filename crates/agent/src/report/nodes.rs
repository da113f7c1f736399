//! Nodes: how many in which state, and what they have together.

use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::quantity::Quantity;
use serde_json::{Value, json};

/// `nodeStatistics`: by the Ready condition; without one a node is lost.
pub fn statistics(nodes: &[Arc<Value>]) -> Value {
    let (mut ready, mut not_ready, mut unknown, mut lost) = (0, 0, 0, 0);
    for node in nodes {
        let condition = node["status"]["conditions"]
            .as_array()
            .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == "Ready"));
        match condition.and_then(|condition| condition["status"].as_str()) {
            Some("True") => ready += 1,
            Some("False") => not_ready += 1,
            Some(_) => unknown += 1,
            None => lost += 1,
        }
    }
    json!({"readyNodes": ready, "notReadyNodes": not_ready, "unknownNodes": unknown, "lostNodes": lost})
}

/// The sums of `status.capacity` or `status.allocatable` over the nodes: processors, memory, GPUs.
pub fn sums(nodes: &[Arc<Value>], field: &str) -> Value {
    let mut sums: BTreeMap<&str, Quantity> = BTreeMap::new();
    for node in nodes {
        for resource in ["cpu", "memory", api::names::GPU] {
            let value = &node["status"][field][resource];
            let Some(quantity) = Quantity::from_json(value).ok().filter(|_| !value.is_null()) else {
                continue;
            };
            let sum = sums
                .remove(resource)
                .map_or(Some(quantity.clone()), |sum| sum.checked_add(&quantity));
            if let Some(sum) = sum {
                sums.insert(resource, sum);
            }
        }
    }
    sums.into_iter()
        .map(|(resource, sum)| (resource.to_owned(), json!(sum.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: Option<&str>) -> Arc<Value> {
        let conditions: Vec<Value> = ready
            .map(|status| json!({"type": "Ready", "status": status}))
            .into_iter()
            .collect();
        Arc::new(json!({"status": {"conditions": conditions,
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "1"},
            "allocatable": {"cpu": "7500m", "memory": "15Gi"}}}))
    }

    #[test]
    fn counts_by_the_ready_condition() {
        let nodes = [
            node(Some("True")),
            node(Some("True")),
            node(Some("False")),
            node(Some("Unknown")),
            node(None),
        ];
        assert_eq!(
            statistics(&nodes),
            json!({"readyNodes": 2, "notReadyNodes": 1, "unknownNodes": 1, "lostNodes": 1})
        );
    }

    #[test]
    fn adds_only_the_resources_of_the_wire() {
        let nodes = [node(Some("True")), node(None)];
        assert_eq!(
            sums(&nodes, "capacity"),
            json!({"cpu": "16", "memory": "32Gi", "nvidia.com/gpu": "2"})
        );
        assert_eq!(
            sums(&nodes, "allocatable"),
            json!({"cpu": "15", "memory": "30Gi"})
        );
        assert_eq!(sums(&[], "capacity"), json!({}));
    }
}
