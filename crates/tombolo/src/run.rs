//! From what was typed to what the crates below take.

use std::io::Write;
use std::process::ExitCode;

use api::install::{ChildOptions, Kinds};
use assembly::UpConfig;
use assembly::sim::{SimConfig, SimFailure};
use clock::Env;
use commands::{Brought, Hub, JoinOptions, Place, Source, Target, Words};
use jiff::SignedDuration;
use runtime::CancellationToken;

use crate::cli::{
    Command, FileArgs, HubArgs, JoinArgs, MemberArgs, PersonCommand, RoleCommand, SimArgs, UpArgs, WordsArgs,
};
use crate::roles;

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

/// Whether the output was closed by its reader, as `| head` does.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    })
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
    let out = &mut std::io::stdout();
    match command {
        Command::Up(args) => Ok(assembly::up(up_config(args), Env::system(), on_signal()?, out).await?),
        Command::Sim(_) => unreachable!("it was run before there was a runtime"),
        Command::Person(command) => person(command, out).await,
        Command::Role(command) => {
            let shutdown = on_signal()?;
            match command {
                RoleCommand::Hub(args) => Ok(roles::hub(args, shutdown).await?),
                RoleCommand::Scheduler(args) => roles::scheduler(args, shutdown).await,
                RoleCommand::Controllers(args) => roles::controllers(args, shutdown).await,
                RoleCommand::Agent(args) => roles::agent(*args, shutdown).await,
            }
        }
    }
}

async fn hub(args: &HubArgs) -> Result<Hub, Failure> {
    Ok(Hub::connect(&Place::from(args)).await?)
}

async fn person(command: PersonCommand, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    match command {
        PersonCommand::Apply(args) => {
            let (hub, sources) = files(&args).await?;
            commands::apply(&hub, &sources, args.namespace.as_deref(), out).await?;
        }
        PersonCommand::Create(args) => {
            let mut sources: Vec<Source> = args.filename.iter().map(|name| name.as_str().into()).collect();
            if !args.words.is_empty() {
                sources.push(Source::Generated {
                    kubectl: args.kubectl.kubectl,
                    words: args.words,
                });
            }
            let hub = hub(&args.hub).await?;
            commands::create(&hub, &sources, args.namespace.as_deref(), out).await?;
        }
        PersonCommand::Edit(args) => {
            let targets = Target::parse(&args.targets)?;
            let hub = hub(&args.hub).await?;
            commands::edit(&hub, &targets, args.namespace.as_deref(), args.editor(), out).await?;
        }
        PersonCommand::Diff(args) => {
            let (hub, sources) = files(&args).await?;
            diff(commands::diff(&hub, &sources, args.namespace.as_deref(), out).await)?;
        }
        PersonCommand::Get(args) => {
            let targets = Target::parse(&args.targets)?;
            let namespace = args.namespace.as_deref().filter(|_| !args.all_namespaces);
            let hub = hub(&args.hub).await?;
            commands::get(&hub, &targets, namespace, &args.selector, args.output.into(), out).await?;
        }
        PersonCommand::Delete(args) => {
            let sources: Vec<Source> = args.filename.iter().map(|name| name.as_str().into()).collect();
            let targets = if args.targets.is_empty() {
                Vec::new()
            } else {
                Target::parse(&args.targets)?
            };
            let hub = hub(&args.hub).await?;
            let namespace = args.namespace.as_deref();
            commands::delete(&hub, &sources, &targets, namespace, args.ignore_not_found, out).await?;
        }
        PersonCommand::Scale(args) => {
            let targets = Target::parse(&args.targets)?;
            let hub = hub(&args.hub).await?;
            commands::scale(&hub, &targets, args.namespace.as_deref(), args.replicas, out).await?;
        }
        PersonCommand::Label(args) => {
            let (hub, targets, words) = words(&args).await?;
            commands::label(&hub, &targets, args.namespace.as_deref(), &words, out).await?;
        }
        PersonCommand::Annotate(args) => {
            let (hub, targets, words) = words(&args).await?;
            commands::annotate(&hub, &targets, args.namespace.as_deref(), &words, out).await?;
        }
        PersonCommand::ApiResources(args) => commands::api_resources(&hub(&args).await?, out).await?,
        PersonCommand::Clusters(args) => {
            let hub = hub(&args.hub).await?;
            commands::clusters(&hub, args.output.into(), Env::system().now(), out).await?;
        }
        PersonCommand::Kubeconfig(args) => {
            commands::kubeconfig(&hub(&args.hub).await?, &args.cluster, out).await?;
        }
        PersonCommand::Exec(args) => in_member("exec", &args).await?,
        PersonCommand::Logs(args) => in_member("logs", &args).await?,
        PersonCommand::PortForward(args) => in_member("port-forward", &args).await?,
        PersonCommand::Version(args) => {
            commands::version(&hub(&args).await?, env!("CARGO_PKG_VERSION"), out).await?;
        }
        PersonCommand::Join(args) => join(args, out).await?,
        PersonCommand::Leave(args) => {
            let child = Place {
                kubeconfig: Some(args.child_kubeconfig),
                ..Place::default()
            };
            let child = Hub::connect(&child).await?.client;
            let brought = if args.keep_objects {
                Brought::Keep
            } else {
                Brought::Remove
            };
            commands::leave(&hub(&args.hub).await?, &child, brought, out).await?;
        }
        PersonCommand::Install(args) => commands::install(&args.into(), out)?,
        PersonCommand::Crds => commands::crds(out)?,
    }
    Ok(())
}

/// Hands over to kubectl, whose exit code is ours.
async fn in_member(verb: &str, args: &MemberArgs) -> Result<(), Failure> {
    // Ctrl-C ends kubectl, and then us: what was made for it is cleared up.
    let _survives = on_signal()?;
    let hub = hub(&args.hub).await?;
    match commands::in_member(&hub, &args.cluster, &args.kubectl.kubectl, verb, &args.words).await? {
        0 => Ok(()),
        code => Err(Failure { error: None, code }),
    }
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
    let failed = |failure: Box<SimFailure>| Failure {
        error: Some(failure.into()),
        code: 1,
    };
    let out = &mut std::io::stdout();
    let config = |seed| SimConfig {
        seed,
        faults: args.faults,
    };
    let Some(span) = args.fresh_seeds_for else {
        let outcome = assembly::sim::run(&config(args.seed.unwrap_or(1)));
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
    }
}

async fn files(args: &FileArgs) -> Result<(Hub, Vec<Source>), Failure> {
    let hub = Hub::connect(&Place::from(&args.hub)).await?;
    Ok((
        hub,
        args.filename.iter().map(|name| name.as_str().into()).collect(),
    ))
}

/// The first words name the objects, those with `=` or a final `-` what to do with them.
async fn words(args: &WordsArgs) -> Result<(Hub, Vec<Target>, Words), Failure> {
    let is_change = |word: &String| word.contains('=') || word.ends_with('-');
    let (changes, names): (Vec<String>, Vec<String>) = args.words.iter().cloned().partition(is_change);
    let (targets, changes) = (Target::parse(&names)?, Words::parse(&changes)?);
    Ok((Hub::connect(&Place::from(&args.hub)).await?, targets, changes))
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
    let hub = Hub::connect(&Place::from(&args.hub)).await?;
    let options = JoinOptions {
        name,
        parent_url,
        image: args.image,
        token_lifetime: SignedDuration::from_hours(24),
        rights,
    };
    Ok(commands::join(&hub, &Env::system(), &options, out).await?)
}
