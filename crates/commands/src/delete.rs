//! `delete`.

use std::io::Write;

use api::annotations::FEED_PROTECTION;
use kubeio::DeleteOptions;
use machinery::{ApiResource, meta};

use crate::resolve::{by_kind, by_word, namespace as pick};
use crate::{Error, Hub, Source, Target, read};

/// Removes templates named in files or as targets. What is not there already is an error, unless
/// `ignore_not_found`.
///
/// # Errors
/// [`Error`] of the first object that cannot be deleted.
pub async fn delete(
    hub: &Hub,
    sources: &[Source],
    targets: &[Target],
    given: Option<&str>,
    ignore_not_found: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let mut doomed: Vec<(ApiResource, Option<String>, String)> = Vec::new();
    for object in read(sources)? {
        let resource = by_kind(&discovery, &meta::gvk(&object))?;
        let namespace = pick(&resource, meta::namespace(&object), given)?.map(ToOwned::to_owned);
        doomed.push((resource, namespace, meta::name(&object).to_owned()));
    }
    for target in targets {
        let resource = by_word(&discovery, &target.kind)?;
        let Some(name) = &target.name else {
            return Err(Error::Usage(format!(
                "say which of the {} to delete",
                resource.plural
            )));
        };
        let namespace = pick(&resource, "", given)?.map(ToOwned::to_owned);
        doomed.push((resource, namespace, name.clone()));
    }
    // What was made last goes first.
    for (resource, namespace, name) in doomed.into_iter().rev() {
        let title = format!("{} {name:?}", resource.kind.to_lowercase());
        match hub
            .client
            .delete(
                &resource,
                namespace.as_deref(),
                &name,
                &DeleteOptions::background(),
            )
            .await
        {
            Ok(()) => {}
            Err(error) if error.is_not_found() && ignore_not_found => continue,
            Err(source) => {
                return Err(Error::Hub {
                    doing: format!("{title} cannot be deleted"),
                    source,
                });
            }
        }
        let left = hub
            .client
            .get_opt(&resource, namespace.as_deref(), &name)
            .await
            .map_err(Error::hub(format!("{title} cannot be read")))?;
        match left.as_ref().filter(|object| meta::is_deleting(object)) {
            None => writeln!(out, "{title} deleted")?,
            Some(object) => match meta::annotation(object, FEED_PROTECTION) {
                Some(why) => writeln!(out, "{title} is to be deleted, but waits: {why}")?,
                None => writeln!(out, "{title} is to be deleted, and waits for its finalizers")?,
            },
        }
    }
    Ok(())
}
