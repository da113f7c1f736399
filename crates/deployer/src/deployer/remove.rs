//! What is wanted no longer goes, in order.

use std::collections::BTreeMap;

use api::{finalizers, reasons};
use kubeio::{EventType, ObjectKey, Outcome};
use machinery::meta;
use serde_json::Value;

use super::orphans::Left;
use super::{Deployer, REMOVAL_PERIOD};
use crate::outcome::{self, Observed, Problem, Sight, Verdict};
use crate::plan::{self, ObjectId};

impl Deployer {
    /// What other Descriptions of the child ask for, which are there to stay.
    pub(super) fn asked_by_others(&self, key: &ObjectKey) -> Vec<(ObjectId, ObjectKey)> {
        let all = self.descriptions.list().into_iter();
        let others = all.filter(|it| !meta::is_deleting(it) && it["spec"]["deployer"] == "Generic");
        others
            .map(|it| (ObjectKey::of(&it), it))
            .filter(|(other, _)| other != key)
            .flat_map(|(other, it)| {
                let asked = plan::ids(&plan::asked(&it).0).into_iter();
                asked.map(move |id| (id, other.clone()))
            })
            .collect()
    }

    /// Removes objects of the Description in order; answers those that are still there. What another Description asks
    /// for too is left to that. One that may not be looked at is still there only if it was seen before: what was never
    /// applied keeps nobody waiting.
    pub(super) async fn remove_all(
        &self,
        key: &ObjectKey,
        description: &Value,
        ids: &[ObjectId],
        problems: &mut Vec<Problem>,
    ) -> Vec<Observed> {
        let in_sight = self.applier.watches.owned(key);
        let was_applied = |id: &ObjectId| {
            outcome::last_seen(description, id).is_some()
                || in_sight.iter().any(|other| other.is_same_object(id))
        };
        let mut left = BTreeMap::new();
        for id in ids {
            match self.applier.owned(id, key).await {
                Ok(None) => {}
                Ok(Some(live)) => {
                    left.insert(id.clone(), Sight::Ours(live));
                }
                Err(Problem::Forbidden { .. }) if !was_applied(id) => {}
                Err(problem) => {
                    left.insert(id.clone(), Sight::Unknown);
                    problems.push(problem);
                }
            }
        }
        let heirs = if left.is_empty() {
            Vec::new()
        } else {
            self.asked_by_others(key)
        };
        for id in plan::removable(&left) {
            let Some(Sight::Ours(live)) = left.get(id) else {
                continue;
            };
            let heir = heirs.iter().find(|(asked, _)| asked.is_same_object(id));
            let done = match heir {
                Some((_, heir)) => {
                    let handed_over = self.applier.hand_over(id, live, heir).await;
                    self.queue.add(heir.clone());
                    handed_over
                }
                None => self.applier.remove(id, live).await,
            };
            problems.extend(done.err());
        }
        left.into_iter()
            .map(|(id, sight)| Observed { id, sight })
            .collect()
    }

    /// Follows the deletion of a Description to its end, then lets it go.
    pub(super) async fn remove(
        &self,
        key: &ObjectKey,
        description: &Value,
    ) -> Result<Outcome, kubeio::Error> {
        if !meta::has_finalizer(description, finalizers::APP) {
            return Ok(Outcome::Done);
        }
        let Left { ids, held } = self.left(key, description).await?;
        let ids = plan::brought(description, ids);
        let mut problems = Vec::new();
        let mut left = self.remove_all(key, description, &ids, &mut problems).await;
        if !left.is_empty() && problems.is_empty() {
            // Many objects are gone as soon as they are asked to go.
            let ids: Vec<ObjectId> = left.into_iter().map(|left| left.id).collect();
            left = self.remove_all(key, description, &ids, &mut problems).await;
        }
        if left.is_empty() && problems.is_empty() {
            self.applier.watches.set(key, &BTreeMap::new());
            if !held {
                self.orphans.release(key, description, &ids);
            }
            self.set_finalizer(key, description, false).await?;
            return Ok(Outcome::Done);
        }
        for problem in &problems {
            self.warn(description, reasons::FAILED_DELETING_DESCRIPTION, problem);
        }
        let failed = !problems.is_empty();
        problems.extend(left.iter().map(|left| Problem::NotGone(left.id.clone())));
        let verdict = Verdict::Removing(&problems);
        let manifests = outcome::manifest_statuses(&left, description);
        match self.report(key, description, verdict, manifests).await {
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(if failed {
            Outcome::Retry
        } else {
            Outcome::After(REMOVAL_PERIOD)
        })
    }

    /// Removes what is wanted no longer, for whoever applies and does not.
    pub(super) async fn prune_for_another(
        &self,
        key: &ObjectKey,
        description: &Value,
    ) -> Result<Outcome, kubeio::Error> {
        let asked_for = plan::ids(&plan::asked(description).0);
        let Left { ids, held: _ } = self.left(key, description).await?;
        let leftovers = plan::leftovers(description, ids.iter().cloned(), &asked_for);
        let mut problems = Vec::new();
        let left = self.remove_all(key, description, &leftovers, &mut problems).await;
        for Observed { id, sight } in &left {
            if matches!(sight, Sight::Ours(live) if !meta::is_deleting(live)) {
                let note = format!("{id} is wanted no longer and removed for the cluster's agent");
                self.recorder.record(
                    description,
                    EventType::Normal,
                    reasons::SUCCESSFULLY_PRUNING_FEED,
                    &note,
                );
            }
        }
        for problem in &problems {
            self.warn(description, reasons::UNSUCCESSFULLY_PRUNING_FEED, problem);
        }
        if !problems.is_empty() {
            return Ok(Outcome::Retry);
        }
        if !left.is_empty() {
            return Ok(Outcome::After(REMOVAL_PERIOD));
        }
        self.orphans.forget(key, &ids);
        Ok(Outcome::Done)
    }
}
