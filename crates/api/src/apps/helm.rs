//! HelmChart and HelmRelease.

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::kind;

/// The pattern of a repository's address.
const REPOSITORY: &str =
    "^(http|https|oci)?://(?:[a-zA-Z]|[0-9]|[$-_@.&+]|[!*\\(\\),]|(?:%[0-9a-fA-F][0-9a-fA-F]))+$";

kind! {
    /// A chart that can be distributed.
    HelmChart {
        /// Where it is and how it is installed.
        spec: HelmChartSpec,
        /// Whether it was found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<HelmChartStatus>,
    }
}

kind! {
    /// A chart in one cluster. Made by the controllers; not to be edited.
    HelmRelease {
        /// Where it is and how it is installed.
        spec: HelmReleaseSpec,
        /// What has become of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<HelmReleaseStatus>,
    }
}

/// How a chart is found and installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmOptions {
    /// Address of the repository: http, https or oci.
    #[schemars(extend("pattern" = REPOSITORY))]
    pub repo: String,
    /// Secret with `username` and `password` for the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_pull_secret: Option<PullSecret>,
    /// Plain HTTP for an OCI registry.
    #[serde(default, rename = "plainHTTP", skip_serializing_if = "Option::is_none")]
    pub plain_http: Option<bool>,
    /// Name of the chart.
    pub chart: String,
    /// Version of the chart; the newest if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Make the target namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub create_namespace: Option<bool>,
    /// How long one operation may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 300))]
    pub timeout_seconds: Option<i32>,
    /// Wait until what is installed is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// Wait until Jobs are complete too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_job: Option<bool>,
    /// Take the name of a deleted release that is still in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
    /// Undo an installation that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomic: Option<bool>,
    /// Undo an upgrade that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_atomic: Option<bool>,
    /// Leave the chart's CRDs out.
    #[serde(default, rename = "skipCRDs", skip_serializing_if = "Option::is_none")]
    pub skip_crds: Option<bool>,
    /// Replace CRDs before each installation and upgrade.
    #[serde(default, rename = "replaceCRDs", skip_serializing_if = "Option::is_none")]
    pub replace_crds: Option<bool>,
    /// Run no hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_hooks: Option<bool>,
    /// Replace objects that cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Names a Secret with a repository's credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullSecret {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmChartSpec {
    /// How it is found and installed.
    #[serde(flatten)]
    pub options: HelmOptions,
    /// Namespace of the release in the cluster.
    pub target_namespace: String,
}

/// Whether a chart was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmChartStatus {
    /// Whether it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<HelmChartPhase>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether a chart was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HelmChartPhase {
    /// It was.
    Found,
    /// It was not.
    NotFound,
}

/// A chart in one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseSpec {
    /// How it is found and installed.
    #[serde(flatten)]
    pub options: HelmOptions,
    /// Name of the release; made from the names of the Description and the chart if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_name: Option<String>,
    /// Namespace of the release.
    pub target_namespace: String,
    /// The values, JSON or YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::crd::bytes")]
    pub overrides: Option<ByteString>,
}

/// What has become of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// When it was first installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<String>,
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<String>,
    /// What was done last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Helm's word for where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The chart's notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Number of the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::apps::plain_integer")]
    pub version: Option<i64>,
}
