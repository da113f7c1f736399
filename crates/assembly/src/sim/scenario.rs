//! What happens in a run: a fleet comes up, an application is sent out, changed and taken back, while things go wrong.

use std::sync::Arc;
use std::time::Duration;

use api::{annotations, apps, clusters, kubernetes, labels, names};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::SplitMix;
use futures::FutureExt as _;
use kubeio::{Client, DeleteOptions, Error, ListOptions, Patch};
use machinery::{ApiResource, meta};
use runtime::{BoxError, CancellationToken};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::fault::{Fault, Planned, Span, plan};
use super::fleet::{Fleet, MEMBERS};
use super::trace::Trace;
use super::{SimConfig, is_sign_of_life};
use crate::fleet as overview;

/// How long everything may take to come right once nothing goes wrong any more.
const CONVERGENCE: Duration = Duration::from_secs(300);
/// How long it takes until every part has noticed everything: longer than a watch waits before it tries again.
const SETTLED: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long nothing may be written once everything is right.
const QUIET: Duration = Duration::from_secs(45);

/// How long a member is away at least for the parent to know it.
const AWAY: Duration = Duration::from_secs(45);

/// How many events may be told then.
const FEW_EVENTS: usize = 6;

/// The sample application: the same shape as `examples/nginx`.
pub(super) const NAMESPACE: &str = "web";
pub(super) const NAME: &str = "nginx";

/// Lives one run.
///
/// # Errors
/// What was violated.
pub(crate) async fn live(config: &SimConfig, trace: &Trace) -> Result<(), String> {
    let fleet = Fleet::start(config.seed, trace)
        .await
        .map_err(|error| told("the fleet does not start", &error))?;
    let mut roles = JoinSet::new();
    fleet.run_roles(config.seed, &mut roles);
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let run = Run::of(fleet, trace);
    let counter = tokio::spawn(count(run.admin.clone(), stop.clone()));
    let mut random = SplitMix::named(config.seed, "scenario");

    let shape = if random.coin() {
        Shape::Replicated
    } else {
        Shape::Divided
    };
    run.trace.line("-", &format!("{shape:?}"));
    run.trace.may_move(shape == Shape::Divided);
    // Registration begins at once, the Subscription follows.
    let (prepare, send) = (moment(&mut random, 5_000), moment(&mut random, 20_000));
    let span = Span {
        whole: Duration::from_secs(60),
        busy: &[Duration::ZERO, prepare + send, prepare + send],
    };
    let faults = run.faults(&mut random, config.faults, span);
    tokio::time::sleep(prepare).await;
    for object in templates(shape.whole(2)) {
        run.create(&shadow(&object), namespace(&object), &object).await?;
    }
    tokio::time::sleep(send).await;
    run.create(&apps::SUBSCRIPTIONS, Some("default"), &subscription(shape))
        .await?;
    run.trace.must_stay(true);
    run.trace.line("-", "subscription created");
    run.settle(faults, "everything runs", |run| Box::pin(run.lacks(2)))
        .await?;
    run.trace.must_stay(true);
    run.quiet().await?;

    let (when, faults) = run.next_part(&mut random, config);
    tokio::time::sleep(when).await;
    run.persist("the template is changed", || async {
        let patch = json!({"spec": {"replicas": shape.whole(3)}});
        let deployment = &templates(3)[2];
        run.admin
            .patch(
                &shadow(deployment),
                namespace(deployment),
                NAME,
                None,
                Patch::Merge,
                &patch,
            )
            .await
            .map(drop)
    })
    .await?;
    run.trace.line("-", "template changed");
    run.settle(faults, "the change is everywhere", |run| Box::pin(run.lacks(3)))
        .await?;
    run.trace.must_stay(true);

    if shape == Shape::Replicated && random.coin() {
        run.leave_and_return(&mut random, config).await?;
    }

    let away = if random.coin() && config.faults > 0 {
        run.send_away(&mut random).await?
    } else {
        JoinSet::new()
    };
    let (when, mut faults) = run.next_part(&mut random, config);
    faults.spawn(away.join_all().map(drop));
    tokio::time::sleep(when).await;
    run.trace.must_stay(false);
    run.delete(&apps::SUBSCRIPTIONS, Some("default"), NAME).await?;
    run.trace.line("-", "subscription deleted");
    run.settle(faults, "everything is taken back", |run| Box::pin(run.remains()))
        .await?;
    for object in templates(2) {
        run.delete(&shadow(&object), namespace(&object), meta::name(&object))
            .await?;
    }
    run.until("the templates are gone", |run| Box::pin(run.templates_left()))
        .await?;
    run.quiet().await?;
    stop.cancel();
    match counter.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(lost)) => Err(lost),
        Err(error) => Err(format!("the counting client failed: {error}")),
    }
}

fn moment(random: &mut SplitMix, millis: usize) -> Duration {
    Duration::from_millis(random.below(millis) as u64)
}

fn told(what: &str, error: &BoxError) -> String {
    format!("{what}: {}", runtime::Chain(&**error))
}

/// A fleet in a run.
pub(super) struct Run<'a> {
    pub(super) fleet: Arc<Fleet>,
    pub(super) trace: &'a Trace,
    /// A client of the parent.
    pub(super) admin: Client,
}

/// How replicas come to clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each cluster gets all.
    Replicated,
    /// Each cluster gets its share.
    Divided,
}

impl Shape {
    /// How many replicas the template has so that each cluster runs so many.
    fn whole(self, each: i64) -> i64 {
        match self {
            Self::Replicated => each,
            Self::Divided => each * MEMBERS as i64,
        }
    }
}

pub(super) type Look<'a> = futures::future::BoxFuture<'a, Result<Vec<String>, Error>>;

impl<'a> Run<'a> {
    /// A run of this fleet.
    pub(super) fn of(fleet: Fleet, trace: &'a Trace) -> Self {
        let admin = fleet.parent.administrator();
        Self {
            fleet: Arc::new(fleet),
            trace,
            admin,
        }
    }
}

impl Run<'_> {
    /// Chooses what goes wrong from now on, and lets it.
    fn faults(&self, random: &mut SplitMix, most: usize, span: Span<'_>) -> JoinSet<()> {
        let mut faults = JoinSet::new();
        for Planned { at, fault } in plan(random, self.fleet.roles.len(), most, span) {
            let fleet = self.fleet.clone();
            faults.spawn(async move {
                tokio::time::sleep(at).await;
                fault.happen(&fleet).await;
            });
        }
        faults
    }

    /// When the next thing is to happen, and what goes wrong around it.
    fn next_part(&self, random: &mut SplitMix, config: &SimConfig) -> (Duration, JoinSet<()>) {
        let when = moment(random, 10_000);
        let span = Span {
            whole: Duration::from_secs(30),
            busy: &[when],
        };
        (when, self.faults(random, config.faults / 2, span))
    }

    fn check(&self) -> Result<(), String> {
        self.trace.violated().map_or(Ok(()), Err)
    }

    /// Waits until the faults are over, and then until nothing is missing.
    async fn settle(
        &self,
        mut faults: JoinSet<()>,
        what: &str,
        look: impl for<'b> Fn(&'b Self) -> Look<'b>,
    ) -> Result<(), String> {
        while let Some(over) = faults.join_next().await {
            over.map_err(|error| format!("a fault failed: {error}"))?;
            self.check()?;
        }
        self.trace.line("-", "no more faults");
        self.until(what, look).await
    }

    /// Waits until nothing is missing.
    pub(super) async fn until(
        &self,
        what: &str,
        look: impl for<'b> Fn(&'b Self) -> Look<'b>,
    ) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + CONVERGENCE;
        let mut settled = false;
        loop {
            let missing = look(self)
                .await
                .unwrap_or_else(|error| vec![runtime::Chain(&error).to_string()]);
            self.check()?;
            if missing.is_empty() && settled {
                self.trace.line("-", what);
                return Ok(());
            }
            if missing.is_empty() {
                // A part that was cut off may still act on what it missed: what is right must be right twice.
                settled = true;
                tokio::time::sleep(SETTLED).await;
                continue;
            }
            settled = false;
            if tokio::time::Instant::now() > deadline {
                return Err(format!(
                    "not within {} virtual seconds: {what}; missing: {}",
                    CONVERGENCE.as_secs(),
                    missing
                        .iter()
                        .take(8)
                        .map(String::as_str)
                        .collect::<Vec<_>>()
                        .join("; ")
                ));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Nothing is written when nothing happens, but for signs of life.
    pub(super) async fn quiet(&self) -> Result<(), String> {
        let from = self.trace.len();
        tokio::time::sleep(QUIET).await;
        self.check()?;
        let noise = self
            .trace
            .lines_from(from)
            .into_iter()
            .filter(|line| !is_sign_of_life(line));
        // Events are told late when the parent was away, and forgotten after an hour.
        let (events, noise): (Vec<String>, Vec<String>) = noise.partition(|line| line.contains(" events "));
        if events.len() > FEW_EVENTS {
            return Err(format!(
                "{} events though nothing happens, such as: {}",
                events.len(),
                events[0]
            ));
        }
        if noise.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} writes though nothing happens, such as: {}",
            noise.len(),
            noise[..noise.len().min(6)].join(" | ")
        ))
    }

    /// Does something until it works: the server may be down.
    async fn persist<F>(&self, what: &str, attempt: impl Fn() -> F) -> Result<(), String>
    where
        F: Future<Output = Result<(), Error>>,
    {
        let deadline = tokio::time::Instant::now() + CONVERGENCE;
        loop {
            let Err(error) = attempt().await else {
                return Ok(());
            };
            self.check()?;
            if tokio::time::Instant::now() > deadline {
                return Err(format!("{what}: {}", runtime::Chain(&error)));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A member is away for so long that the parent knows it, and then comes back by itself. What is deleted meanwhile is
    /// deleted without it.
    async fn send_away(&self, random: &mut SplitMix) -> Result<JoinSet<()>, String> {
        let (member, lasts) = (random.below(MEMBERS), AWAY + moment(random, 40_000));
        let fault = if random.coin() {
            Fault::Silence { member, lasts }
        } else {
            Fault::Partition { member, lasts }
        };
        let (mut away, fleet) = (JoinSet::new(), self.fleet.clone());
        away.spawn(async move { fault.happen(&fleet).await });
        let name = self.fleet.members[member].cluster.name();
        let back = tokio::time::Instant::now() + lasts;
        while tokio::time::Instant::now() < back {
            tokio::time::sleep(LOOK_EVERY).await;
            self.check()?;
            let managed = self.all(&self.admin, &clusters::MANAGED_CLUSTERS).await;
            let mut managed = managed.into_iter().flatten();
            if managed.any(|it| meta::name(&it) == name && !overview::is_ready(&it)) {
                self.trace.line(name, "is known to be away");
                break;
            }
        }
        Ok(away)
    }

    /// One cluster is no longer meant by the Subscription, and then it is again.
    async fn leave_and_return(&self, random: &mut SplitMix, config: &SimConfig) -> Result<(), String> {
        let leaver = random.below(MEMBERS);
        let name = self.fleet.members[leaver].cluster.name();
        let managed = self
            .all(&self.admin, &clusters::MANAGED_CLUSTERS)
            .await
            .map_err(|error| error.to_string())?;
        let place = managed
            .iter()
            .find(|cluster| meta::name(cluster) == name)
            .map(meta::namespace);
        let place = place.ok_or_else(|| format!("{name} is not registered"))?;
        let label = |value: Value| {
            let patch = json!({"metadata": {"labels": {"demo": value}}});
            async move {
                let clusters = &clusters::MANAGED_CLUSTERS;
                self.admin
                    .patch(clusters, Some(place), name, None, Patch::Merge, &patch)
                    .await
                    .map(drop)
            }
        };
        for place in [name, place] {
            self.trace.excuse(place);
        }
        let (when, faults) = self.next_part(random, config);
        tokio::time::sleep(when).await;
        self.persist("a label is taken away", || label(Value::Null))
            .await?;
        self.trace.line(name, "is no longer meant");
        self.settle(faults, "it is gone from where it is not meant", |run| {
            Box::pin(run.remains_in(leaver))
        })
        .await?;
        let (when, faults) = self.next_part(random, config);
        tokio::time::sleep(when).await;
        self.persist("a label is given back", || label(json!("nginx")))
            .await?;
        self.trace.line(name, "is meant again");
        self.settle(faults, "it is everywhere again", |run| Box::pin(run.lacks(3)))
            .await?;
        self.trace.must_stay(true);
        Ok(())
    }

    pub(super) async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<(), String> {
        self.persist(&format!("{} is created", meta::name(object)), || async {
            match self.admin.create(resource, namespace, object).await {
                Err(error) if error.is_already_exists() => Ok(()),
                other => other.map(drop),
            }
        })
        .await
    }

    async fn delete(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), String> {
        self.persist(&format!("{name} is deleted"), || async {
            match self
                .admin
                .delete(resource, namespace, name, &DeleteOptions::background())
                .await
            {
                Err(error) if error.is_not_found() => Ok(()),
                other => other,
            }
        })
        .await
    }

    async fn all(&self, client: &Client, resource: &ApiResource) -> Result<Vec<Value>, Error> {
        Ok(client
            .list_all(resource, None, &ListOptions::default())
            .await?
            .items)
    }

    /// What is missing until the application runs everywhere with so many replicas.
    async fn lacks(&self, replicas: i64) -> Result<Vec<String>, Error> {
        let mut missing = Vec::new();
        let mut lacks = |holds: bool, what: String| {
            if !holds {
                missing.push(what);
            }
        };
        let managed = self.all(&self.admin, &clusters::MANAGED_CLUSTERS).await?;
        lacks(
            managed.len() == MEMBERS,
            format!("{} of {MEMBERS} clusters are registered", managed.len()),
        );
        for cluster in &managed {
            lacks(
                overview::is_ready(cluster),
                format!("{} is not ready", meta::name(cluster)),
            );
            let taints = &cluster["spec"]["taints"];
            let none = taints.as_array().is_none_or(Vec::is_empty);
            lacks(none, format!("{} has taints: {taints}", meta::name(cluster)));
        }
        lacks(
            self.fleet.parent.tunnels() == MEMBERS,
            format!("{} of {MEMBERS} tunnels", self.fleet.parent.tunnels()),
        );
        let subscription = self
            .admin
            .get(&apps::SUBSCRIPTIONS, Some("default"), NAME)
            .await?;
        let bound = subscription["status"]["bindingClusters"]
            .as_array()
            .map_or(0, Vec::len);
        lacks(
            bound == MEMBERS,
            format!("bound to {bound} of {MEMBERS} clusters"),
        );
        let members: Vec<&str> = self
            .fleet
            .members
            .iter()
            .map(|member| member.cluster.name())
            .collect();
        let desired = |feed: &Value| (feed["kind"] == "Deployment").then_some(replicas);
        for row in overview::rows(&subscription, &members, desired) {
            lacks(
                row.done,
                format!(
                    "the parent sees {} in {} as {:?}",
                    row.object, row.cluster, row.ready
                ),
            );
        }
        for cluster in &managed {
            if let Err(problem) = self.reach_through_the_hub(cluster).await {
                missing.push(format!(
                    "{} is not reached through the hub: {problem}",
                    meta::name(cluster)
                ));
            }
        }
        missing.extend(self.lacks_in_members(replicas).await?);
        missing.extend(self.twins().await?);
        missing.extend(self.strays().await?);
        Ok(missing)
    }

    /// What the members lack of the application.
    async fn lacks_in_members(&self, replicas: i64) -> Result<Vec<String>, Error> {
        let mut missing = Vec::new();
        let mut lacks = |holds: bool, what: String| {
            if !holds {
                missing.push(what);
            }
        };
        for member in &self.fleet.members {
            let (name, client) = (member.cluster.name(), member.cluster.administrator());
            for object in templates(replicas) {
                let resource = resource(&object);
                let live = client
                    .get_opt(&resource, namespace(&object), meta::name(&object))
                    .await?;
                let what = format!("{} {}", resource.kind, meta::name(&object));
                let Some(live) = live else {
                    lacks(false, format!("{name} has no {what}"));
                    continue;
                };
                lacks(
                    meta::annotation(&live, annotations::OWNED_BY_DESCRIPTION).is_some(),
                    format!("{what} of {name} does not say whose it is"),
                );
                if resource.kind == "Deployment" {
                    let pods = client
                        .list_all(&kubernetes::PODS, Some(NAMESPACE), &ListOptions::default())
                        .await?;
                    let running = pods.items.iter().filter(|pod| !meta::is_deleting(pod)).count();
                    lacks(
                        running as i64 == replicas,
                        format!("{running} pods of {replicas} in {name}"),
                    );
                    let (wants, has) = (&live["spec"]["replicas"], &live["status"]["readyReplicas"]);
                    lacks(
                        *wants == replicas && *has == replicas,
                        format!("{name} runs {has}/{wants} of {replicas}"),
                    );
                }
            }
        }
        Ok(missing)
    }

    /// Whatever was tried twice must not be there twice.
    async fn twins(&self) -> Result<Vec<String>, Error> {
        let mut missing = Vec::new();
        let mut lacks = |holds: bool, what: String| {
            if !holds {
                missing.push(what);
            }
        };
        for (resource, wanted) in [
            (&clusters::REGISTRATION_REQUESTS, MEMBERS),
            (&apps::BASES, MEMBERS),
            (&apps::DESCRIPTIONS, MEMBERS),
        ] {
            let found = self.all(&self.admin, resource).await?.len();
            lacks(
                found == wanted,
                format!("{found} {} instead of {wanted}", resource.plural),
            );
        }
        let namespaces = self.all(&self.admin, &kubernetes::NAMESPACES).await?;
        let dedicated = namespaces
            .iter()
            .filter(|found| meta::label(found, labels::CLUSTER_ID).is_some())
            .count();
        lacks(
            dedicated == MEMBERS,
            format!("{dedicated} dedicated namespaces instead of {MEMBERS}"),
        );
        Ok(missing)
    }

    /// Reads the application's namespace in a member as a user of the hub does.
    async fn reach_through_the_hub(&self, cluster: &Value) -> Result<(), String> {
        let said = |error: Error| runtime::Chain(&error).to_string();
        let place = Some(meta::namespace(cluster));
        let secret = self
            .admin
            .get(&kubernetes::SECRETS, place, names::CHILD_DEPLOYER_SECRET)
            .await
            .map_err(said)?;
        let token = secret["data"]["token"]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .unwrap_or_default();
        let id = cluster["spec"]["clusterId"].as_str().unwrap_or_default();
        let path = format!(
            "/apis/{}/{}/sockets/{id}/proxy/direct/api/v1/namespaces/{NAMESPACE}",
            api::proxies::GROUP,
            api::proxies::VERSION
        );
        let request = http::Request::get(path)
            .header("Impersonate-User", "clusternet")
            .header("Impersonate-Extra-Clusternet-Token", token.as_slice())
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        let response = self.admin.request(request).await.map_err(said)?;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if response.status().is_success() && meta::name(&answer) == NAMESPACE {
            return Ok(());
        }
        Err(format!("{} {answer}", response.status()))
    }

    /// Objects in members that say they belong to a Description which the parent does not have.
    async fn strays(&self) -> Result<Vec<String>, Error> {
        let mut strays = Vec::new();
        let known: Vec<String> = self
            .all(&self.admin, &apps::DESCRIPTIONS)
            .await?
            .iter()
            .map(|description| format!("{}.{}", meta::namespace(description), meta::name(description)))
            .collect();
        for member in &self.fleet.members {
            let client = member.cluster.administrator();
            for resource in [
                &kubernetes::NAMESPACES,
                &kubernetes::SERVICES,
                &kubernetes::DEPLOYMENTS,
            ] {
                for object in self.all(&client, resource).await? {
                    if let Some(owner) = meta::annotation(&object, annotations::OWNED_BY_DESCRIPTION)
                        && !known.iter().any(|known| known == owner)
                    {
                        strays.push(format!(
                            "{} {} of {} belongs to {owner}, which is no more",
                            resource.kind,
                            meta::name(&object),
                            member.cluster.name()
                        ));
                    }
                }
            }
        }
        Ok(strays)
    }

    /// What is left of the Subscription after it was deleted.
    async fn remains(&self) -> Result<Vec<String>, Error> {
        let mut left = self.strays().await?;
        for resource in [&apps::SUBSCRIPTIONS, &apps::BASES, &apps::DESCRIPTIONS] {
            for object in self.all(&self.admin, resource).await? {
                left.push(format!(
                    "{} {}/{} with {}",
                    resource.kind,
                    meta::namespace(&object),
                    meta::name(&object),
                    object["metadata"]["finalizers"]
                ));
            }
        }
        for index in 0..self.fleet.members.len() {
            left.extend(self.remains_in(index).await?);
        }
        Ok(left)
    }

    /// What is left of the application in a member.
    async fn remains_in(&self, member: usize) -> Result<Vec<String>, Error> {
        let cluster = &self.fleet.members[member].cluster;
        let (name, client) = (cluster.name(), cluster.administrator());
        let mut left = Vec::new();
        for object in templates(0) {
            let resource = resource(&object);
            if client
                .get_opt(&resource, namespace(&object), meta::name(&object))
                .await?
                .is_some()
            {
                left.push(format!("{} {} in {name}", resource.kind, meta::name(&object)));
            }
        }
        Ok(left)
    }

    async fn templates_left(&self) -> Result<Vec<String>, Error> {
        let left = self.all(&self.admin, &apps::MANIFESTS).await?;
        Ok(left
            .iter()
            .map(|left| format!("{} {}", meta::name(left), left["metadata"]["finalizers"]))
            .collect())
    }
}

fn resource(object: &Value) -> ApiResource {
    match meta::kind(object) {
        "Namespace" => kubernetes::NAMESPACES,
        "Service" => kubernetes::SERVICES,
        _ => kubernetes::DEPLOYMENTS,
    }
}

pub(super) fn templates(replicas: i64) -> [Value; 3] {
    let app = json!({"app": NAME});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": app},
            "spec": {"selector": app, "ports": [{"name": "http", "port": 80, "targetPort": 80}]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": app},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": app},
                "template": {
                    "metadata": {"labels": app},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:1.29", "resources": {
                        "requests": {"cpu": "100m", "memory": "64Mi"},
                    }}]},
                },
            },
        }),
    ]
}

pub(super) fn subscription(shape: Shape) -> Value {
    let feeds: Vec<Value> = templates(0)
        .iter()
        .map(|object| {
            let mut feed = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "name": meta::name(object),
            });
            if !meta::namespace(object).is_empty() {
                feed["namespace"] = json!(meta::namespace(object));
            }
            feed
        })
        .collect();
    let mut subscription = json!({
        "apiVersion": apps::SUBSCRIPTIONS.api_version(), "kind": "Subscription",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "schedulingStrategy": "Replication",
            "subscribers": [{"clusterAffinity": {"matchLabels": {"demo": "nginx"}}, "weight": 1}],
            "feeds": feeds,
        },
    });
    if shape == Shape::Divided {
        subscription["spec"]["schedulingStrategy"] = json!("Dividing");
        subscription["spec"]["dividingScheduling"] = json!({"type": "Static"});
    }
    subscription
}

/// The kind of an object once more, where writing it makes a template.
pub(super) fn shadow(object: &Value) -> ApiResource {
    let ApiResource {
        plural,
        kind,
        namespaced,
        ..
    } = resource(object);
    ApiResource {
        group: "shadow".into(),
        version: "v1alpha1".into(),
        plural,
        kind,
        namespaced,
    }
}

fn namespace(object: &Value) -> Option<&str> {
    Some(meta::namespace(object)).filter(|namespace| !namespace.is_empty())
}

/// A client that counts in a ConfigMap, and minds when a number that was acknowledged is forgotten.
async fn count(client: Client, stop: CancellationToken) -> Result<(), String> {
    let maps = &kubernetes::CONFIG_MAPS;
    let (mut next, mut acknowledged) = (1_u64, 0_u64);
    while !stop.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        let found = match client.get_opt(maps, Some("default"), "count").await {
            Ok(found) => found,
            Err(_) => continue,
        };
        let number = found
            .as_ref()
            .and_then(|map| map["data"]["number"].as_str()?.parse().ok())
            .unwrap_or(0_u64);
        if number < acknowledged {
            return Err(format!(
                "a client counted to {acknowledged}, and the parent has {number}"
            ));
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "count", "namespace": "default"},
            "data": {"number": next.to_string()},
        });
        let written = match found {
            None => client.create(maps, Some("default"), &map).await,
            Some(_) => {
                client
                    .patch(maps, Some("default"), "count", None, Patch::Merge, &map)
                    .await
            }
        };
        if written.is_ok() {
            acknowledged = next;
        }
        next += 1;
    }
    Ok(())
}
