//! `delete`.

use std::io::Write;

use api::annotations::FEED_PROTECTION;
use kubeio::{DeleteOptions, DryRun};
use machinery::meta;

use crate::error::Failures;
use crate::resolve::{Named, by_kind};
use crate::{Error, Hub, Selection, Source, read};

/// Whether something is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trial {
    /// It is.
    #[default]
    No,
    /// It is only said what would be done (`--dry-run=client`).
    Client,
    /// The hub tries it, and changes nothing (`--dry-run=server`).
    Server,
}

/// How objects are deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deletion {
    /// What is not there is no error.
    pub ignore_not_found: bool,
    /// Whether they are deleted, or it is only tried.
    pub trial: Trial,
}

/// Removes templates named in files or selected.
///
/// # Errors
/// [`Error`] of the objects that cannot be deleted; the others are.
pub async fn delete(
    hub: &Hub,
    sources: &[Source],
    selection: &Selection,
    deletion: Deletion,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let objects = read(sources)?;
    let discovery = hub.discover().await?;
    let mut failures = Failures::default();
    let mut doomed = Vec::new();
    for object in objects {
        let named = || {
            let resource = by_kind(&discovery, &meta::gvk(&object))?;
            let namespace = hub.scope.of(&resource, meta::namespace(&object))?;
            Ok(Named {
                namespace: namespace.map(ToOwned::to_owned),
                resource,
                name: meta::name(&object).to_owned(),
            })
        };
        failures.take(named().map(|named| doomed.push(named)))?;
    }
    doomed.extend(Named::find(hub, &discovery, selection, out).await?);
    // What was made last goes first.
    for object in doomed.iter().rev() {
        failures.take(delete_one(hub, object, deletion, out).await)?;
    }
    failures.end()
}

async fn delete_one(
    hub: &Hub,
    object: &Named,
    deletion: Deletion,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let Named {
        resource,
        namespace,
        name,
    } = object;
    let namespace = namespace.as_deref();
    let title = format!("{} {name:?}", resource.kind.to_lowercase());
    let dry_run = match deletion.trial {
        Trial::No | Trial::Client => DryRun::No,
        Trial::Server => DryRun::All,
    };
    let options = DeleteOptions {
        dry_run,
        ..DeleteOptions::background()
    };
    let deleted = match deletion.trial {
        Trial::Client => hub.client.get(resource, namespace, name).await.map(drop),
        Trial::No | Trial::Server => hub.client.delete(resource, namespace, name, &options).await,
    };
    match deleted {
        Err(error) if error.is_not_found() && deletion.ignore_not_found => return Ok(()),
        deleted => deleted.map_err(Error::hub(format!("{title} cannot be deleted")))?,
    }
    match deletion.trial {
        Trial::No => {}
        Trial::Client => return Ok(writeln!(out, "{title} deleted (dry run)")?),
        Trial::Server => return Ok(writeln!(out, "{title} deleted (server dry run)")?),
    }
    let left = hub
        .client
        .get_opt(resource, namespace, name)
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
