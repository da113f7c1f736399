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
