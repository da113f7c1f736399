//! Replicas that may not run twice move the other way round than those with a floor: the cluster that gives reports
//! fewer before the one that takes gets more, so that there are never more of them than are wanted.

use std::fmt;

use api::stateful;

use crate::division::{Division, Share};
use crate::feed::Feed;
use crate::moves::{Situation, by_home, delivered};

/// Why a cluster does not get its share yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delayed {
    /// Whose.
    pub feed: Feed,
    /// The dedicated namespace of the cluster.
    pub namespace: String,
    /// How many it gets now.
    pub gets: u64,
    /// How many it is to have.
    pub wanted: u64,
    /// How many may still run elsewhere.
    pub elsewhere: u64,
}

impl fmt::Display for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            feed,
            namespace,
            gets,
            wanted,
            elsewhere,
        } = self;
        write!(
            f,
            "the cluster of {namespace} gets {gets} replica(s) of {feed} instead of {wanted}, while {elsewhere} may still \
             run elsewhere"
        )
    }
}

/// What a cluster gets while others may still run what it is to take over.
pub fn delay(situation: &Situation<'_>, division: Division) -> (Division, Vec<Delayed>) {
    let (Division::Shares(mut shares), Some(inventory)) = (division.clone(), situation.inventory) else {
        return (division, Vec::new());
    };
    let mut delayed = Vec::new();
    for share in &mut shares {
        if !stateful::is(inventory, &share.feed) {
            continue;
        }
        if let Some(delay) = of_feed(situation, share) {
            share.replicas = delay.gets;
            delayed.push(delay);
        }
    }
    (Division::Shares(shares), delayed)
}

/// Free replicas go to those that lack some, in the order of the binding: so every cluster's look comes to the same.
fn of_feed(situation: &Situation<'_>, share: &Share) -> Option<Delayed> {
    let Share {
        feed,
        path,
        replicas: wanted,
    } = share;
    if delivered(situation.own, feed, path).unwrap_or(0) >= *wanted {
        return None;
    }
    let desired = situation.desired(feed)?;
    let all = (situation.all)();
    let of = by_home(&all);
    let given = |home: &str| {
        let mut tallies = of.get(home).into_iter().flatten();
        tallies.find_map(|it| it.delivers(feed, path)).unwrap_or(0)
    };
    let taken = |but: Option<&str>| {
        let others = of.iter().filter(|(home, _)| Some(**home) != but);
        let running = others.map(|(home, tallies)| {
            let reported = tallies.iter().filter_map(|it| it.running(feed)).max();
            let runs = given(home).max(reported.unwrap_or(0));
            if runs > 0 && situation.may_run(home) {
                runs
            } else {
                0
            }
        });
        running.fold(0, u64::saturating_add)
    };
    let mut free = desired.saturating_sub(taken(None));
    for (home, wanted) in situation.shares(feed)? {
        let has = given(home);
        let gives = wanted.saturating_sub(has).min(free);
        free -= gives;
        if home == situation.namespace {
            let gets = has + gives;
            return (gets < wanted).then(|| Delayed {
                feed: feed.clone(),
                namespace: home.to_owned(),
                gets,
                wanted,
                elsewhere: taken(Some(home)),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::annotations::{FENCED, STATEFUL};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use machinery::meta;
    use serde_json::{Value, json};

    use super::*;
    use crate::division;
    use crate::moves::Tally;

    const KINDS: [&str; 2] = ["StatefulSet", "Deployment"];

    fn feed(kind: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind, "namespace": "shop", "name": "db"})
    }

    /// What a cluster was given and says that it runs; nothing without a Description.
    type State = Option<(u64, u64)>;

    fn description((home, state): (&str, &State), kind: &str) -> Option<Arc<Value>> {
        let (given, runs) = (*state)?;
        let mut object = feed(kind);
        object["metadata"] = json!({"namespace": "shop", "name": "db"});
        object["spec"] = json!({"replicas": given});
        let mut report = feed(kind);
        report["observedStatus"] = json!({"replicas": runs});
        Some(Arc::new(
            json!({"metadata": {"namespace": home}, "spec": {"raw": [BASE64.encode(object.to_string())]},
            "status": {"manifestStatuses": [report]}}),
        ))
    }

    /// What each of three clusters gets.
    fn gets(
        kind: &str,
        listed: bool,
        desired: u64,
        shares: [u64; 3],
        states: &[State; 3],
        lost: &str,
    ) -> [u64; 3] {
        let key = format!("apps/v1/{kind}/shop/db");
        let mut entry = feed(kind);
        entry["desiredReplicas"] = json!(desired);
        entry["replicaJsonPath"] = json!("/spec/replicas");
        let mut inventory = json!({"metadata": {}, "spec": {"feeds": [entry]}});
        if listed {
            meta::set_annotation(&mut inventory, STATEFUL, &key);
        }
        let subscription = json!({"spec": {"schedulingStrategy": "Dividing"}, "status":
            {"bindingClusters": ["a/a", "b/b", "c/c"], "replicas": {key: shares}}});
        let homes = ["a", "b", "c"];
        let descriptions: Vec<_> = homes
            .into_iter()
            .zip(states)
            .filter_map(|it| description(it, kind))
            .collect();
        let clusters = |home: &str| {
            let fenced = json!({FENCED: (home == lost).to_string()});
            vec![Arc::new(json!({"metadata": {"labels": fenced}}))]
        };
        homes.map(|home| {
            let division = division::of(Some(&subscription), Some(&inventory), home);
            let own = descriptions.iter().filter(|it| meta::namespace(it) == home);
            let own: Vec<_> = own.cloned().collect();
            let situation = Situation {
                subscription: &subscription,
                inventory: Some(&inventory),
                namespace: home,
                own: &own,
                all: &|| descriptions.iter().map(|it| Arc::new(Tally::of(it))).collect(),
                clusters: &clusters,
            };
            let (Division::Shares(shares), _) = delay(&situation, division) else {
                panic!("it is divided")
            };
            shares[0].replicas
        })
    }

    #[test]
    fn takes_what_others_no_longer_run() {
        let none = None;
        for (case, shares, states, lost, expected) in [
            ("first placement", [3, 3, 4], [none; 3], "", [3, 3, 4]),
            (
                "nothing changes",
                [5, 5, 0],
                [Some((5, 5)), Some((5, 5)), none],
                "",
                [5, 5, 0],
            ),
            (
                "the giver has not heard",
                [2, 8, 0],
                [Some((5, 5)), Some((5, 5)), none],
                "",
                [2, 5, 0],
            ),
            (
                "the giver was told",
                [2, 8, 0],
                [Some((2, 5)), Some((5, 5)), none],
                "",
                [2, 5, 0],
            ),
            (
                "the giver has begun",
                [2, 8, 0],
                [Some((2, 4)), Some((5, 5)), none],
                "",
                [2, 6, 0],
            ),
            (
                "the giver is done",
                [2, 8, 0],
                [Some((2, 2)), Some((5, 5)), none],
                "",
                [2, 8, 0],
            ),
            (
                "two take",
                [0, 6, 4],
                [Some((0, 6)), Some((4, 4)), none],
                "",
                [0, 4, 0],
            ),
            (
                "the first takes first",
                [0, 6, 4],
                [Some((0, 3)), Some((4, 4)), none],
                "",
                [0, 6, 1],
            ),
            (
                "what was taken is taken",
                [0, 6, 4],
                [Some((0, 3)), Some((6, 4)), none],
                "",
                [0, 6, 1],
            ),
            (
                "a cluster that is lost",
                [0, 10, 0],
                [Some((5, 5)), Some((5, 5)), none],
                "a",
                [0, 10, 0],
            ),
        ] {
            let got = gets("StatefulSet", false, 10, shares, &states, lost);
            assert_eq!(got, expected, "{case}");
        }
        let states = [Some((5, 5)), Some((5, 5)), None];
        for (kind, listed, expected) in [
            ("Deployment", false, 8),
            ("Deployment", true, 5),
            ("StatefulSet", false, 5),
        ] {
            let got = gets(kind, listed, 10, [2, 8, 0], &states, "");
            assert_eq!(got, [2, expected, 0], "{kind} {listed}");
        }
    }

    /// However a move is carried out step by step, there are never more than are wanted, and it comes to its end.
    #[test]
    fn a_move_never_runs_anything_twice() {
        for kind in KINDS {
            for target in [[0_u64, 10, 0], [5, 5, 0], [1, 2, 7], [0, 0, 10]] {
                let mut states: [State; 3] = [Some((8, 8)), Some((2, 2)), None];
                let mut rounds = 0;
                while states.map(|it| it.unwrap_or_default()) != target.map(|n| (n, n)) {
                    rounds += 1;
                    assert!(rounds < 100, "{states:?} never becomes {target:?}");
                    // All look at the same, and all of them act.
                    let wanted = gets(kind, true, 10, target, &states, "");
                    for (state, wanted) in states.iter_mut().zip(wanted) {
                        let (_, runs) = state.unwrap_or_default();
                        // What is too much ends one by one, what is new begins at once.
                        let runs = if runs > wanted { runs - 1 } else { wanted };
                        *state = Some((wanted, runs));
                    }
                    let sum: u64 = states.iter().flatten().map(|(_, runs)| runs).sum();
                    assert!(sum <= 10, "{states:?} on the way to {target:?}");
                }
            }
        }
    }

    #[test]
    fn says_why_a_share_is_late() {
        let delayed = Delayed {
            feed: Feed::from_value(&feed("StatefulSet")),
            namespace: "ns-b".into(),
            gets: 5,
            wanted: 8,
            elsewhere: 5,
        };
        assert_eq!(
            delayed.to_string(),
            "the cluster of ns-b gets 5 replica(s) of StatefulSet shop/db instead of 8, while 5 may still run elsewhere"
        );
    }
}
