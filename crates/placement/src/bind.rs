//! The outcome as a patch of the Subscription's status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::model::ClusterKey;

/// Where a Subscription goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// The clusters, in the order of their keys' text.
    clusters: Vec<ClusterKey>,
    /// For each feed key its replicas in the order of the clusters; empty for a feed that is not divided.
    replicas: BTreeMap<String, Vec<u32>>,
    spec_hash: u64,
}

impl Binding {
    /// Sorts the clusters by their text and every list of replicas of the same length alike.
    pub fn new(clusters: Vec<ClusterKey>, replicas: BTreeMap<String, Vec<u32>>, spec_hash: u64) -> Self {
        let mut order: Vec<usize> = (0..clusters.len()).collect();
        order.sort_by_cached_key(|index| clusters[*index].to_string());
        let permute = |list: Vec<u32>| {
            if list.len() == order.len() {
                order.iter().map(|index| list[*index]).collect()
            } else {
                list
            }
        };
        Self {
            replicas: replicas
                .into_iter()
                .map(|(feed, list)| (feed, permute(list)))
                .collect(),
            clusters: order.into_iter().map(|index| clusters[index].clone()).collect(),
            spec_hash,
        }
    }

    /// The clusters, in the order that is stored.
    pub fn clusters(&self) -> &[ClusterKey] {
        &self.clusters
    }

    /// For each feed key its replicas, in the order of the clusters.
    pub fn replicas(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.replicas
    }
}

/// The merge patch that makes `status` say what the binding says; `None` if it does already.
pub fn status_patch(status: &Value, binding: &Binding) -> Option<Value> {
    let clusters: Vec<String> = binding.clusters.iter().map(ToString::to_string).collect();
    let mut patch = Map::new();
    let mut set = |field: &str, value: Value| {
        if status[field] != value {
            patch.insert(field.to_owned(), value);
        }
    };
    set("desiredReleases", json!(clusters.len()));
    set("bindingClusters", json!(clusters));
    set("specHash", json!(binding.spec_hash));
    let replicas = replicas_patch(&status["replicas"], &binding.replicas);
    if !replicas.is_null() {
        patch.insert("replicas".to_owned(), replicas);
    }
    if patch.is_empty() {
        None
    } else {
        Some(json!({"status": patch}))
    }
}

/// What changes in the map of replicas. A merge patch keeps what it does not name, so keys that go are set to null.
fn replicas_patch(old: &Value, new: &BTreeMap<String, Vec<u32>>) -> Value {
    let empty = Map::new();
    let old = old.as_object().unwrap_or(&empty);
    let mut patch: Map<String, Value> = old
        .keys()
        .filter(|feed| !new.contains_key(*feed))
        .map(|feed| (feed.clone(), Value::Null))
        .collect();
    for (feed, list) in new {
        let list = json!(list);
        if old.get(feed) != Some(&list) {
            patch.insert(feed.clone(), list);
        }
    }
    if patch.is_empty() {
        Value::Null
    } else {
        Value::Object(patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(replicas: &[(&str, &[u32])]) -> Binding {
        let clusters = vec![ClusterKey::new("ns-03", "xyz"), ClusterKey::new("ns-01", "def")];
        let replicas = replicas
            .iter()
            .map(|(feed, list)| ((*feed).to_owned(), list.to_vec()))
            .collect();
        Binding::new(clusters, replicas, 9)
    }

    #[test]
    fn stores_clusters_in_lexical_order_and_replicas_alike() {
        let patch = status_patch(&Value::Null, &binding(&[("a", &[3, 1]), ("b", &[])])).unwrap();
        assert_eq!(
            patch,
            json!({"status": {
                "bindingClusters": ["ns-01/def", "ns-03/xyz"], "desiredReleases": 2, "specHash": 9,
                "replicas": {"a": [1, 3], "b": []},
            }}),
            "Q8"
        );
    }

    #[test]
    fn asks_for_nothing_once_it_is_there() {
        let wanted = binding(&[("a", &[3, 1])]);
        let status = status_patch(&Value::Null, &wanted).unwrap()["status"].clone();
        assert_eq!(status_patch(&status, &wanted), None);
        let undivided = status_patch(&status, &binding(&[])).unwrap();
        assert_eq!(
            undivided,
            json!({"status": {"replicas": {"a": null}}}),
            "old feeds are taken out by name"
        );
    }
}
