//! `clusters.clusternet.io/v1beta1`: registration and the clusters that came of it.

use machinery::ApiResource;

/// The API group.
pub const GROUP: &str = "clusters.clusternet.io";
/// Its version.
pub const VERSION: &str = "v1beta1";
/// ClusterRegistrationRequests.
pub const REGISTRATION_REQUESTS: ApiResource = ApiResource::cluster(
    GROUP,
    VERSION,
    "clusterregistrationrequests",
    "ClusterRegistrationRequest",
);
/// ManagedClusters.
pub const MANAGED_CLUSTERS: ApiResource =
    ApiResource::namespaced(GROUP, VERSION, "managedclusters", "ManagedCluster");

mod managed;
mod request;

pub use managed::*;
pub use request::*;

use crate::annotations::FENCED;
use crate::crd::{Definition, age, text, wide};
use crate::{labels, reasons};
use machinery::meta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The id that a ManagedCluster may be known by: its own word, if that is what the label of its namespace says, which
/// the parent alone can write.
pub fn trusted_id<'a>(cluster: &Value, namespace: Option<&'a Value>) -> Option<&'a str> {
    let id = meta::label(namespace?, labels::CLUSTER_ID)?;
    (cluster["spec"]["clusterId"] == id).then_some(id)
}

/// The labels that say which cluster a ManagedCluster is, from the fields that the approval set for ever: the name, and the
/// id, which the definition's rule `self == oldSelf` keeps. The labels themselves are the child's to write, so these go before
/// them wherever clusters are selected. Those of which nothing is known are left out.
pub fn identity_labels(cluster: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    let id = cluster["spec"]["clusterId"].as_str().unwrap_or_default();
    [
        (labels::CLUSTER_ID, id),
        (labels::CLUSTER_NAME, meta::name(cluster)),
    ]
    .into_iter()
    .filter(move |(_, value)| !id.is_empty() && !value.is_empty())
}

/// Whether a ManagedCluster is heard of, and well.
pub fn is_ready(cluster: &Value) -> bool {
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["type"] == reasons::READY && it["status"] == "True")
}

/// Whether a person says that a ManagedCluster, which is not ready, runs nothing any more.
pub fn is_fenced(cluster: &Value) -> bool {
    meta::label(cluster, FENCED) == Some("true") && !is_ready(cluster)
}

/// A label of a ManagedCluster, as selectors are to see it ([`identity_labels`]).
pub fn label<'a>(cluster: &'a Value, key: &str) -> Option<&'a str> {
    identity_labels(cluster)
        .find_map(|(of, value)| (of == key).then_some(value))
        .or_else(|| meta::label(cluster, key))
}

/// Who brings objects into a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    /// The parent.
    Push,
    /// The agent.
    Pull,
    /// The parent if the agent lets it, else the agent.
    Dual,
}

impl SyncMode {
    /// The word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "Push",
            Self::Pull => "Pull",
            Self::Dual => "Dual",
        }
    }

    /// From the word of the wire.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Push, Self::Pull, Self::Dual]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// What is said about the kinds beside their types.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        resource: REGISTRATION_REQUESTS,
        short_names: &["clsrr"],
        categories: &["clusternet"],
        status: true,
        columns: &[
            text("CLUSTER ID", ".spec.clusterId"),
            text("STATUS", ".status.result"),
            age("AGE"),
        ],
        schema: ClusterRegistrationRequest::json_schema,
    },
    Definition {
        resource: MANAGED_CLUSTERS,
        short_names: &["mcls"],
        categories: &["clusternet"],
        status: true,
        columns: &[
            text("CLUSTER ID", ".spec.clusterId"),
            wide("CLUSTER TYPE", ".spec.clusterType"),
            text("SYNC MODE", ".spec.syncMode"),
            text("KUBERNETES", ".status.k8sVersion"),
            text("STATUS", ".status.conditions[?(@.type=='Ready')].status"),
            age("AGE"),
            wide("AGENT VERSION", ".status.agentVersion"),
        ],
        schema: ManagedCluster::json_schema,
    },
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_cluster_that_is_not_ready_is_fenced() {
        for (place, said, ready, expected) in [
            ("labels", "true", "Unknown", true),
            ("labels", "true", "True", false),
            ("labels", "yes", "Unknown", false),
            // Annotations are the child's to write.
            ("annotations", "true", "Unknown", false),
        ] {
            let cluster = json!({"metadata": {place: {FENCED: said}},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            assert_eq!(is_fenced(&cluster), expected, "{said} {ready} {place}");
        }
    }

    #[test]
    fn a_cluster_cannot_be_selected_as_another() {
        let cluster = json!({
            "metadata": {"name": "edge-7", "labels":
                {labels::CLUSTER_ID: "b", labels::CLUSTER_NAME: "member-1", "region": "north"}},
            "spec": {"clusterId": "a"},
        });
        assert_eq!(label(&cluster, labels::CLUSTER_ID), Some("a"));
        assert_eq!(label(&cluster, labels::CLUSTER_NAME), Some("edge-7"));
        assert_eq!(label(&cluster, "region"), Some("north"));
        assert_eq!(label(&cluster, "zone"), None);
        let by_hand = json!({"metadata": {"name": "x", "labels": {labels::CLUSTER_NAME: "y"}}});
        assert_eq!(
            label(&by_hand, labels::CLUSTER_NAME),
            Some("y"),
            "nothing to go by"
        );
    }

    #[test]
    fn a_clusters_word_counts_only_if_its_namespace_says_the_same() {
        let namespace = |id: Option<&str>| json!({"metadata": {"labels": {labels::CLUSTER_ID: id}}});
        let cluster = json!({"spec": {"clusterId": "a"}, "metadata": {"labels": {labels::CLUSTER_ID: "b"}}});
        for (namespace, expected) in [
            (Some(namespace(Some("a"))), Some("a")),
            (Some(namespace(Some("b"))), None),
            (Some(namespace(None)), None),
            (None, None),
        ] {
            assert_eq!(
                trusted_id(&cluster, namespace.as_ref()),
                expected,
                "{namespace:?}"
            );
        }
    }
}
