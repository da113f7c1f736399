//! Carrying plans out.

use std::collections::BTreeMap;

use distribution::{Action, EventKind, Plan, Target};
use kubeio::{DeleteOptions, Error, EventType, Outcome, Patch};
use machinery::meta;
use runtime::Chain;
use serde_json::{Value, json};

use crate::shared::Shared;

impl Shared {
    /// Does what a plan says, in its order, up to the first failure.
    pub(crate) async fn carry_out(&self, plan: Plan) -> Result<(), Error> {
        self.carry_out_about(&Value::Null, plan)
            .await
            .map_err(|(error, _)| error)
    }

    /// The same; what failed comes with the reason of an event about an object, where it has one of its own.
    pub(crate) async fn carry_out_about(
        &self,
        about: &Value,
        plan: Plan,
    ) -> Result<(), (Error, Option<&'static str>)> {
        // The revisions that our own writes moved on: planned from, now.
        let mut moved: BTreeMap<Target, (String, String)> = BTreeMap::new();
        for action in plan.actions {
            let trouble = action.trouble(about);
            self.act(action, &mut moved)
                .await
                .map_err(|error| (error, trouble))?;
        }
        Ok(())
    }

    async fn act(&self, action: Action, moved: &mut BTreeMap<Target, (String, String)>) -> Result<(), Error> {
        match action {
            Action::Create { resource, object } => {
                let namespace = object["metadata"]["namespace"].as_str();
                let answer = self.client.create(&resource, namespace, &object).await?;
                self.learn(&resource, answer);
            }
            Action::Patch {
                resource,
                target,
                subresource,
                patch,
            } => {
                let mut patch = pinned(patch, &target);
                let planned = patch["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                if let Some((_, now)) = moved.get(&target).filter(|(from, _)| *from == planned) {
                    patch["metadata"]["resourceVersion"] = json!(now);
                }
                let namespace = namespace(&target);
                let answer = self
                    .client
                    .patch(
                        &resource,
                        namespace,
                        &target.name,
                        subresource,
                        Patch::Merge,
                        &patch,
                    )
                    .await?;
                if !planned.is_empty() {
                    moved.insert(target, (planned, meta::resource_version(&answer).to_owned()));
                }
                self.learn(&resource, answer);
            }
            Action::Delete { resource, target } => {
                let uid = Some(target.uid.clone()).filter(|uid| !uid.is_empty());
                let options = DeleteOptions {
                    uid,
                    ..DeleteOptions::background()
                };
                match self
                    .client
                    .delete(&resource, namespace(&target), &target.name, &options)
                    .await
                {
                    Err(error) if !error.is_not_found() => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            Action::Event {
                about,
                kind,
                reason,
                note,
            } => self.tell(&about, kind, &reason, &note),
        }
        Ok(())
    }

    /// Records an event.
    pub(crate) fn tell(&self, about: &Value, kind: EventKind, reason: &str, note: &str) {
        let kind = match kind {
            EventKind::Normal => EventType::Normal,
            EventKind::Warning => EventType::Warning,
        };
        self.recorder.record(about, kind, reason, note);
    }

    /// What becomes of an item whose plan failed: again later. People hear of it unless it was a mere race.
    pub(crate) fn failed(&self, about: &Value, reason: &str, error: &Error) -> Outcome {
        let metadata = &about["metadata"];
        if error.is_conflict() || error.is_already_exists() || error.is_not_found() {
            tracing::debug!(
                kind = %about["kind"], namespace = %metadata["namespace"], name = %metadata["name"],
                error = %Chain(error), "planned from an old state, trying again"
            );
        } else {
            tracing::warn!(
                kind = %about["kind"], namespace = %metadata["namespace"], name = %metadata["name"],
                error = %Chain(error), "a write failed, trying again"
            );
            self.tell(about, EventKind::Warning, reason, &Chain(error).to_string());
        }
        Outcome::Retry
    }
}

fn namespace(target: &Target) -> Option<&str> {
    Some(target.namespace.as_str()).filter(|namespace| !namespace.is_empty())
}

/// The patch, for this life of the object only.
fn pinned(mut patch: Value, target: &Target) -> Value {
    if !target.uid.is_empty() {
        if !patch["metadata"].is_object() {
            patch["metadata"] = json!({});
        }
        patch["metadata"]["uid"] = json!(target.uid);
    }
    patch
}
