//! Versioned objects in memory with a log on disk: the `ObjectSource` of the embedded control plane.
//!
//! One writer turns waiting writes into one checksummed frame and one sync, then lets readers see them. Readers take
//! a short lock on memory and never wait for the disk. It knows nothing of schemas, users or HTTP. The entry type is
//! [`Store`].

pub mod archive;
mod codec;
mod decide;
mod error;
mod frame;
pub mod fuzz;
mod options;
mod recover;
mod relief;
mod room;
mod segment;
mod snapshot;
mod state;
mod stats;
mod store;
mod watch;
mod writer;

pub use error::OpenError;
pub use options::{Mode, Options};
pub use stats::Stats;
pub use store::{Copied, Store};
