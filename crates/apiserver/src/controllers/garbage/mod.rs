//! Garbage collection by owner references: background, foreground (`foregroundDeletion`, `blockOwnerDeletion`) and
//! orphaning. The graph says what to look at; whether an owner is there is always asked of the source itself.

mod graph;
mod plan;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use machinery::meta::{self, OwnerReference};
use machinery::{ApiError, Gvk};
use serde_json::{Value, json};
use source::{Key, ObjectSource};

use super::feed::Notice;
use super::local::{Local, only, path};
use super::work::{Controller, Next};
use crate::error;
use crate::registry::{Registry, Served, Snapshot};
use crate::server::ApiServer;
use graph::Graph;
use plan::{Dependents, FOREGROUND, ORPHAN, Owner, Verdict, judge};

/// When to look again at an object whose owner's kind is not served.
const LATER: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Garbage {
    source: Arc<dyn ObjectSource>,
    registry: RegistryOf,
    api: Local,
    graph: Mutex<Graph>,
}

/// Where the kinds are: the server's registry, without keeping the server alive.
pub(super) struct RegistryOf(std::sync::Weak<ApiServer>);

impl RegistryOf {
    pub(super) fn new(server: &Arc<ApiServer>) -> Self {
        Self(Arc::downgrade(server))
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        match self.0.upgrade() {
            Some(server) => server.registry.snapshot(),
            None => Registry::new().snapshot(),
        }
    }
}

impl Garbage {
    pub(super) fn new(server: &Arc<ApiServer>, api: Local) -> Self {
        Self {
            source: server.source().clone(),
            registry: RegistryOf::new(server),
            api,
            graph: Mutex::default(),
        }
    }

    fn graph<T>(&self, look: impl FnOnce(&mut Graph) -> T) -> T {
        look(&mut self.graph.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read(&self, key: &Key) -> Result<Option<Value>, ApiError> {
        let object = self.source.get(key).await.map_err(error::of_source)?;
        let Some(object) = object else { return Ok(None) };
        serde_json::from_slice(&object.json)
            .map(Some)
            .map_err(|error| ApiError::internal(format!("{key} is damaged: {error}")))
    }

    async fn tend(&self, key: &Key, wanted: &mut Vec<Key>) -> Result<Next, ApiError> {
        let Some(object) = self.read(key).await? else {
            return Ok(Next::Done);
        };
        let snapshot = self.registry.snapshot();
        let Some(served) = served_from(&snapshot, key) else {
            return Ok(Next::After(LATER));
        };
        let place = path(served, &key.namespace, &key.name);
        if meta::is_deleting(&object) {
            if meta::has_finalizer(&object, ORPHAN) {
                return self.orphan(&object, &place, &snapshot).await;
            }
            if meta::has_finalizer(&object, FOREGROUND) {
                return self.release(&object, &place, wanted).await;
            }
            return Ok(Next::Done);
        }
        let references = meta::owner_references(&object);
        let mut owners = Vec::with_capacity(references.len());
        for reference in &references {
            owners.push((
                reference.uid.clone(),
                self.state_of(&snapshot, served, key, reference).await?,
            ));
        }
        let finalizers: Vec<&str> = meta::finalizers(&object).collect();
        let uid = meta::uid(&object);
        let dependents = if self.graph(|graph| graph.dependents_of(uid)).is_empty() {
            Dependents::None
        } else {
            Dependents::Some
        };
        match judge(&owners, &finalizers, dependents) {
            Verdict::Keep => Ok(Next::Done),
            Verdict::Undecided => Ok(Next::After(LATER)),
            Verdict::Forget(lost) => {
                self.api.merge(&place, &without_owners(&object, &lost)).await?;
                Ok(Next::Done)
            }
            Verdict::Delete(policy) => {
                let mut options = only(uid, Some(policy));
                // Owners may be added meanwhile: then the decision is not ours any more.
                options["preconditions"]["resourceVersion"] = json!(meta::resource_version(&object));
                match self.api.delete(&place, &options).await {
                    Err(error) if error.code == 404 => Ok(Next::Done),
                    done => done.map(|_| Next::Done),
                }
            }
        }
    }

    async fn state_of(
        &self,
        snapshot: &Snapshot,
        served: &Served,
        key: &Key,
        reference: &OwnerReference,
    ) -> Result<Owner, ApiError> {
        if self.graph(|graph| graph.is_gone(&reference.uid)) {
            return Ok(Owner::Gone);
        }
        let Some(owner) = served_kind(snapshot, reference) else {
            return Ok(Owner::Unknown);
        };
        if owner.namespaced && !served.namespaced {
            // Kubernetes leaves such objects alone too: nobody can say in which namespace the owner would be.
            return Ok(Owner::Unknown);
        }
        let namespace = if owner.namespaced {
            key.namespace.as_str()
        } else {
            ""
        };
        let owner_key = Key::new(&owner.storage, namespace, &reference.name);
        let found = self.source.get(&owner_key).await.map_err(error::of_source)?;
        let Some(found) = found.filter(|found| found.head.uid() == reference.uid) else {
            return Ok(Owner::Gone);
        };
        if !found.head.deleting {
            return Ok(Owner::Solid);
        }
        let value: Value = serde_json::from_slice(&found.json).unwrap_or(Value::Null);
        Ok(if meta::has_finalizer(&value, FOREGROUND) {
            Owner::Waiting
        } else {
            Owner::Solid
        })
    }

    /// Makes all dependents forget an object, then lets it go.
    async fn orphan(&self, object: &Value, place: &str, snapshot: &Snapshot) -> Result<Next, ApiError> {
        let uid = meta::uid(object).to_owned();
        for key in self.graph(|graph| graph.dependents_of(&uid)) {
            let Some(dependent) = self.read(&key).await? else {
                continue;
            };
            let Some(served) = served_from(snapshot, &key) else {
                continue;
            };
            if !meta::owner_references(&dependent)
                .iter()
                .any(|owner| owner.uid == uid)
            {
                continue;
            }
            let patch = without_owners(&dependent, std::slice::from_ref(&uid));
            match self
                .api
                .merge(&path(served, &key.namespace, &key.name), &patch)
                .await
            {
                Err(error) if error.code == 404 => {}
                done => drop(done?),
            }
        }
        self.drop_finalizer(object, place, ORPHAN).await
    }

    /// Lets an object go once no dependent that blocks it is left; sees to its dependents before.
    async fn release(&self, object: &Value, place: &str, wanted: &mut Vec<Key>) -> Result<Next, ApiError> {
        let uid = meta::uid(object).to_owned();
        let mut blocked = false;
        for key in self.graph(|graph| graph.dependents_of(&uid)) {
            let Some(dependent) = self.read(&key).await? else {
                continue;
            };
            let blocks = dependent["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|owner| owner["uid"] == uid.as_str() && owner["blockOwnerDeletion"] == true);
            blocked |= blocks;
            wanted.push(key);
        }
        if blocked {
            return Ok(Next::Done);
        }
        self.drop_finalizer(object, place, FOREGROUND).await
    }

    async fn drop_finalizer(&self, object: &Value, place: &str, finalizer: &str) -> Result<Next, ApiError> {
        let patch = without_finalizer(object, finalizer);
        match self.api.merge(place, &patch).await {
            Err(error) if error.code == 404 => Ok(Next::Done),
            done => done.map(|_| Next::Done),
        }
    }
}

/// The served resource that objects with a key can be reached by; the stored version if it is served.
pub(super) fn served_from<'a>(snapshot: &'a Snapshot, key: &Key) -> Option<&'a Arc<Served>> {
    let mut candidates = snapshot
        .all()
        .iter()
        .filter(|served| served.storage == key.resource && served.allows("delete"));
    let first = candidates.next()?;
    if first.api_version == first.storage_version {
        return Some(first);
    }
    candidates
        .find(|served| served.api_version == served.storage_version)
        .or(Some(first))
}

fn served_kind<'a>(snapshot: &'a Snapshot, reference: &OwnerReference) -> Option<&'a Arc<Served>> {
    let gvk = Gvk::new(&reference.api_version, &reference.kind);
    snapshot.of_kind(&gvk).or_else(|| {
        snapshot
            .all()
            .iter()
            .find(|served| served.group == gvk.group && served.kind == gvk.kind)
    })
}

/// A merge patch that takes a finalizer off, if the object has not changed meanwhile.
pub(super) fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let left: Vec<&str> = meta::finalizers(object).filter(|one| *one != finalizer).collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    json!({"metadata": {"resourceVersion": meta::resource_version(object), "finalizers": left}})
}

/// A merge patch that makes an object forget owners, if it has not changed meanwhile.
fn without_owners(object: &Value, lost: &[String]) -> Value {
    let left: Vec<&Value> = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|owner| !lost.iter().any(|uid| owner["uid"] == uid.as_str()))
        .collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    json!({"metadata": {"resourceVersion": meta::resource_version(object), "ownerReferences": left}})
}

impl Controller for Garbage {
    type Key = Key;
    const NAME: &'static str = "garbage";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<Key>) {
        self.graph(|graph| match notice {
            Notice::Reset(resource) => graph.reset(resource),
            Notice::Put(object) => graph.put(object, wanted),
            Notice::Gone(object) => graph.gone(object, wanted),
            // Owners may have gone before this resource was followed.
            Notice::Synced => wanted.extend(graph.owned()),
        });
    }

    fn look<'a>(&'a self, key: &'a Key, wanted: &'a mut Vec<Key>) -> BoxFuture<'a, Result<Next, ApiError>> {
        Box::pin(self.tend(key, wanted))
    }
}
