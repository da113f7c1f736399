//! What the scheduler counts, under the peers' names. Labels are bounded: profiles come from the configuration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// How a decision ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It was written, or was there already.
    Scheduled,
    /// Nothing fits.
    Unschedulable,
    /// It could not be made or not be written.
    Error,
}

impl EncodeLabelValue for Ended {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), fmt::Error> {
        let text = match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        };
        EncodeLabelValue::encode(&text, encoder)
    }
}

/// A part of a decision that asks or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Asking clusters.
    Predict,
    /// Writing.
    Bind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempts {
    result: Ended,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExtensionPoint {
    extension_point: &'static str,
    status: &'static str,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Work {
    work: &'static str,
}

/// The counters of a scheduler. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    attempts: Family<Attempts, Counter>,
    whole: Family<Attempts, Histogram>,
    algorithm: Histogram,
    points: Family<ExtensionPoint, Histogram>,
    work: Family<Work, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let decision = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let point = || Histogram::new(exponential_buckets(0.0001, 2.0, 12));
        let attempts = Family::default();
        let whole = Family::new_with_constructor(decision as fn() -> Histogram);
        let algorithm = decision();
        let points = Family::new_with_constructor(point as fn() -> Histogram);
        let work = Family::default();
        let mut registry = Registry::with_prefix("clusternet_scheduler");
        registry.register(
            "schedule_attempts",
            "Decisions, by how they ended",
            attempts.clone(),
        );
        registry.register(
            "e2e_scheduling_duration_seconds",
            "From the queue to the binding",
            whole.clone(),
        );
        registry.register(
            "scheduling_algorithm_duration_seconds",
            "From the queue to the decision",
            algorithm.clone(),
        );
        registry.register(
            "framework_extension_point_duration_seconds",
            "What asks or writes",
            points.clone(),
        );
        registry.register(
            "scheduler_goroutines",
            "What is under way, by the kind of work",
            work.clone(),
        );
        Self {
            registry: Arc::new(registry),
            attempts,
            whole,
            algorithm,
            points,
            work,
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

    pub(crate) fn ended(&self, result: Ended, profile: &str, took: Duration) {
        let labels = Attempts {
            result,
            profile: profile.to_owned(),
        };
        self.attempts.get_or_create(&labels).inc();
        self.whole.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// From the queue to the decision.
    pub(crate) fn decided(&self, took: Duration) {
        self.algorithm.observe(took.as_secs_f64());
    }

    pub(crate) fn phase(&self, phase: Phase, is_well: bool, profile: &str, took: Duration) {
        let extension_point = match phase {
            Phase::Predict => "Predict",
            Phase::Bind => "Bind",
        };
        let labels = ExtensionPoint {
            extension_point,
            status: if is_well { "Success" } else { "Error" },
            profile: profile.to_owned(),
        };
        self.points.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn predicting(&self, count: usize) {
        let labels = Work { work: "predict" };
        self.work
            .get_or_create(&labels)
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_peers_names() {
        let metrics = Metrics::default();
        metrics.ended(Ended::Scheduled, "default", Duration::from_millis(3));
        metrics.decided(Duration::from_millis(1));
        metrics.phase(Phase::Predict, true, "default", Duration::from_millis(1));
        metrics.phase(Phase::Bind, false, "default", Duration::from_millis(1));
        metrics.predicting(2);
        let text = metrics.clone().render();
        for line in [
            "clusternet_scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default\"} 1",
            "clusternet_scheduler_e2e_scheduling_duration_seconds_count{result=\"scheduled\",profile=\"default\"} 1",
            "clusternet_scheduler_scheduling_algorithm_duration_seconds_count 1",
            "clusternet_scheduler_framework_extension_point_duration_seconds_count\
             {extension_point=\"Predict\",status=\"Success\",profile=\"default\"} 1",
            "clusternet_scheduler_framework_extension_point_duration_seconds_count\
             {extension_point=\"Bind\",status=\"Error\",profile=\"default\"} 1",
            "clusternet_scheduler_scheduler_goroutines{work=\"predict\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
