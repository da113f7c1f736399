//! The fleet itself: namespaces, ready ManagedClusters, and Subscriptions that wait for a scheduler.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Target};
use crate::phases::each;
use crate::servers;

pub(crate) const CLUSTERS: usize = 3_000;
pub(crate) const SUBSCRIPTIONS: usize = 2_000;
/// By so many labels a cluster can be selected; each has [`VALUES`] values, which are given out evenly.
const DIMENSIONS: usize = 10;
pub(crate) const VALUES: usize = 10;
/// How many clusters each Subscription matches.
pub(crate) const MATCHED: usize = CLUSTERS / VALUES;
/// Where the Subscriptions are.
const HOME: &str = "fleet";
/// How many send at once.
const CLIENTS: usize = 16;
const JSON: &str = "application/json";
const APPS: &str = "/apis/apps.clusternet.io/v1alpha1";
const MANAGED_CLUSTERS: &str = "/apis/clusters.clusternet.io/v1beta1";

/// Whether a parent has our resources already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Definitions {
    There,
    Missing,
}

/// The path of all Subscriptions.
pub(crate) fn subscriptions() -> String {
    format!("{APPS}/namespaces/{HOME}/subscriptions")
}

fn namespace(index: usize) -> String {
    format!("fleet-{index:04}")
}

fn label(dimension: usize) -> String {
    format!("bench.example/dimension-{dimension}")
}

/// Of ten clusters in a row each has another value, in each dimension in another order.
fn value(index: usize, dimension: usize) -> String {
    format!("value-{}", (index + dimension * (index / VALUES)) % VALUES)
}

/// A ManagedCluster that is ready.
pub(crate) fn cluster(index: usize) -> Value {
    let mut labels: serde_json::Map<String, Value> = (0..DIMENSIONS)
        .map(|dimension| (label(dimension), json!(value(index, dimension))))
        .collect();
    labels.insert("bench.example/all".to_owned(), json!("yes"));
    json!({
        "apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ManagedCluster",
        "metadata": {"namespace": namespace(index), "name": format!("cluster-{index:04}"), "labels": labels},
        "spec": {"clusterId": format!("00000000-0000-4000-8000-{index:012}"), "clusterType": "EdgeCluster",
            "syncMode": "Pull"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ManagedClusterReady",
            "message": "the cluster is ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

/// Of which dimension and value a Subscription wants clusters.
fn wanted(index: usize) -> (usize, String) {
    let dimension = index / VALUES % DIMENSIONS;
    (dimension, format!("value-{}", index % VALUES))
}

/// A Subscription that waits.
pub(crate) fn subscription(index: usize) -> Value {
    let (dimension, value) = wanted(index);
    json!({
        "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Subscription",
        "metadata": {"namespace": HOME, "name": subscription_name(index)},
        "spec": {"schedulerName": "default", "schedulingStrategy": "Replication",
            "subscribers": [{"clusterAffinity": {"matchLabels": {label(dimension): value}}}],
            "feeds": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": HOME, "name": "settings"}]},
    })
}

fn subscription_name(index: usize) -> String {
    format!("app-{index:04}")
}

/// For each Subscription, in the order of their names, where it has to go.
pub(crate) struct Expected(Vec<Vec<String>>);

/// Makes everything.
pub(crate) async fn fill(target: &Target, definitions: Definitions) -> anyhow::Result<Expected> {
    let clients = try_join_all((0..CLIENTS).map(|_| target.connect())).await?;
    let mut admin = target.connect().await?;
    if definitions == Definitions::Missing {
        define(&mut admin).await?;
    }
    let home = |name: String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let post = |path: String, object: &Value| (Method::POST, path, JSON, Bytes::from(object.to_string()));
    let namespaces = "/api/v1/namespaces";
    let (method, path, content_type, body) = post(namespaces.to_owned(), &home(HOME.to_owned()));
    admin.call(method, &path, content_type, body).await?;
    each(&clients, 0..CLUSTERS, move |index| {
        post(namespaces.to_owned(), &home(namespace(index)))
    })
    .await?;
    let path = |index: usize| {
        format!(
            "{MANAGED_CLUSTERS}/namespaces/{}/managedclusters",
            namespace(index)
        )
    };
    each(&clients, 0..CLUSTERS, move |index| {
        post(path(index), &cluster(index))
    })
    .await?;
    each(&clients, 0..CLUSTERS, move |index| {
        let body = json!({"status": cluster(index)["status"]});
        let path = format!("{}/cluster-{index:04}/status", path(index));
        let merge_patch = "application/merge-patch+json";
        (Method::PATCH, path, merge_patch, Bytes::from(body.to_string()))
    })
    .await?;
    each(&clients, 0..SUBSCRIPTIONS, move |index| {
        post(subscriptions(), &subscription(index))
    })
    .await?;
    let of = |index: usize| {
        let (dimension, wanted) = wanted(index);
        let selected = (0..CLUSTERS).filter(|cluster| value(*cluster, dimension) == wanted);
        let mut keys: Vec<String> = selected
            .map(|index| format!("{}/cluster-{index:04}", namespace(index)))
            .collect();
        keys.sort_unstable();
        keys
    };
    Ok(Expected((0..SUBSCRIPTIONS).map(of).collect()))
}

/// Makes the definitions of our resources and waits until they are served.
async fn define(admin: &mut Client) -> anyhow::Result<()> {
    let printed = Command::new(servers::tombolo()?).arg("crds").output()?;
    ensure!(printed.status.success(), "`tombolo crds` failed");
    let text = String::from_utf8(printed.stdout)?;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for crd in codec::yaml::parse(&text).map_err(|error| anyhow::anyhow!("{error}"))? {
        admin
            .call(Method::POST, path, JSON, Bytes::from(crd.to_string()))
            .await?;
    }
    let begin = Instant::now();
    for path in [
        format!("{APPS}/subscriptions?limit=1"),
        format!("{APPS}/feedinventories?limit=1"),
        format!("{MANAGED_CLUSTERS}/managedclusters?limit=1"),
    ] {
        while let Err(error) = admin.call(Method::GET, &path, JSON, Bytes::new()).await {
            if begin.elapsed() > Duration::from_secs(30) {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Looks at every binding.
pub(crate) async fn verify(target: &Target, expected: &Expected) -> anyhow::Result<()> {
    let mut admin = target.connect().await?;
    let list = admin
        .call(Method::GET, &subscriptions(), JSON, Bytes::new())
        .await?;
    let list: Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("no list of Subscriptions")?;
    ensure!(items.len() == expected.0.len(), "{} Subscriptions", items.len());
    for (item, expected) in items.iter().zip(&expected.0) {
        let bound = item["status"]["bindingClusters"].as_array().into_iter().flatten();
        if !bound
            .map(Value::as_str)
            .eq(expected.iter().map(|key| Some(key.as_str())))
        {
            bail!("{} is bound elsewhere", item["metadata"]["name"]);
        }
    }
    Ok(())
}
