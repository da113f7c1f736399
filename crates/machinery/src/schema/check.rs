//! Checking a value against a schema, with Kubernetes' messages.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Additional, Kind, Link, ListType, Rules, Schema, formats};
use crate::{Cause, field, names};

impl Schema {
    /// Everything that is wrong with an object: types and rules in the order of the fields, then embedded
    /// resources, then duplicates in lists. `metadata` of the object itself is not looked into beyond the schema.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut report = check(object, self, "");
        // Alternatives often find the same fault again.
        let mut seen = BTreeSet::new();
        let mut causes = std::mem::take(&mut report.causes);
        causes.retain(|cause| seen.insert((cause.field.clone(), cause.message.clone())));
        report.causes = causes;
        embedded(object, self, "", &mut report.causes);
        list_types(object, self, "", &mut report.causes);
        report.causes
    }
}

/// What was found, and how many checks went well, by which the best of several alternatives is told.
#[derive(Default)]
struct Report {
    causes: Vec<Cause>,
    passed: usize,
}

impl Report {
    fn merge(&mut self, other: Self) {
        self.causes.extend(other.causes);
        self.passed += other.passed;
    }

    fn is_good(&self) -> bool {
        self.causes.is_empty()
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The name under which JSON Schema has a value's type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_integral(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            !number.is_f64()
                || number
                    .as_f64()
                    .is_some_and(|float| float.fract() == 0.0 && float.abs() < 9e15)
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn has_kind(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Object => value.is_object(),
        Kind::Array => value.is_array(),
        Kind::String => value.is_string(),
        Kind::Integer => is_integral(value),
        Kind::Number => value.is_number(),
        Kind::Boolean => value.is_boolean(),
        Kind::IntOrString => value.is_string() || is_integral(value),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Any => "",
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::IntOrString => "integer,string",
    }
}

fn check(value: &Value, schema: &Schema, path: &str) -> Report {
    let mut report = Report::default();
    let wanted = kind_name(schema.kind);
    if !(value.is_null() && schema.nullable || has_kind(value, schema.kind)) {
        let found = type_of(value);
        report.causes.push(Cause::type_invalid(
            path,
            &json!(found),
            &format!("{path} in body must be of type {wanted}: \"{found}\""),
        ));
    } else {
        report.passed += 1;
    }
    let none = Rules::default();
    let rules = schema.rules.as_deref().unwrap_or(&none);
    if value.is_null() {
        allowed(value, rules, path, &mut report);
        return report;
    }
    alternatives(value, rules, path, &mut report);
    match value {
        Value::String(text) => string(value, text, rules, path, &mut report),
        Value::Number(_) => number(value, rules, path, &mut report),
        Value::Array(items) => list(items, schema, rules, path, &mut report),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    allowed(value, rules, path, &mut report);
    if let Value::Object(map) = value {
        object(map, schema, rules, path, &mut report);
    }
    report.passed += 1;
    report
}

fn allowed(value: &Value, rules: &Rules, path: &str, report: &mut Report) {
    let Some(values) = &rules.allowed else { return };
    let same = |other: &Value| {
        other == value || (other.is_number() && value.is_number() && other.as_f64() == value.as_f64())
    };
    if values.iter().any(same) {
        report.passed += 1;
        return;
    }
    let list: Vec<String> = values
        .iter()
        .map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        })
        .collect();
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    report.causes.push(Cause::not_supported(path, value, &list));
}

fn string(value: &Value, text: &str, rules: &Rules, path: &str, report: &mut Report) {
    let length = if rules.max_length.is_some() || rules.min_length.is_some() {
        text.chars().count() as u64
    } else {
        0
    };
    if let Some(limit) = rules.max_length.filter(|&limit| length > limit) {
        report.causes.push(Cause::too_long(path, limit));
    } else if let Some(limit) = rules.min_length.filter(|&limit| length < limit) {
        let detail = format!("{path} in body should be at least {limit} chars long");
        report.causes.push(Cause::invalid(path, value, &detail));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        let detail = format!("{path} in body should match '{}'", pattern.as_str());
        report.causes.push(Cause::invalid(path, value, &detail));
    } else {
        report.passed += 1;
    }
    if !rules.format.is_empty() && !formats::holds(&rules.format, text) {
        let detail = format!(
            "{path} in body must be of type {}: {}",
            rules.format,
            field::quote(text)
        );
        report.causes.push(Cause::type_invalid(path, value, &detail));
    }
}

fn number(value: &Value, rules: &Rules, path: &str, report: &mut Report) {
    let Some(float) = value.as_f64() else { return };
    let bound = |limit: f64| field::go_float(limit);
    let mut bad = |detail: String| report.causes.push(Cause::invalid(path, value, &detail));
    if let Some(factor) = rules.multiple_of {
        if factor <= 0.0 {
            bad(format!(
                "factor MultipleOf declared for {path} must be positive: {}",
                bound(factor)
            ));
        } else {
            let times = if factor < 1.0 {
                1.0 / factor * float
            } else {
                float / factor
            };
            if (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
                bad(format!(
                    "{path} in body should be a multiple of {}",
                    bound(factor)
                ));
            }
        }
    }
    if let Some(limit) = rules.maximum {
        if rules.exclusive_maximum && float >= limit {
            bad(format!("{path} in body should be less than {}", bound(limit)));
        } else if float > limit {
            bad(format!(
                "{path} in body should be less than or equal to {}",
                bound(limit)
            ));
        }
    }
    if let Some(limit) = rules.minimum {
        if rules.exclusive_minimum && float <= limit {
            bad(format!("{path} in body should be greater than {}", bound(limit)));
        } else if float < limit {
            bad(format!(
                "{path} in body should be greater than or equal to {}",
                bound(limit)
            ));
        }
    }
}

fn list(items: &[Value], schema: &Schema, rules: &Rules, path: &str, report: &mut Report) {
    if let Some(node) = schema.item() {
        for (index, item) in items.iter().enumerate() {
            report.merge(check(item, node, &format!("{path}[{index}]")));
        }
    }
    let size = items.len() as u64;
    if let Some(limit) = rules.min_items.filter(|&limit| size < limit) {
        let detail = format!("{path} in body should have at least {limit} items");
        report.causes.push(Cause::invalid(path, &json!(size), &detail));
    }
    if let Some(limit) = rules.max_items.filter(|&limit| size > limit) {
        report.causes.push(Cause::too_many(path, size, limit));
    }
    if rules.unique_items {
        let mut seen = BTreeSet::new();
        if !items.iter().all(|item| seen.insert(item.to_string())) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            report.causes.push(Cause::invalid(path, &json!(""), &detail));
        }
    }
}

fn object(map: &Map<String, Value>, schema: &Schema, rules: &Rules, path: &str, report: &mut Report) {
    let size = map.len() as u64;
    if let Some(limit) = rules.min_properties.filter(|&limit| size < limit) {
        let detail = format!("{path} in body should have at least {limit} properties");
        report.causes.push(Cause::invalid(path, &json!(size), &detail));
    }
    if let Some(limit) = rules.max_properties.filter(|&limit| size > limit) {
        report.causes.push(Cause::too_many(path, size, limit));
    }
    for (key, value) in map {
        match (schema.properties.get(key.as_str()), &schema.additional) {
            (Some(link), _) | (None, Additional::Values(link)) => {
                report.merge(check(value, link, &join(path, key)));
            }
            (None, Additional::Forbidden) => {
                let detail = format!("{path}.{key} in body is a forbidden property");
                report.causes.push(Cause::invalid(path, &json!(""), &detail));
            }
            (None, Additional::Unset | Additional::Any) => {}
        }
    }
    for key in &rules.required {
        if !map.contains_key(key.as_str()) {
            report.causes.push(Cause::required(&join(path, key), ""));
        }
    }
}

fn alternatives(value: &Value, rules: &Rules, path: &str, report: &mut Report) {
    let whole = |report: &mut Report, text: String| {
        report.causes.push(Cause::invalid("<nil>", &json!(""), &text));
    };
    if !rules.any_of.is_empty() {
        let (best, good) = best(value, &rules.any_of, path);
        if good == 0 {
            whole(
                report,
                format!("\"{path}\" must validate at least one schema (anyOf)"),
            );
        }
        report.merge(best);
    }
    if !rules.one_of.is_empty() {
        let (best, good) = best(value, &rules.one_of, path);
        if good != 1 {
            let found = if good == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {good} valid alternatives")
            };
            whole(
                report,
                format!("\"{path}\" must validate one and only one schema (oneOf). {found}"),
            );
        }
        report.merge(best);
    }
    if !rules.all_of.is_empty() {
        let mut good = 0;
        for link in &rules.all_of {
            let result = check(value, link, path);
            good += usize::from(result.is_good());
            report.merge(result);
        }
        if good < rules.all_of.len() {
            let none = if good == 0 { ". None validated" } else { "" };
            whole(
                report,
                format!("\"{path}\" must validate all the schemas (allOf){none}"),
            );
        }
    }
    if let Some(link) = &rules.not
        && check(value, link, path).is_good()
    {
        whole(report, format!("\"{path}\" must not validate the schema (not)"));
    }
}

/// The first alternative that holds, else the one that fails last; and how many hold.
fn best(value: &Value, links: &[Link], path: &str) -> (Report, usize) {
    let mut best: Option<Report> = None;
    let mut good = 0;
    for link in links {
        let result = check(value, link, path);
        let better = match &best {
            None => true,
            Some(best) => match (best.is_good(), result.is_good()) {
                (true, _) => false,
                (false, true) => true,
                (false, false) => result.passed > best.passed,
            },
        };
        good += usize::from(result.is_good());
        if better {
            best = Some(result);
        }
    }
    (best.unwrap_or_default(), good)
}

/// Runs over each child that has a node.
fn children(value: &Value, schema: &Schema, path: &str, mut run: impl FnMut(&Value, &Schema, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (schema.properties.get(key.as_str()), &schema.additional) {
                    (Some(link), _) => run(value, link, &join(path, key)),
                    (None, Additional::Values(link)) => run(value, link, &format!("{path}[{key}]")),
                    (None, Additional::Unset | Additional::Any | Additional::Forbidden) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = schema.item() {
                for (index, item) in items.iter().enumerate() {
                    run(item, node, &format!("{path}[{index}]"));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn embedded(value: &Value, schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    if let (true, Value::Object(map)) = (schema.embedded_resource, value) {
        embedded_resource(map, path, causes);
    }
    children(value, schema, path, |value, node, path| {
        embedded(value, node, path, causes);
    });
}

fn embedded_resource(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for key in ["apiVersion", "kind"] {
        let at = join(path, key);
        match map.get(key) {
            None => causes.push(Cause::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(&at, &json!(""), "must not be empty"));
            }
            Some(Value::String(text)) if key == "apiVersion" && text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                causes.push(Cause::invalid(&at, &json!(text), &detail));
            }
            Some(Value::String(text)) if key == "kind" => {
                if let Err(problem) = names::is_dns1035_label(&text.to_lowercase()) {
                    let detail = format!("may have mixed case, but should otherwise match: {problem}");
                    causes.push(Cause::invalid(&at, &json!(text), &detail));
                }
            }
            Some(Value::String(_)) => {}
            Some(other) => causes.push(Cause::invalid(&at, other, "must be a string")),
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return;
    };
    let at = join(path, "metadata");
    let mut copy = metadata.clone();
    super::prune::object_meta().drop_nulls(&mut copy);
    let report = check(&copy, super::prune::object_meta(), &at);
    causes.extend(report.causes);
    if let Some(name) = metadata["name"].as_str() {
        for problem in names::path_segment_problems(name) {
            causes.push(Cause::invalid(&format!("{at}.name"), &json!(name), &problem));
        }
    }
    if let Some(labels) = metadata["labels"].as_object() {
        for (key, value) in labels {
            let at = format!("{at}.labels");
            for problem in names::qualified_name_problems(key) {
                causes.push(Cause::invalid(&at, &json!(key), &problem));
            }
            for problem in names::label_value_problems(value.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(&at, value, &problem));
            }
        }
    }
}

fn list_types(value: &Value, schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    if let Value::Array(items) = value {
        match schema.list_type {
            Some(ListType::Set) => duplicates(items, path, causes, Value::clone),
            Some(ListType::Map) => {
                let stray = |item: &Value| !item.is_object() && !item.is_null();
                match items.iter().position(stray) {
                    Some(index) => {
                        let detail = "must be an object for an array of list-type map";
                        causes.push(Cause::invalid(&format!("{path}[{index}]"), &items[index], detail));
                    }
                    None => duplicates(items, path, causes, |item| list_map_key(item, schema)),
                }
            }
            Some(ListType::Atomic) | None => {}
        }
    }
    children(value, schema, path, |value, node, path| {
        list_types(value, node, path, causes);
    });
}

/// The key fields of a list's item, defaults filled in.
fn list_map_key(item: &Value, schema: &Schema) -> Value {
    if item.is_null() {
        return Value::Object(Map::new());
    }
    let node = schema.item();
    schema
        .list_map_keys
        .iter()
        .filter_map(|key| {
            let default = || node?.property(key)?.default.as_deref();
            let value = item.get(key.as_str()).or_else(default)?;
            Some((key.to_string(), value.clone()))
        })
        .collect::<Map<String, Value>>()
        .into()
}

/// Reports each value that comes again, once.
fn duplicates(items: &[Value], path: &str, causes: &mut Vec<Cause>, key: impl Fn(&Value) -> Value) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        let times = seen.entry(key.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(&format!("{path}[{index}]"), &key));
        }
    }
}
