//! ServiceExport and ServiceImport.

use k8s_openapi::api::core::v1::SessionAffinityConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::{Condition, kind};

kind! {
    /// Exports the Service of the same name to the other clusters.
    ServiceExport {
        /// What has become of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ServiceExportStatus>,
    }
}

/// What has become of an export.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExportStatus {
    /// `Valid`, `Conflict`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

kind! {
    /// A Service of other clusters.
    ServiceImport {
        /// How it is reached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spec: Option<ServiceImportSpec>,
        /// Where it comes from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ServiceImportStatus>,
    }
}

/// How an imported Service is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportSpec {
    /// Its ports.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ports: Vec<ServiceImportPort>,
    /// Its virtual address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 1))]
    pub ips: Vec<String>,
    /// With one virtual address, or with those of the pods.
    pub r#type: ServiceImportType,
    /// `ClientIP` or `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<String>,
    /// Details of the session affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
}

/// With one virtual address, or with those of the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceImportType {
    /// One virtual address.
    ClusterSetIP,
    /// The pods' addresses.
    Headless,
}

/// A port of an imported Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportPort {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The protocol above that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Its number.
    pub port: i32,
}

/// Where an imported Service comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportStatus {
    /// The exporting clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub clusters: Vec<SourceCluster>,
}

/// A cluster that exports a Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceCluster {
    /// Its name.
    pub cluster: String,
}
