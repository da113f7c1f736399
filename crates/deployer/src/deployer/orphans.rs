//! Objects whose Description is gone. The parent lets a Description go without its child when that was not ready for
//! too long, and its deletion may be missed altogether; the objects stay until somebody looks for them.
//!
//! A parent that was restored from a backup does not know what was applied since: then they stay, and it is told, until
//! somebody says that its word counts ([`HOLD_ORPHANS`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use api::annotations::HOLD_ORPHANS;
use api::{apps, clusters, reasons};
use clock::Backoff;
use kubeio::{Change, EventType, ListOptions, ObjectKey, Outcome};
use machinery::meta;
use runtime::Chain;
use serde_json::Value;
use tokio::sync::Notify;

use super::{BLIND_PERIOD, Deployer, Duty, REMOVAL_PERIOD, RESYNC_PERIOD};
use crate::found;
use crate::plan::{self, ObjectId};

/// What is known of such objects. It is not trusted: every object is read once more before it is removed.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    known: Mutex<Known>,
    /// Told when it is worth looking again.
    look: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// By the Description that they name.
    objects: BTreeMap<ObjectKey, BTreeSet<ObjectId>>,
    /// Descriptions (by UID) that may go, since nothing of theirs is left.
    released: BTreeSet<String>,
    /// What stays, as it was told.
    held: BTreeMap<ObjectKey, Vec<ObjectId>>,
}

/// What may be removed of a Description besides what it knows itself.
pub(super) struct Left {
    pub(super) ids: Vec<ObjectId>,
    /// Whether there is more, which has to stay.
    pub(super) held: bool,
}

impl Orphans {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder panics")
    }

    /// Takes note of a Description that went, and what it had brought.
    pub(super) fn see(&self, change: &Change) {
        let Some(old) = change.old.as_deref() else {
            return;
        };
        let stays = change
            .new
            .as_deref()
            .is_some_and(|new| meta::uid(new) == meta::uid(old));
        if stays || old["spec"]["deployer"] != "Generic" {
            return;
        }
        let mut known = self.lock();
        if !known.released.remove(meta::uid(old)) {
            let brought = plan::brought(old, []);
            known
                .objects
                .entry(change.key.clone())
                .or_default()
                .extend(brought);
        }
    }

    /// Takes note of what a Description asks for no longer.
    pub(super) fn see_dropped(&self, change: &Change) {
        let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else {
            return;
        };
        let dropped = plan::dropped(old, new);
        if meta::uid(old) == meta::uid(new) && old["spec"]["deployer"] == "Generic" && !dropped.is_empty() {
            let mut known = self.lock();
            known
                .objects
                .entry(change.key.clone())
                .or_default()
                .extend(dropped);
        }
    }

    /// Nothing is left of a Description, which brought these: when it goes now, nothing of it needs to be looked for.
    pub(super) fn release(&self, key: &ObjectKey, description: &Value, ids: &[ObjectId]) {
        self.forget(key, ids);
        self.lock().released.insert(meta::uid(description).to_owned());
    }

    /// The objects that may be left of earlier Descriptions of this name.
    pub(super) fn of(&self, key: &ObjectKey) -> Vec<ObjectId> {
        let known = self.lock();
        known.objects.get(key).into_iter().flatten().cloned().collect()
    }

    /// Of these nothing is left. What was found meanwhile is looked at next.
    pub(super) fn forget(&self, key: &ObjectKey, ids: &[ObjectId]) {
        let mut known = self.lock();
        if let Some(objects) = known.objects.get_mut(key) {
            objects.retain(|id| !ids.contains(id));
            if objects.is_empty() {
                known.objects.remove(key);
            }
        }
        known.held.remove(key);
    }

    /// Keeps in mind what stays; answers whether that is news.
    fn hold(&self, key: &ObjectKey, ids: &[ObjectId]) -> bool {
        let mut known = self.lock();
        known
            .objects
            .entry(key.clone())
            .or_default()
            .extend(ids.iter().cloned());
        known.held.insert(key.clone(), ids.to_vec()).as_deref() != Some(ids)
    }

    /// Asks for a look at everything.
    pub(super) fn look_again(&self) {
        self.look.notify_one();
    }
}

impl Deployer {
    /// Looks through the child once, and again when asked to or when something could not be looked at.
    pub(super) async fn look_for_orphans(&self) {
        let mut backoff = Backoff::new(REMOVAL_PERIOD, RESYNC_PERIOD);
        loop {
            if self.duty() != Some(Duty::Deploy) || self.look().await {
                backoff.reset();
                self.orphans.look.notified().await;
            } else {
                tokio::time::sleep(backoff.next_delay(self.parts.env.random_u64())).await;
            }
        }
    }

    /// Queues the Descriptions that objects name and that are not there, or do not name them; answers whether everything
    /// was seen.
    async fn look(&self) -> bool {
        let found = match found::find(&self.parts.child).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "the child was not looked through for leftovers");
                return false;
            }
        };
        let mut brought: BTreeMap<ObjectKey, Vec<ObjectId>> = BTreeMap::new();
        for (owner, id) in found.objects {
            // Another parent's objects are none of our business.
            if owner.namespace == self.parts.namespace {
                brought.entry(owner).or_default().push(id);
            }
        }
        for (owner, mut ids) in brought {
            if let Some(description) = self.descriptions.get_key(&owner) {
                let known = plan::brought(&description, []);
                ids.retain(|id| !known.iter().any(|known| known.is_same_object(id)));
            }
            if !ids.is_empty() {
                let mut known = self.orphans.lock();
                known.objects.entry(owner.clone()).or_default().extend(ids);
                drop(known);
                self.queue.add(owner);
            }
        }
        found.missed.is_empty()
    }

    /// A Description is not there: removes what it has left, once the parent confirms.
    pub(super) async fn prune(&self, key: &ObjectKey, duty: Duty) -> Result<Outcome, kubeio::Error> {
        self.told.lock().expect("no holder panics").remove(key);
        self.reported.lock().expect("no holder panics").remove(key);
        let mut ids = self.orphans.of(key);
        ids.extend(self.applier.watches.owned(key));
        ids.sort();
        ids.dedup();
        if ids.is_empty() || key.namespace != self.parts.namespace {
            return Ok(self.pruned(key, &ids));
        }
        if matches!(duty, Duty::Observe | Duty::Prune) {
            return Ok(self.pruned(key, &ids));
        }
        if self.parent_has(key).await? {
            // It will be in the cache soon, and is settled then.
            return Ok(Outcome::After(REMOVAL_PERIOD));
        }
        if self.hold(key, &ids).await? {
            return Ok(Outcome::After(BLIND_PERIOD));
        }
        let mut problems = Vec::new();
        let mut left = self.remove_all(key, &Value::Null, &ids, &mut problems).await;
        if !left.is_empty() && problems.is_empty() {
            // Many objects are gone as soon as they are asked to go.
            let ids: Vec<ObjectId> = left.into_iter().map(|left| left.id).collect();
            left = self.remove_all(key, &Value::Null, &ids, &mut problems).await;
        }
        for problem in &problems {
            tracing::warn!(description = %key, error = %problem, "an object without a description is not removed");
        }
        if !problems.is_empty() {
            return Ok(Outcome::Retry);
        }
        if !left.is_empty() {
            return Ok(Outcome::After(REMOVAL_PERIOD));
        }
        tracing::info!(description = %key, objects = ids.len(), "what a description left behind is gone");
        Ok(self.pruned(key, &ids))
    }

    /// What says that it comes from a Description, or may have come from an earlier one of its name, as far as it may be
    /// removed.
    pub(super) async fn left(&self, key: &ObjectKey, description: &Value) -> Result<Left, kubeio::Error> {
        let mut ids = self.applier.watches.owned(key);
        ids.extend(self.orphans.of(key));
        let known = plan::brought(description, []);
        let is_known = |id: &ObjectId| known.iter().any(|known| known.is_same_object(id));
        let mut unknown: Vec<ObjectId> = ids.iter().filter(|id| !is_known(id)).cloned().collect();
        unknown.sort();
        unknown.dedup();
        let held = !unknown.is_empty() && self.hold(key, &unknown).await?;
        if held {
            ids.retain(is_known);
        }
        Ok(Left { ids, held })
    }

    /// Whether objects have to stay that only the child knows of, which is told then. The parent is asked after it was
    /// asked for the Description, so that both answers are of one parent.
    async fn hold(&self, key: &ObjectKey, ids: &[ObjectId]) -> Result<bool, kubeio::Error> {
        let own = self.parts.namespace.as_str();
        let everything = ListOptions::default();
        let members = self
            .parts
            .parent
            .list_all(&clusters::MANAGED_CLUSTERS, Some(own), &everything)
            .await?
            .items;
        let Some(why) = plan::hold(&members) else {
            return Ok(false);
        };
        if self.orphans.hold(key, ids) {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let note = format!(
                "not removed, though Description \"{key}\" is not known to have brought it: {} ({why}); to have it removed, \
                 take the annotation {HOLD_ORPHANS} off the ManagedCluster",
                ids.join(", ")
            );
            tracing::warn!(description = %key, objects = ids.len(), why, "objects stay that the parent does not know");
            for member in &members {
                self.recorder
                    .record(member, EventType::Warning, reasons::ORPHANS_HELD, &note);
            }
        }
        Ok(true)
    }

    fn pruned(&self, key: &ObjectKey, ids: &[ObjectId]) -> Outcome {
        self.orphans.forget(key, ids);
        self.applier.watches.set(key, &BTreeMap::new());
        Outcome::Done
    }

    /// Whether the parent has a Description now. A list, because its 404 may only mean that the kind is not served.
    async fn parent_has(&self, key: &ObjectKey) -> Result<bool, kubeio::Error> {
        let options = ListOptions {
            field_selector: format!("metadata.name={}", key.name),
            ..ListOptions::default()
        };
        let listed = self
            .parts
            .parent
            .list_all(&apps::DESCRIPTIONS, key.namespace(), &options)
            .await?;
        Ok(listed.items.iter().any(|item| meta::name(item) == key.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn description(uid: &str, deployer: &str) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"namespace": "ns", "name": "app", "uid": uid}, "spec": {"deployer": deployer},
            "status": {"manifestStatuses": [{"apiVersion": "v1", "kind": "Namespace", "name": uid}]},
        }))
    }

    #[test]
    fn remembers_what_descriptions_leave_behind() {
        let key = ObjectKey::new("ns", "app");
        let (one, two, helm) = (
            description("1", "Generic"),
            description("2", "Generic"),
            description("1", "Helm"),
        );
        for (what, old, new, released, expected) in [
            ("comes", None, Some(&one), false, 0),
            ("changes", Some(&one), Some(&one), false, 0),
            ("goes", Some(&one), None, false, 1),
            ("is replaced", Some(&one), Some(&two), false, 1),
            ("goes when nothing is left", Some(&one), None, true, 0),
            ("is not ours", Some(&helm), None, false, 0),
        ] {
            let orphans = Orphans::default();
            if released {
                orphans.release(&key, &one, &[]);
            }
            orphans.see(&Change {
                key: key.clone(),
                old: old.cloned(),
                new: new.cloned(),
            });
            assert_eq!(orphans.of(&key).len(), expected, "{what}");
            assert!(orphans.lock().released.is_empty(), "{what}");
            let found = ObjectId::from_feed(&json!({"apiVersion": "v1", "kind": "Secret", "name": "found"}));
            let seen = orphans.of(&key);
            orphans.hold(&key, found.as_slice());
            orphans.forget(&key, &seen);
            assert_eq!(orphans.of(&key), found.as_slice(), "what was found meanwhile");
            orphans.forget(&key, found.as_slice());
            assert!(orphans.lock().objects.is_empty());
        }
    }
}
