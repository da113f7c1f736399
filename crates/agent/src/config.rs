//! What an agent is told.

use std::collections::BTreeMap;
use std::time::Duration;

use api::clusters::SyncMode;
use api::gates::{self, GateError};
use distribution::services::export::Service;
use machinery::names;

use crate::error::ConfigError;
use crate::metrics::Metrics;

/// The longest cluster name.
const NAME_LIMIT: usize = 60;

/// What an agent is told. [`Config::new`] gives the defaults; [`Config::check`] finds every fault.
#[derive(Debug, Clone)]
pub struct Config {
    /// URL of the parent's API server. Required.
    pub parent_url: String,
    /// Bootstrap token (`abcdef.0123456789abcdef`) or service account token. Required.
    pub registration_token: String,
    /// The cluster's name; found or made if `None`. At most 60 characters.
    pub cluster_name: Option<String>,
    /// Prefix of a name that is made. Default `clusternet-cluster`, at most 54 characters.
    pub cluster_name_prefix: String,
    /// The dedicated namespace asked for; the parent chooses if `None`. At most 63 characters.
    pub cluster_namespace: Option<String>,
    /// Default `StandardCluster`.
    pub cluster_type: String,
    /// Asked for at registration; later the ManagedCluster's own field counts. Default Pull.
    pub sync_mode: SyncMode,
    /// Labels for the ManagedCluster.
    pub cluster_labels: BTreeMap<String, String>,
    /// The agent's namespace in the child. Default `clusternet-system`.
    pub namespace: String,
    /// The Lease in it under which the agent works, whose UID is the cluster's id. Default `clusternet-agent`.
    pub lease_name: String,
    /// Who this replica is: `HOST_UUID`. Required, unique.
    pub identity: String,
    /// Version of the agent, reported.
    pub version: String,
    /// How long the tokens last that the agent asks the parent for, and renews at half of that time, in the place of the
    /// one that it registered for, which never ends; `None`: keeps that. Default 30 days, at least 10 min.
    pub token_lifetime: Option<Duration>,
    /// Between two reports. Default 3 min, at least 1 s.
    pub report_interval: Duration,
    /// Between two looks at the child. Default 20 s, at least 1 s.
    pub collect_interval: Duration,
    /// Take pod counts and usage from the metrics API. Default off: pods are counted by a watch, usage is left out.
    pub use_metrics_server: bool,
    /// Which node labels become labels of the ManagedCluster.
    pub promotion: LabelPromotion,
    /// The predictor.
    pub predictor: PredictorConfig,
    /// Requests a second the parent may send, reported. Default 50.
    pub kube_qps: f64,
    /// Requests at once the parent may send, reported. Default 100.
    pub kube_burst: i32,
    /// What is switched on.
    pub gates: Gates,
    /// URL of the child's API server as the hub is to dial it through the tunnel, and the parent to push to.
    pub child_url: String,
    /// CA (PEM) of the child's API server; from ConfigMap `kube-root-ca.crt` if empty.
    pub child_ca: Vec<u8>,
    /// Further `host:port` targets that the hub may dial; the child's API server always is one.
    pub tunnel_targets: Vec<String>,
    /// The services' addresses if they cannot be found in the child.
    pub service_cidr: Option<String>,
    /// The pods' addresses if they cannot be found in the child.
    pub cluster_cidr: Option<String>,
    /// How many Descriptions are worked on at once. Default 2.
    pub workers: usize,
    /// Leader election: how long a record is respected. Default 15 s.
    pub lease_duration: Duration,
    /// Leader election: how long renewing is tried. Default 10 s.
    pub renew_deadline: Duration,
    /// Leader election: between two tries. Default 2 s.
    pub retry_period: Duration,
    /// What is counted; whoever keeps a clone can show it.
    pub metrics: Metrics,
}

/// Which node labels become labels of the ManagedCluster.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelPromotion {
    /// Prefixes of the labels' keys. Default `node.clusternet.io/`.
    pub prefixes: Vec<String>,
    /// Share of the worker nodes that must have the value, 0 to 1. Default 0.8.
    pub threshold: f64,
}

/// Where the predictor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictorConfig {
    /// Base URL of one that is asked instead of the built-in one. Default none.
    pub address: String,
    /// The scheduler may ask that one without the tunnel. Default no.
    pub direct_access: bool,
    /// By which port of `localhost` the built-in one is known in the tunnel. Default 8080.
    pub port: u16,
}

impl Default for PredictorConfig {
    fn default() -> Self {
        Self {
            address: String::new(),
            direct_access: false,
            port: 8_080,
        }
    }
}

/// What is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// Keep a tunnel to the hub. Default on.
    pub socket_connection: bool,
    /// The parent may push. Default off.
    pub app_pusher: bool,
    /// Undo drift and report the objects' status. Default on.
    pub recovery: bool,
    /// A predictor answers. Default on.
    pub predictor: bool,
    /// Serve ServiceExports. Default off: what was exported is taken back.
    pub multi_cluster_service: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            socket_connection: true,
            app_pusher: false,
            recovery: true,
            predictor: true,
            multi_cluster_service: false,
        }
    }
}

impl Gates {
    /// Reads `--feature-gates` ([`api::gates`]).
    ///
    /// # Errors
    /// The first pair that makes no sense.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let own = [
            "AppPusher",
            "MultiClusterService",
            "Predictor",
            "Recovery",
            "SocketConnection",
        ];
        let set = gates::parse(text, &own)?;
        let default = Self::default();
        let gate = |name, default| set.get(name).copied().unwrap_or(default);
        Ok(Self {
            socket_connection: gate("SocketConnection", default.socket_connection),
            app_pusher: gate("AppPusher", default.app_pusher),
            recovery: gate("Recovery", default.recovery),
            predictor: gate("Predictor", default.predictor),
            multi_cluster_service: gate("MultiClusterService", default.multi_cluster_service),
        })
    }

    /// What is done about ServiceExports.
    pub(crate) fn exports(self) -> Service {
        if self.multi_cluster_service {
            Service::On
        } else {
            Service::Off
        }
    }
}

impl Default for LabelPromotion {
    fn default() -> Self {
        Self {
            prefixes: vec![api::labels::NODE_PREFIX.to_owned()],
            threshold: 0.8,
        }
    }
}

impl Config {
    /// The defaults around what is required.
    pub fn new(
        parent_url: impl Into<String>,
        registration_token: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            parent_url: parent_url.into(),
            registration_token: registration_token.into(),
            cluster_name: None,
            cluster_name_prefix: "clusternet-cluster".to_owned(),
            cluster_namespace: None,
            cluster_type: "StandardCluster".to_owned(),
            sync_mode: SyncMode::Pull,
            cluster_labels: BTreeMap::new(),
            namespace: api::names::SYSTEM_NAMESPACE.to_owned(),
            lease_name: api::names::AGENT.to_owned(),
            identity: identity.into(),
            version: format!("{}{}", api::names::OWN_AGENT, env!("CARGO_PKG_VERSION")),
            token_lifetime: Some(Duration::from_hours(30 * 24)),
            report_interval: Duration::from_mins(3),
            collect_interval: Duration::from_secs(20),
            use_metrics_server: false,
            promotion: LabelPromotion::default(),
            predictor: PredictorConfig::default(),
            kube_qps: 50.0,
            kube_burst: 100,
            gates: Gates::default(),
            child_url: String::new(),
            child_ca: Vec::new(),
            tunnel_targets: Vec::new(),
            service_cidr: None,
            cluster_cidr: None,
            workers: 2,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            metrics: Metrics::default(),
        }
    }

    /// Checks everything.
    ///
    /// # Errors
    /// All faults at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let mut demand = |holds: bool, problem: String| {
            if !holds {
                problems.push(problem);
            }
        };
        demand(
            self.parent_url.starts_with("https://") || self.parent_url.starts_with("http://"),
            format!(
                "--cluster-reg-parent-url: {:?} is no http or https URL",
                self.parent_url
            ),
        );
        demand(
            is_token(&self.registration_token),
            "--cluster-reg-token: neither a bootstrap token nor a service account token".to_owned(),
        );
        let limit = Duration::from_mins(10);
        demand(
            self.token_lifetime.is_none_or(|lifetime| lifetime >= limit),
            "--cluster-token-lifetime: less than 10m, the least that Kubernetes gives; 0s keeps the token that never ends"
                .to_owned(),
        );
        if let Some(name) = &self.cluster_name {
            demand(
                name.len() <= NAME_LIMIT && names::is_dns1123_label(name).is_ok(),
                format!("--cluster-reg-name: {name:?} is no DNS label of at most {NAME_LIMIT} characters"),
            );
        }
        let prefix_limit = NAME_LIMIT - api::names::SUFFIX_LENGTH - 1;
        demand(
            self.cluster_name_prefix.len() <= prefix_limit
                && names::is_dns1123_label(&self.cluster_name_prefix).is_ok(),
            format!(
                "--cluster-reg-name-prefix: {:?} is no DNS label of at most {prefix_limit} characters",
                self.cluster_name_prefix
            ),
        );
        if let Some(namespace) = &self.cluster_namespace {
            demand(
                names::is_dns1123_label(namespace).is_ok(),
                format!("--cluster-reg-namespace: {namespace:?} is no DNS label of at most 63 characters"),
            );
        }
        demand(
            self.sync_mode != SyncMode::Push || self.gates.app_pusher,
            "--cluster-sync-mode: Push needs the feature gate AppPusher".to_owned(),
        );
        for (flag, interval) in [
            ("--cluster-status-update-frequency", self.report_interval),
            ("--cluster-status-collect-frequency", self.collect_interval),
        ] {
            demand(
                interval >= Duration::from_secs(1),
                format!("{flag}: {interval:?} is less than 1s"),
            );
        }
        let predictor = &self.predictor.address;
        demand(
            predictor.is_empty() || predictor.starts_with("http://") || predictor.starts_with("https://"),
            format!("--predictor-addr: {predictor:?} is no http or https URL"),
        );
        demand(
            !self.predictor.direct_access || self.built_in_predictor().is_none(),
            "--predictor-direct-access: needs --predictor-addr, for the built-in predictor answers through the tunnel only"
                .to_owned(),
        );
        demand(
            (0.0..=1.0).contains(&self.promotion.threshold),
            format!(
                "--labels-aggregate-threshold: {} is not within 0 and 1",
                self.promotion.threshold
            ),
        );
        demand(!self.identity.is_empty(), "the identity is empty".to_owned());
        demand(
            self.renew_deadline < self.lease_duration && self.retry_period < self.renew_deadline,
            "--leader-elect-*: retry period < renew deadline < lease duration must hold".to_owned(),
        );
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// Where the predictor answers, as the parent is told: empty without one.
    pub(crate) fn predictor_address(&self) -> String {
        if !self.gates.predictor {
            return String::new();
        }
        match self.built_in_predictor() {
            Some(address) => format!("http://{address}"),
            None => self.predictor.address.clone(),
        }
    }

    /// The `host:port` that stands for the built-in predictor, if that is the one.
    pub(crate) fn built_in_predictor(&self) -> Option<String> {
        let is_built_in = self.gates.predictor && self.predictor.address.is_empty();
        is_built_in.then(|| format!("localhost:{}", self.predictor.port))
    }

    /// The `host:port`s that the hub may dial.
    pub(crate) fn dial_targets(&self) -> Vec<String> {
        host_port(&self.child_url)
            .into_iter()
            .chain(host_port(&self.predictor_address()))
            .chain(self.tunnel_targets.iter().cloned())
            .collect()
    }
}

/// The authority of a URL, with the scheme's port if it names none.
fn host_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest
        .split(['/', '?', '#'])
        .next()
        .filter(|authority| !authority.is_empty())?;
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    Some(if has_port {
        authority.to_owned()
    } else {
        format!("{authority}:{}", if scheme == "http" { 80 } else { 443 })
    })
}

/// Whether a text has the form of a bootstrap token or of a service account token.
fn is_token(token: &str) -> bool {
    let plain = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let parts: Vec<&str> = token.split('.').collect();
    match parts.as_slice() {
        [id, secret] => plain(id, 6) && plain(secret, 16),
        [header, payload, signature] => ![header, payload, signature]
            .into_iter()
            .any(|part| part.is_empty()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_tells_tokens_from_other_texts() {
        for (token, good) in [
            ("abcdef.0123456789abcdef", true),
            ("abcde.0123456789abcdef", false),
            ("abcdef.0123456789abcde", false),
            ("ABCDEF.0123456789abcdef", false),
            ("abcdef.0123456789ABCDEF", false),
            ("abcdefg.0123456789abcdef", false),
            ("abcdef.0123456789abcdef0", false),
            ("a.b.c", true),
            ("a..c", false),
            ("", false),
        ] {
            assert_eq!(is_token(token), good, "{token:?}");
        }
    }

    #[test]
    fn the_hub_may_dial_the_api_server_the_predictor_and_what_was_named() {
        let mut config = Config::new("https://parent:6443", "abcdef.0123456789abcdef", "host_1");
        config.child_url = "https://10.96.0.1".to_owned();
        config.gates.predictor = false;
        assert_eq!(config.dial_targets(), ["10.96.0.1:443"]);
        config.gates.predictor = true;
        config.predictor.port = 8080;
        assert_eq!(config.dial_targets(), ["10.96.0.1:443", "localhost:8080"]);
        config.predictor.address = "http://10.0.0.9/x".to_owned();
        config.tunnel_targets = vec!["web.shop:80".to_owned()];
        assert_eq!(
            config.dial_targets(),
            ["10.96.0.1:443", "10.0.0.9:80", "web.shop:80"]
        );
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let good = Config::new("https://parent:6443", "abcdef.0123456789abcdef", "host_1");
        assert_eq!(good.check(), Ok(()));
        let mut bad = Config::new("parent", "x", "");
        bad.sync_mode = SyncMode::Push;
        bad.cluster_name = Some("No".to_owned());
        bad.promotion.threshold = 1.5;
        bad.collect_interval = Duration::ZERO;
        bad.predictor.direct_access = true;
        assert_eq!(bad.check().expect_err("faults").problems.len(), 8);
        for (address, gate) in [("http://10.0.0.9:8080", true), ("", false)] {
            let mut good = good.clone();
            good.predictor.direct_access = true;
            good.predictor.address = address.to_owned();
            good.gates.predictor = gate;
            assert_eq!(good.check(), Ok(()), "{address:?}");
        }
    }

    #[test]
    fn gates_are_read_by_their_upstream_names() {
        let on = |text: &str| -> String {
            let gates = Gates::parse(text).map_err(|error| error.to_string());
            gates.map_or_else(
                |error| error,
                |gates| {
                    [
                        (gates.socket_connection, "S"),
                        (gates.app_pusher, "A"),
                        (gates.recovery, "R"),
                        (gates.predictor, "P"),
                        (gates.multi_cluster_service, "M"),
                    ]
                    .into_iter()
                    .filter_map(|(on, letter)| on.then_some(letter))
                    .collect()
                },
            )
        };
        for (text, expected) in [
            ("", "SRP"),
            ("AppPusher=true", "SARP"),
            (
                "SocketConnection=true,AppPusher=true,Recovery=true,Predictor=true",
                "SARP",
            ),
            ("Recovery=false, AllAlpha=true", "SAPM"),
            ("AllAlpha=false,SocketConnection=true", "S"),
            ("MultiClusterService=true,AllBeta=true", "SRPM"),
            (
                "AppPusher",
                "--feature-gates: \"AppPusher\" is not NAME=true or NAME=false",
            ),
            (
                "Push=true",
                "--feature-gates: there is no gate \"Push\": this role has AppPusher, MultiClusterService, Predictor, Recovery, SocketConnection",
            ),
        ] {
            assert_eq!(on(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_child_may_be_dialed() {
        for (url, target) in [
            ("https://10.0.0.1", Some("10.0.0.1:443")),
            ("https://10.0.0.1:6443/prefix", Some("10.0.0.1:6443")),
            ("http://api.local", Some("api.local:80")),
            ("https://[::1]", Some("[::1]:443")),
            ("https://[::1]:6443", Some("[::1]:6443")),
            ("nonsense", None),
        ] {
            assert_eq!(host_port(url).as_deref(), target, "{url}");
        }
    }
}
