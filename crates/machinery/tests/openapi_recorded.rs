//! Our OpenAPI documents against those that a kube-apiserver v1.34.0 answered, on machines that have the record.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the record is a file that gzip unpacks"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use machinery::{builtin, openapi};
use serde_json::{Map, Value};

#[expect(clippy::print_stdout, reason = "a test that skips itself says so")]
fn recorded(name: &str) -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/compat/openapi")
        .join(name);
    if !path.exists() {
        println!("skipped: {name} is not on this machine");
        return None;
    }
    let output = Command::new("gzip")
        .arg("-dc")
        .arg(path)
        .output()
        .expect("gzip runs");
    Some(serde_json::from_slice(&output.stdout).expect("the record is JSON"))
}

/// Leaves out descriptions, defaults that say nothing, and ways to write a reference.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            if let (Some(Value::Array(all)), true) = (map.get("allOf"), map.contains_key("allOf")) {
                let mut merged = map.clone();
                merged.remove("allOf");
                merged.extend(
                    all.iter()
                        .flat_map(|part| part.as_object().cloned().unwrap_or_default()),
                );
                return plain(&Value::Object(merged));
            }
            let mut kept = Map::new();
            for (name, value) in map {
                let is_text = value.is_string();
                let empty = match value {
                    Value::String(text) => text.is_empty(),
                    Value::Object(map) => map.is_empty(),
                    Value::Number(number) => number.as_f64() == Some(0.0),
                    Value::Bool(flag) => !flag,
                    Value::Null | Value::Array(_) => false,
                };
                let left_out = match name.as_str() {
                    "description" => is_text,
                    "default" => empty,
                    "x-kubernetes-unions" => true,
                    // what a map is when nothing is said
                    "x-kubernetes-map-type" => value == "granular",
                    _ => false,
                };
                let mut value = plain(value);
                if let ("required", Value::Array(names)) = (name.as_str(), &mut value) {
                    names.sort_by_key(Value::to_string);
                }
                if !left_out {
                    kept.insert(name.clone(), value);
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// What an operation says, without texts: id, action, kind, tags and query parameters.
fn summary(path: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for method in ["get", "put", "post", "patch", "delete"] {
        let operation = &path[method];
        if operation.is_null() {
            continue;
        }
        let all = [&operation["parameters"], &path["parameters"]];
        let mut parameters: Vec<String> = all
            .iter()
            .flat_map(|list| list.as_array().into_iter().flatten())
            .map(|p| format!("{}:{}:{}", p["name"], p["in"], p["schema"]["type"]))
            .collect();
        parameters.sort();
        if operation["x-kubernetes-action"] == "connect" || path.to_string().contains("PodLog") {
            // these have the fields of their options as parameters
            parameters.clear();
        }
        let mut types: Vec<&String> = operation["responses"]["200"]["content"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        types.retain(|name| *name != "text/plain");
        types.sort();
        found.insert(
            method.to_owned(),
            format!(
                "{} {} {} {} {parameters:?} {types:?} {:?}",
                operation["operationId"],
                operation["x-kubernetes-action"],
                operation["x-kubernetes-group-version-kind"],
                operation["tags"],
                operation["responses"]
                    .as_object()
                    .map(|codes| codes.keys().cloned().collect::<Vec<_>>()),
            ),
        );
    }
    found
}

#[test]
fn v3_documents_are_as_recorded() {
    let Some(documents) = recorded("kubernetes-1.34-openapi-v3.json.gz") else {
        return;
    };
    for (group, version) in builtin::group_versions() {
        let ours = openapi::v3(group, version, &[]);
        let theirs = &documents[openapi::path_of(group, version)];
        let theirs_paths = theirs["paths"].as_object().unwrap();
        let expected = |path: &str| !path.contains("/watch/") && !path.ends_with("/{path}");
        let wanted: Vec<&String> = theirs_paths.keys().filter(|path| expected(path)).collect();
        let found: Vec<&String> = ours["paths"].as_object().unwrap().keys().collect();
        assert_eq!(found, wanted, "{group}/{version}");
        for path in wanted {
            assert_eq!(
                summary(&ours["paths"][path]),
                summary(&theirs_paths[path]),
                "{path}"
            );
        }
        let schemas = ours["components"]["schemas"].as_object().unwrap();
        for (name, schema) in theirs["components"]["schemas"].as_object().unwrap() {
            let ours = schemas
                .get(name)
                .unwrap_or_else(|| panic!("{group}/{version} {name}"));
            assert_eq!(plain(ours), plain(schema), "{name}");
        }
    }
}

#[test]
fn v2_definitions_are_as_recorded() {
    let Some(theirs) = recorded("kubernetes-1.34-openapi-v2.json.gz") else {
        return;
    };
    let ours = openapi::v2(&[]);
    let mut missing = Vec::new();
    for (name, schema) in theirs["definitions"].as_object().unwrap() {
        match ours["definitions"].get(name) {
            Some(found) => assert_eq!(plain(found), plain(schema), "{name}"),
            None => missing.push(name),
        }
    }
    // types of discovery and of the server's version, which no resource refers to
    assert!(missing.len() < 12, "{missing:?}");
}
