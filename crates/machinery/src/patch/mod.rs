//! Changing objects by patches: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge
//! patch; and making the patches that take a live object to a wanted one, knowing what was applied before.

mod changes;
mod json;
mod merge;
mod order;
mod strategic;
#[cfg(test)]
mod tests;
mod three_way;

use crate::schema::Schema;

pub use changes::{changed_paths, equal_except};
pub use json::{MAX_OPERATIONS, json_patch};
pub use merge::{json_merge_diff, merge_diff, merge_patch};
pub use strategic::strategic_merge;
pub use three_way::strategic_diff;

/// What a strategic merge patch must know of a type: patch strategies and merge keys, as in its schema.
pub type TypeInfo = Schema;

/// Why a patch does not apply. The texts are those of a Kubernetes API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch (400).
    #[error("{0}")]
    Malformed(String),
    /// It has more operations than allowed (413).
    #[error("The allowed maximum operations in a JSON patch is {limit}, got {found}")]
    TooManyOperations {
        /// The limit.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// It does not fit the object (422).
    #[error("{0}")]
    DoesNotApply(String),
    /// A `test` operation found something else (422).
    #[error("testing value {path} failed: test failed")]
    TestFailed {
        /// Where.
        path: String,
    },
}
