//! Events, which two groups speak of in different words.

use serde_json::{Map, Value, json};

use super::Strategy;
use crate::problems::Problems;

/// The rules of events.
pub(super) static EVENT: Strategy = Strategy {
    validate,
    convert: Some(convert),
    create_on_update: true,
    ..Strategy::PLAIN
};

/// The same fields in the core group and in `events.k8s.io`.
const FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An event lies with what it is about: nobody tells of objects where he may not write.
fn validate(event: &Value, problems: &mut Problems) {
    for field in ["involvedObject", "regarding"] {
        let about = &event[field]["namespace"];
        let elsewhere = about.as_str().filter(|about| !about.is_empty());
        if elsewhere.is_some_and(|about| event["metadata"]["namespace"] != about) {
            problems.invalid(
                format!("{field}.namespace"),
                about,
                "does not match event.namespace",
            );
        }
    }
}

fn convert(event: &mut Value, api_version: &str) {
    let to_core = api_version == "v1";
    if let Some(map) = event.as_object_mut() {
        rename(map, to_core);
        map.insert("apiVersion".to_owned(), json!(api_version));
        if to_core && !map.contains_key("involvedObject") {
            map.insert("involvedObject".to_owned(), json!({}));
        }
    }
}

fn rename(map: &mut Map<String, Value>, to_core: bool) {
    for (core, new) in FIELDS {
        let (from, to) = if to_core { (new, core) } else { (core, new) };
        if let Some(value) = map.remove(*from) {
            map.insert((*to).to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn lies_with_what_it_is_about() {
        let event = |field: &str, about: Value| json!({"metadata": {"namespace": "a"}, field: about});
        let mut table = Vec::new();
        for (field, path) in [
            ("involvedObject", "involvedObject.namespace"),
            ("regarding", "regarding.namespace"),
        ] {
            let elsewhere = event(field, json!({"name": "x", "namespace": "b"}));
            table.push((elsewhere, vec![(path, "does not match event.namespace")]));
            for here in [
                json!({"name": "x", "namespace": "a"}),
                json!({"name": "x"}),
                json!({"namespace": ""}),
            ] {
                table.push((event(field, here), vec![]));
            }
        }
        check(validate, table);
    }

    #[test]
    fn speaks_both_ways() {
        let core = json!({"apiVersion": "v1", "involvedObject": {"name": "p"}, "message": "m", "count": 2});
        let mut event = core.clone();
        convert(&mut event, "events.k8s.io/v1");
        assert_eq!(
            event,
            json!({"apiVersion": "events.k8s.io/v1", "regarding": {"name": "p"}, "note": "m", "deprecatedCount": 2})
        );
        convert(&mut event, "v1");
        assert_eq!(event, core);
    }
}
