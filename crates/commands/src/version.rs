//! `version`.

use std::io::Write;

use crate::{Error, Hub};

/// Prints this program's version and that of the hub's API server.
///
/// # Errors
/// [`Error`] if the hub does not answer; this program's version is printed before.
pub async fn version(hub: &Hub, client: &str, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    writeln!(out, "Client Version: v{client}")?;
    let answer = hub
        .client
        .get_path("/version")
        .await
        .map_err(Error::hub("the hub does not say its version"))?;
    let version = answer["gitVersion"].as_str().unwrap_or("unknown");
    writeln!(out, "Server Version: {version}")?;
    Ok(())
}
