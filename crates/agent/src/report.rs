//! What an agent says about its cluster: pure functions from snapshots to the status.

mod cidr;
mod conditions;
mod labels;
mod nodes;
mod status;

pub use cidr::{Cidrs, find as find_cidrs};
pub(crate) use conditions::time;
pub use conditions::{merge as merge_conditions, ready};
pub use labels::{changes as label_changes, promote};
pub use nodes::{statistics, sums};
pub use status::{Health, Snapshot, Usage, status};
