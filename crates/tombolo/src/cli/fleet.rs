//! Commands against a hub.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use commands::{Format, Place};

/// Where the hub is.
#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    /// The hub's kubeconfig [default: that of --data-dir, $KUBECONFIG, .tombolo/kubeconfig, ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The data folder of a `tombolo up`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
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
        }
    }
}

/// How objects are printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// All columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// TYPE/NAME lines.
    Name,
}

impl From<Output> for Format {
    fn from(output: Output) -> Self {
        match output {
            Output::Table => Self::Table,
            Output::Wide => Self::Wide,
            Output::Json => Self::Json,
            Output::Yaml => Self::Yaml,
            Output::Name => Self::Name,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A file, a folder, or - for standard input; may be given several times.
    #[arg(short, long, required = true, value_name = "FILE")]
    pub(crate) filename: Vec<String>,
    /// The namespace of objects that name none.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
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
    /// The namespace of objects that name none.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
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
    /// The namespace.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
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
    /// TYPE, TYPE NAME… or TYPE/NAME….
    #[arg(required = true, value_name = "TYPE[/NAME]")]
    pub(crate) targets: Vec<String>,
    /// The namespace [default: all when listing, default for one object].
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// All namespaces; the default when listing, here for kubectl's sake.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels.
    #[arg(short = 'l', long, default_value = "")]
    pub(crate) selector: String,
    /// How to print.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// TYPE NAME… or TYPE/NAME….
    #[arg(value_name = "TYPE/NAME", required_unless_present = "filename")]
    pub(crate) targets: Vec<String>,
    /// A file, a folder, or - for standard input; may be given several times.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Vec<String>,
    /// The namespace.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// What is not there is no error.
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// TYPE NAME or TYPE/NAME.
    #[arg(required = true, value_name = "TYPE/NAME")]
    pub(crate) targets: Vec<String>,
    /// How many.
    #[arg(long)]
    pub(crate) replicas: u32,
    /// The namespace.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WordsArgs {
    /// TYPE/NAME or TYPE NAME, then KEY=VALUE and KEY- words.
    #[arg(required = true, num_args = 2.., value_name = "TYPE/NAME KEY=VALUE")]
    pub(crate) words: Vec<String>,
    /// The namespace.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ClustersArgs {
    /// How to print.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
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
    /// The parent's address as the child sees it.
    #[arg(long, required_unless_present = "print_rights", value_name = "URL")]
    pub(crate) parent_url: Option<String>,
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
    /// Leaves what the fleet brought into the cluster where it is.
    #[arg(long)]
    pub(crate) keep_objects: bool,
    #[command(flatten)]
    pub(crate) hub: HubArgs,
}
