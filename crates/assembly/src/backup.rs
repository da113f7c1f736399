//! Backups of a hub: made by the hub that runs, or of its folder at rest, and the folder that one becomes again.
//!
//! A backup holds what makes a hub this hub to its agents: all objects at one revision, and its keys. It does not hold
//! the simulated members of `up`, which are clusters of their own.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::annotations::HOLD_ORPHANS;
use api::clusters::{MANAGED_CLUSTERS, REGISTRATION_REQUESTS};
use apiserver::pki::Pki;
use apiserver::{Body, BoxError, UserInfo};
use bytes::{Bytes, BytesMut};
use clock::Env;
use clock::disk::{Disk, SystemDisk};
use futures::TryStreamExt as _;
use http::{Response, StatusCode};
use kubeio::{Client, ListOptions, Patch};
use machinery::meta;
use serde_json::json;
use store::archive::{Archive, ArchiveError, Contents, unpack};
use store::{Copied, Mode, OpenError, Options, Store};
use tempfile::NamedTempFile;
use tokio::sync::mpsc;

use crate::plane::{KEYS, OBJECTS, Plane, serve_source};
use crate::{DataDir, Error, data_dir};

/// Where a hub that runs hands out its backup. It holds keys: only whoever may `get` this path is answered, which no
/// role but `cluster-admin` says.
pub const BACKUP_PATH: &str = "/tombolo/backup";

/// How much is sent at once, and how many such pieces wait for a slow reader.
const PIECE: usize = 64 << 10;
const PIECES: usize = 8;

/// What a hub cannot be without.
const NEEDED: [&str; 3] = ["ca.key", "ca.crt", "sa.key"];

/// Where a backup is taken from.
#[derive(Debug)]
pub enum Origin {
    /// A hub that runs.
    Running(Client),
    /// The folder of one that does not.
    AtRest(DataDir),
}

impl Origin {
    /// The folder of a hub if nobody uses it; `None` if its hub runs and has to be asked.
    ///
    /// # Errors
    /// [`Error::NoHub`] if no hub ever was there, [`Error::Folder`] if the folder cannot be used.
    pub fn at_rest(root: &Path) -> Result<Option<Self>, Error> {
        if !root.join(OBJECTS).is_dir() {
            return Err(Error::NoHub {
                path: root.to_owned(),
            });
        }
        match DataDir::lock(root) {
            Ok(folder) => Ok(Some(Self::AtRest(folder))),
            Err(Error::Locked { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// It stays, and there is no backup.
    Keep,
    /// The backup takes its place once it is whole.
    Replace,
}

/// Lets a control plane that runs hand out backups of itself.
pub(crate) fn serve(plane: &Plane) {
    // Whoever answers requests may outlive the control plane, which has its folder for itself.
    let (keys, store) = (Arc::downgrade(&plane.keys), plane.store.clone());
    let answer = move || {
        let Some(keys) = keys.upgrade() else {
            let mut response = Response::new(Body::from("the hub is shutting down\n"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return response;
        };
        let (sender, mut receiver) = mpsc::channel(PIECES);
        let store = store.clone();
        tokio::task::spawn_blocking(move || {
            let out = Pieces {
                sender: sender.clone(),
                piece: BytesMut::new(),
            };
            if let Err(error) = write(out, keys.as_ref(), |disk| store.backup(disk)) {
                tracing::warn!(%error, "a backup was not finished");
                // Nobody may be there to be told.
                sender.blocking_send(Err(error)).ok();
            }
        });
        Response::new(Body::from_stream(futures::stream::poll_fn(move |context| {
            receiver.poll_recv(context)
        })))
    };
    plane.server.add_path(BACKUP_PATH, Arc::new(answer));
}

/// An answer under way.
struct Pieces {
    sender: mpsc::Sender<Result<Bytes, BoxError>>,
    piece: BytesMut,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = self.piece.split().freeze();
        self.sender
            .blocking_send(Ok(piece))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

fn write(
    out: impl Write + Send + 'static,
    keys: &dyn Disk,
    objects: impl FnOnce(&dyn Disk) -> Result<Copied, OpenError>,
) -> Result<(), BoxError> {
    let archive = Archive::begin(out)?;
    let folder = archive.folder(KEYS)?;
    let is_kept = |name: &String| name.ends_with(".key") || name.ends_with(".crt");
    for name in keys.list()?.into_iter().filter(is_kept) {
        folder.create(&name)?.write_at(0, &keys.read(&name)?)?;
    }
    let copied = objects(&archive.folder(OBJECTS)?)?;
    archive.end(copied)?;
    Ok(())
}

/// Writes a backup to a file that only its owner can read: whole, checked and durable, or not at all. `progress` hears
/// how many bytes there are.
///
/// # Errors
/// [`Error::Exists`] if there is such a file, [`Error::File`] if it cannot be written, [`Error::Client`] of the hub,
/// [`Error::Archive`] for a backup that was cut off on its way.
pub async fn backup(
    origin: Origin,
    path: &Path,
    earlier: Earlier,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Contents, Error> {
    let failed = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let exists = || Error::Exists {
        path: path.to_owned(),
    };
    if earlier == Earlier::Keep && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let home = match path.parent() {
        Some(home) if !home.as_os_str().is_empty() => home,
        _ => Path::new("."),
    };
    let mut file = NamedTempFile::new_in(home).map_err(failed)?;
    match origin {
        Origin::Running(client) => {
            let mut pieces = client.download(BACKUP_PATH).await?;
            let mut bytes = 0;
            while let Some(piece) = pieces.try_next().await? {
                file.write_all(&piece).map_err(failed)?;
                bytes += piece.len() as u64;
                progress(bytes);
            }
        }
        Origin::AtRest(folder) => {
            let open = |part| SystemDisk::open(&folder.root().join(part)).map_err(failed);
            let (keys, objects) = (open(KEYS)?, open(OBJECTS)?);
            let out = io::BufWriter::new(file.reopen().map_err(failed)?);
            write(out, &keys, |disk| Store::backup_closed(&objects, disk))
                .map_err(|error| failed(io::Error::other(error)))?;
        }
    }
    file.as_file().sync_all().map_err(failed)?;
    let contents = check(file.as_file_mut(), path)?;
    progress(contents.bytes);
    match earlier {
        Earlier::Keep => file.persist_noclobber(path).map_err(|error| {
            if error.error.kind() == io::ErrorKind::AlreadyExists {
                exists()
            } else {
                failed(error.error)
            }
        })?,
        Earlier::Replace => file.persist(path).map_err(|error| failed(error.error))?,
    };
    data_dir::sync(home).map_err(failed)?;
    Ok(contents)
}

/// Whether a file is a whole backup.
fn check(file: &mut File, path: &Path) -> Result<Contents, Error> {
    file.rewind().map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    unpack(&mut io::BufReader::new(file), &mut |_| Ok(None)).map_err(|source| Error::Archive {
        path: path.to_owned(),
        source,
    })
}

/// What a restore made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// What the backup held.
    pub contents: Contents,
    /// How many clusters keep what the backup does not know, until somebody says otherwise.
    pub clusters: usize,
}

/// Makes the data folder of a hub of a backup. All of it is read and checked in a folder beside it, which then gets its
/// name. The hub begins a new incarnation, and its clusters keep what it does not know ([`HOLD_ORPHANS`]).
///
/// # Errors
/// [`Error::NotEmpty`] if something is in the folder, [`Error::Archive`] and [`Error::Incomplete`] for what is no whole
/// backup of a hub, and what the parts of a hub say that cannot be opened.
pub async fn restore(path: &Path, root: &Path, env: &Env) -> Result<Restored, Error> {
    let unusable = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    refuse_what_is_there(root)?;
    check(&mut File::open(path).map_err(unusable)?, path)?;
    let beside = beside(root)?;
    let folder = DataDir::lock(&beside)?;
    let failed = |source| Error::Folder {
        path: root.to_owned(),
        source,
    };
    for part in [KEYS, OBJECTS] {
        // Of a restore that was interrupted.
        match std::fs::remove_dir_all(beside.join(part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    let filled = fill(path, &beside, env).await.and_then(|filled| {
        refuse_what_is_there(root)?;
        std::fs::rename(&beside, root)
            .and_then(|()| data_dir::sync(root.parent().unwrap_or(Path::new(""))))
            .map_err(failed)?;
        Ok(filled)
    });
    if filled.is_err() {
        // It holds keys. What failed is told, and not what comes of this.
        std::fs::remove_dir_all(&beside).ok();
    }
    drop(folder);
    let (contents, clusters) = filled?;
    Ok(Restored { contents, clusters })
}

/// Puts what a backup holds into a folder, and opens it once.
async fn fill(path: &Path, folder: &Path, env: &Env) -> Result<(Contents, usize), Error> {
    let mut disks: Vec<(String, Arc<SystemDisk>)> = Vec::new();
    let mut file = io::BufReader::new(File::open(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?);
    let contents = unpack(&mut file, &mut |name| {
        if ![KEYS, OBJECTS].contains(&name) {
            return Err(io::Error::other(format!("{name:?} in it is of a newer program")));
        }
        let disk = Arc::new(SystemDisk::open(&folder.join(name))?);
        disks.push((name.to_owned(), disk.clone()));
        Ok(Some(disk))
    })
    .map_err(|source| {
        if let ArchiveError::Unpacked(source) = source {
            let path = folder.to_owned();
            return Error::Folder { path, source };
        }
        let path = path.to_owned();
        Error::Archive { path, source }
    })?;
    let incomplete = |missing: &str| Error::Incomplete {
        path: path.to_owned(),
        missing: missing.to_owned(),
    };
    let mut take = |name: &str| {
        let place = disks.iter().position(|(found, _)| found == name);
        place
            .map(|place| disks.swap_remove(place).1)
            .ok_or_else(|| incomplete(name))
    };
    let (keys, objects) = (take(KEYS)?, take(OBJECTS)?);
    let found = keys.list().map_err(|source| Error::Folder {
        path: folder.join(KEYS),
        source,
    })?;
    if let Some(missing) = NEEDED.iter().find(|name| !found.iter().any(|it| it == *name)) {
        return Err(incomplete(missing));
    }
    let pki = Pki::load_or_create(keys.as_ref(), &[], env)?;
    let options = Options {
        new_incarnation: true,
        ..Options::new(env.clone())
    };
    let store = Store::open(objects, options, Mode::Inline).map_err(|source| Error::Store {
        path: folder.join(OBJECTS),
        source,
    })?;
    let held = hold(&store, &pki, env).await;
    store.close().await;
    Ok((contents, held?))
}

/// Marks all clusters: what they have and this hub does not know may be younger than the backup.
async fn hold(store: &Arc<Store>, pki: &Pki, env: &Env) -> Result<usize, Error> {
    let server = serve_source(store, pki, env, None).await?;
    let client = Client::from_service(server.client_service(UserInfo::loopback()));
    let why = format!(
        "restored from a backup at {}",
        machinery::conditions::time(env.now())
    );
    let mark = json!({"metadata": {"annotations": {HOLD_ORPHANS: why}}});
    let mut clusters = 0;
    for resource in [&MANAGED_CLUSTERS, &REGISTRATION_REQUESTS] {
        let listed = client.list_all(resource, None, &ListOptions::default()).await;
        let objects = match listed {
            Ok(listed) => listed.items,
            // Of a hub that was never prepared.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        for object in objects {
            let namespace = Some(meta::namespace(&object)).filter(|namespace| !namespace.is_empty());
            client
                .patch(
                    resource,
                    namespace,
                    meta::name(&object),
                    None,
                    Patch::Merge,
                    &mark,
                )
                .await
                .map_err(|source| Error::Object {
                    object: format!("the mark of {} {:?}", resource.kind, meta::name(&object)),
                    source,
                })?;
            clusters += usize::from(*resource == MANAGED_CLUSTERS);
        }
    }
    Ok(clusters)
}

fn refuse_what_is_there(root: &Path) -> Result<(), Error> {
    let failed = |source| Error::Folder {
        path: root.to_owned(),
        source,
    };
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;
    names.sort();
    if names.is_empty() {
        return Ok(());
    }
    Err(Error::NotEmpty {
        path: root.to_owned(),
        names: names.join(", "),
    })
}

/// The folder in which the one that is wanted is made.
fn beside(root: &Path) -> Result<PathBuf, Error> {
    let name = root.file_name().ok_or_else(|| Error::Folder {
        path: root.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "it has no name of its own"),
    })?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(".restoring");
    Ok(root.with_file_name(beside))
}

#[cfg(test)]
mod tests {
    use source::Revision;

    use super::*;

    #[tokio::test]
    async fn what_is_no_hub_leaves_no_keys_behind() {
        let copied = Copied {
            revision: Revision(7),
            objects: 0,
        };
        for (parts, part) in [
            (&[KEYS, OBJECTS][..], "ca.key"),
            (&[KEYS], OBJECTS),
            (&[KEYS, "later"], "later"),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (file, root) = (folder.path().join("file"), folder.path().join("hub"));
            let archive = Archive::begin(File::create(&file).expect("a file")).expect("it is written");
            for part in parts {
                let disk = archive.folder(part).expect("it is written");
                disk.create("sa.key").expect("it is written");
            }
            archive.end(copied).expect("it is written");
            let error = restore(&file, &root, &Env::system())
                .await
                .expect_err("it is no hub");
            let told = runtime::Chain(&error).to_string();
            assert!(told.contains(part), "{told}");
            let left = std::fs::read_dir(folder.path()).expect("it is there").count();
            assert_eq!(left, 1, "nothing but the file: {told}");
        }
    }
}
