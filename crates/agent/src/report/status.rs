//! The whole status of a ManagedCluster.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::conditions;
use serde_json::{Value, json};

use super::cidr::Cidrs;
use super::{nodes, ready};
use crate::config::Config;

/// How the child's API server answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// `/healthz` is well.
    pub healthz: bool,
    /// `/livez` is well.
    pub livez: bool,
    /// `/readyz` is well.
    pub readyz: bool,
}

/// Pods and what they use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Running pods and all pods, if they were counted.
    pub pods: Option<(usize, usize)>,
    /// Processors and memory in use, if they were measured.
    pub resources: Option<(String, String)>,
}

/// What one look at the child saw.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    /// When.
    pub now: Timestamp,
    /// `/version`.
    pub version: &'a Value,
    /// All nodes.
    pub nodes: &'a [Arc<Value>],
    /// How the API server answers.
    pub health: Health,
    /// Addresses of pods and services.
    pub cidrs: &'a Cidrs,
    /// Pods and what they use.
    pub usage: &'a Usage,
    /// What this agent understands beyond the common.
    pub features: &'a [&'a str],
    /// The key that Secrets are encrypted to.
    pub encryption_key: Option<String>,
    /// The conditions that the ManagedCluster has now.
    pub conditions: &'a [Value],
}

/// The status that the agent reports. Fields of others are not in it, but for the conditions, which are merged.
pub fn status(config: &Config, snapshot: &Snapshot<'_>) -> Value {
    let Snapshot {
        now,
        version,
        nodes: all_nodes,
        health,
        cidrs,
        usage,
        features,
        encryption_key,
        conditions: old_conditions,
    } = snapshot;
    let Health {
        healthz,
        livez,
        readyz,
    } = *health;
    let mut status = json!({
        "lastObservedTime": conditions::time(*now),
        "k8sVersion": version["gitVersion"],
        "platform": version["platform"],
        "agentVersion": config.version,
        "apiserverURL": config.child_url,
        "healthz": healthz,
        "livez": livez,
        "readyz": readyz,
        "appPusher": config.gates.app_pusher,
        "useSocket": config.gates.socket_connection,
        "kubeQPS": number(config.kube_qps),
        "kubeBurst": config.kube_burst,
        "allocatable": nodes::sums(all_nodes, "allocatable"),
        "capacity": nodes::sums(all_nodes, "capacity"),
        "nodeStatistics": nodes::statistics(all_nodes),
        "heartbeatFrequencySeconds": config.report_interval.as_secs(),
        "predictorEnabled": config.gates.predictor,
        "predictorAddress": config.predictor_address(),
        "features": features,
        "encryptionKey": encryption_key,
        "predictorDirectAccess": config.predictor.direct_access && config.built_in_predictor().is_none(),
        "conditions": conditions::merge(old_conditions, ready::ready(*health, *now)),
    });
    for (field, found, given) in [
        ("clusterCIDR", &cidrs.cluster, &config.cluster_cidr),
        ("serviceCIDR", &cidrs.service, &config.service_cidr),
    ] {
        if let Some(cidr) = found.as_ref().or(given.as_ref()) {
            status[field] = json!(cidr);
        }
    }
    if let Some((running, all)) = usage.pods {
        status["podStatistics"] = json!({"runningPods": running, "totalPods": all});
    }
    if let Some((cpu, memory)) = &usage.resources {
        status["resourceUsage"] = json!({"cpuUsage": cpu, "memoryUsage": memory});
    }
    // A server that says no version or platform: the field is left out, for it cannot be null.
    if let Some(status) = status.as_object_mut() {
        status.retain(|_, value| !value.is_null());
    }
    status
}

/// A whole number without a point, as Go writes it.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        // The cast is exact: the value is whole and small.
        return json!(value as i64);
    }
    json!(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_wire_is_there() {
        let mut config = Config::new("https://parent", "abcdef.0123456789abcdef", "host_1");
        config.child_url = "https://10.0.0.1:6443".to_owned();
        config.service_cidr = Some("10.96.0.0/12".to_owned());
        let cidrs = Cidrs {
            cluster: Some("10.0.0.0/8".to_owned()),
            service: None,
        };
        let usage = Usage {
            pods: Some((3, 4)),
            resources: Some(("1500m".to_owned(), "2Gi".to_owned())),
        };
        let node = Arc::new(json!({"status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}}}));
        let snapshot = Snapshot {
            now: "2026-01-01T00:00:00.5Z".parse().unwrap(),
            version: &json!({"gitVersion": "v1.34.0", "platform": "linux/amd64"}),
            nodes: &[node],
            health: Health {
                healthz: true,
                livez: true,
                readyz: true,
            },
            cidrs: &cidrs,
            usage: &usage,
            features: &["payload-references"],
            encryption_key: Some("key".to_owned()),
            conditions: &[],
        };
        let status = status(&config, &snapshot);
        for field in [
            "lastObservedTime",
            "k8sVersion",
            "agentVersion",
            "platform",
            "apiserverURL",
            "healthz",
            "livez",
            "readyz",
            "appPusher",
            "useSocket",
            "kubeQPS",
            "kubeBurst",
            "allocatable",
            "capacity",
            "clusterCIDR",
            "serviceCIDR",
            "nodeStatistics",
            "podStatistics",
            "resourceUsage",
            "conditions",
            "heartbeatFrequencySeconds",
            "predictorEnabled",
            "predictorAddress",
            "predictorDirectAccess",
            "features",
            "encryptionKey",
        ] {
            assert!(
                status.get(field).is_some_and(|value| !value.is_null()),
                "{field}: {status}"
            );
        }
        assert_eq!(status["kubeQPS"], json!(50));
        assert_eq!(status["heartbeatFrequencySeconds"], 180);
        // Nothing listens for the built-in predictor, so nobody is sent there.
        for (address, direct) in [("", false), ("http://10.0.0.9:8080", true)] {
            config.predictor.address = address.to_owned();
            config.predictor.direct_access = true;
            let told = super::status(&config, &snapshot);
            assert_eq!(told["predictorDirectAccess"], direct, "{address:?}");
        }
        // The type of the wire takes it.
        let typed: api::clusters::ManagedClusterStatus =
            serde_json::from_value(status).expect("fits the type");
        assert_eq!(typed.capacity["cpu"].0, "2");
    }
}
