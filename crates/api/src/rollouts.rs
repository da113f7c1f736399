//! `apps.tombolo.io/v1alpha1`: a kind of Tombolo's own, beside those that upstream has. A Rollout says how new content of
//! a Subscription goes through its clusters; a Subscription without one gets it everywhere at once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use machinery::ApiResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::crd::{Definition, age, text};
use crate::object::{Condition, kind};

/// The API group.
pub const GROUP: &str = "apps.tombolo.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Rollouts.
pub const ROLLOUTS: ApiResource = ApiResource::namespaced(GROUP, VERSION, "rollouts", "Rollout");
/// The type of the Secrets that hold what versions consist of.
pub const REVISION_TYPE: &str = "apps.tombolo.io/revision.v1";

/// What is said about the kinds beside their types.
pub(crate) const DEFINITIONS: &[Definition] = &[Definition {
    resource: ROLLOUTS,
    short_names: &["ro"],
    categories: &["clusternet"],
    status: true,
    columns: &[
        text("SUBSCRIPTION", ".spec.subscription"),
        text("PHASE", ".status.phase"),
        text("WAVE", ".status.wave"),
        text("UPDATED", ".status.updated"),
        age("AGE"),
    ],
    schema: Rollout::json_schema,
}];

kind! {
    /// Brings new content of a Subscription to its clusters wave by wave, and back to what was good before if it fails.
    Rollout {
        /// How.
        spec: RolloutSpec,
        /// How far it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<RolloutStatus>,
    }
}

/// How new content goes through the clusters of a Subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// The Subscription's name, in the same namespace.
    #[schemars(extend("minLength" = 1))]
    pub subscription: String,
    /// The waves, in their order. Clusters that none names are in a last one of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 100))]
    pub waves: Vec<Wave>,
    /// How many clusters of a wave may be on their way at a time: a number, or a share of the wave (`25%`), rounded up.
    /// None: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_share")]
    pub max_concurrent: Option<IntOrString>,
    /// For how long all of a wave is to be available before the next begins: `2m`, `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "0s", "pattern" = DURATION))]
    pub success_time: Option<String>,
    /// A cluster that is not available for so long with the new content has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10m", "pattern" = DURATION))]
    pub progress_deadline: Option<String>,
    /// How many clusters may fail: a number, or a share (`5%`) of those that have got the new content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_share")]
    pub failure_threshold: Option<IntOrString>,
    /// What happens when more fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "RollBack"))]
    pub on_failure: Option<OnFailure>,
    /// Nothing new goes out, and nothing is judged, while it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What is waited for as one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.clusterSelector) != has(self.count)", "message": "a wave has either clusterSelector or count"}
]))]
pub struct Wave {
    /// What it is called; `wave-1` and so on if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 63))]
    pub name: Option<String>,
    /// Labels of its ManagedClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
    /// How many of the clusters that are left: a number, or a share of all that are bound (`10%`), rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_share")]
    pub count: Option<IntOrString>,
}

/// What happens when too many clusters have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// All go back to the last good version.
    RollBack,
    /// All stay where they are.
    Pause,
}

/// How far a Rollout is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RolloutPhase>,
    /// The version that is brought out, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_version: Option<String>,
    /// The last version that went through all waves: what is gone back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_version: Option<String>,
    /// What was stable before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// The version that failed. It is not tried again until the content changes, or somebody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_version: Option<String>,
    /// When bringing out the target version began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The number of the wave that is on, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_wave: Option<i32>,
    /// The same, of all waves: `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<String>,
    /// How many clusters have the target version, of all: `40/300`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<String>,
    /// Each wave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<WaveStatus>,
    /// The first ten clusters that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ClusterFailure>,
    /// `Progressing`, `Healthy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where a Rollout stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// The target version is on its way.
    Progressing,
    /// Somebody paused it.
    Paused,
    /// All waves are through.
    Complete,
    /// Too many failed, and all stay where they are.
    Failed,
    /// Too many failed, and all go back.
    RollingBack,
    /// All are back.
    RolledBack,
}

impl RolloutPhase {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Progressing,
        Self::Paused,
        Self::Complete,
        Self::Failed,
        Self::RollingBack,
        Self::RolledBack,
    ];

    /// The word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
        }
    }

    /// From the word of the wire.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }
}

/// How far one wave is. Numbers are of clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Its name.
    pub name: String,
    /// All in it.
    pub clusters: i32,
    /// Those that have taken the target version in.
    pub updated: i32,
    /// Those of them where everything is available.
    pub available: i32,
    /// Those that failed.
    pub failed: i32,
    /// Those that are not ready: they are waited for no longer than the progress deadline, and get the version when they
    /// come back.
    pub unreachable: i32,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Since when all of it is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_since: Option<Time>,
    /// When it was through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
}

/// A cluster that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailure {
    /// Its name.
    pub cluster: String,
    /// What is wrong there.
    pub reason: String,
}

/// What a duration looks like.
const DURATION: &str = "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$";

/// A number, or a share of a hundred.
fn number_or_share(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "pattern": "^([0-9]{1,9}|100%|[0-9]{1,2}%)$",
        "minimum": 0,
    })
}
