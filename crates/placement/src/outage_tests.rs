use machinery::meta;
use serde_json::json;

use super::*;
use crate::{
    Binding, Config, Decision, Fleet, Inventory, Placement, Prediction, Subscription, place, status_patch,
};

/// A cluster by words: `silent` (not ready, with the taint), `back` (ready, still with the taint), `fenced`, `closed` (by a
/// user), `since=SECONDS`, `turns=…`. All have the label of their name, and `a=1`.
fn cluster(text: &str) -> Value {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let mut object = json!({
        "metadata": {"namespace": format!("ns-{name}"), "name": name, "labels": {"a": "1", "name": name}},
        "spec": {"taints": []}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let taint = |key: &str| json!({"key": key, "value": "x", "effect": "NoSchedule"});
    let taints =
        |object: &mut Value, key: &str| object["spec"]["taints"].as_array_mut().unwrap().push(taint(key));
    for word in words {
        match word.split_once('=') {
            Some(("since", seconds)) => {
                object["status"]["conditions"][0]["lastTransitionTime"] =
                    json!(at(seconds.parse().unwrap()).to_string());
            }
            Some(("turns", turns)) => {
                let turns = turns.split(',').map(|turn| {
                    let (sign, seconds) = turn.split_at(1);
                    format!("{sign}{}", at(seconds.parse().unwrap()))
                });
                let turns: Vec<String> = turns.collect();
                meta::set_annotation(&mut object, api::annotations::READY_TURNS, &turns.join(","));
            }
            _ if word == "silent" => {
                object["status"]["conditions"][0]["status"] = json!("Unknown");
                taints(&mut object, reasons::TAINT_UNSCHEDULABLE);
            }
            _ if word == "back" => taints(&mut object, reasons::TAINT_UNSCHEDULABLE),
            _ if word == "closed" => taints(&mut object, "mine"),
            _ if word == "fenced" => {
                meta::set_label(&mut object, FENCED, "true");
            }
            _ => panic!("{word}"),
        }
    }
    object
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// What is divided: ten replicas of each kind.
const WEB: &[&str] = &["Deployment"];
const DB: &[&str] = &["StatefulSet"];
const BOTH: &[&str] = &["Deployment", "StatefulSet"];

struct Case<'a> {
    kinds: &'a [&'a str],
    dynamic: bool,
    /// Where how many of each kind are: `a5 b5`.
    now_at: &'a str,
    clusters: &'a [&'a str],
    /// `tolerationSeconds` of the taint; -1 for none.
    tolerated: Option<i64>,
    fail_over: FailOver,
}

impl<'a> Case<'a> {
    fn new(kinds: &'a [&'a str], now_at: &'a str, clusters: &'a [&'a str]) -> Self {
        Self {
            kinds,
            dynamic: false,
            now_at,
            clusters,
            tolerated: None,
            fail_over: FailOver::On,
        }
    }

    fn object(&self) -> Value {
        let feed = |kind: &&str| json!({"apiVersion": "apps/v1", "kind": kind, "name": "x"});
        let feeds: Vec<Value> = self.kinds.iter().map(feed).collect();
        // The cluster z never has any weight.
        let weighted = json!({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["z"]}]});
        let mut spec = json!({"schedulingStrategy": "Dividing", "feeds": feeds, "subscribers": [
            {"clusterAffinity": {"matchLabels": {"name": "z"}}}, {"clusterAffinity": weighted, "weight": 1}]});
        if self.dynamic {
            spec["dividingScheduling"] = json!({"type": "Dynamic"});
        }
        if let Some(seconds) = self.tolerated {
            let seconds = (seconds >= 0).then_some(seconds);
            spec["clusterTolerations"] = json!([{"key": reasons::TAINT_UNSCHEDULABLE, "operator": "Exists",
                "tolerationSeconds": seconds}]);
        }
        let mut object = json!({"metadata": {"name": "s"}, "spec": spec});
        if !self.now_at.is_empty() {
            let shares: Vec<(String, u32)> = self
                .now_at
                .split(' ')
                .map(|it| {
                    let (name, share) = it.split_at(1);
                    (format!("ns-{name}/{name}"), share.parse().unwrap())
                })
                .collect();
            let (clusters, shares): (Vec<_>, Vec<_>) = shares.into_iter().unzip();
            object["status"]["bindingClusters"] = json!(clusters);
            for kind in self.kinds {
                object["status"]["replicas"][format!("apps/v1/{kind}/x")] = json!(shares);
            }
        }
        object
    }

    fn place(&self, now: i64) -> Placement<'static> {
        decide(
            &self.object(),
            self.clusters.iter().map(|text| cluster(text)),
            self.fail_over,
            now,
        )
    }

    /// What each feed comes to, or that all is kept; the reason of fail-over, and when to look again.
    fn comes_to(&self, now: i64) -> String {
        let placement = self.place(now);
        let shares = match &placement.decision {
            Decision::Bind { binding, .. } => told(binding),
            Decision::Unfit { kept: None, .. } => "kept".to_owned(),
            decision @ (Decision::Unfit { .. }
            | Decision::Predict(_)
            | Decision::Waiting(_)
            | Decision::Failed(_)) => panic!("{decision:?}"),
        };
        let report = placement.fail_over.unwrap();
        let again = report
            .again
            .map(|again| format!(", again at {}", again.as_second()));
        format!("{shares}: {}{}", report.reason, again.unwrap_or_default())
    }
}

/// Where all clusters have room for 100 more of anything.
fn decide(
    object: &Value,
    clusters: impl Iterator<Item = Value>,
    fail_over: FailOver,
    now: i64,
) -> Placement<'static> {
    let subscription = leak(Subscription::from_value(object).unwrap());
    let feeds: Vec<Value> = object["spec"]["feeds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|feed| {
            let mut feed = feed.clone();
            feed["desiredReplicas"] = json!(10);
            feed
        })
        .collect();
    let inventory = leak(Inventory::from_value(&json!({"spec": {"feeds": feeds}})));
    let clusters: &Fleet = leak(clusters.map(|it| Cluster::from_value(&it).unwrap()).collect());
    let room: Prediction = Ok(inventory.feeds.iter().map(|_| Some(100)).collect());
    let predictions = clusters.iter().map(|it| (it.key.clone(), room.clone())).collect();
    let config = leak(Config::default());
    place(&Snapshot {
        inventory: Some(inventory),
        predictions: leak(predictions),
        now: Some(at(now)),
        fail_over,
        ..Snapshot::of(subscription, clusters, config.profile("default").unwrap())
    })
}

fn leak<T>(it: T) -> &'static T {
    Box::leak(Box::new(it))
}

/// `a5 b5` of each feed.
fn told(binding: &Binding<'_>) -> String {
    let of = |shares: &Vec<u32>| -> String {
        let all = binding.clusters().iter().zip(shares);
        all.map(|(key, share)| format!("{}{share}", key.name))
            .collect::<Vec<_>>()
            .join(" ")
    };
    binding
        .replicas()
        .values()
        .map(of)
        .collect::<Vec<_>>()
        .join(" | ")
}

/// Cases: what it is about, where what is now, the clusters but for the first (`a`), now, and what it comes to.
type Row<'a> = (&'a str, &'a str, &'a [&'a str], i64, &'a str);

fn check(kinds: &[&str], rows: &[Row<'_>]) {
    for (case, now_at, others, now, expected) in rows {
        let clusters: Vec<&str> = ["a"].into_iter().chain(others.iter().copied()).collect();
        assert_eq!(
            Case::new(kinds, now_at, &clusters).comes_to(*now),
            *expected,
            "{case}"
        );
    }
}

#[test]
fn replicas_move_after_the_tolerated_time_if_others_fit() {
    let (b, fenced) = ("b silent since=1000", "b silent since=1000 fenced");
    check(
        WEB,
        &[
            (
                "just silent",
                "a5 b5",
                &[b],
                1_000,
                "a5 b5: Waiting, again at 1300",
            ),
            ("nearly", "a5 b5", &[b], 1_299, "a5 b5: Waiting, again at 1300"),
            ("long enough", "a5 b5", &[b], 1_300, "a10: Moved"),
            ("moved already", "a10", &[b], 9_000, "a10: Moved"),
            ("never there", "a10", &[b], 1_001, "a10: Moved, again at 1300"),
            ("said to be down", "a5 b5", &[fenced], 1_001, "a10: Moved"),
        ],
    );
    let clusters = ["a", b];
    for (tolerated, now, expected) in [
        (60, 1_059, "a5 b5: Waiting, again at 1060"),
        (60, 1_060, "a10: Moved"),
        (0, 1_000, "a10: Moved"),
        (i64::MAX, 9_000, "a5 b5: Waiting, again at 253402207200"),
        (-1, 9_000, "a5 b5: AllReady"),
    ] {
        let case = Case {
            tolerated: Some(tolerated),
            ..Case::new(WEB, "a5 b5", &clusters)
        };
        assert_eq!(case.comes_to(now), expected, "{tolerated}");
    }
}

#[test]
fn without_others_that_fit_replicas_stay() {
    let b = "b silent since=1000";
    let rows: [(&str, &str, &[&str], i64, &str); 6] = [
        ("nobody else", "b10", &[b], 9_000, "b10: NoTarget"),
        (
            "all silent",
            "a5 b5",
            &["a silent since=900", b],
            9_000,
            "a5 b5: NoTarget",
        ),
        (
            "the other is closed",
            "a5 b5",
            &["a closed", b],
            9_000,
            "kept: NoTarget",
        ),
        (
            "before it is time",
            "a5 b5",
            &["a closed", b],
            1_001,
            "kept: Waiting, again at 1300",
        ),
        (
            "a third takes it",
            "a5 b5",
            &["a closed", b, "c"],
            1_001,
            "b5 c5: Waiting, again at 1300",
        ),
        (
            "the other weighs nothing",
            "b10 z0",
            &["z", b],
            9_000,
            "b10 z0: NoTarget",
        ),
    ];
    for (case, now_at, clusters, now, expected) in rows {
        assert_eq!(Case::new(WEB, now_at, clusters).comes_to(now), expected, "{case}");
    }
}

#[test]
fn replicas_come_back_some_time_later() {
    let b = "b since=5000 turns=+0,-1000,+5000";
    let tainted = "b back since=5000 turns=+0,-1000,+5000";
    check(
        WEB,
        &[
            ("just back", "a10", &[b], 5_001, "a10: Moved, again at 5060"),
            ("long enough", "a10", &[b], 5_060, "a5 b5: AllReady"),
            (
                "with its taint",
                "a10",
                &[tainted],
                5_001,
                "a10: Moved, again at 5060",
            ),
            ("for long", "a10", &["b back since=5000"], 9_000, "a10: Moved"),
            (
                "it never went",
                "a5 b5",
                &[tainted],
                5_001,
                "a5 b5: AllReady, again at 5060",
            ),
            (
                "with its taint for long",
                "a5 b5",
                &["b back since=5000"],
                9_000,
                "a5 b5: AllReady",
            ),
            (
                "a new cluster",
                "a10",
                &["b since=5000 turns=+5000"],
                5_001,
                "a5 b5: AllReady",
            ),
            (
                "nobody saw it turn",
                "a10",
                &["b since=5000"],
                5_001,
                "a5 b5: AllReady",
            ),
            ("a first placement", "", &[b], 5_001, "a5 b5: AllReady"),
        ],
    );
}

#[test]
fn who_comes_and_goes_moves_nothing() {
    let off = "b silent since=1400 turns=+0,-1000,+1100,-1200,+1300,-1400";
    let on = "b since=1300 turns=+0,-1000,+1100,-1200,+1300";
    let thrice = "b silent since=1200 turns=+0,-1000,+1100,-1200";
    let slow = "b silent since=9000 turns=+0,-1000,+3000,-5000,+7000,-9000";
    let full = "b silent since=1400 turns=+700,-800,+900,-1000,+1100,-1200,+1300,-1400";
    check(
        WEB,
        &[
            ("stays", "a5 b5", &[off], 1_750, "a5 b5: Flapping, again at 2000"),
            ("until it is steady", "a5 b5", &[off], 2_000, "a10: Moved"),
            (
                "does not come back",
                "a10",
                &[on],
                1_400,
                "a10: Flapping, again at 1900",
            ),
            ("until it is steady, too", "a10", &[on], 1_900, "a5 b5: AllReady"),
            (
                "three turns are not many",
                "a5 b5",
                &[thrice],
                1_500,
                "a10: Moved",
            ),
            ("many in a long time", "a5 b5", &[slow], 9_300, "a10: Moved"),
            (
                "more than are remembered",
                "a5 b5",
                &[full],
                1_999,
                "a5 b5: Flapping, again at 2000",
            ),
            ("a first placement", "", &[on], 1_400, "a5 b5: AllReady"),
        ],
    );
}

#[test]
fn what_may_not_run_twice_stays_where_it_may_still_run() {
    let lost = "b silent since=1000";
    let fenced = "b silent since=1000 fenced";
    let back = "b since=5000 turns=+0,-1000,+5000";
    for (case, kinds, now_at, other, now, expected) in [
        ("it stays", DB, "a5 b5", lost, 9_000, "a5 b5: Stateful"),
        ("said to be down", DB, "a5 b5", fenced, 9_000, "a10: Moved"),
        ("nothing of it is there", DB, "a10", lost, 9_000, "a10: Moved"),
        (
            "beside what may",
            BOTH,
            "a5 b5",
            lost,
            9_000,
            "a10 b0 | a5 b5: Stateful",
        ),
        (
            "soon after",
            BOTH,
            "a5 b5",
            lost,
            1_299,
            "a5 b5 | a5 b5: Waiting, again at 1300",
        ),
        ("back again", DB, "a5 b5", back, 5_060, "a5 b5: AllReady"),
    ] {
        let clusters = ["a", other];
        for dynamic in [false, true] {
            let case_of = Case {
                dynamic,
                ..Case::new(kinds, now_at, &clusters)
            };
            assert_eq!(case_of.comes_to(now), expected, "{case}, by room: {dynamic}");
        }
    }
    let gone = Case::new(DB, "a5 b5", &["a"]);
    assert_eq!(
        gone.comes_to(1),
        "a10: AllReady",
        "its ManagedCluster was deleted"
    );
}

/// What was moved away, and stays so while the cluster is only just back, though another feed is there all the time.
#[test]
fn what_moved_does_not_come_back_with_what_stayed() {
    let clusters = ["a", "b since=5000 turns=+0,-1000,+5000"];
    let case = Case::new(BOTH, "a5 b5", &clusters);
    let mut object = case.object();
    object["status"]["replicas"]["apps/v1/Deployment/x"] = json!([10, 0]);
    for (now, expected) in [(5_001, "a10 b0 | a5 b5"), (5_060, "a5 b5 | a5 b5")] {
        let all = clusters.iter().map(|text| cluster(text));
        let placement = decide(&object, all, FailOver::On, now);
        let Decision::Bind { binding, .. } = &placement.decision else {
            panic!("{placement:?}")
        };
        assert_eq!(told(binding), expected, "{now}");
    }
}

#[test]
fn a_closed_gate_moves_nothing() {
    for b in ["b silent since=1000", "b silent since=1000 fenced", "b"] {
        let clusters = ["a", b];
        let case = Case {
            fail_over: FailOver::Off,
            ..Case::new(WEB, "a5 b5", &clusters)
        };
        assert_eq!(case.comes_to(9_000), "a5 b5: Off", "{b}");
    }
}

#[test]
fn a_message_names_clusters_and_is_bounded() {
    let mut clusters = vec!["a".to_owned()];
    clusters.extend((0..12).map(|n| format!("b{n:02} silent since=1000")));
    let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let report = Case::new(WEB, "a10", &clusters).place(1_100).fail_over.unwrap();
    assert!(
        report.message.contains("b00 (until 1970-01-01T00:21:40Z)"),
        "{}",
        report.message
    );
    assert!(report.message.ends_with("and 4 more"), "{}", report.message);
}

/// A run over hours: replicas move when they should, and never else.
#[test]
fn a_cluster_that_is_silent_comes_back_and_flaps() {
    // When the second of two clusters becomes ready, and when it stops.
    let turns = [
        (0, true),
        (1_000, false),
        (2_000, true),
        (4_000, false),
        (4_100, true),
        (6_000, false),
        (6_100, true),
        (6_200, false),
        (6_300, true),
        (6_400, false),
        (8_000, true),
    ];
    let mut moves = Vec::new();
    let mut object = Case::new(WEB, "a5 b5", &[]).object();
    let mut second = cluster("b");
    let mut looks = 0;
    let mut next = 0;
    for now in 0..12_000 {
        if let Some((_, ready)) = turns.iter().find(|(when, _)| *when == now) {
            let time = at(now).to_string();
            let turn = turns::noted(&second, *ready, &time).unwrap();
            let mut state = cluster(if *ready { "b" } else { "b silent" });
            meta::set_annotation(&mut state, api::annotations::READY_TURNS, &turn);
            second = state;
            next = now;
        }
        // As the scheduler does: at each change, and when it was told to look again.
        if now != next {
            continue;
        }
        looks += 1;
        let placement = decide(
            &object,
            [cluster("a"), second.clone()].into_iter(),
            FailOver::On,
            now,
        );
        let Decision::Bind { binding, .. } = &placement.decision else {
            panic!("{placement:?}")
        };
        next = placement
            .fail_over
            .and_then(|report| report.again)
            .map_or(-1, Timestamp::as_second);
        assert_ne!(next, now, "a look that asks for another one at once");
        if let Some(patch) = status_patch(&object["status"], binding)
            && patch["status"].get("replicas").is_some()
        {
            machinery::patch::merge_patch(&mut object, &patch);
            moves.push((now, told(binding)));
        }
    }
    let expected = [
        // Silent for five minutes, back for one.
        (1_300, "a10"),
        (2_060, "a5 b5"),
        // Away for a short while: nothing. It comes and goes: nothing, until it has been silent for ten minutes.
        (7_000, "a10"),
        (8_060, "a5 b5"),
    ];
    let moves: Vec<(i64, &str)> = moves.iter().map(|(now, shares)| (*now, &**shares)).collect();
    assert_eq!(moves, expected);
    assert!(looks < 40, "{looks} looks");
}
