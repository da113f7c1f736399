//! Status back from the clusters: Descriptions → `Subscription.status.aggregatedStatuses`.
//!
//! Objects are matched by uid labels, never by name labels, which long names do not have. A cluster or an object
//! that nobody knows is left out; one that has not reported counts as not available.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{apps, reasons};
use machinery::{meta, resource};
use serde_json::{Map, Value, json};

use crate::action::{Action, Plan};
use crate::feed::{Feed, HELM_CHART};

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// Every Description that carries its uid.
    pub descriptions: &'a [Arc<Value>],
    /// The ManagedCluster of a binding: namespace and name.
    pub cluster: &'a dyn Fn(&str, &str) -> Option<Arc<Value>>,
}

/// Numbers of replicas, as a map of the fields of `replicaStatus`.
type Numbers = BTreeMap<&'static str, i64>;

/// One object in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Row {
    available: bool,
    numbers: Numbers,
}

/// What to write into the Subscription's status.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let (subscription, status) = (view.subscription, &view.subscription["status"]);
    if meta::is_deleting(subscription) || !status["bindingClusters"].is_array() {
        return plan;
    }
    // Agents tell it of their Descriptions, but who looks at those?
    for why in declined(view.descriptions) {
        plan.push(Action::warning(subscription, reasons::CHARTS_NOT_EXECUTED, why));
    }
    let (aggregated, completed) = aggregate(view);
    let mut patch = Map::new();
    for (field, value) in [
        ("aggregatedStatuses", aggregated),
        ("completedReleases", json!(completed)),
    ] {
        if status[field] != value {
            patch.insert(field.to_owned(), value);
        }
    }
    if patch.is_empty() {
        return plan;
    }
    let progressed = patch.contains_key("completedReleases");
    if let Action::Patch {
        resource,
        target,
        patch,
        ..
    } = Action::patch(&apps::SUBSCRIPTIONS, subscription, json!({"status": patch}))
    {
        plan.push(Action::Patch {
            resource,
            target,
            subresource: Some("status"),
            patch,
        });
    }
    if progressed {
        let total = status["bindingClusters"].as_array().map_or(0, Vec::len);
        let note = format!("{completed} of {total} cluster(s) have everything available");
        plan.push(Action::normal(subscription, reasons::AGGREGATE_STATUS, note));
    }
    plan
}

/// The aggregated statuses, and in how many clusters everything is available.
fn aggregate(view: &View<'_>) -> (Value, usize) {
    let bound: Vec<Arc<Value>> = view.subscription["status"]["bindingClusters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|key| {
            let (namespace, name) = key.as_str()?.split_once('/')?;
            (view.cluster)(namespace, name)
        })
        .collect();
    let reports: Vec<Report> = bound
        .iter()
        .map(|cluster| Report::of(cluster, view.descriptions))
        .collect();
    let mut completed = vec![true; bound.len()];
    let feeds = Feed::all_of(view.subscription);
    let aggregated = feeds
        .iter()
        .map(|feed| {
            let rows: Vec<Row> = reports.iter().map(|report| report.row(feed)).collect();
            for (completed, row) in completed.iter_mut().zip(&rows) {
                *completed &= row.available;
            }
            let mut status = feed.to_value();
            status["feedStatusSummary"] = summary(&rows);
            status["feedStatusDetails"] = bound
                .iter()
                .zip(&rows)
                .map(|(cluster, row)| detail(cluster, row))
                .collect();
            status
        })
        .collect();
    (
        aggregated,
        completed.into_iter().filter(|completed| *completed).count(),
    )
}

/// What agents that execute no charts say about them, each saying once.
fn declined(descriptions: &[Arc<Value>]) -> BTreeSet<&str> {
    let says = |description: &Value| {
        let mut conditions = description["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        conditions.any(|it| it["reason"] == reasons::CHARTS_NOT_EXECUTED)
    };
    let declined = descriptions.iter().filter(|it| says(it));
    declined
        .filter_map(|it| it["status"]["reason"].as_str())
        .collect()
}

/// What one cluster says.
struct Report {
    /// By kind, API group, namespace and name.
    rows: BTreeMap<(String, String, String, String), Row>,
    /// Whether every Description of the cluster was carried out; false if there is none.
    succeeded: bool,
}

impl Report {
    fn of(cluster: &Value, descriptions: &[Arc<Value>]) -> Self {
        let own = descriptions
            .iter()
            .filter(|it| meta::namespace(it) == meta::namespace(cluster));
        let own: Vec<&Arc<Value>> = own.filter(|it| !meta::is_deleting(it)).collect();
        let mut rows = BTreeMap::new();
        for description in &own {
            let applied = description["status"]["phase"] == "Success";
            for entry in description["status"]["manifestStatuses"]
                .as_array()
                .into_iter()
                .flatten()
            {
                rows.insert(identity(&Feed::from_value(entry)), row(entry, applied));
            }
            for chart in description["spec"]["charts"].as_array().into_iter().flatten() {
                let chart = Feed {
                    kind: HELM_CHART.to_owned(),
                    api_version: apps::HELM_CHARTS.api_version(),
                    ..Feed::from_value(chart)
                };
                let available = Row {
                    available: applied,
                    ..Row::default()
                };
                rows.insert(identity(&chart), available);
            }
        }
        let succeeded = !own.is_empty() && own.iter().all(|it| it["status"]["phase"] == "Success");
        Self { rows, succeeded }
    }

    /// An object that nobody reported is available if it has no status to speak of and was applied. A chart that is in
    /// no Description is nowhere.
    fn row(&self, feed: &Feed) -> Row {
        let silent = || Row {
            available: self.succeeded && !has_replicas(feed) && !feed.is_chart(),
            numbers: Numbers::new(),
        };
        self.rows.get(&identity(feed)).cloned().unwrap_or_else(silent)
    }
}

fn identity(feed: &Feed) -> (String, String, String, String) {
    let (group, _) = resource::split_api_version(&feed.api_version);
    (
        feed.kind.clone(),
        group.to_owned(),
        feed.namespace.clone(),
        feed.name.clone(),
    )
}

fn has_replicas(feed: &Feed) -> bool {
    matches!(
        (
            resource::split_api_version(&feed.api_version).0,
            feed.kind.as_str()
        ),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job")
    )
}

/// Reads one element of `manifestStatuses`; `applied`: whether its Description was carried out. In one that was not,
/// only what has an `observedStatus`, if an empty one, is known to be in the cluster.
fn row(entry: &Value, applied: bool) -> Row {
    let feed = Feed::from_value(entry);
    let status = &entry["observedStatus"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let is_true = |kind: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let mut numbers = Numbers::new();
    let mut copy = |fields: &[(&'static str, &str)]| {
        for (to, from) in fields {
            if let Some(n) = status[*from].as_i64() {
                numbers.insert(to, n);
            }
        }
    };
    let (group, _) = resource::split_api_version(&feed.api_version);
    let available = match (group, feed.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet") => {
            copy(&[
                ("observedGeneration", "observedGeneration"),
                ("replicas", "replicas"),
                ("updatedReplicas", "updatedReplicas"),
                ("readyReplicas", "readyReplicas"),
                ("availableReplicas", "availableReplicas"),
                ("unavailableReplicas", "unavailableReplicas"),
            ]);
            let whole =
                number("availableReplicas") >= number("replicas") && number("unavailableReplicas") == 0;
            let updated = feed.kind == "ReplicaSet" || number("updatedReplicas") >= number("replicas");
            number("observedGeneration") > 0 && whole && updated
        }
        ("apps", "StatefulSet") => {
            copy(&[
                ("observedGeneration", "observedGeneration"),
                ("replicas", "replicas"),
                ("updatedReplicas", "updatedReplicas"),
                ("currentReplicas", "currentReplicas"),
                ("readyReplicas", "readyReplicas"),
                ("availableReplicas", "availableReplicas"),
            ]);
            number("observedGeneration") > 0 && number("readyReplicas") >= number("replicas")
        }
        ("apps", "DaemonSet") => {
            copy(&[
                ("observedGeneration", "observedGeneration"),
                ("replicas", "desiredNumberScheduled"),
                ("updatedReplicas", "updatedNumberScheduled"),
                ("currentReplicas", "currentNumberScheduled"),
                ("readyReplicas", "numberReady"),
                ("availableReplicas", "numberAvailable"),
                ("unavailableReplicas", "numberUnavailable"),
            ]);
            number("observedGeneration") > 0 && number("numberAvailable") >= number("desiredNumberScheduled")
        }
        ("batch", "Job") => {
            copy(&[
                ("active", "active"),
                ("succeeded", "succeeded"),
                ("failed", "failed"),
            ]);
            !is_true("Failed") && (is_true("Complete") || number("active") + number("succeeded") > 0)
        }
        _ => applied || status.is_object(),
    };
    Row { available, numbers }
}

/// Numbers are summed, generations are not: the newest counts. Available is what is available everywhere.
fn summary(rows: &[Row]) -> Value {
    let mut numbers = Numbers::new();
    for (field, n) in rows.iter().flat_map(|row| &row.numbers) {
        let sum = numbers.entry(field).or_insert(0);
        *sum = if *field == "observedGeneration" {
            (*sum).max(*n)
        } else {
            sum.saturating_add(*n)
        };
    }
    json!({"available": !rows.is_empty() && rows.iter().all(|row| row.available), "replicaStatus": numbers})
}

fn detail(cluster: &Value, row: &Row) -> Value {
    json!({
        "clusterId": cluster["spec"]["clusterId"], "clusterName": meta::name(cluster),
        "available": row.available, "replicaStatus": row.numbers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: &str =
        r#"{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web"}"#;
    const NAMESPACE: &str = r#"{"apiVersion": "v1", "kind": "Namespace", "name": "foo"}"#;

    fn feed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn subscription() -> Value {
        json!({"kind": "Subscription", "metadata": {"namespace": "default", "name": "app", "uid": "u"},
               "spec": {"feeds": [feed(DEPLOYMENT), feed(NAMESPACE)]},
               "status": {"bindingClusters": ["ns-a/a", "ns-b/b", "ns-gone/c"]}})
    }

    fn description(cluster: &str, phase: &str, observed: &Value) -> Arc<Value> {
        let mut entry = feed(DEPLOYMENT);
        entry["observedStatus"] = observed.clone();
        let mut stranger = feed(NAMESPACE);
        stranger["kind"] = json!("Stranger");
        Arc::new(
            json!({"metadata": {"namespace": format!("ns-{cluster}"), "name": "app-x-generic"},
            "status": {"phase": phase, "manifestStatuses": [entry, stranger]}}),
        )
    }

    fn run(subscription: &Value, descriptions: &[Arc<Value>]) -> Plan {
        let cluster = |namespace: &str, name: &str| {
            let known = namespace == format!("ns-{name}");
            known.then(|| {
                Arc::new(
                    json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterId": name}}),
                )
            })
        };
        plan(&View {
            subscription,
            descriptions,
            cluster: &cluster,
        })
    }

    fn ready(replicas: i64) -> Value {
        json!({"observedGeneration": replicas, "replicas": replicas, "updatedReplicas": replicas,
               "readyReplicas": replicas, "availableReplicas": replicas})
    }

    #[test]
    fn sums_up_what_clusters_report() {
        let starting =
            json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "unavailableReplicas": 3});
        let reports = [
            description("a", "Success", &ready(2)),
            description("b", "Success", &starting),
        ];
        let plan = run(&subscription(), &reports);
        let Action::Patch {
            patch, subresource, ..
        } = &plan.actions[0]
        else {
            panic!()
        };
        assert_eq!(*subresource, Some("status"));
        let status = &patch["status"];
        assert_eq!(status["completedReleases"], 1);
        let web = &status["aggregatedStatuses"][0];
        assert_eq!(
            web["feedStatusSummary"],
            json!({"available": false, "replicaStatus": {"observedGeneration": 2, "replicas": 5, "updatedReplicas": 5,
                   "readyReplicas": 2, "availableReplicas": 2, "unavailableReplicas": 3}})
        );
        assert_eq!(web["feedStatusDetails"][0]["clusterName"], "a");
        assert_eq!(
            web["feedStatusDetails"].as_array().unwrap().len(),
            2,
            "an unknown cluster is left out"
        );
        assert_eq!(
            status["aggregatedStatuses"][1]["feedStatusSummary"],
            json!({"available": true, "replicaStatus": {}})
        );
    }

    #[test]
    fn asks_for_nothing_once_it_is_written() {
        let mut subscription = subscription();
        let reports = [
            description("a", "Success", &ready(2)),
            description("b", "Success", &ready(1)),
        ];
        let first = run(&subscription, &reports);
        let Action::Patch { patch, .. } = &first.actions[0] else {
            panic!()
        };
        for (field, value) in patch["status"].as_object().unwrap() {
            subscription["status"][field] = value.clone();
        }
        assert_eq!(subscription["status"]["completedReleases"], 2);
        assert_eq!(run(&subscription, &reports), Plan::default());
    }

    #[test]
    fn counts_silence_as_not_available() {
        let plan = run(&subscription(), &[]);
        let Action::Patch { patch, .. } = &plan.actions[0] else {
            panic!()
        };
        assert_eq!(
            patch["status"]["aggregatedStatuses"][1]["feedStatusSummary"]["available"],
            false
        );
        assert_eq!(patch["status"]["completedReleases"], 0);
    }

    #[test]
    fn knows_when_each_kind_is_available() {
        let table = [
            ("apps/v1", "Deployment", ready(3), true),
            ("apps/v1", "Deployment", json!({"observedGeneration": 1}), true),
            ("apps/v1", "Deployment", json!({}), false),
            (
                "apps/v1",
                "StatefulSet",
                json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}),
                false,
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2}),
                true,
            ),
            ("batch/v1", "Job", json!({}), false),
            ("batch/v1", "Job", json!({"active": 1}), true),
            (
                "batch/v1",
                "Job",
                json!({"failed": 3, "conditions": [{"type": "Failed", "status": "True"}]}),
                false,
            ),
            ("v1", "ConfigMap", json!({}), true),
        ];
        for (api_version, kind, status, expected) in table {
            let entry =
                json!({"apiVersion": api_version, "kind": kind, "name": "x", "observedStatus": status});
            for applied in [true, false] {
                assert_eq!(row(&entry, applied).available, expected, "{kind} {status}");
            }
        }
    }

    #[test]
    fn what_was_refused_is_not_available() {
        const ROLE: &str =
            r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "evil"}"#;
        const CHART: &str = r#"{"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart", "namespace": "foo", "name": "sql"}"#;
        let refused = json!([feed(ROLE)]);
        let mut seen = refused.clone();
        seen[0]["observedStatus"] = json!({});
        // The Description's phase, what it lists, what it is for, and whether that is available.
        for (phase, entries, of, expected) in [
            ("Success", json!([]), ROLE, true),
            ("Failure", json!([]), ROLE, false),
            ("Success", refused.clone(), ROLE, true),
            ("Failure", refused.clone(), ROLE, false),
            ("Pending", refused.clone(), ROLE, false),
            ("Failure", seen.clone(), ROLE, true),
            ("Failure", refused, DEPLOYMENT, false),
            ("Success", seen, CHART, false),
        ] {
            let mut subscription = subscription();
            subscription["spec"]["feeds"] = json!([feed(of)]);
            subscription["status"]["bindingClusters"] = json!(["ns-a/a"]);
            let report = json!({"metadata": {"namespace": "ns-a", "name": "app-x-generic"},
                "status": {"phase": phase, "manifestStatuses": entries}});
            let plan = run(&subscription, &[Arc::new(report)]);
            let Action::Patch { patch, .. } = &plan.actions[0] else {
                panic!()
            };
            let status = &patch["status"];
            let available = &status["aggregatedStatuses"][0]["feedStatusSummary"]["available"];
            assert_eq!(available, expected, "{phase} {entries} {of}");
            assert_eq!(status["completedReleases"], i32::from(expected));
        }
        let charts = json!([{"namespace": "foo", "name": "sql"}]);
        for (phase, expected) in [("Success", true), ("Installing", false)] {
            let helm = json!({"metadata": {"namespace": "ns-a"}, "spec": {"charts": charts}, "status": {"phase": phase}});
            let report = Report::of(&json!({"metadata": {"namespace": "ns-a"}}), &[Arc::new(helm)]);
            assert_eq!(report.row(&Feed::from_value(&feed(CHART))).available, expected);
        }
    }
}
