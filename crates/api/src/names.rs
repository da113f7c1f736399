//! Names, namespaces, ports and timings that both sides rely on.

use std::time::Duration;

/// Prefix of every name that the system makes.
pub const PREFIX: &str = "clusternet-";
/// Namespace of the components, their leases and the agent's state.
pub const SYSTEM_NAMESPACE: &str = "clusternet-system";
/// ConfigMap that Kubernetes keeps in every namespace: under `ca.crt` the authorities of the API server.
pub const ROOT_AUTHORITY: &str = "kube-root-ca.crt";
/// Default namespace of the Manifests.
pub const RESERVED_NAMESPACE: &str = "clusternet-reserved";
/// Secret in a child: how its agent reaches the parent.
pub const PARENT_CLUSTER_SECRET: &str = "parent-cluster";
/// Secret on the parent, in the dedicated namespace: how the parent reaches the child.
pub const CHILD_DEPLOYER_SECRET: &str = "child-cluster-deployer";
/// Secret in a child, beside [`PARENT_CLUSTER_SECRET`]: the key that Secrets on their way there are encrypted to.
pub const AGENT_KEY_SECRET: &str = "tombolo-agent-key";
/// Secret on the parent, in [`SYSTEM_NAMESPACE`]: what the controllers encrypt with.
pub const CONTROLLERS_KEY_SECRET: &str = "tombolo-controllers-key";
/// Service account in a child, in [`SYSTEM_NAMESPACE`], that the parent deploys as.
pub const APP_DEPLOYER: &str = "clusternet-app-deployer";
/// Service account on the parent that proxied requests run as.
pub const HUB_PROXY: &str = "clusternet-hub-proxy";
/// Key in both secrets: where the API server is.
pub const ADVERTISE_URL_KEY: &str = "apiserver-advertise-url";
/// Name of the agent, of its Lease, and source of its events.
pub const AGENT: &str = "clusternet-agent";
/// What `status.agentVersion` begins with where the agent is ours.
pub const OWN_AGENT: &str = "tombolo/";
/// Name of the scheduler, of its Lease, and source of its events.
pub const SCHEDULER: &str = "clusternet-scheduler";
/// Name of the controllers, of their Lease, and source of their events.
pub const CONTROLLERS: &str = "clusternet-controller-manager";
/// Name of the hub, of its Lease, and source of its events.
pub const HUB: &str = "clusternet-hub";
/// Resource name of GPUs.
pub const GPU: &str = "nvidia.com/gpu";
/// Group that a bootstrap token's user belongs to.
pub const BOOTSTRAP_GROUP: &str = "system:bootstrappers:clusternet:register-cluster-token";
/// Group of every token that was made for one cluster: it may ask, but read no answer.
pub const JOIN_GROUP: &str = "system:bootstrappers:clusternet:join";
/// Role in the dedicated namespace.
pub const MANAGED_CLUSTER_ROLE: &str = "clusternet-managedcluster-role";
/// Length limit of an event's note.
pub const EVENT_NOTE_LIMIT: usize = 1_024;
/// Length of a random suffix.
pub const SUFFIX_LENGTH: usize = 5;
/// Between two tries of most things.
pub const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Group of the tokens that were made for the cluster of a name (a DNS label): it reads the answer to the request for
/// that name.
pub fn join_group(cluster_name: &str) -> String {
    format!("{JOIN_GROUP}:{cluster_name}")
}

/// Name of a child's ClusterRegistrationRequest, ClusterRole and ClusterRoleBinding on the parent.
pub fn for_cluster(cluster_id: &str) -> String {
    format!("{PREFIX}{cluster_id}")
}
