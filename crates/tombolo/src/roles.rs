//! One role against a cluster: from flags to its checked configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::Child;
use anyhow::{Context as _, anyhow, bail};
use api::names;
use assembly::HttpsParent;
use clock::Env;
use kubeio::{Client, ElectorConfig};
use runtime::CancellationToken;
use tokio::net::TcpListener;

use crate::cli::{
    AgentArgs, ClusterArgs, ControllersArgs, HubRoleArgs, LeaseArgs, RoleArgs, SchedulerArgs, StatusArgs,
};
use crate::run::Failure;

/// Where hubs listen for others.
const PEER_PORT: u16 = 8_123;

/// The cluster that a role works on.
async fn client(cluster: &ClusterArgs) -> anyhow::Result<Client> {
    match &cluster.kubeconfig {
        None => Client::in_cluster().context("no --kubeconfig, and this is no pod with a service account"),
        Some(path) => from_kubeconfig(path).await,
    }
}

async fn from_kubeconfig(path: &Path) -> anyhow::Result<Client> {
    Client::from_kubeconfig_file(path)
        .await
        .with_context(|| path.display().to_string())
}

/// Who this replica is, as client-go says it: host and a random part.
fn identity(env: &Env) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), env.uuid())
}

/// The Lease that a role works under, if it does.
fn election(role: &RoleArgs, name: &str, env: &Env) -> anyhow::Result<Option<ElectorConfig>> {
    role.leader_elect
        .then(|| lease(&role.lease, name, identity(env)))
        .transpose()
}

/// What the flags say about a Lease, checked; `name` if they give it no other.
fn lease(args: &LeaseArgs, name: &str, identity: String) -> anyhow::Result<ElectorConfig> {
    let name = args.leader_elect_resource_name.as_deref().unwrap_or(name);
    let mut config = ElectorConfig::new(&args.leader_elect_resource_namespace, name, identity);
    config.lease_duration = duration("--leader-elect-lease-duration", &args.leader_elect_lease_duration)?;
    config.renew_deadline = duration("--leader-elect-renew-deadline", &args.leader_elect_renew_deadline)?;
    config.retry_period = duration("--leader-elect-retry-period", &args.leader_elect_retry_period)?;
    if !(config.retry_period < config.renew_deadline && config.renew_deadline < config.lease_duration) {
        bail!("--leader-elect-*: retry period < renew deadline < lease duration must hold");
    }
    Ok(config)
}

/// What a role serves about itself.
struct Status {
    name: &'static str,
    usual_port: u16,
    /// Asked whose tokens are and who may read metrics.
    client: Client,
    metrics: Box<dyn Fn() -> String + Send + Sync>,
}

impl Status {
    /// Serves it while the role works, as its flags say.
    async fn beside<E: std::error::Error + Send + Sync + 'static>(
        self,
        args: &StatusArgs,
        work: impl Future<Output = Result<(), E>>,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let port = args.secure_port.unwrap_or(self.usual_port);
        if port == 0 {
            return Ok(work.await?);
        }
        let listener = listen(SocketAddr::from((args.bind_address, port))).await?;
        // It serves to the role's very end, and ends with it.
        let ended = CancellationToken::new();
        let _end = ended.clone().drop_guard();
        let serving = assembly::serve_status(
            self.name,
            listener,
            self.client,
            self.metrics,
            Env::system(),
            ended,
        );
        tokio::select! {
            biased;
            done = work => Ok(done?),
            served = serving => {
                shutdown.cancel();
                Ok(served?)
            }
        }
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("--bind-address, --secure-port: {address} cannot be listened on"))
}

pub(crate) async fn hub(args: HubRoleArgs, shutdown: CancellationToken) -> Result<(), Failure> {
    let mut config = ::hub::ServeConfig::default();
    config.hub = config
        .hub
        .with_gates(&args.feature_gates)
        .map_err(|error| Failure::usage(error.into()))?;
    config.hub.reserved_namespace = args.reserved_namespace;
    let address = SocketAddr::from((args.bind_address, args.secure_port));
    let listener = listen(address).await?;
    let client = client(&args.cluster).await?;
    config.peers = match (args.peers.peer_advertise_address, args.peers.peer_port) {
        (None, None) => None,
        (advertise, port) => Some(::hub::PeerConfig {
            listen: SocketAddr::from((args.bind_address, port.unwrap_or(PEER_PORT))),
            advertise: match advertise {
                Some(advertise) => advertise,
                None => own_address(client.server())?,
            },
        }),
    };
    Ok(::hub::serve(config, client, listener, Env::system(), shutdown)
        .await
        .map_err(anyhow::Error::from)?)
}

/// The address from which this host reaches a server; nothing is sent to find it.
fn own_address(server: &str) -> anyhow::Result<String> {
    let find = || {
        let authority = server
            .parse::<http::Uri>()
            .ok()
            .and_then(|uri| uri.into_parts().authority);
        let authority = authority.ok_or_else(|| std::io::Error::other("it names no host"))?;
        let host = authority.host().trim_matches(['[', ']']);
        let port = authority.port_u16().unwrap_or(443);
        let targets = (host, port).to_socket_addrs()?;
        let mut found = Err(std::io::Error::other("its name has no address"));
        for target in targets {
            let any: IpAddr = if target.is_ipv6() {
                Ipv6Addr::UNSPECIFIED.into()
            } else {
                Ipv4Addr::UNSPECIFIED.into()
            };
            let socket = UdpSocket::bind((any, 0))?;
            found = socket.connect(target).and_then(|()| socket.local_addr());
            if found.is_ok() {
                break;
            }
        }
        found
    };
    let address = find().with_context(|| {
        format!("--peer-advertise-address: no address of this host leads to {server:?}; name one")
    })?;
    Ok(address.ip().to_string())
}

pub(crate) async fn scheduler(args: SchedulerArgs, shutdown: CancellationToken) -> Result<(), Failure> {
    let env = Env::system();
    let config = scheduler_config(&args, &env).map_err(Failure::usage)?;
    let client = client(&args.role.cluster).await?;
    let counted = config.metrics.clone();
    let status = Status {
        name: names::SCHEDULER,
        usual_port: 10_659,
        client: client.clone(),
        metrics: Box::new(move || counted.render()),
    };
    let work = ::scheduler::run(config, client, env, shutdown.clone());
    Ok(status.beside(&args.status, work, shutdown).await?)
}

/// A scheduler's configuration file, checked; without one what schedulers do without one.
pub(crate) fn placement_config(file: Option<&Path>) -> anyhow::Result<::scheduler::PlacementConfig> {
    let Some(path) = file else {
        return Ok(::scheduler::PlacementConfig::default());
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let file = codec::yaml::parse_one(&text).with_context(|| path.display().to_string())?;
    ::scheduler::PlacementConfig::parse(&file).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow!("{}: {}", path.display(), faults.join("; "))
    })
}

/// What the flags say, checked.
fn scheduler_config(args: &SchedulerArgs, env: &Env) -> anyhow::Result<::scheduler::Config> {
    Ok(::scheduler::Config {
        placement: placement_config(args.config.as_deref())?,
        election: election(&args.role, names::SCHEDULER, env)?,
        settle: args.settle,
        direct_access: ::scheduler::DirectAccess::within(args.predictor_direct_access_cidrs.clone()),
        ..::scheduler::Config::default().with_gates(&args.feature_gates)?
    })
}

pub(crate) async fn controllers(args: ControllersArgs, shutdown: CancellationToken) -> Result<(), Failure> {
    let env = Env::system();
    let config = controllers_config(&args, &env).map_err(Failure::usage)?;
    let client = client(&args.role.cluster).await?;
    let cluster_api = match &args.cluster_api_kubeconfig {
        Some(path) => Some(from_kubeconfig(path).await?),
        None => None,
    };
    let counted = config.metrics.clone();
    let status = Status {
        name: names::CONTROLLERS,
        usual_port: 10_660,
        client: client.clone(),
        metrics: Box::new(move || counted.render()),
    };
    let clients = ::controllers::Clients {
        parent: client,
        cluster_api,
    };
    let work = ::controllers::run(config, clients, env, shutdown.clone());
    Ok(status.beside(&args.status, work, shutdown).await?)
}

/// What the flags say, checked.
fn controllers_config(args: &ControllersArgs, env: &Env) -> anyhow::Result<::controllers::Config> {
    let words = args.controllers.iter().map(String::as_str);
    let mut config = ::controllers::Config::default()
        .with_controllers(words)?
        .with_gates(&args.feature_gates)?;
    config.workers = usize::from(args.threadiness);
    config.reserved_namespace.clone_from(&args.reserved_namespace);
    config.own_kinds = args.replica_path.iter().cloned().collect();
    config.election = election(&args.role, names::CONTROLLERS, env)?;
    config.settle = args.settle;
    Ok(config)
}

pub(crate) async fn agent(args: AgentArgs, shutdown: CancellationToken) -> Result<(), Failure> {
    let env = Env::system();
    let mut config = agent_config(&args, &env).map_err(Failure::usage)?;
    let authority_pem = args.cluster_reg_parent_ca.as_deref().map(read).transpose()?;
    let client = client(&args.cluster).await?;
    client.server().clone_into(&mut config.child_url);
    let parent = HttpsParent {
        url: args.cluster_reg_parent_url,
        authority_pem,
    };
    let counted = config.metrics.clone();
    let status = Status {
        name: names::AGENT,
        usual_port: 10_650,
        client: client.clone(),
        metrics: Box::new(move || counted.render()),
    };
    let child = Child {
        client,
        dialer: Arc::new(tunnel::TcpDialer),
    };
    let work = ::agent::run(config, child, Arc::new(parent), env, shutdown.clone());
    Ok(status.beside(&args.status, work, shutdown).await?)
}

/// What the flags say, checked.
fn agent_config(args: &AgentArgs, env: &Env) -> anyhow::Result<::agent::Config> {
    if !args.leader_elect {
        bail!(
            "--leader-elect=false: an agent works under its Lease, whose UID is the cluster's id; leave the flag out"
        );
    }
    let mut config = ::agent::Config::new(
        args.cluster_reg_parent_url.clone(),
        args.cluster_reg_token.clone(),
        identity(env),
    );
    let lease = lease(&args.lease, names::AGENT, config.identity.clone())?;
    (config.namespace, config.lease_name) = (lease.namespace, lease.name);
    config.lease_duration = lease.lease_duration;
    config.renew_deadline = lease.renew_deadline;
    config.retry_period = lease.retry_period;
    (config.kube_qps, config.kube_burst) = (args.kube_api_qps, args.kube_api_burst);
    config.cluster_name.clone_from(&args.cluster_reg_name);
    config
        .cluster_name_prefix
        .clone_from(&args.cluster_reg_name_prefix);
    config.cluster_namespace.clone_from(&args.cluster_reg_namespace);
    config.cluster_type.clone_from(&args.cluster_reg_type);
    config.sync_mode = args.cluster_sync_mode.into();
    config.cluster_labels = labels(&args.cluster_labels)?;
    config.gates = ::agent::Gates::parse(&args.feature_gates)?;
    let lifetime = duration("--cluster-token-lifetime", &args.cluster_token_lifetime)?;
    config.token_lifetime = Some(lifetime).filter(|lifetime| !lifetime.is_zero());
    config.report_interval = duration(
        "--cluster-status-update-frequency",
        &args.cluster_status_update_frequency,
    )?;
    config.collect_interval = duration(
        "--cluster-status-collect-frequency",
        &args.cluster_status_collect_frequency,
    )?;
    config.promotion.threshold = args.labels_aggregate_threshold;
    config
        .promotion
        .prefixes
        .clone_from(&args.labels_aggregate_prefix);
    config.use_metrics_server = args.use_metrics_server;
    config.predictor = ::agent::PredictorConfig {
        address: args.predictor_addr.clone(),
        direct_access: args.predictor_direct_access,
        port: args.predictor_port,
    };
    config.check()?;
    Ok(config)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// `KEY=VALUE` pairs separated by commas.
fn labels(text: &str) -> anyhow::Result<std::collections::BTreeMap<String, String>> {
    text.split(',')
        .filter(|pair| !pair.trim().is_empty())
        .map(|pair| {
            let (key, value) = pair
                .split_once('=')
                .with_context(|| format!("--cluster-labels: {pair:?} is not KEY=VALUE"))?;
            let (key, value) = (key.trim(), value.trim());
            machinery::names::validate_label_key(key)
                .and_then(|()| machinery::names::validate_label_value(value))
                .map_err(|problem| anyhow!("--cluster-labels: {pair:?}: {problem}"))?;
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// A duration as Go's programs take it: `90s`, `1m30s`, `1.5h`; none is less than nothing.
pub(crate) fn duration(flag: &str, text: &str) -> anyhow::Result<Duration> {
    machinery::cel::duration(text)
        .and_then(|read| Duration::try_from(read).ok())
        .ok_or_else(|| anyhow!("{flag} {text:?} is no duration such as 90s, 3m or 1m30s"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, RoleCommand};

    /// What is wrong with an agent's command line; nothing if it is fine.
    fn problem(words: &str) -> String {
        let parsed = Cli::try_parse_from(["tombolo", "agent"].into_iter().chain(words.split_whitespace()));
        let cli = match parsed {
            Ok(cli) => cli,
            Err(error) => return error.to_string(),
        };
        let Command::Role(RoleCommand::Agent(args)) = cli.command else {
            panic!("an agent was asked for");
        };
        agent_config(&args, &Env::system()).map_or_else(|error| format!("{error:#}"), |_| String::new())
    }

    #[test]
    fn an_agents_flags_that_do_not_fit_are_named() {
        let good = "--cluster-reg-parent-url https://parent --cluster-reg-token abcdef.0123456789abcdef";
        for (more, flags) in [
            ("", &[][..]),
            ("--leader-elect", &[]),
            ("--leader-elect=true", &[]),
            ("--leader-elect=false", &["--leader-elect=false"]),
            ("--cluster-sync-mode Push", &["--cluster-sync-mode"]),
            ("--cluster-sync-mode Push --feature-gates AppPusher=true", &[]),
            ("--cluster-sync-mode Dual", &[]),
            ("--feature-gates AppPusher", &["--feature-gates"]),
            (
                "--cluster-reg-name No_ --cluster-sync-mode push",
                &["--cluster-reg-name", "--cluster-sync-mode"],
            ),
            ("--cluster-labels a", &["--cluster-labels"]),
        ] {
            let problem = problem(&format!("{good} {more}"));
            assert_eq!(problem.is_empty(), flags.is_empty(), "{more}: {problem}");
            for flag in flags {
                assert!(problem.contains(flag), "{more}: {problem}");
            }
        }
        for (lacking, flag) in [
            ("--cluster-reg-parent-url https://parent", "--cluster-reg-token"),
            ("--cluster-reg-token a.b.c", "--cluster-reg-parent-url"),
        ] {
            let problem = problem(lacking);
            assert!(problem.contains(flag), "{lacking}: {problem}");
        }
    }

    #[test]
    fn upstreams_flags_mean_the_same_here() {
        let parse = |line: &str| {
            let mut cli = Cli::parse_from(["tombolo"].into_iter().chain(line.split_whitespace()));
            // Whatever the environment says.
            cli.log = None;
            cli
        };
        let timing = "--leader-elect-lease-duration=60s --leader-elect-renew-deadline=40s --leader-elect-retry-period=8s \
            --leader-elect-resource-name=other --leader-elect-resource-namespace=edge";
        let expected = ("edge", "other", 60, 40, 8);

        let line = format!("scheduler {timing} -v 4 --logging-format=json");
        let cli = parse(&line);
        assert_eq!(cli.logging(), ("debug", runtime::LogFormat::Json));
        let Command::Role(RoleCommand::Scheduler(args)) = cli.command else {
            panic!("a scheduler was asked for");
        };
        let lease = scheduler_config(&args, &Env::system()).unwrap().election.unwrap();
        let seen = (
            &*lease.namespace,
            &*lease.name,
            lease.lease_duration.as_secs(),
            lease.renew_deadline.as_secs(),
            lease.retry_period.as_secs(),
        );
        assert_eq!(seen, expected);

        let line = format!(
            "agent {timing} --cluster-reg-parent-url https://p --cluster-reg-token a.b.c --kube-api-qps=5 \
             --kube-api-burst=7 --use-metrics-server=false --labels-aggregate-prefix=a/,b/"
        );
        let cli = parse(&line);
        assert_eq!(cli.logging(), ("warn", runtime::LogFormat::Text));
        let Command::Role(RoleCommand::Agent(args)) = cli.command else {
            panic!("an agent was asked for");
        };
        let config = agent_config(&args, &Env::system()).unwrap();
        let seen = (
            &*config.namespace,
            &*config.lease_name,
            config.lease_duration.as_secs(),
            config.renew_deadline.as_secs(),
            config.retry_period.as_secs(),
        );
        assert_eq!(seen, expected);
        assert_eq!((config.kube_qps, config.kube_burst), (5.0, 7));
        assert!(!config.use_metrics_server);
        assert_eq!(config.promotion.prefixes, ["a/", "b/"]);

        let parse = |line: &str| {
            let Command::Role(RoleCommand::Controllers(args)) = parse(line).command else {
                panic!("controllers were asked for");
            };
            controllers_config(&args, &Env::system())
        };
        assert!(parse("controllers").unwrap().election.is_some());
        assert!(
            parse("controllers --leader-elect=false")
                .unwrap()
                .election
                .is_none()
        );
        let error = parse("controllers --leader-elect-retry-period=20s").unwrap_err();
        assert!(error.to_string().contains("--leader-elect"), "{error}");
    }

    #[test]
    fn finds_the_address_that_leads_to_the_parent() {
        for (server, expected) in [
            ("https://127.0.0.1:6443", Some("127.0.0.1")),
            ("https://127.0.0.1", Some("127.0.0.1")),
            ("/no/host", None),
            ("", None),
        ] {
            let found = own_address(server);
            assert_eq!(found.as_deref().ok(), expected, "{server}");
            if let Err(error) = found {
                assert!(error.to_string().contains("--peer-advertise-address"), "{error}");
            }
        }
    }

    #[test]
    fn reads_durations() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("3m", 180.0),
            ("1m30s", 90.0),
            ("500ms", 0.5),
            ("1h", 3_600.0),
            ("1.5h", 5_400.0),
            ("0", 0.0),
        ] {
            assert_eq!(
                duration("--x", text).expect(text).as_secs_f64(),
                seconds,
                "{text}"
            );
        }
        for bad in ["", "5", "s", "-1s", "1.5", "1d"] {
            assert!(duration("--x", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_labels_and_names_the_bad_pair() {
        assert_eq!(labels("a=1, b=2,").expect("fine").len(), 2);
        for bad in ["a", "a=b c", "-=1"] {
            assert!(
                labels(bad)
                    .expect_err("bad")
                    .to_string()
                    .contains("--cluster-labels"),
                "{bad}"
            );
        }
    }
}
