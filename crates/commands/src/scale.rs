//! `scale`.

use std::io::Write;

use kubeio::Patch;
use serde_json::json;

use crate::error::Failures;
use crate::resolve::Named;
use crate::{Error, Hub, Selection};

/// Sets a template's number of replicas.
///
/// # Errors
/// [`Error`] of those that are not there or have no replicas; the others are scaled.
pub async fn scale(
    hub: &Hub,
    selection: &Selection,
    replicas: u32,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let mut failures = Failures::default();
    for object in Named::find(hub, &discovery, selection, out).await? {
        failures.take(scale_one(hub, &object, replicas, out).await)?;
    }
    failures.end()
}

async fn scale_one(
    hub: &Hub,
    object: &Named,
    replicas: u32,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let title = object.title();
    hub.client
        .patch(
            &object.resource,
            object.namespace.as_deref(),
            &object.name,
            Some("scale"),
            Patch::Merge,
            &json!({"spec": {"replicas": replicas}}),
        )
        .await
        .map_err(Error::hub(format!("{title} cannot be scaled")))?;
    Ok(writeln!(out, "{title} scaled")?)
}
