//! Why a store does not open.

use std::io;

/// Why a store does not open. Nothing was changed on disk then.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk refused an operation.
    #[error("cannot {action} \"{file}\" in the store's directory")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// With which file (empty for the directory).
        file: String,
        /// What the disk said.
        #[source]
        source: io::Error,
    },
    /// A new incarnation was asked for, of nothing.
    #[error(
        "there is no object store in the directory to begin a new incarnation of: if it should hold a backup, that was not finished, make it again"
    )]
    Missing,
    /// A newer program wrote the file.
    #[error(
        "\"{file}\" has format {found}, this program reads format {known}: use the newer program that wrote it"
    )]
    Format {
        /// Which file.
        file: String,
        /// Its format.
        found: u32,
        /// The newest that this program reads.
        known: u32,
    },
    /// Bytes that were durable have changed or vanished. Opening would lose acknowledged writes.
    #[error(
        "\"{file}\" is damaged at byte {offset}: {reason}; restore a backup, or move the file away to go without it"
    )]
    Damaged {
        /// Which file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
}
