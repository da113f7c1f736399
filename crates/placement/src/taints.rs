//! The plugin TaintToleration: taints keep Subscriptions off clusters, or make them less welcome.
//!
//! The rules are Kubernetes' own (`core/v1` `Toleration.ToleratesTaint`).

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::outage::TOLERATED;

/// A taint of a ManagedCluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Taint {
    /// From an element of `spec.taints`.
    pub fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            key: text("key"),
            value: text("value"),
            effect: text("effect"),
        }
    }

    fn repels(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }

    /// Whether it is the one that the controllers put on a cluster that is not ready, and take off again: it keeps new
    /// work away, and says nothing about what is there.
    pub fn means_not_ready(&self) -> bool {
        self.key == api::reasons::TAINT_UNSCHEDULABLE && self.effect == "NoSchedule"
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}: {}}}", self.key, self.value)
    }
}

/// A toleration of a Subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Toleration {
    /// Its key; empty means any.
    pub key: String,
    /// `Exists`, `Equal`, or empty, which means `Equal`.
    pub operator: String,
    /// Its value, compared under `Equal`.
    pub value: String,
    /// Its effect; empty means any.
    pub effect: String,
    /// `tolerationSeconds`: for how long a cluster that is not ready keeps its replicas; none means for ever.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// From an element of `spec.clusterTolerations`.
    pub fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            seconds: value["tolerationSeconds"].as_i64(),
        }
    }

    /// Whether it tolerates the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        let value = match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        };
        effect && key && value
    }
}

/// Whether a taint keeps a Subscription with these tolerations off its cluster.
pub fn keeps_off(taint: &Taint, tolerations: &[Toleration]) -> bool {
    // Who tolerates a cluster that is not ready for a while keeps what is there, and brings nothing new.
    let for_ever = |toleration: &Toleration| toleration.seconds.is_none() || !taint.means_not_ready();
    let tolerates = |toleration: &Toleration| toleration.tolerates(taint) && for_ever(toleration);
    taint.repels() && !tolerations.iter().any(tolerates)
}

/// For how long a cluster that is not ready keeps its replicas: the least that the tolerations of its taint say, whatever
/// their effect; zero where that is negative.
pub fn patience(tolerations: &[Toleration]) -> Duration {
    let of_it = |toleration: &&Toleration| {
        let any_key = toleration.key.is_empty() && toleration.operator == "Exists";
        any_key || toleration.key == api::reasons::TAINT_UNSCHEDULABLE
    };
    let seconds = tolerations
        .iter()
        .filter(of_it)
        .filter_map(|toleration| toleration.seconds);
    let least = seconds.min().map(|seconds| u64::try_from(seconds).unwrap_or(0));
    least.map_or(TOLERATED, Duration::from_secs)
}

/// Whether a taint takes away what is on its cluster: the division of replicas moves them, at once.
///
/// A user's `NoSchedule` keeps new work off and leaves what is there, as it does with pods and nodes.
pub fn evicts(taint: &Taint, tolerations: &[Toleration]) -> bool {
    (taint.effect == "NoExecute" || taint.means_not_ready()) && keeps_off(taint, tolerations)
}

/// How many `PreferNoSchedule` taints nobody tolerates: the raw, reversed score.
pub fn unwelcome(taints: &[Taint], tolerations: &[Toleration]) -> i64 {
    let relevant = |toleration: &&Toleration| matches!(toleration.effect.as_str(), "" | "PreferNoSchedule");
    let tolerations: Vec<&Toleration> = tolerations.iter().filter(relevant).collect();
    let count = taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule")
        .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        .count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::{Cluster, Config, Fleet, Snapshot, Subscription, Verdict, place};

    /// `key=value:Effect`.
    fn taint(text: &str) -> Taint {
        let (pair, effect) = text.split_once(':').unwrap();
        let (key, value) = pair.split_once('=').unwrap();
        Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    /// `key operator value effect`, `-` for empty.
    fn toleration(text: &str) -> Toleration {
        let mut words = text.split(' ').map(|word| {
            if word == "-" {
                String::new()
            } else {
                word.to_owned()
            }
        });
        let mut next = || words.next().unwrap();
        Toleration {
            key: next(),
            operator: next(),
            value: next(),
            effect: next(),
            seconds: None,
        }
    }

    fn filter(tolerations: &[&str], taints: &[&str]) -> Option<String> {
        let taints: Vec<Taint> = taints.iter().map(|text| taint(text)).collect();
        let tolerations: Vec<Toleration> = tolerations.iter().map(|text| toleration(text)).collect();
        let first = taints.iter().find(|taint| keeps_off(taint, &tolerations));
        first.map(ToString::to_string)
    }

    #[test]
    fn knows_the_taint_of_clusters_that_are_not_ready() {
        for (text, expected) in [
            (
                "clusters.clusternet.io/unschedulable=ClusterStatusUnknown:NoSchedule",
                true,
            ),
            ("clusters.clusternet.io/unschedulable=mine:NoExecute", false),
            ("dedicated=user1:NoSchedule", false),
        ] {
            assert_eq!(taint(text).means_not_ready(), expected, "{text}");
        }
    }

    #[test]
    fn filters_by_taints() {
        const USER1: &str = "dedicated=user1:NoSchedule";
        type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], Option<&'a str>);
        let table: [Row<'_>; 10] = [
            ("F1", &[], &[USER1], Some("{dedicated: user1}")),
            ("F2", &["dedicated - user1 NoSchedule"], &[USER1], None),
            (
                "F3",
                &["dedicated Equal user2 NoSchedule"],
                &[USER1],
                Some("{dedicated: user1}"),
            ),
            ("F4", &["foo Exists - NoSchedule"], &["foo=bar:NoSchedule"], None),
            (
                "F5",
                &["dedicated Equal user2 NoSchedule", "foo Exists - NoSchedule"],
                &["dedicated=user2:NoSchedule", "foo=bar:NoSchedule"],
                None,
            ),
            (
                "F6",
                &["foo Equal bar PreferNoSchedule"],
                &["foo=bar:NoSchedule"],
                Some("{foo: bar}"),
            ),
            ("F7", &["foo Equal bar -"], &["foo=bar:NoSchedule"], None),
            (
                "F8",
                &["dedicated Equal user2 NoSchedule"],
                &["dedicated=user1:PreferNoSchedule"],
                None,
            ),
            ("F9", &[], &["dedicated=user1:PreferNoSchedule"], None),
            (
                "NoExecute",
                &["- Exists - NoSchedule"],
                &["a=b:NoSchedule", "c=d:NoExecute"],
                Some("{c: d}"),
            ),
        ];
        for (row, tolerations, taints, expected) in table {
            assert_eq!(filter(tolerations, taints).as_deref(), expected, "{row}");
        }
    }

    #[test]
    fn scores_by_taints() {
        let scores = |tolerations: &[&str], clusters: &[&[&str]]| -> Vec<i64> {
            let spec = json!({"subscribers": [{"clusterAffinity": {}}]});
            let mut subscription = Subscription::from_value(&json!({"spec": spec})).unwrap();
            subscription.tolerations = tolerations.iter().map(|text| toleration(text)).collect();
            let cluster = |(index, taints): (usize, &&[&str])| {
                let object = json!({"metadata": {"namespace": "ns", "name": index.to_string()}});
                let mut cluster = Cluster::from_value(&object).unwrap();
                cluster.taints = taints.iter().map(|text| taint(text)).collect();
                cluster
            };
            let clusters: Fleet = clusters.iter().enumerate().map(cluster).collect();
            let config = Config::default();
            let profile = config.profile("default").unwrap();
            let placement = place(&Snapshot::of(&subscription, &clusters, profile));
            let score = |verdict: &Verdict| {
                let Verdict::Feasible { scores, .. } = verdict else {
                    panic!("{verdict:?}")
                };
                scores[0].score
            };
            placement.verdicts.values().map(score).collect()
        };
        let (foo, a, b) = (
            "foo=bar:PreferNoSchedule",
            "a=1:PreferNoSchedule",
            "b=2:PreferNoSchedule",
        );
        assert_eq!(
            scores(
                &["foo Equal bar PreferNoSchedule"],
                &[&[foo], &["foo=blah:PreferNoSchedule"]]
            ),
            [100, 0],
            "T1"
        );
        let both = ["a Equal 1 PreferNoSchedule", "b Equal 2 PreferNoSchedule"];
        assert_eq!(scores(&both, &[&[], &[a], &[a, b]]), [100, 100, 100], "T2");
        assert_eq!(
            scores(&["foo Equal bar PreferNoSchedule"], &[&[], &[a], &[a, b]]),
            [100, 50, 0],
            "T3"
        );
        let wrong_effect = ["a Equal 1 NoSchedule", "b Equal 2 NoSchedule"];
        assert_eq!(
            scores(&wrong_effect, &[&[], &["a=1:NoSchedule"], &[a, b]]),
            [100, 100, 0],
            "T4"
        );
        assert_eq!(scores(&[], &[&[], &[a]]), [100, 0], "T5");
    }
}
