//! Custom resources, and the definitions that make them.

use machinery::schema::structural_problems;
use serde_json::{Value, json};

use super::{Generation, Strategy, default_field, field_mut};
use crate::problems::Problems;

/// The rules of every custom resource; the rest is its schema's.
pub(crate) static CUSTOM: Strategy = Strategy {
    generation: Generation::Content,
    unconditional_update: false,
    ..Strategy::PLAIN
};

/// The rules of definitions.
pub(super) static DEFINITION: Strategy = Strategy {
    default: default_definition,
    create: |object| {
        machinery::meta::add_finalizer(object, crate::registry::custom::CLEANUP);
        object["status"] =
            json!({"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []});
    },
    validate: validate_definition,
    validate_update: |new, old, problems| {
        for field in ["group", "scope"] {
            if new["spec"][field] != old["spec"][field] {
                problems.immutable(format!("spec.{field}"), &new["spec"][field]);
            }
        }
        for field in ["plural", "kind"] {
            if new["spec"]["names"][field] != old["spec"]["names"][field] {
                problems.immutable(format!("spec.names.{field}"), &new["spec"]["names"][field]);
            }
        }
    },
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

fn default_definition(object: &mut Value) {
    let Some(spec) = field_mut(object, "spec") else {
        return;
    };
    default_field(spec, "conversion", json!({"strategy": "None"}));
    if let Some(names) = field_mut(spec, "names") {
        let kind = names["kind"].as_str().unwrap_or_default().to_owned();
        if !kind.is_empty() {
            default_field(names, "singular", kind.to_ascii_lowercase());
            default_field(names, "listKind", format!("{kind}List"));
        }
    }
}

fn validate_definition(object: &Value, problems: &mut Problems) {
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (plural, group) = (text(&spec["names"]["plural"]), text(&spec["group"]));
    let name = text(&object["metadata"]["name"]);
    if name != format!("{plural}.{group}") {
        problems.invalid(
            "metadata.name",
            &object["metadata"]["name"],
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    if group.is_empty() {
        problems.required("spec.group", "");
    } else if !group.contains('.') {
        problems.invalid(
            "spec.group",
            &spec["group"],
            "should be a domain with at least one dot",
        );
    }
    for field in ["plural", "kind"] {
        if text(&spec["names"][field]).is_empty() {
            problems.required(format!("spec.names.{field}"), "");
        }
    }
    match spec["scope"].as_str() {
        Some("Namespaced" | "Cluster") => {}
        None => problems.required("spec.scope", ""),
        Some(_) => problems.unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]),
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        problems.invalid(
            "spec.versions",
            &spec["versions"],
            "must have exactly one version marked as storage version",
        );
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        if versions[..index]
            .iter()
            .any(|other| other["name"] == version["name"])
        {
            problems.duplicate(format!("{path}.name"), &version["name"]);
        }
    }
    validate_schemas(versions, problems);
    if spec["preserveUnknownFields"] == true {
        problems.invalid(
            "spec.preserveUnknownFields",
            &spec["preserveUnknownFields"],
            "must be false or omitted",
        );
    }
}

/// Every version has a structural schema whose rules compile. What all versions say alike is complained of once, where
/// Kubernetes keeps it.
fn validate_schemas<'a>(versions: &'a [Value], problems: &mut Problems) {
    let schema_of = |version: &'a Value| &version["schema"]["openAPIV3Schema"];
    let alike = versions
        .windows(2)
        .all(|pair| schema_of(&pair[0]) == schema_of(&pair[1]));
    for (index, version) in versions.iter().enumerate() {
        let schema = schema_of(version);
        let of_version = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if schema.is_null() {
            problems.required(of_version, "schemas are required");
            continue;
        }
        let path = if alike {
            "spec.validation.openAPIV3Schema"
        } else {
            &of_version
        };
        let mut causes = structural_problems(schema, path);
        for cause in &mut causes {
            // a default of the wrong type is no fault of the definition's own form
            if cause.reason == "FieldValueTypeInvalid" {
                cause.reason = "FieldValueInvalid".to_owned();
            }
        }
        problems.extend(causes);
        if alike {
            return;
        }
    }
}
