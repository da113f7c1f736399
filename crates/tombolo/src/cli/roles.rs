//! Roles, with the upstream programs' flags.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::clusters::SyncMode;
use clap::{Args, ValueEnum};

/// Who applies in a cluster.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SyncModeArg {
    /// The agent.
    #[value(name = "Pull")]
    Pull,
    /// The parent.
    #[value(name = "Push")]
    Push,
    /// The parent where it may, else the agent.
    #[value(name = "Dual")]
    Dual,
}

impl From<SyncModeArg> for SyncMode {
    fn from(mode: SyncModeArg) -> Self {
        match mode {
            SyncModeArg::Pull => Self::Pull,
            SyncModeArg::Push => Self::Push,
            SyncModeArg::Dual => Self::Dual,
        }
    }
}

/// Where a role works.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The cluster's kubeconfig [default: the pod's service account].
    #[arg(long, value_name = "FILE", env = "TOMBOLO_KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// How a role's log is written, in the words of upstream's daemons.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// How much is logged if --log does not say: info up to 3, debug with 4 and 5, trace from 6 on.
    #[arg(short, long, value_name = "LEVEL")]
    pub(crate) v: Option<u8>,
    /// `json` is what --log-json is too.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) logging_format: LoggingFormat,
}

/// A form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoggingFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The Lease under which one of several replicas works.
#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// The Lease's namespace.
    #[arg(long, value_name = "NAME", default_value = api::names::SYSTEM_NAMESPACE)]
    pub(crate) leader_elect_resource_namespace: String,
    /// The Lease's name [default: clusternet-agent, clusternet-scheduler, clusternet-controller-manager].
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_elect_resource_name: Option<String>,
    /// How long others respect a Lease that is not renewed.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub(crate) leader_elect_lease_duration: String,
    /// How long renewing is tried before the work is given up.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) leader_elect_renew_deadline: String,
    /// Between two tries.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) leader_elect_retry_period: String,
}

/// What scheduler and controllers take.
#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Works only while it holds the role's Lease, so that several replicas can run.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) leader_elect: bool,
    #[command(flatten)]
    pub(crate) lease: LeaseArgs,
}

/// What a role serves about itself.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The port of /healthz, /livez, /readyz and /metrics, with TLS; 0 for none [default: 10650 for the agent, 10659
    /// for the scheduler, 10660 for the controllers].
    #[arg(long, env = "TOMBOLO_SECURE_PORT")]
    pub(crate) secure_port: Option<u16>,
    /// The address to serve them on.
    #[arg(long, default_value = "0.0.0.0", env = "TOMBOLO_BIND_ADDRESS")]
    pub(crate) bind_address: IpAddr,
}

#[derive(Debug, Args)]
pub(crate) struct HubRoleArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// The port of the aggregated API.
    #[arg(long, default_value_t = 443, env = "TOMBOLO_SECURE_PORT")]
    pub(crate) secure_port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "0.0.0.0", env = "TOMBOLO_BIND_ADDRESS")]
    pub(crate) bind_address: IpAddr,
    /// Where Manifests are kept.
    #[arg(
        long,
        default_value = "clusternet-reserved",
        env = "TOMBOLO_RESERVED_NAMESPACE"
    )]
    pub(crate) reserved_namespace: String,
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    /// What is switched on or off, NAME=true|false separated by commas: ShadowAPI (templates), SocketConnection (tunnels
    /// and the proxy).
    #[arg(long, default_value = "", env = "TOMBOLO_FEATURE_GATES")]
    pub(crate) feature_gates: String,
}

#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// The host name or address under which other hubs of the parent reach this one [default: with --peer-port the
    /// address from which it reaches the parent, else it works alone].
    #[arg(long, value_name = "HOST", env = "TOMBOLO_PEER_ADVERTISE_ADDRESS")]
    pub(crate) peer_advertise_address: Option<String>,
    /// The port for them [default: 8123].
    #[arg(long, env = "TOMBOLO_PEER_PORT")]
    pub(crate) peer_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct SchedulerArgs {
    #[command(flatten)]
    pub(crate) role: RoleArgs,
    #[command(flatten)]
    pub(crate) status: StatusArgs,
    /// Profiles and plugins, in the upstream scheduler's file format.
    #[arg(long, value_name = "FILE", env = "TOMBOLO_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// For how long edits of what is distributed already have to be still before they take effect, such as 250ms or 2s;
    /// 0 for not at all. A Subscription's annotation apps.tombolo.io/settle goes before.
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = api::settle::parse, env = "TOMBOLO_SETTLE")]
    pub(crate) settle: Duration,
    /// The networks in which clusters' predictors may be asked without the tunnel, such as 10.0.0.0/8, separated by
    /// commas: where they are is the clusters' word [default: any but loopback, link-local and multicast addresses].
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        env = "TOMBOLO_PREDICTOR_DIRECT_ACCESS_CIDRS"
    )]
    pub(crate) predictor_direct_access_cidrs: Vec<scheduler::Network>,
    /// What is switched on or off, NAME=true|false separated by commas: FailOver (replicas leave a
    /// cluster that is not ready), FeasibleClustersToleration (some clusters may fail to say what room they have).
    #[arg(long, default_value = "", env = "TOMBOLO_FEATURE_GATES")]
    pub(crate) feature_gates: String,
}

#[derive(Debug, Args)]
pub(crate) struct ControllersArgs {
    #[command(flatten)]
    pub(crate) role: RoleArgs,
    #[command(flatten)]
    pub(crate) status: StatusArgs,
    /// Which controllers run: names, `*` for all, `-NAME` for all but one.
    #[arg(long, default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,
    /// Where Manifests are kept, and what Rollouts may go back to.
    #[arg(
        long,
        default_value = "clusternet-reserved",
        env = "TOMBOLO_RESERVED_NAMESPACE"
    )]
    pub(crate) reserved_namespace: String,
    /// How many objects of one controller are worked on at a time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threadiness: u16,
    /// A custom kind whose replicas can be divided, as `KIND.GROUP=REPLICAS[:TEMPLATE]` with JSON pointers to the number
    /// and to the pod template, such as Rollout.argoproj.io=/spec/replicas:/spec/template. May be given several times.
    #[arg(long, value_name = "KIND")]
    pub(crate) replica_path: Vec<controllers::OwnKind>,
    /// A kubeconfig of a management cluster of Cluster API: its clusters join by themselves, as the Secret
    /// clusternet-cluster-api in its namespace capi-system says (docs/cluster-api.md).
    #[arg(long, value_name = "FILE", env = "TOMBOLO_CLUSTER_API_KUBECONFIG")]
    pub(crate) cluster_api_kubeconfig: Option<PathBuf>,
    /// For how long edits of what is distributed already have to be still before they take effect, such as 250ms or 2s;
    /// 0 for not at all. A Subscription's annotation apps.tombolo.io/settle goes before.
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = api::settle::parse, env = "TOMBOLO_SETTLE")]
    pub(crate) settle: Duration,
    /// What is switched on or off, NAME=true|false separated by commas: ClusterInit (new clusters wait for their init
    /// workload), Deployer (the controller of that name), FeedInUseProtection (a template in use cannot be deleted), FeedInventory, MultiClusterService
    /// (ServiceImports get what clusters export).
    #[arg(long, default_value = "", env = "TOMBOLO_FEATURE_GATES")]
    pub(crate) feature_gates: String,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) status: StatusArgs,
    /// Of several agents of one cluster, the one that holds the Lease works. Always so: the UID of that Lease is the
    /// cluster's id. `false` is refused.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) leader_elect: bool,
    #[command(flatten)]
    pub(crate) lease: LeaseArgs,
    /// How many requests a second the parent may send when it applies.
    #[arg(long, value_name = "NUMBER", default_value_t = 50.0)]
    pub(crate) kube_api_qps: f64,
    /// How many at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) kube_api_burst: i32,
    /// The parent's API server.
    #[arg(long, value_name = "URL", env = "TOMBOLO_CLUSTER_REG_PARENT_URL")]
    pub(crate) cluster_reg_parent_url: String,
    /// What to register with: a bootstrap token (`abcdef.0123456789abcdef`) or a service account's token.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TOMBOLO_CLUSTER_REG_TOKEN",
        hide_env_values = true
    )]
    pub(crate) cluster_reg_token: String,
    /// The parent's certificate authority, PEM; one that the parent tells of is trusted beside it [default: the system's].
    #[arg(long, value_name = "FILE", env = "TOMBOLO_CLUSTER_REG_PARENT_CA")]
    pub(crate) cluster_reg_parent_ca: Option<PathBuf>,
    /// The cluster's name [default: generated].
    #[arg(long, value_name = "NAME", env = "TOMBOLO_CLUSTER_REG_NAME")]
    pub(crate) cluster_reg_name: Option<String>,
    /// The prefix of a generated name.
    #[arg(long, default_value = "clusternet-cluster")]
    pub(crate) cluster_reg_name_prefix: String,
    /// The namespace to ask for on the parent [default: generated].
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster_reg_namespace: Option<String>,
    /// What kind of cluster it is.
    #[arg(long, default_value = "StandardCluster")]
    pub(crate) cluster_reg_type: String,
    /// Who applies, to begin with: the agent (Pull), the parent (Push), or the parent where it may and else the agent
    /// (Dual). Later the ManagedCluster's spec.syncMode counts. Push needs `--feature-gates AppPusher=true`.
    #[arg(long, value_enum, default_value = "Pull", ignore_case = true)]
    pub(crate) cluster_sync_mode: SyncModeArg,
    /// Labels of the cluster, KEY=VALUE separated by commas.
    #[arg(long, default_value = "")]
    pub(crate) cluster_labels: String,
    /// How long the tokens last with which the agent works on the parent, such as 24h. It asks for them itself, renews
    /// each at half of its time, and the parent puts the one away that never ends. An agent that is away for longer needs a
    /// bootstrap token again. 0s keeps the one that never ends.
    #[arg(
        long,
        default_value = "720h",
        value_name = "DURATION",
        env = "TOMBOLO_CLUSTER_TOKEN_LIFETIME"
    )]
    pub(crate) cluster_token_lifetime: String,
    /// How often the status goes to the parent, such as 3m.
    #[arg(long, default_value = "3m")]
    pub(crate) cluster_status_update_frequency: String,
    /// How often the status is collected, such as 20s.
    #[arg(long, default_value = "20s")]
    pub(crate) cluster_status_collect_frequency: String,
    /// Node labels are taken over when this share of the nodes has them.
    #[arg(long, default_value_t = 0.8)]
    pub(crate) labels_aggregate_threshold: f64,
    /// Prefixes of node labels that are taken over, separated by commas.
    #[arg(long, default_value = "node.clusternet.io/", value_delimiter = ',')]
    pub(crate) labels_aggregate_prefix: Vec<String>,
    /// What is switched on or off, NAME=true|false separated by commas: SocketConnection (the tunnel), AppPusher (the
    /// parent may apply), Recovery (undo drift, report the objects' status), Predictor, MultiClusterService (what
    /// ServiceExports name is exported).
    #[arg(long, default_value = "", env = "TOMBOLO_FEATURE_GATES")]
    pub(crate) feature_gates: String,
    /// Where a predictor answers that is to be asked instead of the built-in one, an http or https URL.
    #[arg(long, value_name = "URL", default_value = "", env = "TOMBOLO_PREDICTOR_ADDR")]
    pub(crate) predictor_addr: String,
    /// The scheduler may ask that predictor without the tunnel.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) predictor_direct_access: bool,
    /// The port by which the built-in predictor is known in the tunnel. Nothing listens on it.
    #[arg(long, default_value_t = 8080)]
    pub(crate) predictor_port: u16,
    /// Reads usage from metrics.k8s.io.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) use_metrics_server: bool,
}
