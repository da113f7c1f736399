//! What a deployer says of its Descriptions, in their status and in events.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use api::{apps, reasons};
use kubeio::{EventType, ObjectKey, Patch};
use machinery::meta;
use serde_json::Value;

use super::{Deployer, RESYNC_PERIOD};
use crate::outcome::{self, Problem, Verdict};

/// Before a report is repeated that another has overwritten: two who report may see the child at different times. It
/// doubles, for two who report differently would never end.
const OVERWRITTEN_PAUSE: Duration = Duration::from_secs(1);

/// What was last written into a Description about its objects.
pub(super) struct Reported {
    /// It, hashed.
    says: u64,
    /// How often another has overwritten it.
    overwritten: u32,
}

impl Deployer {
    pub(super) async fn report(
        &self,
        key: &ObjectKey,
        description: &Value,
        verdict: Verdict<'_>,
        manifests: Vec<Value>,
    ) -> Result<(), kubeio::Error> {
        // An earlier report of this very pass is in the cache, not in the snapshot that the pass began with.
        let mut basis = description.clone();
        if let Some(latest) = self.descriptions.get_key(key) {
            basis["status"] = latest["status"].clone();
        }
        let status = outcome::status(&basis, verdict, manifests, self.parts.env.now());
        match outcome::status_patch(&basis, status) {
            Some(patch) => self.patch_status(key, &patch).await,
            None => {
                self.note_reported(key, &basis);
                Ok(())
            }
        }
    }

    /// Notes what a Description, or a patch of its status, says about its objects: that is how the child is seen.
    pub(super) fn note_reported(&self, key: &ObjectKey, description: &Value) {
        let says = hash_of(&description["status"]["manifestStatuses"]);
        let mut reported = self.reported.lock().expect("no holder panics");
        if reported.get(key).is_none_or(|it| it.says != says) {
            let overwritten = 0;
            reported.insert(key.clone(), Reported { says, overwritten });
        }
    }

    /// After what time to look again at a Description that says something else about its objects than was last
    /// reported: another reported, or an older report of this deployer came late.
    pub(super) fn overwritten(&self, key: &ObjectKey, description: &Value) -> Option<Duration> {
        let mut reported = self.reported.lock().expect("no holder panics");
        let says = hash_of(&description["status"]["manifestStatuses"]);
        let reported = reported.get_mut(key).filter(|it| it.says != says)?;
        let pause = OVERWRITTEN_PAUSE.saturating_mul(1 << reported.overwritten.min(16));
        reported.overwritten += 1;
        Some(pause.min(RESYNC_PERIOD))
    }

    pub(super) async fn patch_status(&self, key: &ObjectKey, patch: &Value) -> Result<(), kubeio::Error> {
        // Before it is sent: its event may be here before its answer.
        self.note_reported(key, patch);
        let answer = self
            .parts
            .parent
            .patch(
                &apps::DESCRIPTIONS,
                key.namespace(),
                &key.name,
                Some("status"),
                Patch::Merge,
                patch,
            )
            .await?;
        self.descriptions.put(answer);
        Ok(())
    }

    pub(super) fn warn(&self, description: &Value, reason: &str, problem: &Problem) {
        self.recorder
            .record(description, EventType::Warning, reason, &problem.to_string());
    }

    pub(super) fn tell(&self, key: &ObjectKey, description: &Value, problems: &[Problem]) {
        let text = match problems {
            [] => "all objects are applied".to_owned(),
            problems => problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        };
        let verdict = format!("{} {text}", meta::generation(description));
        let told = self
            .told
            .lock()
            .expect("no holder panics")
            .insert(key.clone(), verdict.clone());
        if told.as_ref() == Some(&verdict) {
            return;
        }
        // After a restart, success that was told before is not told again.
        if told.is_none() && problems.is_empty() && description["status"]["phase"] == "Success" {
            return;
        }
        if problems.is_empty() {
            self.recorder.record(
                description,
                EventType::Normal,
                reasons::SUCCESSFULLY_DEPLOYED,
                &text,
            );
        } else {
            self.recorder.record(
                description,
                EventType::Warning,
                reasons::UNSUCCESSFULLY_DEPLOYED,
                &text,
            );
        }
    }
}

fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
