//! From what was typed to what the crates below take.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use api::install::{ChildOptions, Kinds};
use assembly::UpConfig;
use assembly::sim::{SimConfig, SimFailure};
use clock::Env;
use commands::{
    Brought, Deletion, Existing, Follow, Hub, Intent, JoinOptions, KubectlWords, Listing, Namespaces, Order,
    Place, PlanOptions, Selection, Source, Target, Which, Words,
};
use jiff::SignedDuration;
use runtime::CancellationToken;

use crate::cli::{
    Command, DeleteArgs, ExplainArgs, FileArgs, HubArgs, JoinArgs, LeaveArgs, MemberArgs, PersonCommand,
    PlanArgs, RoleCommand, RolloutAction, RolloutArgs, SimArgs, UpArgs, WordsArgs,
};
use crate::out::{OnLoss, Out};
use crate::{recovery, roles};

/// What failed, and the exit code that says so.
pub(crate) struct Failure {
    /// `None` if everything is said already.
    pub(crate) error: Option<anyhow::Error>,
    pub(crate) code: u8,
}

impl Failure {
    /// What was typed makes no sense.
    pub(crate) fn usage(error: anyhow::Error) -> Self {
        Self {
            error: Some(error),
            code: 2,
        }
    }

    /// What goes wrong with a command whose exit code 1 says that there are differences.
    pub(crate) fn untold(self) -> Self {
        Self { code: 2, ..self }
    }
}

impl From<commands::Error> for Failure {
    fn from(error: commands::Error) -> Self {
        let code = if matches!(error, commands::Error::Usage(_)) {
            2
        } else {
            1
        };
        Self {
            error: Some(error.into()),
            code,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self {
            error: Some(error),
            code: 1,
        }
    }
}

impl From<assembly::Error> for Failure {
    fn from(error: assembly::Error) -> Self {
        Self {
            error: Some(error.into()),
            code: 1,
        }
    }
}

/// Says what failed and why, once.
pub(crate) fn complain(error: &anyhow::Error, code: u8) -> ExitCode {
    // Where standard error is gone there is nobody to tell.
    let _unheard = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::from(code)
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    if let Command::Sim(args) = command {
        // It brings its own runtimes, whose time is not ours.
        return sim(&args);
    }
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        // A worker that begins with a long answer hands over the watch on sockets and timers first.
        .enable_eager_driver_handoff()
        .build()
        .map_err(anyhow::Error::from)?;
    runtime.block_on(dispatch(command))
}

/// Cancelled by Ctrl-C and SIGTERM.
fn on_signal() -> Result<CancellationToken, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let shutdown = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(anyhow::Error::from)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(anyhow::Error::from)?;
    let token = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
    });
    Ok(shutdown)
}

async fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Up(args) => {
            // Its work is not its output.
            let mut out = Out::new(std::io::stdout(), OnLoss::GoOn);
            let ended = assembly::up(up_config(args), Env::system(), on_signal()?, &mut out).await;
            out.end(ended.map_err(Failure::from))
        }
        Command::Sim(_) => unreachable!("it was run before there was a runtime"),
        Command::Person(command) => {
            let mut out = Out::new(std::io::stdout(), on_loss(&command));
            let outcome = person(command, &mut out).await;
            out.end(outcome)
        }
        Command::Role(command) => {
            let shutdown = on_signal()?;
            match command {
                RoleCommand::Hub(args) => roles::hub(args, shutdown).await,
                RoleCommand::Scheduler(args) => roles::scheduler(args, shutdown).await,
                RoleCommand::Controllers(args) => roles::controllers(args, shutdown).await,
                RoleCommand::Agent(args) => roles::agent(*args, shutdown).await,
            }
        }
    }
}

/// What a command does when nobody takes its output any more.
fn on_loss(command: &PersonCommand) -> OnLoss {
    match command {
        PersonCommand::Get(_)
        | PersonCommand::ApiResources(_)
        | PersonCommand::Version(_)
        | PersonCommand::Clusters(_)
        | PersonCommand::Explain(_)
        | PersonCommand::Kubeconfig(_)
        | PersonCommand::Install(_)
        | PersonCommand::Crds => OnLoss::Stop,
        PersonCommand::Rollout(args) if args.action == RolloutAction::Status => OnLoss::Stop,
        PersonCommand::Join(args) if args.print_rights => OnLoss::Stop,
        PersonCommand::Join(_) => OnLoss::Fail,
        PersonCommand::Diff(_) | PersonCommand::Plan(_) => OnLoss::GoOnTelling,
        PersonCommand::Apply(_)
        | PersonCommand::Create(_)
        | PersonCommand::Edit(_)
        | PersonCommand::Delete(_)
        | PersonCommand::Scale(_)
        | PersonCommand::Label(_)
        | PersonCommand::Annotate(_)
        | PersonCommand::Exec(_)
        | PersonCommand::Logs(_)
        | PersonCommand::PortForward(_)
        | PersonCommand::Rollout(_)
        | PersonCommand::Leave(_)
        | PersonCommand::Backup(_)
        | PersonCommand::Restore(_) => OnLoss::GoOn,
    }
}

/// A hub for a command that is not about namespaces.
pub(crate) async fn hub(args: &HubArgs) -> Result<Hub, Failure> {
    hub_in(args, Namespaces::Usual).await
}

async fn hub_in(args: &HubArgs, namespaces: impl Into<Namespaces>) -> Result<Hub, Failure> {
    Ok(Hub::connect(&Place::from(args), namespaces.into()).await?)
}

async fn person(command: PersonCommand, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    match command {
        PersonCommand::Apply(args) => {
            let (hub, sources) = files(&args.files).await?;
            commands::apply(&hub, &sources, &args.tracking(), out).await?;
        }
        PersonCommand::Create(args) => {
            let mut sources = sources(&args.filename);
            if !args.words.is_empty() {
                sources.push(Source::Generated {
                    kubectl: args.kubectl.kubectl,
                    words: KubectlWords::parse("create", args.words)?,
                });
            }
            let hub = hub_in(&args.hub, &args.namespace).await?;
            commands::create(&hub, &sources, out).await?;
        }
        PersonCommand::Edit(args) => {
            let selection = Selection::parse(&args.targets, Which::Named, "edit")?;
            let hub = hub_in(&args.hub, &args.namespace).await?;
            commands::edit(&hub, &selection, args.editor(), out).await?;
        }
        PersonCommand::Diff(args) => {
            let (hub, sources) = files(&args).await.map_err(Failure::untold)?;
            diff(commands::diff(&hub, &sources, out).await)?;
        }
        PersonCommand::Get(args) => {
            let targets = Target::parse(&args.targets)?;
            let hub = hub_in(&args.hub, &args.namespaces).await?;
            let listing = Listing {
                selector: args.selector,
                format: args.output.output,
                watch: args.watch,
            };
            commands::get(&hub, &targets, &listing, out).await?;
        }
        PersonCommand::Delete(args) => delete(args, out).await?,
        PersonCommand::Scale(args) => {
            let selection = Selection::parse(&args.targets, Which::from(&args.which), "scale")?;
            let hub = hub_in(&args.hub, &args.which.namespaces).await?;
            commands::scale(&hub, &selection, args.replicas, out).await?;
        }
        PersonCommand::Label(args) => {
            let Change {
                hub,
                selection,
                words,
                existing,
            } = change(&args, "label").await?;
            commands::label(&hub, &selection, &words, existing, out).await?;
        }
        PersonCommand::Annotate(args) => {
            let Change {
                hub,
                selection,
                words,
                existing,
            } = change(&args, "annotate").await?;
            commands::annotate(&hub, &selection, &words, existing, out).await?;
        }
        PersonCommand::ApiResources(args) => commands::api_resources(&hub(&args).await?, out).await?,
        PersonCommand::Clusters(args) => {
            let hub = hub(&args.hub).await?;
            commands::clusters(&hub, &args.output.output, Env::system().now(), out).await?;
        }
        PersonCommand::Explain(args) => explain(args, out).await?,
        PersonCommand::Plan(args) => plan(args, out).await?,
        PersonCommand::Rollout(args) => rollout(args, out).await?,
        PersonCommand::Kubeconfig(args) => {
            commands::kubeconfig(&hub(&args.hub).await?, &args.cluster, out).await?;
        }
        PersonCommand::Exec(args) => in_member("exec", args).await?,
        PersonCommand::Logs(args) => in_member("logs", args).await?,
        PersonCommand::PortForward(args) => in_member("port-forward", args).await?,
        PersonCommand::Version(args) => {
            commands::version(&hub(&args).await?, env!("CARGO_PKG_VERSION"), out).await?;
        }
        PersonCommand::Join(args) => join(args, out).await?,
        PersonCommand::Leave(args) => leave(args, out).await?,
        PersonCommand::Backup(args) => recovery::backup(args, out).await?,
        PersonCommand::Restore(args) => recovery::restore(args, out).await?,
        PersonCommand::Install(args) => commands::install(&args.into(), out)?,
        PersonCommand::Crds => commands::crds(out)?,
    }
    Ok(())
}

async fn delete(args: DeleteArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let sources = sources(&args.filename);
    let selection = if args.targets.is_empty() {
        Selection::default()
    } else {
        Selection::parse(&args.targets, Which::from(&args.which), "delete")?
    };
    let hub = hub_in(&args.hub, &args.which.namespaces).await?;
    let deletion = Deletion {
        ignore_not_found: args.ignore_not_found,
        trial: args.dry_run.into(),
    };
    Ok(commands::delete(&hub, &sources, &selection, deletion, out).await?)
}

async fn explain(args: ExplainArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let config = roles::placement_config(args.scheduler_config.as_deref()).map_err(Failure::usage)?;
    let hub = hub_in(&args.hub, &args.namespace).await?;
    let now = Env::system().now();
    Ok(commands::explain(&hub, &args.name, &config, now, &args.output.output, out).await?)
}

async fn rollout(args: RolloutArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    if args.watch && args.action != RolloutAction::Status {
        return Err(Failure::usage(anyhow::anyhow!(
            "--watch: only `rollout status` watches; leave it out"
        )));
    }
    let hub = hub_in(&args.hub, &args.namespace).await?;
    let order = match args.action {
        RolloutAction::Status => {
            let follow = if args.watch { Follow::ToTheEnd } else { Follow::Now };
            return Ok(commands::rollout_status(&hub, &args.name, follow, &args.output.output, out).await?);
        }
        RolloutAction::Pause => Order::Pause,
        RolloutAction::Resume => Order::Resume,
        RolloutAction::Undo => Order::Undo,
        RolloutAction::Retry => Order::Retry,
    };
    Ok(commands::rollout_order(&hub, &args.name, order, out).await?)
}

async fn leave(args: LeaveArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let child = Place {
        kubeconfig: Some(args.child_kubeconfig),
        ..Place::default()
    };
    let child = Hub::connect(&child, Namespaces::Usual).await?.client;
    let brought = if args.keep_objects {
        Brought::Keep
    } else {
        Brought::Remove
    };
    Ok(commands::leave(&hub(&args.hub).await?, &child, brought, out).await?)
}

/// Hands over to kubectl, whose exit code is ours.
async fn in_member(verb: &str, args: MemberArgs) -> Result<(), Failure> {
    let words = KubectlWords::parse(verb, args.words)?;
    // Ctrl-C ends kubectl, and then us: what was made for it is cleared up.
    let _survives = on_signal()?;
    let hub = hub(&args.hub).await?;
    match commands::in_member(&hub, &args.cluster, &args.kubectl.kubectl, verb, &words).await? {
        0 => Ok(()),
        code => Err(Failure { error: None, code }),
    }
}

async fn plan(args: PlanArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let options = PlanOptions {
        placement: roles::placement_config(args.scheduler_config.as_deref()).map_err(Failure::usage)?,
        own_kinds: args.replica_path,
        now: Some(Env::system().now()),
    };
    let intent = if args.delete {
        Intent::Delete
    } else {
        Intent::Apply
    };
    let hub = hub_in(&args.hub, &args.namespace)
        .await
        .map_err(Failure::untold)?;
    let sources = sources(&args.filename);
    diff(commands::plan(&hub, &sources, intent, &options, &args.output.output, out).await)
}

/// As kubectl's: exit code 1 says that there are differences, above 1 that it failed.
fn diff(outcome: Result<(), commands::Error>) -> Result<(), Failure> {
    outcome.map_err(|error| {
        if matches!(error, commands::Error::Differs) {
            Failure { error: None, code: 1 }
        } else {
            Failure {
                error: Some(error.into()),
                code: 2,
            }
        }
    })
}

fn sim(args: &SimArgs) -> Result<(), Failure> {
    // Its exit code is its verdict.
    let mut out = Out::new(std::io::stdout(), OnLoss::GoOn);
    let outcome = simulate(args, &mut out);
    out.end(outcome)
}

/// The most clusters of a simulation.
const MOST_SIMULATED: usize = 5_000;
/// Up to so many a run is over before anybody wonders.
const SMALL_FLEET: usize = 30;

fn simulate(args: &SimArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let failed = |failure: Box<SimFailure>| Failure {
        error: Some(failure.into()),
        code: 1,
    };
    if args.clusters == 0 || args.clusters > MOST_SIMULATED {
        return Err(Failure::usage(anyhow::anyhow!(
            "--clusters {}: give a number from 1 to {MOST_SIMULATED}",
            args.clusters
        )));
    }
    let large = args.clusters > SMALL_FLEET;
    let config = |seed| SimConfig {
        faults: args
            .faults
            .unwrap_or_else(|| SimConfig::faults_among(args.clusters)),
        clusters: args.clusters,
        lasts: args
            .lasts
            .map(|lasts| Duration::try_from(lasts).unwrap_or_default()),
        seed,
    };
    let Some(span) = args.fresh_seeds_for else {
        let config = config(args.seed.unwrap_or(1));
        let outcome = if large || args.lasts.is_some() {
            // Nobody minds if these are not read.
            let tell = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
            assembly::sim::run_told(&config, tell)
        } else {
            assembly::sim::run(&config)
        };
        if args.trace {
            let trace = outcome
                .as_ref()
                .map_or_else(|failure| &failure.trace, |report| &report.trace);
            trace
                .iter()
                .try_for_each(|line| writeln!(out, "{line}"))
                .map_err(anyhow::Error::from)?;
        }
        let report = outcome.map_err(failed)?;
        return Ok(writeln!(out, "{report}").map_err(anyhow::Error::from)?);
    };
    let env = Env::system();
    // Short enough to be typed.
    let first = args.seed.unwrap_or_else(|| env.random_u64() % 1_000_000_000);
    let end = env.now() + span;
    let runs = assembly::sim::run_fresh(config(first), || env.now() < end, out).map_err(failed)?;
    Ok(writeln!(out, "{runs} seeds went well, from {first} on").map_err(anyhow::Error::from)?)
}

fn up_config(args: UpArgs) -> UpConfig {
    UpConfig {
        data_dir: args.data_dir,
        listen: args.listen,
        members: args.members.unwrap_or(if args.demo { 3 } else { 0 }),
        demo: args.demo,
        exit_when_ready: args.exit_when_ready,
        replace_authority: args.rotate_ca,
        without: args.without.into_iter().map(Into::into).collect(),
    }
}

fn sources(names: &[String]) -> Vec<Source> {
    names.iter().map(|name| name.as_str().into()).collect()
}

async fn files(args: &FileArgs) -> Result<(Hub, Vec<Source>), Failure> {
    Ok((hub_in(&args.hub, &args.namespace).await?, sources(&args.filename)))
}

/// What `label` and `annotate` take.
struct Change {
    hub: Hub,
    selection: Selection,
    words: Words,
    existing: Existing,
}

/// The first words name the objects, those with `=` or a final `-` what to do with them.
async fn change(args: &WordsArgs, doing: &str) -> Result<Change, Failure> {
    let is_change = |word: &String| word.contains('=') || word.ends_with('-');
    let (changes, names): (Vec<String>, Vec<String>) = args.words.iter().cloned().partition(is_change);
    let selection = Selection::parse(&names, Which::from(&args.which), doing)?;
    let words = Words::parse(&changes)?;
    Ok(Change {
        hub: hub_in(&args.hub, &args.which.namespaces).await?,
        selection,
        words,
        existing: if args.overwrite {
            Existing::Replace
        } else {
            Existing::Keep
        },
    })
}

async fn join(args: JoinArgs, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let mut allow = Kinds::usual();
    for word in &args.allow {
        let (group, resource) = word.split_once('/').unwrap_or(("", word));
        allow.push(Kinds {
            group: group.to_owned(),
            resources: vec![resource.to_owned()],
        });
    }
    let rights = ChildOptions { allow };
    let (Some(name), Some(parent_url)) = (args.name, args.parent_url) else {
        return Ok(commands::print_rights(&rights, out)?);
    };
    let hub = hub(&args.hub).await?;
    let options = JoinOptions {
        name,
        parent_url,
        image: args.image,
        token_lifetime: SignedDuration::from_hours(24),
        rights,
    };
    Ok(commands::join(&hub, &Env::system(), &options, out).await?)
}
