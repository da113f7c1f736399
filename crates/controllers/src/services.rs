//! ServiceImports: the shell around `distribution::services::import`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::{clusters, kubernetes, labels, mcs, reasons};
use distribution::services::import::{self, Home, View};
use distribution::services::{self, ServiceId};
use distribution::{Action, EventKind, Next, Plan};
use kubeio::{Change, Changes, Error, ListOptions, ObjectKey, Outcome, Queue, QueueOptions};
use machinery::{ApiResource, meta};
use runtime::{CancellationToken, Chain};
use serde_json::Value;

use crate::index::{Index, Tie};
use crate::shared::Shared;

/// Before an import that is blocked is looked at again: what blocks it is not watched.
const BLOCKED_PAUSE: Duration = Duration::from_mins(1);

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// What a namespace imports.
    Import { namespace: String, id: ServiceId },
    /// Whether the clusters agree about a Service.
    Compare(ServiceId),
}

struct Imports {
    shared: Arc<Shared>,
    indexes: Mutex<Indexes>,
    queue: Queue<Job>,
}

/// Both by the Service that their labels name.
struct Indexes {
    imports: Index,
    slices: Index,
}

/// The changes of every kind that matters here.
struct Sources {
    imports: Changes,
    slices: Changes,
    services: Changes,
    clusters: Changes,
    namespaces: Changes,
}

/// Runs the controller until the token is cancelled.
pub(crate) async fn run(shared: &Arc<Shared>, workers: usize, stop: &CancellationToken) {
    let begin = async {
        let longest = Duration::from_secs(30);
        let version = shared.client.await_version(longest, &shared.env).await;
        if !services::is_served_by(&version) {
            tracing::warn!(
                version,
                "the parent is too old to import services: it must be 1.21 or later"
            );
            std::future::pending::<()>().await;
        }
        shared.services_ready().await;
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = begin => {}
    }
    let options = QueueOptions {
        base: Duration::from_millis(50),
        max: Duration::from_secs(30),
    };
    let imports = Imports {
        shared: Arc::clone(shared),
        indexes: Mutex::new(Indexes {
            imports: Index::new(shared.cache(&mcs::SERVICE_IMPORTS), ties),
            slices: Index::new(shared.cache(&kubernetes::ENDPOINT_SLICES), ties),
        }),
        queue: Queue::new(options),
    };
    let subscribe = |resource: &ApiResource| shared.cache(resource).subscribe();
    let sources = Sources {
        imports: subscribe(&mcs::SERVICE_IMPORTS),
        slices: subscribe(&kubernetes::ENDPOINT_SLICES),
        services: subscribe(&kubernetes::SERVICES),
        clusters: subscribe(&clusters::MANAGED_CLUSTERS),
        namespaces: subscribe(&kubernetes::NAMESPACES),
    };
    tokio::select! {
        biased;
        () = imports.route(sources) => {}
        () = imports.queue.serve(workers, stop, |job| imports.work(job)) => {}
    }
}

/// Takes back what was derived while the gate was open: nobody keeps it as it should be.
pub(crate) async fn take_back(shared: &Shared, stop: &CancellationToken) {
    let longest = Duration::from_mins(5);
    let done = kubeio::until_answered("taking derived services back", longest, &shared.env, || async {
        remove_derived(shared).await.map(Some)
    });
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = done => {}
    }
}

async fn remove_derived(shared: &Shared) -> Result<(), Error> {
    let (of, by) = (labels::MULTI_CLUSTER_SERVICE_NAME, labels::CREATED_BY);
    let derived = ListOptions::labels(format!("{of},{by}={}", labels::CREATED_BY_CONTROLLERS));
    let mut plan = Plan::default();
    for resource in [&kubernetes::ENDPOINT_SLICES, &kubernetes::SERVICES] {
        match shared.client.list_all(resource, None, &derived).await {
            Ok(listed) => plan
                .actions
                .extend(listed.items.iter().map(|it| Action::delete(resource, it))),
            // A parent that was prepared before there were such: there are none.
            Err(error) if error.is_forbidden() => {}
            Err(error) => return Err(error),
        }
    }
    shared.carry_out(plan).await
}

fn tie(id: &ServiceId) -> Tie {
    Tie::Service(id.namespace.clone(), id.name.clone())
}

fn ties(object: &Value) -> Vec<Tie> {
    ServiceId::of_labels(object).iter().map(tie).collect()
}

impl Imports {
    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        self.indexes.lock().expect("no holder panics")
    }

    /// Reads changes for ever.
    async fn route(&self, mut sources: Sources) {
        loop {
            tokio::select! {
                biased;
                change = sources.imports.next() => self.import(&change),
                change = sources.slices.next() => states(&change).for_each(|it| self.slice(it)),
                change = sources.services.next() => states(&change).for_each(|it| self.derived(it)),
                change = sources.clusters.next() => self.home_changed(&change, &change.key.namespace),
                change = sources.namespaces.next() => self.home_changed(&change, &change.key.name),
            }
        }
    }

    fn import(&self, change: &Change) {
        states(change).for_each(|it| self.derived(it));
        if let Some(import) = change.new.as_deref()
            && ServiceId::of_labels(import).is_none()
            && !meta::is_deleting(import)
        {
            let note = format!(
                "it imports nothing without the labels {} and {}",
                labels::MULTI_CLUSTER_SERVICE_NAME,
                labels::MULTI_CLUSTER_SERVICE_NAMESPACE
            );
            let reason = reasons::IMPORT_WITHOUT_LABELS;
            self.shared.tell(import, EventKind::Warning, reason, &note);
        }
    }

    /// Something in the namespace that a Service is imported into.
    fn derived(&self, object: &Value) {
        if let Some(id) = ServiceId::of_labels(object) {
            let namespace = meta::namespace(object).to_owned();
            self.queue.add(Job::Import { namespace, id });
        }
    }

    /// A copy of an agent's, or one that was derived from such.
    fn slice(&self, slice: &Value) {
        if meta::label(slice, labels::CREATED_BY) != Some(labels::CREATED_BY_AGENT) {
            return self.derived(slice);
        }
        let Some(id) = ServiceId::of_labels(slice) else {
            return;
        };
        for import in self.indexes().imports.keys(&[tie(&id)]) {
            self.queue.add(Job::Import {
                namespace: import.namespace,
                id: id.clone(),
            });
        }
        self.queue.add(Job::Compare(id));
    }

    /// A ManagedCluster or a dedicated namespace: whether slices in it count.
    fn home_changed(&self, change: &Change, namespace: &str) {
        let view = |it: &Arc<Value>| {
            let id = meta::label(it, labels::CLUSTER_ID).map(str::to_owned);
            (it["spec"]["clusterId"].clone(), id, meta::is_deleting(it))
        };
        if change.old.as_ref().map(view) == change.new.as_ref().map(view) {
            return;
        }
        let slices = self.shared.cache(&kubernetes::ENDPOINT_SLICES);
        for slice in slices.list_namespace(namespace) {
            self.slice(&slice);
        }
    }

    async fn work(&self, job: Job) -> Outcome {
        match job {
            Job::Import { namespace, id } => self.work_import(&namespace, &id).await,
            Job::Compare(id) => {
                let slices = self.indexes().slices.find(&tie(&id));
                let plan = import::compare(&id, &slices, &|namespace| self.home(namespace));
                match self.shared.carry_out(plan).await {
                    Ok(()) => Outcome::Done,
                    Err(error) => untold(&id, &error),
                }
            }
        }
    }

    async fn work_import(&self, namespace: &str, id: &ServiceId) -> Outcome {
        let mut imports = self.indexes().imports.find(&tie(id));
        imports.retain(|it| meta::namespace(it) == namespace);
        let next = match self.plan(namespace, id, &imports).await {
            Ok(plan) => {
                let next = plan.next.clone();
                self.shared.carry_out(plan).await.map(|()| next)
            }
            Err(error) => Err(error),
        };
        match (next, imports.first()) {
            (Ok(Next::Done), _) => Outcome::Done,
            (Ok(Next::Again(pause)), _) => Outcome::After(pause),
            (Ok(Next::Blocked(_)), _) => Outcome::After(BLOCKED_PAUSE),
            (Err(error), Some(import)) => {
                self.shared
                    .failed(import, reasons::FAILED_IMPORTING_SERVICE, &error)
            }
            (Err(error), None) => untold(id, &error),
        }
    }

    async fn plan(&self, namespace: &str, id: &ServiceId, imports: &[Arc<Value>]) -> Result<Plan, Error> {
        let shared = &self.shared;
        // What others have there matters for the names.
        let there = shared
            .cache(&kubernetes::ENDPOINT_SLICES)
            .list_namespace(namespace);
        let of_service = self.indexes().slices.find(&tie(id));
        let all = there.into_iter().chain(of_service);
        let slices: BTreeMap<ObjectKey, Arc<Value>> = all.map(|it| (ObjectKey::of(&it), it)).collect();
        let name = id.derived_name();
        let known = shared.cache(&kubernetes::SERVICES).get(Some(namespace), &name);
        let service = match known {
            Some(service) => Some(service),
            // Somebody else's is not in the cache.
            None if !imports.is_empty() => {
                let services = &kubernetes::SERVICES;
                let found = shared.client.get_opt(services, Some(namespace), &name).await?;
                found.map(Arc::new)
            }
            None => None,
        };
        Ok(import::plan(&View {
            id,
            namespace,
            imports,
            slices: &slices.into_values().collect::<Vec<_>>(),
            home: &|namespace| self.home(namespace),
            service: service.as_deref(),
        }))
    }

    /// Whose dedicated namespace that is.
    fn home(&self, namespace: &str) -> Option<Home> {
        let dedicated = self.shared.cache(&kubernetes::NAMESPACES).get(None, namespace)?;
        let members = self.shared.cache(&clusters::MANAGED_CLUSTERS);
        import::home(Some(&dedicated), &members.list_namespace(namespace))
    }
}

/// What fails where no import is that could be told.
fn untold(id: &ServiceId, error: &Error) -> Outcome {
    let (namespace, name) = (&id.namespace, &id.name);
    if error.is_conflict() || error.is_not_found() {
        tracing::debug!(namespace, name, error = %Chain(error), "planned from an old state, trying again");
    } else {
        tracing::warn!(namespace, name, error = %Chain(error), "a write for an exported service failed, trying again");
    }
    Outcome::Retry
}

fn states(change: &Change) -> impl Iterator<Item = &Value> {
    change.old.iter().chain(&change.new).map(|it| &**it)
}
