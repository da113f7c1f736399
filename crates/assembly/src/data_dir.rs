//! The folder that holds an embedded control plane: its lock and what lies where.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use crate::Error;

/// Between two tries to rewrite a file.
const REWRITE_PERIOD: Duration = Duration::from_mins(1);

/// A data folder that nobody else uses while this value lives.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the folder if it is missing and takes its lock. Other files in it are left alone.
    ///
    /// # Errors
    /// [`Error::Locked`] names the holder; [`Error::Folder`] if the folder cannot be used.
    pub fn lock(root: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Folder {
            path: root.to_owned(),
            source,
        };
        make(root).map_err(failed)?;
        let path = root.join("lock");
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                lock.read_to_string(&mut holder).map_err(failed)?;
                return Err(Error::Locked {
                    path: root.to_owned(),
                    holder: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        lock.set_len(0).map_err(failed)?;
        lock.rewind().map_err(failed)?;
        writeln!(lock, "process {}", std::process::id()).map_err(failed)?;
        Ok(Self {
            root: root.to_owned(),
            _lock: lock,
        })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The folder of a member.
    pub fn member(&self, name: &str) -> PathBuf {
        self.root.join("members").join(name)
    }
}

/// Makes a folder that only its owner can look into.
pub(crate) fn make(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let temporary = path.with_extension("new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// Makes durable which names a folder holds.
pub(crate) fn sync(path: &Path) -> std::io::Result<()> {
    let is_here = path.as_os_str().is_empty();
    File::open(if is_here { Path::new(".") } else { path })?.sync_all()
}

/// Writes a private file anew whenever its text changes.
pub(crate) async fn rewrite_private(path: PathBuf, mut text: watch::Receiver<String>) {
    while text.changed().await.is_ok() {
        let now = text.borrow_and_update().clone();
        while let Err(error) = write_private(&path, &now) {
            tracing::error!(path = %path.display(), %error, "a file is not rewritten");
            tokio::time::sleep(REWRITE_PERIOD).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = DataDir::lock(folder.path()).expect("it is free");
        let error = DataDir::lock(folder.path()).expect_err("it is taken");
        assert!(
            error
                .to_string()
                .contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(first);
        DataDir::lock(folder.path()).expect("it is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_follows_its_text_also_after_it_could_not_be_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("later").join("kubeconfig");
        let (sender, text) = watch::channel("old".to_owned());
        let rewriting = tokio::spawn(rewrite_private(path.clone(), text));
        sender.send_replace("new".to_owned());
        tokio::time::sleep(REWRITE_PERIOD / 2).await;
        make(path.parent().expect("it has one")).expect("it can be made");
        tokio::time::sleep(REWRITE_PERIOD).await;
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "new");
        drop(sender);
        rewriting.await.expect("it ends with its text");
    }

    #[test]
    fn private_files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("kubeconfig");
        write_private(&path, "secret").expect("it can be written");
        let mode = std::fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
