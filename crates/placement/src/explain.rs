//! A decision in words: for each cluster whether a Subscription goes there, why, and what would have to change.

use api::labels;

use crate::config::Plugin;
use crate::decision::{Placement, PluginScore, Snapshot, Verdict};
use crate::model::{Cluster, ClusterKey, Subscription};
use crate::taints;

/// What a Subscription and one cluster have to do with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The cluster.
    pub cluster: ClusterKey,
    /// Whether it is bound to it now.
    pub bound: bool,
    /// One word for the verdict: `chosen`, `fits`, `rejected`, `unmatched`, `leaving` or `skipped`.
    pub verdict: &'static str,
    /// Why, empty if there is nothing to say.
    pub why: String,
    /// What would have to change for another verdict, empty if nothing would.
    pub remedy: String,
    /// Each scoring plugin's opinion of a cluster that fits.
    pub scores: Vec<PluginScore>,
    /// Their weighted sum.
    pub total: Option<i64>,
}

/// A row for each cluster that a decision looked at, in the order of their keys.
pub fn explain(snapshot: &Snapshot<'_>, placement: &Placement<'_>) -> Vec<Row> {
    let subscription = snapshot.subscription;
    placement
        .verdicts
        .iter()
        .map(|(key, verdict)| {
            let mut row = Row {
                cluster: key.clone(),
                bound: subscription.bound.contains(key),
                verdict: "",
                why: String::new(),
                remedy: String::new(),
                scores: Vec::new(),
                total: None,
            };
            if let Some(cluster) = snapshot.clusters.get(key) {
                describe(subscription, cluster, verdict, &mut row);
            }
            row
        })
        .collect()
}

fn describe(subscription: &Subscription, cluster: &Cluster, verdict: &Verdict, row: &mut Row) {
    match verdict {
        Verdict::Deleting => {
            row.verdict = "leaving";
            row.why = "the cluster is being taken out of the fleet".to_owned();
        }
        Verdict::Unmatched => {
            row.verdict = "unmatched";
            (row.why, row.remedy) = nearest(subscription, cluster);
        }
        Verdict::Unsampled => {
            row.verdict = "skipped";
            row.why = "enough other clusters fit".to_owned();
            row.remedy = "raise percentageOfClustersToScore of the scheduler".to_owned();
        }
        Verdict::Unsteady => {
            row.verdict = "skipped";
            row.why = "the cluster is ready again, but not for long enough to get replicas back".to_owned();
            row.remedy = "wait until it is steady".to_owned();
        }
        Verdict::Rejected { plugin, reason } => {
            row.verdict = "rejected";
            let words = reason.trim_start_matches("cluster(s) ");
            row.why = format!("{}: {words}", plugin.name());
            if *plugin == Plugin::TaintToleration {
                row.remedy = tolerate(subscription, cluster);
            }
        }
        Verdict::Feasible {
            scores,
            total,
            chosen,
            kept_despite,
        } => {
            row.verdict = if *chosen { "chosen" } else { "fits" };
            row.scores.clone_from(scores);
            row.total = Some(*total);
            if let Some(taint) = kept_despite {
                row.why = format!("it stays, although the cluster got the taint {taint} since");
            } else if !chosen && subscription.by_sub_group {
                row.why = "the subgroups that match it are full of clusters with higher scores".to_owned();
                row.remedy = "raise subGroupStrategy.minClusters".to_owned();
            }
        }
    }
}

/// The terms of the subscriber that is nearest to matching, that do not hold.
fn nearest(subscription: &Subscription, cluster: &Cluster) -> (String, String) {
    let have = |key: &str| cluster.labels.get(key).map(String::as_str);
    let missing = |affinity: &machinery::selector::LabelSelector| -> Vec<String> {
        let terms = affinity.requirements().iter();
        terms
            .filter(|term| !term.matches(have(term.key())))
            .map(ToString::to_string)
            .collect()
    };
    let subscribers = subscription.subscribers.iter().enumerate();
    let nearest = subscribers
        .map(|(index, subscriber)| (index, missing(&subscriber.affinity)))
        // One without terms that selects nothing has no affinity at all.
        .filter(|(_, missing)| !missing.is_empty())
        .min_by_key(|(_, missing)| missing.len());
    let Some((index, missing)) = nearest else {
        return (
            "no subscriber has a clusterAffinity".to_owned(),
            "give one of spec.subscribers a clusterAffinity".to_owned(),
        );
    };
    let terms = missing.join(",");
    let keys = subscription.subscribers[index].affinity.requirements().iter();
    let failing: Vec<_> = keys.filter(|term| !term.matches(have(term.key()))).collect();
    let said: Vec<String> = failing
        .iter()
        .map(|term| match have(term.key()) {
            Some(value) => format!("{}={value}", term.key()),
            None => format!("no {}", term.key()),
        })
        .collect();
    let why = format!(
        "subscribers[{index}] wants {terms}, and the cluster has {}",
        said.join(", ")
    );
    let identity = [labels::CLUSTER_ID, labels::CLUSTER_NAME];
    let remedy = if failing.iter().any(|term| identity.contains(&term.key())) {
        format!("change subscribers[{index}]: who the cluster is cannot be changed")
    } else {
        format!("label the cluster so that {terms} holds, or change the subscriber")
    };
    (why, remedy)
}

/// What keeps a Subscription off because of taints, all of them at once.
fn tolerate(subscription: &Subscription, cluster: &Cluster) -> String {
    let taints = cluster
        .taints
        .iter()
        .filter(|taint| taints::keeps_off(taint, &subscription.tolerations));
    let (theirs, ready): (Vec<_>, Vec<_>) = taints.partition(|taint| !taint.means_not_ready());
    let mut steps = Vec::new();
    if !ready.is_empty() {
        steps.push("wait until the cluster is ready".to_owned());
    }
    if !theirs.is_empty() {
        let names: Vec<String> = theirs
            .iter()
            .map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect))
            .collect();
        steps.push(format!(
            "tolerate {} in spec.clusterTolerations, or take it off the cluster",
            names.join(" and ")
        ));
    }
    steps.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Config, Fleet, place};

    fn rows(spec: &Value, status: &Value, clusters: &[Value]) -> Vec<(String, bool, String, String)> {
        let object = json!({"metadata": {"name": "s"}, "spec": spec, "status": status});
        let subscription = Subscription::from_value(&object).unwrap();
        let clusters = clusters.iter().map(|object| Cluster::from_value(object).unwrap());
        let clusters: Fleet = clusters.collect();
        let config = Config::default();
        let snapshot = Snapshot::of(&subscription, &clusters, config.profile("default").unwrap());
        explain(&snapshot, &place(&snapshot))
            .into_iter()
            .map(|row| {
                let why = format!("{}|{}", row.verdict, row.why);
                (row.cluster.name, row.bound, why, row.remedy)
            })
            .collect()
    }

    fn cluster(name: &str, labels: &Value, taints: &Value) -> Value {
        json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}, "spec": {"taints": taints}})
    }

    #[test]
    fn says_of_each_cluster_why_and_what_would_change_it() {
        let spec = json!({"subscribers": [
            {"clusterAffinity": {"matchLabels": {"demo": "nginx", "region": "north"}}},
            {"clusterAffinity": {"matchLabels": {"demo": "nginx"}}},
        ]});
        let demo = json!({"demo": "nginx"});
        let taint = |key: &str| json!([{"key": key, "value": "x", "effect": "NoSchedule"}]);
        let mut leaving = cluster("e", &demo, &json!([]));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let clusters = [
            cluster("a", &demo, &json!([])),
            cluster("b", &json!({"demo": "web"}), &json!([])),
            cluster("c", &json!({}), &json!([])),
            cluster("d", &demo, &taint("dedicated")),
            leaving,
            cluster("f", &demo, &taint(api::reasons::TAINT_UNSCHEDULABLE)),
            cluster("g", &demo, &taint(api::reasons::TAINT_UNSCHEDULABLE)),
        ];
        let status = json!({"bindingClusters": ["ns/a", "ns/g"]});
        let unschedulable = api::reasons::TAINT_UNSCHEDULABLE;
        let expected = [
            ("a", true, "chosen|".to_owned(), ""),
            (
                "b",
                false,
                "unmatched|subscribers[1] wants demo=nginx, and the cluster has demo=web".to_owned(),
                "label the cluster so that demo=nginx holds, or change the subscriber",
            ),
            (
                "c",
                false,
                "unmatched|subscribers[1] wants demo=nginx, and the cluster has no demo".to_owned(),
                "label the cluster so that demo=nginx holds, or change the subscriber",
            ),
            (
                "d",
                false,
                "rejected|TaintToleration: had taint {dedicated: x}, that the subscription didn't tolerate"
                    .to_owned(),
                "tolerate dedicated=x:NoSchedule in spec.clusterTolerations, or take it off the cluster",
            ),
            (
                "e",
                false,
                "leaving|the cluster is being taken out of the fleet".to_owned(),
                "",
            ),
            (
                "f",
                false,
                format!(
                    "rejected|TaintToleration: had taint {{{unschedulable}: x}}, that the subscription didn't tolerate"
                ),
                "wait until the cluster is ready",
            ),
            (
                "g",
                true,
                format!("chosen|it stays, although the cluster got the taint {{{unschedulable}: x}} since"),
                "",
            ),
        ]
        .map(|(name, bound, why, remedy)| (name.to_owned(), bound, why, remedy.to_owned()));
        assert_eq!(rows(&spec, &status, &clusters), expected);
    }

    #[test]
    fn nobody_is_told_to_make_a_cluster_another() {
        let affinity = json!({"matchLabels": {labels::CLUSTER_NAME: "member-1"}});
        let mut other = cluster("member-2", &json!({}), &json!([]));
        other["spec"]["clusterId"] = json!("id");
        let found = rows(
            &json!({"subscribers": [{"clusterAffinity": affinity}]}),
            &json!({}),
            &[other],
        );
        assert_eq!(
            found[0].3,
            "change subscribers[0]: who the cluster is cannot be changed"
        );
    }

    #[test]
    fn a_subscriber_without_affinity_matches_nothing() {
        let found = rows(
            &json!({"subscribers": [{}]}),
            &json!({}),
            &[cluster("a", &json!({}), &json!([]))],
        );
        assert_eq!(found[0].2, "unmatched|no subscriber has a clusterAffinity");
    }

    #[test]
    fn a_full_subgroup_leaves_the_rest_out() {
        let group = json!({"clusterAffinity": {"matchLabels": {"city": "x"}}, "subGroupStrategy": {"minClusters": 1}});
        let spec = json!({"schedulingBySubGroup": true, "subscribers": [group]});
        let city = json!({"city": "x"});
        let found = rows(
            &spec,
            &json!({}),
            &[cluster("a", &city, &json!([])), cluster("b", &city, &json!([]))],
        );
        assert_eq!(found[0].2, "chosen|");
        assert!(found[1].2.starts_with("fits|the subgroups"), "{found:?}");
        assert_eq!(found[1].3, "raise subGroupStrategy.minClusters");
    }
}
