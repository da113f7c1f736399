//! Events about objects (core/v1), written in the background and never in anybody's way.

use std::collections::{BTreeMap, VecDeque};

use clock::Env;
use jiff::Timestamp;
use machinery::ApiResource;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::options::Patch;

const EVENTS: ApiResource = ApiResource::namespaced("", "v1", "events", "Event");
/// Kubernetes' limit for a note.
const NOTE_LIMIT: usize = 1_024;
/// Events that wait to be written; more are dropped and counted.
const BACKLOG: usize = 256;
/// How many events are remembered so that a repetition only raises a count.
const REMEMBERED: usize = 512;

/// Whether an event is good or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Records events as one component. Clones share its writer.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Entry>,
}

/// What makes two events the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Same {
    uid: String,
    name: String,
    event_type: EventType,
    reason: String,
    note: String,
}

#[derive(Debug)]
struct Entry {
    reference: Value,
    event_type: EventType,
    reason: String,
    note: String,
}

impl Recorder {
    /// Starts the writer (on the current runtime); it ends with the last clone.
    pub fn start(client: Client, env: Env, component: &'static str) -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let writer = Writer {
            client,
            env,
            component,
            known: BTreeMap::new(),
            order: VecDeque::new(),
        };
        tokio::spawn(writer.run(receiver));
        Self { sender }
    }

    /// Records an event about an object (a whole one: kind, namespace, name, UID are read). Never waits: with too
    /// many events under way this one is dropped.
    pub fn record(&self, object: &Value, event_type: EventType, reason: &str, note: &str) {
        let entry = Entry {
            reference: reference(object),
            event_type,
            reason: reason.to_owned(),
            note: shorten(note),
        };
        if self.sender.try_send(entry).is_err() {
            tracing::debug!(reason, "event dropped, too many are waiting");
        }
    }
}

fn reference(object: &Value) -> Value {
    let meta = &object["metadata"];
    let mut reference = json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": meta["name"],
    });
    for field in ["namespace", "uid", "resourceVersion"] {
        if let Some(text) = meta[field].as_str() {
            reference[field] = json!(text);
        }
    }
    reference
}

fn shorten(note: &str) -> String {
    if note.len() <= NOTE_LIMIT {
        return note.to_owned();
    }
    let mut end = NOTE_LIMIT - 3;
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &note[..end])
}

struct Known {
    namespace: String,
    name: String,
    count: u64,
}

struct Writer {
    client: Client,
    env: Env,
    component: &'static str,
    known: BTreeMap<Same, Known>,
    order: VecDeque<Same>,
}

impl Writer {
    async fn run(mut self, mut entries: mpsc::Receiver<Entry>) {
        while let Some(entry) = entries.recv().await {
            self.write(entry).await;
        }
    }

    async fn write(&mut self, entry: Entry) {
        let now = self.env.now();
        let same = Same {
            uid: entry.reference["uid"].as_str().unwrap_or_default().to_owned(),
            name: entry.reference["name"].as_str().unwrap_or_default().to_owned(),
            event_type: entry.event_type,
            reason: entry.reason.clone(),
            note: entry.note.clone(),
        };
        if let Some(known) = self.known.get_mut(&same) {
            known.count += 1;
            let patch = json!({"count": known.count, "lastTimestamp": seconds(now)});
            let result = self
                .client
                .patch(
                    &EVENTS,
                    Some(&known.namespace),
                    &known.name,
                    None,
                    Patch::Merge,
                    &patch,
                )
                .await;
            match result {
                Ok(_) => return,
                // Events expire: then it is made anew.
                Err(error) if error.is_not_found() => {
                    self.known.remove(&same);
                    self.order.retain(|other| other != &same);
                }
                Err(error) => {
                    tracing::debug!(reason = %entry.reason, %error, "event not updated");
                    return;
                }
            }
        }
        let namespace = entry.reference["namespace"]
            .as_str()
            .unwrap_or("default")
            .to_owned();
        let name = format!("{}.{:016x}", same.name, self.env.random_u64());
        let event = event(&entry, self.component, &namespace, &name, now);
        match self.client.create(&EVENTS, Some(&namespace), &event).await {
            Ok(_) => self.remember(same, namespace, name),
            Err(error) => tracing::debug!(reason = %entry.reason, %error, "event not written"),
        }
    }

    fn remember(&mut self, same: Same, namespace: String, name: String) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(same.clone());
        self.known.insert(
            same,
            Known {
                namespace,
                name,
                count: 1,
            },
        );
    }
}

fn event(entry: &Entry, component: &str, namespace: &str, name: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": entry.reference,
        "type": entry.event_type.as_str(),
        "reason": entry.reason,
        "message": entry.note,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
    })
}

/// `metav1.Time`: whole seconds.
fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, json_answer, status_answer};

    fn subject() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "x", "uid": "u"}})
    }

    async fn requests(fake: &Fake, count: usize) {
        while fake.requests().len() < count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_raise_the_count_and_an_expired_event_is_made_anew() {
        let fake = Fake::default();
        for answer in [
            json_answer(&json!({})),
            json_answer(&json!({})),
            status_answer(404, "NotFound"),
            json_answer(&json!({})),
        ] {
            fake.answer(answer);
        }
        let recorder = Recorder::start(fake.client(), Env::system(), "tester");
        for _ in 0..3 {
            recorder.record(&subject(), EventType::Normal, "Done", "all well");
        }
        requests(&fake, 4).await;
        let seen = fake.requests();
        assert!(
            seen[0].starts_with("POST /api/v1/namespaces/a/events"),
            "{seen:?}"
        );
        assert!(seen[1].starts_with("PATCH"), "{seen:?}");
        assert_eq!(fake.body(1)["count"], 2);
        assert!(seen[3].starts_with("POST"), "{seen:?}");
        assert_eq!(fake.body(0)["involvedObject"]["uid"], "u");
        assert_eq!(fake.body(0)["source"]["component"], "tester");
    }

    #[test]
    fn notes_are_cut_at_a_character() {
        let long = "ü".repeat(1_000);
        let note = shorten(&long);
        assert!(note.len() <= NOTE_LIMIT && note.ends_with("..."));
        assert_eq!(shorten("short"), "short");
    }
}
