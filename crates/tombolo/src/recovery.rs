//! `backup` and `restore`: what was typed, and what is said about it.

use std::io::{IsTerminal as _, Write};
use std::time::{Duration, Instant};

use assembly::{Contents, Earlier, Origin, Restored};
use clock::Env;
use serde_json::json;

use crate::cli::{BackupArgs, RestoreArgs, SummaryFormat};
use crate::run::{Failure, hub};

/// Between two lines of progress.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

pub(crate) async fn backup(args: BackupArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let at_rest = args.hub.data_dir.as_deref().map(Origin::at_rest);
    let origin = match at_rest.transpose()?.flatten() {
        Some(origin) => origin,
        None => Origin::Running(hub(&args.hub).await?.client),
    };
    let earlier = if args.force {
        Earlier::Replace
    } else {
        Earlier::Keep
    };
    let mut said = Instant::now();
    let is_watched = std::io::stderr().is_terminal();
    let mut progress = |bytes: u64| {
        if is_watched && said.elapsed() >= PROGRESS_PERIOD {
            said = Instant::now();
            // Where standard error is gone there is nobody to tell.
            let _unheard = write!(std::io::stderr(), "\r{} MiB", bytes >> 20);
        }
    };
    let contents = assembly::backup(origin, &args.file, earlier, &mut progress).await?;
    if is_watched {
        let _unheard = write!(std::io::stderr(), "\r");
    }
    let Contents { copied, bytes } = contents;
    let (revision, objects, file) = (copied.revision.0, copied.objects, args.file.display());
    match args.summary.output {
        SummaryFormat::Json => writeln!(
            out,
            "{}",
            json!({"file": file.to_string(), "revision": revision, "objects": objects, "bytes": bytes})
        ),
        SummaryFormat::Text => writeln!(
            out,
            "{file}: {objects} objects at revision {revision}, {bytes} bytes. It holds the hub's keys: who reads it can \
             act as the hub."
        ),
    }
    .map_err(anyhow::Error::from)?;
    Ok(())
}

pub(crate) async fn restore(args: RestoreArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let Restored { contents, clusters } =
        assembly::restore(&args.file, &args.data_dir, &Env::system()).await?;
    let Contents { copied, bytes } = contents;
    let (revision, objects, folder) = (copied.revision.0, copied.objects, args.data_dir.display());
    match args.summary.output {
        SummaryFormat::Json => writeln!(
            out,
            "{}",
            json!({"dataDir": folder.to_string(), "revision": revision, "objects": objects, "bytes": bytes,
                   "clusters": clusters})
        ),
        SummaryFormat::Text => writeln!(
            out,
            "{folder}: {objects} objects of revision {revision}.\n{clusters} clusters keep what the backup does not know. \
             Once you have looked at them:\n  kubectl annotate managedclusters.clusters.clusternet.io -A --all {}-\n\
             Next: tombolo up --data-dir {folder} --listen ADDRESS:PORT, at the address that the clusters know.",
            api::annotations::HOLD_ORPHANS
        ),
    }
    .map_err(anyhow::Error::from)?;
    Ok(())
}
