//! Fuzz bodies: each takes any bytes and must return. They are run over the committed corpus and mutations of it by
//! `tests/fuzz_replay.rs`, and by a fuzzer elsewhere.

use jiff::Timestamp;
use serde_json::Value;

use crate::cel::{Budget, Given, Program, Scope};
use crate::jsonpath::{JsonPath, Template};
use crate::managed::{self, FieldSet, Writer};
use crate::patch;
use crate::quantity::Quantity;
use crate::schema::{self, Schema};
use crate::selector::{FieldSelector, LabelSelector};
use crate::{names, table};

/// A body and the name of its corpus.
pub type Body = (&'static str, fn(&[u8]));

/// Every body of this crate.
pub const BODIES: [Body; 8] = [
    ("cel", fuzz_cel),
    ("names", fuzz_names),
    ("selectors", fuzz_selectors),
    ("quantities", fuzz_quantities),
    ("jsonpath", fuzz_jsonpath),
    ("patches", fuzz_patches),
    ("schemas", fuzz_schemas),
    ("apply", fuzz_apply),
];

/// Whatever came out, only the way there counts.
fn ignore<T>(_: T) {}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The bytes as JSON documents, one a line; null for what is none.
fn documents<const N: usize>(bytes: &[u8]) -> [Value; N] {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    std::array::from_fn(|_| {
        lines
            .next()
            .and_then(|line| serde_json::from_slice(line).ok())
            .unwrap_or_default()
    })
}

/// Names and label keys.
pub fn fuzz_names(bytes: &[u8]) {
    let text = text(bytes);
    let rules: [fn(&str) -> Vec<String>; 10] = [
        names::dns1123_label_problems,
        names::dns1123_subdomain_problems,
        names::dns1035_label_problems,
        names::wildcard_subdomain_problems,
        names::qualified_name_problems,
        names::label_value_problems,
        names::path_segment_problems,
        names::config_key_problems,
        names::port_name_problems,
        names::env_name_problems,
    ];
    for rule in rules {
        ignore(rule(&text));
    }
    let masked = names::mask_trailing_dash(&text);
    assert!(masked.len() <= text.len() + 1);
}

/// Label and field selectors: what parses survives its own text.
pub fn fuzz_selectors(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(selector) = LabelSelector::parse(&text) {
        let again = LabelSelector::parse(&selector.to_string());
        // `a in ()` is what Kubernetes prints for an empty value, and refuses to read.
        if !selector.to_string().contains("()") {
            assert_eq!(again.as_ref(), Ok(&selector));
        }
        selector.matches(|key| (key.len() % 2 == 0).then_some("1"));
    }
    if let Ok(selector) = FieldSelector::parse(&text) {
        assert!(FieldSelector::parse(&selector.to_string()).is_ok());
    }
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        ignore(LabelSelector::from_value(&value).map(|selector| selector.to_string()));
    }
}

/// Quantities: what parses is written as something of the same value.
pub fn fuzz_quantities(bytes: &[u8]) {
    let text = text(bytes);
    let (first, second) = text.split_once(' ').unwrap_or((&text, "1"));
    let (Ok(first), Ok(second)) = (Quantity::parse(first), Quantity::parse(second)) else {
        return;
    };
    assert_eq!(Quantity::parse(&first.to_string()).as_ref(), Ok(&first));
    if let Some(sum) = first.checked_add(&second) {
        assert_eq!(sum.checked_sub(&second).unwrap_or_else(|| first.clone()), first);
    }
    ignore((first.cmp(&second), first.value(), first.milli(), first.as_f64()));
}

/// Paths and templates, on a small document.
pub fn fuzz_jsonpath(bytes: &[u8]) {
    let text = text(bytes);
    let document = serde_json::json!({
        "metadata": {"name": "a", "labels": {"x.y/z": "1"}},
        "items": [{"a": 1, "b": ["x", {"c": true}]}, {"a": 2.5}, null, "t"],
    });
    if let Ok(path) = JsonPath::parse(&text) {
        ignore(path.find(&document));
    }
    if let Ok(template) = Template::parse(&text) {
        ignore(template.render(&document));
    }
    let column = serde_json::json!({"name": "n", "type": "date", "jsonPath": text});
    if let Ok(column) = table::Column::from_crd(&column) {
        column.cell(&document, Timestamp::UNIX_EPOCH);
    }
}

/// Expressions, on a small object.
pub fn fuzz_cel(bytes: &[u8]) {
    let this = serde_json::json!({"a": 1, "b": "x", "list": [1, "y", {"c": 2.5}], "map": {"k": true}});
    if let Ok(program) = Program::parse(&text(bytes)) {
        let variables = [
            ("self", Given::Value(&this)),
            ("oldSelf", Given::Optional(Some(&this))),
        ];
        ignore(program.evaluate(&variables, None, &mut Budget::default()));
        let scope = Scope {
            schema: &Schema::default(),
            is_root: true,
            variables: &["self"],
            optional: &["oldSelf"],
        };
        ignore(program.problem(&scope, "bool").ok_or(()));
        program.mentions("oldSelf");
    }
}

/// Patches: a document, a patch and a third version, one a line.
pub fn fuzz_patches(bytes: &[u8]) {
    let [document, patch, current] = documents(bytes);
    ignore(patch::json_patch(&document, &patch));
    let mut merged = document.clone();
    patch::merge_patch(&mut merged, &patch);
    let mut reached = document.clone();
    patch::merge_patch(&mut reached, &patch::merge_diff(&document, &current));
    patch::json_merge_diff(&document, &patch, &current);
    let info = schema::object_meta();
    ignore(patch::strategic_merge(&document, &patch, info));
    if let Ok(change) = patch::strategic_diff(&document, &patch, &current, info) {
        ignore(patch::strategic_merge(&current, &change, info));
    }
    patch::changed_paths(&document, &current, &["/metadata/*", "/a~1b"]);
}

/// Schemas: a schema, an object and what it replaces, one a line; and the raw bytes as JSON.
pub fn fuzz_schemas(bytes: &[u8]) {
    ignore(schema::duplicate_fields(bytes, 64));
    ignore(schema::nesting_depth(bytes));
    let [schema, mut object, old] = documents(bytes);
    let Ok(schema) = Schema::from_openapi(&schema) else {
        return;
    };
    schema.fill_defaults(&mut object);
    schema.prune(&mut object);
    assert_eq!(schema.prune(&mut object), Vec::<String>::new());
    schema.validate(&object);
    schema.validate_update(&object, &old);
}

/// Server-side apply: a schema, a live object and a configuration, one a line.
pub fn fuzz_apply(bytes: &[u8]) {
    let [schema, live, config] = documents(bytes);
    let schema = Schema::from_openapi(&schema).ok();
    let reset = FieldSet::of(&["status"]);
    let writer = Writer {
        schema: schema.as_ref(),
        manager: "fuzz",
        api_version: "v1",
        subresource: "",
        reset: &reset,
        now: Timestamp::UNIX_EPOCH,
    };
    let updated = managed::update(&live, config.clone(), &writer);
    if let Ok(applied) = managed::apply(&updated, &live, false, &writer) {
        ignore(managed::apply(&applied, &config, true, &writer));
    }
    ignore(managed::apply(&live, &config, true, &writer));
}
