//! The rules of each built-in kind: what is filled in, what may be set by whom, what is refused.
//!
//! A [`Strategy`] is a record of small functions over JSON trees; kinds without rules of their own have
//! [`Strategy::PLAIN`]. Schemas (unknown fields, types) are checked elsewhere.

mod autoscaler;
mod claim;
mod custom;
mod defaults;
mod events;
mod fields;
mod identity;
mod ingress;
mod kubernetes;
mod pod;
pub(crate) mod pod_parts;
mod resources;
mod scaling;
mod schedule;
mod service;
#[cfg(test)]
mod tests;
mod workload;

use serde_json::Value;

use crate::problems::Problems;

pub(crate) use custom::CUSTOM;
pub(crate) use defaults::{at_mut, default_field, default_object, field_mut, items_mut};

/// Which changes count as a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    None,
    /// Changes of `spec`.
    Spec,
    /// Changes of anything but `metadata` and `status`.
    Content,
}

/// The rules of a kind.
#[derive(Debug)]
pub(crate) struct Strategy {
    /// Fills in what is left out, on every write.
    pub(crate) default: fn(&mut Value),
    /// Prepares a new object: removes what a client may not set, adds what is decided now.
    pub(crate) create: fn(&mut Value),
    /// Prepares a new version of an object: takes over what a client may not change.
    pub(crate) update: fn(&mut Value, &Value),
    /// Refuses what is wrong in itself.
    pub(crate) validate: fn(&Value, &mut Problems),
    /// Refuses a `status` that is wrong in itself.
    pub(crate) validate_status: fn(&Value, &mut Problems),
    /// Refuses what may not change.
    pub(crate) validate_update: fn(&Value, &Value, &mut Problems),
    /// Which changes count as a new generation.
    pub(crate) generation: Generation,
    /// Turns a stored object into another version (by `apiVersion`), beyond that field itself.
    pub(crate) convert: Option<fn(&mut Value, &str)>,
    /// Whether an update may leave the resource version out.
    pub(crate) unconditional_update: bool,
    /// Whether an update may create.
    pub(crate) create_on_update: bool,
    /// Whether a delete answers with the object instead of a status.
    pub(crate) returns_deleted: bool,
    /// Whether names follow the rules of DNS subdomains (else only those of path segments).
    pub(crate) dns_names: bool,
    /// Whether names must be DNS labels.
    pub(crate) label_names: bool,
}

impl Strategy {
    /// No rules.
    pub(crate) const PLAIN: Self = Self {
        default: |_| {},
        create: |_| {},
        update: |_, _| {},
        validate: |_, _| {},
        validate_status: |_, _| {},
        validate_update: |_, _, _| {},
        generation: Generation::None,
        convert: None,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        dns_names: true,
        label_names: false,
    };
}

static PLAIN: Strategy = Strategy::PLAIN;
static WITH_GENERATION: Strategy = Strategy {
    generation: Generation::Spec,
    ..Strategy::PLAIN
};
static WEBHOOKS: Strategy = Strategy {
    generation: Generation::Content,
    ..Strategy::PLAIN
};

/// The rules of a built-in resource.
pub(crate) fn of(group: &str, plural: &str) -> &'static Strategy {
    match (group, plural) {
        ("", "pods") => &pod::POD,
        ("", "services") => &service::SERVICE,
        ("", "namespaces") => &identity::NAMESPACE,
        ("", "secrets") => &identity::SECRET,
        ("", "serviceaccounts") => &identity::SERVICE_ACCOUNT,
        ("", "configmaps") => &identity::CONFIG_MAP,
        ("", "events") => &events::EVENT,
        ("", "persistentvolumes") => &kubernetes::PERSISTENT_VOLUME,
        ("", "persistentvolumeclaims") => &claim::PERSISTENT_VOLUME_CLAIM,
        ("", "replicationcontrollers") => &WITH_GENERATION,
        ("apps", "deployments") => &workload::DEPLOYMENT,
        ("apps", "replicasets") => &workload::REPLICA_SET,
        ("apps", "statefulsets") => &workload::STATEFUL_SET,
        ("apps", "daemonsets") => &workload::DAEMON_SET,
        ("batch", "jobs") => &workload::JOB,
        ("batch", "cronjobs") => &workload::CRON_JOB,
        ("coordination.k8s.io", "leases") => &kubernetes::LEASE,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => &kubernetes::ROLE,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => &kubernetes::ROLE_BINDING,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &custom::DEFINITION,
        ("storage.k8s.io", "storageclasses") => &kubernetes::STORAGE_CLASS,
        ("scheduling.k8s.io", "priorityclasses") => &kubernetes::PRIORITY_CLASS,
        ("autoscaling", "horizontalpodautoscalers") => &autoscaler::AUTOSCALER,
        ("certificates.k8s.io", "certificatesigningrequests") => &kubernetes::SIGNING_REQUEST,
        ("networking.k8s.io", "ingresses") => &ingress::INGRESS,
        ("networking.k8s.io", "networkpolicies") => &kubernetes::NETWORK_POLICY,
        ("networking.k8s.io", "ingressclasses") => &WITH_GENERATION,
        ("policy", "poddisruptionbudgets") => &kubernetes::DISRUPTION_BUDGET,
        ("", "endpoints") => &kubernetes::ENDPOINTS,
        ("", "resourcequotas" | "podtemplates") => &kubernetes::RETURNED,
        ("admissionregistration.k8s.io", _) => &WEBHOOKS,
        ("flowcontrol.apiserver.k8s.io", _) => &WITH_GENERATION,
        ("discovery.k8s.io", "endpointslices") => &kubernetes::ENDPOINT_SLICE,
        _ => &PLAIN,
    }
}
