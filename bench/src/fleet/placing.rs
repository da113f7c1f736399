//! Decisions alone: a warm index, and nothing written.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use placement::{
    Cluster, ClusterKey, Config, Decision, FailOver, Fleet, Inventory, Prediction, Snapshot, Subscription,
    decide,
};
use scheduler::requeue::{Interests, Seen};
use serde_json::{Value, json};

use super::data::{self, SUBSCRIPTIONS};
use super::table::{Figure, Table};
use crate::servers::Kind;

const CLUSTERS: usize = 5_000;
/// How often each is made; the median counts.
const ROUNDS: usize = 1_001;

/// Takes all measurements.
pub(super) fn run(table: &mut Table) -> anyhow::Result<()> {
    let mut add = |figure, value| table.add(figure, Kind::Tombolo, value);
    let mut fleet: Fleet = (0..CLUSTERS)
        .map(cluster)
        .collect::<Option<_>>()
        .context("a cluster")?;
    let all = json!({"matchLabels": {"bench.example/all": "yes"}});
    let few = json!({"matchLabels": {"bench.example/dimension-3": "value-7"}});
    let (replication, room) = (json!({}), json!({"type": "Dynamic"}));
    for (figure, affinity, dividing, percentage, bound_to) in [
        (Figure::ReplicationMicros, &all, &replication, 0, CLUSTERS),
        (
            Figure::ReplicationFewMicros,
            &few,
            &replication,
            0,
            CLUSTERS / data::VALUES,
        ),
        (Figure::DynamicMicros, &all, &room, 0, CLUSTERS / 10),
        (Figure::DynamicAllMicros, &all, &room, 100, CLUSTERS),
    ] {
        let subscription = subscription(affinity, dividing)?;
        for subscriber in &subscription.subscribers {
            fleet.keep(&subscriber.affinity);
        }
        add(figure, decision(&fleet, &subscription, percentage, bound_to)?);
    }
    change(&mut fleet, &mut add)
}

fn cluster(index: usize) -> Option<Cluster> {
    Cluster::from_value(&data::cluster(index))
}

/// Three feeds, two of which are divided.
fn feeds() -> Value {
    let feed = |name: &str, desired: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": name, "desiredReplicas": desired});
    json!([
        feed("front", json!(2_000)),
        feed("back", json!(900)),
        feed("none", Value::Null)
    ])
}

fn subscription(affinity: &Value, dividing: &Value) -> anyhow::Result<Subscription> {
    let strategy = if dividing["type"].is_null() {
        "Replication"
    } else {
        "Dividing"
    };
    Ok(Subscription::from_value(
        &json!({"metadata": {"name": "app"}, "spec": {
        "schedulingStrategy": strategy, "dividingScheduling": dividing, "feeds": feeds(),
        "subscribers": [{"clusterAffinity": affinity}]}}),
    )?)
}

/// How long a decision takes, in microseconds; clusters that have to be asked have answered.
fn decision(
    fleet: &Fleet,
    subscription: &Subscription,
    percentage_to_score: u8,
    bound_to: usize,
) -> anyhow::Result<f64> {
    let config = Config::default();
    let profile = config.profile("default").context("no profile")?;
    let inventory = Inventory::from_value(&json!({"spec": {"feeds": feeds()}}));
    let asking = Snapshot {
        inventory: Some(&inventory),
        percentage_to_score,
        start: 1_234,
        ..Snapshot::of(subscription, fleet, profile)
    };
    let predictions: BTreeMap<ClusterKey, Prediction> = match decide(&asking).decision {
        Decision::Predict(asked) => {
            let answer = |(index, key): (u32, &&ClusterKey)| {
                ((*key).clone(), Ok(vec![Some(index % 17), Some(index % 5), None]))
            };
            (0..).zip(&asked).map(answer).collect()
        }
        Decision::Bind { .. } | Decision::Unfit { .. } | Decision::Waiting(_) | Decision::Failed(_) => {
            BTreeMap::new()
        }
    };
    let snapshot = Snapshot {
        predictions: &predictions,
        ..asking
    };
    let Decision::Bind { binding, .. } = decide(&snapshot).decision else {
        anyhow::bail!("nothing is bound");
    };
    ensure!(
        binding.clusters().len() == bound_to,
        "{} clusters",
        binding.clusters().len()
    );
    Ok(median(|| drop(black_box(decide(black_box(&snapshot))))))
}

/// The median time in microseconds.
fn median(mut work: impl FnMut()) -> f64 {
    let once = |_| {
        let begin = Instant::now();
        work();
        begin.elapsed()
    };
    let mut times: Vec<_> = (0..ROUNDS).map(once).collect();
    times.sort_unstable();
    times[ROUNDS / 2].as_secs_f64() * 1e6
}

/// One cluster gets another value of one label, again and again: how long it takes to know whom that concerns, and how
/// many those are.
fn change(fleet: &mut Fleet, add: &mut impl FnMut(Figure, f64)) -> anyhow::Result<()> {
    let subscriptions: BTreeMap<usize, Subscription> = (0..SUBSCRIPTIONS)
        .map(|index| Ok((index, Subscription::from_value(&data::subscription(index))?)))
        .collect::<anyhow::Result<_>>()?;
    let mut interests = Interests::default();
    for (index, subscription) in &subscriptions {
        interests.add(index, subscription);
        for subscriber in &subscription.subscribers {
            fleet.keep(&subscriber.affinity);
        }
    }
    let state = |value: &str| {
        let mut object = data::cluster(42);
        object["metadata"]["labels"]["bench.example/dimension-3"] = json!(value);
        Seen::from_value(&object).context("a cluster")
    };
    let states = [state("value-1")?, state("value-2")?];
    fleet.put(states[0].cluster.clone());
    let (mut now, mut woken) = (0, 0);
    let took = median(|| {
        let (old, new) = (&states[now], &states[1 - now]);
        now = 1 - now;
        fleet.put(new.cluster.clone());
        let others = subscriptions.keys();
        let all = interests.woken(Some(old), Some(new), FailOver::On, others, |_| false);
        woken = black_box(all).len();
    });
    add(Figure::ChangeMicros, took);
    add(Figure::ChangeWakes, woken as f64);
    let labels = |seen: &Seen| seen.cluster.labels.clone();
    let (old, new) = (labels(&states[0]), labels(&states[1]));
    let concerned = subscriptions
        .values()
        .filter(|it| it.matches(&old) != it.matches(&new));
    add(Figure::ChangeDecides, concerned.count() as f64);
    Ok(())
}
