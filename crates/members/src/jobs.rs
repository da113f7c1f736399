//! Jobs run pods until enough have succeeded, or too many failed.

use serde_json::{Value, json};

use crate::action::Action;
use crate::owned;
use crate::plan::Room;
use crate::replicasets::push_status;
use crate::world::{
    JOBS, PODS, World, condition, controlled_by, deleting, name, namespace, number, pod_active, text,
};

pub(crate) fn plan(world: &World, now: &str, random: u64, room: &mut Room, actions: &mut Vec<Action>) {
    for job in world
        .jobs
        .iter()
        .filter(|job| !deleting(job) && job["spec"]["suspend"] != true)
    {
        if ["Complete", "Failed"]
            .iter()
            .any(|kind| condition(job, kind).is_some())
        {
            continue;
        }
        let pods: Vec<&Value> = world
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| controlled_by(pod, job))
            .collect();
        let in_phase = |phase: &str| {
            pods.iter()
                .filter(|pod| text(pod, "/status/phase") == phase)
                .count()
        };
        let (succeeded, failed) = (in_phase("Succeeded"), in_phase("Failed"));
        let active = pods.iter().filter(|pod| pod_active(pod)).count();
        let parallelism = usize::try_from(number(job, "/spec/parallelism").unwrap_or(1)).unwrap_or(0);
        let completions = number(job, "/spec/completions").and_then(|n| usize::try_from(n).ok());
        let completions = completions.unwrap_or(1);
        let limit = usize::try_from(number(job, "/spec/backoffLimit").unwrap_or(6)).unwrap_or(0);
        let (complete, broken) = (succeeded >= completions, failed > limit);
        if !complete && !broken {
            let missing = completions
                .saturating_sub(succeeded)
                .min(parallelism)
                .saturating_sub(active);
            let taken: Vec<&str> = pods.iter().map(|pod| name(pod)).collect();
            for pod_name in owned::fresh_names(job, random, &taken, room.take(missing)) {
                actions.push(Action::Create {
                    resource: &PODS,
                    namespace: Some(namespace(job).to_owned()),
                    object: owned::pod("batch/v1", "Job", job, &pod_name),
                });
            }
        }
        let ready = pods
            .iter()
            .filter(|pod| pod_active(pod) && crate::world::pod_ready(pod))
            .count();
        let mut status = json!({"active": active, "ready": ready, "succeeded": succeeded, "failed": failed});
        if text(job, "/status/startTime").is_empty() {
            status["startTime"] = json!(now);
        }
        if complete && active == 0 {
            status["completionTime"] = json!(now);
            status["conditions"] = json!([
                ended(
                    "SuccessCriteriaMet",
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                    now
                ),
                ended(
                    "Complete",
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                    now
                ),
            ]);
        } else if broken {
            let message = "Job has reached the specified backoff limit";
            status["conditions"] = json!([
                ended("FailureTarget", "BackoffLimitExceeded", message, now),
                ended("Failed", "BackoffLimitExceeded", message, now),
            ]);
        }
        push_status(job, &JOBS, status, actions);
    }
}

fn ended(kind: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    })
}
