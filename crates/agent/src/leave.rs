//! Takes a cluster out of the fleet, leaving nothing behind, or what the fleet brought as the cluster's own.

use api::{annotations, clusters, finalizers, kubernetes, labels, mcs, names};
use deployer::plan;
use kubeio::{Client, DeleteOptions, ListOptions, Mapper, Patch};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::error::Error;
use crate::identity;

/// What leaving needs to know.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// The agent's namespace in the child.
    pub namespace: String,
    /// Also remove what Descriptions brought into the child. Else it stays, and says no longer where it comes from.
    pub remove_objects: bool,
}

impl Default for Leaving {
    fn default() -> Self {
        Self {
            namespace: names::SYSTEM_NAMESPACE.to_owned(),
            remove_objects: true,
        }
    }
}

/// What leaving did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left {
    /// What was removed, in order.
    pub removed: Vec<String>,
    /// What was brought into the child and stays, as its own.
    pub kept: Vec<String>,
    /// What was not, and why.
    pub remaining: Vec<String>,
}

impl Left {
    fn note(&mut self, what: String, result: Result<(), kubeio::Error>) {
        match result {
            Ok(()) => self.removed.push(what),
            Err(error) if error.is_not_found() => {}
            Err(error) => self
                .remaining
                .push(format!("{what}: {}", crate::error::chain(&error))),
        }
    }
}

/// Takes a cluster out; safe to repeat. The agent should have been stopped. First the parent's side (with a client that
/// may do so; without one only the child's), then what was brought into the child, last the agent's own traces.
///
/// # Errors
/// [`Error::Request`] if the child cannot be asked who it is; what cannot be removed is told in [`Left`].
pub async fn leave(child: &Client, parent: Option<&Client>, leaving: &Leaving) -> Result<Left, Error> {
    let mut left = Left::default();
    let namespace = Some(leaving.namespace.as_str());
    let lease = child
        .get_opt(&kubernetes::LEASES, namespace, names::AGENT)
        .await
        .map_err(Error::doing("read the agent's lease"))?;
    let secret = child
        .get_opt(&kubernetes::SECRETS, namespace, names::PARENT_CLUSTER_SECRET)
        .await
        .map_err(Error::doing("read the kept credential"))?;
    let from_secret = secret
        .as_ref()
        .and_then(|secret| meta::label(secret, labels::CLUSTER_ID));
    let cluster_id = from_secret
        .or(lease.as_ref().map(identity::cluster_id))
        .map(str::to_owned);
    // Nor shall the parent reach in any more.
    for (resource, name) in [
        (&kubernetes::SECRETS, names::APP_DEPLOYER),
        (&kubernetes::SERVICE_ACCOUNTS, names::APP_DEPLOYER),
    ] {
        delete(child, resource, namespace, name, &mut left).await;
    }
    if let (Some(parent), Some(cluster_id)) = (parent, &cluster_id) {
        leave_parent(parent, cluster_id, leaving, &mut left).await;
    }
    release_exports(child, &mut left).await;
    if leaving.remove_objects {
        remove_objects(child, &mut left).await;
    } else {
        release_objects(child, &mut left).await;
    }
    for (resource, name) in [
        (&kubernetes::SECRETS, names::PARENT_CLUSTER_SECRET),
        (&kubernetes::SECRETS, names::AGENT_KEY_SECRET),
        (&kubernetes::LEASES, names::AGENT),
    ] {
        delete(child, resource, namespace, name, &mut left).await;
    }
    Ok(left)
}

async fn delete(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    left: &mut Left,
) {
    let result = client
        .delete(resource, namespace, name, &DeleteOptions::background())
        .await;
    left.note(format!("{} {name}", resource.kind), result);
}

/// The parent's side: Descriptions and HelmReleases lose the finalizer that this child would have served.
async fn leave_parent(parent: &Client, cluster_id: &str, leaving: &Leaving, left: &mut Left) {
    let selector = ListOptions::labels(format!("{}={cluster_id}", labels::CLUSTER_ID));
    let listed = parent.list_all(&kubernetes::NAMESPACES, None, &selector).await;
    let namespaces = match listed {
        Ok(listed) => listed.items,
        Err(error) => {
            left.note("the dedicated namespace".to_owned(), Err(error));
            Vec::new()
        }
    };
    for namespace in &namespaces {
        let dedicated = meta::name(namespace);
        if !leaving.remove_objects
            && let Err(error) = keep_off(parent, dedicated).await
        {
            left.note("ManagedCluster".to_owned(), Err(error));
            continue;
        }
        for resource in [
            clusters::MANAGED_CLUSTERS,
            api::apps::BASES,
            api::apps::HELM_RELEASES,
            api::apps::DESCRIPTIONS,
            kubernetes::SECRETS,
        ] {
            let listed = parent
                .list_all(&resource, Some(dedicated), &ListOptions::default())
                .await;
            let listed = match listed {
                Ok(listed) => listed.items,
                Err(error) => {
                    left.note(format!("every {} in {dedicated}", resource.kind), Err(error));
                    continue;
                }
            };
            for object in listed {
                if resource == kubernetes::SECRETS && meta::name(&object) != names::CHILD_DEPLOYER_SECRET {
                    continue;
                }
                delete(parent, &resource, Some(dedicated), meta::name(&object), left).await;
                let released = release(parent, &resource, &object).await;
                if let Err(error) = released
                    && !error.is_not_found()
                {
                    left.note(format!("{} {}", resource.kind, meta::name(&object)), Err(error));
                }
            }
        }
        // Only a namespace made for this cluster; one that somebody chose has other things too.
        if meta::label(namespace, labels::CREATED_BY) == Some(labels::CREATED_BY_AGENT) {
            delete(parent, &kubernetes::NAMESPACES, None, dedicated, left).await;
        }
    }
    let name = names::for_cluster(cluster_id);
    for resource in [
        kubernetes::CLUSTER_ROLE_BINDINGS,
        kubernetes::CLUSTER_ROLES,
        clusters::REGISTRATION_REQUESTS,
    ] {
        delete(parent, &resource, None, &name, left).await;
    }
}

/// Keeps a parent that applies by itself from taking back what the child is to keep, before it learns of the departure.
async fn keep_off(parent: &Client, dedicated: &str) -> Result<(), kubeio::Error> {
    let (managed, everything) = (&clusters::MANAGED_CLUSTERS, ListOptions::default());
    let why = "it leaves, and keeps what it has";
    let patch = json!({
        "metadata": {"annotations": {annotations::HOLD_ORPHANS: why}},
        "spec": {"syncMode": clusters::SyncMode::Pull.as_str()},
    });
    for cluster in parent
        .list_all(managed, Some(dedicated), &everything)
        .await?
        .items
    {
        let (namespace, name) = (Some(dedicated), meta::name(&cluster));
        parent
            .patch(managed, namespace, name, None, Patch::Merge, &patch)
            .await?;
    }
    Ok(())
}

/// Takes our finalizer off an object whose child is leaving.
async fn release(parent: &Client, resource: &ApiResource, object: &Value) -> Result<(), kubeio::Error> {
    if !meta::has_finalizer(object, finalizers::APP) {
        return Ok(());
    }
    let rest: Vec<&str> = meta::finalizers(object)
        .filter(|finalizer| *finalizer != finalizers::APP)
        .collect();
    let namespace = Some(meta::namespace(object));
    let patch = json!({"metadata": {"finalizers": rest}});
    parent
        .patch(
            resource,
            namespace,
            meta::name(object),
            None,
            Patch::Merge,
            &patch,
        )
        .await
        .map(drop)
}

/// Takes our finalizer off the ServiceExports, which nobody serves any more.
async fn release_exports(child: &Client, left: &mut Left) {
    let exports = &mcs::SERVICE_EXPORTS;
    match child.list_all(exports, None, &ListOptions::default()).await {
        Ok(listed) => {
            for export in listed.items {
                let released = release(child, exports, &export).await;
                if let Err(error) = released
                    && !error.is_not_found()
                {
                    left.note(format!("ServiceExport {}", meta::name(&export)), Err(error));
                }
            }
        }
        Err(error) => left.note("the ServiceExports".to_owned(), Err(error)),
    }
}

/// Lets everything in the child that says that it comes from a Description be the child's own. What was applied last
/// stays noted: who takes an object over knows by it which fields were the fleet's.
async fn release_objects(child: &Client, left: &mut Left) {
    let Some(found) = find(child, left).await else {
        return;
    };
    let mapper = Mapper::new(child.clone());
    let patch = json!({"metadata": {"annotations": {annotations::OWNED_BY_DESCRIPTION: null}}});
    for id in found {
        let Some(resource) = resource_of(&mapper, &id, left).await else {
            continue;
        };
        let (namespace, name) = (id.key.namespace(), id.key.name.as_str());
        match child
            .patch(&resource, namespace, name, None, Patch::Merge, &patch)
            .await
        {
            Ok(_) => left.kept.push(id.to_string()),
            Err(error) => left.note(id.to_string(), Err(error)),
        }
    }
}

/// Everything in the child that says that it comes from a Description.
async fn find(child: &Client, left: &mut Left) -> Option<Vec<plan::ObjectId>> {
    let found = match deployer::find(child).await {
        Ok(found) => found,
        Err(error) => {
            left.note("the applied objects".to_owned(), Err(error));
            return None;
        }
    };
    left.remaining.extend(
        found
            .missed
            .iter()
            .map(|kind| format!("applied objects of {kind}: they cannot be listed")),
    );
    Some(found.objects.into_iter().map(|(_, id)| id).collect())
}

/// The resource of an object that was found; `None` if it is not served any more, or cannot be told, which is noted.
async fn resource_of(mapper: &Mapper, id: &plan::ObjectId, left: &mut Left) -> Option<ApiResource> {
    mapper.resource(&id.kind).await.unwrap_or_else(|error| {
        left.note(id.to_string(), Err(error));
        None
    })
}

/// Removes everything in the child that says that it comes from a Description: objects first, then namespaces, then
/// definitions.
async fn remove_objects(child: &Client, left: &mut Left) {
    let Some(mut found) = find(child, left).await else {
        return;
    };
    let mapper = Mapper::new(child.clone());
    found.sort_by_key(|id| std::cmp::Reverse(plan::Wave::of(&id.kind)));
    for id in found {
        if let Some(resource) = resource_of(&mapper, &id, left).await {
            delete(child, &resource, id.key.namespace(), &id.key.name, left).await;
        }
    }
}
