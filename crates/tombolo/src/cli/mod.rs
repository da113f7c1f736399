//! The command line: what can be typed. No logic; `main` maps it to what the crates below take.

mod daemon;
mod fleet;
mod local;
#[cfg(test)]
mod page;
mod roles;

use clap::{Parser, Subcommand};
use runtime::LogFormat;

pub(crate) use daemon::{Passed, read};
pub(crate) use fleet::{
    ApplyArgs, BackupArgs, ClustersArgs, CreateArgs, DeleteArgs, EditArgs, ExplainArgs, FileArgs, GetArgs,
    HubArgs, JoinArgs, KubeconfigArgs, LeaveArgs, MemberArgs, PlanArgs, RolloutAction, RolloutArgs,
    ScaleArgs, WordsArgs,
};
pub(crate) use local::{InstallArgs, RestoreArgs, SimArgs, SummaryArgs, SummaryFormat, UpArgs};
pub(crate) use roles::{
    AgentArgs, ClusterArgs, ControllersArgs, HubRoleArgs, LeaseArgs, LogArgs, LoggingFormat, RoleArgs,
    SchedulerArgs, StatusArgs,
};

/// Joins Kubernetes clusters to one control plane, and distributes to them.
///
/// Start with `tombolo up --demo`: three simulated clusters in one process. Then `tombolo clusters`,
/// `tombolo get deployments -A`, and kubectl with the kubeconfig that `up` names.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Which log lines go to standard error, such as `info` or `warn,tunnel=debug` [default: warn].
    #[arg(long, global = true, env = "TOMBOLO_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Log lines as JSON.
    #[arg(long, global = true, env = "TOMBOLO_LOG_JSON")]
    pub(crate) log_json: bool,
}

impl Cli {
    /// Which log lines are written, and in which form.
    pub(crate) fn logging(&self) -> (&str, LogFormat) {
        let role = match &self.command {
            Command::Role(RoleCommand::Hub(args)) => Some(&args.log),
            Command::Role(RoleCommand::Scheduler(args)) => Some(&args.role.log),
            Command::Role(RoleCommand::Controllers(args)) => Some(&args.role.log),
            Command::Role(RoleCommand::Agent(args)) => Some(&args.log),
            Command::Up(_) | Command::Sim(_) | Command::Person(_) => None,
        };
        let by_level = match role.and_then(|role: &LogArgs| role.v) {
            None => "warn",
            Some(0..=3) => "info",
            Some(4..=5) => "debug",
            Some(6..) => "trace",
        };
        let json = self.log_json || role.is_some_and(|role| role.logging_format == LoggingFormat::Json);
        let format = if json { LogFormat::Json } else { LogFormat::Text };
        (self.log.as_deref().unwrap_or(by_level), format)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a whole fleet's control plane in this process.
    Up(UpArgs),
    /// Runs one deterministic simulation of a fleet, with faults.
    ///
    /// Members, agents, tunnels, hub, scheduler and controllers run in this one process, on virtual time: the very code
    /// that runs in earnest, on simulated disks, clocks and networks. An application is sent out, changed, moved between
    /// clusters and taken back; clusters leave the fleet and join it. Meanwhile things go wrong as the seed says:
    /// partitions, silence, lost answers, writes and events that arrive twice or late, clocks that are set, full disks,
    /// crashes between any two writes.
    ///
    /// At each write it is checked that nothing is made outside a Subscription, nothing is deleted that is wanted or not
    /// ours, replicas that move stay above their floor, and revisions and generations only grow. Whenever nothing has
    /// gone wrong for a while, everything must have come right: each object where it should be and nowhere else, each
    /// deletion at its end, each status true, and no write without need.
    ///
    /// Exit code 0 says that all of it held. Otherwise the seed, what was violated, what had gone wrong and the
    /// command that repeats the run are printed.
    ///
    /// Examples: `tombolo sim --seed 7`; `tombolo sim --fresh-seeds-for 60s`; `tombolo sim --seed 7 --clusters 1000
    /// --for 1h`.
    Sim(SimArgs),
    #[command(flatten)]
    Person(PersonCommand),
    #[command(flatten)]
    Role(RoleCommand),
}

/// What a person does with a hub.
#[derive(Debug, Subcommand)]
pub(crate) enum PersonCommand {
    /// Makes the hub's templates as files say.
    Apply(ApplyArgs),
    /// Makes templates that must not be there yet.
    Create(CreateArgs),
    /// Shows what apply would change; exit code 1 if anything.
    Diff(FileArgs),
    /// Prints templates and the fleet's own objects.
    Get(GetArgs),
    /// Opens templates in an editor.
    Edit(EditArgs),
    /// Removes templates.
    Delete(DeleteArgs),
    /// Sets a template's number of replicas.
    Scale(ScaleArgs),
    /// Sets (KEY=VALUE) and removes (KEY-) labels of a template.
    Label(WordsArgs),
    /// Sets (KEY=VALUE) and removes (KEY-) annotations of a template.
    Annotate(WordsArgs),
    /// Prints which kinds of templates the hub takes.
    ApiResources(HubArgs),
    /// Prints the version of this program and of the hub.
    Version(HubArgs),
    /// Prints the clusters.
    Clusters(ClustersArgs),
    /// Says of each cluster whether a Subscription goes there, why, and what would have to change.
    Explain(ExplainArgs),
    /// Shows what an edit would change in the clusters, before anybody makes it; exit code 1 if anything.
    Plan(PlanArgs),
    /// Says how far a Rollout is, and stops, resumes, undoes and retries it.
    Rollout(RolloutArgs),
    /// Prints a kubeconfig that reaches a cluster through the hub.
    Kubeconfig(KubeconfigArgs),
    /// Runs a command in a pod of a cluster: `exec --cluster NAME -n NAMESPACE POD -- COMMAND`.
    Exec(MemberArgs),
    /// Prints the logs of a cluster's pods: `logs --cluster NAME -n NAMESPACE POD`.
    Logs(MemberArgs),
    /// Forwards local ports to a pod of a cluster: `port-forward --cluster NAME -n NAMESPACE POD PORT`.
    PortForward(MemberArgs),
    /// Prints what a cluster needs to join.
    Join(JoinArgs),
    /// Takes a cluster out of the fleet, leaving nothing behind on either side.
    Leave(LeaveArgs),
    /// Writes a backup of the hub of a `tombolo up` to a file: all its objects at one moment, and its keys.
    ///
    /// The hub may run meanwhile; with --data-dir it need not. Whoever reads the file can act as the hub: it holds the keys
    /// of its certificate authorities and all Secrets. Simulated members are clusters of their own and not in it.
    Backup(BackupArgs),
    /// Makes the data folder of a hub of a backup; `tombolo up` then serves it.
    ///
    /// What clusters have and the backup does not know stays in them until somebody says otherwise: see docs/recovery.md.
    Restore(RestoreArgs),
    /// Prints the manifests that prepare a real parent cluster.
    Install(InstallArgs),
    /// Prints the custom resource definitions alone.
    Crds,
}

/// One role, against a cluster. The command line of upstream's daemon of that role is taken too; of its flags that do
/// nothing here the log says why.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Runs the hub on a parent cluster: shadow API, cluster proxy, tunnels.
    #[command(version)]
    Hub(HubRoleArgs),
    /// Runs the scheduler on a parent cluster.
    #[command(version)]
    Scheduler(SchedulerArgs),
    /// Runs the controllers on a parent cluster.
    #[command(version)]
    Controllers(ControllersArgs),
    /// Runs the agent in a child cluster.
    #[command(version)]
    Agent(Box<AgentArgs>),
}
