//! Whole decisions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::bind::status_patch;
use crate::config::Config;
use crate::decision::Tolerance;
use crate::fleet::Fleet;

/// `name label=value … !key=value:Effect …`, in the namespace `ns-<name>`.
fn cluster(text: &str) -> Cluster {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let (mut labels, mut taints) = (serde_json::Map::new(), Vec::new());
    for word in words {
        if let Some(taint) = word.strip_prefix('!') {
            let (pair, effect) = taint.split_once(':').unwrap();
            let (key, value) = pair.split_once('=').unwrap();
            taints.push(json!({"key": key, "value": value, "effect": effect}));
        } else {
            let (key, value) = word.split_once('=').unwrap();
            labels.insert(key.into(), json!(value));
        }
    }
    let object = json!({
        "metadata": {"namespace": format!("ns-{name}"), "name": name, "labels": labels}, "spec": {"taints": taints},
    });
    Cluster::from_value(&object).unwrap()
}

fn fleet(clusters: &[&str]) -> Fleet {
    clusters.iter().map(|text| cluster(text)).collect()
}

/// For as long as the test runs.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn decision(spec: Value, clusters: &[&str], inventory: Option<&Inventory>) -> Placement<'static> {
    let subscription = Subscription::from_value(&json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
    let profile = leak(Config::default()).profile("default").unwrap();
    place(&Snapshot {
        inventory: inventory.map(|inventory| leak(inventory.clone())),
        ..Snapshot::of(leak(subscription), leak(fleet(clusters)), profile)
    })
}

fn bound(spec: Value, clusters: &[&str]) -> String {
    match decision(spec, clusters, None).decision {
        Decision::Bind { binding, .. } => binding
            .clusters()
            .iter()
            .map(|key| key.name.clone())
            .collect::<Vec<_>>()
            .join(" "),
        Decision::Predict(clusters) => format!("asks {} cluster(s)", clusters.len()),
        Decision::Unfit { error, .. } => error.to_string(),
        Decision::Waiting(waiting) => format!("waiting for {waiting:?}"),
        Decision::Failed(failure) => failure.to_string(),
    }
}

/// The controllers' own taint.
const SILENT: &str = "!clusters.clusternet.io/unschedulable=ClusterStatusUnknown:NoSchedule";

/// What replication to the clusters of a label decides, given where it is bound now: the clusters, then those of them
/// that are kept although not ready.
fn replicated(now: &[&str], clusters: &[&str]) -> (String, String) {
    let bound: Vec<String> = now.iter().map(|name| format!("ns-{name}/{name}")).collect();
    let subscription = Subscription::from_value(&json!({
        "spec": {"subscribers": [{"clusterAffinity": selector("a=1")}]}, "status": {"bindingClusters": bound},
    }))
    .unwrap();
    let clusters = fleet(clusters);
    let config = Config::default();
    let profile = config.profile("default").unwrap();
    let placement = place(&Snapshot::of(&subscription, &clusters, profile));
    let names = |keys: Vec<&ClusterKey>| {
        let names: Vec<&str> = keys.into_iter().map(|key| key.name.as_str()).collect();
        names.join(" ")
    };
    let kept = placement.verdicts.iter().filter(|(_, verdict)| {
        matches!(verdict, Verdict::Feasible { kept_despite: Some(taint), .. } if taint.means_not_ready())
    });
    let kept = names(kept.map(|(key, _)| key).collect());
    let Decision::Bind { binding, .. } = &placement.decision else {
        panic!("nothing fits: {:?}", placement.decision);
    };
    (names(binding.clusters().to_vec()), kept)
}

#[test]
fn an_outage_takes_nothing_away_and_brings_nothing_new() {
    let (silent, user) = (format!("m1 a=1 {SILENT}"), "!k=v:NoSchedule");
    let also_users = format!("{silent} {user}");
    let users_evict = format!("{silent} !k=v:NoExecute");
    let meant_no_more = format!("m1 a=2 {SILENT}");
    let same_key = "m1 a=1 !clusters.clusternet.io/unschedulable=x:NoExecute";
    type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], (&'a str, &'a str));
    let table: [Row<'_>; 8] = [
        (
            "bound stays",
            &["m1", "m2"],
            &[&silent, "m2 a=1"],
            ("m1 m2", "m1"),
        ),
        ("all silent", &["m1"], &[&silent], ("m1", "m1")),
        ("a new one waits", &["m2"], &[&silent, "m2 a=1"], ("m2", "")),
        (
            "a user's taint",
            &["m1", "m2"],
            &[&also_users, "m2 a=1"],
            ("m2", ""),
        ),
        (
            "a user's eviction",
            &["m1", "m2"],
            &[&users_evict, "m2 a=1"],
            ("m2", ""),
        ),
        (
            "the key with NoExecute",
            &["m1", "m2"],
            &[same_key, "m2 a=1"],
            ("m2", ""),
        ),
        (
            "meant no more",
            &["m1", "m2"],
            &[&meant_no_more, "m2 a=1"],
            ("m2", ""),
        ),
        ("ready again", &["m1"], &["m1 a=1"], ("m1", "")),
    ];
    for (row, now, clusters, expected) in table {
        let (bound, kept) = replicated(now, clusters);
        assert_eq!((bound.as_str(), kept.as_str()), expected, "{row}");
    }
}

#[test]
fn dividing_moves_replicas_away_from_an_outage() {
    let feeds = json!([{"kind": "D", "apiVersion": "v1", "name": "x", "desiredReplicas": 6}]);
    let subscription = Subscription::from_value(&json!({
        "spec": {"schedulingStrategy": "Dividing", "feeds": feeds,
            "subscribers": [{"clusterAffinity": selector("a=1"), "weight": 1}]},
        "status": {"bindingClusters": ["ns-m1/m1", "ns-m2/m2"]},
    }))
    .unwrap();
    let config = Config::default();
    let silent = format!("m1 a=1 {SILENT}");
    let profile = config.profile("default").unwrap();
    let clusters = fleet(&[&silent, "m2 a=1"]);
    let inventory = Inventory::from_value(&json!({"spec": {"feeds": feeds}}));
    let placement = place(&Snapshot {
        inventory: Some(&inventory),
        ..Snapshot::of(&subscription, &clusters, profile)
    });
    let Decision::Bind { binding, .. } = placement.decision else {
        panic!("nothing fits")
    };
    assert_eq!(binding.clusters(), [&ClusterKey::new("ns-m2", "m2")]);
    assert_eq!(binding.replicas()["v1/D/x"], [6]);
}

fn selector(label: &str) -> Value {
    let (key, value) = label.split_once('=').unwrap();
    json!({"matchLabels": {key: value}})
}

#[test]
fn replicates_to_every_feasible_cluster() {
    let spec =
        json!({"subscribers": [{"clusterAffinity": selector("a=1")}, {"clusterAffinity": selector("b=1")}]});
    assert_eq!(
        bound(spec.clone(), &["m2 b=1", "m1 a=1", "m3 a=1 b=1", "m4 c=1"]),
        "m1 m2 m3"
    );
    assert_eq!(
        bound(spec, &[]),
        "no clusters available to schedule subscriptions"
    );
    assert_eq!(
        bound(
            json!({"subscribers": [{"clusterAffinity": {}}]}),
            &["m1", "m2 a=1"]
        ),
        "m1 m2"
    );
}

#[test]
fn says_why_nothing_fits() {
    let spec = json!({"subscribers": [{"clusterAffinity": selector("a=1")}]});
    assert_eq!(
        bound(
            spec,
            &[
                "m1 a=1 !k=v:NoSchedule",
                "m2 a=1 !k=v:NoExecute",
                "m3",
                "m4 a=1 !x=y:NoSchedule"
            ]
        ),
        "0/4 clusters are available: 1 cluster(s) didn't match any subscriber's clusterAffinity, \
         1 cluster(s) had taint {x: y}, that the subscription didn't tolerate, \
         2 cluster(s) had taint {k: v}, that the subscription didn't tolerate."
    );
}

#[test]
fn keeps_what_is_still_there_when_nothing_fits() {
    let subscription = Subscription::from_value(&json!({
        "spec": {"subscribers": [{"clusterAffinity": selector("a=1")}]},
        "status": {"bindingClusters": ["ns-gone/gone", "ns-m1/m1"], "replicas": {"x": [3, 4], "y": []}, "specHash": 5},
    }))
    .unwrap();
    let subscription = leak(subscription);
    let profile = leak(Config::default()).profile("default").unwrap();
    let decide = |clusters: &[&str]| {
        let snapshot = Snapshot::of(subscription, leak(fleet(clusters)), profile);
        let Decision::Unfit { kept, .. } = place(&snapshot).decision else {
            panic!("something fits");
        };
        kept
    };
    assert_eq!(decide(&["m1", "gone"]), None);
    assert_eq!(decide(&[]).unwrap().clusters(), [] as [&ClusterKey; 0]);
    let kept = decide(&["m1"]).unwrap();
    assert_eq!(kept.clusters(), [&ClusterKey::new("ns-m1", "m1")]);
    assert_eq!(
        (kept.replicas()["x"].as_slice(), kept.replicas()["y"].as_slice()),
        ([4].as_slice(), [].as_slice())
    );
}

#[test]
fn takes_the_best_of_each_subgroup_once() {
    let group = |label: &str, min: u32| json!({"clusterAffinity": selector(label), "subGroupStrategy": {"minClusters": min}});
    let clusters = [
        "c1 city=beijing",
        "c2 city=beijing !p=q:PreferNoSchedule",
        "c3 city=shanghai !p=q:PreferNoSchedule !r=s:PreferNoSchedule",
    ];
    let spec = |groups: &[Value]| json!({"schedulingBySubGroup": true, "subscribers": groups});
    assert_eq!(
        bound(
            spec(&[group("city=beijing", 1), group("city=shanghai", 1)]),
            &clusters
        ),
        "c1 c3",
        "Q7"
    );
    assert_eq!(
        bound(
            spec(&[group("city=beijing", 9), group("city=beijing", 1)]),
            &clusters
        ),
        "c1 c2",
        "no duplicates"
    );
    assert_eq!(
        bound(spec(&[group("city=beijing", 0)]), &clusters),
        "no subgroup selects any of the 2 feasible cluster(s): raise subGroupStrategy.minClusters"
    );
    assert_eq!(
        bound(spec(&[json!({"clusterAffinity": {}})]), &clusters),
        "spec.subscribers[0].subGroupStrategy is required while spec.schedulingBySubGroup is true"
    );
}

#[test]
fn divides_by_the_weights_of_all_matching_subscribers() {
    let all = ["member1 a=1", "member2 b=2", "member3 a=1 b=1"];
    type Row<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, u32)], &'a [u32]);
    let table: [Row<'_>; 4] = [
        ("S7", &all[..1], &[("a=1", 1)], &[12]),
        ("S8", &all[..2], &[("a=1", 1), ("b=2", 2)], &[4, 8]),
        ("S9", &all, &[("a=1", 1), ("b=2", 2)], &[3, 6, 3]),
        (
            "S10, S11",
            &all,
            &[("a=1", 1), ("b=2", 0), ("b=1", 2)],
            &[3, 0, 9],
        ),
    ];
    let feeds = json!([{"kind": "D", "apiVersion": "v1", "name": "x"}, {"kind": "D", "apiVersion": "v1", "name": "y"},
                       {"kind": "S", "apiVersion": "v1", "name": "x"}]);
    let mut wanted = feeds.clone();
    wanted[0]["desiredReplicas"] = json!(12);
    wanted[1]["desiredReplicas"] = json!(12);
    let inventory = Inventory::from_value(&json!({"spec": {"feeds": wanted}}));
    for (row, clusters, subscribers, expected) in table {
        let subscribers: Vec<Value> = subscribers
            .iter()
            .map(|(label, weight)| json!({"clusterAffinity": selector(label), "weight": weight}))
            .collect();
        let spec = json!({"schedulingStrategy": "Dividing", "subscribers": subscribers, "feeds": feeds});
        assert_eq!(
            decision(spec.clone(), clusters, None).decision,
            Decision::Waiting(Waiting::Inventory),
            "{row}"
        );
        let Decision::Bind { binding, .. } = decision(spec, clusters, Some(&inventory)).decision else {
            panic!("{row}")
        };
        assert_eq!(binding.replicas()["v1/D/x"], expected, "{row}");
        assert_eq!(binding.replicas()["v1/D/y"], expected, "{row}");
        assert_eq!(binding.replicas()["v1/S/x"], [] as [u32; 0], "{row}");
    }
}

#[test]
fn says_where_no_weight_divides_the_replicas() {
    let feeds = json!([{"kind": "D", "apiVersion": "v1", "name": "x"}]);
    let clusters = ["member1 a=1", "member2 b=2"];
    // What each subscriber selects and weighs, how many replicas are wanted, and whether there is something to say.
    type Row<'a> = (&'a [(&'a str, u32)], Option<u32>, bool);
    let rows: [Row<'_>; 4] = [
        (&[("a=1", 0), ("b=2", 0)], Some(3), true),
        (&[("a=1", 0), ("b=2", 1)], Some(3), false),
        // The one that weighs selects nobody.
        (&[("a=1", 0), ("c=3", 5)], Some(3), true),
        (&[("a=1", 0), ("b=2", 0)], None, false),
    ];
    for (subscribers, desired, expected) in rows {
        let subscribers: Vec<Value> = subscribers
            .iter()
            .map(|(label, weight)| json!({"clusterAffinity": selector(label), "weight": weight}))
            .collect();
        let spec = json!({"schedulingStrategy": "Dividing", "subscribers": subscribers, "feeds": feeds});
        let mut wanted = feeds.clone();
        if let Some(desired) = desired {
            wanted[0]["desiredReplicas"] = json!(desired);
        }
        let inventory = Inventory::from_value(&json!({"spec": {"feeds": wanted}}));
        let Decision::Bind {
            binding,
            is_undivided,
            ..
        } = decision(spec, &clusters, Some(&inventory)).decision
        else {
            panic!("{subscribers:?}")
        };
        assert_eq!(is_undivided, expected, "{subscribers:?}");
        if expected {
            assert!(binding.replicas().is_empty(), "each gets all of them");
        }
    }
}

/// A fleet whose replicas are divided by room.
struct Divided {
    /// As [`cluster`] reads them.
    clusters: Vec<String>,
    /// What each cluster says; what is not named says nothing and is not asked in vain.
    room: BTreeMap<&'static str, Result<u32, &'static str>>,
    status: Value,
    desired: Option<u32>,
    tolerance: Tolerance,
    /// `Dynamic` or `Static`.
    kind: &'static str,
}

impl Divided {
    fn new(clusters: &[&str], room: &[(&'static str, Result<u32, &'static str>)]) -> Self {
        Self {
            clusters: clusters.iter().map(|text| format!("{text} a=1")).collect(),
            room: room.iter().copied().collect(),
            status: Value::Null,
            desired: Some(6),
            tolerance: Tolerance::None,
            kind: "Dynamic",
        }
    }

    /// Marks a cluster with a label or taints; without any it is gone.
    fn lose(&mut self, index: usize, mark: &str) {
        let old = self.clusters.remove(index);
        let name = old.split(' ').next().unwrap();
        if !mark.is_empty() {
            self.clusters.insert(index, format!("{name} a=1 {mark}"));
        }
    }

    /// `m1=3 m2=3`, and what is missing; the binding becomes the present one.
    fn place(&mut self) -> String {
        let feeds = json!([
            {"kind": "D", "apiVersion": "v1", "name": "x", "desiredReplicas": self.desired},
            {"kind": "S", "apiVersion": "v1", "name": "x"},
        ]);
        let object = json!({"status": self.status, "spec": {"schedulingStrategy": "Dividing", "feeds": feeds,
            "dividingScheduling": {"type": self.kind}, "subscribers": [{"clusterAffinity": selector("a=1"), "weight": 1}]}});
        let subscription = Subscription::from_value(&object).unwrap();
        let inventory = Inventory::from_value(&json!({"spec": {"feeds": feeds}}));
        let clusters = self.clusters.iter().map(|text| cluster(text)).collect();
        let config = Config::default();
        let snapshot = Snapshot {
            inventory: Some(&inventory),
            tolerance: self.tolerance,
            ..Snapshot::of(&subscription, &clusters, config.profile("default").unwrap())
        };
        let first = place(&snapshot).decision;
        let decision = match &first {
            Decision::Predict(asked) => {
                let answer = |key: &&ClusterKey| {
                    let room = self.room[key.name.as_str()].map(|room| vec![Some(room), None]);
                    (ClusterKey::clone(key), room.map_err(str::to_owned))
                };
                place(&Snapshot {
                    predictions: leak(asked.iter().map(answer).collect()),
                    ..snapshot
                })
                .decision
            }
            Decision::Bind { .. } | Decision::Unfit { .. } | Decision::Waiting(_) | Decision::Failed(_) => {
                first
            }
        };
        let (binding, short) = match decision {
            Decision::Bind { binding, short, .. } => (binding, short),
            Decision::Failed(failure) => return failure.to_string(),
            Decision::Predict(_) | Decision::Unfit { .. } | Decision::Waiting(_) => panic!("undecided"),
        };
        if let Some(patch) = status_patch(&self.status, &binding) {
            machinery::patch::merge_patch(&mut self.status, &patch["status"]);
        }
        assert_eq!(binding.replicas()["v1/S/x"], [] as [u32; 0]);
        let names = binding.clusters().iter().map(|key| key.name.as_str());
        let replicas = binding.replicas()["v1/D/x"].iter();
        let mut words: Vec<String> = if self.desired.is_some() {
            names
                .zip(replicas)
                .map(|(name, n)| format!("{name}={n}"))
                .collect()
        } else {
            names.map(str::to_owned).collect()
        };
        words.extend(short.values().map(|short| format!("short {short}")));
        words.join(" ")
    }
}

#[test]
fn divides_by_room_and_leaves_what_is_there() {
    let mut fleet = Divided::new(&["m1", "m2"], &[("m1", Ok(2)), ("m2", Ok(4))]);
    assert_eq!(fleet.place(), "m1=2 m2=4");
    fleet.room.clear();
    assert_eq!(
        fleet.place(),
        "m1=2 m2=4",
        "nobody is asked while nothing is missing"
    );
    fleet.clusters.push("m3 a=1".to_owned());
    assert_eq!(
        fleet.place(),
        "m1=2 m2=4",
        "a cluster that comes takes nothing from the others"
    );
    fleet.room = BTreeMap::from([("m1", Ok(1)), ("m2", Ok(1)), ("m3", Ok(9))]);
    fleet.desired = Some(8);
    assert_eq!(fleet.place(), "m1=2 m2=4 m3=2");
    fleet.desired = Some(4);
    assert_eq!(fleet.place(), "m1=1 m2=2 m3=1");
    fleet.clusters[1] = "m2 a=2".to_owned();
    assert_eq!(
        fleet.place(),
        "m1=1 m2=2 m3=1",
        "what no longer matches keeps what it has"
    );
}

#[test]
fn moves_replicas_away_from_clusters_that_are_lost() {
    let lost = |mark: &str| {
        let mut fleet = Divided::new(&["m1", "m2"], &[("m1", Ok(9)), ("m2", Ok(9))]);
        assert_eq!(fleet.place(), "m1=3 m2=3");
        fleet.lose(1, mark);
        fleet.place()
    };
    for (row, mark, expected) in [
        ("gone", "", "m1=6"),
        ("not ready", SILENT, "m1=6"),
        ("evicted by a user", "!k=v:NoExecute", "m1=6"),
        ("closed by a user", "!k=v:NoSchedule", "m1=3 m2=3"),
    ] {
        assert_eq!(lost(mark), expected, "{row}");
    }
}

#[test]
fn a_silent_cluster_loses_only_what_finds_room_elsewhere() {
    let silent_and_closed = format!("{SILENT} !k=v:NoSchedule");
    let silent_and_evicted = format!("{SILENT} !k=v:NoExecute");
    for (row, mark, room, desired, expected) in [
        ("room for all", SILENT, 9, 6, "m1=6"),
        ("no room", SILENT, 0, 6, "m1=3 m2=3 short 3"),
        ("room for some", SILENT, 2, 6, "m1=5 m2=1 short 1"),
        (
            "also closed by a user",
            &silent_and_closed,
            0,
            6,
            "m1=3 m2=3 short 3",
        ),
        (
            "also evicted by a user",
            &silent_and_evicted,
            0,
            6,
            "m1=3 short 3",
        ),
        ("evicted by a user", "!k=v:NoExecute", 0, 6, "m1=3 short 3"),
        ("gone", "", 0, 6, "m1=3 short 3"),
        ("fewer wanted", SILENT, 0, 4, "m1=3 m2=1 short 1"),
        ("what is left suffices", SILENT, 0, 3, "m1=3"),
        ("more wanted", SILENT, 0, 9, "m1=3 m2=3 short 6"),
    ] {
        let mut fleet = Divided::new(&["m1", "m2"], &[("m1", Ok(9)), ("m2", Ok(9))]);
        assert_eq!(fleet.place(), "m1=3 m2=3");
        fleet.lose(1, mark);
        fleet.room = BTreeMap::from([("m1", Ok(room))]);
        fleet.desired = Some(desired);
        assert_eq!(fleet.place(), expected, "{row}");
        fleet.room = BTreeMap::from([("m1", Ok(0))]);
        assert_eq!(fleet.place(), expected, "{row}: it settles");
    }
    let mut fleet = Divided::new(&["m1", "m2"], &[("m1", Ok(9)), ("m2", Ok(0))]);
    assert_eq!(fleet.place(), "m1=6 m2=0");
    fleet.lose(0, SILENT);
    assert_eq!(fleet.place(), "m1=6 m2=0 short 6", "the last copy stays");
    fleet.room = BTreeMap::from([("m2", Ok(2))]);
    assert_eq!(fleet.place(), "m1=4 m2=2 short 4", "and moves as room is found");
    fleet.lose(0, "");
    fleet.clusters.insert(0, "m1 a=1".to_owned());
    assert_eq!(fleet.place(), "m1=4 m2=2", "who is back keeps what is left");
}

#[test]
fn what_is_not_divided_goes_to_all_that_fit_as_under_replication() {
    for kind in ["Static", "Dynamic"] {
        let mut fleet = Divided::new(&["m1", "m2"], &[]);
        fleet.desired = None;
        fleet.kind = kind;
        assert_eq!(fleet.place(), "m1 m2", "{kind}");
        for (row, mark, expected) in [
            ("silent", SILENT, "m1 m2"),
            ("back", "b=1", "m1 m2"),
            ("evicted", "!k=v:NoExecute", "m1"),
            ("back", "b=1", "m1 m2"),
            ("closed", "!k=v:NoSchedule", "m1"),
            ("back, but silent", SILENT, "m1"),
            ("back", "b=1", "m1 m2"),
            ("meant no more", "a=2", "m1"),
            ("back", "b=1", "m1 m2"),
            ("gone", "", "m1"),
        ] {
            fleet.lose(1, mark);
            assert_eq!(fleet.place(), expected, "{kind}: {row}");
        }
        fleet.clusters.push("m3 a=1".to_owned());
        assert_eq!(fleet.place(), "m1 m3", "{kind}: a cluster that comes gets them");
    }
}

#[test]
fn says_how_many_replicas_find_no_room() {
    let mut fleet = Divided::new(&["m1", "m2"], &[("m1", Ok(1)), ("m2", Ok(0))]);
    assert_eq!(fleet.place(), "m1=1 m2=0 short 5");
    fleet.room = BTreeMap::from([("m1", Ok(0)), ("m2", Ok(9))]);
    assert_eq!(fleet.place(), "m1=1 m2=5");
    // What is not divided needs no room, and goes to all.
    let mut whole = Divided::new(&["m1", "m2"], &[]);
    whole.desired = None;
    assert_eq!(whole.place(), "m1 m2");
}

#[test]
fn puts_up_with_as_many_failures_as_it_is_told_to() {
    let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut fleet = Divided::new(&names, &[]);
    let failed = "1 of 10 cluster(s) do not say what room they have (limit 0): ns-m0/m0: it is asleep";
    for (tolerance, failing, expected) in [
        (Tolerance::None, 1, failed),
        (Tolerance::Percent(9), 1, failed),
        (
            Tolerance::Percent(10),
            1,
            "m0=0 m1=1 m2=1 m3=1 m4=1 m5=1 m6=1 m7=0 m8=0 m9=0",
        ),
        (
            Tolerance::Percent(10),
            5,
            "5 of 10 cluster(s) do not say what room they have (limit 1): \
             ns-m0/m0: it is asleep; ns-m1/m1: it is asleep; ns-m2/m2: it is asleep",
        ),
        (
            Tolerance::Percent(100),
            9,
            "m0=0 m1=0 m2=0 m3=0 m4=0 m5=0 m6=0 m7=0 m8=0 m9=5 short 1",
        ),
    ] {
        const NAMES: [&str; 10] = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"];
        let answer = |(index, name)| {
            (
                name,
                if index < failing {
                    Err("it is asleep")
                } else {
                    Ok(5)
                },
            )
        };
        fleet.room = NAMES.into_iter().enumerate().map(answer).collect();
        fleet.tolerance = tolerance;
        fleet.status = Value::Null;
        assert_eq!(fleet.place(), expected, "{tolerance:?}");
    }
}

#[test]
fn names_the_plugin_that_a_division_lacks() {
    let without = |point: &str| {
        let plugins = json!({point: {"disabled": [{"name": "*"}]}});
        Config::parse(&json!({"profiles": [{"schedulerName": "default", "plugins": plugins}]})).unwrap()
    };
    for (kind, point, plugin) in [
        ("Static", "assign", "StaticAssigner"),
        ("Dynamic", "assign", "DynamicAssigner"),
        ("Dynamic", "predict", "Predictor"),
    ] {
        let spec = json!({"schedulingStrategy": "Dividing", "dividingScheduling": {"type": kind}});
        let subscription = Subscription::from_value(&json!({"spec": spec})).unwrap();
        let config = without(point);
        let clusters = Fleet::default();
        let snapshot = Snapshot::of(&subscription, &clusters, config.profile("default").unwrap());
        let Decision::Failed(Failure::NoPlugin(named)) = place(&snapshot).decision else {
            panic!("{kind}")
        };
        assert_eq!(named.name(), plugin);
    }
}

#[test]
fn explains_every_cluster() {
    let spec = json!({"subscribers": [{"clusterAffinity": selector("a=1")}]});
    let verdicts = decision(spec, &["m1 a=1", "m2", "m3 a=1 !k=v:NoSchedule"], None).verdicts;
    let of = |name: &str| &verdicts[&ClusterKey::new(format!("ns-{name}"), name)];
    assert!(matches!(
        of("m1"),
        Verdict::Feasible {
            total: 300,
            chosen: true,
            ..
        }
    ));
    assert_eq!(of("m2"), &Verdict::Unmatched);
    assert!(matches!(
        of("m3"),
        Verdict::Rejected {
            plugin: Plugin::TaintToleration,
            ..
        }
    ));
}

proptest! {
    /// Deciding again after carrying a decision out asks for nothing, and the order of equals never varies.
    #[test]
    fn settles_at_once(labels in proptest::collection::vec((0_u8..3, 0_u8..3), 1..12), weights in (0_u32..4, 0_u32..4)) {
        let clusters: Vec<String> = labels
            .iter()
            .enumerate()
            .map(|(index, (a, taint))| match taint {
                0 => format!("m{index} a={a} !k=v:PreferNoSchedule"),
                1 => format!("m{index} a={a}"),
                _ => format!("m{index} a={a} !k=v:NoSchedule"),
            })
            .collect();
        let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
        let feeds = json!([{"kind": "D", "apiVersion": "v1", "name": "x", "desiredReplicas": 7}]);
        let inventory = Inventory::from_value(&json!({"spec": {"feeds": feeds}}));
        let spec = json!({
            "schedulingStrategy": "Dividing", "feeds": feeds,
            "subscribers": [{"clusterAffinity": selector("a=0"), "weight": weights.0},
                            {"clusterAffinity": selector("a=1"), "weight": weights.1}],
        });
        let first = decision(spec.clone(), &clusters, Some(&inventory)).decision;
        let second = decision(spec, &clusters, Some(&inventory)).decision;
        prop_assert_eq!(&first, &second);
        if let Decision::Bind { binding, .. } = first {
            let status = status_patch(&Value::Null, &binding).expect("an empty status lacks all")["status"].clone();
            prop_assert_eq!(status_patch(&status, &binding), None);
        }
    }
}
