//! Status back from the clusters: Descriptions → `Subscription.status.aggregatedStatuses`, and the conditions `Applied`
//! and `Available`.
//!
//! Objects are matched by uid labels, never by name labels, which long names do not have. A cluster or an object
//! that nobody knows is left out; one that has not reported counts as not available, and one that was not delivered as not applied. What is written is bounded,
//! however many clusters and feeds there are: see [`shorten`].

mod report;
mod shorten;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{annotations, apps, reasons};
use jiff::Timestamp;
use machinery::{conditions, meta};
use serde_json::{Map, Value, json};

use self::report::{Numbers, Report, Row};
use self::shorten::Entry;
use self::tell::Causes;
use crate::action::{Action, Next, Plan};
use crate::feed::{self, Feed};

/// The largest Subscription that is written: etcd takes 1.5 MiB by default, and the server adds who manages which
/// fields.
const STORABLE: usize = 1_400_000;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// Every Description that carries its uid.
    pub descriptions: &'a [Arc<Value>],
    /// Every Base that carries its uid.
    pub bases: &'a [Arc<Value>],
    /// The ManagedCluster of a binding: namespace and name.
    pub cluster: &'a dyn Fn(&str, &str) -> Option<Arc<Value>>,
    /// The template of a feed.
    pub template: &'a dyn Fn(&Feed) -> Option<Arc<Value>>,
    /// The time of a condition that changes.
    pub now: Timestamp,
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
    let sum = Sum::of(view);
    let conditions = json!(sum.merged(status, view.now));
    let mut patch = Map::new();
    for (field, value) in [
        ("aggregatedStatuses", sum.aggregated),
        ("completedReleases", json!(sum.completed)),
        ("conditions", conditions),
    ] {
        if status[field] != value {
            patch.insert(field.to_owned(), value);
        }
    }
    if patch.is_empty() {
        return plan;
    }
    if let Err(why) = storable(subscription, &patch) {
        plan.push(Action::warning(
            subscription,
            reasons::FAILED_AGGREGATE_STATUS,
            why.clone(),
        ));
        plan.next = Next::Blocked(why);
        return plan;
    }
    let progressed = patch.contains_key("completedReleases");
    let shares_list = patch.contains_key("conditions");
    let mut patch = json!({"status": patch});
    if shares_list && !meta::resource_version(subscription).is_empty() {
        patch["metadata"] = json!({"resourceVersion": meta::resource_version(subscription)});
    }
    if let Action::Patch {
        resource,
        target,
        patch,
        ..
    } = Action::patch(&apps::SUBSCRIPTIONS, subscription, patch)
    {
        plan.push(Action::Patch {
            resource,
            target,
            subresource: Some("status"),
            patch,
        });
    }
    if progressed {
        let note = format!(
            "{} of {} cluster(s) have everything available",
            sum.completed, sum.bound
        );
        plan.push(Action::normal(subscription, reasons::AGGREGATE_STATUS, note));
    }
    plan
}

/// Whether a Subscription with these fields in its status can be stored. If not, what is there stays.
fn storable(subscription: &Value, fields: &Map<String, Value>) -> Result<(), String> {
    let mut wanted = subscription.clone();
    for (field, value) in fields {
        wanted["status"][field] = value.clone();
    }
    let bytes = shorten::size(&wanted);
    if bytes <= STORABLE {
        return Ok(());
    }
    Err(format!(
        "its status stays as it was: with the new one the Subscription would have {bytes} bytes, and {STORABLE} can be \
         stored; divide its feeds or its clusters among several Subscriptions"
    ))
}

/// All clusters together.
struct Sum {
    /// `aggregatedStatuses`.
    aggregated: Value,
    /// What of the details is left out, if anything.
    shortened: Option<String>,
    /// In how many clusters everything is available.
    completed: usize,
    /// How many clusters are bound.
    bound: usize,
    unapplied: Causes,
    unavailable: Causes,
}

impl Sum {
    fn of(view: &View<'_>) -> Self {
        let mut of_home: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
        for description in view.descriptions {
            of_home
                .entry(meta::namespace(description))
                .or_default()
                .push(description);
        }
        let blocked = |base: &'_ Arc<Value>| {
            let why = meta::annotation(base, annotations::BLOCKED)?.to_owned();
            Some((meta::namespace(base).to_owned(), why))
        };
        let blocked: BTreeMap<String, String> = view.bases.iter().filter_map(blocked).collect();
        let (mut unapplied, mut unavailable) = (Causes::default(), Causes::default());
        let keys = view.subscription["status"]["bindingClusters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|key| key.as_str()?.split_once('/'));
        let mut bound = 0;
        let mut known: Vec<(Arc<Value>, Report)> = Vec::new();
        for (namespace, name) in keys {
            bound += 1;
            let Some(cluster) = (view.cluster)(namespace, name) else {
                unapplied.add("the cluster is not known", name);
                unavailable.add("the cluster is not known", name);
                continue;
            };
            let report = Report::of(of_home.get(namespace).map_or(&[][..], |own| own));
            if let Some(why) = blocked.get(namespace).or(report.unapplied.as_ref()) {
                unapplied.add(why, name);
            }
            known.push((cluster, report));
        }
        let mut completed = vec![true; known.len()];
        let mut entries = Vec::new();
        let feeds = Feed::all_of(view.subscription);
        let objects = objects(&feeds);
        for feed in feeds {
            let rows: Vec<Row> = known
                .iter()
                .map(|(_, report)| report.row(&feed, objects))
                .collect();
            let trouble = if rows.iter().any(|row| row.undelivered) {
                feed::trouble(&feed, (view.template)(&feed).as_deref())
            } else {
                None
            };
            for ((completed, row), (cluster, _)) in completed.iter_mut().zip(&rows).zip(&known) {
                *completed &= row.is_available();
                let Some(why) = &row.why else { continue };
                let why = match &trouble {
                    Some(trouble) if row.undelivered => trouble.note.clone(),
                    Some(_) | None => format!("{feed} {why}"),
                };
                if row.undelivered {
                    unapplied.add(&why, meta::name(cluster));
                }
                unavailable.add(&why, meta::name(cluster));
            }
            let mut head = feed.to_value();
            head["feedStatusSummary"] = summary(&rows);
            entries.push(Entry {
                head,
                details: known
                    .iter()
                    .zip(rows)
                    .map(|((cluster, _), row)| (detail(cluster, &row), row.why))
                    .collect(),
            });
        }
        let (aggregated, shortened) = shorten::fit(entries);
        Self {
            aggregated,
            shortened,
            completed: completed.into_iter().filter(|completed| *completed).count(),
            bound,
            unapplied,
            unavailable,
        }
    }

    /// The conditions of a Subscription: those that are ours as they are now, and those of others as they are.
    fn merged(&self, status: &Value, now: Timestamp) -> Vec<Value> {
        let have = status["conditions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let have: Vec<Value> = have
            .iter()
            .filter(|it| it["type"] != reasons::SHORTENED || self.shortened.is_some())
            .cloned()
            .collect();
        let (applied, available) = (
            ("NotApplied", "have everything applied"),
            ("NotAvailable", "have everything available"),
        );
        let mut ours = vec![
            self.unapplied
                .condition(reasons::APPLIED, applied, self.bound, now),
            self.unavailable
                .condition(reasons::AVAILABLE, available, self.bound, now),
        ];
        if let Some(what) = &self.shortened {
            ours.push(json!({
                "type": reasons::SHORTENED, "status": "True", "reason": "TooLarge", "message": what,
                "lastTransitionTime": conditions::time(now),
            }));
        }
        ours.into_iter()
            .fold(have, |all, condition| conditions::merge(&all, condition))
    }
}

/// The first of some feeds that is not available, as the Descriptions of a cluster say, and why.
pub(crate) fn first_unavailable(descriptions: &[Arc<Value>], feeds: &[Feed]) -> Option<String> {
    let own: Vec<&Arc<Value>> = descriptions.iter().collect();
    let report = Report::of(&own);
    let objects = objects(feeds);
    let why = |feed: &Feed| report.row(feed, objects).why.map(|why| format!("{feed} {why}"));
    feeds.iter().find_map(why)
}

/// How many feeds are no charts.
fn objects(feeds: &[Feed]) -> usize {
    feeds.iter().filter(|feed| !feed.is_chart()).count()
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
    json!({"available": !rows.is_empty() && rows.iter().all(Row::is_available), "replicaStatus": numbers})
}

fn detail(cluster: &Value, row: &Row) -> Value {
    json!({
        "clusterId": cluster["spec"]["clusterId"], "clusterName": meta::name(cluster),
        "available": row.is_available(), "replicaStatus": row.numbers,
    })
}

#[cfg(test)]
#[path = "status/tests.rs"]
mod tests;
