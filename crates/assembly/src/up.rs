//! `up`: a whole fleet's control plane in one process.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clock::Env;
use runtime::{CancellationToken, Supervisor};

use crate::{DataDir, Error, Plane, data_dir};

/// How long stopping may take.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(9);

/// What `up` is asked for.
#[derive(Debug, Clone)]
pub struct UpConfig {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// How many simulated members join.
    pub members: usize,
    /// Whether the sample application is distributed.
    pub demo: bool,
    /// Whether to end once everything is ready.
    pub exit_when_ready: bool,
}

/// Runs until the token is cancelled (or everything is ready, if that was asked for).
///
/// # Errors
/// [`Error`] of the part that does not start or fails.
pub async fn up(
    config: UpConfig,
    env: Env,
    shutdown: CancellationToken,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let folder = DataDir::lock(&config.data_dir)?;
    let mut tasks = Supervisor::new(shutdown);
    let parent = Plane::start("tombolo", folder.root(), config.listen, &env, None, &mut tasks).await?;
    data_dir::write_private(&folder.kubeconfig(), &parent.kubeconfig)
        .map_err(|source| Error::Folder { path: folder.root().to_owned(), source })?;
    writeln!(out, "control plane at {}", parent.url).map_err(Error::Output)?;
    tasks.run(SHUTDOWN_DEADLINE).await?;
    Ok(())
}
