//! `leave`: takes a cluster out of the fleet, leaving nothing behind on either side.

use std::io::Write;
use std::time::Duration;

use agent::Leaving;
use api::install::{ChildOptions, child as child_objects};
use api::kubernetes as k8s;
use api::labels::CLUSTER_NAME;
use api::names::{AGENT, APP_DEPLOYER, PARENT_CLUSTER_SECRET, SYSTEM_NAMESPACE};
use kubeio::{Client, DeleteOptions, ListOptions};
use machinery::{ApiResource, meta};
use serde_json::Value;

use crate::{Error, Hub};

/// Where bootstrap tokens are.
const TOKENS_NAMESPACE: &str = "kube-system";
/// How often the agent's pods are looked at while they end, and with which pause.
const END_TRIES: u32 = 240;
const END_PAUSE: Duration = Duration::from_millis(250);

/// What becomes of the objects that the fleet brought into the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// They go.
    Remove,
    /// They stay, as the cluster's own.
    Keep,
}

/// Stops the agent, removes the cluster from the hub, and then every trace from the cluster. Safe to repeat.
///
/// # Errors
/// [`Error::Missing`] with what could not be removed and why.
pub async fn leave(
    hub: &Hub,
    child: &Client,
    brought: Brought,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut remaining = Vec::new();
    let name = cluster_name(child).await?;
    forget_tokens(hub, &name, out).await?;
    remove(
        child,
        &k8s::DEPLOYMENTS,
        Some(SYSTEM_NAMESPACE),
        AGENT,
        out,
        &mut remaining,
    )
    .await?;
    await_end(child).await?;
    let leaving = Leaving {
        remove_objects: brought == Brought::Remove,
        ..Leaving::default()
    };
    let left = agent::leave(child, Some(&hub.client), &leaving)
        .await
        .map_err(|error| Error::Missing(format!("the cluster cannot be asked who it is: {error}")))?;
    for removed in &left.removed {
        writeln!(out, "{removed} removed")?;
    }
    remaining.extend(left.remaining);
    let shared = is_shared(child).await?;
    for object in child_objects(&ChildOptions::default()).iter().rev() {
        let Some(resource) = resource_of(object) else {
            continue;
        };
        if shared && meta::kind(object) == "Namespace" {
            writeln!(out, "Namespace {SYSTEM_NAMESPACE} stays: others use it")?;
            continue;
        }
        let namespace = Some(meta::namespace(object)).filter(|namespace| !namespace.is_empty());
        remove(
            child,
            resource,
            namespace,
            meta::name(object),
            out,
            &mut remaining,
        )
        .await?;
    }
    if remaining.is_empty() {
        Ok(())
    } else {
        Err(Error::Missing(format!("left behind: {}", remaining.join("; "))))
    }
}

fn resource_of(object: &Value) -> Option<&'static ApiResource> {
    k8s::ALL
        .iter()
        .find(|resource| resource.kind == meta::kind(object))
}

async fn remove(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    out: &mut (dyn Write + Send),
    remaining: &mut Vec<String>,
) -> Result<(), Error> {
    match client
        .delete(resource, namespace, name, &DeleteOptions::background())
        .await
    {
        Ok(()) => writeln!(out, "{} {name} removed", resource.kind)?,
        Err(error) if error.is_not_found() => {}
        Err(error) => remaining.push(format!("{} {name}: {error}", resource.kind)),
    }
    Ok(())
}

/// The name under which the cluster joined; empty if it never did.
async fn cluster_name(child: &Client) -> Result<String, Error> {
    let secret = child
        .get_opt(&k8s::SECRETS, Some(SYSTEM_NAMESPACE), PARENT_CLUSTER_SECRET)
        .await
        .map_err(Error::hub("the cluster does not say who it is"))?;
    let name = secret
        .as_ref()
        .and_then(|secret| meta::label(secret, CLUSTER_NAME));
    Ok(name.unwrap_or_default().to_owned())
}

/// Nobody may join again with a token that was made for this cluster.
async fn forget_tokens(hub: &Hub, name: &str, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    if name.is_empty() {
        return Ok(());
    }
    let failed = || Error::hub("the cluster's bootstrap tokens cannot be removed");
    let selector = ListOptions::labels(format!("{CLUSTER_NAME}={name}"));
    let tokens = hub
        .client
        .list_all(&k8s::SECRETS, Some(TOKENS_NAMESPACE), &selector)
        .await
        .map_err(failed())?;
    for token in tokens.items.iter().map(meta::name) {
        hub.client
            .delete(
                &k8s::SECRETS,
                Some(TOKENS_NAMESPACE),
                token,
                &DeleteOptions::background(),
            )
            .await
            .map_err(failed())?;
        writeln!(out, "Secret {token} removed")?;
    }
    Ok(())
}

/// Waits until no agent runs any more that could register again.
async fn await_end(child: &Client) -> Result<(), Error> {
    let selector = ListOptions::labels(format!("app={AGENT}"));
    for _ in 0..END_TRIES {
        let pods = child
            .list_all(&k8s::PODS, Some(SYSTEM_NAMESPACE), &selector)
            .await
            .map_err(Error::hub("the agent's pods cannot be listed"))?;
        if pods.items.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(END_PAUSE).await;
    }
    Err(Error::Missing(
        "the agent's pods do not end: look at them, then try again".into(),
    ))
}

/// Whether others than the agent live in the system namespace: a hub may be a child of its own fleet.
async fn is_shared(child: &Client) -> Result<bool, Error> {
    let accounts = child
        .list_all(
            &k8s::SERVICE_ACCOUNTS,
            Some(SYSTEM_NAMESPACE),
            &ListOptions::default(),
        )
        .await
        .map_err(Error::hub(
            "the accounts of the system namespace cannot be listed",
        ))?;
    Ok(accounts
        .items
        .iter()
        .map(meta::name)
        .any(|name| !["default", AGENT, APP_DEPLOYER].contains(&name)))
}
