//! Patches, quantities, selectors and schemas against what Kubernetes' own packages answered for random input, recorded from
//! k8s.io/apimachinery and apiextensions-apiserver v0.34.0 (`tests/data/*.jsonl`, one case a line). `RECORDINGS` may name a folder with larger
//! recordings of the same names.

#![expect(clippy::disallowed_methods, reason = "larger recordings are files")]

use machinery::patch::{json_merge_diff, json_patch, merge_patch, strategic_diff, strategic_merge};
use machinery::quantity::Quantity;
use machinery::schema::Schema;
use machinery::selector::{FieldSelector, LabelSelector};
use machinery::{Gvk, builtin};
use serde_json::Value;

fn cases(name: &str, committed: &str) -> Vec<Value> {
    let text = std::env::var("RECORDINGS")
        .ok()
        .and_then(|folder| std::fs::read_to_string(format!("{folder}/{name}.jsonl")).ok())
        .unwrap_or_else(|| committed.to_owned());
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Runs over all cases and shows the first few that differ.
fn check(name: &str, committed: &str, run: impl Fn(&Value) -> Vec<(String, String)>) {
    let mut wrong = Vec::new();
    let cases = cases(name, committed);
    assert!(!cases.is_empty());
    for case in &cases {
        for (got, want) in run(case) {
            if got != want {
                wrong.push(format!("case {case}\ngot  {got}\nwant {want}\n"));
            }
        }
    }
    let shown: Vec<&str> = wrong.iter().take(5).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        shown.join("\n")
    );
}

/// Kubernetes leaves directives and nulls in items that it adds as they come.
fn clean(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
            .map(|(key, value)| (key.clone(), clean(value)))
            .collect(),
        Value::Array(items) => items.iter().map(clean).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// With sorted lists. After deletions Kubernetes orders by an array that it has overwritten meanwhile (`all`); a list
/// of scalars that only changes its order it leaves as it is.
fn unordered(value: &Value, all: bool) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), unordered(value, all)))
            .collect(),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| unordered(item, all)).collect();
            if all || items.iter().all(|item| !item.is_object()) {
                items.sort_by_key(Value::to_string);
            }
            Value::Array(items)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn strategic_patches() {
    let info = builtin::schema(&Gvk::new("apps/v1", "Deployment")).expect("a built-in kind");
    check("strategic", include_str!("data/strategic.jsonl"), |case| {
        let [original, modified, current] = ["original", "modified", "current"].map(|name| &case[name]);
        let mut results = Vec::new();
        let deletes = case["patch"].to_string().contains("\"$patch\":\"delete\"");
        let shape = |value: &Value| unordered(&clean(value), deletes).to_string();
        let show = |value: Result<Value, _>| match value {
            Ok(value) => shape(&value),
            Err(error) => format!("{error:?}"),
        };
        if case["error"].is_null() {
            let want = shape(&case["result"]);
            results.push((show(strategic_merge(current, &case["patch"], info)), want.clone()));
            let ours = strategic_diff(original, modified, current, info).expect("a patch");
            results.push((show(strategic_merge(current, &ours, info)), want));
        }
        if case["plainError"].is_null() {
            let want = shape(&case["plain"]);
            results.push((show(strategic_merge(current, modified, info)), want));
        }
        let mut theirs = current.clone();
        merge_patch(&mut theirs, &case["merge"]);
        let mut ours = current.clone();
        merge_patch(&mut ours, &json_merge_diff(original, modified, current));
        results.push((ours.to_string(), theirs.to_string()));
        results
    });
}

#[test]
fn quantities() {
    check("quantity", include_str!("data/quantity.jsonl"), |case| {
        let text = case[0].as_str().expect("a text");
        let Some(want) = case[1].as_str() else {
            let got = Quantity::parse(text).map_or("refused".to_owned(), |quantity| quantity.to_string());
            return vec![(got, "refused".to_owned())];
        };
        let Ok(quantity) = Quantity::parse(text) else {
            return vec![("refused".to_owned(), want.to_owned())];
        };
        let mut results = vec![(quantity.to_string(), want.to_owned())];
        if let Some(other) = case[2].as_str() {
            let other = Quantity::parse(other).expect("a quantity");
            results.push(((quantity.cmp(&other) as i32).to_string(), case[3].to_string()));
            let sum = quantity.checked_add(&other).expect("it fits").to_string();
            results.push((sum, case[4].as_str().expect("a text").to_owned()));
            if let Some(milli) = case[5].as_str().filter(|text| !text.is_empty()) {
                results.push((quantity.milli().to_string(), milli.to_owned()));
            }
        }
        results
    });
}

#[test]
fn json_patches() {
    check("json-patch", include_str!("data/json-patch.jsonl"), |case| {
        let got = match json_patch(&case[0], &case[1]) {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        };
        let want = case[3]
            .as_str()
            .map_or_else(|| case[2].to_string(), ToOwned::to_owned);
        vec![(got, want)]
    });
}

#[test]
fn label_selectors() {
    check("labels", include_str!("data/labels.jsonl"), |case| {
        let text = case[0].as_str().expect("a text");
        match (LabelSelector::parse(text), case[1].as_str()) {
            (Ok(selector), Some(want)) => vec![
                (selector.to_string(), want.to_owned()),
                (selector.matches_labels(&case[2]).to_string(), case[3].to_string()),
            ],
            (Ok(selector), None) => vec![(selector.to_string(), case[2].to_string())],
            (Err(error), Some(want)) => vec![(error.to_string(), want.to_owned())],
            (Err(error), None) => vec![(error.to_string(), case[2].as_str().expect("a text").to_owned())],
        }
    });
}

#[test]
fn field_selectors() {
    check("fields", include_str!("data/fields.jsonl"), |case| {
        let text = case[0].as_str().expect("a text");
        match (FieldSelector::parse(text), case[1].as_str()) {
            (Ok(selector), Some(want)) => vec![(selector.to_string(), want.to_owned())],
            (Ok(selector), None) => vec![(selector.to_string(), case[2].to_string())],
            (Err(error), Some(want)) => vec![(error.to_string(), want.to_owned())],
            (Err(error), None) => vec![(error.to_string(), case[2].as_str().expect("a text").to_owned())],
        }
    });
}

#[test]
fn schemas() {
    check("schemas", include_str!("data/schemas.jsonl"), |case| {
        let schema = Schema::from_openapi(&case["schema"]).expect("a schema");
        let mut object = case["object"].clone();
        let unknown = schema.prune(&mut object);
        let want: Vec<String> = serde_json::from_value(case["unknown"].clone()).unwrap_or_default();
        schema.fill_defaults(&mut object);
        let mut problems: Vec<String> = schema
            .validate(&object)
            .into_iter()
            .map(|cause| format!("{} | {}: {}", cause.reason, cause.field, cause.message))
            .collect();
        problems.sort();
        let recorded: Vec<String> = serde_json::from_value(case["errors"].clone()).expect("texts");
        vec![
            (unknown.join("\n"), want.join("\n")),
            (object.to_string(), case["defaulted"].to_string()),
            (problems.join("\n"), recorded.join("\n")),
        ]
    });
}
