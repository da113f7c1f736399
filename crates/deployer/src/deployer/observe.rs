//! Where another applies: what is seen is reported.

use std::collections::BTreeMap;

use api::entry::Entry;
use kubeio::{ObjectKey, Outcome};
use serde_json::{Value, json};

use super::{BLIND_PERIOD, Deployer};
use crate::outcome::{self, Observed, Sight};
use crate::plan::{self, Asked};

impl Deployer {
    /// Another applies: only the objects' status is reported.
    pub(super) async fn observe(
        &self,
        key: &ObjectKey,
        description: &Value,
    ) -> Result<Outcome, kubeio::Error> {
        if !self.parts.recovery {
            return Ok(Outcome::Done);
        }
        let wanted = plan::asked(description).0;
        // What whoever applies has still to remove stays on record.
        let leftovers = plan::leftovers(description, [], &plan::ids(&wanted));
        let mut resources = BTreeMap::new();
        let mut observed = Vec::new();
        let mut blind = false;
        for Asked { id, entry } in wanted {
            let Ok(resource) = self.applier.resource(&id).await else {
                blind = true;
                let sight = Sight::Unknown;
                observed.push(Observed { id, sight });
                continue;
            };
            let seen = self.applier.watches.get(&id);
            blind |= seen.is_none();
            let live = match seen.flatten() {
                Some(live) => Ok(Some((*live).clone())),
                // Not in sight, or without the label that the watch goes by.
                None => {
                    let (namespace, name) = (id.key.namespace(), id.key.name.as_str());
                    self.parts.child.get_opt(&resource, namespace, name).await
                }
            };
            resources.insert(id.kind.clone(), resource);
            let sight = match live {
                Ok(Some(live)) if self.shares(key, entry, &live).await => Sight::Shared(live),
                live => Sight::of_answer(live, key),
            };
            blind |= matches!(sight, Sight::Unknown | Sight::Shared(_));
            observed.push(Observed { id, sight });
        }
        self.applier.watches.set(key, &resources);
        observed.extend(leftovers.into_iter().map(|id| Observed {
            id,
            sight: Sight::Unknown,
        }));
        let manifests = json!(outcome::manifest_statuses(&observed, description));
        if description["status"]["manifestStatuses"] == manifests {
            self.note_reported(key, description);
        } else {
            self.patch_status(key, &json!({"status": {"manifestStatuses": manifests}}))
                .await?;
        }
        Ok(if blind {
            Outcome::After(BLIND_PERIOD)
        } else {
            Outcome::Done
        })
    }

    /// Whether an object that is there is another Description's, and as this one wants it.
    pub(super) async fn shares(&self, key: &ObjectKey, entry: Entry, live: &Value) -> bool {
        let Some(owner) = plan::owner(live).filter(|owner| owner != key) else {
            return false;
        };
        let wanted = self.parts.contents.object(key, entry).await;
        let wanted = wanted.map(|object| plan::prepare(object, key));
        self.is_there(&owner)
            && wanted.is_ok_and(|it| plan::step(&it, Some(live), |_| true) == plan::Step::Share)
    }
}
