//! A watch cache: the present state of one resource, kept current by list and watch.
//!
//! One task writes, any number of readers look. A relist is swapped in whole, so that nobody sees half of it, and
//! readers learn of changes through [`Changes`], which keeps one pending change an object: it is bounded by the
//! number of objects, loses nothing, and a slow reader skips states in between.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};
use std::time::Duration;

use clock::Backoff;
use machinery::ApiResource;
use runtime::Chain;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::error::Error;
use crate::key::ObjectKey;
use crate::options::{ListOptions, WatchOptions};
use crate::watch::WatchEvent;

/// How long one watch is asked to last.
const WATCH_TIMEOUT: Duration = Duration::from_secs(290);
const RETRY_BASE: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// Before what was too much is looked at again.
const TOO_MUCH_PAUSE: Duration = Duration::from_mins(5);

/// What a cache holds.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only what matches this label selector; empty for everything.
    pub label_selector: String,
    /// Only what matches this field selector; empty for everything.
    pub field_selector: String,
    /// Cuts an object down to what the readers need. Must keep `metadata.name` and `.namespace`.
    pub project: fn(Value) -> Value,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            namespace: None,
            label_selector: String::new(),
            field_selector: String::new(),
            project: |object| object,
        }
    }
}

impl CacheOptions {
    /// One namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..Self::default()
        }
    }

    /// What matches a label selector.
    pub fn labels(selector: impl Into<String>) -> Self {
        Self {
            label_selector: selector.into(),
            ..Self::default()
        }
    }
}

/// One object's change since it was last told. At least one of the two states is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which object.
    pub key: ObjectKey,
    /// Its state when it was last told, `None` if it was not there.
    pub old: Option<Arc<Value>>,
    /// Its state now, `None` if it is gone.
    pub new: Option<Arc<Value>>,
}

impl Change {
    /// The newer state that is there.
    pub fn object(&self) -> &Arc<Value> {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .expect("a change has at least one state")
    }
}

type Objects = BTreeMap<ObjectKey, Arc<Value>>;

/// The shared state: what is there, and who wants to know.
#[derive(Default)]
struct Store {
    objects: RwLock<Objects>,
    readers: Mutex<Vec<Weak<Pending>>>,
}

#[derive(Default)]
struct Pending {
    changes: Mutex<BTreeMap<ObjectKey, Change>>,
    some: Notify,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Change>> {
        self.changes.lock().expect("no holder panics")
    }

    fn push(&self, change: Change) {
        let mut changes = self.lock();
        match changes.entry(change.key.clone()) {
            Entry::Vacant(slot) => {
                slot.insert(change);
            }
            Entry::Occupied(mut slot) => {
                slot.get_mut().new = change.new;
                let merged = slot.get();
                if merged.old == merged.new {
                    slot.remove();
                }
            }
        }
        drop(changes);
        self.some.notify_one();
    }
}

impl Store {
    fn snapshot(&self) -> Objects {
        self.objects.read().expect("no holder panics").clone()
    }

    /// Puts an object in; answers whether that changed anything.
    fn apply(&self, object: Value) -> bool {
        let key = ObjectKey::of(&object);
        let new = Arc::new(object);
        // The readers' lock is taken first and held: their changes come in the order of the writes.
        let readers = self.readers.lock().expect("no holder panics");
        let old = self
            .objects
            .write()
            .expect("no holder panics")
            .insert(key.clone(), new.clone());
        if old.as_deref() == Some(&*new) {
            return false;
        }
        tell(
            &readers,
            &Change {
                key,
                old,
                new: Some(new),
            },
        );
        true
    }

    fn delete(&self, key: ObjectKey) -> bool {
        let readers = self.readers.lock().expect("no holder panics");
        let old = self.objects.write().expect("no holder panics").remove(&key);
        let changed = old.is_some();
        if changed {
            tell(&readers, &Change { key, old, new: None });
        }
        changed
    }

    /// Swaps everything at once.
    fn replace_all(&self, objects: Vec<Value>) {
        let new: Objects = objects
            .into_iter()
            .map(|object| (ObjectKey::of(&object), Arc::new(object)))
            .collect();
        let readers = self.readers.lock().expect("no holder panics");
        let old = std::mem::replace(&mut *self.objects.write().expect("no holder panics"), new.clone());
        for change in difference(&old, &new) {
            tell(&readers, &change);
        }
    }
}

fn tell(readers: &[Weak<Pending>], change: &Change) {
    for reader in readers.iter().filter_map(Weak::upgrade) {
        reader.push(change.clone());
    }
}

fn difference(old: &Objects, new: &Objects) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, gone) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        changes.push(Change {
            key: key.clone(),
            old: Some(gone.clone()),
            new: None,
        });
    }
    for (key, now) in new {
        let before = old.get(key);
        if before != Some(now) {
            changes.push(Change {
                key: key.clone(),
                old: before.cloned(),
                new: Some(now.clone()),
            });
        }
    }
    changes
}

/// A watch cache of one resource. Clones share it; the last one dropped ends its task.
#[derive(Clone)]
pub struct Cache {
    store: Arc<Store>,
    synced: watch::Receiver<bool>,
    /// Held for its drop, which ends the task.
    _stop: Arc<DropGuard>,
    resource: ApiResource,
    project: fn(Value) -> Value,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            synced,
            _stop: _,
            resource,
            project: _,
        } = self;
        f.debug_struct("Cache")
            .field("resource", &resource.plural)
            .field("synced", &*synced.borrow())
            .field("objects", &store.objects.read().expect("no holder panics").len())
            .finish()
    }
}

impl Cache {
    /// Starts to fill a cache (on the current runtime).
    pub fn start(client: Client, resource: ApiResource, options: CacheOptions) -> Self {
        let store = Arc::new(Store::default());
        let (synced, receiver) = watch::channel(false);
        let token = CancellationToken::new();
        let project = options.project;
        let reflector = Reflector {
            held: Held {
                own: AtomicUsize::new(0),
                all: client.held(),
            },
            client,
            resource: resource.clone(),
            options,
            store: store.clone(),
            synced,
        };
        let stop = token.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = reflector.run() => {}
            }
        });
        Self {
            store,
            synced: receiver,
            _stop: Arc::new(token.drop_guard()),
            resource,
            project,
        }
    }

    /// The resource it holds.
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// One object.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Value>> {
        self.get_key(&ObjectKey::new(namespace.unwrap_or_default(), name))
    }

    /// One object by its key.
    pub fn get_key(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.store
            .objects
            .read()
            .expect("no holder panics")
            .get(key)
            .cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<Value>> {
        self.store
            .objects
            .read()
            .expect("no holder panics")
            .values()
            .cloned()
            .collect()
    }

    /// All objects of one namespace, ordered by name.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<Value>> {
        let first = ObjectKey::new(namespace, "");
        self.store
            .objects
            .read()
            .expect("no holder panics")
            .range(first..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Waits until the first list is in.
    pub async fn ready(&self) {
        // An error means that the task is gone, which only a runtime that shuts down does.
        drop(self.synced.clone().wait_for(|synced| *synced).await);
    }

    /// Whether the first list is in, and is no more than what the client's [`Bounds`](crate::Bounds) allow: past them a
    /// cache is emptied, and not ready until there is less.
    pub fn is_ready(&self) -> bool {
        *self.synced.borrow()
    }

    /// Changes from now on; it begins with every object that is there.
    pub fn subscribe(&self) -> Changes {
        let pending = Arc::new(Pending::default());
        let mut readers = self.store.readers.lock().expect("no holder panics");
        readers.retain(|reader| reader.strong_count() > 0);
        for (key, object) in self.store.snapshot() {
            pending.push(Change {
                key,
                old: None,
                new: Some(object),
            });
        }
        readers.push(Arc::downgrade(&pending));
        Changes { pending }
    }

    /// Puts the answer to one's own write in at once, instead of waiting for the watch to bring it. It counts only if
    /// the cache has the object in an older revision; whether it is older can be told of whole numbers alone.
    pub fn put(&self, object: Value) {
        let revision =
            |object: &Value| -> Option<u64> { object["metadata"]["resourceVersion"].as_str()?.parse().ok() };
        let have = self
            .get_key(&ObjectKey::of(&object))
            .and_then(|have| revision(&have));
        if let (Some(have), Some(new)) = (have, revision(&object))
            && have < new
        {
            self.store.apply((self.project)(object));
        }
    }
}

/// A reader's pending changes.
pub struct Changes {
    pending: Arc<Pending>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("pending", &self.pending.lock().len())
            .finish()
    }
}

impl Changes {
    /// The next change; dropping the future loses nothing.
    pub async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.try_next() {
                return change;
            }
            self.pending.some.notified().await;
        }
    }

    /// The next change if there is one now.
    pub fn try_next(&mut self) -> Option<Change> {
        self.pending.lock().pop_first().map(|(_, change)| change)
    }
}

/// The one writer.
struct Reflector {
    client: Client,
    resource: ApiResource,
    options: CacheOptions,
    store: Arc<Store>,
    synced: watch::Sender<bool>,
    held: Held,
}

/// What objects take, as far as that is bounded.
struct Held {
    /// Those of this cache.
    own: AtomicUsize,
    /// Those of all caches of the client.
    all: Arc<AtomicUsize>,
}

impl Held {
    /// Counts one object in another's place; answers what all take then.
    fn change(&self, before: usize, now: usize) -> usize {
        self.own.fetch_add(now, Ordering::Relaxed);
        self.own.fetch_sub(before, Ordering::Relaxed);
        self.all.fetch_add(now, Ordering::Relaxed);
        self.all
            .fetch_sub(before, Ordering::Relaxed)
            .saturating_sub(before)
    }

    fn clear(&self) {
        self.change(self.own.load(Ordering::Relaxed), 0);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Where the reflector is in the protocol.
enum Step {
    /// At the start, and after the revision was lost: list, which leads to `Watch`.
    List,
    /// After a list or a watch that ended: watch from the revision.
    Watch { from: String },
}

impl Reflector {
    async fn run(self) {
        let mut step = Step::List;
        let mut backoff = Backoff::new(RETRY_BASE, RETRY_MAX);
        loop {
            let (next, result) = match step {
                Step::List => self.list().await,
                Step::Watch { from } => self.watch(from).await,
            };
            step = next;
            match result {
                Ok(()) => backoff.reset(),
                // What is known of a server that is trusted stays.
                Err(error) if self.is_bounded() && error.is_too_large() => {
                    tracing::warn!(
                        resource = %self.resource.plural, error = %Chain(&error),
                        "there is more than a watch cache may hold, it stays empty"
                    );
                    self.synced.send_replace(false);
                    self.store.replace_all(Vec::new());
                    self.held.clear();
                    step = Step::List;
                    tokio::time::sleep(TOO_MUCH_PAUSE).await;
                }
                Err(error) => {
                    if error.is_expired() {
                        tracing::debug!(resource = %self.resource.plural, "watch expired, listing again");
                    } else {
                        tracing::debug!(resource = %self.resource.plural, error = %Chain(&error), "watch cache retries");
                    }
                    let delay = backoff.next_delay(self.jitter(backoff.attempts()));
                    tokio::time::sleep(error.retry_after().unwrap_or(delay)).await;
                }
            }
        }
    }

    /// Spreads retries by resource and attempt; equal runs retry at equal times.
    fn jitter(&self, attempt: u32) -> u64 {
        let seed = self
            .resource
            .plural
            .bytes()
            .fold(u64::from(attempt), |hash, byte| {
                hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
            });
        seed % 1_000
    }

    async fn list(&self) -> (Step, Result<(), Error>) {
        let options = ListOptions {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            ..ListOptions::default()
        };
        let namespace = self.options.namespace.as_deref();
        match self.client.list_all(&self.resource, namespace, &options).await {
            Ok(listed) => {
                let items: Vec<Value> = listed.items.into_iter().map(self.options.project).collect();
                self.held.clear();
                for item in &items {
                    if let Err(error) = self.hold(item, 0) {
                        return (Step::List, Err(error));
                    }
                }
                self.store.replace_all(items);
                self.synced.send_replace(true);
                let from = listed.resource_version;
                (Step::Watch { from }, Ok(()))
            }
            Err(error) => (Step::List, Err(error)),
        }
    }

    async fn watch(&self, mut from: String) -> (Step, Result<(), Error>) {
        let options = WatchOptions {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            resource_version: from.clone(),
            timeout: WATCH_TIMEOUT,
            ..WatchOptions::default()
        };
        let namespace = self.options.namespace.as_deref();
        let started = tokio::time::Instant::now();
        let mut stream = match self.client.watch(&self.resource, namespace, &options).await {
            Ok(stream) => stream,
            Err(error) => return (after(&error, from), Err(error)),
        };
        let mut events = 0_u64;
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => {
                    events += 1;
                    let version = event.resource_version();
                    if !version.is_empty() {
                        version.clone_into(&mut from);
                    }
                    if let Err(error) = self.take(event) {
                        return (Step::List, Err(error));
                    }
                }
                Err(error) => return (after(&error, from), Err(error)),
            }
        }
        if events == 0 && started.elapsed() < Duration::from_secs(1) {
            // A server that ends watches at once is not to be asked in a tight loop.
            let request = format!("watch {}", self.resource.plural);
            let problem = "the watch ended at once".to_owned();
            return (Step::Watch { from }, Err(Error::Answer { request, problem }));
        }
        (Step::Watch { from }, Ok(()))
    }

    fn take(&self, event: WatchEvent) -> Result<(), Error> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let object = (self.options.project)(object);
                self.hold(&object, self.weight_at(&ObjectKey::of(&object)))?;
                self.store.apply(object);
            }
            WatchEvent::Deleted(object) => {
                let key = ObjectKey::of(&object);
                self.held.change(self.weight_at(&key), 0);
                self.store.delete(key);
            }
            WatchEvent::Bookmark(_) => {}
        }
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        self.client.bounds().whole < usize::MAX
    }

    /// What the object under a key takes now.
    fn weight_at(&self, key: &ObjectKey) -> usize {
        if !self.is_bounded() {
            return 0;
        }
        let objects = self.store.objects.read().expect("no holder panics");
        objects.get(key).map_or(0, |object| weight(object))
    }

    /// Counts an object in place of one that took `before`.
    ///
    /// # Errors
    /// It is too much.
    fn hold(&self, object: &Value, before: usize) -> Result<(), Error> {
        if !self.is_bounded() {
            return Ok(());
        }
        let limit = self.client.bounds().whole;
        if self.held.change(before, weight(object)) > limit {
            let request = format!("watch {}", self.resource.plural);
            return Err(Error::TooLarge { request, limit });
        }
        Ok(())
    }
}

/// About what a value takes in memory.
fn weight(value: &Value) -> usize {
    let inside: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + weight(value))
            .sum(),
    };
    size_of::<Value>() + inside
}

fn after(error: &Error, from: String) -> Step {
    // Anything that the server says against the revision is cured by a list; a broken line is resumed.
    if error.is_expired() || from.is_empty() || error.is_invalid() {
        Step::List
    } else {
        Step::Watch { from }
    }
}

#[cfg(test)]
mod tests;
