//! `rollout`: how far a Rollout is, and what people tell it.

use std::io::Write;

use api::annotations::{RETRY, UNDO};
use api::reasons;
use api::rollouts::{ROLLOUTS, RolloutPhase};
use kubeio::{Patch, WatchOptions};
use machinery::meta;
use serde_json::{Value, json};

use crate::output::{plain, print_objects, print_table};
use crate::{Error, Format, Hub};

/// Whether to stay until a Rollout has come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// It is said how far it is now.
    Now,
    /// Until it is complete, back or failed.
    ToTheEnd,
}

/// What a person tells a Rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Nothing new is to go out.
    Pause,
    /// It is to go on.
    Resume,
    /// All are to go back to the version before.
    Undo,
    /// The version that failed is to go out again.
    Retry,
}

/// Says how far a Rollout is.
///
/// # Errors
/// [`Error::Failed`] if it failed; [`Error`] if it is not there.
pub async fn rollout_status(
    hub: &Hub,
    name: &str,
    follow: Follow,
    format: &Format,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut rollout = read(hub, name).await?;
    let is_table = matches!(format, Format::Table | Format::Wide);
    let mut said = String::new();
    while follow == Follow::ToTheEnd && !is_over(&rollout) {
        let now = summary(&rollout);
        if is_table && now != said {
            writeln!(out, "{now}")?;
            out.flush()?;
            said = now;
        }
        rollout = next(hub, name, &rollout).await?;
    }
    let title = summary(&rollout);
    let bad = failure(&rollout);
    if is_table {
        if title != said {
            writeln!(out, "{title}")?;
        }
        table(&rollout, out)?;
    } else {
        print_objects(out, format, vec![rollout], true)?;
    }
    bad.map_or(Ok(()), |why| Err(Error::Failed(why)))
}

/// Tells a Rollout something.
///
/// # Errors
/// [`Error`] if it is not there, or what is asked makes no sense now.
pub async fn rollout_order(
    hub: &Hub,
    name: &str,
    order: Order,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let rollout = read(hub, name).await?;
    let (patch, done) = order_patch(&rollout, order)?;
    hub.client
        .patch(
            &ROLLOUTS,
            hub.scope.of(&ROLLOUTS, "")?,
            name,
            None,
            Patch::Merge,
            &patch,
        )
        .await
        .map_err(Error::hub(format!("Rollout {name} cannot be changed")))?;
    Ok(writeln!(out, "rollout.apps.tombolo.io/{name} {done}")?)
}

async fn read(hub: &Hub, name: &str) -> Result<Value, Error> {
    let namespace = hub.scope.of(&ROLLOUTS, "")?;
    let title = format!("Rollout {}/{name}", namespace.unwrap_or_default());
    hub.client
        .get(&ROLLOUTS, namespace, name)
        .await
        .map_err(Error::hub(format!("{title} cannot be read")))
}

/// A Rollout's next state, when there is one.
async fn next(hub: &Hub, name: &str, rollout: &Value) -> Result<Value, Error> {
    let options = WatchOptions {
        field_selector: format!("metadata.name={name}"),
        resource_version: meta::resource_version(rollout).to_owned(),
        ..WatchOptions::default()
    };
    let lost = || Error::hub(format!("Rollout {name} cannot be watched"));
    let namespace = hub.scope.of(&ROLLOUTS, "")?;
    let mut changes = hub
        .client
        .watch(&ROLLOUTS, namespace, &options)
        .await
        .map_err(lost())?;
    // Whatever it is that comes, or if the watch ends: what counts is how things are then.
    match changes.next().await {
        Some(Err(error)) if !error.is_expired() => Err(lost()(error)),
        Some(_) | None => read(hub, name).await,
    }
}

fn phase(rollout: &Value) -> Option<RolloutPhase> {
    // What is said of an earlier edit says nothing.
    let seen = rollout["status"]["observedGeneration"].as_i64();
    let phase = rollout["status"]["phase"].as_str().and_then(RolloutPhase::parse);
    phase.filter(|_| seen == Some(meta::generation(rollout)))
}

fn is_over(rollout: &Value) -> bool {
    phase(rollout).is_some_and(distribution::rollout::is_final)
}

fn failure(rollout: &Value) -> Option<String> {
    let name = meta::name(rollout);
    match phase(rollout)? {
        RolloutPhase::Failed => Some(format!(
            "Rollout {name} failed; `tombolo rollout retry {name}` tries again, `tombolo rollout undo {name}` goes back"
        )),
        RolloutPhase::RollingBack | RolloutPhase::RolledBack => Some(format!(
            "Rollout {name} failed and went back; change the content, or try again with `tombolo rollout retry {name}`"
        )),
        RolloutPhase::Progressing | RolloutPhase::Paused | RolloutPhase::Complete => {
            blocked(rollout).map(|why| {
                format!(
                    "Rollout {name} does not go on, the newest content cannot go out: {}",
                    plain(why)
                )
            })
        }
    }
}

/// Why the newest content cannot go out.
fn blocked(rollout: &Value) -> Option<&str> {
    let progressing = condition(rollout, "Progressing")?;
    (progressing["reason"] == reasons::ROLLOUT_BLOCKED).then(|| text(progressing, "message"))
}

fn condition<'a>(rollout: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = rollout["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|it| it["type"] == kind)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("-")
}

/// One line.
fn summary(rollout: &Value) -> String {
    let status = &rollout["status"];
    format!(
        "{}: wave {}, {} cluster(s) updated: {}",
        text(status, "phase"),
        text(status, "wave"),
        text(status, "updated"),
        plain(message(rollout, "Progressing")),
    )
}

fn message<'a>(rollout: &'a Value, kind: &str) -> &'a str {
    condition(rollout, kind).map_or("nobody has looked at it yet", |it| text(it, "message"))
}

/// The waves, and what failed.
fn table(rollout: &Value, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let status = &rollout["status"];
    let short = |field: &str| distribution::rollout::short(text(status, field)).to_owned();
    writeln!(
        out,
        "target {}, stable {}, failed {}",
        short("targetVersion"),
        short("stableVersion"),
        short("failedVersion")
    )?;
    let numbers = ["clusters", "updated", "available", "failed", "unreachable"];
    let mut header = vec!["WAVE".to_owned()];
    header.extend(numbers.map(str::to_uppercase));
    header.push("STATE".to_owned());
    let waves = status["waves"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_complete = phase(rollout) == Some(RolloutPhase::Complete);
    let rows: Vec<Vec<String>> = waves
        .iter()
        .map(|wave| {
            let mut row = vec![text(wave, "name").to_owned()];
            row.extend(numbers.map(|field| wave[field].as_i64().unwrap_or(0).to_string()));
            let state = match (&wave["startedAt"], &wave["completedAt"]) {
                (_, Value::String(_)) => "through",
                (Value::String(_), _) => "on",
                (_, _) if is_complete => "through",
                (_, _) => "waits",
            };
            row.push(state.to_owned());
            row
        })
        .collect();
    print_table(out, &header, &rows)?;
    for failure in status["failures"].as_array().into_iter().flatten() {
        let reason = plain(text(failure, "reason"));
        writeln!(out, "{}: {reason}", text(failure, "cluster"))?;
    }
    Ok(())
}

/// What an order changes, and the word for it.
fn order_patch(rollout: &Value, order: Order) -> Result<(Value, &'static str), Error> {
    let name = meta::name(rollout);
    let status = &rollout["status"];
    let target = &status["targetVersion"];
    let nothing = |why: &str| Error::Missing(format!("Rollout {name}: {why}"));
    match order {
        Order::Pause => Ok((json!({"spec": {"paused": true}}), "paused")),
        Order::Resume => Ok((json!({"spec": {"paused": null}}), "resumed")),
        Order::Undo => {
            if target.is_null() {
                return Err(nothing("nothing has gone out yet"));
            }
            let back = if status["stableVersion"] == *target {
                "previousVersion"
            } else {
                "stableVersion"
            };
            if status[back].is_null() {
                return Err(nothing("there is no version before this one to go back to"));
            }
            if status["failedVersion"] == *target && status["phase"] != "Failed" {
                return Err(nothing("it is going back already, or is back"));
            }
            let annotations = json!({UNDO: target, RETRY: null});
            Ok((json!({"metadata": {"annotations": annotations}}), "undone"))
        }
        Order::Retry => {
            if status["failedVersion"].is_null() || status["failedVersion"] != *target {
                return Err(nothing("what it brings out has not failed"));
            }
            let annotations = json!({RETRY: target, UNDO: null});
            Ok((json!({"metadata": {"annotations": annotations}}), "tried again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(status: Value) -> Value {
        json!({"metadata": {"name": "web", "generation": 1}, "status": status})
    }

    #[test]
    fn an_order_that_makes_no_sense_is_refused() {
        for (order, status, expected) in [
            (Order::Pause, json!({}), "paused"),
            (Order::Resume, json!({}), "resumed"),
            (Order::Undo, json!({}), "Rollout web: nothing has gone out yet"),
            (
                Order::Undo,
                json!({"targetVersion": "b"}),
                "Rollout web: there is no version before this one to go back to",
            ),
            (
                Order::Undo,
                json!({"targetVersion": "b", "stableVersion": "a"}),
                "undone",
            ),
            (
                Order::Undo,
                json!({"targetVersion": "b", "stableVersion": "b"}),
                "Rollout web: there is no version before this one to go back to",
            ),
            (
                Order::Undo,
                json!({"targetVersion": "b", "stableVersion": "b", "previousVersion": "a"}),
                "undone",
            ),
            (
                Order::Undo,
                json!({"phase": "Failed", "targetVersion": "b", "failedVersion": "b", "stableVersion": "a"}),
                "undone",
            ),
            (
                Order::Undo,
                json!({"phase": "RolledBack", "targetVersion": "b", "failedVersion": "b", "stableVersion": "a"}),
                "Rollout web: it is going back already, or is back",
            ),
            (
                Order::Retry,
                json!({"targetVersion": "b"}),
                "Rollout web: what it brings out has not failed",
            ),
            (
                Order::Retry,
                json!({"targetVersion": "b", "failedVersion": "a"}),
                "Rollout web: what it brings out has not failed",
            ),
            (
                Order::Retry,
                json!({"targetVersion": "b", "failedVersion": "b"}),
                "tried again",
            ),
        ] {
            let said = match order_patch(&rollout(status.clone()), order) {
                Ok((_, done)) => done.to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected, "{order:?} {status}");
        }
        let failed = rollout(json!({"targetVersion": "b", "failedVersion": "b"}));
        let (patch, _) = order_patch(&failed, Order::Retry).unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"annotations": {RETRY: "b", UNDO: null}}})
        );
    }

    #[test]
    fn says_how_far_it_is() {
        let rollout = rollout(json!({
            "observedGeneration": 1, "phase": "RolledBack", "wave": "1/2", "updated": "0/3",
            "targetVersion": "0123456789", "failedVersion": "0123456789", "stableVersion": "abcdefghij",
            "waves": [
                {"name": "canary", "clusters": 1, "updated": 0, "available": 0, "failed": 1, "unreachable": 0,
                 "startedAt": "2026-01-01T00:00:00Z"},
                {"name": "rest", "clusters": 2, "updated": 0, "available": 0, "failed": 0, "unreachable": 1},
            ],
            "failures": [{"cluster": "edge-7", "reason": "Deployment shop/web is not available\u{1b}[2J"}],
            "conditions": [{"type": "Progressing", "message": "all are back\nand more"}],
        }));
        let mut out = Vec::new();
        table(&rollout, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "target 01234567, stable abcdefgh, failed 01234567\n\
             WAVE     CLUSTERS   UPDATED   AVAILABLE   FAILED   UNREACHABLE   STATE\n\
             canary   1          0         0           1        0             on\n\
             rest     2          0         0           0        1             waits\n\
             edge-7: Deployment shop/web is not available^[[2J\n"
        );
        assert_eq!(
            summary(&rollout),
            "RolledBack: wave 1/2, 0/3 cluster(s) updated: all are back..."
        );
        assert!(failure(&rollout).unwrap().contains("tombolo rollout retry web"));
    }

    #[test]
    fn what_is_said_of_an_earlier_edit_is_not_the_end() {
        let mut rollout = rollout(json!({"observedGeneration": 1, "phase": "Complete"}));
        assert!(is_over(&rollout));
        rollout["metadata"]["generation"] = json!(2);
        assert!(!is_over(&rollout) && failure(&rollout).is_none());
    }

    #[test]
    fn what_cannot_go_out_is_no_success_though_the_version_before_is_everywhere() {
        let blocked = json!({
            "type": "Progressing", "status": "False", "reason": "RolloutBlocked", "message": "ConfigMap a/b does not exist",
        });
        let rollout = rollout(json!({"observedGeneration": 1, "phase": "Complete", "conditions": [blocked]}));
        let why = failure(&rollout).unwrap();
        assert!(why.contains("ConfigMap a/b does not exist"), "{why}");
    }
}
