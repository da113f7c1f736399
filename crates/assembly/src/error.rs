use std::io;
use std::path::PathBuf;

/// Why a fleet does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data folder cannot be used.
    #[error("the data folder {path:?} cannot be used")]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else uses the data folder.
    #[error(
        "the data folder {path:?} is in use by {holder}: stop that first, or name another with --data-dir"
    )]
    Locked {
        /// Which folder.
        path: PathBuf,
        /// Who holds its lock.
        holder: String,
    },
    /// A file cannot be used.
    #[error("the file {path:?} cannot be used")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file of a backup is there already.
    #[error("the file {path:?} is there already: name another, or replace it with --force")]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// A file is no whole backup.
    #[error("the backup {path:?} cannot be used")]
    Archive {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: store::archive::ArchiveError,
    },
    /// A backup is whole, but none of a hub.
    #[error("the backup {path:?} lacks {missing:?}: it is none of a hub")]
    Incomplete {
        /// Which file.
        path: PathBuf,
        /// What is not in it.
        missing: String,
    },
    /// A backup is not restored into a folder that is in use.
    #[error("{path:?} is not empty ({names}): name a folder that is not there yet with --data-dir")]
    NotEmpty {
        /// Which folder.
        path: PathBuf,
        /// What is in it.
        names: String,
    },
    /// There is no hub to make a backup of.
    #[error("there is no hub in {path:?}: name the data folder of a `tombolo up` with --data-dir")]
    NoHub {
        /// Which folder.
        path: PathBuf,
    },
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on; name another address with --listen")]
    Listen {
        /// Which address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The object store does not open.
    #[error("the object store in {path:?} does not open")]
    Store {
        /// Its folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: store::OpenError,
    },
    /// Keys and certificates cannot be had.
    #[error("keys and certificates cannot be had")]
    Pki(#[from] apiserver::pki::PkiError),
    /// The API server does not start.
    #[error("the API server does not start")]
    ApiServer(#[from] apiserver::server::Error),
    /// A client cannot be made.
    #[error("a client cannot be made")]
    Client(#[from] kubeio::Error),
    /// An object that the fleet needs cannot be made.
    #[error("{object} cannot be made")]
    Object {
        /// Which object.
        object: String,
        /// Why.
        #[source]
        source: kubeio::Error,
    },
    /// A part of the fleet failed.
    #[error(transparent)]
    Task(#[from] runtime::TaskError),
    /// Not everything was ready in time.
    #[error("not ready within {seconds} s: {missing}")]
    NotReady {
        /// How long was waited.
        seconds: u64,
        /// What is missing.
        missing: String,
    },
    /// What is printed cannot be written.
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
}
