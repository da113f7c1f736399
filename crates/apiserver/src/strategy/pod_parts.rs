//! What the subresources of pods may change: `ephemeralcontainers` adds those, `resize` gives containers other
//! requests and limits. All else stays as it is stored (as `pkg/registry/core/pod` of Kubernetes 1.34 has it).

use serde_json::Value;

use super::field_mut;
use super::pod::{quality, validate_container};
use crate::problems::Problems;

/// What only containers of a pod's own may have.
const NOT_EPHEMERAL: [&str; 7] = [
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "startupProbe",
];

/// The stored pod with the ephemeral containers of a new version.
pub(crate) fn with_ephemeral(new: &Value, old: &Value) -> Value {
    let mut pod = old.clone();
    let list = new["spec"]
        .get("ephemeralContainers")
        .filter(|list| !list.is_null());
    if let Some(spec) = field_mut(&mut pod, "spec").and_then(Value::as_object_mut) {
        match list {
            Some(list) => spec.insert("ephemeralContainers".to_owned(), list.clone()),
            None => spec.remove("ephemeralContainers"),
        };
    }
    pod
}

/// Refuses ephemeral containers that are none, and changes of those that are there.
pub(crate) fn validate_ephemeral(new: &Value, old: &Value, problems: &mut Problems) {
    const LIST: &str = "spec.ephemeralContainers";
    let own: Vec<&Value> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|field| list(new, field))
        .collect();
    let named = |containers: &[&Value], name: &Value| containers.iter().any(|other| other["name"] == *name);
    let ephemeral: Vec<&Value> = list(new, "ephemeralContainers").collect();
    for (index, container) in ephemeral.iter().enumerate() {
        let path = format!("{LIST}[{index}]");
        validate_container(container, &path, problems);
        let name = &container["name"];
        if named(&own, name) || named(&ephemeral[..index], name) {
            problems.duplicate(format!("{path}.name"), name);
        }
        let target = &container["targetContainerName"];
        if !matches!(target.as_str(), None | Some("")) && !named(&own, target) {
            problems.not_found(format!("{path}.targetContainerName"), target);
        }
        for field in NOT_EPHEMERAL {
            let is_set = container[field]
                .as_object()
                .map_or_else(|| !container[field].is_null(), |object| !object.is_empty());
            if is_set {
                problems.forbidden(
                    format!("{path}.{field}"),
                    "cannot be set for an Ephemeral Container",
                );
            }
        }
    }
    for before in list(old, "ephemeralContainers") {
        let name = before["name"].as_str().unwrap_or_default();
        let now = ephemeral.iter().find(|container| container["name"] == name);
        if now != Some(&before) {
            let what = if now.is_some() { "changed" } else { "removed" };
            problems.forbidden(
                LIST,
                &format!("existing ephemeral containers \"{name}\" may not be {what}"),
            );
        }
    }
}

/// The stored pod with the resources that a new version gives its containers; with all of its containers if they are
/// others, which is refused.
pub(crate) fn with_resources(new: &Value, old: &Value) -> Value {
    let mut pod = old.clone();
    for field in ["containers", "initContainers"] {
        let names = |pod| list(pod, field).map(|container| container["name"].clone());
        let Some(spec) = field_mut(&mut pod, "spec").and_then(Value::as_object_mut) else {
            continue;
        };
        if !names(new).eq(names(old)) {
            spec.insert(field.to_owned(), new["spec"][field].clone());
            continue;
        }
        let Some(containers) = spec.get_mut(field).and_then(Value::as_array_mut) else {
            continue;
        };
        for (container, wanted) in containers.iter_mut().zip(list(new, field)) {
            for field in ["resources", "resizePolicy"] {
                match (container.as_object_mut(), wanted.get(field)) {
                    (Some(container), Some(value)) => container.insert(field.to_owned(), value.clone()),
                    (Some(container), None) => container.remove(field),
                    (None, _) => None,
                };
            }
        }
    }
    pod
}

/// Refuses to change more than processors and memory, to take any of their requests and limits away, and to change
/// the pod's class.
pub(crate) fn validate_resize(new: &Value, old: &Value, problems: &mut Problems) {
    const SIZES: [&str; 2] = ["cpu", "memory"];
    let without_sizes = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["containers", "initContainers"] {
            for container in super::items_mut(&mut spec, &[field]) {
                for kind in ["requests", "limits"] {
                    let list = container.pointer_mut(&format!("/resources/{kind}"));
                    if let Some(list) = list.and_then(Value::as_object_mut) {
                        list.retain(|name, _| !SIZES.contains(&name.as_str()));
                    }
                }
                if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                    resources.retain(|_, list| list.as_object().is_none_or(|list| !list.is_empty()));
                }
            }
        }
        spec
    };
    if without_sizes(new) != without_sizes(old) {
        return problems.forbidden("spec", "only cpu and memory resources are mutable");
    }
    for field in ["containers", "initContainers"] {
        for (index, (before, now)) in list(old, field).zip(list(new, field)).enumerate() {
            for kind in ["limits", "requests"] {
                let sizes =
                    |container: &Value| SIZES.map(|size| container["resources"][kind][size].is_null());
                let lost = sizes(before)
                    .into_iter()
                    .zip(sizes(now))
                    .any(|(before, now)| now && !before);
                if lost {
                    let path = format!("spec.{field}[{index}].resources.{kind}");
                    problems.forbidden(path, &format!("resource {kind} cannot be removed"));
                }
            }
        }
    }
    if quality(&new["spec"]) != quality(&old["spec"]) {
        let class = Value::from(quality(&old["spec"]));
        problems.invalid(
            "spec",
            &class,
            "Pod QOS Class may not change as a result of resizing",
        );
    }
}

fn list<'a>(pod: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod["spec"][field].as_array().into_iter().flatten()
}
