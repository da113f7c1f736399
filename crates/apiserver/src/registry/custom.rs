//! Custom resource definitions: what they serve, and what their status says.

use std::sync::{Arc, OnceLock};

use machinery::jsonpath::JsonPath;
use machinery::resource::ALL_VERBS;
use machinery::schema::Schema;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Custom, ScalePaths, SchemaRef, Served, Snapshot, Subresource, api_version};
use crate::strategy::CUSTOM;

/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// An extra column of a custom resource's tables.
#[derive(Debug, Clone)]
pub(crate) struct CustomColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    /// Where its cells come from; `None` if that cannot be read.
    pub(crate) path: Option<JsonPath>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn words(value: &Value) -> Vec<SmolStr> {
    list(value)
        .iter()
        .filter_map(|word| word.as_str().map(SmolStr::new))
        .collect()
}

/// Whether a condition of a definition is true.
fn is(definition: &Value, condition: &str) -> bool {
    list(&definition["status"]["conditions"])
        .iter()
        .any(|found| found["type"] == condition && found["status"] == "True")
}

/// What a definition serves: every served version, once it is established.
pub(crate) fn served(definition: &Value) -> Vec<Served> {
    if !is(definition, "Established") {
        return Vec::new();
    }
    let spec = &definition["spec"];
    let versions = list(&spec["versions"]);
    let stored = versions
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| text(&version["name"]))
        .unwrap_or_default();
    let terminating = !definition["metadata"]["deletionTimestamp"].is_null();
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| served_version(spec, version, stored, terminating))
        .collect()
}

fn served_version(spec: &Value, version: &Value, stored: &str, terminating: bool) -> Served {
    let group = text(&spec["group"]);
    let names = &spec["names"];
    let (name, plural, kind) = (
        text(&version["name"]),
        text(&names["plural"]),
        text(&names["kind"]),
    );
    let subresources = &version["subresources"];
    let has_status = !subresources["status"].is_null();
    let scale = Some(&subresources["scale"])
        .filter(|scale| !scale.is_null())
        .map(scale_paths);
    let mut listed = Vec::new();
    if has_status {
        listed.push(subresource("status", kind, None));
    }
    if scale.is_some() {
        listed.push(subresource("scale", "Scale", Some(("autoscaling", "v1"))));
    }
    let mut selectable: Vec<SmolStr> = list(&version["selectableFields"])
        .iter()
        .map(|field| SmolStr::new(text(&field["jsonPath"]).trim_start_matches('.')))
        .collect();
    selectable.sort();
    let openapi = &version["schema"]["openAPIV3Schema"];
    Served {
        group: SmolStr::new(group),
        version: SmolStr::new(name),
        plural: SmolStr::new(plural),
        singular: SmolStr::new(text(&names["singular"])),
        kind: SmolStr::new(kind),
        list_kind: SmolStr::new(text(&names["listKind"])),
        short_names: words(&names["shortNames"]),
        categories: words(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: &ALL_VERBS,
        subresources: listed,
        api_version: api_version(group, name),
        storage_version: api_version(group, stored),
        storage: source::Resource::new(group, plural),
        has_status,
        scale,
        schema: Schema::from_openapi(openapi)
            .ok()
            .map(|schema| SchemaRef::Shared(Arc::new(schema))),
        selectable,
        strategy: &CUSTOM,
        custom: Some(Custom {
            columns: list(&version["additionalPrinterColumns"])
                .iter()
                .map(column)
                .collect(),
            deprecation: (version["deprecated"] == true).then(|| {
                match text(&version["deprecationWarning"]) {
                    "" => format!("{group}/{name} {kind} is deprecated"),
                    warning => warning.to_owned(),
                }
            }),
            openapi: Some(openapi.clone()).filter(|schema| !schema.is_null()),
            terminating,
        }),
        stated: OnceLock::new(),
    }
}

fn subresource(name: &'static str, kind: &str, of: Option<(&'static str, &'static str)>) -> Subresource {
    Subresource {
        name: SmolStr::new_static(name),
        kind: SmolStr::new(kind),
        group_version: of.map(|(group, version)| (SmolStr::new_static(group), SmolStr::new_static(version))),
        verbs: &["get", "patch", "update"],
    }
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |value: &Value| -> Vec<String> {
        text(value)
            .trim_start_matches('.')
            .split('.')
            .map(str::to_owned)
            .collect()
    };
    ScalePaths {
        replicas: path(&scale["specReplicasPath"]),
        status_replicas: path(&scale["statusReplicasPath"]),
        selector: scale["labelSelectorPath"]
            .as_str()
            .map(|_| path(&scale["labelSelectorPath"])),
    }
}

fn column(column: &Value) -> CustomColumn {
    let owned = |value: &Value| text(value).to_owned();
    CustomColumn {
        name: owned(&column["name"]),
        kind: owned(&column["type"]),
        format: owned(&column["format"]),
        description: owned(&column["description"]),
        priority: column["priority"].as_i64().unwrap_or(0),
        path: JsonPath::parse(text(&column["jsonPath"])).ok(),
    }
}

/// Brings a definition's status up to date: which names it has, whether it is established, which versions may be
/// stored. `now` is the time of conditions that change.
pub(crate) fn settle(definition: &mut Value, snapshot: &Snapshot, now: &str) {
    let spec = definition["spec"].clone();
    let problem = conflict(&spec, snapshot);
    let established = is(definition, "Established");
    let names = match &problem {
        None => (true, "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => (false, *reason, message.clone()),
    };
    set_condition(definition, "NamesAccepted", names.0, names.1, &names.2, now);
    if problem.is_none() || established {
        set_condition(
            definition,
            "Established",
            true,
            "InitialNamesAccepted",
            "the initial names have been accepted",
            now,
        );
    } else {
        set_condition(
            definition,
            "Established",
            false,
            "NotAccepted",
            "not all names are accepted",
            now,
        );
    }
    if problem.is_none() {
        definition["status"]["acceptedNames"] = spec["names"].clone();
    }
    let stored = list(&spec["versions"])
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone());
    if let Some(stored) = stored {
        match definition["status"]["storedVersions"].as_array_mut() {
            Some(versions) if versions.contains(&stored) => {}
            Some(versions) => versions.push(stored),
            None => definition["status"]["storedVersions"] = json!([stored]),
        }
    }
}

/// Which of a definition's names another resource of its group has already.
fn conflict(spec: &Value, snapshot: &Snapshot) -> Option<(&'static str, String)> {
    let group = text(&spec["group"]);
    let names = &spec["names"];
    let plural = text(&names["plural"]);
    let others: Vec<&Served> = snapshot
        .all()
        .iter()
        .map(AsRef::as_ref)
        .filter(|served| served.group == group && (served.plural != plural || served.custom.is_none()))
        .collect();
    let in_use = |name: &str| Some(format!("\"{name}\" is already in use"));
    let is_taken = |name: &str| {
        others.iter().any(|served| {
            served.plural == name
                || served.singular == name
                || served.short_names.iter().any(|short| short == name)
        })
    };
    let is_kind = |kind: &str| {
        others
            .iter()
            .any(|served| served.kind == kind || served.list_kind == kind)
    };
    if is_taken(plural) {
        return Some(("PluralConflict", in_use(plural)?));
    }
    let singular = text(&names["singular"]);
    if is_taken(singular) {
        return Some(("SingularConflict", in_use(singular)?));
    }
    if let Some(short) = list(&names["shortNames"])
        .iter()
        .map(text)
        .find(|short| is_taken(short))
    {
        return Some(("ShortNamesConflict", in_use(short)?));
    }
    let kind = text(&names["kind"]);
    if is_kind(kind) {
        return Some(("KindConflict", in_use(kind)?));
    }
    let list_kind = text(&names["listKind"]);
    if is_kind(list_kind) {
        return Some(("ListKindConflict", in_use(list_kind)?));
    }
    None
}

/// Sets a condition; its time moves only if its status does.
pub(crate) fn set_condition(
    definition: &mut Value,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let status = if status { "True" } else { "False" };
    let mut condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    if !definition["status"].is_object() {
        definition["status"] = json!({});
    }
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = definition["status"]["conditions"].as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|found| found["type"] == kind) {
        Some(found) => {
            if found["status"] == status {
                condition["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn definition(plural: &str, kind: &str, short: &str) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase(),
                    "listKind": format!("{kind}List"), "shortNames": [short]},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        })
    }

    #[test]
    fn names_are_accepted_unless_somebody_has_them() {
        let registry = Registry::new();
        let mut first = definition("widgets", "Widget", "w");
        settle(&mut first, &registry.snapshot(), "t");
        assert!(is(&first, "Established") && is(&first, "NamesAccepted"));
        assert_eq!(first["status"]["storedVersions"], json!(["v1"]));
        let served = served(&first);
        assert_eq!(served.len(), 2);
        assert!(served[1].custom.as_ref().unwrap().deprecation.is_some());
        registry.set_custom("widgets.example.com", source::Revision(1), served);
        assert!(registry.snapshot().find("example.com", "v1", "widgets").is_some());

        let mut second = definition("wheels", "Wheel", "w");
        settle(&mut second, &registry.snapshot(), "t");
        assert!(!is(&second, "Established"));
        assert!(super::served(&second).is_empty());
        assert_eq!(second["status"]["conditions"][0]["reason"], "ShortNamesConflict");
    }
}
