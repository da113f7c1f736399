//! What a simulated container says: to its log, and to who attaches to it.

use std::time::Duration;

use apiserver::Subject;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;

use crate::commands;
use crate::world::{name, namespace, text};

/// How often it speaks, and how soon its end is noticed.
const PACE: Duration = Duration::from_secs(1);

/// What a container says by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A line.
    Line(String),
    /// It ended.
    Over,
}

/// That it is simulated.
pub(crate) fn notice(pod: &Value, container: &Value) -> String {
    format!(
        "{}/{} {}: simulated by tombolo, nothing runs here",
        namespace(pod),
        name(pod),
        text(container, "/name")
    )
}

/// What its command has printed, if that is one of those known here; others go on.
pub(crate) fn printed(pod: &Value, container: &Value) -> Option<String> {
    commands::of_container(pod, container).map(|output| output.stdout + &output.stderr)
}

/// What a container says from now on, until it ends: a line a second if it `speaks`.
pub(crate) fn later(subject: Subject, container: &Value, speaks: bool) -> BoxStream<'static, Said> {
    let container = text(container, "/name").to_owned();
    let listening = Some((subject, container));
    stream::unfold(listening, move |listening| async move {
        let (subject, container) = listening?;
        loop {
            tokio::time::sleep(PACE).await;
            let latest = subject.latest().await;
            if !latest.is_some_and(|pod| runs(&pod, &container)) {
                return Some((Said::Over, None));
            }
            if speaks {
                let line = format!("{container}: still simulated\n");
                return Some((Said::Line(line), Some((subject, container))));
            }
        }
    })
    .boxed()
}

/// A container's state, or what it was before that where it waits to be started anew.
pub(crate) fn state<'a>(pod: &'a Value, container: &str) -> Option<(&'a str, &'a Value)> {
    let statuses = pod["status"]["containerStatuses"].as_array()?;
    let status = statuses.iter().find(|status| status["name"] == container)?;
    [
        ("state", "running"),
        ("state", "terminated"),
        ("lastState", "terminated"),
    ]
    .into_iter()
    .find_map(|(place, phase)| Some((phase, status.get(place)?.get(phase)?)))
}

fn runs(pod: &Value, container: &str) -> bool {
    state(pod, container).is_some_and(|(phase, _)| phase == "running")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    fn pod(state: &Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "1"},
            "status": {"containerStatuses": [{"name": "a", "state": state}]},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_speaks_until_it_or_its_pod_ends() {
        let running = pod(&json!({"running": {}}));
        let mut another = running.clone();
        another["metadata"]["uid"] = json!("2");
        for end in [
            None,
            Some(pod(&json!({"terminated": {}}))),
            Some(pod(&json!({}))),
            Some(another),
        ] {
            for (speaks, before) in [(true, 2), (false, 0)] {
                let left = Arc::new(Mutex::new(vec![
                    end.clone(),
                    Some(running.clone()),
                    Some(running.clone()),
                ]));
                let subject = Subject::new(running.clone(), move || {
                    let next = left.lock().expect("no panic").pop();
                    std::future::ready(next.flatten()).boxed()
                });
                let said: Vec<Said> = later(subject, &json!({"name": "a"}), speaks).collect().await;
                let (last, lines) = said.split_last().expect("an end");
                assert_eq!((last, lines.len()), (&Said::Over, before), "{end:?}");
            }
        }
    }
}
