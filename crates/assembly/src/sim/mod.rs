//! `sim`: a whole fleet on one thread, with virtual time, simulated disks and network, and faults. One seed makes one
//! run, to the byte of its trace.
//!
//! A parent with hub, scheduler and controllers, and members with agents, all of them the very code that runs in
//! earnest; only time, randomness, disks and what lies between the clusters are simulated. An application is sent
//! out, changed, moved and taken back while clusters leave and join, tunnels are cut, members cut off, clocks set,
//! stores crash and roles die between two writes. What must hold at each write is checked at each write, and what has
//! to come right, whenever nothing has gone wrong for a while (`invariants.rs`); nothing that was acknowledged may be
//! lost, and nobody may write without need. [`run_together`] tells another story: of edits that are meant together. The
//! entry points are [`run`], [`run_told`], [`run_together`] and [`run_fresh`].

mod cluster;
mod door;
mod fault;
mod fleet;
mod invariants;
mod link;
mod recorded;
mod scenario;
mod together;
mod trace;
mod world;

use std::fmt;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, RngSeed, UnhandledPanic};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;

use self::trace::{Listener, Teller, Trace};

/// How many clusters a run has that says nothing else.
const CLUSTERS: usize = 3;
/// How many lines of the trace a failure shows.
const TAIL: usize = 40;

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimConfig {
    /// The seed.
    pub seed: u64,
    /// How many faults at most happen in the first part of a run, half as many in the later parts. Default 6;
    /// [`Self::faults_among`] grows with the fleet.
    pub faults: usize,
    /// How many clusters there are beside the parent. Default 3.
    pub clusters: usize,
    /// For how long, in virtual time, things go on happening; `None` for the few that every run has.
    pub lasts: Option<Duration>,
}

impl SimConfig {
    /// How many faults a run of so many clusters has at most at its beginning.
    pub fn faults_among(clusters: usize) -> usize {
        (clusters / 20).max(6)
    }

    /// The usual run of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            faults: 6,
            clusters: CLUSTERS,
            lasts: None,
        }
    }
}

/// As the flags of `tombolo sim`.
impl fmt::Display for SimConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            faults,
            clusters,
            lasts,
        } = self;
        write!(f, "--seed {seed} --faults {faults}")?;
        if *clusters != CLUSTERS {
            write!(f, " --clusters {clusters}")?;
        }
        lasts.map_or(Ok(()), |lasts| write!(f, " --for {}s", lasts.as_secs()))
    }
}

/// A run that went well.
#[derive(Debug, Clone, PartialEq)]
pub struct SimReport {
    /// Its seed.
    pub seed: u64,
    /// SHA-256 of its trace, in hexadecimal.
    pub trace_hash: String,
    /// Every committed write and every fault: virtual milliseconds, cluster, what.
    pub trace: Vec<String>,
    /// How much time passed in it.
    pub virtual_seconds: f64,
    /// What went wrong in it.
    pub faults: Vec<String>,
}

impl fmt::Display for SimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: well after {:.0} virtual seconds and {} faults, {} lines of trace, hash {}",
            self.seed,
            self.virtual_seconds,
            self.faults.len(),
            self.trace.len(),
            &self.trace_hash[..16]
        )
    }
}

/// A run that did not.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct SimFailure {
    /// What was simulated.
    pub config: SimConfig,
    /// What was violated.
    pub violated: String,
    /// What had gone wrong.
    pub faults: Vec<String>,
    /// The whole trace.
    pub trace: Vec<String>,
    /// The last warnings and errors that were logged.
    pub log: Vec<String>,
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config,
            violated,
            faults,
            trace,
            log,
        } = self;
        writeln!(f, "seed {}: {violated}", config.seed)?;
        writeln!(f, "faults:")?;
        faults.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        let told: Vec<&String> = trace.iter().filter(|line| !is_sign_of_life(line)).collect();
        writeln!(
            f,
            "the last of {} lines of trace, without signs of life:",
            trace.len()
        )?;
        told[told.len().saturating_sub(TAIL)..]
            .iter()
            .try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "the last warnings:")?;
        log.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "replay: tombolo sim {config} --trace")
    }
}

/// Whether a line of trace is a write that goes on for ever without meaning.
fn is_sign_of_life(line: &str) -> bool {
    const USUAL: [&str; 3] = [
        " coordination.k8s.io/leases ",
        " clusters.clusternet.io/managedclusters ",
        " configmaps \"default/count\"",
    ];
    USUAL.iter().any(|usual| line.contains(usual))
}

/// Runs one seed. Must not be called on a runtime: it brings its own.
///
/// # Errors
/// What was violated, and how it came to that.
pub fn run(config: &SimConfig) -> Result<SimReport, Box<SimFailure>> {
    record(config, Trace::default(), main_story)
}

/// Like [`run`], and tells meanwhile how far it is: virtual minutes and seconds, and what has come true.
///
/// # Errors
/// What was violated, and how it came to that.
pub fn run_told(
    config: &SimConfig,
    teller: impl Fn(&str) + Send + Sync + 'static,
) -> Result<SimReport, Box<SimFailure>> {
    record(config, Trace::told_to(Teller(Some(Arc::new(teller)))), main_story)
}

/// Runs another story for one seed: replicas and weights, and then feeds, are edited shortly after each other, again and
/// again. Must not be called on a runtime: it brings its own.
///
/// # Errors
/// What was violated, and how it came to that.
pub fn run_together(seed: u64) -> Result<SimReport, Box<SimFailure>> {
    let config = SimConfig {
        faults: 0,
        ..SimConfig::new(seed)
    };
    record(&config, Trace::default(), |config, trace| {
        Box::pin(together::live(config, trace))
    })
}

/// What happens in a run.
type Story = for<'a> fn(&'a SimConfig, &'a Trace) -> futures::future::LocalBoxFuture<'a, Result<(), String>>;

fn main_story<'a>(
    config: &'a SimConfig,
    trace: &'a Trace,
) -> futures::future::LocalBoxFuture<'a, Result<(), String>> {
    Box::pin(scenario::live(config, trace))
}

fn record(config: &SimConfig, trace: Trace, story: Story) -> Result<SimReport, Box<SimFailure>> {
    let subscriber = tracing_subscriber::registry()
        .with(LevelFilter::WARN)
        .with(Listener(trace.clone()));
    let outcome = tracing::subscriber::with_default(subscriber, || {
        // A panic in any task ends the run here.
        std::panic::catch_unwind(AssertUnwindSafe(|| live(config, &trace, story)))
    });
    let outcome = match outcome {
        Ok(Ok(virtual_seconds)) => trace.violated().map_or(Ok(virtual_seconds), Err),
        Ok(Err(violated)) => Err(violated),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("a part panicked: {}", text.unwrap_or_default()))
        }
    };
    match outcome {
        Ok(virtual_seconds) => Ok(SimReport {
            seed: config.seed,
            trace_hash: trace.hash(),
            trace: trace.take_lines(),
            virtual_seconds,
            faults: trace.faults(),
        }),
        Err(violated) => Err(Box::new(SimFailure {
            config: *config,
            violated,
            faults: trace.faults(),
            trace: trace.take_lines(),
            log: trace.log(),
        })),
    }
}

fn live(config: &SimConfig, trace: &Trace, story: Story) -> Result<f64, String> {
    let mut seed = clock::SplitMix::named(config.seed, "tokio");
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&seed.next().to_le_bytes()))
        .unhandled_panic(UnhandledPanic::ShutdownRuntime)
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        trace.begin(config);
        story(config, trace).await?;
        Ok(trace.elapsed_ms() as f64 / 1_000.0)
    })
}

/// Runs seed after seed, from that of `first` on, while `go_on` says so (once at least); writes one line for each and
/// answers how many went well.
///
/// # Errors
/// The first run that fails.
pub fn run_fresh(
    first: SimConfig,
    mut go_on: impl FnMut() -> bool,
    out: &mut dyn Write,
) -> Result<u64, Box<SimFailure>> {
    let mut runs = 0;
    loop {
        let report = run(&SimConfig {
            seed: first.seed.wrapping_add(runs),
            ..first
        })?;
        // A reader who went away does not make the runs worse.
        writeln!(out, "{report}").ok();
        runs += 1;
        if !go_on() {
            return Ok(runs);
        }
    }
}
