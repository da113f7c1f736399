//! Charts, which nobody here executes.

use api::{apps, labels, reasons};
use kubeio::{EventType, ListOptions, ObjectKey, Outcome, Patch};
use machinery::meta;
use serde_json::Value;

use super::{Deployer, Duty};
use crate::charts::{self, Step};
use crate::outcome::{Problem, Verdict};

impl Deployer {
    /// Says of charts that nobody executes them, and lets their releases go. Whoever has the duty instead may be able.
    pub(super) async fn decline(
        &self,
        key: &ObjectKey,
        description: &Value,
        duty: Duty,
    ) -> Result<Outcome, kubeio::Error> {
        if matches!(duty, Duty::Observe | Duty::Prune) {
            return Ok(Outcome::Done);
        }
        let own = ListOptions::labels(format!("{}={}", labels::CONFIG_UID, meta::uid(description)));
        let parent = &self.parts.parent;
        let releases = parent
            .list(&apps::HELM_RELEASES, key.namespace(), &own)
            .await?
            .items;
        for release in &releases {
            let (subresource, patch) = match charts::step(release) {
                Step::Say(patch) => (Some("status"), patch),
                Step::Release { patch, installed } => {
                    if installed {
                        let note = "what another agent installed stays in the cluster";
                        self.recorder.record(
                            release,
                            EventType::Warning,
                            reasons::HELM_RELEASE_FAILURE,
                            note,
                        );
                    }
                    (None, patch)
                }
                Step::Nothing => continue,
            };
            let name = meta::name(release);
            let written = parent
                .patch(
                    &apps::HELM_RELEASES,
                    key.namespace(),
                    name,
                    subresource,
                    Patch::Merge,
                    &patch,
                )
                .await;
            match written {
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        if duty == Duty::Deploy && !meta::is_deleting(description) {
            let names = charts::names(description).into_iter();
            let problems: Vec<Problem> = names.map(Problem::NotExecuted).collect();
            self.report(key, description, Verdict::Done(&problems), Vec::new())
                .await?;
            self.tell(key, description, &problems);
        }
        Ok(if charts::are_settled(description, &releases) {
            Outcome::Done
        } else {
            Outcome::Retry
        })
    }
}
