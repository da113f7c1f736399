//! The facts of a CustomResourceDefinition that a compatible one must keep, one a line.
//!
//! A line is `path<TAB>fact<TAB>value`. Paths of fields start at the version (`v1alpha1:spec.feeds[].kind`; `[]` is a
//! list's element, `{}` a map's value). Descriptions are left out: wording is no fact.

use std::collections::BTreeMap;

use serde_json::Value;

/// The table of a definition, sorted, with a final newline.
pub fn derive(crd: &Value) -> String {
    let mut facts = Facts::default();
    let spec = &crd["spec"];
    facts.add("crd", "group", &spec["group"]);
    facts.add("crd", "scope", &spec["scope"]);
    for field in [
        "kind",
        "listKind",
        "plural",
        "singular",
        "shortNames",
        "categories",
    ] {
        facts.add("names", field, &spec["names"][field]);
    }
    for version in list(&spec["versions"]) {
        let name = version["name"].as_str().unwrap_or_default();
        facts.add(name, "served", &version["served"]);
        facts.add(name, "storage", &version["storage"]);
        for subresource in version["subresources"].as_object().into_iter().flatten() {
            facts.add(name, &format!("subresource {}", subresource.0), subresource.1);
        }
        for (index, column) in list(&version["additionalPrinterColumns"]).iter().enumerate() {
            let text = |field: &str| column[field].as_str().unwrap_or_default();
            let value = format!(
                "{} {} {} {}",
                index,
                text("type"),
                text("jsonPath"),
                column["priority"].as_u64().unwrap_or(0)
            );
            facts.add(name, &format!("column {}", text("name")), &Value::String(value));
        }
        facts.schema(&format!("{name}:"), &version["schema"]["openAPIV3Schema"]);
    }
    facts
        .0
        .iter()
        .map(|((path, fact), value)| format!("{path}\t{fact}\t{value}\n"))
        .collect()
}

/// What of the table `ours` is not in or differs from `theirs`: the lines of theirs that ours lacks, and the demands
/// of ours (required fields, patterns, limits, choices) on fields that theirs has without them.
pub fn missing(theirs: &str, ours: &str) -> Vec<String> {
    let theirs = parse(theirs);
    let ours = parse(ours);
    let mut found = Vec::new();
    for (key, value) in &theirs {
        match ours.get(key) {
            Some(same) if same == value => {}
            other => found.push(format!(
                "{} {}: want {value}, have {}",
                key.0,
                key.1,
                other.unwrap_or(&"nothing")
            )),
        }
    }
    for ((path, fact), value) in &ours {
        let demand = !matches!(*fact, "type" | "description");
        let known = theirs.contains_key(&(*path, "type"));
        if demand && known && !theirs.contains_key(&(*path, *fact)) {
            found.push(format!("{path} {fact}: want nothing, have {value}"));
        }
    }
    found
}

fn parse(table: &str) -> BTreeMap<(&str, &str), &str> {
    table
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, '\t');
            Some(((parts.next()?, parts.next()?), parts.next()?))
        })
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[derive(Default)]
struct Facts(BTreeMap<(String, String), String>);

impl Facts {
    fn add(&mut self, path: &str, fact: &str, value: &Value) {
        if !value.is_null() {
            self.0.insert(
                (path.to_owned(), fact.to_owned()),
                sorted(fact, value).to_string(),
            );
        }
    }

    fn schema(&mut self, path: &str, schema: &Value) {
        let Some(map) = schema.as_object() else {
            return;
        };
        // A field without a type (int-or-string, preserve-unknown) is a field all the same.
        self.add(path, "type", map.get("type").unwrap_or(&Value::Bool(true)));
        for (fact, value) in map {
            match fact.as_str() {
                "description" | "type" => {}
                "properties" => {
                    for (name, inner) in value.as_object().into_iter().flatten() {
                        let dot = if path.ends_with(':') { "" } else { "." };
                        self.schema(&format!("{path}{dot}{name}"), inner);
                    }
                }
                // The rules are facts; what is said when they are broken is wording.
                "x-kubernetes-validations" => {
                    let rules = list(value).iter().map(|rule| rule["rule"].clone()).collect();
                    self.add(path, fact, &rules);
                }
                "items" => self.schema(&format!("{path}[]"), value),
                "additionalProperties" => self.schema(&format!("{path}{{}}"), value),
                _ => self.add(path, fact, value),
            }
        }
    }
}

/// Sets whose order says nothing are sorted.
fn sorted(fact: &str, value: &Value) -> Value {
    match (fact, value) {
        (
            "required" | "enum" | "shortNames" | "categories" | "x-kubernetes-list-map-keys",
            Value::Array(items),
        ) => {
            let mut items = items.clone();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn crd(kind: Value, size: Value) -> String {
        derive(
            &json!({"spec": {"group": "x.io", "names": {"shortNames": ["b", "a"]}, "versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "description": "words", "properties": {
                "kinds": {"type": "array", "items": kind}, "sizes": {"type": "object", "additionalProperties": size}}}}}]}}),
        )
    }

    #[test]
    fn finds_what_is_lacking_and_what_is_demanded_too_much() {
        let plain = crd(json!({"type": "string"}), json!({"type": "integer"}));
        let strict = crd(
            json!({"type": "string", "enum": ["B", "A"]}),
            json!({"type": "integer", "minimum": 0}),
        );
        assert!(plain.contains("v1:kinds[]\ttype\t\"string\"\n"), "{plain}");
        assert!(plain.contains("names\tshortNames\t[\"a\",\"b\"]\n"), "{plain}");
        assert!(!plain.contains("words"));
        assert_eq!(missing(&strict, &strict), Vec::<String>::new());
        assert_eq!(
            missing(&strict, &plain),
            [
                "v1:kinds[] enum: want [\"A\",\"B\"], have nothing",
                "v1:sizes{} minimum: want 0, have nothing"
            ]
        );
        assert_eq!(
            missing(&plain, &strict),
            [
                "v1:kinds[] enum: want nothing, have [\"A\",\"B\"]",
                "v1:sizes{} minimum: want nothing, have 0"
            ]
        );
        let other = crd(
            json!({"type": "object", "properties": {"new": {"type": "string"}}}),
            json!({"type": "integer"}),
        );
        assert_eq!(
            missing(&plain, &other),
            ["v1:kinds[] type: want \"string\", have \"object\""]
        );
    }
}
