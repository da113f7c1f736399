//! Following one resource on demand: nothing runs in between, but whoever asks sees every change that was visible
//! when it asked. Falls back to a list when the source has forgotten where it was.

use std::sync::Arc;

use futures::FutureExt as _;
use source::{
    Error, EventKind, Key, ListRequest, Object, ObjectSource, Resource, Revision, Watch, WatchRequest,
};

/// What a follower learns.
pub(crate) enum News<'a> {
    /// These are all objects that there are: one step, so that no reader sees half of them.
    All(&'a [Arc<Object>]),
    /// An object is there, or has a new version.
    Put(&'a Arc<Object>),
    /// An object is gone.
    Gone(&'a Key),
}

/// A place in one resource's history.
pub(crate) struct Follow {
    resource: Resource,
    watch: Option<Box<dyn Watch>>,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

impl Follow {
    pub(crate) fn new(resource: Resource) -> Self {
        Self {
            resource,
            watch: None,
        }
    }

    /// Takes in everything up to now, without waiting for more.
    pub(crate) async fn catch_up(
        &mut self,
        source: &dyn ObjectSource,
        learn: &mut (dyn FnMut(News<'_>) + Send),
    ) -> Result<(), Error> {
        // One fresh start is enough unless the source forgets faster than we list; then the next call goes on.
        for _ in 0..3 {
            match self.drain(learn) {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Error::Expired { .. } | Error::Future { .. }) => {}
                Err(error) => {
                    self.watch = None;
                    return Err(error);
                }
            }
            self.watch = None;
            let revision = list(&self.resource, source, learn).await?;
            let request = WatchRequest {
                resource: &self.resource,
                namespace: None,
                after: revision,
            };
            self.watch = match source.watch(&request).await {
                Ok(watch) => Some(watch),
                Err(Error::Expired { .. }) => None,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// False if there is no watch to drain.
    fn drain(&mut self, learn: &mut (dyn FnMut(News<'_>) + Send)) -> Result<bool, Error> {
        let Some(watch) = &mut self.watch else {
            return Ok(false);
        };
        // `unconstrained`, because tokio's budget would make a ready watch look as if it had nothing.
        while let Some(events) = tokio::task::unconstrained(watch.next()).now_or_never() {
            for event in events? {
                match event.kind {
                    EventKind::Added | EventKind::Modified => learn(News::Put(&event.object)),
                    EventKind::Deleted => learn(News::Gone(&event.object.key)),
                }
            }
        }
        Ok(true)
    }
}

async fn list(
    resource: &Resource,
    source: &dyn ObjectSource,
    learn: &mut (dyn FnMut(News<'_>) + Send),
) -> Result<Revision, Error> {
    let request = ListRequest {
        resource,
        namespace: None,
        filter: &|_| true,
        at: None,
        after: None,
        limit: 0,
    };
    let page = source.list(&request).await?;
    learn(News::All(&page.objects));
    Ok(page.revision)
}
