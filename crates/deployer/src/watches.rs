//! Follows the kinds that Descriptions use, and only while one uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kubeio::{Cache, CacheOptions, CancellationToken, Client, ObjectKey, Queue};
use machinery::{ApiResource, Gvk};
use serde_json::Value;
use tokio_util::sync::DropGuard;

use crate::found;
use crate::plan::{self, ObjectId};

/// Changes in the child that come together make one pass.
const SETTLE: Duration = Duration::from_millis(100);

/// The watches of the kinds in use.
pub(crate) struct Watches {
    child: Client,
    queue: Queue<ObjectKey>,
    watched: Mutex<BTreeMap<Gvk, Watched>>,
}

struct Watched {
    cache: Cache,
    users: BTreeSet<ObjectKey>,
    /// Ends the task that tells the queue.
    _stop: DropGuard,
}

impl Watches {
    /// Watches of nothing yet; owners of changed objects go into the queue.
    pub(crate) fn new(child: Client, queue: Queue<ObjectKey>) -> Self {
        Self {
            child,
            queue,
            watched: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Gvk, Watched>> {
        self.watched.lock().expect("no holder panics")
    }

    /// Says which kinds a Description uses now: new ones are watched, those that nobody uses any more are not.
    pub(crate) fn set(&self, user: &ObjectKey, kinds: &BTreeMap<Gvk, ApiResource>) {
        let mut watched = self.lock();
        for (kind, resource) in kinds {
            watched
                .entry(kind.clone())
                .or_insert_with(|| self.watch(resource.clone()))
                .users
                .insert(user.clone());
        }
        watched.retain(|kind, watched| {
            if !kinds.contains_key(kind) {
                watched.users.remove(user);
            }
            !watched.users.is_empty()
        });
    }

    fn watch(&self, resource: ApiResource) -> Watched {
        let options = CacheOptions {
            project: without_managed_fields,
            ..CacheOptions::labels(found::selector())
        };
        let cache = Cache::start(self.child.clone(), resource, options);
        let mut changes = cache.subscribe();
        let queue = self.queue.clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            loop {
                let change = tokio::select! {
                    biased;
                    () = stopped.cancelled() => return,
                    change = changes.next() => change,
                };
                // An object that changes hands concerns both.
                let owners = [&change.old, &change.new]
                    .into_iter()
                    .flatten()
                    .filter_map(|object| plan::owner(object));
                for owner in owners.collect::<BTreeSet<_>>() {
                    queue.add_after(owner, SETTLE);
                }
            }
        });
        Watched {
            cache,
            users: BTreeSet::new(),
            _stop: stop.drop_guard(),
        }
    }

    /// What the watch knows about an object: `None` if it does not know, `Some(None)` if there is none (of ours).
    pub(crate) fn get(&self, id: &ObjectId) -> Option<Option<Arc<Value>>> {
        let watched = self.lock();
        let cache = &watched.get(&id.kind)?.cache;
        cache.is_ready().then(|| cache.get_key(&id.key))
    }

    /// The objects in sight that say that they come from a Description.
    pub(crate) fn owned(&self, description: &ObjectKey) -> Vec<ObjectId> {
        let watched = self.lock();
        let objects = watched.values().flat_map(|watched| watched.cache.list());
        objects
            .filter(|object| plan::owner(object).as_ref() == Some(description))
            .map(|object| ObjectId::of(&object))
            .collect()
    }

    /// Whether every kind that a Description uses is in sight; if not, drift has to be looked for.
    pub(crate) fn sees_all(&self, user: &ObjectKey) -> bool {
        self.lock()
            .values()
            .all(|watched| !watched.users.contains(user) || watched.cache.is_ready())
    }
}

fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}
