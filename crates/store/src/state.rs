//! What readers see: every object's newest version, the versions that were overwritten within the window, and the
//! window's events.
//!
//! It knows nothing of files. One writer applies events in revision order; each event is durable by then.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use smol_str::SmolStr;
use source::{Error, Event, EventKind, Key, Object, Resource, Revision};
use tokio::sync::Notify;

use crate::codec;

/// What an event costs besides the JSON of its versions.
const EVENT_OVERHEAD: usize = 512;

/// Everything that readers see, at one revision.
#[derive(Debug)]
pub(crate) struct State {
    tables: BTreeMap<Resource, Table>,
    /// The window: all resources' events, oldest first.
    window: VecDeque<Arc<Event>>,
    window_bytes: usize,
    limits: Limits,
    revision: Revision,
    /// Nothing is known of the history up to here.
    base: Revision,
    /// The newest event that has left the window; `base` at first.
    oldest: Revision,
    objects: usize,
    live_bytes: u64,
    /// About how many bytes a snapshot takes.
    stored: u64,
    closed: Option<String>,
}

/// How much history is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// At most this many events (but at least one).
    pub(crate) events: usize,
    /// At most this many bytes.
    pub(crate) bytes: usize,
}

/// One resource.
#[derive(Debug)]
pub(crate) struct Table {
    namespaces: BTreeMap<SmolStr, BTreeMap<SmolStr, Entry>>,
    /// This resource's part of the window, oldest first.
    events: VecDeque<Arc<Event>>,
    /// The newest event of this resource that has left the window; reads and watches begin here or later.
    evicted: Revision,
    changed: Arc<Notify>,
}

/// One key: its newest version, and what came before within the window.
#[derive(Debug)]
pub(crate) struct Entry {
    newest: Slot,
    older: VecDeque<Slot>,
}

#[derive(Debug)]
struct Slot {
    revision: Revision,
    /// `None` for a removal.
    object: Option<Arc<Object>>,
}

impl Entry {
    fn visible(&self, at: Revision) -> Option<&Arc<Object>> {
        if self.newest.revision <= at {
            return self.newest.object.as_ref();
        }
        let behind = self.older.partition_point(|slot| slot.revision <= at);
        self.older.get(behind.checked_sub(1)?)?.object.as_ref()
    }
}

impl Table {
    fn new(evicted: Revision) -> Self {
        Self {
            namespaces: BTreeMap::new(),
            events: VecDeque::new(),
            evicted,
            changed: Arc::new(Notify::new()),
        }
    }

    fn entry(&self, key: &Key) -> Option<&Entry> {
        self.namespaces
            .get(key.namespace.as_str())?
            .get(key.name.as_str())
    }

    /// Stores a slot as the newest of its key.
    fn put(&mut self, key: &Key, slot: Slot) {
        let names = match self.namespaces.get_mut(key.namespace.as_str()) {
            Some(names) => names,
            None => self.namespaces.entry(key.namespace.clone()).or_default(),
        };
        match names.get_mut(key.name.as_str()) {
            Some(entry) => {
                let before = std::mem::replace(&mut entry.newest, slot);
                entry.older.push_back(before);
            }
            None => {
                let entry = Entry {
                    newest: slot,
                    older: VecDeque::new(),
                };
                names.insert(key.name.clone(), entry);
            }
        }
    }

    /// Forgets what only reads before `revision` could see of a key. What is freed goes to `dropped`.
    fn forget(&mut self, key: &Key, revision: Revision, dropped: &mut Vec<Arc<Object>>) {
        let Some(names) = self.namespaces.get_mut(key.namespace.as_str()) else {
            return;
        };
        let Some(entry) = names.get_mut(key.name.as_str()) else {
            return;
        };
        while entry.older.front().is_some_and(|slot| slot.revision < revision) {
            let slot = entry.older.pop_front();
            dropped.extend(slot.and_then(|slot| slot.object));
        }
        if entry.older.is_empty() && entry.newest.object.is_none() && entry.newest.revision <= revision {
            names.remove(key.name.as_str());
            if names.is_empty() {
                self.namespaces.remove(key.namespace.as_str());
            }
        }
    }

    /// Visits the entries behind `after` in key order until told to stop.
    fn visit(
        &self,
        namespace: Option<&str>,
        after: Option<(&str, &str)>,
        mut visit: impl FnMut(&SmolStr, &SmolStr, &Entry) -> ControlFlow<()>,
    ) {
        let first = match (namespace, after) {
            (Some(namespace), _) => Bound::Included(namespace),
            (None, Some((namespace, _))) => Bound::Included(namespace),
            (None, None) => Bound::Unbounded,
        };
        for (current, names) in self.namespaces.range::<str, _>((first, Bound::Unbounded)) {
            if namespace.is_some_and(|namespace| namespace != current) {
                return;
            }
            let first = match after {
                Some((passed, _)) if passed > current.as_str() => continue,
                Some((passed, name)) if passed == current.as_str() => Bound::Excluded(name),
                Some(_) | None => Bound::Unbounded,
            };
            for (name, entry) in names.range::<str, _>((first, Bound::Unbounded)) {
                if visit(current, name, entry).is_break() {
                    return;
                }
            }
        }
    }
}

/// One part of a list: as much as is done under one lock.
pub(crate) struct Scan<'a> {
    /// Which resource.
    pub(crate) resource: &'a Resource,
    /// Only this namespace.
    pub(crate) namespace: Option<&'a str>,
    /// What counts.
    pub(crate) filter: &'a (dyn Fn(&Object) -> bool + Send + Sync),
    /// The state at this revision.
    pub(crate) at: Revision,
    /// Objects wanted in all; 0 for all.
    pub(crate) limit: usize,
    /// Entries visited at most.
    pub(crate) visits: usize,
}

/// How far a list has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The objects found.
    pub(crate) objects: Vec<Arc<Object>>,
    /// Objects that would have been found but for the limit.
    pub(crate) remaining: usize,
    /// The last entry visited.
    pub(crate) position: Option<(SmolStr, SmolStr)>,
}

/// What a watch sees of the window.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The events.
    pub(crate) events: Vec<Arc<Event>>,
    /// Everything up to here is seen now.
    pub(crate) up_to: Revision,
}

impl State {
    /// An empty state at a revision.
    pub(crate) fn new(revision: Revision, limits: Limits) -> Self {
        Self {
            tables: BTreeMap::new(),
            window: VecDeque::new(),
            window_bytes: 0,
            limits,
            revision,
            base: revision,
            oldest: revision,
            objects: 0,
            live_bytes: 0,
            stored: 0,
            closed: None,
        }
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The oldest revision that every resource can be read at.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// How many objects there are, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.objects, self.live_bytes)
    }

    /// About how many bytes a snapshot of the objects takes, rather more than less.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// How many events the window holds, and their bytes.
    pub(crate) fn window(&self) -> (usize, usize) {
        (self.window.len(), self.window_bytes)
    }

    /// Why the store is closed, if it is.
    pub(crate) fn closed(&self) -> Option<&str> {
        self.closed.as_deref()
    }

    /// Refuses reads from now on; the first reason stays.
    pub(crate) fn close(&mut self, reason: &str) {
        self.closed.get_or_insert_with(|| reason.to_owned());
        for table in self.tables.values() {
            table.changed.notify_waiters();
        }
    }

    /// `Err` once the store is closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match &self.closed {
            Some(reason) => Err(Error::Closed(reason.clone())),
            None => Ok(()),
        }
    }

    /// The newest version of an object.
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.tables.get(&key.resource)?.entry(key)?.newest.object.as_ref()
    }

    /// Every object, in key order.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        let mut all = Vec::with_capacity(self.objects);
        for table in self.tables.values() {
            table.visit(None, None, |_, _, entry| {
                all.extend(entry.newest.object.clone());
                ControlFlow::Continue(())
            });
        }
        all
    }

    /// Adds an object of a snapshot: no event.
    pub(crate) fn load(&mut self, object: Arc<Object>) {
        self.count(None, Some(&object));
        let slot = Slot {
            revision: object.revision,
            object: Some(object.clone()),
        };
        let base = self.base;
        let table = self.tables.entry(object.key.resource.clone());
        table.or_insert_with(|| Table::new(base)).put(&object.key, slot);
    }

    fn count(&mut self, before: Option<&Object>, now: Option<&Object>) {
        if let Some(before) = before {
            self.objects -= 1;
            self.live_bytes -= before.json.len() as u64;
            self.stored -= codec::put_size(before);
        }
        if let Some(now) = now {
            self.objects += 1;
            self.live_bytes += now.json.len() as u64;
            self.stored += codec::put_size(now);
        }
    }

    /// Applies the next event. Watchers are not woken. What leaves the window goes to `dropped`, so that the caller
    /// frees it without a lock.
    pub(crate) fn apply(&mut self, event: Arc<Event>, dropped: &mut Dropped) {
        let (key, revision) = (&event.object.key, event.revision());
        debug_assert!(revision > self.revision, "revisions grow");
        let object = match event.kind {
            EventKind::Added | EventKind::Modified => Some(event.object.clone()),
            EventKind::Deleted => None,
        };
        self.count(event.previous.as_deref(), object.as_deref());
        let slot = Slot { revision, object };
        let table = match self.tables.get_mut(&key.resource) {
            Some(table) => table,
            None => {
                let table = Table::new(self.base);
                self.tables.entry(key.resource.clone()).or_insert(table)
            }
        };
        table.put(key, slot);
        table.events.push_back(event.clone());
        self.revision = revision;
        self.window_bytes += cost(&event);
        self.window.push_back(event);
        while self.window.len() > self.limits.events.max(1)
            || (self.window_bytes > self.limits.bytes && self.window.len() > 1)
        {
            self.evict(dropped);
        }
    }

    fn evict(&mut self, dropped: &mut Dropped) {
        let Some(event) = self.window.pop_front() else {
            return;
        };
        let revision = event.revision();
        self.window_bytes -= cost(&event);
        self.oldest = revision;
        if let Some(table) = self.tables.get_mut(&event.object.key.resource) {
            table.events.pop_front();
            table.evicted = revision;
            table.forget(&event.object.key, revision, &mut dropped.objects);
        }
        dropped.events.push(event);
    }

    /// Jumps to a later revision and forgets all history.
    pub(crate) fn jump(&mut self, revision: Revision) {
        let mut dropped = Dropped::default();
        while !self.window.is_empty() {
            self.evict(&mut dropped);
        }
        self.revision = revision;
        self.base = revision;
        self.oldest = revision;
        for table in self.tables.values_mut() {
            table.evicted = revision;
        }
    }

    /// Checks that a resource's state at a revision is still known.
    pub(crate) fn check(&self, resource: &Resource, asked: Revision) -> Result<(), Error> {
        if asked > self.revision {
            return Err(Error::Future {
                asked,
                newest: self.revision,
            });
        }
        let table = self.tables.get(resource);
        let oldest = table.map_or(self.base, |table| table.evicted);
        if asked < oldest {
            return Err(Error::Expired { asked, oldest });
        }
        Ok(())
    }

    /// Goes on with a list. True once it is done.
    pub(crate) fn scan(&self, scan: &Scan<'_>, progress: &mut Progress) -> bool {
        let Some(table) = self.tables.get(scan.resource) else {
            return true;
        };
        let position = progress.position.take();
        let after = position
            .as_ref()
            .map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        let mut visits = 0;
        let mut done = true;
        table.visit(scan.namespace, after, |namespace, name, entry| {
            if let Some(object) = entry.visible(scan.at)
                && (scan.filter)(object)
            {
                if scan.limit == 0 || progress.objects.len() < scan.limit {
                    progress.objects.push(object.clone());
                } else {
                    progress.remaining += 1;
                }
            }
            visits += 1;
            if visits < scan.visits {
                return ControlFlow::Continue(());
            }
            progress.position = Some((namespace.clone(), name.clone()));
            done = false;
            ControlFlow::Break(())
        });
        done
    }

    /// The signal for events of a resource, if there ever were any.
    pub(crate) fn changed(&self, resource: &Resource) -> Option<Arc<Notify>> {
        self.tables.get(resource).map(|table| table.changed.clone())
    }

    /// The signal for events of a resource.
    pub(crate) fn make_changed(&mut self, resource: &Resource) -> Arc<Notify> {
        let base = self.base;
        let table = self.tables.entry(resource.clone());
        table.or_insert_with(|| Table::new(base)).changed.clone()
    }

    /// The signals for events of these resources.
    pub(crate) fn signals<'a>(&self, resources: impl Iterator<Item = &'a Resource>) -> Vec<Arc<Notify>> {
        resources
            .filter_map(|resource| self.tables.get(resource))
            .map(|table| table.changed.clone())
            .collect()
    }

    /// The events of a resource behind a revision, of which at most `limit` are looked at.
    pub(crate) fn events(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        after: Revision,
        limit: usize,
    ) -> Result<Seen, Error> {
        let mut seen = Seen {
            events: Vec::new(),
            up_to: self.revision,
        };
        let Some(table) = self.tables.get(resource) else {
            return Ok(seen);
        };
        if after < table.evicted {
            return Err(Error::Expired {
                asked: after,
                oldest: table.evicted,
            });
        }
        let first = table.events.partition_point(|event| event.revision() <= after);
        let last = table.events.len().min(first.saturating_add(limit));
        seen.events.extend(
            table
                .events
                .range(first..last)
                .filter(|event| namespace.is_none_or(|namespace| event.object.key.namespace == namespace))
                .cloned(),
        );
        if last < table.events.len() {
            seen.up_to = table.events[last - 1].revision();
        }
        Ok(seen)
    }

    /// Up to which revision a reader has seen everything that has seen everything up to `after`.
    pub(crate) fn seen(&self, resource: &Resource, after: Revision) -> Revision {
        let newest = self.tables.get(resource).map_or(self.base, |table| {
            table
                .events
                .back()
                .map_or(table.evicted, |event| event.revision())
        });
        if newest <= after {
            after.max(self.revision)
        } else {
            after
        }
    }
}

/// What has left the window.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    events: Vec<Arc<Event>>,
    objects: Vec<Arc<Object>>,
}

fn cost(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |object| object.json.len());
    EVENT_OVERHEAD + event.object.json.len() + previous
}
