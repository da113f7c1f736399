//! What happened in a run: every committed write and every fault, in order, and what was logged meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use source::Key;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::SimConfig;
use super::invariants::STEPS;
use super::world::{World, Write};

/// See [`Trace::most_writes`]; of ten clusters.
const WRITES_AN_HOUR: u64 = 200_000;
/// How many lines of trace are kept: all of a run with few clusters.
const KEPT: usize = 1_000_000;
/// How many log lines are kept for a failure's report.
const LOG_LINES: usize = 15;
/// How many characters of each.
const LOG_WIDTH: usize = 240;

/// The record of a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Set when the run begins, on its own runtime.
    start: Option<Instant>,
    /// The latest, at most [`KEPT`].
    lines: VecDeque<String>,
    /// How many there were before these.
    dropped: usize,
    /// Of all lines.
    hash: Sha256,
    faults: Vec<String>,
    log: VecDeque<String>,
    /// What must not happen, first things first.
    violations: Vec<String>,
    /// While above zero, error events are expected.
    announced: u32,
    /// What the clusters hold.
    world: World,
    /// More writes than a cluster gets in a run, but for signs of life.
    most_writes: u64,
    teller: Teller,
}

/// Who is told how far a run is.
#[derive(Clone, Default)]
pub(crate) struct Teller(pub(crate) Option<Arc<Tell>>);

type Tell = dyn Fn(&str) + Send + Sync;

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

impl Trace {
    /// An empty one that tells how far the run is.
    pub(crate) fn told_to(teller: Teller) -> Self {
        let trace = Self::default();
        trace.inner().teller = teller;
        trace
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time begins now.
    pub(crate) fn begin(&self, config: &SimConfig) {
        let hours = config.lasts.unwrap_or_default().as_secs() / 3_600 + 1;
        let mut inner = self.inner();
        inner.start = Some(Instant::now());
        inner.most_writes = WRITES_AN_HOUR * (1 + config.clusters as u64 / 10) * hours;
    }

    /// More writes than a cluster gets in a run, but for signs of life: something goes round in circles.
    pub(crate) fn most_writes(&self) -> u64 {
        self.inner().most_writes
    }

    /// Virtual milliseconds since the beginning.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        let start = self.inner().start;
        start.map_or(0, |start| start.elapsed().as_millis() as u64)
    }

    /// Adds a line.
    pub(crate) fn line(&self, cluster: &str, text: &str) {
        let at = self.elapsed_ms();
        let line = format!("{at:>8} {cluster:<8} {text}");
        let mut inner = self.inner();
        inner.hash.update(line.as_bytes());
        inner.hash.update(b"\n");
        if inner.lines.len() == KEPT {
            inner.lines.pop_front();
            inner.dropped += 1;
        }
        inner.lines.push_back(line);
        drop(inner);
        if cluster == "-" {
            self.tell(text);
        }
    }

    /// Tells somebody who waits; the trace does not mention it.
    pub(crate) fn tell(&self, text: &str) {
        let teller = self.inner().teller.clone();
        if let Teller(Some(teller)) = teller {
            let seconds = self.elapsed_ms() / 1_000;
            teller(&format!("{:>3}:{:02} {text}", seconds / 60, seconds % 60));
        }
    }

    /// Adds a fault.
    pub(crate) fn fault(&self, cluster: &str, text: &str) {
        self.line(cluster, &format!("!! {text}"));
        let at = self.elapsed_ms();
        self.inner()
            .faults
            .push(format!("{:.3}s {cluster}: {text}", at as f64 / 1_000.0));
    }

    /// Something happened that must not.
    pub(crate) fn violation(&self, text: impl Into<String>) {
        let text = text.into();
        self.line("-", &format!("VIOLATED {text}"));
        self.inner().violations.push(text);
    }

    /// The first violation.
    pub(crate) fn violated(&self) -> Option<String> {
        self.inner().violations.first().cloned()
    }

    /// From now on error events are expected, until as many [`Self::expect_no_errors`].
    pub(crate) fn expect_errors(&self) {
        self.inner().announced += 1;
    }

    /// See [`Self::expect_errors`].
    pub(crate) fn expect_no_errors(&self) {
        let mut inner = self.inner();
        inner.announced = inner.announced.saturating_sub(1);
    }

    /// Something was written in a cluster: `None` if the object is gone. What must hold at each write is checked.
    pub(crate) fn written(&self, cluster: &str, key: &Key, new: Option<&[u8]>) {
        let at = self.elapsed_ms();
        let mut broken = Vec::new();
        self.inner().world.write(
            &Write {
                at,
                cluster,
                key,
                new,
            },
            |world, change| {
                broken.extend(STEPS.iter().filter_map(|step| step(world, change)));
            },
        );
        for broken in broken {
            self.violation(broken);
        }
    }

    /// Looks at what the clusters hold, or tells of it.
    pub(crate) fn with_world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.inner().world)
    }

    /// How many lines there have been.
    pub(crate) fn len(&self) -> usize {
        let inner = self.inner();
        inner.dropped + inner.lines.len()
    }

    /// The lines from a position on, as far as they are kept.
    pub(crate) fn lines_from(&self, position: usize) -> Vec<String> {
        let inner = self.inner();
        let skipped = position.saturating_sub(inner.dropped);
        inner.lines.iter().skip(skipped).cloned().collect()
    }

    /// All lines that are kept; none are left.
    pub(crate) fn take_lines(&self) -> Vec<String> {
        let mut inner = self.inner();
        std::mem::take(&mut inner.lines).into()
    }

    /// All faults.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.inner().faults.clone()
    }

    /// The latest log lines.
    pub(crate) fn log(&self) -> Vec<String> {
        self.inner().log.iter().cloned().collect()
    }

    /// A hash of all lines, the same on every machine.
    pub(crate) fn hash(&self) -> String {
        let hash = self.inner().hash.clone();
        hash.finalize()
            .iter()
            .fold(String::with_capacity(64), |mut text, byte| {
                write!(text, "{byte:02x}").expect("writing into a String never fails");
                text
            })
    }
}

/// A short hash of some bytes, for the trace: FNV-1a.
pub(crate) fn short_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Hears what the parts log: errors that were not announced are violations.
pub(crate) struct Listener(pub(crate) Trace);

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        if level > Level::WARN {
            return;
        }
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        let at = self.0.elapsed_ms();
        let target = event.metadata().target();
        let shown: String = text.chars().take(LOG_WIDTH).collect();
        let line = format!("{at:>8} {level} {target}: {shown}");
        let mut inner = self.0.inner();
        if inner.log.len() == LOG_LINES {
            inner.log.pop_front();
        }
        inner.log.push_back(line);
        if level == Level::ERROR && inner.announced == 0 {
            inner.violations.push(format!(
                "an error was logged that no fault explains: {target}: {text}"
            ));
        }
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        let written = if field.name() == "message" {
            write!(self.0, "{value:?}")
        } else {
            write!(self.0, "{}={value:?}", field.name())
        };
        written.expect("writing into a String never fails");
    }
}
