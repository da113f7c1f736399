//! Is a cluster still there, and has it what it begins with? Conditions and taints, as a function of the objects and
//! the time.

use std::time::Duration;

use api::{annotations, clusters, reasons, turns};
use distribution::{Action, Next, Plan};
use jiff::Timestamp;
use machinery::{conditions, meta};
use serde_json::{Value, json};

use super::init::{Beginning, Init, beginning};
use super::leave;

/// The heartbeat of a cluster that states none.
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(180);
/// How many heartbeats may be missing.
const MISSED: u32 = 3;
/// Heartbeats above this are not believed.
const LONGEST_HEARTBEAT: u64 = 24 * 3_600;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The ManagedCluster.
    pub cluster: &'a Value,
    /// Now.
    pub now: Timestamp,
    /// For how long the parent has had the cluster's latest report, by its own clock: that of the child may be wrong.
    pub report_age: Duration,
    /// What the cluster waits for before it gets anything else.
    pub init: Init<'a>,
}

/// What to do about a ManagedCluster at a time.
pub fn plan(view: &View<'_>) -> Plan {
    let View {
        cluster,
        now,
        report_age,
        init,
    } = *view;
    let mut plan = Plan::default();
    let verdict = judge(cluster, now, report_age);
    let beginning = beginning(cluster, init);
    let conditions = conditions(cluster, &verdict, &beginning, now);
    if let Some(patch) = status_patch(cluster, &verdict, &conditions) {
        plan.push(Action::Patch {
            resource: clusters::MANAGED_CLUSTERS,
            target: distribution::Target::of(cluster),
            subresource: Some("status"),
            patch,
        });
    }
    if let Some(patch) = spec_patch(cluster, &beginning, &conditions, now) {
        plan.push(Action::patch(&clusters::MANAGED_CLUSTERS, cluster, patch));
    }
    plan.next = match verdict {
        Verdict::Alive { left } => Next::Again(left),
        Verdict::Silent { .. } => Next::Done,
    };
    plan
}

/// What tells a cluster's latest report from the one before: the time that it states, by whatever clock.
pub(crate) fn report(cluster: &Value) -> Option<&str> {
    let stated = cluster["status"]["lastObservedTime"].as_str();
    stated.filter(|stated| !stated.is_empty())
}

/// Whether the cluster was heard of in time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// It was; ask again after this time.
    Alive { left: Duration },
    /// It was not.
    Silent { reason: &'static str, message: String },
}

fn judge(cluster: &Value, now: Timestamp, report_age: Duration) -> Verdict {
    let heartbeat = match cluster["status"]["heartbeatFrequencySeconds"].as_u64() {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.min(LONGEST_HEARTBEAT)),
        Some(_) | None => DEFAULT_HEARTBEAT,
    };
    let grace = heartbeat * MISSED;
    let reported = report(cluster).is_some();
    let age = if reported {
        report_age
    } else {
        let Ok(created) = meta::creation_timestamp(cluster).parse::<Timestamp>() else {
            return Verdict::Alive { left: grace };
        };
        Duration::try_from(now.duration_since(created)).unwrap_or(Duration::ZERO)
    };
    if age <= grace {
        return Verdict::Alive {
            left: grace - age + Duration::from_secs(1),
        };
    }
    let (reason, message) = if reported {
        (
            reasons::CLUSTER_STATUS_UNKNOWN,
            "agent stopped posting cluster status",
        )
    } else {
        (
            reasons::CLUSTER_STATUS_NEVER_UPDATED,
            "agent never posted cluster status",
        )
    };
    Verdict::Silent {
        reason,
        message: format!("{message} (limit {}s)", grace.as_secs()),
    }
}

/// The conditions as they should be; a condition that says what it said keeps its times.
fn conditions(cluster: &Value, verdict: &Verdict, beginning: &Beginning, now: Timestamp) -> Vec<Value> {
    let mut conditions = cluster["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut say = |kind: &str, status: &str, reason: &str, message: &str| {
        let new = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": conditions::time(now),
        });
        conditions = conditions::merge(&conditions, new);
    };
    if let Verdict::Silent { reason, message } = verdict {
        say(reasons::READY, "Unknown", reason, message);
    }
    let (status, reason, message) = match beginning {
        Beginning::Disabled => (
            "True",
            reasons::CLUSTER_INIT_DISABLED,
            "cluster init is not wanted",
        ),
        Beginning::Waiting { message, .. } => ("False", reasons::CLUSTER_INIT_WAITING, message.as_str()),
        Beginning::Done { .. } => ("True", reasons::CLUSTER_INIT_DONE, "the init workload is there"),
        Beginning::Begun => return conditions,
    };
    say(reasons::CLUSTER_INIT, status, reason, message);
    conditions
}

fn status_patch(cluster: &Value, verdict: &Verdict, conditions: &[Value]) -> Option<Value> {
    let status = &cluster["status"];
    let mut patch = json!({});
    if status["conditions"].as_array().map(Vec::as_slice) != Some(conditions) {
        patch["conditions"] = json!(conditions);
    }
    if matches!(verdict, Verdict::Silent { .. }) {
        for field in ["healthz", "livez", "readyz"] {
            if status[field] == true {
                patch[field] = json!(false);
            }
        }
    }
    (patch != json!({})).then(|| at_version(cluster, json!({"status": patch})))
}

/// The taints, the init workload, the finalizer, the labels that say who the cluster is, and when it turned ready.
fn spec_patch(cluster: &Value, beginning: &Beginning, conditions: &[Value], now: Timestamp) -> Option<Value> {
    let mut patch = json!({});
    let have = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let wanted = taints(&have, conditions);
    if wanted != have {
        patch["spec"] = json!({"taints": wanted});
    }
    if let Beginning::Waiting { base: Some(base), .. } | Beginning::Done { base } = beginning
        && cluster["spec"]["clusterInitBaseName"].is_null()
    {
        patch["spec"]["clusterInitBaseName"] = json!(base);
    }
    if !meta::is_deleting(cluster) && !meta::has_finalizer(cluster, leave::FINALIZER) {
        let finalizers: Vec<&str> = meta::finalizers(cluster).chain([leave::FINALIZER]).collect();
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    for (key, value) in clusters::identity_labels(cluster) {
        if !meta::is_deleting(cluster) && meta::label(cluster, key) != Some(value) {
            patch["metadata"]["labels"][key] = json!(value);
        }
    }
    if let Some(ready) = conditions.iter().find(|it| it["type"] == reasons::READY)
        && let Some(turns) = turns::noted(cluster, ready["status"] == "True", &conditions::time(now))
    {
        patch["metadata"]["annotations"][annotations::READY_TURNS] = json!(turns);
    }
    (patch != json!({})).then(|| at_version(cluster, patch))
}

/// The taints that the conditions ask for; those of others stay.
fn taints(have: &[Value], conditions: &[Value]) -> Vec<Value> {
    let mut taints = have.to_vec();
    let find = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind);
    match find(reasons::READY) {
        Some(ready) if ready["status"] != "True" => {
            let value = ready["reason"].as_str().unwrap_or_default();
            add_taint(&mut taints, reasons::TAINT_UNSCHEDULABLE, value);
        }
        Some(_) => remove_taint(&mut taints, reasons::TAINT_UNSCHEDULABLE),
        None => {}
    }
    match find(reasons::CLUSTER_INIT) {
        Some(init) if init["status"] != "True" => {
            add_taint(
                &mut taints,
                reasons::TAINT_INITIALIZATION,
                reasons::CLUSTER_INIT_WAITING,
            );
        }
        Some(_) => remove_taint(&mut taints, reasons::TAINT_INITIALIZATION),
        None => {}
    }
    taints
}

/// Adds a taint of the effect NoSchedule, or gives the one that is there its value.
fn add_taint(taints: &mut Vec<Value>, key: &str, value: &str) {
    let wanted = json!({"key": key, "value": value, "effect": "NoSchedule"});
    match taints.iter_mut().find(|taint| is_taint(taint, key)) {
        Some(have) if have["value"] == value => {}
        Some(have) => *have = wanted,
        None => taints.push(wanted),
    }
}

fn remove_taint(taints: &mut Vec<Value>, key: &str) {
    taints.retain(|taint| !is_taint(taint, key));
}

/// Taints are the same by key and effect.
fn is_taint(taint: &Value, key: &str) -> bool {
    taint["key"] == key && taint["effect"] == "NoSchedule"
}

/// Lists are replaced whole, so only in the state that they were read from.
fn at_version(cluster: &Value, mut patch: Value) -> Value {
    if !patch["metadata"].is_object() {
        patch["metadata"] = json!({});
    }
    if !meta::resource_version(cluster).is_empty() {
        patch["metadata"]["resourceVersion"] = json!(meta::resource_version(cluster));
    }
    patch
}

#[cfg(test)]
mod tests {
    use api::labels;

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn ago(seconds: i64) -> String {
        let now: Timestamp = NOW.parse().unwrap();
        (now - jiff::SignedDuration::from_secs(seconds)).to_string()
    }

    /// Seconds since creation, since the last report, and between heartbeats.
    fn cluster(created: i64, reported: Option<i64>, heartbeat: Option<u64>) -> Value {
        let mut object =
            json!({"metadata": {"name": "c", "creationTimestamp": ago(created)}, "spec": {}, "status": {}});
        if let Some(reported) = reported {
            object["status"] = json!({"lastObservedTime": ago(reported), "readyz": true, "livez": true, "healthz": true,
                "conditions": [{"type": "Ready", "status": "True", "reason": "ManagedClusterReady"}]});
        }
        if let Some(heartbeat) = heartbeat {
            object["status"]["heartbeatFrequencySeconds"] = json!(heartbeat);
        }
        object
    }

    fn look(cluster: &Value, at: &str) -> Plan {
        let now: Timestamp = at.parse().unwrap();
        let reported = report(cluster).and_then(|report| report.parse().ok());
        let age = reported.map(|reported: Timestamp| now.duration_since(reported));
        looked(cluster, at, age.map_or(0, |age| age.as_secs()))
    }

    fn looked(cluster: &Value, at: &str, report_age: i64) -> Plan {
        plan(&View {
            cluster,
            now: at.parse().unwrap(),
            report_age: Duration::from_secs(report_age.try_into().unwrap_or(0)),
            init: Init::Off,
        })
    }

    #[test]
    fn the_clock_of_a_child_may_be_wrong() {
        for wrong in [-86_400, -600, 0, 600, 86_400] {
            let object = cluster(9_000, Some(wrong), Some(60));
            for (age, silent) in [(0, false), (179, false), (181, true)] {
                let status = after_actions(&object, looked(&object, NOW, age).actions);
                let unknown = ready(&status).is_some_and(|(status, _)| status == "Unknown");
                assert_eq!(unknown, silent, "wrong by {wrong} s, {age} s old");
            }
        }
    }

    fn after_actions(cluster: &Value, actions: Vec<Action>) -> Value {
        let mut object = cluster.clone();
        for action in actions {
            if let Action::Patch { patch, .. } = action {
                machinery::patch::merge_patch(&mut object, &patch);
            }
        }
        object
    }

    /// Carries the plan out as a server would.
    fn after(cluster: &Value, at: &str) -> Value {
        after_actions(cluster, look(cluster, at).actions)
    }

    fn ready(object: &Value) -> Option<(String, String)> {
        let conditions = object["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|it| it["type"] == "Ready")?;
        Some((
            ready["status"].as_str()?.to_owned(),
            ready["reason"].as_str()?.to_owned(),
        ))
    }

    #[test]
    fn notices_silence() {
        let unknown = |reason: &str| Some(("Unknown".to_owned(), reason.to_owned()));
        let well = Some(("True".to_owned(), "ManagedClusterReady".to_owned()));
        for (row, object, expected) in [
            ("H1", cluster(60, None, Some(60)), None),
            (
                "H2",
                cluster(190, None, Some(60)),
                unknown("ClusterStatusNeverUpdated"),
            ),
            (
                "H3",
                cluster(9_000, Some(240), Some(60)),
                unknown("ClusterStatusUnknown"),
            ),
            ("H4", cluster(9_000, Some(30), Some(60)), well.clone()),
            (
                "H5",
                cluster(9_000, Some(600), None),
                unknown("ClusterStatusUnknown"),
            ),
            ("9 minutes by default", cluster(9_000, Some(530), None), well),
        ] {
            let after = after(&object, NOW);
            assert_eq!(ready(&after), expected, "{row}");
            let silent = ready(&after).is_some_and(|(status, _)| status == "Unknown");
            assert_eq!(
                silent,
                after["spec"]["taints"]
                    .as_array()
                    .is_some_and(|it| !it.is_empty()),
                "{row}"
            );
            if silent {
                assert_ne!(after["status"]["readyz"], true, "{row}");
                assert_eq!(
                    after["spec"]["taints"][0]["value"].as_str(),
                    ready(&after).map(|it| it.1).as_deref()
                );
            }
        }
    }

    #[test]
    fn puts_back_the_labels_that_say_who_it_is() {
        let mut object = cluster(9_000, Some(30), Some(60));
        object["spec"]["clusterId"] = json!("id-c");
        object["metadata"]["labels"] = json!({labels::CLUSTER_NAME: "member-1", "region": "north"});
        let after = after(&object, NOW);
        assert_eq!(
            after["metadata"]["labels"],
            json!({labels::CLUSTER_NAME: "c", labels::CLUSTER_ID: "id-c", "region": "north"})
        );
        assert!(!look(&after, NOW).writes());
    }

    #[test]
    fn asks_for_nothing_more_once_it_is_said() {
        let silent = after(&cluster(9_000, Some(600), Some(60)), NOW);
        let again = look(&silent, NOW);
        assert_eq!(again, Plan::default());
        let later = look(&silent, "2026-01-01T13:00:00Z");
        assert!(!later.writes(), "time alone changes nothing");
        let alive = after(&cluster(9_000, Some(30), Some(60)), NOW);
        let again = look(&alive, NOW);
        assert!(!again.writes());
        assert_eq!(again.next, Next::Again(Duration::from_secs(151)));
    }

    #[test]
    fn takes_both_taints_off_at_once_and_leaves_those_of_others() {
        let mut object = cluster(9_000, Some(30), Some(60));
        let theirs = json!({"key": reasons::TAINT_UNSCHEDULABLE, "value": "x", "effect": "NoExecute"});
        object["spec"]["taints"] = json!([
            {"key": reasons::TAINT_UNSCHEDULABLE, "value": "ClusterStatusUnknown", "effect": "NoSchedule"},
            theirs,
            {"key": reasons::TAINT_INITIALIZATION, "value": "ClusterInitWaiting", "effect": "NoSchedule"},
        ]);
        assert_eq!(after(&object, NOW)["spec"]["taints"], json!([theirs]), "K3");
        assert!(
            !look(&after(&object, NOW), NOW).writes(),
            "K3: what is absent is not taken off"
        );
    }

    #[test]
    fn a_taint_that_is_there_takes_the_new_reason() {
        let taint = |value: &str, effect: &str| json!({"key": reasons::TAINT_UNSCHEDULABLE, "value": value, "effect": effect});
        let mut object = cluster(9_000, Some(600), Some(60));
        object["spec"]["taints"] = json!([
            taint("x", "NoExecute"),
            taint("ClusterStatusNeverUpdated", "NoSchedule")
        ]);
        assert_eq!(
            after(&object, NOW)["spec"]["taints"],
            json!([
                taint("x", "NoExecute"),
                taint("ClusterStatusUnknown", "NoSchedule")
            ]),
            "K3"
        );
    }

    #[test]
    fn keeps_the_time_of_the_last_transition() {
        let mut object = after(&cluster(190, None, Some(60)), NOW);
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], NOW);
        object["status"]["lastObservedTime"] = json!(ago(200));
        let changed = after(&object, "2026-01-01T12:30:00Z");
        assert_eq!(ready(&changed).unwrap().1, "ClusterStatusUnknown");
        assert_eq!(changed["status"]["conditions"][0]["lastTransitionTime"], NOW);
    }
}
