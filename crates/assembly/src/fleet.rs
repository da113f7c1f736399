//! What has become of the sample application, read from the parent alone: which object runs where, and what is
//! missing. Pure.

use machinery::meta;
use serde_json::Value;

/// One object in one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The cluster.
    pub cluster: String,
    /// `Kind namespace/name`.
    pub object: String,
    /// `ready/desired`, empty for objects without replicas.
    pub ready: String,
    /// Whether there is nothing to wait for.
    pub done: bool,
}

/// Whether a cluster's Ready condition is True.
pub fn is_ready(cluster: &Value) -> bool {
    cluster["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The rows of a Subscription's clusters and feeds. `desired` says how many replicas a feed asks for in a cluster,
/// `None` for those without.
pub fn rows(subscription: &Value, clusters: &[&str], desired: impl Fn(&Value) -> Option<i64>) -> Vec<Row> {
    let feeds = subscription["spec"]["feeds"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let statuses = subscription["status"]["aggregatedStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut rows = Vec::new();
    for cluster in clusters {
        for feed in &feeds {
            let detail = statuses
                .iter()
                .find(|status| same_feed(status, feed))
                .and_then(|status| {
                    status["feedStatusDetails"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .find(|detail| detail["clusterName"] == *cluster)
                        .cloned()
                });
            let available = detail.as_ref().is_some_and(|detail| detail["available"] == true);
            let ready = detail
                .as_ref()
                .and_then(|detail| detail["replicaStatus"]["readyReplicas"].as_i64());
            let wanted = desired(feed);
            rows.push(Row {
                cluster: (*cluster).to_owned(),
                object: title(feed),
                ready: wanted.map_or(String::new(), |wanted| format!("{}/{wanted}", ready.unwrap_or(0))),
                done: available && wanted.is_none_or(|wanted| ready == Some(wanted)),
            });
        }
    }
    rows
}

fn same_feed(status: &Value, feed: &Value) -> bool {
    ["apiVersion", "kind", "namespace", "name"]
        .iter()
        .all(|field| status[*field].as_str().unwrap_or_default() == feed[*field].as_str().unwrap_or_default())
}

fn title(feed: &Value) -> String {
    let text = |field: &str| feed[field].as_str().unwrap_or_default();
    if text("namespace").is_empty() {
        format!("{} {}", meta::kind(feed), text("name"))
    } else {
        format!("{} {}/{}", meta::kind(feed), text("namespace"), text("name"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_what_runs_and_what_is_missing() {
        let subscription = json!({
            "spec": {"feeds": [
                {"apiVersion": "v1", "kind": "Namespace", "name": "web"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "nginx"},
            ]},
            "status": {"aggregatedStatuses": [
                {"apiVersion": "v1", "kind": "Namespace", "name": "web", "feedStatusDetails": [
                    {"clusterName": "a", "available": true}, {"clusterName": "b", "available": true},
                ]},
                {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "nginx",
                 "feedStatusDetails": [
                    {"clusterName": "a", "available": true, "replicaStatus": {"readyReplicas": 2}},
                    {"clusterName": "b", "available": true, "replicaStatus": {"readyReplicas": 1}},
                ]},
            ]},
        });
        let rows = rows(&subscription, &["a", "b", "c"], |feed| {
            (feed["kind"] == "Deployment").then_some(2)
        });
        let shown: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {} {} {}", row.cluster, row.object, row.ready, row.done))
            .collect();
        assert_eq!(
            shown,
            [
                "a Namespace web  true",
                "a Deployment web/nginx 2/2 true",
                "b Namespace web  true",
                "b Deployment web/nginx 1/2 false",
                "c Namespace web  false",
                "c Deployment web/nginx 0/2 false",
            ]
        );
    }
}
