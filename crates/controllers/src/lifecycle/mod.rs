//! The life of a ManagedCluster: heartbeats become a condition and a taint; a deleted one leaves the fleet.

mod heard;
pub mod init;
pub mod leave;
pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::{apps, clusters, kubernetes, labels, names, reasons};
use distribution::Next;
use kubeio::{Error, ListOptions, ObjectKey, Outcome, Queue, QueueOptions};
use machinery::{ApiResource, meta};
use runtime::CancellationToken;
use serde_json::Value;
use tokio::time::Instant;

use crate::lifecycle::heard::Heard;
use crate::lifecycle::init::Init;
use crate::shared::Shared;

/// Runs the controller until the token is cancelled.
pub(crate) async fn run(shared: &Arc<Shared>, workers: usize, stop: &CancellationToken) {
    let options = QueueOptions {
        base: Duration::from_millis(50),
        max: Duration::from_secs(30),
    };
    let queue = Queue::new(options);
    let heard = Heard::default();
    let route = async {
        let mut members = shared.cache(&clusters::MANAGED_CLUSTERS).subscribe();
        let mut bases = shared.cache(&apps::BASES).subscribe();
        let mut descriptions = shared.cache(&apps::DESCRIPTIONS).subscribe();
        loop {
            let change = tokio::select! {
                biased;
                change = members.next() => {
                    if change.new.is_some() {
                        queue.add(change.key);
                    } else {
                        heard.forget(&change.key);
                    }
                    continue;
                }
                change = bases.next() => change,
                change = descriptions.next() => change,
            };
            // Whoever leaves waits for the last of these, whoever begins for the first.
            for member in shared
                .cache(&clusters::MANAGED_CLUSTERS)
                .list_namespace(&change.key.namespace)
            {
                if shared.cluster_init || (change.new.is_none() && meta::is_deleting(&member)) {
                    queue.add(ObjectKey::of(&member));
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = route => {}
        () = queue.serve(workers, stop, |key| work(shared, &heard, key)) => {}
    }
}

async fn work(shared: &Shared, heard: &Heard, key: ObjectKey) -> Outcome {
    let Some(cluster) = shared.cache(&clusters::MANAGED_CLUSTERS).get_key(&key) else {
        return Outcome::Done;
    };
    let report_age = heard.age(&key, plan::report(&cluster), Instant::now());
    match look(shared, &key, (&cluster, report_age)).await {
        Ok(Next::Again(delay)) => Outcome::After(delay),
        Ok(Next::Done) => Outcome::Done,
        Ok(Next::Blocked(why)) => {
            tracing::debug!(namespace = %key.namespace, name = %key.name, why, "cluster waits");
            Outcome::Done
        }
        Err(error) => shared.failed(&cluster, reasons::FAILED_UPDATING_CLUSTER_STATUS, &error),
    }
}

async fn look(
    shared: &Shared,
    key: &ObjectKey,
    (cluster, report_age): (&Value, Duration),
) -> Result<Next, Error> {
    let of_namespace = |resource| shared.cache(resource).list_namespace(&key.namespace);
    let (bases, descriptions);
    let init = if shared.cluster_init {
        (bases, descriptions) = (of_namespace(&apps::BASES), of_namespace(&apps::DESCRIPTIONS));
        Init::On {
            bases: &bases,
            descriptions: &descriptions,
        }
    } else {
        Init::Off
    };
    let health = plan::plan(&plan::View {
        cluster,
        now: shared.env.now(),
        report_age,
        init,
    });
    let next = health.next.clone();
    shared.carry_out(health).await?;
    let Some(cluster) = shared.cache(&clusters::MANAGED_CLUSTERS).get_key(key) else {
        return Ok(Next::Done);
    };
    if !meta::is_deleting(&cluster) || !meta::has_finalizer(&cluster, leave::FINALIZER) {
        return Ok(next);
    }
    let departure = leave::plan(&snapshot(shared, key, &cluster).await?);
    let waits = departure.next.clone();
    shared.carry_out(departure).await?;
    Ok(match waits {
        // While a departure waits, the heartbeat still counts: it is what ends waiting for a dead agent.
        Next::Blocked(_) => next,
        Next::Done | Next::Again(_) => waits,
    })
}

/// What a departure has to know. These are rare, so the objects are asked for one by one and not watched.
async fn snapshot(shared: &Shared, key: &ObjectKey, cluster: &Value) -> Result<leave::View, Error> {
    let client = &shared.client;
    let namespace = client
        .get_opt(&kubernetes::NAMESPACES, None, &key.namespace)
        .await?;
    // Whose rights go is the namespace's to say: the child could name another on its ManagedCluster.
    let id = namespace
        .as_ref()
        .and_then(|it| meta::label(it, labels::CLUSTER_ID));
    let name = id.map(names::for_cluster);
    let of_cluster = async |resource: &ApiResource| match &name {
        Some(name) => client.get_opt(resource, None, name).await,
        None => Ok(None),
    };
    let cache = |resource: &ApiResource| shared.cache(resource).list_namespace(&key.namespace);
    let others = cache(&clusters::MANAGED_CLUSTERS);
    let alone = others.len() <= 1;
    let (mut granted, mut left) = (Vec::new(), Vec::new());
    if leave::is_expelled(cluster) && alone {
        let home = Some(key.namespace.as_str());
        let list = async |resource: ApiResource| -> Result<Vec<(ApiResource, Value)>, Error> {
            let found = client
                .list_all(&resource, home, &ListOptions::default())
                .await?
                .items;
            Ok(found
                .into_iter()
                .map(|object| (resource.clone(), object))
                .collect())
        };
        for resource in [kubernetes::SERVICE_ACCOUNTS, kubernetes::ROLE_BINDINGS] {
            granted.extend(list(resource).await?);
        }
        // Nor does it come back by itself.
        let named = namespace
            .as_ref()
            .and_then(|it| meta::label(it, labels::CLUSTER_NAME));
        if let Some(named) = named {
            let own = ListOptions::labels(format!("{}={named}", labels::CLUSTER_NAME));
            let tokens = client
                .list_all(&kubernetes::SECRETS, Some("kube-system"), &own)
                .await?
                .items;
            let tokens = tokens
                .into_iter()
                .filter(|it| it["type"] == "bootstrap.kubernetes.io/token");
            granted.extend(tokens.map(|token| (kubernetes::SECRETS, token)));
        }
        // Each namespace gets this one again as long as it is there; nobody gave it anything.
        granted.retain(|(_, object)| meta::name(object) != "default");
        for resource in [
            apps::HELM_RELEASES,
            kubernetes::SECRETS,
            kubernetes::ENDPOINT_SLICES,
            kubernetes::EVENTS,
        ] {
            left.extend(list(resource).await?);
        }
        // What nobody holds goes with the namespace.
        left.retain(|(_, object)| meta::finalizers(object).next().is_some());
        for resource in [apps::BASES, apps::DESCRIPTIONS] {
            left.extend(list(resource).await?);
        }
    }
    Ok(leave::View {
        granted,
        left,
        cluster: cluster.clone(),
        alone,
        namespace,
        bases: cache(&apps::BASES),
        descriptions: cache(&apps::DESCRIPTIONS),
        request: of_cluster(&clusters::REGISTRATION_REQUESTS).await?,
        role: of_cluster(&kubernetes::CLUSTER_ROLES).await?,
        binding: of_cluster(&kubernetes::CLUSTER_ROLE_BINDINGS).await?,
        credential: client
            .get_opt(
                &kubernetes::SECRETS,
                Some(&key.namespace),
                names::CHILD_DEPLOYER_SECRET,
            )
            .await?,
    })
}
