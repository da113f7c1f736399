//! `explain`: why a Subscription goes where it goes, and what would have to change.
//!
//! The scheduler's own decision, made once more over what the hub has now; nothing is written.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use api::apps::{BASES, FEED_INVENTORIES, SUBSCRIPTIONS};
use api::clusters::MANAGED_CLUSTERS;
use api::rollouts::ROLLOUTS;
use api::{annotations, labels, reasons};
use distribution::rollout;
use jiff::Timestamp;
use kubeio::ListOptions;
use machinery::meta;
use placement::explain::{Row, explain as rows};
use placement::{
    Cluster, ClusterKey, Config, Decision, Fleet, Inventory, Snapshot, Strategy, Subscription, UNDIVIDED,
    place,
};
use serde_json::{Value, json};

use crate::output::{plain, print_objects, print_table};
use crate::{Error, Format, Hub};

/// Prints for each cluster whether a Subscription goes there, why, and what would change that, as a scheduler of this
/// configuration decides it.
///
/// # Errors
/// [`Error`] if the hub does not answer, or has no such Subscription.
pub async fn explain(
    hub: &Hub,
    name: &str,
    config: &Config,
    now: Timestamp,
    format: &Format,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let name = subscription_name(name)?;
    let namespace = hub.scope.of(&SUBSCRIPTIONS, "")?;
    let object = hub
        .client
        .get(&SUBSCRIPTIONS, namespace, name)
        .await
        .map_err(Error::hub(format!(
            "Subscription {}/{name} cannot be read",
            namespace.unwrap_or_default()
        )))?;
    let inventory = hub
        .client
        .get_opt(&FEED_INVENTORIES, namespace, name)
        .await
        .map_err(Error::hub("its FeedInventory cannot be read"))?;
    let members = hub
        .client
        .list_all(&MANAGED_CLUSTERS, None, &ListOptions::default())
        .await
        .map_err(Error::hub("the clusters cannot be listed"))?;
    let parts = parts(hub, &object, &members.items).await?;
    let unfit = |why: String| Error::Usage(format!("Subscription {name:?}: {why}"));
    let subscription = Subscription::from_value(&object).map_err(|error| unfit(error.to_string()))?;
    let profile = config.profile(&subscription.scheduler_name).ok_or_else(|| {
        unfit(format!(
            "spec.schedulerName {:?} is no profile of this scheduler: name its file with --scheduler-config",
            subscription.scheduler_name
        ))
    })?;
    let clusters: Fleet = members.items.iter().filter_map(Cluster::from_value).collect();
    let inventory = inventory.as_ref().map(Inventory::from_value);
    let snapshot = Snapshot {
        inventory: inventory.as_ref(),
        percentage_to_score: config.percentage_to_score,
        now: Some(now),
        ..Snapshot::of(&subscription, &clusters, profile)
    };
    let placement = place(&snapshot);
    let rows = rows(&snapshot, &placement);
    let conclusion = [conclusion(&object, &placement.decision)]
        .into_iter()
        .chain(troubles(&object))
        .collect::<Vec<_>>()
        .join("\n");
    if !matches!(format, Format::Table | Format::Wide) {
        let document = document(&subscription, &rows, &parts, &conclusion);
        return print_objects(out, format, vec![document], true);
    }
    table(out, &subscription, &rows, &parts, clusters.len())?;
    writeln!(out, "{conclusion}")?;
    Ok(())
}

/// What a cluster is to have of a Subscription where a Rollout has a say.
#[derive(Debug, Default)]
struct Part {
    /// The short form of its version.
    version: Option<String>,
    wave: Option<String>,
}

/// The parts of the clusters, by their dedicated namespaces.
async fn parts(hub: &Hub, subscription: &Value, members: &[Value]) -> Result<BTreeMap<String, Part>, Error> {
    let all = |items: Vec<Value>| -> Vec<Arc<Value>> { items.into_iter().map(Arc::new).collect() };
    let own = format!("{}={}", labels::SUBSCRIPTION_UID, meta::uid(subscription));
    let bases = hub.client.list_all(&BASES, None, &ListOptions::labels(own)).await;
    let bases = all(bases.map_err(Error::hub("its Bases cannot be listed"))?.items);
    let (home, everything) = (Some(meta::namespace(subscription)), ListOptions::default());
    let rollouts = match hub.client.list_all(&ROLLOUTS, home, &everything).await {
        // The hub was prepared by a version without them.
        Err(error) if error.is_not_found() => Vec::new(),
        rollouts => all(rollouts
            .map_err(Error::hub("its Rollouts cannot be listed"))?
            .items),
    };
    let names = |it: &Arc<Value>| it["spec"]["subscription"] == meta::name(subscription);
    let rollouts: Vec<Arc<Value>> = rollouts.into_iter().filter(names).collect();
    let member = |namespace: &str, name: &str| {
        let mut members = members.iter();
        let found = members.find(|it| (meta::namespace(it), meta::name(it)) == (namespace, name));
        found.cloned().map(Arc::new)
    };
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for base in &bases {
        if let Some(version) = meta::annotation(base, annotations::VERSION) {
            let part = parts.entry(meta::namespace(base).to_owned()).or_default();
            part.version = Some(rollout::short(version).to_owned());
        }
    }
    for (home, wave) in rollout::waves(&rollouts, subscription, &bases, &member) {
        parts.entry(home).or_default().wave = Some(wave);
    }
    Ok(parts)
}

/// The name in `NAME` or `TYPE/NAME`.
fn subscription_name(text: &str) -> Result<&str, Error> {
    const TYPES: [&str; 5] = [
        "sub",
        "subs",
        "subscription",
        "subscriptions",
        "subscriptions.apps.clusternet.io",
    ];
    match text.split_once('/') {
        None => Ok(text),
        Some((kind, name)) if TYPES.contains(&kind.to_lowercase().as_str()) && !name.is_empty() => Ok(name),
        Some(_) => Err(Error::Usage(format!(
            "{text:?}: only Subscriptions are explained: NAME or subscription/NAME"
        ))),
    }
}

fn table(
    out: &mut (dyn Write + Send),
    subscription: &Subscription,
    rows: &[Row],
    parts: &BTreeMap<String, Part>,
    clusters: usize,
) -> Result<(), Error> {
    let bound = subscription.bound.clusters.len();
    writeln!(
        out,
        "Subscription {}/{}: {}, bound to {bound} of {clusters} cluster(s)",
        subscription.namespace,
        subscription.name,
        strategy(subscription.strategy)
    )?;
    if rows.is_empty() {
        return Ok(());
    }
    let mut header = vec!["CLUSTER", "BOUND", "VERDICT", "SCORE", "REPLICAS"];
    if !parts.is_empty() {
        header.extend(["VERSION", "WAVE"]);
    }
    let header: Vec<String> = header.into_iter().map(ToOwned::to_owned).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![
                row.cluster.to_string(),
                if row.bound { "yes" } else { "no" }.to_owned(),
                row.verdict.to_owned(),
                row.total
                    .map_or_else(|| "-".to_owned(), |total| total.to_string()),
                replicas_text(subscription, &row.cluster),
            ];
            if !parts.is_empty() {
                let part = parts.get(&row.cluster.namespace);
                let text =
                    |of: fn(&Part) -> &Option<String>| part.and_then(|it| of(it).as_deref()).unwrap_or("-");
                cells.extend([text(|it| &it.version), text(|it| &it.wave)].map(str::to_owned));
            }
            cells
        })
        .collect();
    print_table(out, &header, &cells)?;
    for row in rows.iter().filter(|row| !row.why.is_empty()) {
        writeln!(out, "\n{}: {}", row.cluster, plain(&row.why))?;
        if !row.remedy.is_empty() {
            writeln!(out, "  to change that: {}", plain(&row.remedy))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

pub(crate) fn strategy(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Replication => "replicated",
        Strategy::StaticDividing => "divided by weight",
        Strategy::DynamicDividing => "divided by free capacity",
    }
}

/// How many replicas of each divided feed a cluster has.
fn replicas<'a>(subscription: &'a Subscription, cluster: &ClusterKey) -> BTreeMap<&'a str, i64> {
    let bound = &subscription.bound;
    let Some(place) = bound.clusters.iter().position(|key| **key == *cluster) else {
        return BTreeMap::new();
    };
    let of = |(feed, list): (&'a String, &'a Vec<i64>)| Some((feed.as_str(), *list.get(place)?));
    bound.replicas.iter().filter_map(of).collect()
}

fn replicas_text(subscription: &Subscription, cluster: &ClusterKey) -> String {
    let all = replicas(subscription, cluster);
    let text: Vec<String> = all
        .iter()
        .map(|(feed, count)| format!("{count} of {}", feed.rsplit('/').next().unwrap_or(feed)))
        .collect();
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.join(", ")
    }
}

/// What comes of it.
fn conclusion(object: &Value, decision: &Decision<'_>) -> String {
    match decision {
        Decision::Bind {
            binding,
            short,
            is_undivided,
        } => {
            let mut text = if placement::status_patch(&object["status"], binding).is_some() {
                let names: Vec<String> = binding.clusters().iter().map(ToString::to_string).collect();
                format!("The scheduler is about to bind it to {}.", names.join(", "))
            } else {
                "Nothing is about to change.".to_owned()
            };
            for (feed, count) in short {
                text.push_str(&format!(" No cluster has room for {count} replica(s) of {feed}."));
            }
            if *is_undivided {
                text.push_str(&format!(" But {UNDIVIDED}."));
            }
            text
        }
        Decision::Predict(clusters) => format!(
            "The scheduler asks {} cluster(s) for their room first; what they answer decides.",
            clusters.len()
        ),
        Decision::Unfit { error, kept } => {
            let bound = object["status"]["bindingClusters"].as_array().map_or(0, Vec::len);
            match kept.as_ref().map_or(bound, |kept| kept.clusters().len()) {
                0 => error.to_string(),
                left => format!("{error} The present binding to {left} cluster(s) is kept."),
            }
        }
        Decision::Failed(failure) => format!("It cannot be scheduled: {failure}."),
        Decision::Waiting(_) => {
            "The scheduler waits for its FeedInventory: are its feeds there as templates?".to_owned()
        }
    }
}

/// What keeps the content of a Subscription back, whatever is decided about its place.
fn troubles(object: &Value) -> Vec<String> {
    let frozen = meta::annotation(object, annotations::FROZEN_BY).filter(|sets| !sets.is_empty());
    let frozen =
        frozen.map(|sets| format!("Its edits wait until all objects of a change set are there: {sets}."));
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let applied = conditions.find(|it| it["type"] == reasons::APPLIED && it["status"] == "False");
    let unapplied = applied.map(|it| format!("Not applied: {}", it["message"].as_str().unwrap_or_default()));
    frozen.into_iter().chain(unapplied).collect()
}

fn document(
    subscription: &Subscription,
    rows: &[Row],
    parts: &BTreeMap<String, Part>,
    conclusion: &str,
) -> Value {
    let clusters: Vec<Value> = rows
        .iter()
        .map(|row| {
            let part = parts.get(&row.cluster.namespace);
            let scores: BTreeMap<&str, i64> = row
                .scores
                .iter()
                .map(|score| (score.plugin.name(), score.score))
                .collect();
            json!({
                "namespace": row.cluster.namespace, "name": row.cluster.name, "bound": row.bound,
                "verdict": row.verdict, "why": row.why, "remedy": row.remedy, "scores": scores, "total": row.total,
                "replicas": replicas(subscription, &row.cluster),
                "version": part.and_then(|it| it.version.as_ref()), "wave": part.and_then(|it| it.wave.as_ref()),
            })
        })
        .collect();
    json!({
        "namespace": subscription.namespace, "name": subscription.name,
        "strategy": strategy(subscription.strategy), "conclusion": conclusion, "clusters": clusters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription() -> Value {
        json!({
            "metadata": {"namespace": "default", "name": "app"},
            "spec": {"subscribers": [{"clusterAffinity": {"matchLabels": {"a": "b"}}}]},
            "status": {"bindingClusters": ["ns/x"], "replicas": {"apps/v1/Deployment/shop/web": [3]}},
        })
    }

    #[test]
    fn a_subscription_is_named_alone_or_with_its_type() {
        for (text, expected) in [
            ("app", Some("app")),
            ("subs/app", Some("app")),
            ("Subscription/app", Some("app")),
            ("deployment/app", None),
            ("subs/", None),
        ] {
            assert_eq!(subscription_name(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_keeps_content_back_is_told() {
        let mut object = subscription();
        assert_eq!(troubles(&object), Vec::<String>::new());
        meta::set_annotation(&mut object, annotations::FROZEN_BY, "r9/2");
        object["status"]["conditions"] =
            json!([{"type": "Applied", "status": "False", "message": "1 of 2 cluster(s): no (a)"}]);
        let [frozen, unapplied] = &troubles(&object)[..] else {
            panic!()
        };
        assert!(frozen.contains("r9/2"), "{frozen}");
        assert_eq!(unapplied, "Not applied: 1 of 2 cluster(s): no (a)");
    }

    #[test]
    fn a_person_reads_who_gets_what_and_why() {
        let subscription = Subscription::from_value(&subscription()).expect("a good one");
        let row = |name: &str, bound, verdict, why: &str, remedy: &str| Row {
            cluster: ClusterKey::new("ns", name),
            bound,
            verdict,
            why: why.to_owned(),
            remedy: remedy.to_owned(),
            scores: Vec::new(),
            total: bound.then_some(100),
        };
        let rows = [
            row("x", true, "chosen", "", ""),
            row("y", false, "unmatched", "it has no a", "label it"),
        ];
        let mut out = Vec::new();
        let none = BTreeMap::new();
        table(&mut out, &subscription, &rows, &none, 2).expect("it is written");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "Subscription default/app: replicated, bound to 1 of 2 cluster(s)\n\
             CLUSTER   BOUND   VERDICT     SCORE   REPLICAS\n\
             ns/x      yes     chosen      100     3 of web\n\
             ns/y      no      unmatched   -       -\n\
             \nns/y: it has no a\n  to change that: label it\n\n"
        );
        let part = Part {
            version: Some("0d9e42c7".to_owned()),
            wave: Some("canary".to_owned()),
        };
        let parts = BTreeMap::from([("ns".to_owned(), part)]);
        let mut out = Vec::new();
        table(&mut out, &subscription, &rows, &parts, 2).expect("it is written");
        let text = String::from_utf8_lossy(&out);
        assert!(
            text.contains("REPLICAS   VERSION    WAVE\n") && text.contains("3 of web   0d9e42c7   canary\n"),
            "{text}"
        );
        let document = document(&subscription, &rows, &parts, "Nothing.");
        assert_eq!(document["clusters"][0]["version"], "0d9e42c7");
        assert_eq!(document["clusters"][0]["wave"], "canary");
        assert_eq!(
            document["clusters"][0]["replicas"],
            json!({"apps/v1/Deployment/shop/web": 3})
        );
        assert_eq!(document["clusters"][1]["remedy"], "label it");
    }
}
