//! `scale`.

use std::io::Write;

use kubeio::Patch;
use serde_json::json;

use crate::resolve::{by_word, namespace as pick};
use crate::{Error, Hub, Target};

/// Sets a template's number of replicas.
///
/// # Errors
/// [`Error`] if it is not there or has no replicas.
pub async fn scale(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    replicas: u32,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    for target in targets {
        let resource = by_word(&discovery, &target.kind)?;
        let Some(name) = &target.name else {
            return Err(Error::Usage(format!(
                "say which of the {} to scale",
                resource.plural
            )));
        };
        let namespace = pick(&resource, "", given)?;
        hub.client
            .patch(
                &resource,
                namespace,
                name,
                Some("scale"),
                Patch::Merge,
                &json!({"spec": {"replicas": replicas}}),
            )
            .await
            .map_err(Error::hub(format!("{}/{name} cannot be scaled", target.kind)))?;
        writeln!(out, "{}/{name} scaled", resource.kind.to_lowercase())?;
    }
    Ok(())
}
