//! Base, Description and Manifest: what each cluster gets.

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::{Condition, Feed, kind};

kind! {
    /// What one cluster gets of one Subscription. Made by the controllers; not to be edited.
    Base {
        /// What is wanted.
        spec: BaseSpec,
    }
}

/// What one cluster gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseSpec {
    /// The objects.
    pub feeds: Vec<Feed>,
}

kind! {
    /// The final objects for one cluster, after overrides. Made by the controllers; not to be edited.
    Description {
        /// What is wanted.
        spec: DescriptionSpec,
        /// What has become of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<DescriptionStatus>,
    }
}

/// The final objects for one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DescriptionSpec {
    /// How they are brought in.
    pub deployer: Deployer,
    /// The HelmCharts, with deployer Helm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<ChartReference>,
    /// Each object's JSON, or what stands for it (deployer Generic), or each chart's values (deployer Helm).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::crd::bytes_list")]
    pub raw: Vec<ByteString>,
    /// Each HelmChart's JSON, with deployer Helm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::crd::bytes_list")]
    pub chart_raw: Vec<ByteString>,
}

/// How objects are brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Deployer {
    /// As Helm releases.
    Helm,
    /// As they are.
    Generic,
}

/// Names a HelmChart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What has become of a Description.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DescriptionStatus {
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<DescriptionPhase>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The state of each object in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_statuses: Vec<ManifestStatus>,
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Applied`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where a Description stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DescriptionPhase {
    /// Not begun.
    Pending,
    /// All is applied.
    Success,
    /// Something is not applied.
    Failure,
    /// A chart is being installed.
    Installing,
    /// A chart is being upgraded.
    Upgrading,
    /// A chart is being removed.
    Uninstalling,
    /// A newer one took its place.
    Superseded,
    /// Nobody knows.
    Unknown,
}

/// The state of one object in the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestStatus {
    /// The object.
    #[serde(flatten)]
    pub feed: Feed,
    /// Its status as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::crd::any_object")]
    pub observed_status: Option<Value>,
    /// The generation of the object, beside the one that its status observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

kind! {
    /// A template in the hub: an object that can be distributed.
    Manifest {
        /// The object.
        #[schemars(schema_with = "crate::crd::any_object")]
        template: Value,
    }
}
