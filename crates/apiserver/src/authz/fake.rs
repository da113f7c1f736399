//! A source in memory for the tests of this crate's shell: everything is kept, nothing is forgotten.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use smol_str::SmolStr;
use source::{
    Change, Draft, Error, Event, EventKind, Expect, Forms, Head, Key, ListRequest, Object, ObjectSource,
    Page, Resource, Revision, Watch, WatchRequest, Write,
};
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Arc<Object>>,
    log: Vec<Arc<Event>>,
    oldest: usize,
    closed: bool,
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub(crate) struct FakeSource {
    state: Arc<Mutex<State>>,
    notify: Arc<Notify>,
}

impl FakeSource {
    /// Stores an object whatever was there.
    pub(crate) fn put(&self, resource: &str, value: &Value) {
        let mut value = value.clone();
        value["metadata"]["resourceVersion"] = Value::from("");
        let metadata = &value["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let key = Key::new(&Resource::from(resource), text("namespace"), text("name"));
        let json = value.to_string();
        let splice = json.find("\"resourceVersion\":\"\"").unwrap() + "\"resourceVersion\":\"".len();
        let head = Head {
            uid: SmolStr::new(text("uid")),
            owners: metadata["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|owner| SmolStr::new(owner["uid"].as_str().unwrap_or_default()))
                .collect(),
            deleting: !metadata["deletionTimestamp"].is_null(),
            ..Head::default()
        };
        let draft = Draft {
            json: Bytes::from(json),
            splice,
            head,
        };
        self.apply(key, Expect::Any, Change::Put(draft)).unwrap();
    }

    /// Removes an object.
    pub(crate) fn remove(&self, resource: &str, namespace: &str, name: &str) {
        let key = Key::new(&Resource::from(resource), namespace, name);
        self.apply(key, Expect::Present, Change::Delete).unwrap();
    }

    /// From now on nothing can be read, as when a store's disk has failed.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap().closed = true;
    }

    /// Forgets all events so far: watches behind now are told to list again.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock().unwrap();
        state.oldest = state.log.len();
    }

    fn apply(&self, key: Key, expect: Expect, change: Change) -> Result<Arc<Object>, Error> {
        let mut state = self.state.lock().unwrap();
        let previous = state.objects.get(&key).cloned();
        match (expect, &previous) {
            (Expect::Absent, Some(_)) => return Err(Error::AlreadyExists(key)),
            (Expect::Present | Expect::Revision(_), None) => return Err(Error::NotFound(key)),
            (Expect::Revision(wanted), Some(found)) if found.revision != wanted => {
                return Err(Error::Conflict {
                    key,
                    found: found.revision,
                });
            }
            _ => {}
        }
        let revision = Revision(state.log.len() as u64 + 1);
        let (draft, kind) = match (change, &previous) {
            (Change::Put(draft), None) => (draft, EventKind::Added),
            (Change::Put(draft), Some(_)) => (draft, EventKind::Modified),
            (Change::Delete, None) => return Err(Error::NotFound(key)),
            (Change::Delete, Some(last)) => {
                let digits = last.revision.to_string().len();
                let json = [&last.json[..last.splice], &last.json[last.splice + digits..]].concat();
                let draft = Draft {
                    json: Bytes::from(json),
                    splice: last.splice,
                    head: last.head.unpack(),
                };
                (draft, EventKind::Deleted)
            }
        };
        let object = Arc::new(Object::new(key.clone(), revision, &draft));
        if kind == EventKind::Deleted {
            state.objects.remove(&key);
        } else {
            state.objects.insert(key, object.clone());
        }
        state.log.push(Arc::new(Event {
            kind,
            object: object.clone(),
            previous,
            forms: Forms::default(),
        }));
        drop(state);
        self.notify.notify_waiters();
        Ok(object)
    }
}

impl ObjectSource for FakeSource {
    fn revision(&self) -> Revision {
        Revision(self.state.lock().unwrap().log.len() as u64)
    }

    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Arc<Object>>, Error>> {
        let state = self.state.lock().unwrap();
        let found = if state.closed {
            Err(Error::Closed("its disk failed".to_owned()))
        } else {
            Ok(state.objects.get(key).cloned())
        };
        Box::pin(async move { found })
    }

    fn list<'a>(&'a self, request: &'a ListRequest<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        let state = self.state.lock().unwrap();
        let objects = state
            .objects
            .values()
            .filter(|object| object.key.resource == *request.resource)
            .filter(|object| {
                request
                    .namespace
                    .is_none_or(|namespace| object.key.namespace == namespace)
            })
            .filter(|object| (request.filter)(object))
            .cloned()
            .collect();
        let page = Page {
            objects,
            revision: Revision(state.log.len() as u64),
            more: false,
            remaining: None,
        };
        Box::pin(async move { Ok(page) })
    }

    fn watch<'a>(&'a self, request: &'a WatchRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Watch>, Error>> {
        let watch: Box<dyn Watch> = Box::new(FakeWatch {
            source: self.clone(),
            resource: request.resource.clone(),
            namespace: request.namespace.map(str::to_owned),
            next: usize::try_from(request.after.0).unwrap(),
        });
        Box::pin(async move { Ok(watch) })
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Arc<Object>, Error>> {
        let answer = self.apply(write.key, write.expect, write.change);
        Box::pin(async move { answer })
    }
}

struct FakeWatch {
    source: FakeSource,
    resource: Resource,
    namespace: Option<String>,
    next: usize,
}

impl Watch for FakeWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Event>>, Error>> {
        Box::pin(async move {
            loop {
                let source = self.source.clone();
                let news = source.notify.notified();
                let events = {
                    let state = source.state.lock().unwrap();
                    if self.next < state.oldest {
                        return Err(Error::Expired {
                            asked: Revision(self.next as u64),
                            oldest: Revision(state.oldest as u64),
                        });
                    }
                    let events: Vec<_> = state.log[self.next..]
                        .iter()
                        .filter(|event| event.object.key.resource == self.resource)
                        .filter(|event| {
                            self.namespace
                                .as_ref()
                                .is_none_or(|namespace| event.object.key.namespace == namespace.as_str())
                        })
                        .cloned()
                        .collect();
                    self.next = state.log.len();
                    events
                };
                if !events.is_empty() {
                    return Ok(events);
                }
                news.await;
            }
        })
    }

    fn seen(&self) -> Revision {
        Revision(self.next as u64)
    }
}
