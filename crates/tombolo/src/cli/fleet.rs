//! Commands against a hub.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use commands::{Format, Namespaces, ParentUrl, Place, Trial, Which};
use kubeio::Choice;

use super::SummaryArgs;

/// Where the hub is.
#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    /// The hub's kubeconfig, one file [default: that of --data-dir, the files of $KUBECONFIG as one,
    /// .tombolo/kubeconfig, ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The data folder of a `tombolo up`.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The kubeconfig's context [default: its current one].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The kubeconfig's user [default: the context's].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[arg(long, env = "KUBECONFIG", hide = true)]
    environment: Option<String>,
    #[arg(long, env = "HOME", hide = true)]
    home: Option<PathBuf>,
}

impl From<&HubArgs> for Place {
    fn from(args: &HubArgs) -> Self {
        Self {
            kubeconfig: args.kubeconfig.clone(),
            data_dir: args.data_dir.clone(),
            environment: args.environment.clone(),
            home: args.home.clone(),
            choice: Choice {
                context: args.context.clone(),
                user: args.user.clone(),
            },
        }
    }
}

/// The namespace of one or more objects.
#[derive(Debug, Args)]
pub(crate) struct NamespaceArgs {
    /// The namespace [default: the context's, else default].
    #[arg(short, long)]
    namespace: Option<String>,
}

impl From<&NamespaceArgs> for Namespaces {
    fn from(args: &NamespaceArgs) -> Self {
        args.namespace.clone().map_or(Self::Usual, Self::Given)
    }
}

/// The namespace of objects, or all.
#[derive(Debug, Args)]
pub(crate) struct NamespacesArgs {
    #[command(flatten)]
    one: NamespaceArgs,
    /// All namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

impl From<&NamespacesArgs> for Namespaces {
    fn from(args: &NamespacesArgs) -> Self {
        if args.all_namespaces {
            Self::All
        } else {
            Self::from(&args.one)
        }
    }
}

/// Which objects of types are meant.
#[derive(Debug, Args)]
pub(crate) struct WhichArgs {
    /// Those with these labels.
    #[arg(short = 'l', long, conflicts_with = "all")]
    pub(crate) selector: Option<String>,
    /// All of the types.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) namespaces: NamespacesArgs,
}

impl From<&WhichArgs> for Which {
    fn from(args: &WhichArgs) -> Self {
        match &args.selector {
            Some(selector) => Self::Labelled(selector.clone()),
            None if args.all => Self::All,
            None => Self::Named,
        }
    }
}

/// How objects are printed.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// How to print: table, wide, json, yaml, name (TYPE/NAME lines), jsonpath=TEMPLATE,
    /// custom-columns=HEADER:PATH,….
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// `--dry-run`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TrialArg {
    /// It is done.
    None,
    /// It is only said what would be done.
    Client,
    /// The hub tries it, and changes nothing.
    Server,
}

impl From<TrialArg> for Trial {
    fn from(trial: TrialArg) -> Self {
        match trial {
            TrialArg::None => Self::No,
            TrialArg::Client => Self::Client,
            TrialArg::Server => Self::Server,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A file, a folder, or - for standard input; may be given several times.
    #[arg(short, long, required = true, value_name = "FILE")]
    pub(crate) filename: Vec<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Lets the hub keep track of who owns which fields, instead of an annotation with all that was applied: needed for
    /// objects over 256 KiB.
    #[arg(long)]
    server_side: bool,
    /// Takes over fields that another manager owns.
    #[arg(long, requires = "server_side")]
    force_conflicts: bool,
    /// The name under which the fields are owned.
    #[arg(
        long,
        default_value = "kubectl",
        value_name = "NAME",
        requires = "server_side"
    )]
    field_manager: String,
}

impl ApplyArgs {
    /// Who keeps track of what was applied.
    pub(crate) fn tracking(&self) -> commands::Tracking {
        if !self.server_side {
            return commands::Tracking::Annotation;
        }
        commands::Tracking::FieldManager {
            manager: self.field_manager.clone(),
            force: self.force_conflicts,
        }
    }
}

/// Where kubectl is.
#[derive(Debug, Args)]
pub(crate) struct KubectlArgs {
    /// kubectl, as it is to be started.
    #[arg(
        long,
        default_value = "kubectl",
        value_name = "PROGRAM",
        env = "TOMBOLO_KUBECTL"
    )]
    pub(crate) kubectl: String,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// A file, a folder, or - for standard input; may be given several times.
    #[arg(short, long, value_name = "FILE", conflicts_with = "words")]
    pub(crate) filename: Vec<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) kubectl: KubectlArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// What kubectl create takes, such as `deployment web --image nginx`; needs kubectl. Everything from here on is for
    /// kubectl.
    #[arg(
        required_unless_present = "filename",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TYPE"
    )]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// TYPE NAME… or TYPE/NAME….
    #[arg(required = true, value_name = "TYPE/NAME")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// The editor, a shell command [default: $KUBE_EDITOR, $EDITOR, vi].
    #[arg(long, value_name = "COMMAND", env = "KUBE_EDITOR", hide_env = true)]
    editor: Option<String>,
    #[arg(long, env = "EDITOR", hide = true)]
    usual_editor: Option<String>,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

impl EditArgs {
    pub(crate) fn editor(&self) -> &str {
        let named = [&self.editor, &self.usual_editor].into_iter().flatten();
        let mut named = named.filter(|editor| !editor.is_empty());
        named.next().map_or("vi", String::as_str)
    }
}

#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// The cluster: its name, NAMESPACE/NAME or id.
    #[arg(long)]
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) kubectl: KubectlArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
    /// What kubectl takes; needs kubectl. Everything from here on is for kubectl.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "POD"
    )]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// TYPE, TYPE NAME… or TYPE/NAME…; TYPE,TYPE means several, and a category such as `all` means its
    /// members.
    #[arg(required = true, value_name = "TYPE[/NAME]")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) namespaces: NamespacesArgs,
    /// Only objects with these labels.
    #[arg(short = 'l', long, default_value = "")]
    pub(crate) selector: String,
    /// Prints changes too, until it is ended.
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// TYPE NAME… or TYPE/NAME…; with --selector or --all just TYPE, or TYPE,TYPE.
    #[arg(value_name = "TYPE/NAME", required_unless_present = "filename")]
    pub(crate) targets: Vec<String>,
    /// A file, a folder, or - for standard input; may be given several times.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["targets", "selector", "all", "all_namespaces"])]
    pub(crate) filename: Vec<String>,
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// What is not there is no error.
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Deletes nothing: client says what would be deleted, server lets the hub try it.
    #[arg(long, value_enum, default_value = "none", value_name = "HOW")]
    pub(crate) dry_run: TrialArg,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// TYPE NAME… or TYPE/NAME…; with --selector or --all just TYPE, or TYPE,TYPE.
    #[arg(required = true, value_name = "TYPE/NAME")]
    pub(crate) targets: Vec<String>,
    /// How many.
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    pub(crate) replicas: u32,
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WordsArgs {
    /// TYPE/NAME or TYPE NAME (with --selector or --all just TYPE, or TYPE,TYPE), then KEY=VALUE and KEY- words.
    #[arg(required = true, value_name = "TYPE/NAME KEY=VALUE")]
    pub(crate) words: Vec<String>,
    /// Replaces values that are there already; without it, that is an error.
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ClustersArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The Subscription: its name, alone or as subscription/NAME.
    pub(crate) name: String,
    /// The configuration file of the scheduler that decides [default: none].
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

/// What is asked of a Rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RolloutAction {
    /// Says how far it is, wave by wave; exit code 1 if it failed.
    Status,
    /// Lets nothing new go out.
    Pause,
    /// Lets it go on.
    Resume,
    /// Takes all clusters back to the version before this one.
    Undo,
    /// Brings out the version that failed once more.
    Retry,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    /// What is asked of it.
    #[arg(value_enum)]
    pub(crate) action: RolloutAction,
    /// The Rollout.
    pub(crate) name: String,
    /// With status: says what changes, until it is complete, back or failed.
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// A file, a folder, or - for standard input; may be given several times. Subscriptions, Globalizations,
    /// Localizations, HelmCharts and templates, as they would be after the edit.
    #[arg(short, long, required = true, value_name = "FILE")]
    pub(crate) filename: Vec<String>,
    /// Shows what deleting the objects would change.
    #[arg(long)]
    pub(crate) delete: bool,
    /// The configuration file of the scheduler that would decide [default: none].
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
    /// A custom kind whose replicas can be divided, as the controllers are told: `KIND.GROUP=REPLICAS[:TEMPLATE]`. Those
    /// that the Subscription divides already are known. May be given several times.
    #[arg(long, value_name = "KIND")]
    pub(crate) replica_path: Vec<controllers::OwnKind>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file. Only its owner may read it.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replaces a file that is there already, once the backup is whole.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) summary: SummaryArgs,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KubeconfigArgs {
    /// The cluster: its name, NAMESPACE/NAME or id.
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Prints the agent's namespace, identities and rights only; needs no hub.
    #[arg(long)]
    pub(crate) print_rights: bool,
    /// The name the cluster gets.
    #[arg(long, required_unless_present = "print_rights")]
    pub(crate) name: Option<String>,
    /// The parent's address as the child sees it, such as `https://hub.example.com:6443`.
    #[arg(long, required_unless_present = "print_rights", value_name = "URL")]
    pub(crate) parent_url: Option<ParentUrl>,
    /// The image with this program.
    #[arg(long, default_value = "tombolo:latest")]
    pub(crate) image: String,
    /// What the parent may send there, as GROUP/RESOURCE (core: just RESOURCE), besides the usual kinds.
    #[arg(long, value_name = "GROUP/RESOURCE")]
    pub(crate) allow: Vec<String>,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LeaveArgs {
    /// The kubeconfig of the cluster that leaves.
    #[arg(long, value_name = "FILE")]
    pub(crate) child_kubeconfig: PathBuf,
    /// Leaves what the fleet brought into the cluster where it is, running, as the cluster's own. Another hub that is
    /// joined then takes over what it sends of the same name.
    #[arg(long)]
    pub(crate) keep_objects: bool,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}
