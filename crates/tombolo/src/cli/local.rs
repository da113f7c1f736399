//! Commands that need no hub.

use std::net::SocketAddr;
use std::path::PathBuf;

use api::install::ParentOptions;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use jiff::SignedDuration;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Joins simulated members and distributes a sample application to them.
    #[arg(long)]
    pub(crate) demo: bool,
    /// How many simulated members join, at most 1,000 [default: 3 with --demo, else 0].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(..=1_000))]
    pub(crate) members: Option<usize>,
    /// Where everything is kept.
    #[arg(
        long,
        default_value = ".tombolo",
        value_name = "DIR",
        env = "TOMBOLO_DATA_DIR"
    )]
    pub(crate) data_dir: PathBuf,
    /// Where to listen; port 0 picks a free one, seen in the kubeconfig.
    #[arg(
        long,
        default_value = "127.0.0.1:8443",
        value_name = "ADDR:PORT",
        env = "TOMBOLO_LISTEN"
    )]
    pub(crate) listen: SocketAddr,
    /// Ends with 0 once everything asked for is ready, with 1 after 60 s otherwise.
    #[arg(long)]
    pub(crate) exit_when_ready: bool,
    /// Takes the next step of replacing the hub's certificate authority at once: it announces a new one, lets that sign,
    /// forgets the old one. By itself each step comes in its time, two years before the authority ends.
    #[arg(long)]
    pub(crate) rotate_ca: bool,
    /// Roles that do not run in this process: `tombolo scheduler` and `tombolo controllers` run them elsewhere.
    #[arg(long, value_name = "ROLE", value_enum, value_delimiter = ',')]
    pub(crate) without: Vec<RoleName>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The folder that is made. It must not be there yet, or be empty.
    #[arg(
        long,
        default_value = ".tombolo",
        value_name = "DIR",
        env = "TOMBOLO_DATA_DIR"
    )]
    pub(crate) data_dir: PathBuf,
    #[command(flatten)]
    pub(crate) summary: SummaryArgs,
}

/// How it is said what was done.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// How to say what was done.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: SummaryFormat,
}

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryFormat {
    /// Sentences.
    Text,
    /// One JSON document.
    Json,
}

/// A role that `up` can leave to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Decides where Subscriptions go.
    Scheduler,
    /// Carries out what is decided.
    Controllers,
}

impl From<RoleName> for assembly::Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Scheduler => Self::Scheduler,
            RoleName::Controllers => Self::Controllers,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// The seed: the same one gives the same run, to the byte of its trace [default: 1, or with --fresh-seeds-for a
    /// random first one].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Runs seed after seed for that long, such as `60s`, until one fails; this time is the real one.
    #[arg(long, value_name = "DURATION")]
    pub(crate) fresh_seeds_for: Option<SignedDuration>,
    /// How many faults a run has at most at its beginning; in each later part, half as many [default: 6, or one for
    /// each 20 clusters if that is more].
    #[arg(long, value_name = "N")]
    pub(crate) faults: Option<usize>,
    /// How many clusters are simulated beside the parent, at most 5,000; each takes some 5 to 10 MB of memory.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) clusters: usize,
    /// For how long, in virtual time, things go on happening, such as `1h`; without it, a few things happen once.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasts: Option<SignedDuration>,
    /// Prints the trace itself: every write and every fault, of a long run the last million.
    #[arg(long)]
    pub(crate) trace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The hub runs outside the cluster, at this DNS name that the parent's API server can resolve. That server must not
    /// run with --enable-aggregator-routing=true, which takes no Services of type ExternalName.
    #[arg(long, value_name = "NAME")]
    pub(crate) hub_external_name: Option<String>,
    /// The hub's port.
    #[arg(long, default_value_t = 443)]
    pub(crate) hub_port: u16,
    /// The image with this program: Deployments of the roles become part of the manifests.
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Lets anybody reach the cluster proxy's door, as upstream does; the child's credential still decides.
    #[arg(long)]
    pub(crate) compat_anonymous_proxy: bool,
    /// The prefix of labels of its ManagedCluster that a child may change: what its agent is told with
    /// --labels-aggregate-prefix. May be given several times.
    #[arg(long, value_name = "PREFIX", default_value = "node.clusternet.io/")]
    pub(crate) child_label_prefix: Vec<String>,
}

impl From<InstallArgs> for ParentOptions {
    fn from(args: InstallArgs) -> Self {
        Self {
            hub_external_name: args.hub_external_name,
            hub_port: args.hub_port,
            image: args.image,
            compat_anonymous_proxy: args.compat_anonymous_proxy,
            child_label_prefixes: args.child_label_prefix,
        }
    }
}
