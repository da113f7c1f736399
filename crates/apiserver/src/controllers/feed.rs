//! What happens to objects, as a stream of notices: a list first, then every change, a list again when the source has
//! forgotten where the feed was.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use source::{Error, EventKind, ListRequest, Object, ObjectSource, Resource, WatchRequest};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::work::Controller;
use crate::server::ApiServer;

/// What a controller learns.
#[derive(Debug)]
pub(super) enum Notice {
    /// Everything known of a resource is void: its objects follow.
    Reset(Resource),
    /// An object is there, or has a new version.
    Put(Arc<Object>),
    /// All objects of a resource were shown: the changes follow.
    Synced,
    /// An object is gone; this was its last version.
    Gone(Arc<Object>),
}

/// A controller as its feeds know it: shown every notice, it has put in its queue only what it wants to look at.
pub(super) struct Observer<C: Controller> {
    controller: Arc<C>,
    wanted: mpsc::Sender<C::Key>,
}

impl<C: Controller> Clone for Observer<C> {
    fn clone(&self) -> Self {
        Self::new(self.controller.clone(), self.wanted.clone())
    }
}

impl<C: Controller> Observer<C> {
    pub(super) fn new(controller: Arc<C>, wanted: mpsc::Sender<C::Key>) -> Self {
        Self { controller, wanted }
    }

    /// Whether somebody still listens.
    async fn show(&self, notice: &Notice) -> bool {
        let mut wanted = Vec::new();
        self.controller.observe(notice, &mut wanted);
        for key in wanted {
            if self.wanted.send(key).await.is_err() {
                return false;
            }
        }
        !self.wanted.is_closed()
    }
}

const RETRY: Duration = Duration::from_secs(1);

/// Shows one resource until the controller's queue or the source is gone.
pub(super) async fn feed<C: Controller>(
    source: Arc<dyn ObjectSource>,
    resource: Resource,
    observer: Observer<C>,
    shutdown: CancellationToken,
) {
    loop {
        let ended = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            ended = follow(source.as_ref(), &resource, &observer) => ended,
        };
        match ended {
            Ok(()) | Err(Error::Closed(_)) => return,
            Err(Error::Expired { .. } | Error::Future { .. }) => {}
            Err(error) => {
                tracing::warn!(%resource, %error, "a resource cannot be watched");
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
        }
    }
}

/// `Ok` once nobody listens.
async fn follow<C: Controller>(
    source: &dyn ObjectSource,
    resource: &Resource,
    observer: &Observer<C>,
) -> Result<(), Error> {
    let request = ListRequest {
        resource,
        namespace: None,
        filter: &|_| true,
        at: None,
        after: None,
        limit: 0,
    };
    let page = source.list(&request).await?;
    let after = page.revision;
    let shown = page.objects.into_iter().map(Notice::Put);
    let first = std::iter::once(Notice::Reset(resource.clone()));
    let last = std::iter::once(Notice::Synced);
    for notice in first.chain(shown).chain(last) {
        if !observer.show(&notice).await {
            return Ok(());
        }
    }
    let request = WatchRequest {
        resource,
        namespace: None,
        after,
    };
    let mut watch = source.watch(&request).await?;
    loop {
        for event in watch.next().await? {
            let notice = match event.kind {
                EventKind::Added | EventKind::Modified => Notice::Put(event.object.clone()),
                EventKind::Deleted => Notice::Gone(event.object.clone()),
            };
            if !observer.show(&notice).await {
                return Ok(());
            }
        }
    }
}

/// How often custom resources are looked for that came or went.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Shows every resource that the server stores, custom ones as they come and go.
pub(super) async fn feed_all<C: Controller>(
    server: Weak<ApiServer>,
    observer: Observer<C>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
) {
    let mut running: BTreeMap<Resource, CancellationToken> = BTreeMap::new();
    let mut last = None;
    loop {
        let Some(server) = server.upgrade() else { return };
        let snapshot = server.registry.snapshot();
        if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &snapshot)) {
            let mut wanted = BTreeMap::new();
            for served in snapshot.all() {
                if served.allows("list") && served.allows("watch") {
                    wanted.insert(served.storage.clone(), ());
                }
            }
            running.retain(|resource, end| {
                let stays = wanted.contains_key(resource);
                if !stays {
                    end.cancel();
                }
                stays
            });
            for resource in wanted.into_keys() {
                running.entry(resource).or_insert_with_key(|resource| {
                    let end = shutdown.child_token();
                    let source = server.source().clone();
                    tasks.spawn(feed(source, resource.clone(), observer.clone(), end.clone()));
                    end
                });
            }
            last = Some(snapshot);
        }
        drop(server);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}
