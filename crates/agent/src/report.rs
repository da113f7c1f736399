//! What an agent says about its cluster: pure functions from snapshots to the status.

mod cidr;
mod labels;
mod nodes;
mod ready;
mod status;

pub use cidr::{Cidrs, find as find_cidrs};
pub use labels::{changes as label_changes, promote};
pub use nodes::{statistics, sums};
pub use ready::ready;
pub use status::{Health, Snapshot, Usage, status};
