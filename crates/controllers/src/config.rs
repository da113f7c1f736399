//! Which controllers run, and how.

use std::collections::BTreeSet;
use std::time::Duration;

use api::gates::{self, GateError};
use api::settle;
use distribution::protection::InUse;
use distribution::replicas::OwnKinds;
use kubeio::ElectorConfig;

/// A controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// `crrapprover`.
    Approver,
    /// `clusterlifecycle`.
    LifeCycle,
    /// `deployer`.
    Deployer,
    /// `serviceimport`.
    ServiceImport,
    /// `clusterdiscovery`.
    ClusterDiscovery,
}

impl Controller {
    /// All that this build has.
    pub const ALL: [Self; 5] = [
        Self::Approver,
        Self::LifeCycle,
        Self::Deployer,
        Self::ServiceImport,
        Self::ClusterDiscovery,
    ];

    /// Its name in `--controllers`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approver => "crrapprover",
            Self::LifeCycle => "clusterlifecycle",
            Self::Deployer => "deployer",
            Self::ServiceImport => "serviceimport",
            Self::ClusterDiscovery => "clusterdiscovery",
        }
    }
}

/// Why a configuration makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no controller of this name.
    #[error(
        "there is no controller \"{0}\": known are *, crrapprover, clusterlifecycle, deployer, serviceimport, clusterdiscovery"
    )]
    UnknownController(String),
    /// The feature gates.
    #[error(transparent)]
    Gates(#[from] GateError),
}

/// How the controllers work.
#[derive(Debug, Clone)]
pub struct Config {
    /// Those that run. Default: all.
    pub controllers: BTreeSet<Controller>,
    /// How many objects of one controller are worked on at a time. Default 10, at least 1.
    pub workers: usize,
    /// Whether FeedInventories are made here (the gate `FeedInventory`); else somebody else makes them. Default true.
    pub feed_inventory: bool,
    /// Kinds of users' own that can be divided. Default none.
    pub own_kinds: OwnKinds,
    /// What becomes of a template that is deleted while it is in use (the gate `FeedInUseProtection`). Default: it stays.
    pub in_use: InUse,
    /// Whether new clusters wait for their init workload (the gate `ClusterInit`). Default false.
    pub cluster_init: bool,
    /// Whether ServiceImports are served (the gate `MultiClusterService`). Default false: what was derived of them is
    /// taken back.
    pub multi_cluster_service: bool,
    /// For how long edits are waited for where Descriptions are already, unless a Subscription says something else.
    /// Default 250 ms.
    pub settle: Duration,
    /// Where what Rollouts may go back to is kept, beside the Manifests. Default `clusternet-reserved`.
    pub reserved_namespace: String,
    /// The Lease to hold while working; none in a process that is alone. Default none.
    pub election: Option<ElectorConfig>,
    /// What is counted of applying into children; whoever keeps a clone can show it.
    pub metrics: ::deployer::Metrics,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controllers: BTreeSet::from(Controller::ALL),
            workers: 10,
            feed_inventory: true,
            own_kinds: OwnKinds::default(),
            in_use: InUse::Protect,
            cluster_init: false,
            multi_cluster_service: false,
            settle: settle::DEFAULT,
            reserved_namespace: api::names::RESERVED_NAMESPACE.to_owned(),
            election: None,
            metrics: ::deployer::Metrics::default(),
        }
    }
}

impl Config {
    /// Reads the words of `--controllers`: `*` is all, `NAME` one more, `-NAME` takes one out. No word is all.
    ///
    /// # Errors
    /// A name that nobody knows.
    pub fn with_controllers<'a>(
        mut self,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ConfigError> {
        let (mut on, mut off, mut any) = (BTreeSet::new(), BTreeSet::new(), false);
        for word in words {
            any = true;
            let (name, set) = match word.strip_prefix('-') {
                Some(name) => (name, &mut off),
                None => (word, &mut on),
            };
            if name == "*" {
                set.extend(Controller::ALL);
            } else if let Some(controller) = Controller::ALL.into_iter().find(|it| it.name() == name) {
                set.insert(controller);
            } else {
                return Err(ConfigError::UnknownController(word.to_owned()));
            }
        }
        if any {
            self.controllers = &on - &off;
        }
        Ok(self)
    }

    /// Takes what `--feature-gates` says.
    ///
    /// # Errors
    /// The first pair that makes no sense.
    pub fn with_gates(mut self, text: &str) -> Result<Self, ConfigError> {
        let own = [
            "ClusterInit",
            "Deployer",
            "FeedInUseProtection",
            "FeedInventory",
            "MultiClusterService",
        ];
        let gates = gates::parse(text, &own)?;
        if let Some(on) = gates.get("ClusterInit") {
            self.cluster_init = *on;
        }
        if gates.get("Deployer") == Some(&false) {
            self.controllers.remove(&Controller::Deployer);
        }
        if let Some(on) = gates.get("FeedInUseProtection") {
            self.in_use = if *on { InUse::Protect } else { InUse::Drop };
        }
        if let Some(on) = gates.get("FeedInventory") {
            self.feed_inventory = *on;
        }
        if let Some(on) = gates.get("MultiClusterService") {
            self.multi_cluster_service = *on;
        }
        Ok(self)
    }

    /// Whether the controller of ServiceImports runs, and its gate is open.
    pub(crate) fn imports_services(&self) -> bool {
        self.multi_cluster_service && self.controllers.contains(&Controller::ServiceImport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_gates() {
        let read = |text: &str| {
            let config = Config::default().with_gates(text).unwrap();
            (
                config.feed_inventory,
                config.in_use,
                config.cluster_init,
                config.imports_services(),
            )
        };
        for (text, expected) in [
            ("", (true, InUse::Protect, false, false)),
            (
                "FeedInventory=false,Deployer=true",
                (false, InUse::Protect, false, false),
            ),
            (
                "FeedInUseProtection=false,ClusterInit=true",
                (true, InUse::Drop, true, false),
            ),
            ("MultiClusterService=true", (true, InUse::Protect, false, true)),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert!(Config::default().with_gates("ClusterInit").is_err());
        for (text, runs) in [("", true), ("Deployer=true", true), ("Deployer=false", false)] {
            let config = Config::default().with_gates(text).unwrap();
            assert_eq!(
                config.controllers.contains(&Controller::Deployer),
                runs,
                "{text:?}"
            );
        }
    }

    #[test]
    fn reads_the_list_of_controllers() {
        use Controller::{Approver, ClusterDiscovery, Deployer, LifeCycle, ServiceImport};
        for (words, expected) in [
            ("", Controller::ALL.to_vec()),
            ("*", Controller::ALL.to_vec()),
            (
                "* -deployer",
                vec![Approver, LifeCycle, ServiceImport, ClusterDiscovery],
            ),
            (
                "-deployer -clusterdiscovery *",
                vec![Approver, LifeCycle, ServiceImport],
            ),
            ("crrapprover clusterdiscovery", vec![Approver, ClusterDiscovery]),
            ("deployer", vec![Deployer]),
            ("serviceimport", vec![ServiceImport]),
        ] {
            let config = Config::default()
                .with_controllers(words.split_whitespace())
                .unwrap();
            assert_eq!(
                config.controllers.into_iter().collect::<Vec<_>>(),
                expected,
                "{words}"
            );
        }
        let error = Config::default().with_controllers(["-depoyer"]).unwrap_err();
        assert_eq!(error, ConfigError::UnknownController("-depoyer".to_owned()));
    }
}
