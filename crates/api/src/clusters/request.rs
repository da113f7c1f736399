//! ClusterRegistrationRequest: a child asks to be taken in.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SyncMode;
use crate::object::{CLUSTER_NAME, UUID, kind};

kind! {
    /// A child's request to be taken in.
    ClusterRegistrationRequest {
        /// What the child says about itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spec: Option<ClusterRegistrationRequestSpec>,
        /// The answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<ClusterRegistrationRequestStatus>,
    }
}

/// What a child says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRegistrationRequestSpec {
    /// The UID of its agent's Lease.
    #[schemars(extend("pattern" = UUID))]
    pub cluster_id: String,
    /// What kind of cluster it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_type: Option<String>,
    /// The name that it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = CLUSTER_NAME, "maxLength" = 60))]
    pub cluster_name: Option<String>,
    /// The dedicated namespace that it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength" = 63))]
    pub cluster_namespace: Option<String>,
    /// Labels for its ManagedCluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_labels: BTreeMap<String, String>,
    /// Who brings objects in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Pull"))]
    pub sync_mode: Option<SyncMode>,
}

/// The answer to a child.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRegistrationRequestStatus {
    /// Its namespace on the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated_namespace: Option<String>,
    /// Its ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_cluster_name: Option<String>,
    /// Its credential on the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::crd::bytes")]
    pub token: Option<ByteString>,
    /// The CA of the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::crd::bytes")]
    pub ca_certificate: Option<ByteString>,
    /// `Approved`, `Denied` or `Failed`; none while nobody has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it was not approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}
