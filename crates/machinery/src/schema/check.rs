//! Checking a value against a schema, with Kubernetes' messages.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::former::Former;
use super::place::Place;
use super::{Additional, Kind, Link, Rules, Schema, formats, rules, structure};
use crate::{Cause, field};

impl Schema {
    /// Everything that is wrong with an object: types and rules in the order of the fields, then embedded
    /// resources, then duplicates in lists. `metadata` of the object itself is not looked into beyond the schema.
    /// Where all that is right, the rules of `x-kubernetes-validations` are asked, but for those about `oldSelf`.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        self.validate_with(object, None)
    }

    /// The same for an object that replaces an `old` one: rules about `oldSelf` are asked too. What was wrong before
    /// stays allowed, so that a schema that became stricter does not hold up other changes, as by Kubernetes: a value
    /// that is what it was before is as good as it was, and lists whose items repeat may repeat more. Items are known
    /// again in keyed lists only; embedded resources, and rules about `oldSelf` or that fail, are asked as ever.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<Cause> {
        self.validate_with(object, Some(old))
    }

    fn validate_with(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = check(object, old, self, &Place::Root).causes;
        // Alternatives often find the same fault again.
        let mut seen = BTreeSet::new();
        causes.retain(|cause| seen.insert((cause.field.clone(), cause.message.clone())));
        structure::embedded(object, self, &Place::Root, &mut causes);
        let list_types = |object: &Value| {
            let mut causes = Vec::new();
            structure::list_types(object, self, &Place::Root, &mut causes);
            causes
        };
        let found = list_types(object);
        if !found.is_empty() && old.is_none_or(|old| list_types(old).is_empty()) {
            causes.extend(found);
        }
        if causes.is_empty() {
            rules::check(object, old, self, &mut causes);
        }
        causes
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

static NO_RULES: LazyLock<Rules> = LazyLock::new(Rules::default);

/// What a value breaks of its own node's types and rules and of those below.
pub(super) fn causes(value: &Value, schema: &Schema, place: &Place<'_>) -> Vec<Cause> {
    check(value, None, schema, place).causes
}

fn check(value: &Value, old: Option<&Value>, schema: &Schema, place: &Place<'_>) -> Report {
    let mut report = Report::default();
    if old == Some(value) {
        return report;
    }
    let wanted = if schema.kind == Kind::IntOrString {
        "integer,string"
    } else {
        schema.kind.name()
    };
    if !(value.is_null() && schema.nullable || has_kind(value, schema.kind)) {
        let found = type_of(value);
        report.causes.push(Cause::type_invalid(
            &place.to_string(),
            &json!(found),
            &format!("{place} in body must be of type {wanted}: \"{found}\""),
        ));
    } else {
        report.passed += 1;
    }
    let rules = schema.rules.as_deref().unwrap_or(&NO_RULES);
    if value.is_null() {
        allowed(value, rules, place, &mut report);
        return report;
    }
    alternatives(value, rules, place, &mut report);
    match value {
        Value::String(text) => string(value, text, rules, place, &mut report),
        Value::Number(_) => number(value, rules, place, &mut report),
        Value::Array(items) => list(items, old, schema, rules, place, &mut report),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    allowed(value, rules, place, &mut report);
    if let Value::Object(map) = value {
        object(map, old, schema, rules, place, &mut report);
    }
    report.passed += 1;
    report
}

fn allowed(value: &Value, rules: &Rules, place: &Place<'_>, report: &mut Report) {
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
    report
        .causes
        .push(Cause::not_supported(&place.to_string(), value, &list));
}

fn string(value: &Value, text: &str, rules: &Rules, place: &Place<'_>, report: &mut Report) {
    let length = if rules.max_length.is_some() || rules.min_length.is_some() {
        text.chars().count() as u64
    } else {
        0
    };
    if let Some(limit) = rules.max_length.filter(|&limit| length > limit) {
        report.causes.push(Cause::too_long(&place.to_string(), limit));
    } else if let Some(limit) = rules.min_length.filter(|&limit| length < limit) {
        let detail = format!("{place} in body should be at least {limit} chars long");
        report
            .causes
            .push(Cause::invalid(&place.to_string(), value, &detail));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        let detail = format!("{place} in body should match '{}'", pattern.as_str());
        report
            .causes
            .push(Cause::invalid(&place.to_string(), value, &detail));
    } else {
        report.passed += 1;
    }
    if !rules.format.is_empty() && !formats::holds(&rules.format, text) {
        let detail = format!(
            "{place} in body must be of type {}: {}",
            rules.format,
            field::quote(text)
        );
        report
            .causes
            .push(Cause::type_invalid(&place.to_string(), value, &detail));
    }
}

fn number(value: &Value, rules: &Rules, place: &Place<'_>, report: &mut Report) {
    let Some(float) = value.as_f64() else { return };
    let bound = |limit: f64| field::go_float(limit);
    let mut bad = |detail: String| {
        report
            .causes
            .push(Cause::invalid(&place.to_string(), value, &detail))
    };
    if let Some(factor) = rules.multiple_of {
        if factor <= 0.0 {
            bad(format!(
                "factor MultipleOf declared for {place} must be positive: {}",
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
                    "{place} in body should be a multiple of {}",
                    bound(factor)
                ));
            }
        }
    }
    if let Some(limit) = rules.maximum {
        if rules.exclusive_maximum && float >= limit {
            bad(format!("{place} in body should be less than {}", bound(limit)));
        } else if float > limit {
            bad(format!(
                "{place} in body should be less than or equal to {}",
                bound(limit)
            ));
        }
    }
    if let Some(limit) = rules.minimum {
        if rules.exclusive_minimum && float <= limit {
            bad(format!("{place} in body should be greater than {}", bound(limit)));
        } else if float < limit {
            bad(format!(
                "{place} in body should be greater than or equal to {}",
                bound(limit)
            ));
        }
    }
}

fn list(
    items: &[Value],
    old: Option<&Value>,
    schema: &Schema,
    rules: &Rules,
    place: &Place<'_>,
    report: &mut Report,
) {
    if let Some(node) = schema.item() {
        let former = Former::new(old, schema);
        for (index, item) in items.iter().enumerate() {
            report.merge(check(item, former.of(item), node, &Place::Index(place, index)));
        }
    }
    let size = items.len() as u64;
    if let Some(limit) = rules.min_items.filter(|&limit| size < limit) {
        let detail = format!("{place} in body should have at least {limit} items");
        report
            .causes
            .push(Cause::invalid(&place.to_string(), &json!(size), &detail));
    }
    if let Some(limit) = rules.max_items.filter(|&limit| size > limit) {
        report
            .causes
            .push(Cause::too_many(&place.to_string(), size, limit));
    }
    if rules.unique_items {
        let mut seen = BTreeSet::new();
        if !items.iter().all(|item| seen.insert(item.to_string())) {
            let detail = format!("{place} in body shouldn't contain duplicates");
            report
                .causes
                .push(Cause::invalid(&place.to_string(), &json!(""), &detail));
        }
    }
}

fn object(
    map: &Map<String, Value>,
    old: Option<&Value>,
    schema: &Schema,
    rules: &Rules,
    place: &Place<'_>,
    report: &mut Report,
) {
    let size = map.len() as u64;
    if let Some(limit) = rules.min_properties.filter(|&limit| size < limit) {
        let detail = format!("{place} in body should have at least {limit} properties");
        report
            .causes
            .push(Cause::invalid(&place.to_string(), &json!(size), &detail));
    }
    if let Some(limit) = rules.max_properties.filter(|&limit| size > limit) {
        report
            .causes
            .push(Cause::too_many(&place.to_string(), size, limit));
    }
    for (key, value) in map {
        match (schema.properties.get(key.as_str()), &schema.additional) {
            (Some(link), _) | (None, Additional::Values(link)) => {
                let here = Place::Field(place, key);
                let old = old.filter(|_| !here.is_type()).and_then(|old| old.get(key));
                report.merge(check(value, old, link, &here));
            }
            (None, Additional::Forbidden) => {
                let detail = format!("{place}.{key} in body is a forbidden property");
                report
                    .causes
                    .push(Cause::invalid(&place.to_string(), &json!(""), &detail));
            }
            (None, Additional::Unset | Additional::Any) => {}
        }
    }
    for key in &rules.required {
        if !map.contains_key(key.as_str()) {
            report
                .causes
                .push(Cause::required(&Place::Field(place, key).to_string(), ""));
        }
    }
}

fn alternatives(value: &Value, rules: &Rules, place: &Place<'_>, report: &mut Report) {
    let whole = |report: &mut Report, text: String| {
        report.causes.push(Cause::invalid("<nil>", &json!(""), &text));
    };
    if !rules.any_of.is_empty() {
        let (best, good) = best(value, &rules.any_of, place);
        if good == 0 {
            whole(
                report,
                format!("\"{place}\" must validate at least one schema (anyOf)"),
            );
        }
        report.merge(best);
    }
    if !rules.one_of.is_empty() {
        let (best, good) = best(value, &rules.one_of, place);
        if good != 1 {
            let found = if good == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {good} valid alternatives")
            };
            whole(
                report,
                format!("\"{place}\" must validate one and only one schema (oneOf). {found}"),
            );
        }
        report.merge(best);
    }
    if !rules.all_of.is_empty() {
        let mut good = 0;
        for link in &rules.all_of {
            let result = check(value, None, link, place);
            good += usize::from(result.is_good());
            report.merge(result);
        }
        if good < rules.all_of.len() {
            let none = if good == 0 { ". None validated" } else { "" };
            whole(
                report,
                format!("\"{place}\" must validate all the schemas (allOf){none}"),
            );
        }
    }
    if let Some(link) = &rules.not
        && check(value, None, link, place).is_good()
    {
        whole(report, format!("\"{place}\" must not validate the schema (not)"));
    }
}

/// The first alternative that holds, else the one that fails last; and how many hold.
fn best(value: &Value, links: &[Link], place: &Place<'_>) -> (Report, usize) {
    let mut best: Option<Report> = None;
    let mut good = 0;
    for link in links {
        let result = check(value, None, link, place);
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
