//! The bindings that are being written: many at a time, and one for each Subscription, which is not decided again before
//! its answer is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::apps;
use kubeio::{Client, Error, ObjectKey, Patch};
use machinery::meta;
use placement::queue::Item;
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::asking::Cycle;
use crate::conditions;
use crate::metrics::Ended;
use crate::view::Kept;

/// How many are written at once: what decides next sees their answers, and no server is flooded.
const AT_ONCE: usize = 32;

/// How often the conditions are written when others write at the same time.
const CONFLICTS: usize = 4;

/// What is written.
#[derive(Debug)]
pub(crate) struct Write {
    /// The binding; `None` if it is there already.
    pub(crate) binding: Option<Bind>,
    /// The conditions that have to be there then.
    pub(crate) conditions: Vec<Value>,
}

/// A binding to write.
#[derive(Debug)]
pub(crate) struct Bind {
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
    /// How the decision ends if it was written; `None` if it has ended.
    pub(crate) result: Option<Ended>,
    pub(crate) took: Duration,
    /// The Subscription as it is now, as far as that is known.
    pub(crate) answer: Result<Option<Value>, Error>,
    /// Why the conditions are not there, though the binding is.
    pub(crate) untold: Option<Error>,
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
    pub(crate) fn start(&mut self, cycle: Cycle, kept: Arc<Kept>, write: Write, result: Option<Ended>) {
        self.busy.insert(cycle.item.key.clone(), None);
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let begin = Instant::now();
            let sent = send(&client, &cycle.item.key, &kept, &write).await;
            let (answer, untold) = match sent {
                Ok((newest, untold)) => (Ok(newest), untold),
                Err(error) => (Err(error), None),
            };
            Written {
                cycle,
                kept,
                write,
                result,
                took: begin.elapsed(),
                answer,
                untold,
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

/// Writes the binding, and then the conditions. The answer is the newest state that was seen, and why the conditions are
/// not there if they are not; the error is the binding's.
async fn send(
    client: &Client,
    key: &ObjectKey,
    kept: &Kept,
    write: &Write,
) -> Result<(Option<Value>, Option<Error>), Error> {
    let mut newest = match &write.binding {
        Some(binding) => Some(bind(client, key, kept, &binding.patch, &write.conditions).await?),
        None => None,
    };
    let mut untold = None;
    if !write.conditions.is_empty() {
        untold = tell(client, key, &kept.uid, &mut newest, &write.conditions)
            .await
            .err();
    }
    Ok((newest, untold))
}

/// Writes a merge patch. The first status of all goes as a JSON patch, with its conditions: to merge many clusters into
/// nothing takes a server of Kubernetes an eighth of its time for the whole request. It counts only if there still is
/// none.
async fn bind(
    client: &Client,
    key: &ObjectKey,
    kept: &Kept,
    patch: &Value,
    conditions: &[Value],
) -> Result<Value, Error> {
    if let Some(revision) = &kept.bare {
        let mut status = patch["status"].clone();
        if !conditions.is_empty() {
            status["conditions"] = conditions.into();
        }
        let first = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": revision},
            {"op": "add", "path": "/status", "value": status},
        ]);
        match patch_status(client, key, Patch::Json, &first).await {
            Err(error) if error.is_invalid() || error.is_conflict() => {}
            done => return done,
        }
    }
    patch_status(client, key, Patch::Merge, patch).await
}

/// Brings the conditions of ours among those of others, if they are not there yet, and keeps the newest state that was
/// seen. Of a Subscription that is gone there is nothing to tell.
async fn tell(
    client: &Client,
    key: &ObjectKey,
    uid: &str,
    newest: &mut Option<Value>,
    wanted: &[Value],
) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        if attempts > 0 || newest.is_none() {
            let read = client
                .get_opt(&apps::SUBSCRIPTIONS, key.namespace(), &key.name)
                .await?;
            match read.filter(|read| meta::uid(read) == uid) {
                Some(read) => *newest = Some(read),
                None => return Ok(()),
            }
        }
        let Some(patch) = newest
            .as_ref()
            .and_then(|newest| conditions::patch(newest, wanted))
        else {
            return Ok(());
        };
        attempts += 1;
        match patch_status(client, key, Patch::Merge, &patch).await {
            Ok(answer) => {
                *newest = Some(answer);
                return Ok(());
            }
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() && attempts < CONFLICTS => {}
            Err(error) => return Err(error),
        }
    }
}

async fn patch_status(client: &Client, key: &ObjectKey, kind: Patch, body: &Value) -> Result<Value, Error> {
    let resource = &apps::SUBSCRIPTIONS;
    client
        .patch(resource, key.namespace(), &key.name, Some("status"), kind, body)
        .await
}
