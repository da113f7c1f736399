//! The simulated fleet: a parent with its roles, and members whose agents dial out to it.

use std::sync::Arc;
use std::time::Duration;

use agent::{Child, Credential, ParentConnector};
use api::clusters::SyncMode;
use api::names;
use apiserver::UserInfo;
use clock::{Env, SplitMix};
use jiff::SignedDuration;
use kubeio::Client;
use members::NodeSpec;
use runtime::{BoxError, CancellationToken};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::{AUTHORITY_PEM, Blueprint, Cluster, Death, Role, RunningRole};
use super::door::{Door, Fuse, Identity, Sockets, Way};
use super::link::Link;
use super::trace::Trace;
use super::world::{FOREIGN, MEANT};

/// Into which members the parent applies; the others' agents do it themselves.
fn is_pushed(index: usize) -> bool {
    index % 10 == 3
}

/// The label of the side that a cluster is on.
pub(crate) const SIDE: &str = "side";

/// The side that a cluster is on.
pub(crate) fn side(index: usize) -> &'static str {
    if index.is_multiple_of(2) { "right" } else { "left" }
}

/// What the agents register with.
const BOOTSTRAP_TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

/// How long a message between a role and its own cluster takes at most.
const NEAR: Duration = Duration::from_millis(2);
/// How long a message between clusters takes at most.
const FAR: Duration = Duration::from_millis(40);

/// A member and its ways to the parent.
pub(crate) struct Member {
    pub(crate) cluster: Arc<Cluster>,
    /// What the agent's requests go over.
    pub(crate) requests: Link,
    /// What the agent's tunnel goes over.
    pub(crate) tunnel: Link,
    /// How many nodes it has.
    pub(crate) nodes: usize,
    /// Its agent.
    pub(crate) agent: Arc<Role>,
}

/// Everything that is simulated.
pub(crate) struct Fleet {
    pub(crate) trace: Trace,
    pub(crate) parent: Arc<Cluster>,
    pub(crate) members: Vec<Member>,
    pub(crate) roles: Vec<Arc<Role>>,
    pub(crate) pace: Pace,
}

/// How often the agents of a fleet give signs of life: seldom in a large one, as one would have it in earnest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Between two reports.
    pub(crate) report: Duration,
    /// How long an agent's own Lease is respected.
    lease: Duration,
}

impl Pace {
    fn of(clusters: usize) -> Self {
        let large = clusters > 30;
        Self {
            report: Duration::from_secs(if large { 60 } else { 10 }),
            lease: Duration::from_secs(if large { 60 } else { 15 }),
        }
    }
}

/// How wrong a cluster's clock is from the beginning: by little, or for some by a lot.
fn skew(random: &mut SplitMix) -> SignedDuration {
    let most = if random.below(4) == 0 { 600_000 } else { 1_500 };
    SignedDuration::from_millis(random.below(2 * most) as i64 - most as i64)
}

/// What a member begins with: what an agent needs, and what others have there.
fn child_objects() -> Vec<Value> {
    let mut objects = api::install::child(&api::install::ChildOptions::default());
    let metadata = |name: &str| json!({"name": name, "namespace": FOREIGN});
    let labels = json!({"app": "theirs"});
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FOREIGN}}));
    objects.push(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("nginx"), "data": {"a": "b"}}),
    );
    // The application's name in another namespace.
    objects.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("nginx"),
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "theirs", "image": "theirs:1"}]},
        }},
    }));
    objects
}

impl Fleet {
    /// Builds a fleet and starts its control planes; no role runs yet.
    pub(crate) async fn start(seed: u64, clusters: usize, trace: &Trace) -> Result<Self, BoxError> {
        let mut random = SplitMix::named(seed, "fleet");
        let pace = Pace::of(clusters);
        let parent = Arc::new(Cluster::new(
            Blueprint {
                name: "parent".to_owned(),
                seed,
                skew: SignedDuration::ZERO,
                objects: parent_objects(),
                hub: true,
            },
            trace.clone(),
        )?);
        parent.start().await?;
        let mut roles = vec![scheduler(seed, &parent), controllers(seed, &parent)];
        let mut members = Vec::new();
        for index in 1..=clusters {
            let name = format!("member-{index}");
            let blueprint = Blueprint {
                name: name.clone(),
                seed,
                skew: skew(&mut random),
                objects: child_objects(),
                hub: false,
            };
            let cluster = Arc::new(Cluster::new(blueprint, trace.clone())?);
            cluster.start().await?;
            let nodes = 1 + random.below(2);
            let links = [
                Link::new(seed, &format!("{name} requests"), FAR),
                Link::new(seed, &format!("{name} tunnel"), FAR),
            ];
            let agent = agent_of(seed, (index, pace), &cluster, &links, &parent);
            roles.push(workloads(seed, &cluster, nodes));
            roles.push(agent.clone());
            let [requests, tunnel] = links;
            members.push(Member {
                cluster,
                requests,
                tunnel,
                nodes,
                agent,
            });
            if index % 100 == 0 {
                trace.line("-", &format!("{index} of {clusters} clusters are up"));
            }
        }
        Ok(Self {
            trace: trace.clone(),
            parent,
            members,
            roles,
            pace,
        })
    }

    /// Runs the roles; they end when the set is dropped.
    pub(crate) fn run_roles(&self, seed: u64, tasks: &mut JoinSet<()>) {
        for role in &self.roles {
            let (role, trace) = (role.clone(), self.trace.clone());
            let mut pauses = SplitMix::named(seed, &format!("{} {} pauses", role.cluster, role.name));
            tasks.spawn(async move { role.keep(&trace, &mut pauses).await });
        }
    }
}

impl Drop for Fleet {
    /// Servers and what is plugged into them hold each other; nothing of a run may outlive it.
    fn drop(&mut self) {
        for cluster in self
            .members
            .iter()
            .map(|member| &member.cluster)
            .chain([&self.parent])
        {
            cluster.die(Death::Kill);
        }
    }
}

fn parent_objects() -> Vec<Value> {
    let mut objects = api::crds();
    objects.extend(api::install::roles(&api::install::ParentOptions::default()));
    let (id, secret) = BOOTSTRAP_TOKEN;
    objects.push(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "stringData": {
            "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": names::BOOTSTRAP_GROUP,
        },
    }));
    objects
}

fn account(name: &str) -> UserInfo {
    UserInfo::service_account(names::SYSTEM_NAMESPACE, name)
}

/// A role that needs no more than its own cluster; `run` starts it.
fn role(
    seed: u64,
    cluster: &Cluster,
    (name, link): (&'static str, &str),
    user: UserInfo,
    run: impl Fn(Client, Env) -> RunningRole + Send + Sync + 'static,
) -> Arc<Role> {
    let fuse = Arc::new(Fuse::default());
    let link = Link::new(seed, link, NEAR);
    let client = cluster.client(user, &link, &fuse);
    let env = cluster.environment(name);
    Arc::new(Role {
        cluster: cluster.name().to_owned(),
        name,
        fuse,
        link,
        wanted: watch::Sender::new(true),
        run: Box::new(move || run(client.clone(), env.clone())),
    })
}

fn scheduler(seed: u64, parent: &Cluster) -> Arc<Role> {
    let called = ("scheduler", "scheduler");
    role(seed, parent, called, account(names::SCHEDULER), |client, env| {
        let mut config = scheduler::Config::default();
        // Every cluster that is meant is to be bound, however many there are.
        config.placement.percentage_to_score = 100;
        boxed(scheduler::run(config, client, env, CancellationToken::new()))
    })
}

fn controllers(seed: u64, parent: &Cluster) -> Arc<Role> {
    let called = ("controllers", "controllers");
    role(
        seed,
        parent,
        called,
        account(names::CONTROLLERS),
        |client, env| {
            let config = controllers::Config::default();
            boxed(controllers::run(config, client, env, CancellationToken::new()))
        },
    )
}

fn workloads(seed: u64, cluster: &Cluster, nodes: usize) -> Arc<Role> {
    let config = members::Config {
        nodes: (1..=nodes)
            .map(|node| NodeSpec::named(format!("node-{node}")))
            .collect(),
    };
    let link = format!("{} workloads", cluster.name());
    let called = ("workloads", link.as_str());
    role(seed, cluster, called, UserInfo::loopback(), move |client, env| {
        boxed(members::run(
            config.clone(),
            client,
            env,
            CancellationToken::new(),
        ))
    })
}

fn agent_of(
    seed: u64,
    (index, pace): (usize, Pace),
    cluster: &Arc<Cluster>,
    [requests, tunnel]: &[Link; 2],
    parent: &Cluster,
) -> Arc<Role> {
    let fuse = Arc::new(Fuse::default());
    let link = Link::new(seed, &format!("{} agent", cluster.name()), NEAR);
    let child = Child {
        client: cluster.client(account(names::AGENT), &link, &fuse),
        dialer: Arc::new(Dialer(Sockets {
            door: cluster.door.clone(),
            link: link.clone(),
        })),
    };
    let connector = Arc::new(Connector {
        door: parent.door.clone(),
        requests: requests.clone(),
        tunnel: tunnel.clone(),
        fuse: fuse.clone(),
    });
    let env = cluster.environment("agent");
    let name = cluster.name().to_owned();
    let run = move || {
        let (id, secret) = BOOTSTRAP_TOKEN;
        let mut config = agent::Config::new(
            "https://parent.sim:6443",
            format!("{id}.{secret}"),
            format!("{name}_{}", env.uuid()),
        );
        config.cluster_name = Some(name.clone());
        for (key, value) in [MEANT, (SIDE, side(index))] {
            config.cluster_labels.insert(key.to_owned(), value.to_owned());
        }
        if is_pushed(index) {
            config.sync_mode = SyncMode::Push;
            config.gates.app_pusher = true;
        }
        config.report_interval = pace.report;
        config.lease_duration = pace.lease;
        config.renew_deadline = pace.lease * 2 / 3;
        config.retry_period = pace.lease * 2 / 15;
        config.collect_interval = Duration::from_secs(5);
        // Without TLS, which is neither simulated nor deterministic.
        config.child_url = format!("http://{name}.sim:6443");
        config.child_ca = AUTHORITY_PEM.as_bytes().to_vec();
        boxed(agent::run(
            config,
            child.clone(),
            connector.clone(),
            env.clone(),
            CancellationToken::new(),
        ))
    };
    Arc::new(Role {
        cluster: cluster.name().to_owned(),
        name: "agent",
        fuse,
        link,
        wanted: watch::Sender::new(true),
        run: Box::new(run),
    })
}

fn boxed<E: Into<BoxError>>(running: impl Future<Output = Result<(), E>> + Send + 'static) -> RunningRole {
    Box::pin(async move { running.await.map_err(Into::into) })
}

/// An agent's way to the parent.
struct Connector {
    door: Arc<Door>,
    requests: Link,
    tunnel: Link,
    fuse: Arc<Fuse>,
}

impl ParentConnector for Connector {
    fn connect(&self, credential: &Credential) -> Result<Client, kubeio::Error> {
        Ok(Client::from_service(Way {
            door: self.door.clone(),
            identity: Identity::Token(credential.token.clone()),
            link: self.requests.clone(),
            fuse: self.fuse.clone(),
            process: None,
        }))
    }

    fn tunnel(&self, _: &Credential) -> Result<Arc<dyn tunnel::Connector>, BoxError> {
        Ok(Arc::new(Sockets {
            door: self.door.clone(),
            link: self.tunnel.clone(),
        }))
    }
}

/// What the agent dials for the hub: its own cluster, whatever the address.
struct Dialer(Sockets);

impl tunnel::Dialer for Dialer {
    fn dial(
        &self,
        _: &str,
        address: &str,
    ) -> futures::future::BoxFuture<'static, Result<tunnel::BoxIo, tunnel::DialRefusal>> {
        let dialing = tunnel::Connector::connect(&self.0, "", 0, false);
        let address = address.to_owned();
        Box::pin(async move {
            dialing
                .await
                .map_err(|source| tunnel::DialRefusal::Failed { address, source })
        })
    }
}
