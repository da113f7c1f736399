use serde_json::json;

use super::*;

fn now(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).expect("a time")
}

fn deployment() -> Schema {
    Schema::from_openapi(&json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "paused": {"type": "boolean"},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}},
            "args": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "nested": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
            "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "image": {"type": "string"},
                    "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                        "items": {"type": "object", "properties": {"containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}}}}}
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}
    }}))
    .expect("a schema")
}

struct World {
    schema: Schema,
    object: Value,
    clock: i64,
}

impl World {
    fn new() -> Self {
        Self {
            schema: deployment(),
            object: json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            clock: 0,
        }
    }

    fn with<T>(&mut self, manager: &str, subresource: &str, run: impl FnOnce(&Value, &Writer<'_>) -> T) -> T {
        self.clock += 10;
        let reset = match subresource {
            "" => FieldSet::of(&["status"]),
            _ => FieldSet::of(&["spec"]),
        };
        let writer = Writer {
            schema: Some(&self.schema),
            manager,
            api_version: "apps/v1",
            subresource,
            reset: &reset,
            now: now(self.clock),
        };
        run(&self.object, &writer)
    }

    fn update(&mut self, manager: &str, new: Value) {
        let mut new = new;
        new["apiVersion"] = json!("apps/v1");
        new["kind"] = json!("Deployment");
        self.object = self.with(manager, "", |live, writer| update(live, new.clone(), writer));
        self.object["metadata"]["uid"] = json!("u");
    }

    fn apply(&mut self, manager: &str, config: Value, force: bool) -> Result<(), ApplyError> {
        let mut config = config;
        config["apiVersion"] = json!("apps/v1");
        config["kind"] = json!("Deployment");
        let applied = self.with(manager, "", |live, writer| apply(live, &config, force, writer));
        self.object = applied?;
        self.object["metadata"]["uid"] = json!("u");
        Ok(())
    }

    fn fields(&self, manager: &str) -> String {
        let entries = self.object["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found: Vec<String> = entries
            .iter()
            .filter(|entry| entry["manager"] == manager)
            .map(|entry| entry["fieldsV1"].to_string())
            .collect();
        found.join(" ")
    }
}

#[test]
fn tracks_who_created_and_who_changed() {
    let mut world = World::new();
    world.update(
        "kubectl",
        json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"replicas": 1, "args": ["1"]}}),
    );
    assert_eq!(
        world.fields("kubectl"),
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{".":{},"f:args":{},"f:replicas":{}}}"#
    );
    let mut changed = world.object.clone();
    changed["spec"]["replicas"] = json!(2);
    changed["spec"].as_object_mut().expect("a map").remove("args");
    world.update("other", changed);
    assert_eq!(
        world.fields("kubectl"),
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{}}"#
    );
    assert_eq!(world.fields("other"), r#"{"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(
        world.object["metadata"]["managedFields"][1]["time"],
        json!("2023-11-14T22:13:40Z")
    );
    let before = world.object.clone();
    world.update("third", before.clone());
    assert_eq!(world.object, before, "no change, no manager");
}

#[test]
fn apply_sets_keeps_and_removes() {
    let mut world = World::new();
    let containers =
        json!([{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "1"}]);
    world
        .apply("one", json!({"metadata": {"name": "x"}, "spec": {"replicas": 1, "containers": containers, "free": {"k": "v"}}}), false)
        .expect("applies");
    assert_eq!(
        world.fields("one"),
        concat!(
            r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}},"#,
            r#""k:{\"name\":\"b\"}":{".":{},"f:image":{},"f:name":{}}},"f:free":{"f:k":{}},"f:replicas":{}}}"#
        )
    );
    // Another manager joins in, and shares a value.
    world
        .apply("two", json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "2"}, {"name": "b", "image": "1"}]}}), false)
        .expect("applies");
    let names = |world: &World| -> Vec<String> {
        world.object["spec"]["containers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .map(|item| item["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(names(&world), ["a", "c", "b"]);
    // The first lets go of two containers: one is kept alive by the second.
    world
        .apply(
            "one",
            json!({"metadata": {"name": "x"}, "spec": {"replicas": 1}}),
            false,
        )
        .expect("applies");
    assert_eq!(names(&world), ["c", "b"]);
    assert_eq!(world.fields("one"), r#"{"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(world.object["spec"].get("free"), None);
    world
        .apply("two", json!({"metadata": {"name": "x"}}), false)
        .expect("applies");
    assert_eq!(world.object["spec"], json!({"replicas": 1}));
    assert_eq!(world.fields("two"), "");
}

#[test]
fn conflicts_are_named_and_can_be_forced() {
    let mut world = World::new();
    world.update(
        "kubectl-client-side-apply",
        json!({"metadata": {"name": "x"}, "spec": {"replicas": 1, "paused": true}}),
    );
    let config = json!({"metadata": {"name": "x"}, "spec": {"replicas": 3}});
    let error = world.apply("me", config.clone(), false).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    let api = ApiError::from(error);
    assert_eq!((api.code, api.causes[0].field.as_str()), (409, ".spec.replicas"));
    assert_eq!(
        api.causes[0].message,
        "conflict with \"kubectl-client-side-apply\" using apps/v1"
    );
    let both = json!({"metadata": {"name": "x"}, "spec": {"replicas": 3, "paused": false}});
    assert_eq!(
        world
            .apply("me", both, false)
            .expect_err("two conflicts")
            .to_string(),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-client-side-apply\" using apps/v1:\n- .spec.paused\n- .spec.replicas"
    );
    world.apply("me", config, true).expect("forced");
    assert_eq!(world.object["spec"]["replicas"], json!(3));
    assert_eq!(
        world.fields("kubectl-client-side-apply"),
        r#"{"f:spec":{".":{},"f:paused":{}}}"#
    );
    assert_eq!(world.object["spec"]["paused"], json!(true));
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut world = World::new();
    let config = json!({"metadata": {"name": "x"}, "spec": {"set": ["b", "a"], "selector": {"matchLabels": {"a": "b"}}, "nested": {"a": "1"}}});
    world.apply("me", config.clone(), false).expect("applies");
    let before = world.object.clone();
    world.apply("me", config, false).expect("applies");
    assert_eq!(world.object, before);
    assert_eq!(
        world.fields("me"),
        r#"{"f:spec":{"f:nested":{"f:a":{}},"f:selector":{},"f:set":{"v:\"a\"":{},"v:\"b\"":{}}}}"#
    );
    world
        .apply(
            "me",
            json!({"metadata": {"name": "x"}, "spec": {"set": ["a"]}}),
            false,
        )
        .expect("applies");
    assert_eq!(world.object["spec"], json!({"set": ["a"]}));
}

#[test]
fn first_apply_respects_what_was_there_before() {
    let mut world = World::new();
    world.object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "uid": "u"}, "spec": {"replicas": 1, "args": ["a"]}});
    let old = world.object.clone();
    world.update("whoever", old);
    assert_eq!(
        world.object["metadata"].get("managedFields"),
        None,
        "not tracked yet"
    );
    let error = world
        .apply(
            "me",
            json!({"metadata": {"name": "x"}, "spec": {"replicas": 2}}),
            false,
        )
        .expect_err("a conflict");
    assert!(
        error
            .to_string()
            .contains("\"before-first-apply\" using apps/v1: .spec.replicas"),
        "{error}"
    );
}

#[test]
fn kubectl_takes_over_from_its_client_side_apply() {
    let mut world = World::new();
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": 1}});
    world.update(
        "kubectl-client-side-apply",
        json!({"metadata": {"name": "x", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()}}, "spec": {"replicas": 1}}),
    );
    world
        .apply(
            "kubectl",
            json!({"metadata": {"name": "x"}, "spec": {"replicas": 5}}),
            false,
        )
        .expect("takes over");
    assert_eq!(world.object["spec"]["replicas"], json!(5));
    let text =
        meta::annotation(&world.object, "kubectl.kubernetes.io/last-applied-configuration").expect("kept");
    assert!(text.contains("\"replicas\":5"), "{text}");
}

#[test]
fn status_and_spec_are_tracked_apart() {
    let mut world = World::new();
    world.update(
        "kubectl",
        json!({"metadata": {"name": "x"}, "spec": {"replicas": 1}, "status": {"ready": 9}}),
    );
    assert_eq!(world.fields("kubectl"), r#"{"f:spec":{".":{},"f:replicas":{}}}"#);
    let mut new = world.object.clone();
    new["status"] = json!({"ready": 1});
    let object = world.with("controller", "status", |live, writer| {
        update(live, new.clone(), writer)
    });
    world.object = object;
    assert_eq!(world.fields("controller"), r#"{"f:status":{"f:ready":{}}}"#);
    assert_eq!(
        world.object["metadata"]["managedFields"][1]["subresource"],
        json!("status")
    );
}

#[test]
fn refuses_configurations_that_do_not_fit() {
    let mut world = World::new();
    let named = |spec: Value| json!({"metadata": {"name": "x", "namespace": "n"}, "spec": spec});
    let head = "failed to create typed patch object (n/x; apps/v1, Kind=Deployment): ";
    for (spec, want) in [
        (json!({"foo": 1}), ".spec.foo: field not declared in schema"),
        (
            json!({"replicas": "1"}),
            ".spec.replicas: expected numeric (int or float), got \"1\"",
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"containers": [{"image": "a"}]}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (json!({"args": {}}), ".spec.args: expected list, got {}"),
    ] {
        let error = world.apply("me", named(spec), false).expect_err("does not fit");
        assert_eq!(error.to_string(), format!("{head}{want}"));
    }
    let mut config = named(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        world.apply("me", config, false).expect_err("managed").to_string(),
        "metadata.managedFields must be nil"
    );
}

#[test]
fn old_updaters_are_put_together() {
    let mut world = World::new();
    world.update(
        "first",
        json!({"metadata": {"name": "x"}, "spec": {"free": {"k": "v"}}}),
    );
    for n in 0..15 {
        let mut new = world.object.clone();
        new["spec"]["free"][format!("k{n:02}")] = json!("v");
        world.update(&format!("m{n:02}"), new);
    }
    let entries = world.object["metadata"]["managedFields"]
        .as_array()
        .expect("a list");
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], json!("ancient-changes"));
    assert_eq!(world.fields("m14"), r#"{"f:spec":{"f:free":{"f:k14":{}}}}"#);
}

#[test]
fn sets_survive_their_text_and_are_ordered() {
    let text = r#"{"f:a":{".":{},"f:b":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{".":{},"f:x":{}},"v:\"<\"":{},"v:1":{},"i:0":{}},"f:z":{}}"#;
    let set = FieldSet::from_value(&serde_json::from_str(text).expect("JSON")).expect("a set");
    assert_eq!(
        set.to_json(),
        r#"{"f:a":{".":{},"f:b":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{".":{},"f:x":{}},"v:1":{},"v:\"\\u003c\"":{},"i:0":{}},"f:z":{}}"#
    );
    assert_eq!(FieldSet::from_value(&set.to_value()), Ok(set));
    assert!(FieldSet::from_value(&json!({"x": {}})).is_err());
    assert_eq!(FieldSet::from_value(&json!({"q:x": {}})), Ok(FieldSet::default()));
}

#[test]
fn structs_of_built_in_kinds_are_nobodys() {
    let schema = crate::builtin::schema(&crate::Gvk::new("apps/v1", "Deployment"));
    let empty = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}});
    let new = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}
    }});
    let reset = FieldSet::of(&["status"]);
    let writer = Writer {
        schema,
        manager: "kubectl-create",
        api_version: "apps/v1",
        subresource: "",
        reset: &reset,
        now: now(0),
    };
    let object = update(&empty, new.clone(), &writer);
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"].to_string(),
        concat!(
            r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"#,
            r#""f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}},"f:type":{}},"#,
            r#""f:template":{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"#,
            r#""f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}}}}}"#
        )
    );
}

#[test]
fn names_some_of_very_many_conflicts() {
    let mut world = World::new();
    let with = |value: &str| {
        let keys = (0..20_000).map(|n| (format!("k{n}"), json!(value)));
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"free": Value::Object(keys.collect())}})
    };
    let made = world.with("one", "", |live, writer| apply(live, &with("a"), false, writer));
    world.object = made.expect("nobody else");
    let refused = world.with("two", "", |live, writer| apply(live, &with("b"), false, writer));
    let error = ApiError::from(refused.expect_err("a conflict"));
    assert_eq!(error.causes.len(), SHOWN + 1);
    assert!(
        error.message.starts_with("Apply failed with 20000 conflicts: "),
        "{}",
        &error.message[..80]
    );
    assert!(error.message.ends_with("and 19900 more") && error.message.len() < 10_000);

    let keys = (0..20_000).map(|n| (format!("k{n}"), json!(1)));
    let odd = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": Value::Object(keys.collect())});
    let refused = world.with("two", "", |live, writer| apply(live, &odd, false, writer));
    let message = refused.expect_err("unknown fields").to_string();
    assert!(message.ends_with("and 19900 more") && message.len() < 10_000);
}

/// Older servers stored entries without a version. What cannot be read is passed over: the next apply must work.
#[test]
fn stored_entries_that_make_no_sense_are_passed_over() {
    let entry = |field: &str, value: Value| {
        let mut entry = json!({"manager": "old", "operation": "Apply", "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        entry[field] = value;
        entry
    };
    for (field, value) in [
        ("apiVersion", json!("")),
        ("apiVersion", Value::Null),
        ("operation", json!("")),
        ("fieldsType", json!("FieldsV2")),
        ("fieldsType", json!("")),
        ("fieldsV1", json!({"x": {}})),
    ] {
        let mut world = World::new();
        let named = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
        world
            .apply("me", named(json!({"replicas": 1})), false)
            .expect("new");
        let broken = |world: &mut World| {
            let entries = world.object["metadata"]["managedFields"].as_array_mut();
            entries.expect("a list").push(entry(field, value.clone()));
        };
        broken(&mut world);
        world
            .apply("me", named(json!({"replicas": 2})), false)
            .expect("it is mine");
        assert_eq!(world.object["spec"]["replicas"], 2, "{field} {value}");
        let left = |world: &World| world.object["metadata"]["managedFields"].as_array().map(Vec::len);
        assert_eq!(left(&world), Some(1), "{field} {value}");
        // Neither does an update lose the others for its sake.
        broken(&mut world);
        let mut new = world.object.clone();
        new["spec"]["free"] = json!({"k": "v"});
        world.update("editor", new);
        assert_eq!(left(&world), Some(2), "{field} {value}");
    }
}
