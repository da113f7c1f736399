//! Where log lines go, decided once per process.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What passes at most, whatever the filter asks for: `kube`'s client reports failures that its caller handles and
/// reports, and the lowest level of the protocol crates prints headers, tokens among them.
const CEILING: &str = "trace,kube_client::client::builder=off,tungstenite=debug,tokio_tungstenite=debug,hyper=debug,\
                      hyper_util=debug,h2=debug,rustls=debug,tower=debug";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends log lines to standard error. `filter` is a list of directives such as `info,tunnel=debug`.
///
/// # Errors
/// When the filter cannot be parsed, or a subscriber is installed already.
pub fn init_tracing(filter: &str, format: LogFormat) -> Result<(), super::BoxError> {
    // A line must pass both: the ceiling asks for nothing of its own.
    let registry = tracing_subscriber::registry()
        .with(EnvFilter::try_new(filter)?)
        .with(EnvFilter::try_new(CEILING)?);
    match format {
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal();
            let layer = fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
            registry.with(layer).try_init()?;
        }
        LogFormat::Json => registry
            .with(fmt::layer().json().with_writer(std::io::stderr))
            .try_init()?,
    }
    Ok(())
}
