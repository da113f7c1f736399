//! Edits that are made together: a second scenario, of case D12. Nothing goes wrong in it but the death of one agent.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{annotations, apps, kubernetes, labels};
use clock::SplitMix;
use kubeio::{Error, ListOptions, Patch};
use machinery::meta;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::SimConfig;
use super::door::Moment;
use super::fleet::Fleet;
use super::scenario::{NAME, NAMESPACE, Run, Shape, namespace, said, shadow, subscription, templates};
use super::trace::Trace;

/// Between two looks at what the members run.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a change takes at most until it is everywhere.
const LIMIT: Duration = Duration::from_secs(60);
/// How long it has to stay as it is then.
const STEADY: Duration = Duration::from_secs(2);
/// Between two edits that are meant together.
const APART: Duration = Duration::from_millis(10);
/// How often the set of feeds changes.
const ROUNDS: usize = 200;

/// Lives one run.
///
/// # Errors
/// What was violated.
pub(crate) async fn live(config: &SimConfig, trace: &Trace) -> Result<(), String> {
    let fleet = Fleet::start(config.seed, config.clusters, trace)
        .await
        .map_err(|error| format!("the fleet does not start: {}", runtime::Chain(&*error)))?;
    let mut roles = JoinSet::new();
    fleet.run_roles(config.seed, &mut roles);
    let run = Run::of(config, fleet, trace);
    for object in templates(10) {
        run.create(&shadow(&object), namespace(&object), &object).await?;
    }
    let mut wanted = subscription(Shape::Divided { floor: None }, [1, 1]);
    wanted["spec"]["subscribers"] = subscribers(1);
    run.create(&apps::SUBSCRIPTIONS, Some("default"), &wanted).await?;
    // The clusters come one by one, so this is no matter of one edit.
    run.await_split([5, 5]).await?;
    let pods = run.pods(0).await.map_err(told)?;
    for template_first in [true, false] {
        for (total, weight, split) in [(5, 0, [5, 0]), (10, 1, [5, 5])] {
            run.edit(total, weight, template_first).await.map_err(told)?;
            run.await_split(split).await?;
            if run.pods(0).await.map_err(told)? != pods {
                return Err(format!(
                    "on the way to {split:?} pods of the first cluster were replaced"
                ));
            }
        }
    }
    run.flicker(config.seed).await
}

fn told(error: Error) -> String {
    said(&error)
}

/// The first member with the weight 1, the second with this one.
fn subscribers(second: u32) -> Value {
    let one = |(member, weight): (u32, u32)| {
        let name = format!("member-{member}");
        json!({"clusterAffinity": {"matchLabels": {labels::CLUSTER_NAME: name}}, "weight": weight})
    };
    json!([one((1, 1)), one((2, second))])
}

impl Run<'_> {
    /// Edits the total and the second weight, one shortly after the other.
    async fn edit(&self, total: u32, second: u32, template_first: bool) -> Result<(), Error> {
        let deployment = &templates(0)[2];
        let template = async {
            let patch = json!({"spec": {"replicas": total}});
            let place = (&shadow(deployment), namespace(deployment));
            let written = self
                .admin
                .patch(place.0, place.1, NAME, None, Patch::Merge, &patch)
                .await;
            written.map(drop)
        };
        let weights = self.subscribe(json!({"spec": {"subscribers": subscribers(second)}}));
        if template_first {
            template.await?;
            tokio::time::sleep(APART).await;
            weights.await
        } else {
            weights.await?;
            tokio::time::sleep(APART).await;
            template.await
        }
    }

    async fn subscribe(&self, patch: Value) -> Result<(), Error> {
        let written = self
            .admin
            .patch(
                &apps::SUBSCRIPTIONS,
                Some("default"),
                NAME,
                None,
                Patch::Merge,
                &patch,
            )
            .await;
        written.map(drop)
    }

    /// Waits until the first two members are to have so many replicas, and have them. The first has five all the time,
    /// once it has them.
    async fn await_split(&self, split: [u64; 2]) -> Result<(), String> {
        let begin = tokio::time::Instant::now();
        let mut since = None;
        let mut has_had = false;
        loop {
            let mut seen = [None; 2];
            for (member, seen) in seen.iter_mut().enumerate() {
                let client = self.fleet.members[member].cluster.administrator();
                let live = client
                    .get_opt(&kubernetes::DEPLOYMENTS, Some(NAMESPACE), NAME)
                    .await;
                *seen = live.map_err(told)?.and_then(|it| it["spec"]["replicas"].as_u64());
            }
            has_had |= seen[0] == Some(5);
            if has_had && seen[0] != Some(5) {
                return Err(format!("on the way to {split:?} the members are to run {seen:?}"));
            }
            let here = seen == split.map(Some);
            let now = tokio::time::Instant::now();
            since = since.filter(|_| here).or(here.then_some(now));
            if since.is_some_and(|since| now - since >= STEADY) {
                self.trace.line("-", &format!("the members run {split:?}"));
                return Ok(());
            }
            if now - begin > LIMIT {
                return Err(format!("the members are never to run {split:?}, but {seen:?}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The uids of a member's pods.
    async fn pods(&self, member: usize) -> Result<BTreeSet<String>, Error> {
        let client = self.fleet.members[member].cluster.administrator();
        let pods = client
            .list_all(&kubernetes::PODS, Some(NAMESPACE), &ListOptions::default())
            .await?;
        Ok(pods.items.iter().map(|pod| meta::uid(pod).to_owned()).collect())
    }

    /// A feed comes and goes again and again; the last edit is what counts.
    async fn flicker(&self, seed: u64) -> Result<(), String> {
        let mut random = SplitMix::named(seed, "flicker");
        let mut pause = move || Duration::from_millis(random.below(101) as u64);
        let feeds = subscription(Shape::Divided { floor: None }, [1, 1])["spec"]["feeds"].clone();
        let mut fewer = feeds.clone();
        if let Some(fewer) = fewer.as_array_mut() {
            fewer.retain(|feed| feed["kind"] != "Service");
        }
        let agents = self.fleet.roles.iter().filter(|role| role.name == "agent");
        let victim = agents.into_iter().find(|role| role.cluster == "member-1");
        for round in 0..ROUNDS {
            // Half of them with every edit on its own.
            let settle = (round >= ROUNDS / 2).then_some("0");
            let annotations = json!({"annotations": {annotations::SETTLE: settle}});
            let all = json!({"metadata": annotations, "spec": {"feeds": feeds}});
            self.subscribe(all).await.map_err(told)?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.subscribe(json!({"spec": {"feeds": fewer}}))
                .await
                .map_err(told)?;
            if let Some(victim) = victim.filter(|_| round == ROUNDS * 3 / 4) {
                victim.fuse.light(1, Moment::After);
            }
            tokio::time::sleep(pause()).await;
        }
        self.until("what was taken out of the feeds stays out", |run| {
            Box::pin(run.services_left())
        })
        .await?;
        self.quiet().await
    }

    async fn services_left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for member in &self.fleet.members[..2] {
            let client = member.cluster.administrator();
            let found = client.get_opt(&kubernetes::SERVICES, Some(NAMESPACE), NAME).await;
            match found {
                Ok(found) => {
                    left.extend(found.map(|_| format!("the Service remains in {}", member.cluster.name())));
                }
                Err(error) => left.push(said(&error)),
            }
        }
        left
    }
}
