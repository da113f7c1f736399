//! `delete`.

use std::io::Write;

use api::annotations::FEED_PROTECTION;
use kubeio::DeleteOptions;
use machinery::meta;

use crate::error::Failures;
use crate::resolve::{Named, by_kind, namespace as pick};
use crate::{Error, Hub, Source, Target, read};

/// Removes templates named in files or as targets. What is not there already is an error, unless
/// `ignore_not_found`.
///
/// # Errors
/// [`Error`] of the objects that cannot be deleted; the others are.
pub async fn delete(
    hub: &Hub,
    sources: &[Source],
    targets: &[Target],
    given: Option<&str>,
    ignore_not_found: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let mut failures = Failures::default();
    let mut doomed = Vec::new();
    for object in read(sources)? {
        let named = || {
            let resource = by_kind(&discovery, &meta::gvk(&object))?;
            let namespace = pick(&resource, meta::namespace(&object), given)?.map(ToOwned::to_owned);
            Ok(Named {
                resource,
                namespace,
                name: meta::name(&object).to_owned(),
            })
        };
        failures.take(named().map(|named| doomed.push(named)))?;
    }
    doomed.extend(Named::find_all(&discovery, targets, given, "delete")?);
    // What was made last goes first.
    for object in doomed.iter().rev() {
        failures.take(delete_one(hub, object, ignore_not_found, out).await)?;
    }
    failures.end()
}

async fn delete_one(
    hub: &Hub,
    object: &Named,
    ignore_not_found: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let Named {
        resource,
        namespace,
        name,
    } = object;
    let title = format!("{} {name:?}", resource.kind.to_lowercase());
    let deleted = hub
        .client
        .delete(resource, namespace.as_deref(), name, &DeleteOptions::background())
        .await;
    match deleted {
        Err(error) if error.is_not_found() && ignore_not_found => return Ok(()),
        deleted => deleted.map_err(Error::hub(format!("{title} cannot be deleted")))?,
    }
    let left = hub
        .client
        .get_opt(resource, namespace.as_deref(), name)
        .await
        .map_err(Error::hub(format!("{title} cannot be read")))?;
    match left.as_ref().filter(|object| meta::is_deleting(object)) {
        None => writeln!(out, "{title} deleted")?,
        Some(object) => match meta::annotation(object, FEED_PROTECTION) {
            Some(why) => writeln!(out, "{title} is to be deleted, but waits: {why}")?,
            None => writeln!(out, "{title} is to be deleted, and waits for its finalizers")?,
        },
    }
    Ok(())
}
