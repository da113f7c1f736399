//! FeedInventory: what the feeds of a Subscription need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::{Feed, kind};

kind! {
    /// What the feeds of the Subscription of the same name need. Other controllers may write it.
    FeedInventory {
        /// The needs.
        spec: FeedInventorySpec,
    }
}

/// The needs of feeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedInventorySpec {
    /// Each feed, in the Subscription's order.
    pub feeds: Vec<FeedOrder>,
}

/// The needs of one feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedOrder {
    /// The feed.
    #[serde(flatten)]
    pub feed: Feed,
    /// How many replicas are wanted; none if it has no replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// What each replica needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// JSON pointer to the number of replicas, such as `/spec/replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_json_path: Option<String>,
}

/// What a replica needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// Labels that its node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that it puts up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Where it wants to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// What it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources")]
    pub resources: Option<ResourceRequirements>,
}

fn resources(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = generator.subschema_for::<ResourceRequirements>();
    if let Some(claims) = schema
        .pointer_mut("/properties/claims")
        .and_then(|claims| claims.as_object_mut())
    {
        claims.insert("x-kubernetes-list-type".to_owned(), "map".into());
        claims.insert(
            "x-kubernetes-list-map-keys".to_owned(),
            serde_json::json!(["name"]),
        );
    }
    schema
}
