//! What a simulated pod does, as its annotations say.
//!
//! | annotation | meaning | default |
//! |---|---|---|
//! | `members.tombolo.io/start-after` | how long from being bound to being ready, such as `500ms`, `2s`, `1m` | 200ms |
//! | `members.tombolo.io/exit-after` | how long its containers run before they end; absent: for ever (pods of Jobs, and those whose command is known to end, such as `echo`: 1s) | |
//! | `members.tombolo.io/exit-code` | with which code they end | 0, or the command's |
//! | `members.tombolo.io/fail` | `CrashLoopBackOff`, `ImagePullBackOff` or `NotReady`: it never becomes ready | |

use std::time::Duration;

use serde_json::Value;

use crate::commands;
use crate::world::{containers, text};

/// What a pod does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// From being bound to being ready.
    pub start_after: Duration,
    /// From being ready to the end of its containers.
    pub exit_after: Option<Duration>,
    /// The code with which they end.
    pub exit_code: i32,
    /// Whether they would be started anew after that, as its restart policy says: they wait for it from then on.
    pub restarts: bool,
    /// Why it never becomes ready.
    pub fail: Option<Failure>,
}

/// Why a pod never becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Its container starts and ends again and again.
    CrashLoopBackOff,
    /// Its image cannot be had.
    ImagePullBackOff,
    /// It runs, but its probe fails.
    NotReady,
}

impl Behaviour {
    /// What a pod's annotations ask for; a value that makes no sense counts as absent.
    pub fn of(pod: &Value) -> Self {
        let annotation = |key: &str| {
            text(pod, &format!("/metadata/annotations/members.tombolo.io~1{key}"))
                .trim()
                .to_owned()
        };
        let is_jobs = text(pod, "/metadata/ownerReferences/0/kind") == "Job";
        let ended = commands_end(pod);
        let default_exit = (is_jobs || ended.is_some()).then_some(Duration::from_secs(1));
        let exit_after = parse_duration(&annotation("exit-after"));
        let exit_code = annotation("exit-code").parse().ok().or(ended).unwrap_or(0);
        let restarts = match text(pod, "/spec/restartPolicy") {
            "Never" => false,
            "OnFailure" => exit_code != 0,
            _ => true,
        };
        Self {
            start_after: parse_duration(&annotation("start-after")).unwrap_or(Duration::from_millis(200)),
            exit_after: exit_after.or(default_exit),
            exit_code,
            // What is to end by its annotation, or for a Job, ends.
            restarts: restarts && !is_jobs && exit_after.is_none(),
            fail: match annotation("fail").as_str() {
                "CrashLoopBackOff" => Some(Failure::CrashLoopBackOff),
                "ImagePullBackOff" => Some(Failure::ImagePullBackOff),
                "NotReady" => Some(Failure::NotReady),
                _ => None,
            },
        }
    }
}

/// The code with which a pod's containers end, if all of them run commands that do.
fn commands_end(pod: &Value) -> Option<i32> {
    let codes =
        containers(pod).map(|container| commands::of_container(pod, container).map(|output| output.code));
    let codes: Vec<i32> = codes.collect::<Option<_>>()?;
    let failed = codes.iter().find(|code| **code != 0);
    failed.or(codes.first()).copied()
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let amount: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(amount)),
        "s" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_secs(amount.checked_mul(60)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_annotations_and_knows_jobs() {
        let pod = json!({"metadata": {"annotations": {
            "members.tombolo.io/start-after": "2s",
            "members.tombolo.io/exit-after": "1m",
            "members.tombolo.io/exit-code": "3",
            "members.tombolo.io/fail": "NotReady",
        }}});
        assert_eq!(
            Behaviour::of(&pod),
            Behaviour {
                start_after: Duration::from_secs(2),
                exit_after: Some(Duration::from_secs(60)),
                exit_code: 3,
                restarts: false,
                fail: Some(Failure::NotReady),
            }
        );
        let job = json!({"metadata": {"ownerReferences": [{"kind": "Job"}]}});
        assert_eq!(Behaviour::of(&job).exit_after, Some(Duration::from_secs(1)));
    }

    #[test]
    fn ignores_codes_that_no_status_can_hold() {
        for (code, want) in [("137", 137), ("-1", -1), ("4294967296", 0), ("x", 0), ("", 0)] {
            let pod = json!({"metadata": {"annotations": {"members.tombolo.io/exit-code": code}}});
            assert_eq!(Behaviour::of(&pod).exit_code, want, "{code}");
        }
    }

    #[test]
    fn ignores_durations_without_sense() {
        for bad in ["", "5", "s", "5h", "-1s", "99999999999999999999s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
