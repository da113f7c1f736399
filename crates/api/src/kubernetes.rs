//! The built-in kinds that roles use.

use machinery::ApiResource;

macro_rules! resources {
    ($($name:ident = $scope:ident($group:literal, $version:literal, $plural:literal, $kind:literal);)*) => {
        $(
            #[doc = concat!("`", $plural, "` of `", $group, "/", $version, "`.")]
            pub const $name: ApiResource = ApiResource::$scope($group, $version, $plural, $kind);
        )*
        /// All of this module's resources.
        pub const ALL: &[ApiResource] = &[$($name),*];
    };
}

resources! {
    PODS = namespaced("", "v1", "pods", "Pod");
    NODES = cluster("", "v1", "nodes", "Node");
    NAMESPACES = cluster("", "v1", "namespaces", "Namespace");
    SECRETS = namespaced("", "v1", "secrets", "Secret");
    CONFIG_MAPS = namespaced("", "v1", "configmaps", "ConfigMap");
    SERVICES = namespaced("", "v1", "services", "Service");
    SERVICE_ACCOUNTS = namespaced("", "v1", "serviceaccounts", "ServiceAccount");
    ENDPOINTS = namespaced("", "v1", "endpoints", "Endpoints");
    EVENTS = namespaced("", "v1", "events", "Event");
    PERSISTENT_VOLUME_CLAIMS = namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
    DEPLOYMENTS = namespaced("apps", "v1", "deployments", "Deployment");
    REPLICA_SETS = namespaced("apps", "v1", "replicasets", "ReplicaSet");
    STATEFUL_SETS = namespaced("apps", "v1", "statefulsets", "StatefulSet");
    DAEMON_SETS = namespaced("apps", "v1", "daemonsets", "DaemonSet");
    CONTROLLER_REVISIONS = namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");
    JOBS = namespaced("batch", "v1", "jobs", "Job");
    CRON_JOBS = namespaced("batch", "v1", "cronjobs", "CronJob");
    LEASES = namespaced("coordination.k8s.io", "v1", "leases", "Lease");
    ENDPOINT_SLICES = namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
    CLUSTER_ROLES = cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
    CLUSTER_ROLE_BINDINGS = cluster("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding");
    ROLES = namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role");
    ROLE_BINDINGS = namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding");
    CUSTOM_RESOURCE_DEFINITIONS = cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
    API_SERVICES = cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService");
    NODE_METRICS = cluster("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics");
    POD_METRICS = namespaced("metrics.k8s.io", "v1beta1", "pods", "PodMetrics");
    TOKEN_REVIEWS = cluster("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");
    SUBJECT_ACCESS_REVIEWS = cluster("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview");
    SELF_SUBJECT_ACCESS_REVIEWS = cluster("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview");
    SELF_SUBJECT_RULES_REVIEWS = cluster("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview");
}
