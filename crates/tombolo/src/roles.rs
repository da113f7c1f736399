//! One role against a cluster: from flags to its checked configuration.

use std::net::SocketAddr;
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

use crate::cli::{AgentArgs, ClusterArgs, ControllersArgs, HubRoleArgs, RoleArgs, SchedulerArgs, StatusArgs};
use crate::run::Failure;

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

fn election(role: &RoleArgs, lease: &str, env: &Env) -> Option<ElectorConfig> {
    role.leader_elect
        .then(|| ElectorConfig::new(names::SYSTEM_NAMESPACE, lease, identity(env)))
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

pub(crate) async fn hub(args: HubRoleArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let address = SocketAddr::from((args.bind_address, args.secure_port));
    let listener = listen(address).await?;
    let mut config = ::hub::ServeConfig::default();
    config.hub.reserved_namespace = args.reserved_namespace;
    config.peers = args
        .peers
        .peer_advertise_address
        .map(|advertise| ::hub::PeerConfig {
            listen: SocketAddr::from((args.bind_address, args.peers.peer_port)),
            advertise,
        });
    Ok(::hub::serve(
        config,
        client(&args.role.cluster).await?,
        listener,
        Env::system(),
        shutdown,
    )
    .await?)
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
        election: election(&args.role, names::SCHEDULER, env),
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
    config.election = election(&args.role, names::CONTROLLERS, env);
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

/// A Go duration of whole units: `90s`, `3m`, `1m30s`, `500ms`.
pub(crate) fn duration(flag: &str, text: &str) -> anyhow::Result<Duration> {
    let wrong = || anyhow!("{flag} {text:?} is no duration such as 90s, 3m or 1m30s");
    let (mut sum, mut rest) = (Duration::ZERO, text);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let amount: u32 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit_end = rest[digits..]
            .find(|c: char| c.is_ascii_digit())
            .map_or(rest.len(), |end| digits + end);
        let unit = match &rest[digits..unit_end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(wrong()),
        };
        sum += unit.checked_mul(amount).ok_or_else(wrong)?;
        rest = &rest[unit_end..];
    }
    Ok(sum)
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
    fn reads_durations() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("3m", 180.0),
            ("1m30s", 90.0),
            ("500ms", 0.5),
            ("1h", 3_600.0),
        ] {
            assert_eq!(
                duration("--x", text).expect(text).as_secs_f64(),
                seconds,
                "{text}"
            );
        }
        for bad in ["", "5", "s", "-1s", "1.5s", "1d"] {
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
