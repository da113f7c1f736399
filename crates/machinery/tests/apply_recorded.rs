//! Server-side apply against what Kubernetes' own field manager answered: random sequences of applies and updates by
//! three managers, recorded from k8s.io/apimachinery v0.34.0 (`tests/data/apply.jsonl`, one sequence a line; times are
//! left out). `APPLY_RECORDING` may name a larger file.

#![expect(clippy::disallowed_methods, reason = "a larger recording is a file")]

use jiff::Timestamp;
use machinery::managed::{FieldSet, Writer, apply, update};
use machinery::schema::Schema;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("data/apply-schema.json");
const RECORDED: &str = include_str!("data/apply.jsonl");

fn without_times(mut object: Value) -> Value {
    if let Some(entries) = object
        .pointer_mut("/metadata/managedFields")
        .and_then(Value::as_array_mut)
    {
        for entry in entries {
            entry.as_object_mut().expect("an entry").remove("time");
        }
        // Entries are sorted by time, which the recording does not have.
        let key = |entry: &Value| {
            [&entry["operation"], &entry["manager"], &entry["subresource"]].map(Value::to_string)
        };
        if let Some(list) = object
            .pointer_mut("/metadata/managedFields")
            .and_then(Value::as_array_mut)
        {
            list.sort_by_key(key);
        }
    }
    without_nulls(object)
}

/// Where nothing is left of a map, Kubernetes leaves a null for defaulting to drop.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

#[test]
fn does_as_kubernetes_did() {
    let schema = Schema::from_openapi(&serde_json::from_str(SCHEMA).expect("JSON")).expect("a schema");
    let recorded = std::env::var("APPLY_RECORDING")
        .ok()
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_else(|| RECORDED.to_owned());
    let mut wrong = Vec::new();
    for (number, line) in recorded.lines().enumerate() {
        let steps: Vec<Value> = serde_json::from_str(line).expect("JSON");
        let mut live = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {}});
        for (at, step) in steps.iter().enumerate() {
            let subresource = step["subresource"].as_str().unwrap_or_default();
            let reset = FieldSet::of(&[if subresource.is_empty() { "status" } else { "spec" }]);
            let writer = Writer {
                schema: Some(&schema),
                manager: step["manager"].as_str().expect("a name"),
                api_version: "x.io/v1",
                subresource,
                reset: &reset,
                now: Timestamp::from_second(1_700_000_000).expect("a time"),
            };
            let given = &step["in"];
            let result = if step["op"] == "apply" {
                apply(&live, given, step["force"] == true, &writer).map_err(|error| error.to_string())
            } else {
                let mut new = given.clone();
                for field in ["managedFields", "uid"] {
                    if let Some(value) = live["metadata"].get(field) {
                        new["metadata"][field] = value.clone();
                    }
                }
                Ok(update(&live, new, &writer))
            };
            let result = result.map(|mut object| {
                object["metadata"]["uid"] = json!("u");
                object
            });
            let want = match step["error"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(without_times(step["out"].clone())),
            };
            if result.clone().map(without_times) != want {
                wrong.push(format!(
                    "line {number} step {at} {}\nlive {live}\nin {given}\ngot  {:?}\nwant {:?}\n",
                    step["op"],
                    result.map(|object| without_times(object).to_string()),
                    want.clone().map(|object| object.to_string())
                ));
            }
            if let Ok(mut object) = want {
                // Go on from the recorded state.
                if let Some(entries) = object
                    .pointer_mut("/metadata/managedFields")
                    .and_then(Value::as_array_mut)
                {
                    for entry in entries {
                        entry["time"] = json!("2023-11-14T22:13:20Z");
                    }
                }
                live = object;
            }
        }
    }
    let shown: Vec<&str> = wrong.iter().take(3).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} steps differ:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
