//! Annotation keys.

/// Only the value `true` lets a component overwrite an object that exists.
pub const AUTO_UPDATE: &str = "clusternet.io/autoupdate";
/// In a child: the compact JSON of the object as last applied.
pub const LAST_APPLIED: &str = "clusternet.io/last-applied-configuration";
/// kubectl's own annotation of the same meaning; dropped before an object is applied.
pub const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// In a child: `NAMESPACE.NAME` of the Description (on the parent) that an object comes from.
pub const OWNED_BY_DESCRIPTION: &str = "apps.clusternet.io/owned-by-description";
/// Why a Manifest or HelmChart cannot be deleted now.
pub const FEED_PROTECTION: &str = "apps.clusternet.io/feed-protection";
/// `true` on an object sent to the shadow API: no dry run on the parent.
pub const SKIP_VALIDATING: &str = "apps.clusternet.io/skip-validating";
/// `true` marks a Base as its namespace's default init workload.
pub const IS_DEFAULT_CLUSTER_INIT: &str = "apps.clusternet.io/is-default-cluster-init";
/// On a ManagedCluster: the Base that is its init workload.
pub const CLUSTER_INIT_BASE: &str = "apps.clusternet.io/cluster-init-base";
/// `true` on a ManagedCluster: no init handling.
pub const SKIP_CLUSTER_INIT: &str = "clusters.clusternet.io/skip-cluster-init";
/// On the agent's Lease: the cluster id, instead of the Lease's UID.
pub const LEGACY_CLUSTER_ID: &str = "legacy-cluster-id";
/// On a token Secret: the service account it belongs to.
pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// On a token Secret: the UID of the service account it belongs to.
pub const SERVICE_ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// On a ManagedCluster, Tombolo's own: until when (RFC 3339) its agent needs no other credential than the one that it
/// renews itself, so that the one which never ends can be put away.
pub const CREDENTIAL_ENDS: &str = "clusters.tombolo.io/credential-ends";
/// `true` on a ManagedCluster, Tombolo's own: when it is deleted it is not asked to take its objects away.
pub const EXPEL: &str = "clusters.tombolo.io/expel";
/// On a ServiceImport, Tombolo's own: the names of the clusters whose exports count, separated by commas; all count
/// without it.
pub const EXPORTING_CLUSTERS: &str = "services.tombolo.io/clusters";
/// On a dividing Subscription, Tombolo's own: how many replicas of each divided feed are to be ready at any time while
/// they move between clusters, a number (`3`) or a share of those wanted (`80%`).
pub const MIN_AVAILABLE: &str = "apps.tombolo.io/min-available";
/// On a Subscription, Tombolo's own: for how long edits of it and of what it distributes have to be still before they
/// take effect where it is already (`2s`; `0` for not at all).
pub const SETTLE: &str = "apps.tombolo.io/settle";
/// On Subscriptions, templates, Localizations and Globalizations, Tombolo's own: `NAME/COUNT`. What carries it takes
/// effect once so many carry the same.
pub const CHANGE_SET: &str = "apps.tombolo.io/change-set";
/// On a Subscription, by the controllers: the change sets that concern it and were complete, separated by commas.
pub const CHANGE_SETS_TAKEN: &str = "apps.tombolo.io/change-sets-taken";
/// On a Subscription, by the controllers: the incomplete change sets for which it is kept as it is, separated by commas.
pub const FROZEN_BY: &str = "apps.tombolo.io/frozen-by";
/// On a ManagedCluster, by the controllers: when it became ready and when it stopped, the last few times.
pub const READY_TURNS: &str = "clusters.tombolo.io/ready-turns";
/// On a ManagedCluster, as a label, which its child cannot write, Tombolo's own: `true` says that the cluster, which is not
/// ready, runs nothing any more.
pub const FENCED: &str = "clusters.tombolo.io/fenced";
/// On a template, Tombolo's own: `true` says that its replicas may not run in two clusters at a time. A StatefulSet's never
/// may. On a FeedInventory: the keys of such feeds, separated by commas.
pub const STATEFUL: &str = "apps.tombolo.io/stateful";
/// On a ManagedCluster, Tombolo's own, with the reason as its value: what its child has of Descriptions that the parent
/// does not know stays in the child, for the parent may be older than that. On a registration request: the
/// ManagedCluster that is made for it gets it.
pub const HOLD_ORPHANS: &str = "clusters.tombolo.io/hold-orphans";
/// On a Base and its Descriptions, Tombolo's own: which version of its Subscription's content they are of, by the hand of
/// a Rollout.
pub const VERSION: &str = "apps.tombolo.io/version";
/// On a Base, Tombolo's own: since when its cluster is not available with that version; none if it is, or not reachable.
pub const WAITING_SINCE: &str = "apps.tombolo.io/waiting-since";
/// On a Base, Tombolo's own: why its Descriptions are not what is wanted now; none if they are.
pub const BLOCKED: &str = "apps.tombolo.io/blocked";
/// On a Rollout, Tombolo's own: the failed version that is to be tried again. It is taken off when that begins.
pub const RETRY: &str = "apps.tombolo.io/retry";
/// On a Rollout, Tombolo's own: the version that is to be taken back from all clusters. It is taken off when that begins.
pub const UNDO: &str = "apps.tombolo.io/undo";
/// On a Secret that holds a piece of a version, Tombolo's own: its Subscription, as `NAMESPACE/NAME`.
pub const REVISION_OF: &str = "apps.tombolo.io/revision-of";
