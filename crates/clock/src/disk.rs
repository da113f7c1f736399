//! A directory of files behind a trait, so that a simulated disk can lose what was not synced.
//!
//! The contract is the weakest that file systems give: bytes are durable after [`DiskFile::sync`], names after
//! [`Disk::sync_directory`]. Calls block; a shell runs them off its async workers.

mod sim;
mod system;

use std::fmt;
use std::io;

pub use sim::SimDisk;
pub use system::SystemDisk;

/// One flat directory.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The names in the directory, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// The whole content of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Makes an empty file (an existing one is emptied) and opens it for writing.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file for writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, replacing what had that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// A file opened for writing.
pub trait DiskFile: Send + fmt::Debug {
    /// Writes all bytes at an offset, growing the file if needed.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes sure that the first `size` bytes can be written without running out of space; the file's length
    /// becomes at least `size`, new bytes read as zero.
    fn reserve(&mut self, size: u64) -> io::Result<()>;
    /// Cuts the file to `size` bytes.
    fn truncate(&mut self, size: u64) -> io::Result<()>;
    /// Makes all bytes written so far durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Whether an operation failed because there is no room (or no quota) left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
