//! PersistentVolumeClaims: what storage a pod asks for, and what of that may change.

use machinery::names;
use serde_json::{Map, Value, json};

use super::fields::{amount, items, named, one_of, selector, text};
use super::{Strategy, default_field, field_mut};
use crate::problems::Problems;

/// The rules of PersistentVolumeClaims.
pub(super) static PERSISTENT_VOLUME_CLAIM: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = field_mut(object, "spec") {
            default_field(spec, "volumeMode", "Filesystem");
        }
    },
    create: |object| object["status"] = json!({"phase": "Pending"}),
    validate: |object, problems| validate(&object["spec"], problems),
    validate_update: validate_change,
    returns_deleted: true,
    ..Strategy::PLAIN
};

fn validate(spec: &Value, problems: &mut Problems) {
    const MODES: [&str; 4] = [
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOnce",
        "ReadWriteOncePod",
    ];
    const STORAGE: &str = "spec.resources[storage]";
    let modes: Vec<&Value> = items(&spec["accessModes"]).map(|(_, mode)| mode).collect();
    if modes.is_empty() {
        problems.required("spec.accessModes", "at least 1 access mode is required");
    }
    for mode in &modes {
        one_of(mode, "spec.accessModes", &MODES, problems);
    }
    if modes.len() > 1 && modes.iter().any(|mode| **mode == "ReadWriteOncePod") {
        problems.forbidden(
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        );
    }
    let wanted = &spec["resources"]["requests"]["storage"];
    match amount(wanted) {
        None => problems.required(STORAGE, ""),
        Some(amount) if amount.signum() <= 0 => {
            problems.invalid(STORAGE, wanted, "must be greater than zero");
        }
        Some(_) => {}
    }
    one_of(
        &spec["volumeMode"],
        "spec.volumeMode",
        &["Block", "Filesystem"],
        problems,
    );
    named(
        &spec["storageClassName"],
        "spec.storageClassName",
        names::dns1123_subdomain_problems,
        problems,
    );
    selector(&spec["selector"], "spec.selector", problems);
}

/// A claim stays as it is, but for the volume and the class that it gets, and for its size once it is bound.
fn validate_change(new: &Value, old: &Value, problems: &mut Problems) {
    let bound = old["status"]["phase"] == "Bound";
    let (before, after) = (&old["spec"], &new["spec"]);
    let rest = |spec: &Value| {
        let mut spec = spec.as_object().cloned().unwrap_or_default();
        if text(&before["volumeName"]).is_empty() {
            spec.remove("volumeName");
        }
        if before["storageClassName"].is_null() {
            spec.remove("storageClassName");
        }
        if bound {
            spec.remove("volumeAttributesClassName");
            if let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) {
                resources.remove("requests");
            }
            spec.retain(|field, value| field != "resources" || !value.as_object().is_some_and(Map::is_empty));
        }
        spec
    };
    if rest(after) != rest(before) {
        problems.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let size = |spec: &Value| amount(&spec["resources"]["requests"]["storage"]);
    let less = size(after)
        .zip(size(before))
        .is_some_and(|(after, before)| after < before);
    let too_small = size(after)
        .zip(amount(&old["status"]["capacity"]["storage"]))
        .is_some_and(|(after, has)| after < has);
    if bound && less && too_small {
        problems.forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_change};
    use super::*;

    fn claim(field: &str, value: Value) -> Value {
        let mut claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}}}});
        claim["spec"][field] = value;
        claim
    }

    fn sized(size: &str) -> Value {
        json!({"requests": {"storage": size}})
    }

    #[test]
    fn asks_for_storage() {
        check(
            PERSISTENT_VOLUME_CLAIM.validate,
            vec![
                (claim("storageClassName", json!("")), vec![]),
                (
                    claim("accessModes", json!([])),
                    vec![("spec.accessModes", "at least 1 access mode")],
                ),
                (
                    claim("accessModes", json!(["X"])),
                    vec![("spec.accessModes", "Unsupported value: \"X\"")],
                ),
                (
                    claim("accessModes", json!(["ReadWriteOncePod", "ReadWriteMany"])),
                    vec![("spec.accessModes", "may not use ReadWriteOncePod")],
                ),
                (
                    claim("resources", json!({})),
                    vec![("spec.resources[storage]", "Required value")],
                ),
                (
                    claim("resources", sized("0")),
                    vec![("spec.resources[storage]", "greater than zero")],
                ),
                (
                    claim("volumeMode", json!("X")),
                    vec![("spec.volumeMode", "Unsupported value")],
                ),
                (
                    claim("storageClassName", json!("A_")),
                    vec![("spec.storageClassName", "RFC 1123")],
                ),
                (
                    claim("selector", json!({"matchLabels": {"a b": "c"}})),
                    vec![("spec.selector.matchLabels", "name part")],
                ),
            ],
        );
    }

    #[test]
    fn changes_little() {
        const SPEC: (&str, &str) = ("spec", "spec is immutable after creation");
        let pending = claim("resources", sized("1Gi"));
        let mut bound = pending.clone();
        bound["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        check_change(
            PERSISTENT_VOLUME_CLAIM.validate_update,
            vec![
                (&pending, claim("volumeName", json!("v")), vec![]),
                (&pending, claim("storageClassName", json!("s")), vec![]),
                (
                    &pending,
                    claim("accessModes", json!(["ReadWriteMany"])),
                    vec![SPEC],
                ),
                (&pending, claim("resources", sized("2Gi")), vec![SPEC]),
                (&bound, claim("resources", sized("2Gi")), vec![]),
                (
                    &bound,
                    claim("resources", sized("1Mi")),
                    vec![("spec.resources.requests.storage", "can not be less")],
                ),
                (&bound, claim("volumeMode", json!("Block")), vec![SPEC]),
            ],
        );
    }
}
