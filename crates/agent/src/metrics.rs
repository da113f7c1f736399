//! What an agent counts: what its deployer does, and, under the peers' names, what its predictor is asked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// There is one way to predict.
const PROFILE: &str = "default";

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// A number.
    Room,
    /// Why there is none.
    Error,
}

impl EncodeLabelValue for Said {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let text = match self {
            Self::Room => "success",
            Self::Error => "error",
        };
        EncodeLabelValue::encode(&text, encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempts {
    result: Said,
    profile: &'static str,
}

/// The counters of an agent. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    attempts: Family<Attempts, Counter>,
    whole: Family<Attempts, Histogram>,
    algorithm: Histogram,
    pub(crate) deployer: deployer::Metrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let duration = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let attempts = Family::default();
        let whole = Family::new_with_constructor(duration as fn() -> Histogram);
        let algorithm = duration();
        let mut registry = Registry::with_prefix("clusternet_predictor");
        registry.register(
            "predictor_attempts",
            "Questions, by what came of them",
            attempts.clone(),
        );
        registry.register(
            "e2e_predictor_duration_seconds",
            "From the question to the answer",
            whole.clone(),
        );
        registry.register(
            "predictor_algorithm_duration_seconds",
            "Adding up the room of all nodes",
            algorithm.clone(),
        );
        Self {
            registry: Arc::new(registry),
            attempts,
            whole,
            algorithm,
            deployer: deployer::Metrics::default(),
        }
    }
}

impl Metrics {
    /// The lines that Prometheus scrapes, among those of others.
    pub fn render(&self) -> String {
        let mut text = self.deployer.render();
        encode_registry(&mut text, &self.registry).expect("a string takes every write");
        text
    }

    pub(crate) fn answered(&self, result: Said, took: Duration) {
        let labels = Attempts {
            result,
            profile: PROFILE,
        };
        self.attempts.get_or_create(&labels).inc();
        self.whole.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn added_up(&self, took: Duration) {
        self.algorithm.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_peers_names_beside_the_deployers() {
        let metrics = Metrics::default();
        metrics.answered(Said::Room, Duration::from_millis(3));
        metrics.answered(Said::Error, Duration::from_millis(3));
        metrics.added_up(Duration::from_millis(1));
        let text = metrics.clone().render();
        for line in [
            "clusternet_predictor_predictor_attempts_total{result=\"success\",profile=\"default\"} 1\n",
            "clusternet_predictor_predictor_attempts_total{result=\"error\",profile=\"default\"} 1\n",
            "clusternet_predictor_e2e_predictor_duration_seconds_count{result=\"success\",profile=\"default\"} 1\n",
            "clusternet_predictor_predictor_algorithm_duration_seconds_count 1\n",
            "tombolo_deployer_pass_duration_seconds_count 0\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
