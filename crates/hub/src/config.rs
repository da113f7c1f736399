//! What a hub is told.

use api::gates::{self, GateError};
use machinery::names::is_dns1123_label;
use tunnel::Limits;

/// The hub's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Namespace of the Manifests. Default `clusternet-reserved`.
    pub reserved_namespace: String,
    /// Whether tunnels and the cluster proxy are on (upstream's gate `SocketConnection`). Default on.
    pub socket_connection: bool,
    /// Whether the shadow API is on (upstream's gate `ShadowAPI`). Default on.
    pub shadow_api: bool,
    /// Bounds of each tunnel.
    pub tunnel: Limits,
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The reserved namespace is no namespace's name.
    #[error("reserved namespace {name:?} is not usable: {problem}")]
    ReservedNamespace {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reserved_namespace: api::names::RESERVED_NAMESPACE.to_owned(),
            socket_connection: true,
            shadow_api: true,
            tunnel: Limits::default(),
        }
    }
}

impl Config {
    /// Takes what `--feature-gates` says ([`api::gates`]).
    ///
    /// # Errors
    /// The first pair that makes no sense.
    pub fn with_gates(mut self, text: &str) -> Result<Self, GateError> {
        let gates = gates::parse(text, &["ShadowAPI", "SocketConnection"])?;
        let gate = |name, default| gates.get(name).copied().unwrap_or(default);
        self.shadow_api = gate("ShadowAPI", self.shadow_api);
        self.socket_connection = gate("SocketConnection", self.socket_connection);
        Ok(self)
    }

    /// Checks the fields that can be wrong.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(self) -> Result<Self, ConfigError> {
        match is_dns1123_label(&self.reserved_namespace) {
            Ok(()) => Ok(self),
            Err(problem) => Err(ConfigError::ReservedNamespace {
                name: self.reserved_namespace,
                problem,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_switch_its_groups() {
        for (text, expected) in [
            ("", (true, true)),
            (
                "SocketConnection=true,ShadowAPI=true,AppPusher=false",
                (true, true),
            ),
            ("ShadowAPI=false", (true, false)),
            ("AllAlpha=false,ShadowAPI=true", (false, true)),
        ] {
            let config = Config::default().with_gates(text).unwrap();
            assert_eq!((config.socket_connection, config.shadow_api), expected, "{text}");
        }
        assert!(Config::default().with_gates("Shadow=true").is_err());
    }
}
