//! A ClusterRegistrationRequest becomes a cluster of the fleet, and keeps what it was granted ([`upkeep`]).

pub mod plan;
pub mod rights;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use api::{clusters, kubernetes, labels, names, secret};
use distribution::{EventKind, Next};
use kubeio::{Error, ListOptions, ObjectKey, Outcome, Queue, QueueOptions};
use machinery::{ApiResource, meta};
use runtime::{CancellationToken, Chain};
use serde_json::{Value, json};

use crate::shared::Shared;

/// Reason of the events about a request that does not come forward.
const FAILED_APPROVING: &str = "FailedApproving";
/// Reason of the events about an approved request whose cluster gets no new credential.
const NO_CREDENTIAL: &str = "NoCredential";
/// What is told of a token that does not come.
const NO_TOKEN: &str =
    "its ServiceAccount's token Secret is not filled: does the parent's token controller run?";
/// After so many looks for a token, each after twice the time, people hear of it.
const LOOKS: u32 = 6;
/// One registration takes a handful of passes; more would be a loop.
const MOST_PASSES: usize = 16;

/// Runs the controller until the token is cancelled.
pub(crate) async fn run(shared: &Arc<Shared>, workers: usize, stop: &CancellationToken) {
    tokio::join!(
        answer_requests(shared, workers, stop),
        upkeep::run(shared, workers, stop)
    );
}

async fn answer_requests(shared: &Shared, workers: usize, stop: &CancellationToken) {
    let options = QueueOptions {
        base: Duration::from_millis(50),
        max: Duration::from_secs(15),
    };
    // By the name that is asked for, so that of two clusters that want one name the second meets the first.
    let queue = Queue::<String>::new(options);
    let route = async {
        let mut requests = shared.cache(&clusters::REGISTRATION_REQUESTS).subscribe();
        loop {
            let change = requests.next().await;
            if let Some(request) = change.new.filter(|request| plan::is_open(request)) {
                queue.add(plan::cluster_name(&request).to_owned());
            }
        }
    };
    tokio::select! {
        biased;
        () = route => {}
        () = queue.serve(workers, stop, |name| work(shared, &queue, name)) => {}
    }
}

/// Answers every open request for a name, the first first.
async fn work(shared: &Shared, queue: &Queue<String>, name: String) -> Outcome {
    let requests = shared.cache(&clusters::REGISTRATION_REQUESTS).list();
    let mut open: Vec<_> = requests
        .into_iter()
        .filter(|request| plan::is_open(request) && plan::cluster_name(request) == name)
        .collect();
    open.sort_by(|one, other| plan::age(one).cmp(&plan::age(other)));
    let looks = queue.failures(&name);
    let mut outcome = Outcome::Done;
    for request in open {
        if !answer(shared, &request, &name, looks).await {
            outcome = Outcome::Retry;
        }
    }
    outcome
}

/// Brings one request forward; whether that was all. `looks` is how often its name came again.
async fn answer(shared: &Shared, request: &Value, name: &str, looks: u32) -> bool {
    // One that was changed to another name in between is another worker's.
    let is_for_it = |request: &Value| plan::cluster_name(request) == name;
    match settle(shared, request, plan::plan, is_for_it).await {
        // A token comes soon, or not before somebody does something about it.
        Ok(Next::Again(_)) => {
            if looks >= LOOKS {
                surface(shared, request, NO_TOKEN).await;
            }
            false
        }
        Ok(Next::Done) => true,
        Ok(Next::Blocked(why)) => {
            surface(shared, request, &why).await;
            false
        }
        Err(error) if error.is_conflict() => false,
        Err(error) => {
            let why = Chain(&error).to_string();
            tracing::warn!(name = %meta::name(request), error = %why, "registration does not come forward, trying again");
            surface(shared, request, &why).await;
            false
        }
    }
}

/// Looks, plans and carries out until nothing is left to write, or the request is none of those that are meant.
async fn settle(
    shared: &Shared,
    request: &Value,
    plan: fn(&plan::View) -> distribution::Plan,
    is_meant: impl Fn(&Value) -> bool,
) -> Result<Next, Error> {
    let key = ObjectKey::of(request);
    for _ in 0..MOST_PASSES {
        // As it is after what was written already.
        let Some(request) = shared.cache(&clusters::REGISTRATION_REQUESTS).get_key(&key) else {
            return Ok(Next::Done);
        };
        if !is_meant(&request) {
            return Ok(Next::Done);
        }
        let plan = plan(&snapshot(shared, &request).await?);
        let (writes, next) = (plan.writes(), plan.next.clone());
        shared.carry_out(plan).await?;
        if !writes || next != Next::Done {
            return Ok(next);
        }
    }
    Ok(Next::Blocked(
        "somebody else undoes what is done about it".to_owned(),
    ))
}

/// Tells whoever looks at the request why it waits; the result stays open.
async fn surface(shared: &Shared, request: &Value, why: &str) {
    if request["status"]["errorMessage"] == why {
        return;
    }
    shared.tell(request, EventKind::Warning, FAILED_APPROVING, why);
    let patch = json!({"metadata": {"uid": meta::uid(request)}, "status": {"errorMessage": why}});
    let written = shared
        .client
        .patch(
            &clusters::REGISTRATION_REQUESTS,
            None,
            meta::name(request),
            Some("status"),
            kubeio::Patch::Merge,
            &patch,
        )
        .await;
    if let Err(error) = written {
        tracing::debug!(name = %meta::name(request), error = %Chain(&error), "the reason was not written");
    }
}

/// Everything a pass has to know, asked for live: registrations are rare, and a stale answer would make things twice.
async fn snapshot(shared: &Shared, request: &Value) -> Result<plan::View, Error> {
    let id = request["spec"]["clusterId"].as_str().unwrap_or_default();
    let mut view = plan::View {
        request: request.clone(),
        waits_for_init: shared.cluster_init,
        now: shared.env.now(),
        ..plan::View::default()
    };
    if !plan::is_named_after(request, id) {
        return Ok(view);
    }
    let client = &shared.client;
    let own = format!(
        "{}={},{}={id}",
        labels::CREATED_BY,
        labels::CREATED_BY_AGENT,
        labels::CLUSTER_ID
    );
    let own = ListOptions::labels(own);
    let list = async |resource: &ApiResource, namespace: Option<&str>| -> Result<Vec<Value>, Error> {
        Ok(client.list(resource, namespace, &own).await?.items)
    };
    let name = names::for_cluster(id);
    view.cluster_role = client.get_opt(&kubernetes::CLUSTER_ROLES, None, &name).await?;
    view.cluster_role_binding = client
        .get_opt(&kubernetes::CLUSTER_ROLE_BINDINGS, None, &name)
        .await?;
    view.namespace = plan::oldest(list(&kubernetes::NAMESPACES, None).await?);
    let Some(home) = view
        .namespace
        .as_ref()
        .map(|namespace| meta::name(namespace).to_owned())
    else {
        view.namesake = namesake(shared, request, id).await?;
        return Ok(view);
    };
    let home = Some(home.as_str());
    // By what the child cannot change: the labels are its to write.
    let mut members = client
        .list(&clusters::MANAGED_CLUSTERS, home, &ListOptions::default())
        .await?
        .items;
    members.retain(|member| member["spec"]["clusterId"] == id);
    view.cluster = plan::oldest(members);
    if view.cluster.is_none() {
        view.namesake = namesake(shared, request, id).await?;
    }
    view.service_account = plan::oldest(list(&kubernetes::SERVICE_ACCOUNTS, home).await?);
    view.role = client
        .get_opt(&kubernetes::ROLES, home, names::MANAGED_CLUSTER_ROLE)
        .await?;
    view.role_binding = client
        .get_opt(&kubernetes::ROLE_BINDINGS, home, names::MANAGED_CLUSTER_ROLE)
        .await?;
    if let Some(account) = &view.service_account {
        view.token = client
            .get_opt(&kubernetes::SECRETS, home, meta::name(account))
            .await?;
    }
    let system = Some(names::SYSTEM_NAMESPACE);
    let authority = client
        .get_opt(&kubernetes::CONFIG_MAPS, system, names::ROOT_AUTHORITY)
        .await;
    view.authority = match authority {
        Ok(found) => found.as_ref().and_then(authority_of),
        // A parent that was prepared by an earlier version.
        Err(error) if error.is_forbidden() => None,
        Err(error) => return Err(error),
    };
    Ok(view)
}

/// What a ConfigMap says of the parent's authorities, as answers have it.
fn authority_of(config_map: &Value) -> Option<String> {
    config_map["data"]["ca.crt"].as_str().map(secret::encode)
}

/// A ManagedCluster of another id that has the name which a request is open for. Looks at the clusters of the whole
/// fleet, so only ask where the answer matters.
async fn namesake(shared: &Shared, request: &Value, id: &str) -> Result<Option<Value>, Error> {
    if !plan::is_open(request) || plan::fault(request).is_some() {
        return Ok(None);
    }
    let named = ListOptions {
        field_selector: format!("metadata.name={}", plan::cluster_name(request)),
        ..ListOptions::default()
    };
    let members = shared
        .client
        .list(&clusters::MANAGED_CLUSTERS, None, &named)
        .await?
        .items;
    Ok(members
        .into_iter()
        .find(|member| member["spec"]["clusterId"] != id))
}
