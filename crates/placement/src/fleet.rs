//! Every cluster there is, with an index by labels.
//!
//! [`Fleet::selected`] finds what a selector selects without a look at the others; for the selectors that are in use
//! ([`Fleet::keep`]) the answer lies ready, and a change of a cluster changes only what concerns it. An index answers as
//! a look at every cluster would: a property test holds it to that.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use machinery::selector::{LabelOp, LabelRequirement, LabelSelector};

use crate::model::{Cluster, ClusterKey, selects};

/// A cluster's place in the index, its own as long as it is there.
pub(crate) type Slot = u32;

/// The clusters, in the order of their keys.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    slots: Vec<Option<Arc<Cluster>>>,
    free: Vec<Slot>,
    /// What ties are broken by.
    by_key: Order,
    /// As bindings are stored.
    by_text: Order,
    /// By slot: whether taints have to be looked at.
    tainted: Vec<bool>,
    /// How many are being deleted. Those are in no list below: nothing selects them.
    leaving: usize,
    /// By the label's key and value.
    labels: BTreeMap<String, BTreeMap<String, Vec<Slot>>>,
    groups: BTreeMap<LabelSelector, Group>,
}

/// What a selector selects.
#[derive(Debug, Clone)]
struct Group {
    /// In the order of their keys.
    members: Vec<Slot>,
    /// How many asked to keep it.
    users: usize,
}

/// All slots in one order.
#[derive(Debug, Clone, Default)]
struct Order {
    slots: Vec<Slot>,
    /// By slot: where it stands.
    ranks: Vec<u32>,
}

impl Order {
    fn insert(&mut self, at: usize, slot: Slot) {
        self.slots.insert(at, slot);
        if self.ranks.len() <= slot as usize {
            self.ranks.resize(slot as usize + 1, 0);
        }
        self.number_from(at);
    }

    fn remove(&mut self, at: usize) {
        self.slots.remove(at);
        self.number_from(at);
    }

    fn number_from(&mut self, at: usize) {
        for (rank, slot) in (0..).zip(&self.slots).skip(at) {
            self.ranks[*slot as usize] = rank;
        }
    }

    fn rank(&self, slot: Slot) -> u32 {
        self.ranks[slot as usize]
    }
}

/// The order of the keys' texts, which is that of the keys but for namespaces of which one begins with the other.
pub(crate) fn by_text(left: &ClusterKey, right: &ClusterKey) -> Ordering {
    if left.namespace.len() == right.namespace.len() {
        return left.cmp(right);
    }
    text(left).cmp(text(right))
}

fn text(key: &ClusterKey) -> impl Iterator<Item = u8> {
    let ClusterKey { namespace, name } = key;
    namespace.bytes().chain([b'/']).chain(name.bytes())
}

impl Fleet {
    /// Puts a cluster in, in place of the one of the same key, which is the answer.
    pub fn put(&mut self, cluster: impl Into<Arc<Cluster>>) -> Option<Arc<Cluster>> {
        let new: Arc<Cluster> = cluster.into();
        let (slot, old) = match self.find(&new.key) {
            Ok(at) => {
                let slot = self.by_key.slots[at];
                let old = self.slots[slot as usize].replace(Arc::clone(&new));
                (slot, old)
            }
            Err(at) => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    self.tainted.push(false);
                    Slot::try_from(self.slots.len() - 1).expect("memory ends sooner")
                });
                self.slots[slot as usize] = Some(Arc::clone(&new));
                self.by_key.insert(at, slot);
                let at = self.find_text(&new.key).unwrap_or_else(|at| at);
                self.by_text.insert(at, slot);
                (slot, None)
            }
        };
        self.tainted[slot as usize] = !new.taints.is_empty();
        self.index(slot, old.as_deref(), Some(&new));
        old
    }

    /// Takes a cluster out.
    pub fn remove(&mut self, key: &ClusterKey) -> Option<Arc<Cluster>> {
        let at = self.find(key).ok()?;
        let slot = self.by_key.slots[at];
        let old = self.slots[slot as usize].clone();
        // While its order is still known.
        self.index(slot, old.as_deref(), None);
        if let Ok(at) = self.find_text(key) {
            self.by_text.remove(at);
        }
        self.by_key.remove(at);
        self.slots[slot as usize] = None;
        self.free.push(slot);
        old
    }

    /// The cluster of a key.
    pub fn get(&self, key: &ClusterKey) -> Option<&Cluster> {
        Some(self.cluster(self.by_key.slots[self.find(key).ok()?]))
    }

    /// The cluster of a key, to be kept.
    pub fn shared(&self, key: &ClusterKey) -> Option<Arc<Cluster>> {
        self.slots[self.by_key.slots[self.find(key).ok()?] as usize].clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.slots.is_empty()
    }

    /// All of them, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Cluster> {
        self.by_key.slots.iter().map(|slot| self.cluster(*slot))
    }

    /// Keeps what a selector selects ready from now on, until it was released as often.
    pub fn keep(&mut self, selector: &LabelSelector) {
        if let Some(group) = self.groups.get_mut(selector) {
            group.users += 1;
            return;
        }
        let group = Group {
            members: self.search(selector),
            users: 1,
        };
        self.groups.insert(selector.clone(), group);
    }

    /// Takes one [`Fleet::keep`] back.
    pub fn release(&mut self, selector: &LabelSelector) {
        if let Some(group) = self.groups.get_mut(selector) {
            group.users -= 1;
            if group.users == 0 {
                self.groups.remove(selector);
            }
        }
    }

    /// The keys of the clusters that a selector selects, but for those that are being deleted; in their order.
    pub fn selected_keys(&self, selector: &LabelSelector) -> Vec<&ClusterKey> {
        let selected = self.selected(selector);
        selected.iter().map(|slot| &self.cluster(*slot).key).collect()
    }

    /// What a selector selects, in the order of the keys.
    pub(crate) fn selected(&self, selector: &LabelSelector) -> Cow<'_, [Slot]> {
        match self.groups.get(selector) {
            Some(group) => Cow::Borrowed(&group.members),
            None => Cow::Owned(self.search(selector)),
        }
    }

    /// What any of several selectors selects, in the order of the keys.
    pub(crate) fn selected_by_any<'s>(
        &self,
        mut selectors: impl Iterator<Item = &'s LabelSelector>,
    ) -> Cow<'_, [Slot]> {
        let mut all = match selectors.next() {
            Some(first) => self.selected(first),
            None => return Cow::Borrowed(&[]),
        };
        for selector in selectors {
            let more = self.selected(selector);
            if *all != *more {
                let all = all.to_mut();
                all.extend_from_slice(&more);
                self.sort(all);
                all.dedup();
            }
        }
        all
    }

    pub(crate) fn cluster(&self, slot: Slot) -> &Cluster {
        let cluster = self.slots[slot as usize].as_deref();
        cluster.expect("only what is there has a place in an order")
    }

    pub(crate) fn is_tainted(&self, slot: Slot) -> bool {
        self.tainted[slot as usize]
    }

    pub(crate) fn leaving(&self) -> usize {
        self.leaving
    }

    /// Sorts by the clusters' keys.
    pub(crate) fn sort(&self, slots: &mut [Slot]) {
        slots.sort_by_key(|slot| self.by_key.rank(*slot));
    }

    /// Sorts by the texts of the clusters' keys.
    pub(crate) fn sort_by_text(&self, slots: &mut [Slot]) {
        slots.sort_by_key(|slot| self.by_text.rank(*slot));
    }

    fn find(&self, key: &ClusterKey) -> Result<usize, usize> {
        let slots = &self.by_key.slots;
        slots.binary_search_by(|slot| self.cluster(*slot).key.cmp(key))
    }

    fn find_text(&self, key: &ClusterKey) -> Result<usize, usize> {
        let slots = &self.by_text.slots;
        slots.binary_search_by(|slot| by_text(&self.cluster(*slot).key, key))
    }

    /// Brings lists up to date: what was in `slot` before, and what is now.
    fn index(&mut self, slot: Slot, old: Option<&Cluster>, new: Option<&Cluster>) {
        let stays = |cluster: &&Cluster| !cluster.deleting;
        let is_leaving = |cluster: Option<&Cluster>| usize::from(cluster.is_some_and(|it| it.deleting));
        self.leaving = self.leaving + is_leaving(new) - is_leaving(old);
        let labels = |cluster: Option<&'_ Cluster>| cluster.filter(stays).map(|it| it.labels.clone());
        let (old, new) = (labels(old), labels(new));
        if old == new {
            return;
        }
        for (key, value) in old.iter().flatten() {
            if new.as_ref().and_then(|new| new.get(key)) != Some(value) {
                self.unlist(key, value, slot);
            }
        }
        for (key, value) in new.iter().flatten() {
            if old.as_ref().and_then(|old| old.get(key)) != Some(value) {
                let values = self.labels.entry(key.clone()).or_default();
                values.entry(value.clone()).or_default().push(slot);
            }
        }
        let (ranks, rank) = (&self.by_key.ranks, self.by_key.rank(slot));
        for (selector, group) in &mut self.groups {
            let is_in = new.as_ref().is_some_and(|labels| selects(selector, labels));
            let place = group
                .members
                .binary_search_by_key(&rank, |slot| ranks[*slot as usize]);
            match (place, is_in) {
                (Err(at), true) => group.members.insert(at, slot),
                (Ok(at), false) => drop(group.members.remove(at)),
                (Ok(_), true) | (Err(_), false) => {}
            }
        }
    }

    fn unlist(&mut self, key: &str, value: &str, slot: Slot) {
        let Some(values) = self.labels.get_mut(key) else {
            return;
        };
        if let Some(slots) = values.get_mut(value) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.labels.remove(key);
        }
    }

    /// Looks at the clusters that the rarest of a selector's labels leaves.
    fn search(&self, selector: &LabelSelector) -> Vec<Slot> {
        let terms = selector.requirements().iter();
        let lists = terms.filter_map(|term| self.holders(term));
        let rarest = lists.min_by_key(|lists| lists.iter().map(|list| list.len()).sum::<usize>());
        let mut found: Vec<Slot> = match rarest {
            Some(lists) => lists.concat(),
            None => self.by_key.slots.clone(),
        };
        found.retain(|slot| {
            let cluster = self.cluster(*slot);
            !cluster.deleting && selects(selector, &cluster.labels)
        });
        self.sort(&mut found);
        found
    }

    /// Lists, without a slot in two of them, of all clusters that may fulfil a term; `None` if those without the label
    /// do.
    fn holders(&self, term: &LabelRequirement) -> Option<Vec<&[Slot]>> {
        let values = self.labels.get(term.key());
        let values = |keep: &dyn Fn(&str) -> bool| {
            let lists = values.into_iter().flatten();
            let lists = lists.filter(|(value, _)| keep(value));
            lists.map(|(_, slots)| slots.as_slice()).collect()
        };
        match term.op() {
            LabelOp::Equals | LabelOp::DoubleEquals | LabelOp::In => {
                let of = |value| self.labels.get(term.key())?.get(value);
                Some(term.values().filter_map(of).map(Vec::as_slice).collect())
            }
            LabelOp::Exists | LabelOp::GreaterThan | LabelOp::LessThan => {
                Some(values(&|value| term.matches(Some(value))))
            }
            LabelOp::NotEquals | LabelOp::NotIn | LabelOp::DoesNotExist => None,
        }
    }
}

impl FromIterator<Cluster> for Fleet {
    fn from_iter<I: IntoIterator<Item = Cluster>>(clusters: I) -> Self {
        let mut fleet = Self::default();
        for cluster in clusters {
            fleet.put(cluster);
        }
        fleet
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
