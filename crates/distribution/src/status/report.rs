//! What one cluster says of the objects it was given, and why one of them is not available.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::apps;
use machinery::{meta, resource};
use serde_json::Value;

use crate::feed::{Feed, HELM_CHART};

/// Numbers of replicas, as a map of the fields of `replicaStatus`.
pub(super) type Numbers = BTreeMap<&'static str, i64>;

/// One object in one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Row {
    /// Why it is not available, in words that several clusters can share; `None` if it is.
    pub(super) why: Option<String>,
    /// Whether the cluster, which has applied all that it was given, was not given it.
    pub(super) undelivered: bool,
    /// Its replicas.
    pub(super) numbers: Numbers,
}

impl Row {
    pub(super) fn is_available(&self) -> bool {
        self.why.is_none()
    }

    fn silent(why: Option<&str>) -> Self {
        Self {
            why: why.map(str::to_owned),
            ..Self::default()
        }
    }
}

/// What one cluster says.
pub(super) struct Report {
    /// By kind, API group, namespace and name.
    rows: BTreeMap<(String, String, String, String), Row>,
    /// How many objects are delivered, if the agent may not report each of them.
    unlisted: Option<usize>,
    /// Why not everything is applied as it is wanted now; `None` if it is.
    pub(super) unapplied: Option<String>,
}

impl Report {
    /// Of the Descriptions in a cluster's namespace.
    pub(super) fn of(descriptions: &[&Arc<Value>]) -> Self {
        let own = descriptions.iter().filter(|it| !meta::is_deleting(it));
        let own: Vec<&Arc<Value>> = own.copied().collect();
        let mut rows = BTreeMap::new();
        for description in &own {
            let applied = is_success(description);
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
                let why = (!applied).then_some("is not deployed");
                rows.insert(identity(&chart), Row::silent(why));
            }
        }
        let generic = || own.iter().filter(|it| it["spec"]["deployer"] != "Helm");
        let count = |it: &&Arc<Value>| it["spec"]["raw"].as_array().map_or(0, Vec::len);
        // Agents of ours report each object. Upstream's, which write no conditions, report some or none.
        let unlisted = generic()
            .any(|it| !it["status"]["conditions"].is_array())
            .then(|| generic().map(count).sum());
        let unapplied = if own.is_empty() {
            Some("nothing is delivered yet".to_owned())
        } else {
            own.iter().find_map(|it| unapplied(it))
        };
        Self {
            rows,
            unlisted,
            unapplied,
        }
    }

    /// What is said of a feed; `objects`: how many of all feeds are no charts. One that nobody reported is available if it
    /// has no status to speak of and was applied. Without a list of what was applied, it was if all have been delivered.
    pub(super) fn row(&self, feed: &Feed, objects: usize) -> Row {
        if let Some(row) = self.rows.get(&identity(feed)) {
            return row.clone();
        }
        let undelivered = match self.unlisted {
            _ if self.unapplied.is_some() => None,
            Some(delivered) if !feed.is_chart() => (delivered < objects)
                .then(|| format!("may not be delivered: {delivered} of {objects} object(s) are")),
            Some(_) | None => Some("is not delivered".to_owned()),
        };
        if undelivered.is_some() {
            return Row {
                why: undelivered,
                undelivered: true,
                ..Row::default()
            };
        }
        let available = self.unapplied.is_none() && !has_replicas(feed);
        Row::silent((!available).then_some("is not reported"))
    }
}

fn is_success(description: &Value) -> bool {
    description["status"]["phase"] == "Success"
}

/// Why a Description is not carried out as it is now.
fn unapplied(description: &Value) -> Option<String> {
    let status = &description["status"];
    if !is_success(description) {
        let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
        let phase = || text("phase").map(|phase| format!("what is delivered is at phase {phase}"));
        let silent = || "what is delivered is not applied yet".to_owned();
        // A cluster's own namespace tells nothing, and would make its cause another than everybody's.
        let home = format!("{}/", meta::namespace(description));
        return Some(
            text("reason")
                .map(|reason| reason.replace(&home, ""))
                .or_else(phase)
                .unwrap_or_else(silent),
        );
    }
    let seen = status["observedGeneration"].as_i64();
    seen.is_some_and(|seen| seen < meta::generation(description))
        .then(|| "the newest is not applied yet".to_owned())
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
pub(super) fn row(entry: &Value, applied: bool) -> Row {
    let feed = Feed::from_value(entry);
    let status = &entry["observedStatus"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    // What an object's controller has not seen yet, its status is not about.
    let seen = number("observedGeneration") >= entry["generation"].as_i64().unwrap_or(1);
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
            seen && whole && updated
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
            seen && number("readyReplicas") >= number("replicas")
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
            seen && number("numberAvailable") >= number("desiredNumberScheduled")
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
    let is_late = number("observedGeneration") > 0 && !seen;
    let why = (!available).then(|| {
        if is_late {
            "has not begun with its newest state".to_owned()
        } else {
            why(&feed, status, &numbers)
        }
    });
    Row {
        why,
        numbers,
        ..Row::default()
    }
}

/// Why an object that is not available is not.
fn why(feed: &Feed, status: &Value, numbers: &Numbers) -> String {
    let number = |field: &str| numbers.get(field).copied().unwrap_or(0);
    let replicas = number("replicas");
    if !status.is_object() {
        "is not applied".to_owned()
    } else if feed.kind == "Job" {
        if number("failed") > 0 {
            "failed".to_owned()
        } else {
            "has not begun".to_owned()
        }
    } else if number("observedGeneration") == 0 {
        "has not begun".to_owned()
    } else if number("readyReplicas") < replicas {
        format!("has {} of {replicas} replicas", number("readyReplicas"))
    } else if number("availableReplicas") < replicas {
        format!(
            "has {} of {replicas} replicas available",
            number("availableReplicas")
        )
    } else if number("updatedReplicas") < replicas {
        format!("has {} of {replicas} replicas updated", number("updatedReplicas"))
    } else {
        format!("has {} replica(s) missing", number("unavailableReplicas"))
    }
}
