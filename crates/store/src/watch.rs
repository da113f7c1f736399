//! A watch: a cursor into the window.

use std::sync::Arc;

use futures::future::BoxFuture;
use smol_str::SmolStr;
use source::{Error, Event, Resource, Revision, Watch};
use tokio::sync::Notify;

use crate::writer::Shared;

/// Events looked at under one lock.
const AT_ONCE: usize = 512;

/// A cursor: everything of a resource up to a revision is seen.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Resource,
    pub(crate) namespace: Option<SmolStr>,
    pub(crate) seen: Revision,
    pub(crate) changed: Arc<Notify>,
}

impl Cursor {
    /// What there is to see now; empty if nothing.
    fn take(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        loop {
            let state = self.shared.read();
            let before = self.seen;
            let seen = state.events(&self.resource, self.namespace.as_deref(), before, AT_ONCE)?;
            self.seen = seen.up_to.max(before);
            if !seen.events.is_empty() {
                return Ok(seen.events);
            }
            if self.seen >= state.revision() {
                return state.check_open().map(|()| Vec::new());
            }
        }
    }
}

impl Watch for Cursor {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Event>>, Error>> {
        Box::pin(async move {
            let changed = self.changed.clone();
            loop {
                // Made before looking, so that nothing that comes meanwhile is slept through.
                let notified = changed.notified();
                let events = self.take()?;
                if !events.is_empty() {
                    return Ok(events);
                }
                notified.await;
            }
        })
    }

    fn seen(&self) -> Revision {
        self.shared.read().seen(&self.resource, self.seen)
    }
}
