//! Whole decisions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::bind::status_patch;
use crate::config::Config;

/// `name label=value … !key=value:Effect …`, in the namespace `ns-<name>`.
fn cluster(text: &str) -> (ClusterKey, Cluster) {
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
    let cluster = Cluster::from_value(&object).unwrap();
    (cluster.key.clone(), cluster)
}

fn decision(spec: Value, clusters: &[&str], inventory: Option<&Inventory>) -> Placement {
    let subscription = Subscription::from_value(&json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
    let clusters = clusters.iter().map(|text| cluster(text)).collect();
    let config = Config::default();
    place(&Snapshot {
        subscription: &subscription,
        clusters: &clusters,
        inventory,
        profile: config.profile("default").unwrap(),
        percentage_to_score: 0,
        start: 0,
    })
}

fn bound(spec: Value, clusters: &[&str]) -> String {
    match decision(spec, clusters, None).decision {
        Decision::Bind(binding) => binding
            .clusters()
            .iter()
            .map(|key| key.name.clone())
            .collect::<Vec<_>>()
            .join(" "),
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
    let clusters = clusters.iter().map(|text| cluster(text)).collect();
    let config = Config::default();
    let placement = place(&Snapshot {
        subscription: &subscription,
        clusters: &clusters,
        inventory: None,
        profile: config.profile("default").unwrap(),
        percentage_to_score: 0,
        start: 0,
    });
    let names = |keys: Vec<&ClusterKey>| {
        let names: Vec<&str> = keys.into_iter().map(|key| key.name.as_str()).collect();
        names.join(" ")
    };
    let kept = placement.verdicts.iter().filter(|(_, verdict)| {
        matches!(verdict, Verdict::Feasible { kept_despite: Some(taint), .. } if taint.means_not_ready())
    });
    let kept = names(kept.map(|(key, _)| key).collect());
    let Decision::Bind(binding) = &placement.decision else {
        panic!("nothing fits: {:?}", placement.decision);
    };
    (names(binding.clusters().iter().collect()), kept)
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
    let placement = place(&Snapshot {
        subscription: &subscription,
        clusters: &[silent.as_str(), "m2 a=1"].map(cluster).into(),
        inventory: Some(&Inventory::from_value(&json!({"spec": {"feeds": feeds}}))),
        profile: config.profile("default").unwrap(),
        percentage_to_score: 0,
        start: 0,
    });
    let Decision::Bind(binding) = placement.decision else {
        panic!("nothing fits")
    };
    assert_eq!(binding.clusters(), [ClusterKey::new("ns-m2", "m2")]);
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
    let decide = |clusters: &[&str]| {
        let clusters = clusters.iter().map(|text| cluster(text)).collect();
        let config = Config::default();
        let profile = config.profile("default").unwrap();
        let snapshot = Snapshot {
            subscription: &subscription,
            clusters: &clusters,
            inventory: None,
            profile,
            percentage_to_score: 0,
            start: 0,
        };
        let Decision::Unfit { kept, .. } = place(&snapshot).decision else {
            panic!("something fits");
        };
        kept
    };
    assert_eq!(decide(&["m1", "gone"]), None);
    assert_eq!(decide(&[]).unwrap().clusters(), []);
    let kept = decide(&["m1"]).unwrap();
    assert_eq!(kept.clusters(), [ClusterKey::new("ns-m1", "m1")]);
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
        "c3 city=shanghai !p=q:PreferNoSchedule",
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
        let Decision::Bind(binding) = decision(spec, clusters, Some(&inventory)).decision else {
            panic!("{row}")
        };
        assert_eq!(binding.replicas()["v1/D/x"], expected, "{row}");
        assert_eq!(binding.replicas()["v1/D/y"], expected, "{row}");
        assert_eq!(binding.replicas()["v1/S/x"], [] as [u32; 0], "{row}");
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
        if let Decision::Bind(binding) = first {
            let status = status_patch(&Value::Null, &binding).expect("an empty status lacks all")["status"].clone();
            prop_assert_eq!(status_patch(&status, &binding), None);
        }
    }
}
