//! Subscription: which objects go to which clusters.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PreferredSchedulingTerm, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::{CLUSTER_NAME, Condition, Feed, UUID, kind};

kind! {
    /// Distributes objects to clusters.
    Subscription {
        /// What is wanted.
        spec: SubscriptionSpec,
        /// What has become of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<SubscriptionStatus>,
    }
}

/// What is wanted of a Subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// Which scheduler decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "default"))]
    pub scheduler_name: Option<String>,
    /// Whether clusters get whole objects or shares of the replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Replication"))]
    pub scheduling_strategy: Option<SchedulingStrategy>,
    /// How replicas are divided, with strategy Dividing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dividing_scheduling: Option<DividingScheduling>,
    /// Whether each subscriber chooses its own number of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_by_sub_group: Option<bool>,
    /// Larger goes first; none is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether lower priorities make room. Not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "PreemptLowerPriority"))]
    pub preemption_policy: Option<PreemptionPolicy>,
    /// Which clusters.
    pub subscribers: Vec<Subscriber>,
    /// Which taints of clusters are put up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// Which objects, in order.
    pub feeds: Vec<Feed>,
}

/// Whether clusters get whole objects or shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SchedulingStrategy {
    /// Each cluster gets each object as it is.
    Replication,
    /// The replicas of each workload are divided among the clusters.
    Dividing,
}

/// Whether lower priorities make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionPolicy {
    /// They do.
    PreemptLowerPriority,
    /// They do not.
    PreemptNever,
}

/// How replicas are divided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DividingScheduling {
    /// By weights, or by free capacity.
    #[schemars(extend("default" = "Static"))]
    pub r#type: DividingType,
    /// Details of type Dynamic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_dividing: Option<DynamicDividing>,
}

/// What replicas are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DividingType {
    /// The subscribers' weights.
    Static,
    /// The clusters' free capacity.
    Dynamic,
}

/// Division by free capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicDividing {
    /// Spread over the clusters, or filling them one by one.
    #[schemars(extend("default" = "Spread"))]
    pub strategy: DynamicStrategy,
    /// How replicas spread over topology domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Which clusters come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_clusters: Vec<PreferredSchedulingTerm>,
    /// At least so many clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_clusters: Option<i32>,
    /// At most so many clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_clusters: Option<i32>,
}

/// How clusters are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DynamicStrategy {
    /// Evenly.
    Spread,
    /// One after the other.
    Binpack,
}

/// One choice of clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subscriber {
    /// Labels of the clusters; empty matches all.
    pub cluster_affinity: LabelSelector,
    /// Weight of each cluster, with type Static.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub weight: Option<i32>,
    /// How many of the clusters, with schedulingBySubGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_group_strategy: Option<SubGroupStrategy>,
}

/// How many clusters of one subscriber.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubGroupStrategy {
    /// At least so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub min_clusters: Option<i32>,
}

/// What has become of a Subscription.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// The chosen clusters, `NAMESPACE/NAME`, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binding_clusters: Vec<String>,
    /// Replicas of each feed (`APIVERSION/KIND/NAMESPACE/NAME`), in the order of the chosen clusters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicas: BTreeMap<String, Vec<i32>>,
    /// Hash of the spec that the choice was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<i64>,
    /// How many clusters are to have the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::apps::plain_integer")]
    pub desired_releases: Option<i64>,
    /// How many clusters have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::apps::plain_integer")]
    pub completed_releases: Option<i64>,
    /// The state of each feed over all clusters; of many, counts and examples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_statuses: Vec<AggregatedStatus>,
    /// `Scheduled`, `Applied`, `Available`; `Shortened` while not every detail is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The state of one feed over all clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatus {
    /// The feed.
    #[serde(flatten)]
    pub feed: Feed,
    /// All clusters together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed_status_summary: Option<FeedStatusSummary>,
    /// Each cluster, or the first examples of each cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feed_status_details: Vec<FeedStatusDetail>,
}

/// The state of a feed over all clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedStatusSummary {
    /// Whether it is available everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<bool>,
    /// Sums over the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_status: Option<ReplicaStatus>,
}

/// The state of a feed in one cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedStatusDetail {
    /// The cluster's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = UUID))]
    pub cluster_id: Option<String>,
    /// The cluster's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = CLUSTER_NAME, "maxLength" = 60))]
    pub cluster_name: Option<String>,
    /// Whether it is available there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<bool>,
    /// Its replicas there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_status: Option<ReplicaStatus>,
}

/// Replicas of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The generation that the workload's controller has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// All replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas of the new template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Replicas of the current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Ready replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Replicas that are ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Replicas that are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Pods of a Job that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// Pods of a Job that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Pods of a Job that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
}
