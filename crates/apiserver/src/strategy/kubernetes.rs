//! The other kinds with rules of their own.

use serde_json::{Value, json};

use super::fields::{count_or_percent, items, one_of, selector};
use super::{Generation, Strategy, default_field, default_object, field_mut, items_mut};
use crate::problems::Problems;

/// The group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// The rules of Leases.
pub(super) static LEASE: Strategy = Strategy {
    create_on_update: true,
    validate: |object, problems| {
        for field in ["leaseDurationSeconds", "leaseTransitions"] {
            let value = &object["spec"][field];
            let least = i64::from(field == "leaseDurationSeconds");
            if value.as_i64().is_some_and(|number| number < least) {
                let why = if least == 1 {
                    "must be greater than 0"
                } else {
                    "must be greater than or equal to 0"
                };
                problems.invalid(format!("spec.{field}"), value, why);
            }
        }
    },
    ..Strategy::PLAIN
};

/// The rules of Roles and ClusterRoles.
pub(super) static ROLE: Strategy = Strategy {
    validate: |object, problems| {
        for (index, rule) in items(&object["rules"]) {
            let namespaced = object["kind"] == "Role";
            grant(rule, &format!("rules[{index}]"), namespaced, problems);
        }
        let aggregation = &object["aggregationRule"];
        if aggregation.is_null() {
            return;
        }
        const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";
        if items(&aggregation["clusterRoleSelectors"]).next().is_none() {
            problems.required(
                SELECTORS,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
        for (index, found) in items(&aggregation["clusterRoleSelectors"]) {
            selector(found, &format!("{SELECTORS}[{index}]"), problems);
        }
    },
    create_on_update: true,
    dns_names: false,
    ..Strategy::PLAIN
};

fn grant(rule: &Value, path: &str, namespaced: bool, problems: &mut Problems) {
    let none = |field: &str| items(&rule[field]).next().is_none();
    if none("verbs") {
        problems.required(format!("{path}.verbs"), "verbs must contain at least one value");
    }
    if none("nonResourceURLs") {
        for (field, why) in [
            ("apiGroups", "resource rules must supply at least one api group"),
            ("resources", "resource rules must supply at least one resource"),
        ] {
            if none(field) {
                problems.required(format!("{path}.{field}"), why);
            }
        }
        return;
    }
    let mixed = ["apiGroups", "resources", "resourceNames"]
        .into_iter()
        .any(|field| !none(field));
    for (wrong, why) in [
        (namespaced, "namespaced rules cannot apply to non-resource URLs"),
        (
            mixed,
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
    ] {
        if wrong {
            problems.invalid(format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"], why);
        }
    }
}

/// The rules of RoleBindings and ClusterRoleBindings.
pub(super) static ROLE_BINDING: Strategy = Strategy {
    default: |object| {
        if let Some(role) = field_mut(object, "roleRef") {
            if role["apiGroup"] == "" {
                role["apiGroup"] = Value::Null;
            }
            default_field(role, "apiGroup", RBAC);
        }
        for subject in items_mut(object, &["subjects"]) {
            if subject["kind"] == "User" || subject["kind"] == "Group" {
                default_field(subject, "apiGroup", RBAC);
            }
        }
    },
    validate: |object, problems| {
        let role = &object["roleRef"];
        if role["name"].as_str().unwrap_or_default().is_empty() {
            problems.required("roleRef.name", "");
        }
        if role["kind"] != "Role" && role["kind"] != "ClusterRole" {
            problems.unsupported("roleRef.kind", &role["kind"], &["Role", "ClusterRole"]);
        }
        if role["apiGroup"] != RBAC {
            problems.unsupported("roleRef.apiGroup", &role["apiGroup"], &[RBAC]);
        }
        for (index, subject) in object["subjects"].as_array().into_iter().flatten().enumerate() {
            let path = format!("subjects[{index}]");
            if subject["name"].as_str().unwrap_or_default().is_empty() {
                problems.required(format!("{path}.name"), "");
            }
            match subject["kind"].as_str() {
                Some("ServiceAccount") => {
                    // A RoleBinding's accounts are its own namespace's unless they say otherwise.
                    let cluster = object["kind"] == "ClusterRoleBinding";
                    if cluster && subject["namespace"].as_str().unwrap_or_default().is_empty() {
                        problems.required(format!("{path}.namespace"), "");
                    }
                }
                Some("User" | "Group") => {}
                _ => problems.unsupported(
                    format!("{path}.kind"),
                    &subject["kind"],
                    &["ServiceAccount", "User", "Group"],
                ),
            }
        }
    },
    validate_update: |new, old, problems| {
        if new["roleRef"] != old["roleRef"] {
            problems.invalid("roleRef", &new["roleRef"], "cannot change roleRef");
        }
    },
    create_on_update: true,
    dns_names: false,
    ..Strategy::PLAIN
};

/// The rules of StorageClasses.
pub(super) static STORAGE_CLASS: Strategy = Strategy {
    default: |object| {
        default_object(
            object,
            json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        );
    },
    ..Strategy::PLAIN
};

/// The rules of PriorityClasses.
pub(super) static PRIORITY_CLASS: Strategy = Strategy {
    default: |object| default_field(object, "preemptionPolicy", "PreemptLowerPriority"),
    validate_update: |new, old, problems| {
        if new["value"] != old["value"] {
            problems.forbidden("value", "may not be changed in an update.");
        }
    },
    ..Strategy::PLAIN
};

/// The rules of CertificateSigningRequests.
pub(super) static SIGNING_REQUEST: Strategy = Strategy {
    create: |object| object["status"] = json!({}),
    validate: |object, problems| {
        for field in ["request", "signerName"] {
            if object["spec"][field].as_str().unwrap_or_default().is_empty() {
                problems.required(format!("spec.{field}"), "");
            }
        }
    },
    update: |new, old| new["spec"] = old["spec"].clone(),
    dns_names: false,
    ..Strategy::PLAIN
};

/// The rules of NetworkPolicies.
pub(super) static NETWORK_POLICY: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = field_mut(object, "spec") {
            let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
            let types = if egress {
                json!(["Ingress", "Egress"])
            } else {
                json!(["Ingress"])
            };
            default_field(spec, "policyTypes", types);
        }
    },
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

/// The rules of PodDisruptionBudgets.
pub(super) static DISRUPTION_BUDGET: Strategy = Strategy {
    create: |object| {
        object["status"] =
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    },
    validate: |object, problems| {
        let spec = &object["spec"];
        if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
            problems.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            count_or_percent(&spec[field], &format!("spec.{field}"), problems);
        }
        one_of(
            &spec["unhealthyPodEvictionPolicy"],
            "spec.unhealthyPodEvictionPolicy",
            &["AlwaysAllow", "IfHealthyBudget"],
            problems,
        );
        selector(&spec["selector"], "spec.selector", problems);
    },
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

/// The rules of EndpointSlices.
pub(super) static ENDPOINT_SLICE: Strategy = Strategy {
    default: |object| {
        for port in items_mut(object, &["ports"]) {
            default_object(port, json!({"name": "", "protocol": "TCP"}));
        }
    },
    generation: Generation::Content,
    ..Strategy::PLAIN
};

/// The rules of Endpoints.
pub(super) static ENDPOINTS: Strategy = Strategy {
    default: |object| {
        for subset in items_mut(object, &["subsets"]) {
            for port in items_mut(subset, &["ports"]) {
                default_field(port, "protocol", "TCP");
            }
        }
    },
    create_on_update: true,
    ..Strategy::PLAIN
};

/// The rules of kinds whose deletion answers with the object.
pub(super) static RETURNED: Strategy = Strategy {
    returns_deleted: true,
    ..Strategy::PLAIN
};

/// The rules of PersistentVolumes.
pub(super) static PERSISTENT_VOLUME: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = field_mut(object, "spec") {
            default_object(
                spec,
                json!({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}),
            );
        }
    },
    create: |object| object["status"] = json!({"phase": "Pending"}),
    returns_deleted: true,
    ..Strategy::PLAIN
};

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn roles_grant_what_they_can() {
        let role = |kind: &str, rule: Value| json!({"kind": kind, "rules": [rule]});
        let free = json!({"nonResourceURLs": ["/x"], "verbs": ["get"]});
        let mixed = json!({"nonResourceURLs": ["/x"], "verbs": ["get"], "apiGroups": [""]});
        const URLS: &str = "rules[0].nonResourceURLs";
        check(
            ROLE.validate,
            vec![
                (role("ClusterRole", free.clone()), vec![]),
                (role("Role", free), vec![(URLS, "namespaced rules cannot apply")]),
                (
                    role("ClusterRole", mixed),
                    vec![(URLS, "both regular resources and non-resource URLs")],
                ),
                (
                    role("Role", json!({})),
                    vec![
                        ("rules[0].verbs", "at least one value"),
                        ("rules[0].apiGroups", "at least one api group"),
                        ("rules[0].resources", "at least one resource"),
                    ],
                ),
                (
                    json!({"kind": "ClusterRole", "aggregationRule": {}}),
                    vec![("aggregationRule.clusterRoleSelectors", "at least one")],
                ),
            ],
        );
    }

    #[test]
    fn budgets_are_counts_or_percentages() {
        let budget = |spec: Value| json!({"spec": spec});
        check(
            DISRUPTION_BUDGET.validate,
            vec![
                (budget(json!({})), vec![]),
                (budget(json!({"minAvailable": "100%"})), vec![]),
                (
                    budget(json!({"minAvailable": 0, "maxUnavailable": 0})),
                    vec![("spec", "minAvailable and maxUnavailable cannot be both set")],
                ),
                (
                    budget(json!({"minAvailable": "x%"})),
                    vec![("spec.minAvailable", "valid percent string")],
                ),
                (
                    budget(json!({"maxUnavailable": "5"})),
                    vec![("spec.maxUnavailable", "valid percent string")],
                ),
                (
                    budget(json!({"maxUnavailable": "101%"})),
                    vec![("spec.maxUnavailable", "greater than 100%")],
                ),
                (
                    budget(json!({"minAvailable": -1})),
                    vec![("spec.minAvailable", "greater than or equal to 0")],
                ),
                (
                    budget(json!({"unhealthyPodEvictionPolicy": "X"})),
                    vec![("spec.unhealthyPodEvictionPolicy", "Unsupported")],
                ),
                (
                    budget(json!({"selector": {"matchLabels": {"a b": "c"}}})),
                    vec![("spec.selector.matchLabels", "name part")],
                ),
            ],
        );
    }
}
