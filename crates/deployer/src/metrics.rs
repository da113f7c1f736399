//! What deployers count. Labels are bounded: no names of objects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What was done to an object in a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Done {
    /// It was made.
    Created,
    /// It was changed.
    Changed,
    /// It was made again or changed back, though its Description had been applied: somebody had interfered.
    Repaired,
    /// Its removal was asked for.
    Removed,
}

impl EncodeLabelValue for Done {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let text = match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Repaired => "repaired",
            Self::Removed => "removed",
        };
        EncodeLabelValue::encode(&text, encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Objects {
    action: Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Problems {
    reason: &'static str,
}

/// The counters of deployers. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    objects: Family<Objects, Counter>,
    problems: Family<Problems, Counter>,
    passes: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let objects = Family::default();
        let problems = Family::default();
        let passes = Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let mut registry = Registry::with_prefix("tombolo_deployer");
        registry.register(
            "objects",
            "Objects in children, by what was done to them",
            objects.clone(),
        );
        registry.register(
            "problems",
            "Objects that are not as they are to be after a pass, by why not",
            problems.clone(),
        );
        registry.register(
            "pass_duration_seconds",
            "One pass over a Description that is applied",
            passes.clone(),
        );
        Self {
            registry: Arc::new(registry),
            objects,
            problems,
            passes,
        }
    }
}

impl Metrics {
    /// The lines that Prometheus scrapes, among those of others.
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry).expect("a string takes every write");
        text
    }

    pub(crate) fn done(&self, action: Done) {
        self.objects.get_or_create(&Objects { action }).inc();
    }

    pub(crate) fn problem(&self, reason: &'static str) {
        self.problems.get_or_create(&Problems { reason }).inc();
    }

    pub(crate) fn passed(&self, took: Duration) {
        self.passes.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_counted_is_shown() {
        let metrics = Metrics::default();
        for action in [Done::Created, Done::Changed, Done::Repaired, Done::Removed] {
            metrics.done(action);
        }
        metrics.problem("Forbidden");
        metrics.passed(Duration::from_millis(3));
        let text = metrics.render();
        for line in [
            "tombolo_deployer_objects_total{action=\"created\"} 1\n",
            "tombolo_deployer_objects_total{action=\"repaired\"} 1\n",
            "tombolo_deployer_problems_total{reason=\"Forbidden\"} 1\n",
            "tombolo_deployer_pass_duration_seconds_count 1\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
