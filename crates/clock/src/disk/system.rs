//! The operating system's disk: one private directory, held by one process at a time.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the one place that touches files"
)]

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Disk, DiskFile};

/// The file whose lock says that a process holds the directory. Hidden files are not part of the [`Disk`].
const LOCK: &str = ".lock";

/// How much is written at once when room is reserved.
const ZEROS: &[u8] = &[0; 256 * 1024];

/// A directory of the operating system. Files are readable by their owner alone (0600, the directory 0700). Hidden
/// files and subdirectories in it are left alone.
#[derive(Debug)]
pub struct SystemDisk {
    root: PathBuf,
    /// Holds the advisory lock until it is closed.
    _lock: File,
}

impl SystemDisk {
    /// Takes a directory for this process, making it if needed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process (or another part of this one) holds it; else what the
    /// operating system says.
    pub fn open(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        std::fs::set_permissions(root, Permissions::from_mode(0o700))?;
        let lock = options().create(true).truncate(false).open(root.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("directory \"{}\" is in use by another process", root.display());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The directory's own name must be durable too.
        if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Ok(Self {
            root: root.to_owned(),
            _lock: lock,
        })
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            let text = format!("\"{name}\" is not a plain file name");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(self.root.join(name))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

impl Disk for SystemDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue;
            }
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path(name)?)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = options().create(true).truncate(true).open(self.path(name)?)?;
        Ok(Box::new(SystemFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SystemFile(options().open(self.path(name)?)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name)?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }
}

#[derive(Debug)]
struct SystemFile(File);

impl DiskFile for SystemFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    /// Writes zeros: a length alone would make a hole, which takes no room until it is written to.
    fn reserve(&mut self, size: u64) -> io::Result<()> {
        let before = self.0.metadata()?.len();
        let mut offset = before;
        while offset < size {
            let chunk = usize::try_from(size - offset)
                .unwrap_or(usize::MAX)
                .min(ZEROS.len());
            if let Err(error) = self.0.write_all_at(&ZEROS[..chunk], offset) {
                // Give back what was taken: others may need the last bytes more.
                self.0.set_len(before)?;
                return Err(error);
            }
            offset += chunk as u64;
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_room_is_real() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("store");
        let disk = SystemDisk::open(&root).unwrap();
        let mut file = disk.create("a.log").unwrap();
        file.reserve(1_000_000).unwrap();
        file.write_at(10, b"hello").unwrap();
        file.sync().unwrap();
        let metadata = std::fs::metadata(root.join("a.log")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 >= 1_000_000);
        let mode = std::fs::metadata(&root).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let bytes = disk.read("a.log").unwrap();
        assert_eq!((bytes.len(), &bytes[10..15]), (1_000_000, &b"hello"[..]));
    }

    #[test]
    fn names_stay_inside_and_hidden_files_stay_outside() {
        let directory = tempfile::tempdir().unwrap();
        let disk = SystemDisk::open(directory.path()).unwrap();
        for name in ["", ".lock", "../x", "a/b"] {
            assert_eq!(disk.read(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        disk.create("b").unwrap();
        disk.create("a").unwrap();
        disk.rename("b", "c").unwrap();
        disk.sync_directory().unwrap();
        assert_eq!(disk.list().unwrap(), ["a", "c"]);
        disk.remove("a").unwrap();
        assert_eq!(disk.list().unwrap(), ["c"]);
    }

    #[test]
    fn one_holder_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let first = SystemDisk::open(directory.path()).unwrap();
        let error = SystemDisk::open(directory.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        SystemDisk::open(directory.path()).unwrap();
    }
}
