//! Carries out what [`distribution::services::export`] decides about the child's ServiceExports.
//!
//! Services and EndpointSlices of the child are watched only while there is an export.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{finalizers, kubernetes, labels, mcs};
use clock::Env;
use distribution::services::export::{self, Service, View};
use distribution::services::{self, ServiceId};
use distribution::{Action, Plan};
use kubeio::{
    Cache, CacheOptions, CancellationToken, Change, Changes, Client, DeleteOptions, ListOptions, ObjectKey,
    Outcome, Patch, Queue, QueueOptions,
};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::error::chain;

/// How many exports are worked on at once.
const WORKERS: usize = 2;
/// How long an export waits for the first look at the child.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// And then again after this.
const NEXT_LOOK: Duration = Duration::from_mins(1);

/// The exports of one session.
pub(crate) struct Exports {
    env: Env,
    child: Client,
    parent: Client,
    /// The dedicated namespace on the parent.
    namespace: String,
}

/// What is watched all the time, and of the child what is watched while there is an export.
struct Watched {
    exports: Cache,
    copies: Cache,
    child: Mutex<Option<Originals>>,
}

/// Of the child.
#[derive(Clone)]
struct Originals {
    services: Cache,
    slices: Cache,
}

impl Exports {
    /// Those of a child with this dedicated namespace.
    pub(crate) fn new(env: &Env, child: &Client, parent: &Client, namespace: &str) -> Self {
        Self {
            env: env.clone(),
            child: child.clone(),
            parent: parent.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Serves exports until the token is cancelled, or takes back what was exported, and waits for that.
    pub(crate) async fn run(self, service: Service, over: &CancellationToken) {
        match service {
            Service::On => self.serve(over).await,
            Service::Off => self.take_back().await,
        }
        over.cancelled().await;
    }

    async fn serve(&self, over: &CancellationToken) {
        let version = self.child.await_version(Duration::from_mins(1), &self.env).await;
        if !services::is_served_by(&version) {
            tracing::warn!(
                version,
                "this cluster is too old to export services: it must be 1.21 or later"
            );
            return;
        }
        let copies = CacheOptions {
            project: trimmed,
            ..CacheOptions::namespace(&self.namespace)
        };
        let watched = Watched {
            exports: self.watch(&mcs::SERVICE_EXPORTS, trimmed),
            copies: Cache::start(self.parent.clone(), kubernetes::ENDPOINT_SLICES, copies),
            child: Mutex::new(None),
        };
        // A copy whose export is not known yet must not go.
        let ready = async || tokio::join!(watched.exports.ready(), watched.copies.ready());
        if tokio::time::timeout(FIRST_LOOK, ready()).await.is_err() {
            tracing::warn!(
                "no exports yet: the definition of serviceexports.multicluster.x-k8s.io may be missing in this cluster, \
                 or the right to watch them"
            );
            ready().await;
        }
        let queue = Queue::new(QueueOptions {
            base: Duration::from_millis(100),
            max: Duration::from_secs(30),
        });
        tokio::select! {
            biased;
            () = self.route(&watched, &queue) => {}
            () = queue.serve(WORKERS, over, |id| self.work(&watched, id)) => {}
        }
    }

    fn watch(&self, resource: &ApiResource, project: fn(Value) -> Value) -> Cache {
        let options = CacheOptions {
            project,
            ..CacheOptions::default()
        };
        Cache::start(self.child.clone(), resource.clone(), options)
    }

    /// Reads changes for ever.
    async fn route(&self, watched: &Watched, queue: &Queue<ServiceId>) {
        let (mut exports, mut copies) = (watched.exports.subscribe(), watched.copies.subscribe());
        let mut originals: Option<[Changes; 2]> = None;
        loop {
            let ids = tokio::select! {
                biased;
                change = exports.next() => {
                    self.look(watched, &mut originals);
                    vec![ServiceId::new(change.key.namespace, change.key.name)]
                }
                change = copies.next() => states(&change).filter_map(ServiceId::of_labels).collect(),
                change = next(&mut originals) => {
                    let ids = exported_by(&change);
                    let is_exported = |id: &ServiceId| watched.exports.get_key(&key(id)).is_some();
                    ids.into_iter().filter(is_exported).collect()
                }
            };
            for id in ids {
                queue.add(id);
            }
        }
    }

    /// Watches the child if there is an export, and else not.
    fn look(&self, watched: &Watched, changes: &mut Option<[Changes; 2]>) {
        let mut child = watched.child.lock().expect("no holder panics");
        let any = !watched.exports.list().is_empty();
        if any && child.is_none() {
            let originals = Originals {
                services: self.watch(&kubernetes::SERVICES, service_view),
                slices: self.watch(&kubernetes::ENDPOINT_SLICES, slice_view),
            };
            *changes = Some([originals.services.subscribe(), originals.slices.subscribe()]);
            *child = Some(originals);
        } else if !any {
            *child = None;
            *changes = None;
        }
    }

    async fn work(&self, watched: &Watched, id: ServiceId) -> Outcome {
        let export = watched.exports.get_key(&key(&id));
        let originals = watched.child.lock().expect("no holder panics").clone();
        let (mut exported, mut slices) = (None, Vec::new());
        if export.as_ref().is_some_and(|export| !meta::is_deleting(export)) {
            // The change that brought the export comes before the look at the child.
            let Some(originals) = originals else {
                return Outcome::After(Duration::from_millis(100));
            };
            let ready = async { tokio::join!(originals.services.ready(), originals.slices.ready()) };
            if tokio::time::timeout(FIRST_LOOK, ready).await.is_err() {
                tracing::warn!(
                    namespace = id.namespace,
                    name = id.name,
                    "services or endpointslices of the cluster cannot be watched; the export waits"
                );
                return Outcome::After(NEXT_LOOK);
            }
            exported = originals.services.get_key(&key(&id));
            slices = originals.slices.list_namespace(&id.namespace);
        }
        let plan = export::plan(&View {
            id: &id,
            service: Service::On,
            export: export.as_deref(),
            exported: exported.as_deref(),
            slices: &slices,
            home: &self.namespace,
            copies: &watched.copies.list(),
            now: self.env.now(),
        });
        let learn = |resource: &ApiResource, answer: Value| {
            let cache = if *resource == mcs::SERVICE_EXPORTS {
                &watched.exports
            } else {
                &watched.copies
            };
            if !is_gone(&answer) {
                cache.put(answer);
            }
        };
        match self.carry_out(plan, learn).await {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let (namespace, name) = (&id.namespace, &id.name);
                if error.is_conflict() || error.is_already_exists() || error.is_not_found() {
                    tracing::debug!(namespace, name, error = %chain(&error), "planned from an old state, trying again");
                } else {
                    tracing::warn!(namespace, name, error = %chain(&error), "the export is not carried out, trying again");
                }
                Outcome::Retry
            }
        }
    }

    /// Does what a plan says, in its order, up to the first failure.
    async fn carry_out(&self, plan: Plan, learn: impl Fn(&ApiResource, Value)) -> Result<(), kubeio::Error> {
        let place = |resource: &ApiResource| {
            if *resource == mcs::SERVICE_EXPORTS {
                &self.child
            } else {
                &self.parent
            }
        };
        for action in plan.actions {
            match action {
                Action::Create { resource, object } => {
                    let namespace = Some(meta::namespace(&object));
                    let answer = place(&resource).create(&resource, namespace, &object).await?;
                    learn(&resource, answer);
                }
                Action::Patch {
                    resource,
                    target,
                    subresource,
                    mut patch,
                } => {
                    if !target.uid.is_empty() {
                        meta::ensure_metadata(&mut patch).insert("uid".to_owned(), json!(target.uid));
                    }
                    let answer = place(&resource)
                        .patch(
                            &resource,
                            Some(&target.namespace),
                            &target.name,
                            subresource,
                            Patch::Merge,
                            &patch,
                        )
                        .await?;
                    learn(&resource, answer);
                }
                Action::Delete { resource, target } => {
                    let options = DeleteOptions {
                        uid: Some(target.uid).filter(|uid| !uid.is_empty()),
                        ..DeleteOptions::background()
                    };
                    let deleted = place(&resource)
                        .delete(&resource, Some(&target.namespace), &target.name, &options)
                        .await;
                    match deleted {
                        Err(error) if !error.is_not_found() => return Err(error),
                        Ok(()) | Err(_) => {}
                    }
                }
                // Exports are told by their conditions.
                Action::Event { .. } => {}
            }
        }
        Ok(())
    }

    /// Takes back what an agent with the gate left: copies on the parent, finalizers on exports.
    async fn take_back(&self) {
        let longest = Duration::from_mins(5);
        kubeio::until_answered("taking exports back", longest, &self.env, || async {
            Ok(self.take_back_once().await?.then_some(()))
        })
        .await;
    }

    /// Whether nothing was left.
    async fn take_back_once(&self) -> Result<bool, kubeio::Error> {
        let exports = list(&self.child, &mcs::SERVICE_EXPORTS, None).await?;
        let copies = list(&self.parent, &kubernetes::ENDPOINT_SLICES, Some(&self.namespace)).await?;
        let mut ids: BTreeSet<ServiceId> = copies
            .iter()
            .filter(|it| meta::label(it, labels::CREATED_BY) == Some(labels::CREATED_BY_AGENT))
            .filter_map(|it| ServiceId::of_labels(it))
            .collect();
        let served = exports
            .iter()
            .filter(|it| meta::has_finalizer(it, finalizers::APP));
        ids.extend(served.map(|it| ServiceId::new(meta::namespace(it), meta::name(it))));
        let mut done = true;
        for id in &ids {
            let plan = export::plan(&View {
                id,
                service: Service::Off,
                export: exports
                    .iter()
                    .find(|it| ObjectKey::of(it) == key(id))
                    .map(|it| &**it),
                exported: None,
                slices: &[],
                home: &self.namespace,
                copies: &copies,
                now: self.env.now(),
            });
            done &= !plan.writes();
            self.carry_out(plan, |_, _| {}).await?;
        }
        Ok(done)
    }
}

/// What there is of a kind; nothing if the server does not have it or does not show it.
async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> Result<Vec<Arc<Value>>, kubeio::Error> {
    match client
        .list_all(resource, namespace, &ListOptions::default())
        .await
    {
        Ok(listed) => Ok(listed.items.into_iter().map(Arc::new).collect()),
        Err(error) if error.is_not_found() || error.is_forbidden() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn key(id: &ServiceId) -> ObjectKey {
    ObjectKey::new(&id.namespace, &id.name)
}

fn states(change: &Change) -> impl Iterator<Item = &Value> {
    change.old.iter().chain(&change.new).map(|it| &**it)
}

/// The next change of a Service or an EndpointSlice of the child; never one while nobody looks.
async fn next(changes: &mut Option<[Changes; 2]>) -> Change {
    match changes {
        None => std::future::pending().await,
        Some([services, slices]) => tokio::select! {
            change = services.next() => change,
            change = slices.next() => change,
        },
    }
}

/// The Services that a changed object of the child is, or was, of.
fn exported_by(change: &Change) -> Vec<ServiceId> {
    let namespace = &change.key.namespace;
    let of_slice = states(change).filter_map(|it| meta::label(it, services::SERVICE_NAME));
    let mut ids: Vec<ServiceId> = of_slice.map(|name| ServiceId::new(namespace, name)).collect();
    if ids.is_empty() {
        ids.push(ServiceId::new(namespace, &change.key.name));
    }
    ids
}

fn is_gone(object: &Value) -> bool {
    meta::is_deleting(object) && meta::finalizers(object).next().is_none()
}

/// Of a Service of the child what the plan reads.
fn service_view(service: Value) -> Value {
    let metadata = &service["metadata"];
    json!({
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {"type": service["spec"]["type"]},
    })
}

/// Of an EndpointSlice of the child what the plan reads; when it last changed makes no difference.
fn slice_view(mut slice: Value) -> Value {
    let metadata = &slice["metadata"];
    let label = &metadata["labels"][services::SERVICE_NAME];
    json!({
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"],
            "labels": {services::SERVICE_NAME: label}, "deletionTimestamp": metadata["deletionTimestamp"],
        },
        "addressType": slice["addressType"].take(),
        "endpoints": slice["endpoints"].take(),
        "ports": slice["ports"].take(),
    })
}

/// Leaves out what nothing here reads.
fn trimmed(mut object: Value) -> Value {
    meta::ensure_metadata(&mut object).remove("managedFields");
    object
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// The plan makes the same of what is kept as of the whole.
    #[test]
    fn what_is_kept_of_the_child_is_what_the_plan_reads() {
        let id = ServiceId::new("test", "my-service");
        let export =
            json!({"metadata": {"namespace": "test", "name": "my-service", "finalizers": [finalizers::APP]}});
        let service = |kind: &str| {
            json!({"metadata": {"namespace": "test", "name": "my-service", "labels": {"a": "b"}},
                "spec": {"type": kind, "clusterIP": "10.96.0.1"}})
        };
        let slice = |change: Value| {
            let mut slice = json!({
                "metadata": {"namespace": "test", "name": "my-service-x7k", "annotations": {"time": "1"},
                    "labels": {services::SERVICE_NAME: "my-service", "a": "b"}},
                "addressType": "IPv4", "ports": [{"name": "http", "port": 80}],
                "endpoints": [{"addresses": ["10.0.0.1", "127.0.0.1"], "conditions": {"ready": true}, "zone": "z", "hostname": "h"}],
            });
            machinery::patch::merge_patch(&mut slice, &change);
            slice
        };
        let plan = |service: &Value, slice: Value| {
            export::plan(&View {
                id: &id,
                service: Service::On,
                export: Some(&export),
                exported: Some(service),
                slices: &[Arc::new(slice)],
                home: "home",
                copies: &[],
                now: Timestamp::UNIX_EPOCH,
            })
        };
        for (kind, change) in [
            ("ClusterIP", json!({})),
            ("ExternalName", json!({})),
            (
                "ClusterIP",
                json!({"metadata": {"labels": {services::SERVICE_NAME: "other"}}}),
            ),
            ("ClusterIP", json!({"metadata": {"labels": null}})),
            (
                "ClusterIP",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ),
            ("ClusterIP", json!({"addressType": "FQDN"})),
            ("ClusterIP", json!({"endpoints": null, "ports": null})),
        ] {
            let (service, slice) = (service(kind), slice(change.clone()));
            let whole = plan(&service, slice.clone());
            assert_eq!(
                plan(&service_view(service), slice_view(slice)),
                whole,
                "{kind} {change}"
            );
        }
        let touched = json!({"metadata": {"annotations": {"time": "2"}}});
        assert_eq!(slice_view(slice(touched)), slice_view(slice(json!({}))));
    }
}
