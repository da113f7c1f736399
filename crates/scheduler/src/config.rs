//! How a scheduler works.

use std::time::Duration;

use api::gates::{self, GateError};
use api::settle;
use kubeio::ElectorConfig;
use placement::{FailOver, Tolerance};

use crate::direct::DirectAccess;
use crate::metrics::Metrics;

/// How a scheduler works.
#[derive(Debug, Clone)]
pub struct Config {
    /// Profiles and percentages; default: one profile named `default`.
    pub placement: placement::Config,
    /// The gate `FailOver`; default on.
    pub fail_over: FailOver,
    /// The gate `FeasibleClustersToleration`: whether `percentageOfClustersToTolerate` of the clusters may fail to say
    /// what room they have. Default on.
    pub feasible_clusters_toleration: bool,
    /// For how long edits of a Subscription that is placed are waited for, unless it says something else. Default 250 ms.
    pub settle: Duration,
    /// At which addresses clusters' own predictors may be asked without the tunnel.
    pub direct_access: DirectAccess,
    /// The Lease to hold while working; none in a process that is alone. Default none.
    pub election: Option<ElectorConfig>,
    /// What is counted.
    pub metrics: Metrics,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            placement: placement::Config::default(),
            fail_over: FailOver::On,
            feasible_clusters_toleration: true,
            settle: settle::DEFAULT,
            direct_access: DirectAccess::default(),
            election: None,
            metrics: Metrics::default(),
        }
    }
}

impl Config {
    /// Takes what `--feature-gates` says.
    ///
    /// # Errors
    /// The first pair that makes no sense.
    pub fn with_gates(mut self, text: &str) -> Result<Self, GateError> {
        let gates = gates::parse(text, &["FailOver", "FeasibleClustersToleration"])?;
        if let Some(on) = gates.get("FailOver") {
            self.fail_over = if *on { FailOver::On } else { FailOver::Off };
        }
        if let Some(on) = gates.get("FeasibleClustersToleration") {
            self.feasible_clusters_toleration = *on;
        }
        Ok(self)
    }

    /// How many clusters may fail to predict.
    pub(crate) fn tolerance(&self) -> Tolerance {
        if self.feasible_clusters_toleration {
            Tolerance::Percent(self.placement.percentage_to_tolerate)
        } else {
            Tolerance::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_gates() {
        let read = |text: &str| {
            let config = Config::default().with_gates(text).unwrap();
            (config.fail_over, config.tolerance())
        };
        for (text, expected) in [
            ("", (FailOver::On, Tolerance::Percent(10))),
            ("FailOver=false", (FailOver::Off, Tolerance::Percent(10))),
            (
                "FeasibleClustersToleration=false,Recovery=true",
                (FailOver::On, Tolerance::None),
            ),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert!(Config::default().with_gates("Failover=true").is_err());
    }
}
