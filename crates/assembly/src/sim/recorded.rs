//! A store whose every committed write is recorded, and which dies with its disk.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::disk::SimDisk;
use futures::future::BoxFuture;
use runtime::CancellationToken;
use source::{
    Change, Error, Expect, Key, ListRequest, Object, ObjectSource, Page, Revision, Watch, WatchRequest, Write,
};
use store::Store;

use super::trace::{Trace, short_hash};

/// What is written for ever.
const SIGNS_OF_LIFE: [&str; 2] = ["coordination.k8s.io/leases", super::world::CLUSTERS];

/// What a cluster's clients were promised.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// The revision of each object's acknowledged version; `None` for a deleted one.
    objects: BTreeMap<Key, Option<Revision>>,
    /// The newest acknowledged revision.
    newest: Revision,
    /// The write that was under way when the disk failed: it may have happened or not.
    in_doubt: Option<Key>,
    /// What became of it, once that is known.
    pub(crate) resolved: Option<(Key, Option<Arc<Object>>)>,
    writes: u64,
}

impl Promises {
    /// Checks a store that was opened again, and takes what it has for true.
    pub(crate) async fn check(&mut self, store: &Store) -> Vec<String> {
        let mut broken = Vec::new();
        if store.revision() < self.newest {
            broken.push(format!(
                "the revision went back from {} to {}",
                self.newest,
                store.revision()
            ));
        }
        let in_doubt = self.in_doubt.take();
        for (key, promised) in &mut self.objects {
            let found = match store.get(key).await {
                Ok(found) => found.map(|object| object.revision),
                Err(error) => {
                    broken.push(format!("{key} cannot be read: {error}"));
                    continue;
                }
            };
            if found != *promised && in_doubt.as_ref() != Some(key) {
                broken.push(format!(
                    "{key} was acknowledged at {promised:?} and is at {found:?}"
                ));
            }
            *promised = found;
        }
        if let Some(key) = in_doubt {
            let found = store.get(&key).await.ok().flatten();
            let revision = found.as_ref().map(|object| object.revision);
            self.objects.insert(key.clone(), revision);
            self.resolved = Some((key, found));
        }
        self.newest = store.revision();
        broken
    }
}

/// The store of a running cluster.
pub(crate) struct Recorded {
    cluster: String,
    store: Arc<Store>,
    disk: SimDisk,
    trace: Trace,
    promises: Arc<Mutex<Promises>>,
    /// Cancelled when the process is gone, by us if its disk fails: nothing happens here any more.
    dead: CancellationToken,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Recorded {
    /// Records a store's writes.
    pub(crate) fn new(
        cluster: &str,
        store: Arc<Store>,
        disk: SimDisk,
        trace: Trace,
        promises: Arc<Mutex<Promises>>,
        dead: CancellationToken,
    ) -> Self {
        Self {
            cluster: cluster.to_owned(),
            store,
            disk,
            trace,
            promises,
            dead,
        }
    }

    fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<(), Error> {
        if self.dead.is_cancelled() {
            return Err(Error::Closed("its process is gone".to_owned()));
        }
        Ok(())
    }

    fn record(&self, key: &Key, what: &str, deleted: bool, object: &Object) {
        let mut promises = self.promises();
        if object.revision > promises.newest {
            promises.newest = object.revision;
        } else {
            self.trace.violation(format!(
                "{} gave revision {} twice or back",
                self.cluster, object.revision
            ));
        }
        promises
            .objects
            .insert(key.clone(), (!deleted).then_some(object.revision));
        if !SIGNS_OF_LIFE.contains(&key.resource.as_str()) {
            promises.writes += 1;
        }
        if promises.writes > self.trace.most_writes() {
            self.trace.violation(format!(
                "{} got {} writes: something does not end",
                self.cluster, promises.writes
            ));
        }
        drop(promises);
        let text = format!(
            "{what} {key} r{} {:016x}",
            object.revision,
            short_hash(&object.json)
        );
        self.trace.line(&self.cluster, &text);
        let new = (!deleted).then_some(&*object.json);
        self.trace.written(&self.cluster, key, new);
    }
}

impl ObjectSource for Recorded {
    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Arc<Object>>, Error>> {
        Box::pin(async move {
            self.open()?;
            self.store.get(key).await
        })
    }

    fn list<'a>(&'a self, request: &'a ListRequest<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            self.open()?;
            self.store.list(request).await
        })
    }

    fn watch<'a>(&'a self, request: &'a WatchRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            self.open()?;
            self.store.watch(request).await
        })
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Arc<Object>, Error>> {
        Box::pin(async move {
            if self.open().is_err() {
                // Whoever waits here is part of the dead process.
                return std::future::pending().await;
            }
            let key = write.key.clone();
            let deleted = matches!(write.change, Change::Delete);
            let what = match (&write.change, write.expect) {
                (Change::Delete, _) => "delete",
                (Change::Put(_), Expect::Absent) => "create",
                (Change::Put(_), Expect::Revision(_) | Expect::Present | Expect::Any) => "update",
            };
            self.trace.expect_errors();
            let outcome = self.store.write(write).await;
            self.trace.expect_no_errors();
            if let Ok(object) = &outcome {
                self.record(&key, what, deleted, object);
            }
            if self.disk.is_crashed() {
                if outcome.is_err() {
                    self.promises().in_doubt = Some(key);
                }
                // The process dies with its disk.
                self.dead.cancel();
                return std::future::pending().await;
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use source::Resource;
    use store::{Mode, Options};

    use super::*;

    fn promises(objects: &[(&str, Option<u64>)], newest: u64, in_doubt: Option<&str>) -> Promises {
        let key = |name: &str| Key::new(&Resource::new("", "configmaps"), "default", name);
        Promises {
            objects: objects
                .iter()
                .map(|(name, revision)| (key(name), revision.map(Revision)))
                .collect(),
            newest: Revision(newest),
            in_doubt: in_doubt.map(key),
            resolved: None,
            writes: 0,
        }
    }

    #[tokio::test]
    async fn a_store_that_forgot_is_found_out() {
        let store = Store::open(Arc::new(SimDisk::new(1)), Options::default(), Mode::Inline).unwrap();
        let now = store.revision().0;
        for (objects, newest, in_doubt, broken) in [
            (&[][..], now, None, 0),
            (&[("gone", None)], now, None, 0),
            (&[("lost", Some(now))], now, None, 1),
            (&[("doubtful", Some(now))], now, Some("doubtful"), 0),
            (
                &[("lost", Some(now)), ("doubtful", Some(now))],
                now,
                Some("doubtful"),
                1,
            ),
            (&[], now + 1, None, 1),
        ] {
            let found = promises(objects, newest, in_doubt).check(&store).await;
            assert_eq!(found.len(), broken, "{found:?}");
        }
    }
}
