//! A pod's row: what its containers' states amount to.

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::cells::condition;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether an init container runs beside the others.
fn is_sidecar(pod: &Value, name: &Value) -> bool {
    list(&pod["spec"]["initContainers"])
        .iter()
        .any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
}

/// `READY`: ready containers of all.
pub(super) fn ready(pod: &Value) -> String {
    let sidecars = list(&pod["spec"]["initContainers"])
        .iter()
        .filter(|container| container["restartPolicy"] == "Always")
        .count();
    let total = list(&pod["spec"]["containers"]).len() + sidecars;
    let main = list(&pod["status"]["containerStatuses"])
        .iter()
        .filter(|status| status["ready"] == true && !status["state"]["running"].is_null())
        .count();
    let side = list(&pod["status"]["initContainerStatuses"])
        .iter()
        .filter(|status| status["ready"] == true && is_sidecar(pod, &status["name"]))
        .count();
    format!("{}/{total}", main + side)
}

/// `STATUS`.
pub(super) fn status(pod: &Value) -> String {
    let status = &pod["status"];
    let phase = text(&status["phase"]);
    let mut reason = match text(&status["reason"]) {
        "" => phase.to_owned(),
        reason => reason.to_owned(),
    };
    let gated =
        condition(pod, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated");
    if gated {
        reason = "SchedulingGated".to_owned();
    }
    match initializing(pod) {
        Some(word) => reason = word,
        None => main_reason(pod, &mut reason),
    }
    if pod["metadata"]["deletionTimestamp"].is_null() {
        reason
    } else if status["reason"] == "NodeLost" {
        "Unknown".to_owned()
    } else if matches!(phase, "Succeeded" | "Failed") {
        reason
    } else {
        "Terminating".to_owned()
    }
}

fn ended(terminated: &Value) -> String {
    match (
        text(&terminated["reason"]),
        terminated["signal"].as_i64().unwrap_or(0),
    ) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// What the first init container that is not done is up to.
fn initializing(pod: &Value) -> Option<String> {
    let total = list(&pod["spec"]["initContainers"]).len();
    for (index, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let state = &status["state"];
        let terminated = &state["terminated"];
        if terminated["exitCode"] == 0 {
            continue;
        }
        if is_sidecar(pod, &status["name"]) && status["started"] == true {
            continue;
        }
        let waiting = text(&state["waiting"]["reason"]);
        return Some(if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{total}")
        });
    }
    None
}

fn main_reason(pod: &Value, reason: &mut String) {
    let mut running = false;
    for status in list(&pod["status"]["containerStatuses"]).iter().rev() {
        let state = &status["state"];
        let waiting = text(&state["waiting"]["reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(reason);
        } else if state["terminated"].is_object() {
            *reason = ended(&state["terminated"]);
        } else if status["ready"] == true && state["running"].is_object() {
            running = true;
        }
    }
    if reason == "Completed" && running {
        let ready = condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True");
        *reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

/// `RESTARTS`, with the time since the last one.
pub(super) fn restarts(pod: &Value, now: Timestamp) -> String {
    let init = list(&pod["status"]["initContainerStatuses"]);
    let init_only = initializing(pod).is_some();
    let counted = init
        .iter()
        .filter(|status| init_only || is_sidecar(pod, &status["name"]))
        .chain(list(&pod["status"]["containerStatuses"]));
    let mut count: i64 = 0;
    let mut last: Option<&str> = None;
    for status in counted {
        count = count.saturating_add(status["restartCount"].as_i64().unwrap_or(0));
        let finished = status["lastState"]["terminated"]["finishedAt"].as_str();
        last = last.max(finished);
    }
    match last {
        Some(time) if count > 0 => format!("{count} ({} ago)", since(time, now)),
        _ => count.to_string(),
    }
}

/// `READINESS GATES`: those passed, of all.
pub(super) fn gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates
        .iter()
        .filter(|gate| {
            condition(pod, text(&gate["conditionType"]))
                .is_some_and(|condition| condition["status"] == "True")
        })
        .count();
    format!("{passed}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_a_pod_is_up_to() {
        let pod = |status: Value| json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": status});
        let check = |pod: Value, want: &str| {
            let got = format!(
                "{} {} {}",
                ready(&pod),
                status(&pod),
                restarts(&pod, Timestamp::UNIX_EPOCH)
            );
            assert_eq!(got, want);
        };
        check(pod(json!({"phase": "Pending"})), "0/1 Pending 0");
        check(
            pod(json!({"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}}]})),
            "1/1 Running 2",
        );
        check(
            pod(
                json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": false, "restartCount": 1,
                "lastState": {"terminated": {"finishedAt": "1969-12-31T23:59:00Z"}},
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            ),
            "0/1 CrashLoopBackOff 1 (60s ago)",
        );
        check(
            pod(
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            ),
            "0/1 Init:0/1 0",
        );
        check(
            pod(
                json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]}),
            ),
            "0/1 ExitCode:3 0",
        );
        let mut going = pod(json!({"phase": "Running"}));
        going["metadata"] = json!({"deletionTimestamp": "t"});
        check(going, "0/1 Terminating 0");
    }
}
