//! What happened in a run: every committed write and every fault, in order, and what was logged meanwhile.

use std::collections::{BTreeSet, VecDeque};
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
    lines: Vec<String>,
    faults: Vec<String>,
    log: VecDeque<String>,
    /// What must not happen, first things first.
    violations: Vec<String>,
    /// While above zero, error events are expected.
    announced: u32,
    /// Whether what the application consists of must stay.
    stays: bool,
    /// Where it need not.
    excused: BTreeSet<String>,
    /// Whether it need not where a cluster is not ready.
    moves: bool,
}

impl Trace {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time begins now.
    pub(crate) fn begin(&self) {
        self.inner().start = Some(Instant::now());
    }

    /// Virtual milliseconds since the beginning.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        let start = self.inner().start;
        start.map_or(0, |start| start.elapsed().as_millis() as u64)
    }

    /// Adds a line.
    pub(crate) fn line(&self, cluster: &str, text: &str) {
        let at = self.elapsed_ms();
        self.inner().lines.push(format!("{at:>8} {cluster:<8} {text}"));
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

    /// From now on what the application consists of must stay everywhere, or need not.
    pub(crate) fn must_stay(&self, stays: bool) {
        let mut inner = self.inner();
        inner.stays = stays;
        inner.excused.clear();
    }

    /// Whether the application goes elsewhere when a cluster is not ready: divided replicas do.
    pub(crate) fn may_move(&self, moves: bool) {
        self.inner().moves = moves;
    }

    /// From here (a cluster, or a namespace of the parent) the application may go: somebody deletes a part of it by
    /// hand, or takes the cluster out of the Subscription.
    pub(crate) fn excuse(&self, place: &str) {
        self.inner().excused.insert(place.to_owned());
    }

    /// Whether the application may go from here.
    fn is_excused(&self, place: &str) -> bool {
        self.inner().excused.contains(place)
    }

    /// Something was written in a cluster.
    pub(crate) fn written(&self, cluster: &str, key: &Key, what: &str, json: &[u8]) {
        const PARTS: [&str; 3] = ["namespaces", "services", "apps/deployments"];
        const RECORDS: [&str; 3] = [
            "apps.clusternet.io/bases",
            "apps.clusternet.io/descriptions",
            CLUSTERS,
        ];
        const CLUSTERS: &str = "clusters.clusternet.io/managedclusters";
        let resource = key.resource.as_str();
        let taint = api::reasons::TAINT_UNSCHEDULABLE.as_bytes();
        let moves = self.inner().moves;
        if moves && resource == CLUSTERS && json.windows(taint.len()).any(|part| part == taint) {
            self.excuse(&key.name);
            self.excuse(&key.namespace);
        }
        if what != "delete" {
            return;
        }
        let (counts, place) = if cluster == "parent" {
            (RECORDS.contains(&resource), key.namespace.as_str())
        } else {
            (
                PARTS.contains(&resource) && (key.name == "web" || key.namespace == "web"),
                cluster,
            )
        };
        if counts && self.inner().stays && !self.is_excused(place) {
            self.violation(format!(
                "{key} of {cluster} was deleted though the Subscription is there"
            ));
        }
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.inner().lines.len()
    }

    /// The lines from a position on.
    pub(crate) fn lines_from(&self, position: usize) -> Vec<String> {
        self.inner().lines.get(position..).unwrap_or_default().to_vec()
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
        let mut hash = Sha256::new();
        for line in &self.inner().lines {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
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
