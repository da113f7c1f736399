//! Waiting until every Subscription is bound: one watch, of which each line is looked through for two words, so that
//! waiting costs next to nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use memchr::memmem;

use super::data::{MATCHED, SUBSCRIPTIONS, subscriptions};
use crate::client::{Client, Target};

/// No scheduler takes so long.
const LIMIT: Duration = Duration::from_secs(600);

/// A watch of all Subscriptions.
pub(super) struct Watch {
    client: Client,
    body: Incoming,
    /// The begin of a line whose end is not there yet.
    rest: Vec<u8>,
    bound: BTreeSet<Vec<u8>>,
}

/// Watches, beginning with what is there.
async fn watch(client: &mut Client) -> anyhow::Result<Incoming> {
    let path = format!("{}?watch=1&resourceVersion=0&timeoutSeconds=900", subscriptions());
    let response = client
        .send(Method::GET, &path, "application/json", Bytes::new())
        .await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    Ok(response.into_body())
}

impl Watch {
    pub(super) async fn start(target: &Target) -> anyhow::Result<Self> {
        let mut client = target.connect().await?;
        Ok(Self {
            body: watch(&mut client).await?,
            client,
            rest: Vec::new(),
            bound: BTreeSet::new(),
        })
    }

    /// Waits until every Subscription is bound to all clusters that it matches.
    pub(super) async fn wait(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        let whole = format!("\"desiredReleases\":{MATCHED}");
        let whole = memmem::Finder::new(&whole);
        while self.bound.len() < SUBSCRIPTIONS {
            let left = LIMIT.saturating_sub(begin.elapsed());
            let Ok(frame) = tokio::time::timeout(left, self.body.frame()).await else {
                bail!(
                    "only {} Subscriptions are bound after {LIMIT:?}",
                    self.bound.len()
                );
            };
            let Some(frame) = frame.transpose()? else {
                // A server ends watches as it likes, such as when a definition is not what it was.
                self.rest.clear();
                self.body = watch(&mut self.client).await?;
                continue;
            };
            let Some(data) = frame.data_ref() else {
                continue;
            };
            let mut lines = data.split_inclusive(|byte| *byte == b'\n');
            for part in &mut lines {
                self.rest.extend_from_slice(part);
                if !part.ends_with(b"\n") {
                    continue;
                }
                if whole.find(&self.rest).is_some() {
                    self.bound.insert(name(&self.rest)?.to_vec());
                }
                self.rest.clear();
            }
        }
        Ok(())
    }
}

/// The Subscription that a line is about.
fn name(line: &[u8]) -> anyhow::Result<&[u8]> {
    let mark = b"\"name\":\"app-";
    let begin = memmem::find(line, mark).context("a line without a name")? + mark.len();
    Ok(&line[begin..begin + 4])
}
