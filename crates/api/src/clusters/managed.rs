//! ManagedCluster: a child that was taken in.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SyncMode;
use crate::object::{Condition, UUID, kind};

kind! {
    /// A child that was taken in.
    ManagedCluster {
        /// What is wanted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spec: Option<ManagedClusterSpec>,
        /// What its agent reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ManagedClusterStatus>,
    }
}

/// What is wanted of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(oldSelf.clusterInitBaseName) || has(self.clusterInitBaseName)",
    "message": "clusterInitBaseName cannot be taken away",
}]))]
pub struct ManagedClusterSpec {
    /// The UID of its agent's Lease; never changed, so that no child passes for another.
    #[schemars(extend("pattern" = UUID, "x-kubernetes-validations" = [{
        "rule": "self == oldSelf",
        "message": "clusterId cannot be changed",
    }]))]
    pub cluster_id: String,
    /// What kind of cluster it is: `EdgeCluster`, `StandardCluster`…
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_type: Option<String>,
    /// Who brings objects in. The agent follows it.
    pub sync_mode: SyncMode,
    /// What keeps Subscriptions away that do not tolerate it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// The Base that is its init workload; never changed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 512, "x-kubernetes-validations" = [{
        "rule": "self == oldSelf",
        "message": "clusterInitBaseName cannot be changed once it is set",
    }]))]
    pub cluster_init_base_name: Option<String>,
}

/// What a child's agent reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// When the agent looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
    /// Version of Kubernetes.
    #[serde(default, rename = "k8sVersion", skip_serializing_if = "Option::is_none")]
    pub k8s_version: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Operating system and processor of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Address of the API server, as the agent sees it.
    #[serde(default, rename = "apiserverURL", skip_serializing_if = "Option::is_none")]
    pub apiserver_url: Option<String>,
    /// Whether `/healthz` answers well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthz: Option<bool>,
    /// Whether `/livez` answers well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub livez: Option<bool>,
    /// Whether `/readyz` answers well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readyz: Option<bool>,
    /// Whether the parent may push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_pusher: Option<bool>,
    /// Whether the agent keeps a tunnel open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_socket: Option<bool>,
    /// Requests a second that the parent may send.
    #[serde(default, rename = "kubeQPS", skip_serializing_if = "Option::is_none")]
    pub kube_qps: Option<f64>,
    /// Requests at once that the parent may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_burst: Option<i32>,
    /// What pods can have, over all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What there is, over all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Addresses of pods.
    #[serde(default, rename = "clusterCIDR", skip_serializing_if = "Option::is_none")]
    pub cluster_cidr: Option<String>,
    /// Addresses of services.
    #[serde(default, rename = "serviceCIDR", skip_serializing_if = "Option::is_none")]
    pub service_cidr: Option<String>,
    /// Nodes by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_statistics: Option<NodeStatistics>,
    /// Pods by state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_statistics: Option<PodStatistics>,
    /// What is used now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<ResourceUsage>,
    /// `Ready`, `ClusterInit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Seconds between two reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_frequency_seconds: Option<i64>,
    /// Whether a predictor answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor_enabled: Option<bool>,
    /// Address of the predictor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor_address: Option<String>,
    /// Whether the predictor can be reached without the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictor_direct_access: Option<bool>,
    /// The key that Secrets are encrypted to on their way: X25519, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_key: Option<String>,
    /// What the agent understands beyond the common: `payload-references`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// Nodes by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatistics {
    /// Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_nodes: Option<i32>,
    /// Not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready_nodes: Option<i32>,
    /// Not heard of lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_nodes: Option<i32>,
    /// Never heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_nodes: Option<i32>,
}

/// Pods by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodStatistics {
    /// Running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_pods: Option<i32>,
    /// All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_pods: Option<i32>,
}

/// What is used now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_usage: Option<Quantity>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_usage: Option<Quantity>,
}
