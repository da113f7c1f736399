//! The sample application: stored as templates, sent out by a Subscription, followed until it runs everywhere.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use api::apps::SUBSCRIPTIONS;
use api::clusters::MANAGED_CLUSTERS;
use api::kubernetes::CONFIG_MAPS;
use hub::Hub;
use kubeio::{Cache, CacheOptions, Changes, Client};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Error;
use crate::fleet::{Row, is_ready, rows};

/// Tunnels tell nobody when they come up: they are looked at that often.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The label that the sample Subscription selects.
pub(crate) const LABEL: (&str, &str) = ("demo", "nginx");

const TEMPLATES: &str = include_str!("../../../examples/nginx/nginx.yaml");
const SUBSCRIPTION: &str = include_str!("../../../examples/nginx/subscription.yaml");

fn documents(text: &str) -> Vec<Value> {
    codec::yaml::parse(text).expect("the sample application is valid YAML")
}

/// Says on the parent that the sample was stored once: what a person deletes of it stays deleted.
const STORED: &str = "tombolo-demo";

/// What the sample application is on the hub.
pub(crate) struct Sample {
    /// Whether all of it was stored by an earlier start.
    pub(crate) was_stored: bool,
    /// The templates and the Subscription, as they are now.
    pub(crate) objects: Vec<Value>,
    /// What somebody deleted since, as `Kind "name"`.
    pub(crate) deleted: Vec<String>,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.was_stored {
            "found as it was"
        } else {
            "stored"
        };
        write!(f, "sample application {verdict}")?;
        if !self.deleted.is_empty() {
            write!(f, ", without what was deleted: {}", self.deleted.join(", "))?;
        }
        Ok(())
    }
}

/// Stores the templates and the Subscription, once: what a person changed or deleted stays so.
///
/// # Errors
/// [`Error::Object`] of the first that cannot be made.
pub(crate) async fn distribute(administrator: &Client) -> Result<Sample, Error> {
    const SHADOW: &str = "shadow";
    let resources: BTreeMap<&str, ApiResource> = [
        (
            "Namespace",
            ApiResource::cluster(SHADOW, "v1alpha1", "namespaces", "Namespace"),
        ),
        (
            "Service",
            ApiResource::namespaced(SHADOW, "v1alpha1", "services", "Service"),
        ),
        (
            "Deployment",
            ApiResource::namespaced(SHADOW, "v1alpha1", "deployments", "Deployment"),
        ),
        ("Subscription", SUBSCRIPTIONS),
    ]
    .into();
    let about_mark = |source| Error::Object {
        object: format!("ConfigMap {STORED:?}"),
        source,
    };
    let mark = administrator
        .get_opt(&CONFIG_MAPS, Some("kube-system"), STORED)
        .await
        .map_err(about_mark)?;
    let mut sample = Sample {
        was_stored: mark.is_some(),
        objects: Vec::new(),
        deleted: Vec::new(),
    };
    for object in documents(TEMPLATES).into_iter().chain(documents(SUBSCRIPTION)) {
        let title = format!("{} {:?}", meta::kind(&object), meta::name(&object));
        let failed = |source| Error::Object {
            object: title.clone(),
            source,
        };
        let resource = &resources[meta::kind(&object)];
        let namespace = Some(meta::namespace(&object)).filter(|namespace| !namespace.is_empty());
        let live = administrator
            .get_opt(resource, namespace, meta::name(&object))
            .await
            .map_err(failed)?;
        match live {
            Some(live) => sample.objects.push(live),
            None if sample.was_stored => sample.deleted.push(title),
            None => {
                let created = administrator.create(resource, namespace, &object).await;
                sample.objects.push(created.map_err(failed)?);
            }
        }
    }
    if !sample.was_stored {
        let mark = json!({"metadata": {"name": STORED, "namespace": "kube-system"}});
        administrator
            .create(&CONFIG_MAPS, Some("kube-system"), &mark)
            .await
            .map_err(about_mark)?;
    }
    Ok(sample)
}

/// How many replicas the templates ask for of a feed, in each cluster.
fn desired(templates: &[Value], feed: &Value) -> Option<i64> {
    templates
        .iter()
        .find(|object| {
            meta::kind(object) == meta::kind(feed)
                && meta::name(object) == feed["name"].as_str().unwrap_or_default()
        })
        .and_then(|object| object["spec"]["replicas"].as_i64())
}

/// What is waited for, seen from the parent.
pub(crate) struct Watcher {
    clusters: Cache,
    subscriptions: Cache,
    changes: [Changes; 2],
    members: Vec<String>,
    templates: Vec<Value>,
    hub: Hub,
}

impl Watcher {
    pub(crate) async fn start(administrator: &Client, hub: Hub, members: Vec<String>) -> Self {
        let start = |resource| Cache::start(administrator.clone(), resource, CacheOptions::default());
        let (clusters, subscriptions) = (start(MANAGED_CLUSTERS), start(SUBSCRIPTIONS));
        tokio::join!(clusters.ready(), subscriptions.ready());
        let changes = [clusters.subscribe(), subscriptions.subscribe()];
        Self {
            clusters,
            subscriptions,
            changes,
            members,
            templates: Vec::new(),
            hub,
        }
    }

    /// Says what is to run everywhere.
    pub(crate) fn expect(&mut self, templates: Vec<Value>) {
        self.templates = templates;
    }

    /// Waits until `missing` finds nothing any more; `None` if it still does at the deadline.
    async fn until(
        &mut self,
        deadline: Option<Instant>,
        missing: fn(&Self) -> Vec<String>,
    ) -> Result<(), Vec<String>> {
        loop {
            let lacking = missing(self);
            if lacking.is_empty() {
                return Ok(());
            }
            let [clusters, subscriptions] = &mut self.changes;
            let change = async {
                tokio::select! {
                    _ = clusters.next() => {}
                    _ = subscriptions.next() => {}
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
            };
            change.await;
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(lacking);
            }
        }
    }

    /// Waits until every member is ready and its tunnel is up.
    pub(crate) async fn clusters_ready(&mut self, deadline: Option<Instant>) -> Result<(), Vec<String>> {
        self.until(deadline, |watcher| {
            let clusters = watcher.clusters.list();
            let ready = |name: &String| {
                clusters.iter().any(|cluster| {
                    let id = cluster["spec"]["clusterId"].as_str().unwrap_or_default();
                    meta::name(cluster) == name
                        && is_ready(cluster)
                        && watcher.hub.registry().is_connected(id)
                })
            };
            watcher
                .members
                .iter()
                .filter(|name| !ready(name))
                .map(|name| format!("cluster {name:?} is not ready"))
                .collect()
        })
        .await
    }

    /// Waits until every object of the sample runs in every member.
    pub(crate) async fn distributed(&mut self, deadline: Option<Instant>) -> Result<(), Vec<String>> {
        self.until(deadline, |watcher| {
            watcher
                .rows()
                .iter()
                .filter(|row| !row.done)
                .map(|row| format!("{} in {} is not ready {}", row.object, row.cluster, row.ready))
                .collect()
        })
        .await
    }

    /// Every object of the sample in every member.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        let desired = |feed: &Value| desired(&self.templates, feed);
        match self.subscriptions.get(Some("default"), "nginx") {
            Some(subscription) => rows(&subscription, &members, desired),
            None => rows(&documents(SUBSCRIPTION)[0], &members, desired),
        }
    }
}

/// Prints each cluster with its objects.
///
/// # Errors
/// The output's.
pub(crate) fn print_rows(out: &mut (dyn Write + Send), rows: &[Row]) -> std::io::Result<()> {
    let width = |cell: fn(&Row) -> &str, least: usize| {
        rows.iter()
            .map(|row| cell(row).len())
            .max()
            .unwrap_or(0)
            .max(least)
    };
    let (clusters, objects) = (width(|row| &row.cluster, 7), width(|row| &row.object, 6));
    writeln!(out, "  {:clusters$}  {:objects$}  READY", "CLUSTER", "OBJECT")?;
    for row in rows {
        let ready = match (row.ready.as_str(), row.done) {
            ("", true) => "yes",
            ("", false) => "no",
            (ready, _) => ready,
        };
        writeln!(
            out,
            "  {:clusters$}  {:objects$}  {ready}",
            row.cluster, row.object
        )?;
    }
    Ok(())
}

/// A duration for people.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
