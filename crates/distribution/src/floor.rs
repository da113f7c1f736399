//! Safe moves: while replicas of a divided feed move between clusters, no fewer are ready than a Subscription declares.
//!
//! What grows, grows at once. A cluster that is to have fewer keeps so many of what it has that, with those that are
//! ready elsewhere as far as they are wanted there, the floor holds; one that is to have none keeps its Base until then.
//! What a cluster that is not ready said last counts for nothing. Without the annotation nothing is held.

use std::fmt;
use std::str::FromStr;

use api::annotations::MIN_AVAILABLE;
use api::stateful;
use machinery::{meta, resource};
use serde_json::Value;

use crate::division::Division;
use crate::feed::Feed;
use crate::moves::{Situation, by_home, delivered};

/// How many replicas of a feed are to be ready at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// So many.
    Count(u64),
    /// So many of a hundred that are wanted, rounded up.
    Percent(u64),
}

/// Text that is no floor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {MIN_AVAILABLE}: {0:?} is neither a number of replicas, such as 3, nor a share, such as 80%"
)]
pub struct InvalidFloor(String);

impl FromStr for Floor {
    type Err = InvalidFloor;

    fn from_str(text: &str) -> Result<Self, InvalidFloor> {
        let bad = || InvalidFloor(text.to_owned());
        match text.strip_suffix('%') {
            Some(share) => match share.parse() {
                Ok(share) if share <= 100 => Ok(Self::Percent(share)),
                Ok(_) | Err(_) => Err(bad()),
            },
            None => text.parse().map(Self::Count).map_err(|_| bad()),
        }
    }
}

impl Floor {
    /// Of a Subscription that declares one. One that declares nonsense moves nothing before all is ready elsewhere.
    pub fn of(subscription: &Value) -> Option<Self> {
        let text = meta::annotation(subscription, MIN_AVAILABLE)?;
        Some(text.parse().unwrap_or(Self::Percent(100)))
    }

    /// What is wrong with what a Subscription declares.
    pub fn fault(subscription: &Value) -> Option<InvalidFloor> {
        meta::annotation(subscription, MIN_AVAILABLE)?
            .parse::<Self>()
            .err()
    }

    /// How many of so many that are wanted.
    fn among(self, wanted: u64) -> u64 {
        match self {
            Self::Count(count) => count.min(wanted),
            Self::Percent(share) => wanted.saturating_mul(share).div_ceil(100),
        }
    }
}

/// Why a cluster keeps replicas that it is to lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose.
    pub feed: Feed,
    /// The dedicated namespace of the cluster.
    pub namespace: String,
    /// How many it keeps.
    pub keeps: u64,
    /// How many it is to have.
    pub wanted: u64,
    /// How many are ready elsewhere, as far as they are wanted there.
    pub ready: u64,
    /// How many have to be ready at any time.
    pub floor: u64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the cluster of {} keeps {} replica(s) of {} instead of {}: {} are ready elsewhere, and {} must be at any \
             time",
            self.namespace, self.keeps, self.feed, self.wanted, self.ready, self.floor
        )
    }
}

/// What the cluster gets while others are not ready yet: its share, or more of what it has.
pub fn hold(situation: &Situation<'_>, division: Division) -> (Division, Vec<Held>) {
    let Some(floor) = Floor::of(situation.subscription) else {
        return (division, Vec::new());
    };
    let Division::Shares(mut shares) = division else {
        return (division, Vec::new());
    };
    let mut held = Vec::new();
    for share in &mut shares {
        let Some(has) = delivered(situation.own, &share.feed, &share.path) else {
            continue;
        };
        if let Some(kept) = keep(situation, &share.feed, (share.replicas, has), floor) {
            share.replicas = kept.keeps;
            held.push(kept);
        }
    }
    (Division::Shares(shares), held)
}

/// Why the Base of the cluster, which is not bound any more, is to stay for now; nothing if it may go.
pub fn stays(situation: &Situation<'_>) -> Vec<Held> {
    let Some(floor) = Floor::of(situation.subscription) else {
        return Vec::new();
    };
    let entries = situation.inventory.and_then(|it| it["spec"]["feeds"].as_array());
    let divided = entries
        .into_iter()
        .flatten()
        .filter(|entry| !entry["desiredReplicas"].is_null());
    divided
        .filter_map(|entry| {
            let feed = Feed::from_value(entry);
            let path = entry["replicaJsonPath"].as_str()?;
            let has = delivered(situation.own, &feed, path)?;
            let held = keep(situation, &feed, (0, has), floor)?;
            // While its Base stays, so does all that it has.
            Some(Held { keeps: has, ..held })
        })
        .collect()
}

/// What the cluster keeps of a feed of which it is to have `wanted` and has `has`; `None` if it may shrink at once.
fn keep(situation: &Situation<'_>, feed: &Feed, (wanted, has): (u64, u64), floor: Floor) -> Option<Held> {
    // What may not run twice moves the other way round.
    if has <= wanted || !tells_readiness(feed) || stateful::is(situation.inventory?, feed) {
        return None;
    }
    let floor = floor.among(situation.desired(feed)?);
    let (shares, all) = (situation.shares(feed)?, (situation.all)());
    let reports = by_home(&all);
    let elsewhere = shares
        .into_iter()
        .filter(|(home, _)| *home != situation.namespace);
    let ready = elsewhere.map(|(home, share)| {
        let said = reports.get(home).into_iter().flatten().map(|it| it.ready(feed));
        let counts = share.min(said.max().unwrap_or(0));
        if counts > 0 && situation.is_ready(home) {
            counts
        } else {
            0
        }
    });
    let ready = ready.sum();
    let keeps = wanted.max(has.min(floor.saturating_sub(ready)));
    (keeps > wanted).then(|| Held {
        feed: feed.clone(),
        namespace: situation.namespace.to_owned(),
        keeps,
        wanted,
        ready,
        floor,
    })
}

/// Whether clusters say how many of a kind's replicas are ready: of others nobody could wait for that.
pub(crate) fn tells_readiness(feed: &Feed) -> bool {
    let (group, _) = resource::split_api_version(&feed.api_version);
    group == "apps" && ["Deployment", "ReplicaSet", "StatefulSet"].contains(&feed.kind.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use serde_json::json;

    use super::*;
    use crate::division;
    use crate::moves::Tally;

    const WEB: &str = "apps/v1/Deployment/shop/web";

    /// Bound to a, b and c with these shares; `text` is what is declared.
    fn subscription(text: &str, shares: [u64; 3]) -> Value {
        json!({
            "metadata": {"annotations": {MIN_AVAILABLE: text}},
            "spec": {"schedulingStrategy": "Dividing"},
            "status": {
                "bindingClusters": ["ns-a/a", "ns-b/b", "ns-c/c"], "replicas": {WEB: shares},
            },
        })
    }

    /// What the three say of so many ready replicas.
    fn reports(ready: [u64; 3]) -> Vec<Arc<Tally>> {
        let report = |(home, ready): (&str, u64)| {
            let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
                "observedStatus": {"readyReplicas": ready}});
            let said = json!({"metadata": {"namespace": home}, "status": {"manifestStatuses": [web]}});
            Arc::new(Tally::of(&Arc::new(said)))
        };
        ["ns-a", "ns-b", "ns-c"]
            .into_iter()
            .zip(ready)
            .map(report)
            .collect()
    }

    fn inventory(wanted: u64) -> Value {
        json!({"spec": {"feeds": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
             "desiredReplicas": wanted, "replicaJsonPath": "/spec/replicas"},
            {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "x"},
        ]}})
    }

    fn description(replicas: u64) -> [Arc<Value>; 1] {
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": "web"}, "spec": {"replicas": replicas}});
        [Arc::new(
            json!({"spec": {"raw": ["%", BASE64.encode(web.to_string())]}}),
        )]
    }

    /// A cluster that is ready, but for the one that is lost.
    fn cluster(home: &str, lost: &str) -> Vec<Arc<Value>> {
        let ready = if home == lost { "Unknown" } else { "True" };
        let condition = json!({"type": "Ready", "status": ready});
        vec![Arc::new(json!({"status": {"conditions": [condition]}}))]
    }

    /// What a cluster gets, which has so many.
    fn gets(home: &str, subscription: &Value, ready: [u64; 3], has: Option<u64>, lost: &str) -> u64 {
        let inventory = inventory(10);
        let division = division::of(Some(subscription), Some(&inventory), home);
        let descriptions = has.map(description);
        let situation = Situation {
            subscription,
            inventory: Some(&inventory),
            namespace: home,
            own: descriptions.as_ref().map_or(&[][..], |it| it),
            all: &|| reports(ready),
            clusters: &|home| cluster(home, lost),
        };
        let (division, _) = hold(&situation, division);
        let Division::Shares(shares) = division else {
            panic!("{division:?}")
        };
        shares[0].replicas
    }

    fn of_a(subscription: &Value, ready: [u64; 3], has: Option<u64>) -> u64 {
        gets("ns-a", subscription, ready, has, "")
    }

    #[test]
    fn shrinks_as_others_become_ready() {
        for (case, text, has, shares, ready, expected) in [
            ("growing is never held", "100%", 2, [5, 5, 0], [0, 0, 0], 5),
            ("nothing is ready elsewhere", "100%", 8, [2, 8, 0], [8, 0, 0], 8),
            ("some are", "100%", 8, [2, 8, 0], [8, 5, 0], 5),
            ("enough are", "100%", 8, [2, 8, 0], [8, 8, 0], 2),
            ("a lower floor", "50%", 8, [2, 8, 0], [8, 0, 0], 5),
            ("a count", "3", 8, [2, 8, 0], [8, 0, 0], 3),
            ("a count that holds already", "1", 8, [2, 8, 0], [8, 0, 0], 2),
            ("more than is wanted", "99", 8, [2, 8, 0], [8, 0, 0], 8),
            (
                "what another is to lose does not count",
                "100%",
                5,
                [0, 0, 10],
                [5, 5, 0],
                5,
            ),
            ("nonsense holds all", "many", 8, [2, 8, 0], [8, 0, 0], 8),
            ("none", "0", 8, [2, 8, 0], [8, 0, 0], 2),
        ] {
            assert_eq!(
                of_a(&subscription(text, shares), ready, Some(has)),
                expected,
                "{case}"
            );
        }
        assert_eq!(
            of_a(&subscription("100%", [2, 8, 0]), [0, 0, 0], None),
            2,
            "what is new has nothing to keep"
        );
        let mut plain = subscription("100%", [2, 8, 0]);
        plain["metadata"] = json!({});
        assert_eq!(of_a(&plain, [8, 0, 0], Some(8)), 2, "nothing is declared");
    }

    /// However a move is carried out step by step, the ready replicas never fall under the floor, and it comes to its
    /// end.
    #[test]
    fn a_move_never_falls_under_its_floor() {
        for floor in [0_u64, 3, 7, 10] {
            for target in [[0_u64, 10, 0], [5, 5, 0], [1, 2, 7], [0, 0, 10]] {
                let mut has = [8_u64, 2, 0];
                let mut ready = has;
                let text = floor.to_string();
                let mut rounds = 0;
                while ready != target {
                    rounds += 1;
                    assert!(rounds < 100, "floor {floor}: {ready:?} never becomes {target:?}");
                    let subscription = subscription(&text, target);
                    for (has, home) in has.iter_mut().zip(["ns-a", "ns-b", "ns-c"]) {
                        *has = gets(home, &subscription, ready, Some(*has), "");
                    }
                    // Pods that are too many go at once, new ones become ready one by one.
                    for (ready, has) in ready.iter_mut().zip(has) {
                        *ready = if *ready > has { has } else { has.min(*ready + 1) };
                    }
                    let sum: u64 = ready.iter().sum();
                    assert!(sum >= floor, "floor {floor}: {ready:?} on the way to {target:?}");
                }
            }
        }
    }

    /// What a cluster said before it fell silent is no promise that its replicas are there.
    #[test]
    fn a_cluster_that_is_not_ready_holds_no_floor() {
        for (case, shares, ready, lost, expected) in [
            ("all are heard of", [2, 4, 4], [8, 4, 4], "", 2),
            ("one is not", [2, 4, 4], [8, 4, 4], "ns-c", 4),
            ("none is to have anything there", [2, 8, 0], [8, 8, 4], "ns-c", 2),
            ("the only other", [2, 8, 0], [8, 8, 0], "ns-b", 8),
            ("itself", [2, 8, 0], [8, 8, 0], "ns-a", 2),
        ] {
            let subscription = subscription("80%", shares);
            assert_eq!(
                gets("ns-a", &subscription, ready, Some(8), lost),
                expected,
                "{case}"
            );
        }
    }

    #[test]
    fn a_cluster_that_is_bound_no_more_waits_for_the_others() {
        let inventory = inventory(10);
        let mut moved = subscription("80%", [0, 10, 0]);
        moved["status"]["bindingClusters"] = json!(["ns-b/b"]);
        moved["status"]["replicas"] = json!({WEB: [10]});
        let held = |moved: &Value, inventory: Option<&Value>, ready: u64| {
            let situation = Situation {
                subscription: moved,
                inventory,
                namespace: "ns-a",
                own: &description(10),
                all: &|| reports([0, ready, 0]),
                clusters: &|home| cluster(home, ""),
            };
            stays(&situation)
        };
        assert_eq!(
            held(&moved, Some(&inventory), 3)[0].to_string(),
            "the cluster of ns-a keeps 10 replica(s) of Deployment shop/web instead of 0: 3 are ready elsewhere, and 8 \
             must be at any time"
        );
        assert_eq!(held(&moved, Some(&inventory), 8), []);
        assert_eq!(held(&moved, None, 3), []);
        moved["metadata"] = json!({});
        assert_eq!(held(&moved, Some(&inventory), 3), []);
    }

    #[test]
    fn kinds_that_tell_no_readiness_are_not_waited_for() {
        for (api_version, kind, expected) in [
            ("apps/v1", "Deployment", true),
            ("apps/v1", "StatefulSet", true),
            ("batch/v1", "Job", false),
            ("v1", "ReplicationController", false),
            ("argoproj.io/v1alpha1", "Rollout", false),
        ] {
            let feed = Feed::from_value(&json!({"apiVersion": api_version, "kind": kind, "name": "x"}));
            assert_eq!(tells_readiness(&feed), expected, "{kind}");
        }
    }

    #[test]
    fn reads_what_is_declared() {
        for (text, expected) in [
            ("3", Some(Floor::Count(3))),
            ("0", Some(Floor::Count(0))),
            ("80%", Some(Floor::Percent(80))),
            ("100%", Some(Floor::Percent(100))),
            ("101%", None),
            ("-1", None),
            ("", None),
            ("%", None),
            ("a lot", None),
        ] {
            assert_eq!(text.parse::<Floor>().ok(), expected, "{text:?}");
        }
        let fault = Floor::fault(&subscription("x", [0; 3]));
        let fault = fault.expect("it is none").to_string();
        assert!(fault.contains(MIN_AVAILABLE) && fault.contains("\"x\"") && fault.contains("80%"));
    }
}
