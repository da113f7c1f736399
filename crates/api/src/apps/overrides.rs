//! Localization and Globalization: how objects differ from cluster to cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::{Feed, kind};

kind! {
    /// Changes a feed for the cluster of its namespace.
    Localization {
        /// The changes.
        spec: LocalizationSpec,
    }
}

kind! {
    /// Changes a feed for all clusters that it selects.
    Globalization {
        /// The changes.
        spec: GlobalizationSpec,
    }
}

/// Changes for one cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalizationSpec {
    /// Whether what is already distributed changes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ApplyLater"))]
    pub override_policy: Option<OverridePolicy>,
    /// Larger is applied later, so it wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 500, "minimum" = 0, "maximum" = 1000))]
    pub priority: Option<i32>,
    /// What is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<Feed>,
    /// The changes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// Changes for selected clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalizationSpec {
    /// Labels of the clusters; none means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<LabelSelector>,
    /// Whether what is already distributed changes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ApplyLater"))]
    pub override_policy: Option<OverridePolicy>,
    /// Larger is applied later, so it wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 500, "minimum" = 0, "maximum" = 1000))]
    pub priority: Option<i32>,
    /// What is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<Feed>,
    /// The changes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// Whether what is already distributed changes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverridePolicy {
    /// At once.
    ApplyNow,
    /// With the next change of the Subscription or the feed.
    ApplyLater,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The patch or the values, JSON or YAML.
    pub value: String,
    /// How the value is applied.
    pub r#type: OverrideType,
    /// Patch the HelmChart object instead of the chart's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_chart: Option<bool>,
    /// The field that holds the text to patch (`/data/app.yaml`), with the two Field types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// What the field's text is, with the two Field types; YAML if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_format: Option<FieldFormat>,
}

/// How a change is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverrideType {
    /// Merged into a chart's values.
    Helm,
    /// RFC 6902.
    #[serde(rename = "JSONPatch")]
    JsonPatch,
    /// RFC 7386.
    MergePatch,
    /// RFC 6902 within a field's text.
    #[serde(rename = "FieldJSONPatch")]
    FieldJsonPatch,
    /// RFC 7386 within a field's text.
    FieldMergePatch,
}

/// What a field's text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldFormat {
    /// YAML.
    #[serde(rename = "YAML")]
    Yaml,
    /// JSON.
    #[serde(rename = "JSON")]
    Json,
}
