//! The outcome as a patch of the Subscription's status.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::fleet::by_text;
use crate::model::{Bound, ClusterKey};
use crate::names::Names;

/// Where a Subscription goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding<'a> {
    /// The clusters, in the order of their keys' text.
    clusters: Vec<&'a ClusterKey>,
    /// For each feed key its replicas in the order of the clusters; empty for a feed that is not divided.
    replicas: BTreeMap<String, Vec<u32>>,
    spec_hash: u64,
}

impl<'a> Binding<'a> {
    /// Sorts the clusters by their text and every list of replicas of the same length alike.
    pub fn new(clusters: Vec<&'a ClusterKey>, replicas: BTreeMap<String, Vec<u32>>, spec_hash: u64) -> Self {
        let mut order: Vec<usize> = (0..clusters.len()).collect();
        order.sort_by(|a, b| by_text(clusters[*a], clusters[*b]));
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
            clusters: order.into_iter().map(|index| clusters[index]).collect(),
            spec_hash,
        }
    }

    /// Of whole feeds, to clusters in the order of their keys' text.
    pub(crate) fn whole(clusters: Vec<&'a ClusterKey>, spec_hash: u64) -> Self {
        Self {
            clusters,
            replicas: BTreeMap::new(),
            spec_hash,
        }
    }

    /// The clusters, in the order that is stored.
    pub fn clusters(&self) -> &[&'a ClusterKey] {
        &self.clusters
    }

    /// For each feed key its replicas, in the order of the clusters.
    pub fn replicas(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.replicas
    }

    /// The merge patch that makes a status say what the binding says; `None` if it does already.
    pub fn patch(&self, bound: &Bound) -> Option<Value> {
        let mut patch = Map::new();
        let mut set = |field: &str, is_there: bool, value: &dyn Fn() -> Value| {
            if !is_there {
                patch.insert(field.to_owned(), value());
            }
        };
        let count = self.clusters.len();
        set(
            "desiredReleases",
            bound.desired_releases == u64::try_from(count).ok(),
            &|| json!(count),
        );
        let same = bound
            .clusters
            .iter()
            .map(|key| &**key)
            .eq(self.clusters.iter().copied());
        set("bindingClusters", bound.exact && same, &|| {
            self.clusters
                .iter()
                .map(|key| Value::from(key.to_string()))
                .collect()
        });
        set("specHash", bound.spec_hash == Some(self.spec_hash), &|| {
            json!(self.spec_hash)
        });
        let replicas = self.replicas_patch(bound);
        if !replicas.is_empty() {
            patch.insert("replicas".to_owned(), Value::Object(replicas));
        }
        (!patch.is_empty()).then(|| json!({"status": patch}))
    }

    /// What changes in the map of replicas. A merge patch keeps what it does not name, so keys that go are set to null.
    fn replicas_patch(&self, bound: &Bound) -> Map<String, Value> {
        let gone = bound
            .replicas
            .keys()
            .filter(|feed| !self.replicas.contains_key(*feed));
        let mut patch: Map<String, Value> = gone.map(|feed| (feed.clone(), Value::Null)).collect();
        for (feed, list) in &self.replicas {
            let is_there = |old: &Vec<i64>| old.iter().copied().eq(list.iter().map(|n| i64::from(*n)));
            if !(bound.exact && bound.replicas.get(feed).is_some_and(is_there)) {
                patch.insert(feed.clone(), json!(list));
            }
        }
        patch
    }
}

/// [`Binding::patch`] of a status as it is stored.
pub fn status_patch(status: &Value, binding: &Binding<'_>) -> Option<Value> {
    binding.patch(&Bound::from_value(status, &mut Names::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(replicas: &[(&str, &[u32])]) -> Binding<'static> {
        let key = |namespace: &str, name: &str| &*Box::leak(Box::new(ClusterKey::new(namespace, name)));
        let clusters = vec![key("ns-03", "xyz"), key("ns-01", "def")];
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
        for (field, malformed) in [
            ("bindingClusters", json!(["ns-01/def", "junk", "ns-03/xyz"])),
            ("replicas", json!({"a": [1.5, 3]})),
            ("desiredReleases", json!(3)),
            ("specHash", json!("9")),
        ] {
            let mut status = status.clone();
            status[field] = malformed;
            let patch = status_patch(&status, &wanted).unwrap();
            machinery::patch::merge_patch(&mut status, &patch["status"]);
            assert_eq!(status_patch(&status, &wanted), None, "{field}");
        }
    }

    #[test]
    fn sorts_by_text_where_one_namespace_begins_with_the_other() {
        let keys = ["a/x", "a-b/a", "a/b"].map(|text| text.parse::<ClusterKey>().unwrap());
        let binding = Binding::new(keys.iter().collect(), BTreeMap::new(), 0);
        let texts: Vec<String> = binding.clusters().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a-b/a", "a/b", "a/x"]);
    }
}
