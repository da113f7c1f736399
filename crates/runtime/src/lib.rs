//! The frame that every process of ours runs in: tracing, shutdown, supervision of named tasks.
//! It has no business rules. The entry type is [`Supervisor`].

mod supervisor;
mod tracing_setup;

pub use supervisor::{BoxError, Chain, Supervisor, TaskError};
pub use tokio_util::sync::CancellationToken;
pub use tokio_util::task::TaskTracker;
pub use tracing_setup::{LogFormat, init_tracing};
