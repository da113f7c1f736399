//! `leave`: takes a cluster out of the fleet, leaving nothing behind on either side.

use std::io::Write;

use agent::Leaving;
use api::install::{ChildOptions, child as child_objects};
use api::kubernetes as k8s;
use api::names::{AGENT, SYSTEM_NAMESPACE};
use kubeio::{Client, DeleteOptions};
use machinery::{ApiResource, meta};
use serde_json::Value;

use crate::{Error, Hub};

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
    remove(
        child,
        &k8s::DEPLOYMENTS,
        Some(SYSTEM_NAMESPACE),
        AGENT,
        out,
        &mut remaining,
    )
    .await?;
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
    for object in child_objects(&ChildOptions::default()).iter().rev() {
        let Some(resource) = resource_of(object) else {
            continue;
        };
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
