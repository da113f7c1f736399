//! The rows O1 to O8 of the facts table, and what they leave open.

use super::*;

fn item(kind: &str) -> Value {
    json!({"name": "x", "type": kind})
}

fn apply(document: &mut Value, kind: &str, value: &str) -> Result<(), Problem> {
    change(document, &item(kind), &codec::yaml::parse_one(value).unwrap())
}

fn feed() -> Feed {
    Feed {
        kind: "ConfigMap".into(),
        api_version: "v1".into(),
        namespace: "a".into(),
        name: "b".into(),
    }
}

fn chart_feed() -> Feed {
    Feed {
        kind: "HelmChart".into(),
        ..feed()
    }
}

/// A policy with one override for each `(type, value)`.
fn policy(name: &str, priority: i64, feed: &Feed, overrides: &[Value]) -> Arc<Value> {
    Arc::new(
        json!({"kind": "Localization", "metadata": {"namespace": "ns", "name": name},
        "spec": {"priority": priority, "feed": feed.to_value(), "overrides": overrides}}),
    )
}

fn over(kind: &str, value: &str) -> Value {
    json!({"name": "x", "type": kind, "value": value})
}

fn chart_over(value: &str) -> Value {
    json!({"name": "x", "type": "Helm", "overrideChart": true, "value": value})
}

fn local(policies: &[Arc<Value>]) -> Overrides<'_> {
    Overrides {
        localizations: policies,
        ..Overrides::default()
    }
}

#[test]
fn merges_helm_values() {
    let policies = [policy(
        "p",
        1,
        &chart_feed(),
        &[
            over("Helm", " \n"),
            over(
                "Helm",
                r#"{"name": "Ishmael", "address": {"street": "234 Spouter Inn Ct."}, "boat": "pequod", "l": [1, 2], "untouched": [1, {"a": 1}]}"#,
            ),
            over("Helm", "  \n"),
            over(
                "Helm",
                r#"{"address": {"country": "US", "state": "MA"}, "l": [3]}"#,
            ),
            over("Helm", "address:\n  planet: earth\nboat: fighter\nname: null\n"),
        ],
    )];
    let (values, _) = chart(&local(&policies), &chart_feed(), &json!({"kind": "HelmChart"})).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&values).unwrap(),
        json!({"address": {"street": "234 Spouter Inn Ct.", "country": "US", "state": "MA", "planet": "earth"},
               "boat": "fighter", "l": [3], "untouched": [1, {"a": 1}]}),
        "O1, O2"
    );
    let (values, _) = chart(&Overrides::default(), &chart_feed(), &json!({})).unwrap();
    assert_eq!(values, "");
}

#[test]
fn changes_charts_but_neither_their_name_nor_their_home() {
    let object = json!({"kind": "HelmChart", "metadata": {"name": "b", "uid": "u", "managedFields": []},
        "spec": {"chart": "mysql", "targetNamespace": "abc", "repo": "https://a", "version": "1"}, "status": {"phase": "Found"}});
    let policies = [policy(
        "p",
        1,
        &chart_feed(),
        &[
            chart_over(
                "metadata: {labels: {a: b}, annotations: {c: d}}\nspec: {chart: evil, targetNamespace: kube-system}",
            ),
            chart_over(r#"{"spec": {"repo": "https://b", "version": "2"}}"#),
        ],
    )];
    let (values, changed) = chart(&local(&policies), &chart_feed(), &object).unwrap();
    assert_eq!(values, "");
    assert_eq!(
        changed,
        json!({"kind": "HelmChart", "metadata": {"name": "b", "labels": {"a": "b"}, "annotations": {"c": "d"}},
               "spec": {"chart": "mysql", "targetNamespace": "abc", "repo": "https://b", "version": "2"}}),
        "O3, O4"
    );
    // Nothing there to be taken out.
    for nothing in [
        "metadata: {labels: {a: b}}",
        "{spec: {repo: https://b}}",
        "{spec: 1}",
    ] {
        let policies = [policy("p", 1, &chart_feed(), &[chart_over(nothing)])];
        assert!(
            chart(&local(&policies), &chart_feed(), &object).is_ok(),
            "O4 {nothing}"
        );
    }
}

#[test]
fn applies_json_patches_as_a_unit() {
    let original = json!({"spec": {"replicas": 1}});
    let mut document = original.clone();
    let half = r#"[{"op": "replace", "path": "/spec/replicas", "value": 3}, {"op": "remove", "path": "/spec/none"}]"#;
    assert_eq!(apply(&mut document, "JSONPatch", half), Ok(()));
    assert_eq!(document, original, "O5");
    apply(
        &mut document,
        "JSONPatch",
        "- {op: replace, path: /spec/replicas, value: 3}",
    )
    .unwrap();
    assert_eq!(document, json!({"spec": {"replicas": 3}}));
    for bad in ["{a: b}", "- {op: replac, path: /spec}", "- {op: remove}"] {
        assert!(
            matches!(apply(&mut document, "JSONPatch", bad), Err(Problem::Patch(_))),
            "{bad}"
        );
    }
    let many = Value::Array(vec![
        json!({"op": "test", "path": "", "value": 1});
        OPERATIONS_LIMIT + 1
    ]);
    assert_eq!(json_patch(&mut document, &many), Err(Problem::TooMany(10_001)));
    let mut blank = Value::Null;
    apply(&mut blank, "JSONPatch", half).unwrap();
    assert_eq!(blank, Value::Null);
}

#[test]
fn applies_merge_patches_and_the_last_one_wins() {
    let manifest_object = json!({"template": {"kind": "ConfigMap", "metadata": {"namespace": "a", "labels": {"x": "1", "y": "2"},
        "uid": "u", "managedFields": [{}]}, "status": {"z": 1}}});
    let json_form = over(
        "MergePatch",
        r#"{"metadata": {"labels": {"x": null}, "namespace": "late"}}"#,
    );
    let yaml_form = over(
        "MergePatch",
        "metadata:\n  labels:\n    x: null\n  namespace: early\n",
    );
    let policies = [
        policy("b", 2, &feed(), &[json_form]),
        policy("a", 1, &feed(), &[yaml_form]),
    ];
    let changed = manifest(&local(&policies), &feed(), &manifest_object).unwrap();
    assert_eq!(
        changed,
        json!({"kind": "ConfigMap", "metadata": {"namespace": "late", "labels": {"y": "2"}}}),
        "O6, O8"
    );
}

#[test]
fn patches_inside_texts() {
    let document = json!({"data": {"a.json": "{\"x\": 1, \"l\": [1, 2]}", "a/b": "x: 1\n", "l": ["k: v"], "n": 3, "empty": ""}});
    let run = |kind: &str, path: &str, format: &str, value: &str| -> Result<Value, String> {
        let mut document = document.clone();
        let item = json!({"type": kind, "fieldPath": path, "fieldFormat": format});
        change(&mut document, &item, &codec::yaml::parse_one(value).unwrap())
            .map_err(|problem| problem.to_string())?;
        Ok(document.pointer(path).unwrap().clone())
    };
    let merged = run("FieldMergePatch", "/data/a.json", "JSON", "x: 2").unwrap();
    assert_eq!(
        merged, "{\n    \"l\": [\n        1,\n        2\n    ],\n    \"x\": 2\n}",
        "O7"
    );
    let patched = run(
        "FieldJSONPatch",
        "/data/a~1b",
        "",
        r#"[{"op": "add", "path": "/z", "value": 2}]"#,
    )
    .unwrap();
    assert_eq!(patched, "x: 1\nz: 2\n");
    let patched = run(
        "FieldJSONPatch",
        "/data/a.json",
        "JSON",
        r#"[{"op": "replace", "path": "/l/1", "value": 3}]"#,
    );
    assert_eq!(
        serde_json::from_str::<Value>(patched.unwrap().as_str().unwrap()).unwrap(),
        json!({"x": 1, "l": [1, 3]}),
        "O7"
    );
    assert_eq!(
        run("FieldMergePatch", "/data/l/0", "YAML", "k: w").unwrap(),
        "k: w\n"
    );
    assert_eq!(run("FieldMergePatch", "/data/empty", "YAML", "k: w").unwrap(), "");
    for (path, format, problem) in [
        ("data/a", "JSON", "fieldPath \"data/a\" must begin with a slash"),
        (
            "/data/n",
            "JSON",
            "fieldPath \"/data/n\" does not lead to a string",
        ),
        (
            "/data/none",
            "JSON",
            "fieldPath \"/data/none\" does not lead to a string",
        ),
        (
            "/data/a.json",
            "TOML",
            "unsupported fieldFormat \"TOML\": must be JSON or YAML",
        ),
    ] {
        assert_eq!(
            run("FieldMergePatch", path, format, "x: 1").unwrap_err(),
            problem,
            "O7"
        );
    }
    assert!(
        run("FieldMergePatch", "/data/a~1b", "JSON", "x: 1")
            .unwrap_err()
            .starts_with("the text at")
    );
}

#[test]
fn orders_globalizations_before_localizations() {
    let set = |value: &str| over("MergePatch", &format!("{{\"v\": \"{value}\", \"{value}\": 1}}"));
    let mut elsewhere = Value::clone(&policy("elsewhere", 9, &feed(), &[set("elsewhere")]));
    elsewhere["spec"]["clusterAffinity"] = json!({"matchLabels": {"area": "2"}});
    let mut here = elsewhere.clone();
    here["spec"]["clusterAffinity"] = json!({"matchLabels": {"area": "1"}});
    here["spec"]["overrides"] = json!([set("here")]);
    let globalizations = [
        policy("g", 900, &feed(), &[set("g")]),
        Arc::new(elsewhere),
        Arc::new(here),
    ];
    let localizations = [policy("l", 1, &feed(), &[set("l")])];
    let clusters = [Arc::new(json!({"metadata": {"labels": {"area": "1"}}}))];
    let overrides = Overrides {
        globalizations: &globalizations,
        localizations: &localizations,
        clusters: &clusters,
        ..Overrides::default()
    };
    let changed = manifest(&overrides, &feed(), &json!({"template": {}})).unwrap();
    assert_eq!(changed, json!({"v": "l", "l": 1, "g": 1, "here": 1}));
}

#[test]
fn names_the_policy_that_fails() {
    let policies = [policy("p", 1, &feed(), &[over("MergePatch", "a: [")])];
    let error = manifest(&local(&policies), &feed(), &json!({"template": {}}))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("Localization ns/p: override \"x\": value is not valid YAML: "),
        "{error}"
    );
    let policies = [policy("p", 1, &feed(), &[over("Magic", "a: b")])];
    let error = manifest(&local(&policies), &feed(), &json!({"template": {}}))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "Localization ns/p: override \"x\": unsupported type \"Magic\""
    );
}
