//! The index against a look at every cluster.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Config, Decision, Inventory, Placement, Snapshot, Subscription, Verdict, decide, place, status_patch,
};

/// Some namespaces begin with others.
const WHO: [(&str, &str); 8] = [
    ("ns", "a"),
    ("ns", "b"),
    ("ns-1", "a"),
    ("ns-1", "c"),
    ("ns.1", "b"),
    ("n", "z"),
    ("m", "a"),
    ("m", "b"),
];

/// One cluster comes or changes; it goes if there is nothing to be said of it.
#[derive(Debug, Clone)]
struct Step {
    who: usize,
    state: Option<State>,
}

#[derive(Debug, Clone)]
struct State {
    zone: u8,
    size: u8,
    taint: usize,
    deleting: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let state = (0_u8..3, 0_u8..3, 0_usize..8, prop::bool::weighted(0.1));
    let state = state.prop_map(|(zone, size, taint, deleting)| State {
        zone,
        size,
        taint,
        deleting,
    });
    let step = (0..WHO.len(), prop::option::weighted(0.85, state));
    prop::collection::vec(step.prop_map(|(who, state)| Step { who, state }), 1..40)
}

fn key(who: usize) -> ClusterKey {
    ClusterKey::new(WHO[who].0, WHO[who].1)
}

fn cluster(who: usize, state: &State) -> Cluster {
    let mut labels = json!({"zone": format!("z{}", state.zone)});
    // Not all of them have it.
    if state.size > 0 {
        labels["size"] = json!(state.size.to_string());
    }
    let taint = |key: &str, effect: &str| json!([{"key": key, "value": "v", "effect": effect}]);
    let taints = match state.taint {
        0 => taint("k", "NoSchedule"),
        1 => taint("k", "NoExecute"),
        2 => taint("k", "PreferNoSchedule"),
        3 => taint(api::reasons::TAINT_UNSCHEDULABLE, "NoSchedule"),
        _ => json!([]),
    };
    let mut object = json!({"metadata": {"namespace": WHO[who].0, "name": WHO[who].1, "labels": labels},
        "spec": {"taints": taints}});
    if state.deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Cluster::from_value(&object).unwrap()
}

fn selectors() -> Vec<LabelSelector> {
    let texts = [
        "",
        "zone=z0",
        "zone=z1,size=1",
        "zone in (z0,z2)",
        "zone notin (z0)",
        "size",
        "!size",
        "size>1",
        "zone!=z1,size in (1,2)",
        "zone=none",
        "nobody=has",
    ];
    let mut all: Vec<LabelSelector> = texts
        .iter()
        .map(|text| LabelSelector::parse(text).unwrap())
        .collect();
    all.push(LabelSelector::nothing());
    all
}

/// An index that has seen all steps, and what there is after them.
#[derive(Default)]
struct Both {
    fleet: Fleet,
    there: BTreeMap<ClusterKey, Cluster>,
}

impl Both {
    fn take(&mut self, step: &Step) {
        let old = match &step.state {
            Some(state) => {
                let new = cluster(step.who, state);
                self.there.insert(new.key.clone(), new.clone());
                self.fleet.put(new)
            }
            None => {
                self.there.remove(&key(step.who));
                self.fleet.remove(&key(step.who))
            }
        };
        assert!(old.is_none_or(|old| old.key == key(step.who)));
    }

    fn anew(&self) -> Fleet {
        self.there.values().cloned().collect()
    }
}

/// What is asked for: who, and how it is divided.
fn spec(kind: usize, affinities: &[Value]) -> Value {
    let subscriber = |(index, affinity): (usize, &Value)| json!({"clusterAffinity": affinity, "weight": index + 1, "subGroupStrategy": {"minClusters": 2}});
    let subscribers: Vec<Value> = affinities.iter().enumerate().map(subscriber).collect();
    let (strategy, by) = [
        ("Replication", "Static"),
        ("Dividing", "Static"),
        ("Dividing", "Dynamic"),
    ][kind % 3];
    json!({"schedulingStrategy": strategy, "dividingScheduling": {"type": by}, "subscribers": subscribers,
        "schedulingBySubGroup": kind >= 3, "feeds": feeds()})
}

fn feeds() -> Value {
    json!([{"kind": "D", "apiVersion": "v1", "name": "x", "desiredReplicas": 7}, {"kind": "S", "apiVersion": "v1", "name": "y"}])
}

/// Decides, with answers where clusters have to be asked; as a text, for the snapshot is gone then.
fn outcome(fleet: &Fleet, object: &Value, start: usize) -> (String, Option<Value>) {
    let subscription = Subscription::from_value(object).unwrap();
    let (config, inventory) = (
        Config::default(),
        Inventory::from_value(&json!({"spec": {"feeds": feeds()}})),
    );
    let snapshot = Snapshot {
        inventory: Some(&inventory),
        start,
        ..Snapshot::of(&subscription, fleet, config.profile("default").unwrap())
    };
    let read = |snapshot: &Snapshot<'_>| {
        let placement = place(snapshot);
        let Placement {
            decision, fail_over, ..
        } = decide(snapshot);
        assert_eq!(
            (&decision, &fail_over),
            (&placement.decision, &placement.fail_over),
            "why it is so changes nothing"
        );
        let patch = match &decision {
            Decision::Bind { binding, .. } => {
                let chosen = |verdict: &Verdict| matches!(verdict, Verdict::Feasible { chosen: true, .. });
                assert!(placement.verdicts.len() == fleet.len());
                assert!(placement.verdicts.values().any(chosen) || !binding.clusters().is_empty());
                status_patch(&object["status"], binding)
            }
            Decision::Unfit { kept: Some(kept), .. } => status_patch(&object["status"], kept),
            Decision::Unfit { .. } | Decision::Predict(_) | Decision::Waiting(_) | Decision::Failed(_) => {
                None
            }
        };
        (format!("{placement:?}"), patch)
    };
    let Decision::Predict(asked) = decide(&snapshot).decision else {
        return read(&snapshot);
    };
    let room = |key: &&ClusterKey| u32::try_from(key.namespace.len()).unwrap();
    let answer = |key: &&ClusterKey| (ClusterKey::clone(key), Ok(vec![Some(room(key)), None]));
    read(&Snapshot {
        predictions: &asked.iter().map(answer).collect(),
        ..snapshot
    })
}

proptest! {
    #[test]
    fn selects_what_a_look_at_every_cluster_would(steps in steps(), kept in prop::collection::vec(any::<bool>(), 12)) {
        let selectors = selectors();
        let kept: Vec<&LabelSelector> = selectors.iter().zip(kept).filter(|(_, keep)| *keep).map(|(it, _)| it).collect();
        let mut both = Both::default();
        for (count, step) in steps.iter().enumerate() {
            // Some are kept before there is anything, some later.
            if let Some(selector) = kept.get(count) {
                both.fleet.keep(selector);
            }
            both.take(step);
            let fleet = &both.fleet;
            prop_assert!(fleet.iter().eq(both.there.values()));
            prop_assert_eq!(fleet.len(), both.there.len());
            prop_assert_eq!(fleet.get(&key(step.who)), both.there.get(&key(step.who)));
            for selector in &selectors {
                let found = both.there.values().filter(|it| !it.deleting && selects(selector, &it.labels));
                prop_assert!(fleet.selected_keys(selector).into_iter().eq(found.map(|it| &it.key)), "{}", selector);
            }
            let mut texts = fleet.by_key.slots.clone();
            fleet.sort_by_text(&mut texts);
            let texts: Vec<String> = texts.iter().map(|slot| fleet.cluster(*slot).key.to_string()).collect();
            prop_assert!(texts.is_sorted());
        }
        for selector in kept {
            both.fleet.release(selector);
        }
        prop_assert!(both.fleet.groups.is_empty());
        for who in 0..WHO.len() {
            both.fleet.remove(&key(who));
        }
        prop_assert!(both.fleet.is_empty() && both.fleet.labels.is_empty() && both.fleet.leaving == 0);
    }

    #[test]
    fn decides_as_from_scratch(steps in steps(), kind in 0_usize..6, start in 0_usize..20, warm in any::<bool>()) {
        let affinities = [json!({"matchLabels": {"zone": "z0"}}),
            json!({"matchExpressions": [{"key": "size", "operator": "Exists"}]})];
        let mut object = json!({"metadata": {"name": "s"}, "spec": spec(kind, &affinities)});
        let mut both = Both::default();
        if warm {
            for affinity in &affinities {
                both.fleet.keep(&LabelSelector::from_value(affinity).unwrap());
            }
        }
        for step in &steps {
            both.take(step);
            let ours = outcome(&both.fleet, &object, start);
            prop_assert_eq!(&ours, &outcome(&both.anew(), &object, start));
            if let Some(patch) = ours.1 {
                machinery::patch::merge_patch(&mut object, &patch);
            }
        }
    }
}
