use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn deployment() -> Schema {
    Schema::from_openapi(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"}}},
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {
                "type": {"type": "string"}, "rollingUpdate": {"type": "object", "properties": {"maxSurge": {"type": "integer"}}}}},
            "args": {"type": "array", "items": {"type": "string"}},
            "containers": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "image": {"type": "string"},
                    "ports": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort",
                        "items": {"type": "object", "properties": {"containerPort": {"type": "integer"}, "name": {"type": "string"}}}}}}},
            "volumes": {"type": "array", "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "emptyDir": {"type": "object"}, "hostPath": {"type": "object"}}}}
        }}}}))
    .expect("a schema")
}

#[test]
fn json_patch_does_as_the_api_server_does() {
    let doc = json!({"a": {"b": [1, 2, 3]}, "m~/n": 1});
    let good = [
        (
            json!([{"op": "add", "path": "/a/c", "value": {"d": 1}}]),
            json!({"a": {"b": [1, 2, 3], "c": {"d": 1}}, "m~/n": 1}),
        ),
        (
            json!([{"op": "add", "path": "/a/b/-", "value": 4}]),
            json!({"a": {"b": [1, 2, 3, 4]}, "m~/n": 1}),
        ),
        (
            json!([{"op": "add", "path": "/a/b/1", "value": 9}]),
            json!({"a": {"b": [1, 9, 2, 3]}, "m~/n": 1}),
        ),
        (
            json!([{"op": "add", "path": "/a/b/-1", "value": 9}]),
            json!({"a": {"b": [1, 2, 3, 9]}, "m~/n": 1}),
        ),
        (
            json!([{"op": "remove", "path": "/a/b/-1"}]),
            json!({"a": {"b": [1, 2]}, "m~/n": 1}),
        ),
        (
            json!([{"op": "replace", "path": "/m~0~1n", "value": 2}]),
            json!({"a": {"b": [1, 2, 3]}, "m~/n": 2}),
        ),
        (
            json!([{"op": "replace", "path": "/new", "value": 2}]),
            json!({"a": {"b": [1, 2, 3]}, "m~/n": 1, "new": 2}),
        ),
        (
            json!([{"op": "move", "from": "/a/b/0", "path": "/a/b/2"}]),
            json!({"a": {"b": [2, 3, 1]}, "m~/n": 1}),
        ),
        (
            json!([{"op": "copy", "from": "/a/b", "path": "/c"}]),
            json!({"a": {"b": [1, 2, 3]}, "m~/n": 1, "c": [1, 2, 3]}),
        ),
        (
            json!([{"op": "test", "path": "/a/b/0", "value": 1.0}, {"op": "test", "path": "/zz"}]),
            doc.clone(),
        ),
        (json!([{"op": "replace", "path": "", "value": {}}]), json!({})),
    ];
    for (patch, want) in good {
        assert_eq!(json_patch(&doc, &patch), Ok(want), "{patch}");
    }
}

#[test]
fn json_patch_says_what_does_not_apply() {
    let doc = json!({"a": {"b": [1, 2, 3]}, "m~/n": 1});
    let bad = [
        (
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            json!([{"op": "add", "path": "/a/b/9", "value": 1}]),
            "error in add for path: '/a/b/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            json!([{"op": "add", "path": "/a/b/x", "value": 1}]),
            "error in add for path: '/a/b/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            json!([{"op": "remove", "path": "/x"}]),
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            json!([{"op": "replace", "path": "/a/b/7", "value": 1}]),
            "replace operation does not apply: doc is missing key: /a/b/7: missing value",
        ),
        (
            json!([{"op": "test", "path": "/a/b/0", "value": 2}]),
            "testing value /a/b/0 failed: test failed",
        ),
        (
            json!([{"op": "move", "from": "/q/r", "path": "/s"}]),
            "move operation does not apply: doc is missing from path: /q/r: missing value",
        ),
        (json!([{"op": "boom", "path": "/a"}]), "Unexpected kind: boom"),
        (
            json!([{"op": "add", "value": 1}]),
            "add operation failed to decode path: missing value",
        ),
        (json!({}), "a JSON patch must be an array of operations"),
    ];
    for (patch, want) in bad {
        assert_eq!(
            json_patch(&doc, &patch).expect_err("bad").to_string(),
            want,
            "{patch}"
        );
    }
    let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": ""})).collect();
    assert!(matches!(
        json_patch(&doc, &json!(many)),
        Err(PatchError::TooManyOperations { .. })
    ));
    let bomb: Vec<Value> = (0..40)
        .map(|_| json!({"op": "copy", "from": "/a", "path": "/a/b/-"}))
        .collect();
    assert!(
        json_patch(&doc, &json!(bomb)).is_err(),
        "copies must not double without end"
    );
}

#[test]
fn merge_patch_follows_the_rfc() {
    for (doc, patch, want) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        ),
        (json!(["a"]), json!(["c"]), json!(["c"])),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (
            json!({}),
            json!({"a": {"bb": {"ccc": null}}}),
            json!({"a": {"bb": {}}}),
        ),
    ] {
        let mut value = doc.clone();
        merge_patch(&mut value, &patch);
        assert_eq!(value, want, "{doc} {patch}");
    }
}

#[test]
fn three_way_merge_diff_leaves_alone_what_others_set() {
    let patch = json_merge_diff(
        &json!({"a": 1, "b": 2, "gone": 3, "m": {"x": 1, "y": 1}}),
        &json!({"a": 9, "b": 2, "m": {"x": 1}, "list": [1]}),
        &json!({"a": 1, "b": 2, "gone": 3, "other": 4, "m": {"x": 1, "y": 1, "z": 1}}),
    );
    assert_eq!(
        patch,
        json!({"a": 9, "gone": null, "m": {"y": null}, "list": [1]})
    );
}

/// What the tests of strategic patches start from.
fn live() -> Value {
    json!({
        "metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}},
        "spec": {
            "args": ["1"], "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "1"}],
            "volumes": [{"name": "v", "emptyDir": {}}]
        }
    })
}

#[test]
fn strategic_merge_knows_lists_and_directives() {
    let doc = live();
    let containers = |doc: &Value| -> Vec<String> {
        doc["spec"]["containers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|item| {
                format!(
                    "{}:{}",
                    item["name"].as_str().unwrap_or("?"),
                    item["image"].as_str().unwrap_or("-")
                )
            })
            .collect()
    };
    let apply = |patch: Value| strategic_merge(&doc, &patch, &deployment());
    for (patch, want) in [
        (
            json!({"spec": {"containers": [{"name": "b", "image": "2"}]}}),
            &["a:1", "b:2"] as &[&str],
        ),
        (
            json!({"spec": {"containers": [{"name": "c", "image": "2"}]}}),
            &["c:2", "a:1", "b:1"],
        ),
        (
            json!({"spec": {"containers": [{"name": "c"}], "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}]}}),
            &["a:1", "c:-", "b:1"],
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
            &["b:1", "a:1"],
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            &["b:1"],
        ),
        (
            json!({"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}),
            &["z:-"],
        ),
        (json!({"spec": {"containers": null}}), &[]),
    ] {
        let done = apply(patch.clone()).unwrap_or_else(|error| panic!("{patch}: {error}"));
        let found = if done["spec"]["containers"].is_null() {
            Vec::new()
        } else {
            containers(&done)
        };
        assert_eq!(found, want, "{patch}");
    }
}

#[test]
fn strategic_merge_knows_directives_and_primitive_lists() {
    let doc = live();
    let apply = |patch: Value| strategic_merge(&doc, &patch, &deployment());
    let at = |patch: Value, pointer: &str| {
        apply(patch)
            .expect("applies")
            .pointer(pointer)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(
        at(json!({"metadata": {"finalizers": ["c"]}}), "/metadata/finalizers"),
        json!(["c", "a", "b"])
    );
    assert_eq!(
        at(
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            "/metadata/finalizers"
        ),
        json!(["b"])
    );
    assert_eq!(
        at(
            json!({"metadata": {"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}),
            "/metadata/finalizers"
        ),
        json!(["c", "b"])
    );
    assert_eq!(
        at(json!({"spec": {"args": ["2", "3"]}}), "/spec/args"),
        json!(["2", "3"])
    );
    assert_eq!(
        at(
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            "/spec/strategy"
        ),
        json!({"type": "Recreate"})
    );
    assert_eq!(
        at(
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {}, "$retainKeys": ["name", "hostPath"]}]}}),
            "/spec/volumes"
        ),
        json!([{"name": "v", "hostPath": {}}])
    );
    assert_eq!(
        at(json!({"spec": {"$patch": "replace", "replicas": 1}}), "/spec"),
        json!({"replicas": 1})
    );
    assert_eq!(at(json!({"spec": {"$patch": "delete"}}), "/spec"), json!({}));
    for (patch, want) in [
        (
            json!({"spec": {"containers": [{"image": "2"}]}}),
            "map: {\"image\":\"2\"} does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"$patch": "what"}}),
            "unknown patch type: what in map: {\"$patch\":\"what\"}",
        ),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
            "patch content doesn't match retainKeys list",
        ),
        (
            json!({"spec": {"containers": ["x"]}}),
            "list element types are not identical",
        ),
    ] {
        assert_eq!(
            apply(patch.clone()).expect_err("bad").to_string(),
            want,
            "{patch}"
        );
    }
}

#[test]
fn strategic_three_way_diff_makes_the_patch_of_kubectl() {
    let original = json!({"spec": {"replicas": 1, "containers": [{"name": "a", "image": "1"}, {"name": "gone"}]}, "metadata": {"finalizers": ["x", "y"]}});
    let modified = json!({"spec": {"strategy": {"type": "Recreate"}, "containers": [{"name": "a", "image": "2"}]}, "metadata": {"finalizers": ["y", "z"]}});
    let current = json!({"spec": {"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {}},
        "containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 1}]}, {"name": "gone"}, {"name": "injected"}]},
        "metadata": {"finalizers": ["x", "y"]}});
    let patch = strategic_diff(&original, &modified, &current, &deployment()).expect("a patch");
    assert_eq!(
        patch,
        json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "$setElementOrder/finalizers": ["y", "z"], "finalizers": ["z"]},
            "spec": {
                "$setElementOrder/containers": [{"name": "a"}],
                "containers": [{"name": "a", "image": "2"}, {"$patch": "delete", "name": "gone"}],
                "replicas": null,
                "strategy": {"$retainKeys": ["type"], "type": "Recreate"}
            }
        })
    );
    let done = strategic_merge(&current, &patch, &deployment()).expect("applies");
    assert_eq!(
        done,
        json!({"spec": {"strategy": {"type": "Recreate"},
            "containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 1}]}, {"name": "injected"}]},
            "metadata": {"finalizers": ["y", "z"]}})
    );
    assert_eq!(
        strategic_diff(&modified, &modified, &done, &deployment()),
        Ok(json!({}))
    );
}

#[test]
fn finds_changes_except_where_told_not_to_look() {
    let left = json!({"metadata": {"uid": "1", "labels": {"a": "b"}}, "spec": {"x": [1, 2], "y/z": 1}, "status": {}});
    let right = json!({"metadata": {"uid": "2", "labels": {"a": "c"}}, "spec": {"x": [1, 3]}});
    assert_eq!(
        changed_paths(&left, &right, &["/metadata/uid", "/status"]),
        ["/metadata/labels/a", "/spec/x/1", "/spec/y~1z"]
    );
    assert!(equal_except(
        &left,
        &right,
        &["/metadata/*", "/status", "/spec/x/*", "/spec/y~1z"]
    ));
    assert!(equal_except(&json!({"m": {"t": 1}}), &json!({}), &["/m/t"]));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..5i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn pod_like() -> impl Strategy<Value = Value> {
    let container =
        ("[a-d]", "[12]", proptest::collection::btree_set(1..4i64, 0..3)).prop_map(|(name, image, ports)| {
            let ports: Vec<Value> = ports
                .into_iter()
                .map(|port| json!({"containerPort": port}))
                .collect();
            json!({"name": name, "image": image, "ports": ports})
        });
    (
        proptest::collection::vec(container, 0..4),
        proptest::sample::subsequence(vec!["x", "y", "z"], 0..3).prop_shuffle(),
        proptest::option::of(0..3i64),
        proptest::collection::btree_map("[a-c]", "[12]", 0..3),
    )
        .prop_map(|(containers, finalizers, replicas, labels)| {
            let mut seen = Vec::new();
            let containers: Vec<Value> = containers
                .into_iter()
                .filter(|item| {
                    let new = !seen.contains(&item["name"]);
                    seen.push(item["name"].clone());
                    new
                })
                .collect();
            let mut doc = json!({"metadata": {"finalizers": finalizers, "labels": labels}, "spec": {"containers": containers}});
            if let Some(replicas) = replicas {
                doc["spec"]["replicas"] = json!(replicas);
            }
            doc
        })
}

proptest! {
    #[test]
    fn merge_diff_leads_from_one_to_the_other(from in json_value(), to in json_value()) {
        let mut done = from.clone();
        merge_patch(&mut done, &merge_diff(&from, &to));
        prop_assert_eq!(done, to);
    }

    #[test]
    fn three_way_merge_diff_reaches_the_wanted(from in json_value(), to in json_value()) {
        let mut done = from.clone();
        merge_patch(&mut done, &json_merge_diff(&from, &to, &from));
        prop_assert_eq!(&done, &to);
        if to.is_object() {
            prop_assert_eq!(json_merge_diff(&to, &to, &done), json!({}));
        }
    }

    #[test]
    fn strategic_diff_reaches_the_wanted(from in pod_like(), to in pod_like()) {
        let info = deployment();
        let patch = strategic_diff(&from, &to, &from, &info).expect("a patch");
        let done = strategic_merge(&from, &patch, &info).expect("it applies");
        prop_assert_eq!(&done, &to, "by {}", patch);
        prop_assert_eq!(strategic_diff(&to, &to, &done, &info), Ok(json!({})));
    }

    #[test]
    fn strategic_diff_keeps_what_others_added(before in pod_like(), to in pod_like(), have in pod_like()) {
        let info = deployment();
        let patch = strategic_diff(&before, &to, &have, &info).expect("a patch");
        let done = strategic_merge(&have, &patch, &info).expect("it applies");
        prop_assert_eq!(strategic_diff(&to, &to, &done, &info), Ok(json!({})), "{} by {}", done, patch);
        for item in have["spec"]["containers"].as_array().expect("a list") {
            let named = |doc: &Value| doc["spec"]["containers"].as_array().is_some_and(|list| list.iter().any(|other| other["name"] == item["name"]));
            prop_assert_eq!(named(&done), named(&to) || !named(&before));
        }
    }
}
