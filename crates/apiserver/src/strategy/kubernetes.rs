//! The other kinds with rules of their own.

use serde_json::{Value, json};

use super::{Generation, Strategy, default_field, default_object, field_mut, items_mut};

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
        for (index, rule) in object["rules"].as_array().into_iter().flatten().enumerate() {
            let none = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
            if none("verbs") {
                problems.required(
                    format!("rules[{index}].verbs"),
                    "verbs must contain at least one value",
                );
            }
            if none("nonResourceURLs") {
                if none("apiGroups") {
                    problems.required(
                        format!("rules[{index}].apiGroups"),
                        "resource rules must supply at least one api group",
                    );
                }
                if none("resources") {
                    problems.required(
                        format!("rules[{index}].resources"),
                        "resource rules must supply at least one resource",
                    );
                }
            }
        }
    },
    create_on_update: true,
    dns_names: false,
    ..Strategy::PLAIN
};

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

/// The rules of Ingresses.
pub(super) static INGRESS: Strategy = Strategy {
    create: |object| object["status"] = json!({"loadBalancer": {}}),
    generation: Generation::Spec,
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

/// The rules of PersistentVolumeClaims.
pub(super) static PERSISTENT_VOLUME_CLAIM: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = field_mut(object, "spec") {
            default_field(spec, "volumeMode", "Filesystem");
        }
    },
    create: |object| object["status"] = json!({"phase": "Pending"}),
    validate: |object, problems| {
        if object["spec"]["accessModes"].as_array().is_none_or(Vec::is_empty) {
            problems.required("spec.accessModes", "at least 1 access mode is required");
        }
        if object["spec"]["resources"]["requests"]["storage"].is_null() {
            problems.required("spec.resources[storage]", "");
        }
    },
    returns_deleted: true,
    ..Strategy::PLAIN
};
