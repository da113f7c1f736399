//! Node labels that most nodes share become labels of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::labels::{NODE_ROLE_CONTROL_PLANE, NODE_ROLE_MASTER};
use machinery::meta;
use serde_json::{Map, Value, json};

/// The labels that are promoted: of each key with one of the prefixes the most frequent value (of equals the least),
/// if at least the threshold's share of the worker nodes has it.
pub fn promote(nodes: &[Arc<Value>], prefixes: &[String], threshold: f64) -> BTreeMap<String, String> {
    let workers: Vec<&Value> = nodes
        .iter()
        .map(Arc::as_ref)
        .filter(|node| {
            ![NODE_ROLE_CONTROL_PLANE, NODE_ROLE_MASTER]
                .into_iter()
                .any(|role| meta::labels(node).is_some_and(|labels| labels.contains_key(role)))
        })
        .collect();
    let mut counts: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for (key, value) in workers.iter().filter_map(|node| meta::labels(node)).flatten() {
        if let Some(value) = value.as_str()
            && prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
        {
            *counts.entry(key).or_default().entry(value).or_default() += 1;
        }
    }
    let all = f64::from(u32::try_from(workers.len()).unwrap_or(u32::MAX));
    let mut promoted = BTreeMap::new();
    for (key, values) in counts {
        let best = values
            .into_iter()
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        if let Some((value, count)) = best
            && f64::from(count) / all >= threshold
        {
            promoted.insert(key.to_owned(), value.to_owned());
        }
    }
    promoted
}

/// The merge patch of `metadata.labels` that brings a ManagedCluster's labels to the promoted ones: those with one of
/// the prefixes that are no longer promoted go. `None` if nothing changes.
pub fn changes(cluster: &Value, promoted: &BTreeMap<String, String>, prefixes: &[String]) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in promoted {
        if meta::label(cluster, key) != Some(value) {
            patch.insert(key.clone(), json!(value));
        }
    }
    for key in meta::labels(cluster).into_iter().flat_map(Map::keys) {
        if !promoted.contains_key(key) && prefixes.iter().any(|prefix| key.starts_with(prefix.as_str())) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then(|| json!({"metadata": {"labels": patch}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: &str, nodes: &[&str], prefixes: &[&str], threshold: f64, expected: &str) {
        let nodes: Vec<Arc<Value>> = nodes
            .iter()
            .map(|labels| {
                let labels: Map<String, Value> = labels
                    .split(' ')
                    .filter_map(|label| label.split_once('='))
                    .map(|(key, value)| (key.to_owned(), json!(value)))
                    .collect();
                Arc::new(json!({"metadata": {"labels": labels}}))
            })
            .collect();
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        let found: Vec<String> = promote(&nodes, &prefixes, threshold)
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(found.join(" "), expected, "{row}");
    }

    #[test]
    fn takes_what_enough_nodes_share() {
        check("L1", &["foo=bar"], &["foo"], 0.0, "foo=bar");
        check("L2", &["foo=bar", "foo=bar", ""], &["foo"], 1.0, "");
        check("L3", &["foo=bar", "foo=bar", "foo=bar"], &["foo"], 1.0, "foo=bar");
        let zones = ["foo=bar zone=zone0", "foo=bar zone=zone0", "foo=bar zone=zone1"];
        check("L4", &zones, &["foo", "zone"], 0.5, "foo=bar zone=zone0");
        check("L5", &zones, &["foo", "zone"], 0.1, "foo=bar zone=zone0");
        check(
            "L6",
            &["foo/abc=1 zone=zone0", "foo/def=2 zone=zone1", "zone=zone1"],
            &["foo", "zone"],
            0.1,
            "foo/abc=1 foo/def=2 zone=zone1",
        );
    }

    #[test]
    fn control_plane_nodes_do_not_count() {
        check(
            "roles",
            &[
                "foo=bar",
                "node-role.kubernetes.io/control-plane=",
                "node-role.kubernetes.io/master= foo=baz",
            ],
            &["foo"],
            1.0,
            "foo=bar",
        );
        check("no nodes", &[], &["foo"], 0.0, "");
    }

    #[test]
    fn vanished_labels_are_taken_back_and_others_stay() {
        let cluster = json!({"metadata": {"labels": {"n/a": "1", "n/b": "2", "mine": "3"}}});
        let prefixes = ["n/".to_owned()];
        let promoted = BTreeMap::from([("n/a".to_owned(), "9".to_owned())]);
        assert_eq!(
            changes(&cluster, &promoted, &prefixes),
            Some(json!({"metadata": {"labels": {"n/a": "9", "n/b": null}}}))
        );
        let same = BTreeMap::from([
            ("n/a".to_owned(), "1".to_owned()),
            ("n/b".to_owned(), "2".to_owned()),
        ]);
        assert_eq!(changes(&cluster, &same, &prefixes), None);
    }
}
