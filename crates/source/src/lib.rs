//! The one contract behind hub, edge cache, pool leader and fleet search: objects that anything can list and
//! watch. [`ObjectSource`] is implemented by the log store (and later by mirrors and SQL); `apiserver` serves any
//! of them to any Kubernetes client. It knows nothing of HTTP, users or schemas.

pub mod conformance;
mod head;
mod object;
pub mod packed;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

pub use head::{Head, PackedHead};
pub use object::{Draft, Event, EventKind, Forms, Key, Object, Resource, Revision};

/// Objects with a revision: get, list at a revision, watch from a revision, write.
pub trait ObjectSource: Send + Sync + fmt::Debug {
    /// The newest revision that readers can see.
    fn revision(&self) -> Revision;

    /// The newest version of one object, `None` if there is none.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Arc<Object>>, Error>>;

    /// Objects of one resource in key order (namespace, then name).
    fn list<'a>(&'a self, request: &'a ListRequest<'a>) -> BoxFuture<'a, Result<Page, Error>>;

    /// Every change of one resource after a revision, in revision order, none left out.
    fn watch<'a>(&'a self, request: &'a WatchRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Watch>, Error>>;

    /// Applies one write. It is durable when the future is ready; the answer is the new version, or the last one
    /// of a deleted object (carrying the deletion's revision).
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Arc<Object>, Error>>;
}

/// What a list asks for.
pub struct ListRequest<'a> {
    /// Which resource.
    pub resource: &'a Resource,
    /// Only this namespace; `None` for all (and for cluster-scoped resources).
    pub namespace: Option<&'a str>,
    /// Objects that answer false are left out and do not count towards `limit`. It must not call the source.
    pub filter: &'a (dyn Fn(&Object) -> bool + Send + Sync),
    /// The state at exactly this revision; `None` for the newest.
    pub at: Option<Revision>,
    /// Only objects behind this (namespace, name): where the previous page ended.
    pub after: Option<(&'a str, &'a str)>,
    /// At most this many objects; 0 for all.
    pub limit: usize,
}

/// The answer to a list.
#[derive(Debug, Clone)]
pub struct Page {
    /// The objects, in key order.
    pub objects: Vec<Arc<Object>>,
    /// The revision whose state this is.
    pub revision: Revision,
    /// Whether objects are left behind the last one.
    pub more: bool,
    /// How many are left that the filter lets through, if that was cheap to know.
    pub remaining: Option<usize>,
}

/// What a watch asks for.
pub struct WatchRequest<'a> {
    /// Which resource.
    pub resource: &'a Resource,
    /// Only this namespace; `None` for all.
    pub namespace: Option<&'a str>,
    /// Events behind this revision.
    pub after: Revision,
}

/// A cursor into the shared ring of events. Events are not filtered by selectors.
pub trait Watch: Send {
    /// The next events, at least one and in order; waits for one.
    ///
    /// # Errors
    /// [`Error::Expired`] once the cursor has fallen off the ring; [`Error::Closed`] when the source shuts down.
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Event>>, Error>>;

    /// Up to which revision this watch has seen everything, for bookmarks.
    fn seen(&self) -> Revision;
}

/// One change, with the state that it expects.
#[derive(Debug)]
pub struct Write {
    /// Which object.
    pub key: Key,
    /// What must be there for the write to happen.
    pub expect: Expect,
    /// What to do.
    pub change: Change,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No object has this key.
    Absent,
    /// The object's newest version is of this revision.
    Revision(Revision),
    /// The object is there, in any version.
    Present,
    /// Anything.
    Any,
}

/// What a write does.
#[derive(Debug)]
pub enum Change {
    /// Stores this version.
    Put(Draft),
    /// Removes the object.
    Delete,
}

/// Why a source did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The key is taken (for [`Expect::Absent`]).
    #[error("{0} already exists")]
    AlreadyExists(Key),
    /// There is no such object.
    #[error("{0} not found")]
    NotFound(Key),
    /// The newest version is another one.
    #[error("{key} was changed: it is at revision {found}")]
    Conflict {
        /// Which object.
        key: Key,
        /// Its newest version.
        found: Revision,
    },
    /// The revision is older than what is kept, or of another incarnation: list again.
    #[error("revision {asked} is no longer kept, the oldest is {oldest}")]
    Expired {
        /// What was asked for.
        asked: Revision,
        /// The oldest that can be asked for.
        oldest: Revision,
    },
    /// The revision lies in the future.
    #[error("revision {asked} is not reached yet, the newest is {newest}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// The newest.
        newest: Revision,
    },
    /// There is no room for this write. Removals and small updates may still go through.
    #[error(
        "no space left on the store's disk: until there is some it takes only removals and small updates"
    )]
    Full,
    /// The object is larger than the source takes.
    #[error("{key} has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Which object.
        key: Key,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The source is shutting down, or its disk failed.
    #[error("the object store is closed: {0}")]
    Closed(String),
}
