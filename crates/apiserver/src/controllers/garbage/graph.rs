//! Who depends on whom: only objects with owners are in it, and those that are being deleted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smol_str::SmolStr;
use source::{Key, Object, Resource};

/// How many uids of deleted objects are remembered: they tell what became of owners whose kind is gone too.
const REMEMBERED: usize = 4_096;

/// Dependents by owner, and objects that wait for theirs.
#[derive(Debug, Default)]
pub(super) struct Graph {
    dependents: BTreeMap<SmolStr, BTreeSet<Key>>,
    owners: BTreeMap<Key, Box<[SmolStr]>>,
    deleting: BTreeMap<SmolStr, Key>,
    gone: BTreeSet<SmolStr>,
    gone_order: VecDeque<SmolStr>,
}

impl Graph {
    /// Takes a version in; pushes the objects to look at because of it.
    pub(super) fn put(&mut self, object: &Object, wanted: &mut Vec<Key>) {
        let key = &object.key;
        let owners: Box<[SmolStr]> = object.head.owners().map(SmolStr::new).collect();
        let old = self.owners.get(key).cloned().unwrap_or_default();
        if owners != old {
            self.unlink(key);
            for owner in &owners {
                self.dependents
                    .entry(owner.clone())
                    .or_default()
                    .insert(key.clone());
            }
            if !owners.is_empty() {
                self.owners.insert(key.clone(), owners);
                wanted.push(key.clone());
            }
            // An owner that waits may have lost its last dependent.
            wanted.extend(old.iter().filter_map(|owner| self.deleting.get(owner).cloned()));
        }
        if object.head.deleting {
            self.deleting.insert(object.head.uid().into(), key.clone());
            wanted.push(key.clone());
        }
    }

    /// Takes a deletion in; pushes the objects to look at because of it.
    pub(super) fn gone(&mut self, object: &Object, wanted: &mut Vec<Key>) {
        let uid = object.head.uid();
        self.deleting.remove(uid);
        if let Some(owners) = self.owners.get(&object.key) {
            wanted.extend(
                owners
                    .iter()
                    .filter_map(|owner| self.deleting.get(owner).cloned()),
            );
        }
        self.unlink(&object.key);
        wanted.extend(self.dependents_of(uid));
        if !uid.is_empty() && self.gone.insert(uid.into()) {
            self.gone_order.push_back(uid.into());
            if self.gone_order.len() > REMEMBERED
                && let Some(oldest) = self.gone_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
    }

    /// Forgets all objects of a resource.
    pub(super) fn reset(&mut self, resource: &Resource) {
        let keys: Vec<Key> = self
            .owners
            .keys()
            .filter(|key| key.resource == *resource)
            .cloned()
            .collect();
        for key in keys {
            self.unlink(&key);
        }
        self.deleting.retain(|_, key| key.resource != *resource);
    }

    /// Every object that has owners.
    pub(super) fn owned(&self) -> impl Iterator<Item = Key> {
        self.owners.keys().cloned()
    }

    /// The objects that name an owner.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<Key> {
        self.dependents
            .get(uid)
            .map(|keys| keys.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Whether an object is known to have been deleted.
    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    fn unlink(&mut self, key: &Key) {
        let Some(owners) = self.owners.remove(key) else {
            return;
        };
        for owner in &owners {
            if let Some(keys) = self.dependents.get_mut(owner) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}
