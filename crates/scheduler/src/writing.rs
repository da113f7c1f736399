//! The bindings that are being written: many at a time, and one for each Subscription, which is not decided again before
//! its answer is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::apps;
use kubeio::{Client, Error, ObjectKey, Patch};
use placement::queue::Item;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::asking::Cycle;
use crate::metrics::Ended;
use crate::view::Kept;

/// How many are written at once: what decides next sees their answers, and no server is flooded.
const AT_ONCE: usize = 32;

/// What is written.
#[derive(Debug)]
pub(crate) struct Write {
    /// A merge patch of the status.
    pub(crate) patch: Value,
    /// To how many clusters it binds.
    pub(crate) count: usize,
    /// What an event says of it.
    pub(crate) note: String,
}

/// What came of a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) cycle: Cycle,
    /// What was decided about.
    pub(crate) kept: Arc<Kept>,
    pub(crate) write: Write,
    /// How the decision ends if it was written.
    pub(crate) result: Ended,
    pub(crate) took: Duration,
    /// The Subscription as it is now.
    pub(crate) answer: Result<Value, Error>,
    /// What came up meanwhile.
    pub(crate) postponed: Option<Item<ObjectKey>>,
}

/// The writes under way.
pub(crate) struct Writing {
    client: Client,
    tasks: JoinSet<Written>,
    /// The Subscriptions that are written, and whether they are to be decided again.
    busy: BTreeMap<ObjectKey, Option<Item<ObjectKey>>>,
}

impl Writing {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            tasks: JoinSet::new(),
            busy: BTreeMap::new(),
        }
    }

    /// Whether another may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.busy.len() < AT_ONCE
    }

    /// Holds an item back while its Subscription is written, or gives it back.
    pub(crate) fn postpone(&mut self, item: Item<ObjectKey>) -> Option<Item<ObjectKey>> {
        match self.busy.get_mut(&item.key) {
            Some(postponed) => {
                *postponed = Some(item);
                None
            }
            None => Some(item),
        }
    }

    /// Starts a write.
    pub(crate) fn start(&mut self, cycle: Cycle, kept: Arc<Kept>, write: Write, result: Ended) {
        self.busy.insert(cycle.item.key.clone(), None);
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let begin = Instant::now();
            let ObjectKey { namespace: _, name } = &cycle.item.key;
            let namespace = cycle.item.key.namespace();
            let resource = &apps::SUBSCRIPTIONS;
            let patch = &write.patch;
            let answer = client.patch(resource, namespace, name, Some("status"), Patch::Merge, patch);
            let answer = answer.await;
            Written {
                cycle,
                kept,
                write,
                result,
                took: begin.elapsed(),
                answer,
                postponed: None,
            }
        });
    }

    /// The next write that has ended; waits for ever while there is none.
    pub(crate) async fn next(&mut self) -> Written {
        loop {
            match self.tasks.join_next().await {
                Some(ended) => {
                    if let Some(written) = self.take(ended) {
                        return written;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// A write that has ended already.
    pub(crate) fn try_next(&mut self) -> Option<Written> {
        let ended = self.tasks.try_join_next()?;
        self.take(ended)
    }

    /// One that was cancelled has no answer; nobody does that but a runtime that ends.
    fn take(&mut self, ended: Result<Written, JoinError>) -> Option<Written> {
        match ended {
            Ok(mut written) => {
                written.postponed = self.busy.remove(&written.cycle.item.key).flatten();
                Some(written)
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => None,
            },
        }
    }
}
