//! A watch cache: the present state of one resource, kept current by list and watch.
//!
//! One task writes, any number of readers look. A relist is swapped in whole, so that nobody sees half of it, and
//! readers learn of changes through [`Changes`], which keeps one pending change an object: it is bounded by the
//! number of objects, loses nothing, and a slow reader skips states in between. What is kept of an object is JSON, or
//! what the reader makes of it ([`Cache::start_reading`]): then that alone takes memory, and what it leaves out changes
//! nothing.

use std::collections::{BTreeMap, btree_map};
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
    /// Cuts an object down to what the readers need.
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
#[derive(Debug, PartialEq)]
pub struct Change<T = Value> {
    /// Which object.
    pub key: ObjectKey,
    /// Its state when it was last told, `None` if it was not there.
    pub old: Option<Arc<T>>,
    /// Its state now, `None` if it is gone.
    pub new: Option<Arc<T>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            old: self.old.clone(),
            new: self.new.clone(),
        }
    }
}

impl<T> Change<T> {
    /// The newer state that is there.
    pub fn object(&self) -> &Arc<T> {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .expect("a change has at least one state")
    }
}

type Objects<T> = BTreeMap<ObjectKey, Entry<T>>;

/// What is kept of an object.
struct Entry<T> {
    object: Arc<T>,
    /// Its resource version, if that is a whole number.
    revision: Option<u64>,
    /// What it takes in memory, as far as that is bounded.
    weight: usize,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            object: Arc::clone(&self.object),
            ..*self
        }
    }
}

/// The shared state: what is there, and who wants to know.
struct Store<T> {
    objects: RwLock<Objects<T>>,
    readers: Mutex<Vec<Weak<Pending<T>>>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
            readers: Mutex::default(),
        }
    }
}

struct Pending<T> {
    changes: Mutex<BTreeMap<ObjectKey, Change<T>>>,
    some: Notify,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            changes: Mutex::default(),
            some: Notify::default(),
        }
    }
}

impl<T: PartialEq> Pending<T> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Change<T>>> {
        self.changes.lock().expect("no holder panics")
    }

    fn push(&self, change: Change<T>) {
        let mut changes = self.lock();
        match changes.entry(change.key.clone()) {
            btree_map::Entry::Vacant(slot) => {
                slot.insert(change);
            }
            btree_map::Entry::Occupied(mut slot) => {
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

impl<T: PartialEq> Store<T> {
    fn snapshot(&self) -> Objects<T> {
        self.objects.read().expect("no holder panics").clone()
    }

    /// Puts an object in, if `fits` says so of the revision that is there; answers what weighed there before.
    fn apply(&self, key: ObjectKey, entry: Entry<T>, fits: impl Fn(Option<u64>) -> bool) -> Option<usize> {
        let new = Arc::clone(&entry.object);
        // The readers' lock is taken first and held: their changes come in the order of the writes.
        let readers = self.readers.lock().expect("no holder panics");
        let mut objects = self.objects.write().expect("no holder panics");
        if !fits(objects.get(&key).and_then(|it| it.revision)) {
            return None;
        }
        let old = objects.insert(key.clone(), entry);
        drop(objects);
        let weight = old.as_ref().map_or(0, |it| it.weight);
        let old = old.map(|it| it.object);
        if old.as_deref() != Some(&*new) {
            let new = Some(new);
            tell(&readers, &Change { key, old, new });
        }
        Some(weight)
    }

    /// Takes an object out, if `fits` says so of the revision that is there; answers what weighed there.
    fn delete(&self, key: ObjectKey, fits: impl Fn(Option<u64>) -> bool) -> Option<usize> {
        let readers = self.readers.lock().expect("no holder panics");
        let mut objects = self.objects.write().expect("no holder panics");
        let btree_map::Entry::Occupied(slot) = objects.entry(key.clone()) else {
            return None;
        };
        if !fits(slot.get().revision) {
            return None;
        }
        let old = slot.remove();
        drop(objects);
        let (weight, old) = (old.weight, Some(old.object));
        tell(&readers, &Change { key, old, new: None });
        Some(weight)
    }

    /// Swaps everything at once.
    fn replace_all(&self, new: Objects<T>) {
        let readers = self.readers.lock().expect("no holder panics");
        let old = std::mem::replace(&mut *self.objects.write().expect("no holder panics"), new.clone());
        for change in difference(&old, &new) {
            tell(&readers, &change);
        }
    }
}

fn tell<T: PartialEq>(readers: &[Weak<Pending<T>>], change: &Change<T>) {
    for reader in readers.iter().filter_map(Weak::upgrade) {
        reader.push(change.clone());
    }
}

fn difference<T: PartialEq>(old: &Objects<T>, new: &Objects<T>) -> Vec<Change<T>> {
    let mut changes = Vec::new();
    for (key, gone) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        changes.push(Change {
            key: key.clone(),
            old: Some(gone.object.clone()),
            new: None,
        });
    }
    for (key, now) in new {
        let before = old.get(key).map(|entry| &entry.object);
        if before != Some(&now.object) {
            changes.push(Change {
                key: key.clone(),
                old: before.cloned(),
                new: Some(now.object.clone()),
            });
        }
    }
    changes
}

/// What a cache makes of an object that its options cut down.
type Read<T> = dyn Fn(Value) -> T + Send + Sync;

/// A watch cache of one resource. Clones share it; the last one dropped ends its task.
pub struct Cache<T = Value> {
    store: Arc<Store<T>>,
    synced: watch::Receiver<bool>,
    /// Held for its drop, which ends the task.
    stop: Arc<DropGuard>,
    resource: ApiResource,
    reader: Reader<T>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            synced: self.synced.clone(),
            stop: Arc::clone(&self.stop),
            resource: self.resource.clone(),
            reader: self.reader.clone(),
        }
    }
}

/// Makes entries of objects.
struct Reader<T> {
    project: fn(Value) -> Value,
    read: Arc<Read<T>>,
    /// Whether what objects take is bounded.
    weighs: bool,
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self {
            read: Arc::clone(&self.read),
            ..*self
        }
    }
}

impl<T> Reader<T> {
    fn entry(&self, object: Value) -> Entry<T> {
        let revision = revision(&object);
        let object = (self.project)(object);
        Entry {
            revision,
            weight: if self.weighs { weight(&object) } else { 0 },
            object: Arc::new((self.read)(object)),
        }
    }
}

/// Whether one is older than another can be told of whole numbers alone.
fn revision(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn is_older(one: Option<u64>, other: Option<u64>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one < other)
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store,
            synced,
            stop: _,
            resource,
            reader: _,
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
        Self::start_reading(client, resource, options, |object| object)
    }
}

impl<T: PartialEq + Send + Sync + 'static> Cache<T> {
    /// Starts to fill a cache that keeps of an object what `read` makes of it.
    pub fn start_reading(
        client: Client,
        resource: ApiResource,
        options: CacheOptions,
        read: impl Fn(Value) -> T + Send + Sync + 'static,
    ) -> Self {
        let store = Arc::new(Store::default());
        let (synced, receiver) = watch::channel(false);
        let token = CancellationToken::new();
        let reader = Reader {
            project: options.project,
            read: Arc::new(read),
            weighs: client.bounds().whole < usize::MAX,
        };
        let reflector = Reflector {
            held: Held {
                own: AtomicUsize::new(0),
                all: client.held(),
            },
            client,
            resource: resource.clone(),
            options,
            store: store.clone(),
            reader: reader.clone(),
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
            stop: Arc::new(token.drop_guard()),
            resource,
            reader,
        }
    }

    /// The resource it holds.
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// One object.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<T>> {
        self.get_key(&ObjectKey::new(namespace.unwrap_or_default(), name))
    }

    /// One object by its key.
    pub fn get_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        let objects = self.store.objects.read().expect("no holder panics");
        objects.get(key).map(|entry| entry.object.clone())
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<T>> {
        let objects = self.store.objects.read().expect("no holder panics");
        objects.values().map(|entry| entry.object.clone()).collect()
    }

    /// All objects of one namespace, ordered by name.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let first = ObjectKey::new(namespace, "");
        self.store
            .objects
            .read()
            .expect("no holder panics")
            .range(first..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, entry)| entry.object.clone())
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
    pub fn subscribe(&self) -> Changes<T> {
        let pending = Arc::new(Pending::default());
        let mut readers = self.store.readers.lock().expect("no holder panics");
        readers.retain(|reader| reader.strong_count() > 0);
        for (key, entry) in self.store.snapshot() {
            pending.push(Change {
                key,
                old: None,
                new: Some(entry.object),
            });
        }
        readers.push(Arc::downgrade(&pending));
        Changes { pending }
    }

    /// Puts the answer to one's own write in at once, instead of waiting for the watch to bring it. It counts only if
    /// the cache has the object in an older revision; whether it is older can be told of whole numbers alone. A cache
    /// whose size is bounded waits for the watch.
    pub fn put(&self, object: Value) {
        if self.reader.weighs {
            return;
        }
        let key = ObjectKey::of(&object);
        let entry = self.reader.entry(object);
        let new = entry.revision;
        self.store.apply(key, entry, |have| have.is_some() && have < new);
    }
}

/// A reader's pending changes.
pub struct Changes<T = Value> {
    pending: Arc<Pending<T>>,
}

impl<T: PartialEq> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("pending", &self.pending.lock().len())
            .finish()
    }
}

impl<T: PartialEq> Changes<T> {
    /// The next change; dropping the future loses nothing.
    pub async fn next(&mut self) -> Change<T> {
        loop {
            if let Some(change) = self.try_next() {
                return change;
            }
            self.pending.some.notified().await;
        }
    }

    /// The next change if there is one now.
    pub fn try_next(&mut self) -> Option<Change<T>> {
        self.pending.lock().pop_first().map(|(_, change)| change)
    }
}

/// The one writer.
struct Reflector<T> {
    client: Client,
    resource: ApiResource,
    options: CacheOptions,
    store: Arc<Store<T>>,
    reader: Reader<T>,
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

impl<T: PartialEq + Send + Sync + 'static> Reflector<T> {
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
                Err(error) if self.reader.weighs && error.is_too_large() => {
                    tracing::warn!(
                        resource = %self.resource.plural, error = %Chain(&error),
                        "there is more than a watch cache may hold, it stays empty"
                    );
                    self.synced.send_replace(false);
                    self.store.replace_all(Objects::new());
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
                let entry = |object: Value| (ObjectKey::of(&object), self.reader.entry(object));
                let objects: Objects<T> = listed.items.into_iter().map(entry).collect();
                self.held.clear();
                for entry in objects.values() {
                    if let Err(error) = self.hold(entry.weight, 0) {
                        return (Step::List, Err(error));
                    }
                }
                self.store.replace_all(objects);
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

    /// What came before the answer to one's own write, which was [put in](Cache::put), changes nothing any more: else
    /// who wrote would see an older state after a newer one, and take their own write for undone.
    fn take(&self, event: WatchEvent) -> Result<(), Error> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let key = ObjectKey::of(&object);
                let entry = self.reader.entry(object);
                let (new, weight) = (entry.revision, entry.weight);
                match self.store.apply(key, entry, |have| !is_older(new, have)) {
                    Some(before) => self.hold(weight, before),
                    None => Ok(()),
                }
            }
            WatchEvent::Deleted(object) => {
                let new = revision(&object);
                let gone = self
                    .store
                    .delete(ObjectKey::of(&object), |have| !is_older(new, have));
                self.held.change(gone.unwrap_or(0), 0);
                Ok(())
            }
            WatchEvent::Bookmark(_) => Ok(()),
        }
    }

    /// Counts an object in place of one that took `before`.
    ///
    /// # Errors
    /// It is too much.
    fn hold(&self, weight: usize, before: usize) -> Result<(), Error> {
        let limit = self.client.bounds().whole;
        if self.held.change(before, weight) > limit {
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
