//! The conditions of a Subscription that the scheduler owns: `Scheduled` and `FailOver`.

use api::reasons;
use jiff::Timestamp;
use machinery::{conditions, meta};
use placement::outage::IDLE;
use placement::{Decision, InvalidSubscription, Report, UNDIVIDED};
use serde_json::{Value, json};

/// The longest message.
const MESSAGE_LIMIT: usize = 2_000;

/// Those of a Subscription.
pub(crate) fn own(object: &Value) -> Vec<Value> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let own = [reasons::SCHEDULED_CONDITION, reasons::FAIL_OVER];
    conditions
        .filter(|it| own.iter().any(|kind| it["type"] == *kind))
        .cloned()
        .collect()
}

/// What a decision says, beside what was said before.
pub(crate) fn wanted(
    own: &[Value],
    decision: &Decision<'_>,
    fail_over: Option<&Report>,
    now: Timestamp,
) -> Vec<Value> {
    let mut all = Vec::new();
    let mut say = |kind: &str, holds: bool, reason: &str, message: String| {
        all.push(condition(kind, holds, reason, message, now));
    };
    match decision {
        Decision::Bind {
            binding,
            is_undivided,
            ..
        } => {
            let mut message = format!("bound to {} cluster(s)", binding.clusters().len());
            if *is_undivided {
                message.push_str(&format!("; {UNDIVIDED}"));
            }
            say(reasons::SCHEDULED_CONDITION, true, reasons::SCHEDULED, message);
        }
        Decision::Unfit { error, .. } => {
            say(
                reasons::SCHEDULED_CONDITION,
                false,
                reasons::UNSCHEDULABLE,
                error.to_string(),
            );
        }
        Decision::Failed(failure) => {
            say(
                reasons::SCHEDULED_CONDITION,
                false,
                reasons::UNDECIDED,
                failure.to_string(),
            );
        }
        Decision::Predict(_) | Decision::Waiting(_) => {}
    }
    let before = find(own, reasons::FAIL_OVER);
    match fail_over {
        // Who never had to know need not know now.
        Some(report) if report.reason != IDLE || before.is_some() => {
            say(
                reasons::FAIL_OVER,
                report.active,
                report.reason,
                report.message.clone(),
            );
        }
        None if before.is_some() && matches!(decision, Decision::Bind { .. }) => {
            say(reasons::FAIL_OVER, false, IDLE, "nothing is divided".to_owned());
        }
        Some(_) | None => {}
    }
    all
}

/// What is said of a Subscription that makes no sense.
pub(crate) fn unread(error: &InvalidSubscription, now: Timestamp) -> Vec<Value> {
    let message = format!("{error}; what is bound stays bound");
    vec![condition(
        reasons::SCHEDULED_CONDITION,
        false,
        reasons::INVALID_SPEC,
        message,
        now,
    )]
}

fn condition(kind: &str, holds: bool, reason: &str, message: String, now: Timestamp) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": kind, "status": status, "reason": reason, "message": shortened(message),
        "lastTransitionTime": conditions::time(now)})
}

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_LIMIT {
        let end = (0..=MESSAGE_LIMIT)
            .rev()
            .find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
    }
    message
}

fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|it| it["type"] == kind)
}

/// Conditions with others among them.
fn merged(have: &[Value], wanted: &[Value]) -> Vec<Value> {
    wanted
        .iter()
        .fold(have.to_vec(), |all, new| conditions::merge(&all, new.clone()))
}

/// Whether any is not there yet.
pub(crate) fn lack(have: &[Value], wanted: &[Value]) -> bool {
    merged(have, wanted) != have
}

/// The patch that brings conditions among those of others, for the state that they were read from; `None` if they are there.
pub(crate) fn patch(object: &Value, wanted: &[Value]) -> Option<Value> {
    let have = object["status"]["conditions"].as_array();
    let have = have.map(Vec::as_slice).unwrap_or_default();
    lack(have, wanted).then(|| {
        let metadata = json!({"uid": meta::uid(object), "resourceVersion": meta::resource_version(object)});
        json!({"metadata": metadata, "status": {"conditions": merged(have, wanted)}})
    })
}

/// What is new about fail-over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct News {
    reason: &'static str,
    pub(crate) message: String,
}

impl News {
    /// Whether nobody has to look.
    pub(crate) fn is_good(&self) -> bool {
        !["NoTarget", "Stateful", "Flapping"].contains(&self.reason)
    }
}

/// What people have not been told yet.
pub(crate) fn news(own: &[Value], fail_over: Option<&Report>) -> Option<News> {
    let report = fail_over?;
    let before = find(own, reasons::FAIL_OVER);
    let known = match before {
        Some(before) => before["reason"] == report.reason && before["message"] == report.message,
        None => report.reason == IDLE,
    };
    (!known).then(|| News {
        reason: report.reason,
        message: format!("{}: {}", report.reason, report.message),
    })
}

#[cfg(test)]
mod tests {
    use placement::{Binding, Failure};

    use super::*;

    fn report(reason: &'static str) -> Report {
        Report {
            active: reason == "Moved",
            reason,
            message: format!("{reason} it is"),
            again: None,
        }
    }

    fn bind() -> Decision<'static> {
        Decision::Bind {
            binding: Binding::default(),
            short: std::collections::BTreeMap::new(),
            is_undivided: false,
        }
    }

    /// `Type=Status/Reason` of what is there after a decision.
    fn after(
        object: &mut Value,
        decision: &Decision<'_>,
        fail_over: Option<&Report>,
        now: i64,
    ) -> Vec<String> {
        let wanted = wanted(
            &own(object),
            decision,
            fail_over,
            Timestamp::from_second(now).unwrap(),
        );
        if let Some(patch) = patch(object, &wanted) {
            machinery::patch::merge_patch(object, &patch);
        }
        assert_eq!(super::patch(object, &wanted), None, "once is enough");
        let all = object["status"]["conditions"].as_array().unwrap().iter();
        let text = |it: &Value| {
            [&it["type"], &it["status"], &it["reason"]].map(|it| it.as_str().unwrap_or("").to_owned())
        };
        all.map(|it| text(it).join(" ")).collect()
    }

    #[test]
    fn says_what_became_of_a_decision_among_what_others_say() {
        let theirs = json!({"type": "Applied", "status": "True", "reason": "x", "message": ""});
        let mut object =
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"conditions": [theirs]}});
        let failed = Decision::Failed(Failure::NoClusters);
        let rows: [(Decision<'_>, Option<&'static str>, &[&str]); 6] = [
            (failed, None, &["Scheduled False Undecided"]),
            (bind(), Some(IDLE), &["Scheduled True Scheduled"]),
            (
                bind(),
                Some("Waiting"),
                &["Scheduled True Scheduled", "FailOver False Waiting"],
            ),
            (
                bind(),
                Some("Moved"),
                &["Scheduled True Scheduled", "FailOver True Moved"],
            ),
            (
                bind(),
                Some(IDLE),
                &["Scheduled True Scheduled", "FailOver False AllReady"],
            ),
            (
                bind(),
                None,
                &["Scheduled True Scheduled", "FailOver False AllReady"],
            ),
        ];
        for (now, (decision, reason, expected)) in rows.into_iter().enumerate() {
            let report = reason.map(report);
            let got = after(
                &mut object,
                &decision,
                report.as_ref(),
                i64::try_from(now).unwrap(),
            );
            assert_eq!(got[0], "Applied True x");
            assert_eq!(got[1..], *expected, "{reason:?}");
        }
        let patch = patch(
            &object,
            &wanted(
                &own(&object),
                &bind(),
                Some(&report("Off")),
                Timestamp::UNIX_EPOCH,
            ),
        );
        assert_eq!(
            patch.unwrap()["metadata"],
            json!({"uid": "u", "resourceVersion": "7"})
        );
    }

    #[test]
    fn what_makes_no_sense_is_not_scheduled_and_is_again_once_it_makes_sense() {
        let strange = json!({"matchExpressions": [{"key": "area", "operator": "Foo"}]});
        let spec = json!({"subscribers": [{"clusterAffinity": strange}]});
        let error = placement::Subscription::from_value(&json!({"spec": spec})).unwrap_err();
        let mut object = json!({"metadata": {}});
        assert_eq!(after(&mut object, &bind(), None, 1), ["Scheduled True Scheduled"]);
        let said = unread(&error, Timestamp::from_second(2).unwrap());
        let patch = patch(&object, &said).unwrap();
        machinery::patch::merge_patch(&mut object, &patch);
        let condition = &object["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("InvalidSpec"))
        );
        let message = condition["message"].as_str().unwrap();
        assert!(message.contains("Foo") && message.ends_with("; what is bound stays bound"));
        assert!(!lack(&own(&object), &said), "once is enough");
        assert_eq!(after(&mut object, &bind(), None, 3), ["Scheduled True Scheduled"]);
    }

    #[test]
    fn tells_what_is_new_once() {
        let mut object = json!({"metadata": {}});
        assert_eq!(news(&own(&object), None), None);
        assert_eq!(
            news(&own(&object), Some(&report(IDLE))),
            None,
            "all is well, and was"
        );
        let waiting = report("Waiting");
        assert!(news(&own(&object), Some(&waiting)).is_some_and(|news| news.is_good()));
        after(&mut object, &bind(), Some(&waiting), 1);
        assert_eq!(news(&own(&object), Some(&waiting)), None);
        let stuck = news(&own(&object), Some(&report("NoTarget"))).unwrap();
        assert!(!stuck.is_good());
        assert_eq!(stuck.message, "NoTarget: NoTarget it is");
        assert!(news(&own(&object), Some(&report(IDLE))).is_some(), "it is over");
    }

    #[test]
    fn says_that_nothing_divides() {
        let undivided = Decision::Bind {
            binding: Binding::default(),
            short: std::collections::BTreeMap::new(),
            is_undivided: true,
        };
        let said = wanted(&[], &undivided, None, Timestamp::UNIX_EPOCH);
        assert_eq!(said[0]["status"], "True");
        let expected = format!("bound to 0 cluster(s); {UNDIVIDED}");
        assert_eq!(said[0]["message"], expected);
    }

    #[test]
    fn a_message_is_bounded() {
        let long = Report {
            message: "ä".repeat(MESSAGE_LIMIT),
            ..report("Moved")
        };
        let said = wanted(&[], &bind(), Some(&long), Timestamp::UNIX_EPOCH);
        assert_eq!(said[1]["message"].as_str().unwrap().len(), MESSAGE_LIMIT);
    }
}
