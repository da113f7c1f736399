//! How far a Rollout is, as its status says.

use api::rollouts::{ROLLOUTS, RolloutPhase};
use jiff::Timestamp;
use machinery::{conditions, meta};
use serde_json::{Map, Value, json};

use super::View;
use crate::action::{Action, replacing};

/// How far one wave is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WaveState {
    pub(super) name: String,
    pub(super) started: Option<Timestamp>,
    pub(super) available_since: Option<Timestamp>,
    pub(super) completed: Option<Timestamp>,
    pub(super) counts: Counts,
}

/// Numbers of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) clusters: usize,
    pub(super) updated: usize,
    pub(super) available: usize,
    pub(super) failed: usize,
    pub(super) unreachable: usize,
}

/// A Rollout's status.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct State {
    pub(super) phase: Option<RolloutPhase>,
    pub(super) target: Option<String>,
    pub(super) stable: Option<String>,
    pub(super) previous: Option<String>,
    pub(super) failed: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) waves: Vec<WaveState>,
    /// The number of the wave that is on, from 1.
    pub(super) current_wave: Option<usize>,
    /// Those with the target version, and all.
    pub(super) updated: Option<(usize, usize)>,
    pub(super) failures: Vec<Value>,
    conditions: Vec<Value>,
}

impl State {
    pub(super) fn of(rollout: &Value) -> Self {
        let status = &rollout["status"];
        let text = |field: &str| status[field].as_str().map(str::to_owned);
        let waves = status["waves"].as_array().into_iter().flatten();
        let list = |field: &str| status[field].as_array().cloned().unwrap_or_default();
        Self {
            phase: status["phase"].as_str().and_then(RolloutPhase::parse),
            target: text("targetVersion"),
            stable: text("stableVersion"),
            previous: text("previousVersion"),
            failed: text("failedVersion"),
            started: time(&status["startedAt"]),
            waves: waves
                .map(|wave| WaveState {
                    name: wave["name"].as_str().unwrap_or_default().to_owned(),
                    started: time(&wave["startedAt"]),
                    available_since: time(&wave["availableSince"]),
                    completed: time(&wave["completedAt"]),
                    counts: Counts::of(wave),
                })
                .collect(),
            current_wave: status["currentWave"]
                .as_u64()
                .and_then(|it| usize::try_from(it).ok()),
            updated: text("updated").and_then(|it| {
                let (some, all) = it.split_once('/')?;
                Some((some.parse().ok()?, all.parse().ok()?))
            }),
            failures: list("failures"),
            conditions: list("conditions"),
        }
    }

    /// Begins with the first wave.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.started = Some(now);
        self.waves.clear();
        self.failures.clear();
        self.current_wave = None;
    }

    /// Nothing but the conditions.
    pub(super) fn forgotten(self) -> Self {
        Self {
            conditions: self.conditions,
            ..Self::default()
        }
    }

    /// Puts a condition in.
    pub(super) fn condition(
        &mut self,
        view: &View<'_>,
        rollout: &Value,
        kind: &str,
        holds: bool,
        reason: &str,
        message: &str,
    ) {
        let new = json!({
            "type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "message": message,
            "observedGeneration": meta::generation(rollout), "lastTransitionTime": conditions::time(view.now),
        });
        self.conditions = conditions::merge(&self.conditions, new);
    }

    /// What a condition says.
    pub(super) fn message(&self, kind: &str) -> &str {
        let found = self.conditions.iter().find(|it| it["type"] == kind);
        found.and_then(|it| it["message"].as_str()).unwrap_or_default()
    }

    /// The write that makes this a Rollout's status; `None` if it is.
    pub(super) fn write(&self, rollout: &Value) -> Option<Action> {
        let wanted = self.to_value(rollout);
        let have = &rollout["status"];
        if *have == wanted {
            return None;
        }
        let patch = json!({
            "metadata": {"resourceVersion": meta::resource_version(rollout)},
            "status": replacing(have, &wanted),
        });
        match Action::patch(&ROLLOUTS, rollout, patch) {
            Action::Patch {
                resource,
                target,
                patch,
                subresource: _,
            } => Some(Action::Patch {
                resource,
                target,
                patch,
                subresource: Some("status"),
            }),
            other @ (Action::Create { .. } | Action::Delete { .. } | Action::Event { .. }) => Some(other),
        }
    }

    fn to_value(&self, rollout: &Value) -> Value {
        let Self {
            phase,
            target,
            stable,
            previous,
            failed,
            started,
            waves,
            current_wave,
            updated,
            failures,
            conditions,
        } = self;
        let waves: Vec<Value> = waves.iter().map(WaveState::to_value).collect();
        let several = |list: &[Value]| (!list.is_empty()).then(|| json!(list));
        let fields = [
            ("observedGeneration", Some(json!(meta::generation(rollout)))),
            ("phase", phase.map(|it| json!(it.as_str()))),
            ("targetVersion", target.as_ref().map(|it| json!(it))),
            ("stableVersion", stable.as_ref().map(|it| json!(it))),
            ("previousVersion", previous.as_ref().map(|it| json!(it))),
            ("failedVersion", failed.as_ref().map(|it| json!(it))),
            ("startedAt", started.map(|it| json!(conditions::time(it)))),
            ("currentWave", current_wave.map(|it| json!(it))),
            (
                "wave",
                current_wave.map(|it| json!(format!("{it}/{}", waves.len()))),
            ),
            (
                "updated",
                updated.map(|(some, all)| json!(format!("{some}/{all}"))),
            ),
            ("waves", several(&waves)),
            ("failures", several(failures)),
            ("conditions", several(conditions)),
        ];
        Value::Object(some_of(fields))
    }
}

impl WaveState {
    fn to_value(&self) -> Value {
        let Self {
            name,
            started,
            available_since,
            completed,
            counts,
        } = self;
        let Counts {
            clusters,
            updated,
            available,
            failed,
            unreachable,
        } = counts;
        let at = |time: &Option<Timestamp>| time.map(|it| json!(conditions::time(it)));
        Value::Object(some_of([
            ("name", Some(json!(name))),
            ("clusters", Some(json!(clusters))),
            ("updated", Some(json!(updated))),
            ("available", Some(json!(available))),
            ("failed", Some(json!(failed))),
            ("unreachable", Some(json!(unreachable))),
            ("startedAt", at(started)),
            ("availableSince", at(available_since)),
            ("completedAt", at(completed)),
        ]))
    }
}

impl Counts {
    fn of(wave: &Value) -> Self {
        let number = |field: &str| {
            wave[field]
                .as_u64()
                .and_then(|it| usize::try_from(it).ok())
                .unwrap_or(0)
        };
        Self {
            clusters: number("clusters"),
            updated: number("updated"),
            available: number("available"),
            failed: number("failed"),
            unreachable: number("unreachable"),
        }
    }
}

fn some_of<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let some = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    some.collect()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
