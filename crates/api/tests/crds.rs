//! Our definitions against the facts of those that they must be compatible with.

#![expect(
    clippy::disallowed_methods,
    reason = "the facts are files, and written when a variable asks for it"
)]

use std::path::{Path, PathBuf};

use serde_json::Value;

fn facts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("facts")
}

fn name(crd: &Value) -> &str {
    crd["metadata"]["name"].as_str().expect("a definition has a name")
}

/// Kinds that there are here alone.
fn is_our_own(crd: &Value) -> bool {
    crd["spec"]["group"] == api::payloads::GROUP
}

/// What we do otherwise, on purpose: all of it, sorted.
const DIFFERENCES: &[&str] = &[
    // Narrower, and no agent sends anything else: an id is a UUID from end to end, and stays what it was. Wider: names
    // of 31 to 60 characters pass the agent's flag and were then refused.
    r#"clusterregistrationrequests.clusters.clusternet.io: v1beta1:spec.clusterId pattern: want "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", have "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$""#,
    "clusterregistrationrequests.clusters.clusternet.io: v1beta1:spec.clusterName maxLength: want 30, have 60",
    r#"managedclusters.clusters.clusternet.io: v1beta1:spec.clusterId pattern: want "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", have "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$""#,
    r#"managedclusters.clusters.clusternet.io: v1beta1:spec.clusterId x-kubernetes-validations: want nothing, have ["self == oldSelf"]"#,
    r#"subscriptions.apps.clusternet.io: v1alpha1:status.aggregatedStatuses[].feedStatusDetails[].clusterId pattern: want "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", have "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$""#,
    "subscriptions.apps.clusternet.io: v1alpha1:status.aggregatedStatuses[].feedStatusDetails[].clusterName maxLength: want 30, have 60",
];

#[test]
fn ours_hold_every_fact_of_theirs() {
    let mut problems = Vec::new();
    let crds = api::crds();
    assert_eq!(crds.len(), 15);
    for crd in crds.iter().filter(|crd| !is_our_own(crd)) {
        let theirs = std::fs::read_to_string(facts().join(format!("{}.tsv", name(crd))))
            .expect("a table for each kind");
        let ours = api::facts::derive(crd);
        let found = api::facts::missing(&theirs, &ours);
        problems.extend(
            found
                .into_iter()
                .map(|problem| format!("{}: {problem}", name(crd))),
        );
    }
    problems.sort_unstable();
    assert_eq!(problems, DIFFERENCES);
}

#[test]
fn stored_definitions_are_current() {
    let lines: String = api::generate_crds()
        .iter()
        .map(|crd| format!("{crd}\n"))
        .collect();
    if std::env::var_os("UPDATE_FACTS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/crds.jsonl");
        std::fs::write(path, &lines).expect("the definitions can be written");
        return;
    }
    assert_eq!(
        lines,
        include_str!("../src/crds.jsonl"),
        "run `cargo xtask codegen crds`"
    );
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn tables_are_current() {
    let shared = std::env::var_os("TOMBOLO_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("compat/crds/clusternet");
    if !folder.is_dir() {
        eprintln!("SKIPPED: tables_are_current: {} is not there", folder.display());
        return;
    }
    for crd in api::crds().into_iter().filter(|crd| !is_our_own(crd)) {
        let (plural, group) = name(&crd).split_once('.').expect("a definition's name has a dot");
        let text =
            std::fs::read_to_string(folder.join(format!("{group}_{plural}.yaml"))).expect("a definition");
        let theirs = codec::yaml::parse(&text).expect("valid YAML");
        let table = api::facts::derive(&theirs[0]);
        let path = facts().join(format!("{}.tsv", name(&crd)));
        if std::env::var_os("UPDATE_FACTS").is_some() {
            std::fs::write(&path, &table).expect("the table can be written");
        }
        let committed = std::fs::read_to_string(&path).expect("a table for each kind");
        assert_eq!(
            committed,
            table,
            "{} is stale: run `cargo xtask codegen`",
            path.display()
        );
    }
}

#[test]
fn schemas_are_structural() {
    fn check(path: &str, schema: &Value, problems: &mut Vec<String>) {
        let map = schema.as_object().expect("a schema is an object");
        for field in [
            "$ref",
            "oneOf",
            "allOf",
            "nullable",
            "$schema",
            "definitions",
            "title",
        ] {
            if map.contains_key(field) {
                problems.push(format!("{path}: {field}"));
            }
        }
        if !map.contains_key("type")
            && !map.contains_key("x-kubernetes-int-or-string")
            && !map.contains_key("x-kubernetes-preserve-unknown-fields")
        {
            problems.push(format!("{path}: no type"));
        }
        for (name, inner) in map
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            check(&format!("{path}.{name}"), inner, problems);
        }
        for field in ["items", "additionalProperties"] {
            if let Some(inner) = map.get(field) {
                check(&format!("{path}[]"), inner, problems);
            }
        }
    }
    let mut problems = Vec::new();
    for crd in api::crds() {
        check(
            name(&crd),
            &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            &mut problems,
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
