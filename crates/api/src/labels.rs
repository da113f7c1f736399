//! Label keys and values.

/// Which component made an object; values are the `CREATED_BY_*` constants.
pub const CREATED_BY: &str = "clusternet.io/created-by";
/// Value of [`CREATED_BY`]: made by the agent, or for it.
pub const CREATED_BY_AGENT: &str = "clusternet-agent";
/// Value of [`CREATED_BY`]: made through the hub's shadow API.
pub const CREATED_BY_HUB: &str = "clusternet-hub";
/// Value of [`CREATED_BY`]: made by the controllers.
pub const CREATED_BY_CONTROLLERS: &str = "clusternet-controller-manager";

/// On a ClusterRegistrationRequest: who asked; the value is [`CREATED_BY_AGENT`].
pub const REGISTERED_BY: &str = "clusters.clusternet.io/registered-by";
/// The child's id (the UID of its agent's Lease).
pub const CLUSTER_ID: &str = "clusters.clusternet.io/cluster-id";
/// The child's name.
pub const CLUSTER_NAME: &str = "clusters.clusternet.io/cluster-name";
/// What an object of the registration is for.
pub const BOOTSTRAPPING: &str = "clusters.clusternet.io/bootstrapping";
/// Value of [`BOOTSTRAPPING`] on secrets.
pub const CREDENTIALS_AUTO: &str = "credentials-auto";
/// Value of [`BOOTSTRAPPING`] on roles and bindings.
pub const RBAC_DEFAULTS: &str = "rbac-defaults";

/// The API group of the object that this one stands for.
pub const CONFIG_GROUP: &str = "apps.clusternet.io/config.group";
/// The version of the object that this one stands for.
pub const CONFIG_VERSION: &str = "apps.clusternet.io/config.version";
/// The kind of the object that this one stands for, or of its owner.
pub const CONFIG_KIND: &str = "apps.clusternet.io/config.kind";
/// The name of the object that this one stands for, or of its owner.
pub const CONFIG_NAME: &str = "apps.clusternet.io/config.name";
/// The namespace of the object that this one stands for, or of its owner.
pub const CONFIG_NAMESPACE: &str = "apps.clusternet.io/config.namespace";
/// The UID of the owner.
pub const CONFIG_UID: &str = "apps.clusternet.io/config.uid";

/// The UID of the originating Subscription.
pub const SUBSCRIPTION_UID: &str = "apps.clusternet.io/subs.uid";
/// The name of the originating Subscription.
pub const SUBSCRIPTION_NAME: &str = "apps.clusternet.io/subs.name";
/// The namespace of the originating Subscription.
pub const SUBSCRIPTION_NAMESPACE: &str = "apps.clusternet.io/subs.namespace";

/// The name of the exported Service that an EndpointSlice or ServiceImport belongs to.
pub const MULTI_CLUSTER_SERVICE_NAME: &str = "services.clusternet.io/multi-cluster-service-name";
/// The namespace of the exported Service that an EndpointSlice or ServiceImport belongs to.
pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "services.clusternet.io/multi-cluster-service-namespace";

/// On a Secret that holds a piece of a version, Tombolo's own: which piece, `index`, `template` or `globalization`.
pub const REVISION: &str = "apps.tombolo.io/revision";

/// Default prefix of the node labels that are promoted to labels of the ManagedCluster.
pub const NODE_PREFIX: &str = "node.clusternet.io/";
/// Marks a control plane node, in today's words.
pub const NODE_ROLE_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Marks a control plane node, in older words.
pub const NODE_ROLE_MASTER: &str = "node-role.kubernetes.io/master";
