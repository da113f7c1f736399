//! Condition types, taints, condition reasons and event reasons. Dashboards match on them.

/// Condition type: the child answers.
pub const READY: &str = "Ready";
/// Condition type: the child's init workload is there.
pub const CLUSTER_INIT: &str = "ClusterInit";

/// Condition type of a Subscription: every cluster has applied what it gets.
pub const APPLIED: &str = "Applied";
/// Condition type of a Subscription: every feed is available in every cluster.
pub const AVAILABLE: &str = "Available";
/// Condition type of a Subscription: not every detail of its status is said. One of ours; not there otherwise.
pub const SHORTENED: &str = "Shortened";

/// Reason of Ready: the child's API server is well.
pub const MANAGED_CLUSTER_READY: &str = "ManagedClusterReady";
/// Reason of Ready: the child's API server is not well.
pub const MANAGED_CLUSTER_NOT_READY: &str = "ManagedClusterNotReady";
/// Reason of Ready: no heartbeat ever.
pub const CLUSTER_STATUS_NEVER_UPDATED: &str = "ClusterStatusNeverUpdated";
/// Reason of Ready: no heartbeat lately.
pub const CLUSTER_STATUS_UNKNOWN: &str = "ClusterStatusUnknown";
/// Reason of ClusterInit, and value of its taint.
pub const CLUSTER_INIT_WAITING: &str = "ClusterInitWaiting";
/// Reason of ClusterInit: not wanted.
pub const CLUSTER_INIT_DISABLED: &str = "ClusterInitDisabled";
/// Reason of ClusterInit: done.
pub const CLUSTER_INIT_DONE: &str = "ClusterInitDone";

/// Taint key (NoSchedule; the value is the reason of Ready).
pub const TAINT_UNSCHEDULABLE: &str = "clusters.clusternet.io/unschedulable";
/// Taint key (NoSchedule; the value is [`CLUSTER_INIT_WAITING`]).
pub const TAINT_INITIALIZATION: &str = "clusters.clusternet.io/initialization";

/// Event (normal).
pub const AGGREGATE_STATUS: &str = "AggregateStatus";
/// Event (normal).
pub const BASE_CREATED: &str = "BaseCreated";
/// Event (normal).
pub const BASE_UPDATED: &str = "BaseUpdated";
/// Event (normal).
pub const DESCRIPTION_CREATED: &str = "DescriptionCreated";
/// Event (normal).
pub const DESCRIPTION_UPDATED: &str = "DescriptionUpdated";
/// Event (normal).
pub const FEED_INVENTORY_SYNCED: &str = "FeedInventorySynced";
/// Event (normal).
pub const FINALIZER_INJECTED: &str = "FinalizerInjected";
/// Event (normal).
pub const HELM_RELEASE_UPDATED: &str = "HelmReleaseUpdated";
/// Event (normal).
pub const HELM_RELEASES_CREATED: &str = "HelmReleasesCreated";
/// Event (normal).
pub const SCHEDULED: &str = "Scheduled";
/// Event (normal).
pub const SUCCESSFULLY_DEPLOYED: &str = "SuccessfullyDeployed";
/// Condition of a Subscription: whether it has a place.
pub const SCHEDULED_CONDITION: &str = "Scheduled";
/// Condition of a Subscription: whether replicas are elsewhere because clusters are not ready. Event (normal, or a warning
/// where nothing can be moved). One of ours.
pub const FAIL_OVER: &str = "FailOver";
/// Reason of [`SCHEDULED_CONDITION`] at `False`: no cluster fits.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason of [`SCHEDULED_CONDITION`] at `False`: nothing can be decided.
pub const UNDECIDED: &str = "Undecided";
/// Reason of [`SCHEDULED_CONDITION`] at `False`: the spec makes no sense.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// Event (normal): replicas stay where they are until enough are ready elsewhere. One of ours.
pub const MOVE_HELD: &str = "MoveHeld";
/// Event (normal): a change set lacks objects, so what it concerns stays as it is. One of ours.
pub const CHANGE_SET_INCOMPLETE: &str = "ChangeSetIncomplete";
/// Event (normal).
pub const SUCCESSFULLY_PRUNING_FEED: &str = "SuccessfullyPruningFeed";
/// Event (normal).
pub const SYNCED: &str = "Synced";

/// Event (warning).
pub const BAD_SCHEDULING_RESULT: &str = "BadSchedulingResult";
/// Event (warning): nobody executes charts. One of ours.
pub const CHARTS_NOT_EXECUTED: &str = "ChartsNotExecuted";
/// Event (warning).
pub const CHART_LOCATE_FAILURE: &str = "ChartLocateFailure";
/// Event (warning).
pub const FAILED_AGGREGATE_STATUS: &str = "FailedAggregateStatus";
/// Event (warning).
pub const FAILED_APPLYING_OVERRIDES: &str = "FailedApplyingOverrides";
/// Event (warning), Tombolo's own: a cluster of Cluster API cannot join.
pub const FAILED_CLUSTER_DISCOVERY: &str = "FailedClusterDiscovery";
/// Event (warning).
pub const FAILED_DELETING_DESCRIPTION: &str = "FailedDeletingDescription";
/// Event (warning).
pub const FAILED_INJECTING_FINALIZER: &str = "FailedInjectingFinalizer";
/// Event (warning).
pub const FAILED_MARSHALING_RESOURCE: &str = "FailedMarshalingResource";
/// Event (warning).
pub const FAILED_RETRIEVING_OBJECTS: &str = "FailedRetrievingObjects";
/// Event (warning).
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// Event (warning).
pub const FAILED_SYNCED: &str = "FailedSynced";
/// Event (warning).
pub const FAILED_SYNCING_BASE: &str = "FailedSyncingBase";
/// Event (warning).
pub const FAILED_SYNCING_DESCRIPTION: &str = "FailedSyncingDescription";
/// Event (warning).
pub const FAILED_SYNCING_LOCALIZATION: &str = "FailedSyncingLocalization";
/// Event (warning).
pub const FAILED_UPDATING_CLUSTER_STATUS: &str = "FailedUpdatingClusterStatus";
/// Event (warning).
pub const FEED_INVENTORY_NOT_SYNCED: &str = "FeedInventoryNotSynced";
/// Event (warning).
pub const HELM_CHART_NOT_FOUND: &str = "HelmChartNotFound";
/// Event (warning).
pub const HELM_RELEASE_FAILURE: &str = "HelmReleaseFailure";
/// Event (warning): the annotation of a change set makes no sense. One of ours.
pub const INVALID_CHANGE_SET: &str = "InvalidChangeSet";
/// Event (warning).
pub const INVALID_OVERRIDE_POLICY: &str = "InvalidOverridePolicy";
/// Event (warning): the annotation that says how long edits are waited for makes no sense. One of ours.
pub const INVALID_SETTLE: &str = "InvalidSettle";
/// Event (warning).
pub const MANAGED_CLUSTER_NOT_FOUND: &str = "ManagedClusterNotFound";
/// Event (warning).
pub const MULTIPLE_BASES: &str = "MultipleBases";
/// Event (warning).
pub const MULTIPLE_LOCALIZATIONS: &str = "MultipleLocalizations";
/// Event (warning).
pub const REPLICA_JSON_PATH_UNSET: &str = "ReplicaJsonPathUnset";
/// Event (warning).
pub const UNPARSEABLE_FEEDS: &str = "UnParseableFeeds";
/// Event (warning).
pub const UNSUCCESSFULLY_DEPLOYED: &str = "UnSuccessfullyDeployed";
/// Event (warning).
pub const UNEQUAL_LENGTHS: &str = "UnequalLengths";
/// Event (warning).
pub const UNSUCCESSFULLY_PRUNING_FEED: &str = "UnsuccessfullyPruningFeed";
/// Event (warning).
pub const VERIFYING_HELM_CHART: &str = "VerifyingHelmChart";

/// Event (warning) about a feed that is not there: `Nonexistent` and the feed's kind.
pub fn nonexistent(kind: &str) -> String {
    format!("Nonexistent{kind}")
}

/// Condition of a ServiceExport: whether it is served.
pub const VALID: &str = "Valid";
/// Reason of [`VALID`].
pub const EXPORTED: &str = "Exported";
/// Reason of [`VALID`]; event (warning) of a ServiceImport.
pub const ADDRESSES_LEFT_OUT: &str = "AddressesLeftOut";
/// Reason of [`VALID`] at `False`.
pub const SERVICE_NOT_FOUND: &str = "ServiceNotFound";
/// Reason of [`VALID`] at `False`.
pub const INVALID_SERVICE_TYPE: &str = "InvalidServiceType";
/// Reason of [`VALID`] at `False`.
pub const EXPORT_NOT_SERVED: &str = "NotServed";
/// Condition of a ServiceExport: whether the clusters that export a Service disagree about it.
pub const CONFLICT: &str = "Conflict";
/// Reason of [`CONFLICT`].
pub const PORTS_DIFFER: &str = "PortsDiffer";
/// Reason of [`CONFLICT`] at `False`.
pub const NO_CONFLICT: &str = "NoConflict";
/// Event (warning) of a ServiceImport.
pub const IMPORT_WITHOUT_LABELS: &str = "ImportWithoutLabels";
/// Event (warning) of a ServiceImport.
pub const IMPORTED_TWICE: &str = "ImportedTwice";
/// Event (warning) of a ServiceImport.
pub const UNSUPPORTED_IMPORT_TYPE: &str = "UnsupportedImportType";
/// Event (warning) of a ServiceImport.
pub const DERIVED_NAME_TAKEN: &str = "DerivedNameTaken";
/// Event (warning) of a ServiceImport.
pub const PORTS_NOT_OFFERED: &str = "PortsNotOffered";
/// Event (warning) of a ServiceImport.
pub const FAILED_IMPORTING_SERVICE: &str = "FailedImportingService";
/// Event (warning), Tombolo's own: objects stay in a child that the parent does not know.
pub const ORPHANS_HELD: &str = "OrphansHeld";

/// Condition of a Rollout: whether it is on its way.
pub const PROGRESSING: &str = "Progressing";
/// Condition of a Rollout: whether no more clusters failed than may.
pub const HEALTHY: &str = "Healthy";
/// Event (normal) of a Rollout, and reason of [`PROGRESSING`].
pub const ROLLOUT_STARTED: &str = "RolloutStarted";
/// Event (normal) of a Rollout, and reason of [`PROGRESSING`].
pub const WAVE_STARTED: &str = "WaveStarted";
/// Event (normal) of a Rollout.
pub const WAVE_COMPLETED: &str = "WaveCompleted";
/// Event (normal) of a Rollout, and reason of [`PROGRESSING`] at `False`.
pub const ROLLOUT_COMPLETE: &str = "RolloutComplete";
/// Event (normal) of a Rollout, and reason of [`PROGRESSING`] at `False`.
pub const ROLLOUT_PAUSED: &str = "RolloutPaused";
/// Event (warning) of a Rollout, and reason of [`PROGRESSING`] at `False`.
pub const ROLLOUT_FAILED: &str = "RolloutFailed";
/// Event (warning) of a Rollout, and reason of [`PROGRESSING`].
pub const ROLLING_BACK: &str = "RollingBack";
/// Event (normal) of a Rollout, and reason of [`PROGRESSING`] at `False`.
pub const ROLLED_BACK: &str = "RolledBack";
/// Event (warning) of a Rollout, and reason of [`PROGRESSING`] at `False`: what is new cannot be taken yet.
pub const ROLLOUT_BLOCKED: &str = "RolloutBlocked";
/// Event (warning) of a Rollout, and reason of [`PROGRESSING`] at `False`.
pub const INVALID_ROLLOUT: &str = "InvalidRollout";
/// Event (warning) of a Rollout, and reason of [`PROGRESSING`] at `False`: an older one is for the same Subscription.
pub const ANOTHER_ROLLOUT: &str = "AnotherRollout";
/// Reason of [`PROGRESSING`] at `False`.
pub const SUBSCRIPTION_NOT_FOUND: &str = "SubscriptionNotFound";
/// Reason of [`HEALTHY`] at `False`.
pub const CLUSTERS_FAILED: &str = "ClustersFailed";
/// Reason of [`HEALTHY`].
pub const AS_EXPECTED: &str = "AsExpected";
/// Event (warning): a write about a Rollout failed.
pub const FAILED_ROLLING_OUT: &str = "FailedRollingOut";
