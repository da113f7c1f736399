//! Where log lines go, decided once per process.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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
    let filter = EnvFilter::try_new(filter)?;
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => registry
            .with(fmt::layer().with_writer(std::io::stderr))
            .try_init()?,
        LogFormat::Json => registry
            .with(fmt::layer().json().with_writer(std::io::stderr))
            .try_init()?,
    }
    Ok(())
}
