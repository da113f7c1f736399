use serde_json::json;

use super::*;

fn schema(value: Value) -> Schema {
    Schema::from_openapi(&value).unwrap_or_else(|error| panic!("{error}"))
}

fn widget() -> Schema {
    schema(json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {
                "type": "object", "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                    "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$", "default": "abc"},
                    "mode": {"type": "string", "enum": ["a", "b"], "nullable": true},
                    "port": {"x-kubernetes-int-or-string": true},
                    "ip": {"type": "string", "format": "ipv4"},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 3},
                    "rows": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 7}}}
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"in": {"type": "object", "properties": {"x": {"type": "string"}}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                    "either": {"type": "object", "properties": {"l": {"type": "string"}, "r": {"type": "string"}},
                        "oneOf": [{"required": ["l"]}, {"required": ["r"]}]},
                    "deep": {"type": "object", "default": {}, "properties": {"on": {"type": "boolean", "default": true}}}
                }
            }
        }
    }))
}

#[test]
fn drops_what_it_does_not_know() {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}, "nope": 1}, "extra": {},
        "spec": {
            "size": 1, "foo": 1, "rows": [{"k": "a"}, {"k": "b", "z": 1}],
            "free": {"any": {"thing": 1}, "in": {"x": "1", "y": 2}},
            "map": {"a": "b"},
            "raw": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "bad": 1}, "spec": {"z": 1}}
        }
    });
    assert_eq!(
        widget().prune(&mut object),
        [
            "extra",
            "metadata.nope",
            "spec.foo",
            "spec.free.in.y",
            "spec.raw.metadata.bad",
            "spec.rows[1].z"
        ]
    );
    assert_eq!(object["spec"]["free"]["any"]["thing"], json!(1));
    assert_eq!(object["spec"]["raw"]["spec"]["z"], json!(1));
    assert!(widget().prune(&mut object).is_empty(), "once is enough");
}

#[test]
fn fills_in_defaults_and_drops_nulls() {
    let mut object = json!({"spec": {"size": null, "name": null, "mode": null, "rows": [{"k": "a", "v": null}, {"k": "b"}]}});
    widget().fill_defaults(&mut object);
    assert_eq!(
        object,
        json!({"spec": {
            "name": "abc", "mode": null, "deep": {"on": true}, "rows": [{"k": "a", "v": 7}, {"k": "b", "v": 7}]
        }})
    );
}

#[test]
fn complains_in_the_words_of_kubernetes() {
    let table = [
        (
            json!({"size": "x"}),
            "spec.size",
            "Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (json!({}), "spec.size", "Required value"),
        (
            json!({"size": 0}),
            "spec.size",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 11}),
            "spec.size",
            "Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({"size": 1.5}),
            "spec.size",
            "Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
        ),
        (
            json!({"size": 1, "name": "abcd"}),
            "spec.name",
            "Too long: may not be more than 3 bytes",
        ),
        (
            json!({"size": 1, "name": "A"}),
            "spec.name",
            "Invalid value: \"A\": spec.name in body should match '^[a-z]*$'",
        ),
        (
            json!({"size": 1, "name": null}),
            "spec.name",
            "Invalid value: \"null\": spec.name in body must be of type string: \"null\"",
        ),
        (
            json!({"size": 1, "mode": "c"}),
            "spec.mode",
            "Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            json!({"size": 1, "port": true}),
            "spec.port",
            "Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"size": 1, "ip": "x"}),
            "spec.ip",
            "Invalid value: \"x\": spec.ip in body must be of type ipv4: \"x\"",
        ),
        (
            json!({"size": 1, "tags": ["a", "a"]}),
            "spec.tags[1]",
            "Duplicate value: \"a\"",
        ),
        (
            json!({"size": 1, "tags": ["a", "b", "c", "d"]}),
            "spec.tags",
            "Too many: 4: must have at most 3 items",
        ),
        (
            json!({"size": 1, "rows": [{"k": "a"}, {"k": "a"}]}),
            "spec.rows[1]",
            "Duplicate value: {\"k\":\"a\"}",
        ),
        (
            json!({"size": 1, "raw": {"kind": "Pod"}}),
            "spec.raw.apiVersion",
            "Required value",
        ),
        (
            json!({"size": 1, "map": {"a": 1}}),
            "spec.map.a",
            "Invalid value: \"integer\": spec.map.a in body must be of type string: \"integer\"",
        ),
    ];
    for (spec, field, message) in table {
        let causes = widget().validate(&json!({"spec": spec}));
        let found: Vec<_> = causes
            .iter()
            .map(|cause| (cause.field.as_str(), cause.message.as_str()))
            .collect();
        assert_eq!(found, [(field, message)], "{spec}");
    }
    let good = json!({"spec": {"size": 2.0, "port": "http", "ip": "10.0.0.1", "either": {"l": "x"}, "tags": ["a", "b"]}});
    assert_eq!(widget().validate(&good), []);
    let causes = widget().validate(&json!({"spec": {"size": 1, "either": {"l": "x", "r": "y"}}}));
    assert_eq!(
        (causes[0].field.as_str(), causes[0].message.as_str()),
        (
            "<nil>",
            "Invalid value: \"\": \"spec.either\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        )
    );
}

#[test]
fn refuses_schemas_that_make_no_sense() {
    for (value, want) in [
        (json!([]), ": Invalid value: []: must be an object"),
        (
            json!({"properties": {"a": {"type": "x"}}}),
            "properties[a].type: Unsupported value: \"x\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            json!({"items": {"$ref": "#/x"}}),
            "items.$ref: Forbidden: $ref is not supported",
        ),
        (
            json!({"maxLength": -1}),
            "maxLength: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        assert_eq!(Schema::from_openapi(&value).expect_err("bad").to_string(), want);
    }
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"items": deep});
    }
    assert!(Schema::from_openapi(&deep).is_err());
}

#[test]
fn named_types_may_be_recursive() {
    fn resolve(_: u32) -> &'static Schema {
        static NODE: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
        NODE.get_or_init(|| {
            let mut node = Schema::of(Kind::Object);
            node.properties.insert("not".into(), Link::named(resolve, 0));
            node.properties
                .insert("type".into(), Link::of(Schema::of(Kind::String)));
            node
        })
    }
    let node = resolve(0);
    let mut value = json!({"not": {"not": {"type": "x", "foo": 1}}});
    assert_eq!(node.prune_value(&mut value), ["not.not.foo"]);
    assert!(format!("{node:?}").len() < 4_000);
    assert_eq!(node.validate(&json!({"not": {"not": 1}})).len(), 1);
}

#[test]
fn reads_nulls_of_built_in_kinds_as_go_does() {
    let node = schema(json!({"type": "object", "nullable": true, "properties": {
        "time": {"type": "string", "nullable": true},
        "labels": {"type": "object", "nullable": true, "additionalProperties": {"type": "string", "nullable": true}},
        "list": {"type": "array", "items": {"type": "object", "nullable": true, "properties": {"a": {"type": "integer"}}}},
        "raw": {"x-kubernetes-preserve-unknown-fields": true}
    }}));
    let mut value = json!({"time": null, "labels": {"a": null, "b": "c"}, "list": [null, {"a": null}], "raw": {"x": null}, "more": null});
    node.drop_nulls(&mut value);
    assert_eq!(
        value,
        json!({"labels": {"a": "", "b": "c"}, "list": [{}, {}], "raw": {"x": null}, "more": null})
    );
}

#[test]
fn asks_the_rules_of_a_schema() {
    let node = schema(json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": [
            {"rule": "!has(oldSelf.base) || has(self.base)", "message": "base is required once set"},
            {"rule": "!has(self.min) || self.min <= self.max", "messageExpression": "'min ' + string(self.min) + ' above max'"},
            {"rule": "self.nonsense(", "message": "cannot be compiled"},
        ],
        "properties": {
            "base": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "base is immutable"}]},
            "min": {"type": "integer"}, "max": {"type": "integer", "default": 3},
            "rows": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}]
            }}
        }
    }}}));
    let spec = |spec: Value| json!({"spec": spec});
    let found = |new: Value, old: Value| -> Vec<String> {
        node.validate_update(&spec(new), &spec(old))
            .into_iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    };
    assert_eq!(node.validate(&spec(json!({"base": "a", "min": 1, "max": 2}))), []);
    assert_eq!(found(json!({"base": "a"}), json!({"base": "a"})), [] as [&str; 0]);
    assert_eq!(
        found(json!({"base": "b"}), json!({"base": "a"})),
        ["spec.base: Invalid value: \"string\": base is immutable"]
    );
    assert_eq!(
        found(json!({}), json!({"base": "a"})),
        ["spec: Invalid value: \"object\": base is required once set"]
    );
    assert_eq!(
        found(json!({"min": 5, "max": 2}), json!({})),
        ["spec: Invalid value: \"object\": min 5 above max"]
    );
    assert_eq!(
        found(
            json!({"rows": [{"k": "new", "v": 0}, {"k": "a", "v": 1}]}),
            json!({"rows": [{"k": "a", "v": 2}]})
        ),
        ["spec.rows[1]: Invalid value: \"object\": failed rule: self.v >= oldSelf.v"]
    );
}

/// What is wrong with an object that replaces another, as `field: message`.
fn complaints(schema: &Schema, new: &Value, old: &Value) -> Vec<String> {
    schema
        .validate_update(new, old)
        .into_iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

#[test]
fn what_was_wrong_before_and_stays_the_same_is_no_fault() {
    let node = schema(json!({"type": "object", "properties": {
        "apiVersion": {"type": "string", "maxLength": 3}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "required": ["must"], "properties": {
            "must": {"type": "string"},
            "n": {"type": "integer", "maximum": 10}, "name": {"type": "string", "pattern": "^[a-z]*$"},
            "plain": {"type": "array", "items": {"type": "integer", "maximum": 10}},
            "set": {"type": "array", "items": {"type": "integer", "maximum": 10}, "x-kubernetes-list-type": "set"},
            "rows": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 10}}}},
            "free": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 10}},
            "either": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "allOf": [{"properties": {"a": {"maximum": 10}}}]},
            "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
        }}
    }}));
    let object = |finalizers: Value, spec: &Value| json!({"apiVersion": "v1", "metadata": {"finalizers": finalizers}, "spec": spec});
    let bad = json!({"n": 100, "name": "A", "plain": [11], "set": [11], "rows": [{"k": "a", "v": 11}], "free": {"x": 11}, "either": {"a": 11}});
    assert_eq!(node.validate(&object(json!([]), &bad)).len(), 9);
    // a finalizer goes, the rest stays: nothing to complain of
    assert_eq!(
        complaints(&node, &object(json!([]), &bad), &object(json!(["a"]), &bad)),
        [] as [&str; 0]
    );
    let at =
        |field: &str| format!("Invalid value: 11: spec.{field} in body should be less than or equal to 10");
    for (new, old, want) in [
        // one field changes, another stays
        (json!({"must": "", "n": 100, "name": "a"}), json!({"must": "", "n": 100}), vec![]),
        (json!({"must": "", "n": 11}), json!({"must": "", "n": 100}), vec![format!("spec.n: {}", at("n"))]),
        // what the node itself lacks is its own fault as soon as anything in it changes
        (json!({"n": 2}), json!({"n": 1}), vec!["spec.must: Required value".to_owned()]),
        (json!({"n": 1}), json!({"n": 1}), vec![]),
        // items of lists without keys are not known again
        (json!({"must": "", "plain": [11]}), json!({"must": "", "plain": [11], "n": 1}), vec![]),
        (json!({"must": "", "plain": [11, 1]}), json!({"must": "", "plain": [11]}), vec![format!("spec.plain[0]: {}", at("plain[0]"))]),
        (json!({"must": "", "set": [1, 11]}), json!({"must": "", "set": [11]}), vec![format!("spec.set[1]: {}", at("set[1]"))]),
        // of keyed lists they are, wherever they went
        (
            json!({"must": "", "rows": [{"k": "b", "v": 11}, {"k": "a", "v": 11}]}),
            json!({"must": "", "rows": [{"k": "a", "v": 11}]}),
            vec![format!("spec.rows[0].v: {}", at("rows[0].v"))],
        ),
        (json!({"must": "", "rows": [{"k": "a", "v": 11}]}), json!({"must": "", "rows": [{"k": "a", "v": 12}]}),
            vec![format!("spec.rows[0].v: {}", at("rows[0].v"))]),
        (json!({"must": "", "rows": [{"v": 11}]}), json!({"must": "", "rows": [{"v": 11}, {"k": "z"}]}), vec![format!("spec.rows[0].v: {}", at("rows[0].v"))]),
        // maps are known by key
        (json!({"must": "", "free": {"x": 11, "y": 1}}), json!({"must": "", "free": {"x": 11}}), vec![]),
        // alternatives are judged with the node that has them
        (json!({"must": "", "either": {"a": 11}}), json!({"must": "", "either": {"a": 11}, "n": 1}), vec![]),
        (
            json!({"must": "", "either": {"a": 11, "b": 1}}),
            json!({"must": "", "either": {"a": 11}}),
            vec![
                format!("spec.either.a: {}", at("either.a")),
                "<nil>: Invalid value: \"\": \"spec.either\" must validate all the schemas (allOf). None validated".to_owned(),
            ],
        ),
        // items that come twice may go on doing so
        (json!({"must": "", "set": [1, 1, 2, 2]}), json!({"must": "", "set": [1, 1]}), vec![]),
        (json!({"must": "", "set": [1, 1]}), json!({"must": "", "set": [1]}), vec!["spec.set[1]: Duplicate value: 1".to_owned()]),
        // objects inside of objects are looked at as ever
        (json!({"must": "", "raw": {"kind": "A"}}), json!({"must": "", "raw": {"kind": "A"}}), vec!["spec.raw.apiVersion: Required value".to_owned()]),
    ] {
        let found = complaints(&node, &object(json!([]), &new), &object(json!(["a"]), &old));
        assert_eq!(found, want, "{new} {old}");
    }
    let mut typed = object(json!([]), &json!({"must": ""}));
    typed["apiVersion"] = json!("a/v1");
    let mut old = typed.clone();
    old["metadata"]["finalizers"] = json!(["a"]);
    assert_eq!(
        complaints(&node, &typed, &old),
        ["apiVersion: Too long: may not be more than 3 bytes"]
    );
}

#[test]
fn rules_about_what_did_not_change_do_not_stop_a_change() {
    let node = schema(json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n < 10", "message": "n"}],
        "properties": {
            "n": {"type": "integer"}, "m": {"type": "integer"},
            "once": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "self == 1 && oldSelf == 1", "message": "transition"},
            ]},
            "gone": {"type": "object", "properties": {"a": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.a == 1", "message": "a"}]},
            "plain": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10", "message": "item"}]}},
            "rows": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v < 10", "message": "row"}]}}
        }
    }}}));
    let object =
        |finalizers: Value, spec: &Value| json!({"metadata": {"finalizers": finalizers}, "spec": spec});
    for (new, old, want) in [
        (json!({"n": 100}), json!({"n": 100}), vec![]),
        (
            json!({"n": 100, "m": 1}),
            json!({"n": 100}),
            vec!["spec: Invalid value: \"object\": n"],
        ),
        (json!({"plain": [11]}), json!({"plain": [11], "m": 1}), vec![]),
        (
            json!({"plain": [11, 1]}),
            json!({"plain": [11]}),
            vec!["spec.plain[0]: Invalid value: \"integer\": item"],
        ),
        (
            json!({"rows": [{"k": "b", "v": 11}, {"k": "a", "v": 11}]}),
            json!({"rows": [{"k": "a", "v": 11}]}),
            vec!["spec.rows[0]: Invalid value: \"object\": row"],
        ),
        // rules about the change itself are asked
        (
            json!({"once": 2}),
            json!({"once": 2}),
            vec!["spec.once: Invalid value: \"integer\": transition"],
        ),
        // one that fails tells nothing of the value
        (
            json!({"gone": {}}),
            json!({"gone": {}}),
            vec!["spec.gone: Invalid value: \"object\": no such key: a evaluating rule: a"],
        ),
        (
            json!({"gone": {"a": 2}}),
            json!({"gone": {"a": 2}, "m": 1}),
            vec![],
        ),
    ] {
        let found = complaints(&node, &object(json!([]), &new), &object(json!(["a"]), &old));
        assert_eq!(found, want, "{new} {old}");
    }
}

#[test]
fn all_rules_of_an_object_share_one_budget() {
    let rule = ["self.t == self.t"; 10].join(" && ");
    let rules = vec![json!({"rule": rule}); 14];
    let node = schema(
        json!({"type": "object", "properties": {"t": {"type": "string"}, "l": {"type": "array", "items": {
        "type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}}}, "x-kubernetes-validations": rules}),
    );
    let found = node.validate(&json!({"t": "x".repeat(3_000_000), "l": [1]}));
    let found: Vec<&str> = found.iter().map(|cause| cause.message.as_str()).collect();
    assert_eq!(
        found,
        [
            "Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
}

#[test]
fn knows_what_need_not_be_looked_for() {
    fn resolve(index: u32) -> &'static Schema {
        static NODES: [std::sync::OnceLock<Schema>; 2] = [const { std::sync::OnceLock::new() }; 2];
        NODES[index as usize].get_or_init(|| {
            let mut node = Schema::of(Kind::Object);
            node.properties
                .insert("other".into(), Link::named(resolve, 1 - index));
            if index == 1 {
                let mut list = Schema::of(Kind::Array);
                list.list_type = Some(ListType::Set);
                node.properties.insert("list".into(), Link::of(list));
            }
            node
        })
    }
    let lists = Holds {
        list_types: true,
        ..Holds::default()
    };
    assert_eq!((resolve(0).holds(), resolve(1).holds()), (lists, lists));
    let whole = widget().holds();
    assert_eq!(
        (whole.embedded, whole.list_types, whole.rules),
        (true, true, false)
    );
    let mut plain =
        schema(json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}));
    assert_eq!(plain.holds(), Holds::default());
    // a copy may be changed
    plain = plain.clone();
    plain.embedded_resource = true;
    assert!(plain.holds().embedded);
}
