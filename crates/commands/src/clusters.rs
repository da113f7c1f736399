//! `clusters`: the fleet at a glance.

use std::io::Write;

use api::clusters::MANAGED_CLUSTERS;
use jiff::Timestamp;
use kubeio::ListOptions;
use machinery::meta;
use machinery::table::human_duration;
use serde_json::Value;

use crate::output::{print_objects, print_table};
use crate::{Error, Format, Hub};

/// Prints all clusters; `now` is what their last heartbeat is compared with.
///
/// # Errors
/// [`Error`] if the hub does not answer.
pub async fn clusters(
    hub: &Hub,
    format: &Format,
    now: Timestamp,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let listed = hub
        .client
        .list_all(&MANAGED_CLUSTERS, None, &ListOptions::default())
        .await
        .map_err(Error::hub("the clusters cannot be listed"))?;
    match format {
        Format::Json | Format::Yaml | Format::Name | Format::JsonPath(_) | Format::Columns(_) => {
            return print_objects(out, format, listed.items, false);
        }
        Format::Table | Format::Wide => {}
    }
    if listed.items.is_empty() {
        writeln!(out, "No clusters yet: `tombolo join` says how one joins")?;
        return Ok(());
    }
    let header = [
        "NAME",
        "NAMESPACE",
        "READY",
        "SYNC",
        "KUBERNETES",
        "NODES",
        "HEARTBEAT",
    ]
    .map(ToOwned::to_owned);
    let rows: Vec<Vec<String>> = listed.items.iter().map(|cluster| row(cluster, now)).collect();
    print_table(out, &header, &rows)
}

fn row(cluster: &Value, now: Timestamp) -> Vec<String> {
    let status = &cluster["status"];
    let ready = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready")
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or("Unknown");
    let nodes = &status["nodeStatistics"];
    let count = |field: &str| nodes[field].as_i64().unwrap_or(0);
    let all = count("readyNodes") + count("notReadyNodes") + count("unknownNodes") + count("lostNodes");
    let heartbeat = status["lastObservedTime"]
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok())
        .map_or("never".to_owned(), |time| {
            format!("{} ago", human_duration(now.duration_since(time)))
        });
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    vec![
        meta::name(cluster).to_owned(),
        meta::namespace(cluster).to_owned(),
        ready.to_owned(),
        text(&cluster["spec"]["syncMode"]),
        text(&status["k8sVersion"]),
        format!("{}/{all}", count("readyNodes")),
        heartbeat,
    ]
}

/// The one cluster of a name, `NAMESPACE/NAME` or cluster id.
pub(crate) async fn find(hub: &Hub, wanted: &str) -> Result<Value, Error> {
    let listed = hub
        .client
        .list_all(&MANAGED_CLUSTERS, None, &ListOptions::default())
        .await
        .map_err(Error::hub("the clusters cannot be listed"))?;
    let fits = |cluster: &Value| {
        let qualified = format!("{}/{}", meta::namespace(cluster), meta::name(cluster));
        meta::name(cluster) == wanted || qualified == wanted || cluster["spec"]["clusterId"] == wanted
    };
    let mut found = listed.items.into_iter().filter(fits);
    let first = found
        .next()
        .ok_or_else(|| Error::UnknownCluster(wanted.to_owned()))?;
    match found.next() {
        None => Ok(first),
        Some(second) => Err(Error::Usage(format!(
            "{wanted:?} names several clusters: say {}/{wanted} or {}/{wanted}",
            meta::namespace(&first),
            meta::namespace(&second)
        ))),
    }
}
