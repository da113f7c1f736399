use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// What a Description of plain objects asks for, prepared.
fn desired(description: &Value) -> (Vec<Desired>, Vec<Problem>) {
    let (asked, problems) = asked(description);
    let prepared = asked.into_iter().map(|asked| match asked.entry {
        Entry::Object(object) => prepare(object, &ObjectKey::of(description)),
        other @ (Entry::Reference(_) | Entry::Sealed(_)) => panic!("{other:?}"),
    });
    (prepared.collect(), problems)
}

fn description(objects: &[Value]) -> Value {
    let raw: Vec<String> = objects
        .iter()
        .map(|object| STANDARD.encode(object.to_string()))
        .collect();
    json!({"metadata": {"namespace": "edge", "name": "app.v1-generic"}, "spec": {"deployer": "Generic", "raw": raw}})
}

fn deployment(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "annotations": {annotations::KUBECTL_LAST_APPLIED: "{}"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"replicas": 1}})
}

fn wanted(replicas: u32) -> Desired {
    let (mut objects, problems) = desired(&description(&[deployment(replicas)]));
    assert!(problems.is_empty());
    objects.remove(0)
}

/// As a server would hand it out: with defaults, its own metadata and a status.
fn live(desired: &Desired) -> Value {
    let mut live = desired.object.clone();
    live["metadata"]["uid"] = json!("u-1");
    live["metadata"]["generation"] = json!(3);
    live["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    live["status"] = json!({"replicas": 9});
    live
}

#[test]
fn objects_are_prepared_with_both_annotations() {
    let Desired { id, object } = wanted(2);
    assert_eq!(id.to_string(), "Deployment shop/web");
    assert_eq!(
        meta::annotation(&object, annotations::OWNED_BY_DESCRIPTION),
        Some("edge.app.v1-generic")
    );
    assert_eq!(owner(&object), Some(ObjectKey::new("edge", "app.v1-generic")));
    let applied: Value =
        serde_json::from_str(meta::annotation(&object, annotations::LAST_APPLIED).unwrap()).unwrap();
    assert_eq!(applied["spec"], object["spec"]);
    assert_eq!(meta::annotation(&applied, annotations::LAST_APPLIED), None);
    for gone in ["uid", "resourceVersion"] {
        assert!(object["metadata"].get(gone).is_none(), "{gone}");
    }
    assert!(object.get("status").is_none());
    assert_eq!(meta::annotation(&object, annotations::KUBECTL_LAST_APPLIED), None);
}

#[test]
fn what_cannot_be_used_is_told_by_its_index() {
    let mut description = description(&[deployment(1), json!({"apiVersion": "v1", "kind": "ConfigMap"})]);
    description["spec"]["raw"]
        .as_array_mut()
        .unwrap()
        .push(json!("!"));
    let (objects, problems) = desired(&description);
    assert_eq!(objects.len(), 1);
    let indexes: Vec<usize> = problems
        .iter()
        .filter_map(|problem| {
            if let Problem::Undecodable { index, .. } = problem {
                Some(*index)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(indexes, [1, 2]);
}

#[test]
fn the_later_of_two_entries_counts() {
    let (objects, _) = desired(&description(&[deployment(1), deployment(5)]));
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0].object["spec"]["replicas"], 5);
}

/// O11.
#[test]
fn o11_what_asks_for_applying_again() {
    let wanted = wanted(2);
    let base = live(&wanted);
    let changed = |change: fn(&mut Value)| {
        let mut live = base.clone();
        change(&mut live);
        step(&wanted, Some(&live), |_| false) != Step::Nothing
    };
    assert!(!changed(|_| {}), "defaults are no drift");
    assert!(
        changed(|live| live["spec"]["replicas"] = json!(3)),
        "a field changed"
    );
    assert!(
        !changed(|live| live["spec"]["extra"] = json!(1)),
        "others may add"
    );
    assert!(!changed(|live| live["status"] = json!({})), "status");
    assert!(
        !changed(|live| live["metadata"]["managedFields"] = json!([1])),
        "managed fields"
    );
    assert!(
        changed(|live| live["metadata"]["labels"] = json!({})),
        "a label removed"
    );
    assert!(
        changed(|live| {
            live["spec"].as_object_mut().unwrap().remove("template");
        }),
        "a removal"
    );
    assert_eq!(step(&wanted, None, |_| false), Step::Create, "deleted");
}

#[test]
fn steps_of_one_object() {
    let nobody = |_: &ObjectKey| false;
    let wanted = wanted(2);
    assert_eq!(step(&wanted, None, nobody), Step::Create);
    let good = live(&wanted);
    assert_eq!(step(&wanted, Some(&good), nobody), Step::Nothing);

    let mut drift = good.clone();
    drift["spec"]["replicas"] = json!(9);
    assert_eq!(
        step(&wanted, Some(&drift), nobody),
        Step::Strategic(json!({"spec": {"replicas": 2}}))
    );

    let mut going = good.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(step(&wanted, Some(&going), nobody), Step::Wait);

    let mut others = good.clone();
    meta::set_annotation(&mut others, annotations::OWNED_BY_DESCRIPTION, "edge.other");
    let other = ObjectKey::new("edge", "other");
    meta::set_annotation(&mut others, annotations::LAST_APPLIED, "{}");
    assert_eq!(step(&wanted, Some(&others), |key| *key == other), Step::Share);
    let mut otherwise = others.clone();
    otherwise["spec"]["replicas"] = json!(9);
    assert_eq!(
        step(&wanted, Some(&otherwise), |key| *key == other),
        Step::Refuse(other.clone())
    );
    let Step::Strategic(taken) = step(&wanted, Some(&others), nobody) else {
        panic!("what nobody has any more is taken over")
    };
    assert_eq!(
        taken["metadata"]["annotations"][annotations::OWNED_BY_DESCRIPTION],
        "edge.app.v1-generic"
    );
}

#[test]
fn a_field_that_is_wanted_no_longer_is_removed_and_those_of_others_stay() {
    let widget = |spec: Value| {
        let object =
            json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
        desired(&description(&[object])).0.remove(0)
    };
    let before = widget(json!({"a": 1, "b": 2}));
    let mut live = before.object.clone();
    live["spec"]["others"] = json!(true);
    let now = widget(json!({"a": 1}));
    let Step::Merge(patch) = step(&now, Some(&live), |_| false) else {
        panic!("a kind that is not built in is patched by JSON merge")
    };
    assert_eq!(patch["spec"], json!({"b": null}));
    machinery::patch::merge_patch(&mut live, &patch);
    assert_eq!(live["spec"], json!({"a": 1, "others": true}));
    assert_eq!(
        step(&now, Some(&live), |_| false),
        Step::Nothing,
        "applying again asks for nothing"
    );
}

#[test]
fn leftovers_are_found_by_record_and_by_mark_and_kept_apart_by_kind() {
    let feed = |api: &str, kind: &str, name: &str| json!({"apiVersion": api, "kind": kind, "namespace": "shop", "name": name});
    let mut description = description(&[deployment(1)]);
    description["status"]["manifestStatuses"] = json!([
        feed("apps/v1", "Deployment", "web"),
        feed("apps/v1", "StatefulSet", "web"),
        feed("v1", "Service", "old")
    ]);
    let wanted = ids(&asked(&description).0);
    let owned = [ObjectId {
        kind: Gvk::new("v1", "ConfigMap"),
        key: ObjectKey::new("shop", "c"),
    }];
    let left: Vec<String> = leftovers(&description, owned, &wanted)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        left,
        ["StatefulSet shop/web", "Service shop/old", "ConfigMap shop/c"]
    );
}

#[test]
fn a_definition_outlives_its_objects() {
    let id = |api: &str, kind: &str| ObjectId {
        kind: Gvk::new(api, kind),
        key: ObjectKey::new("", "x"),
    };
    let mut left: BTreeMap<ObjectId, Value> = [
        id("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        id("v1", "Namespace"),
        id("x.io/v1", "Widget"),
    ]
    .into_iter()
    .map(|id| (id, Value::Null))
    .collect();
    for expected in ["Widget", "Namespace", "CustomResourceDefinition"] {
        let turn: Vec<ObjectId> = removable(&left).into_iter().cloned().collect();
        assert_eq!(
            turn.iter().map(|id| id.kind.kind.as_str()).collect::<Vec<_>>(),
            [expected]
        );
        left.remove(&turn[0]);
    }
    assert!(removable(&left).is_empty());
}

mod properties {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    /// Values without `null`: an object that asks for null asks for nothing.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0_i64..4).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::from),
                btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        btree_map("[a-d]", value(), 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    fn widget(spec: &Value) -> Desired {
        let widget =
            json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
        desired(&description(&[widget])).0.remove(0)
    }

    proptest! {
        /// Applying what was planned, whatever others did to the object: nothing is left to do.
        #[test]
        fn applying_again_asks_for_nothing(before in object(), wanted in object(), others in object()) {
            let mut live = widget(&before).object;
            live["spec"] = others;
            let wanted = widget(&wanted);
            let first = step(&wanted, Some(&live), |_| false);
            if let Step::Merge(patch) = &first {
                machinery::patch::merge_patch(&mut live, patch);
            } else {
                prop_assert_eq!(first, Step::Nothing);
            }
            prop_assert_eq!(step(&wanted, Some(&live), |_| false), Step::Nothing);
        }

        /// What nobody changed is not touched, and what the server or others add is no drift.
        #[test]
        fn additions_are_no_drift(wanted in object(), added in object()) {
            let wanted = widget(&wanted);
            let mut live = wanted.object.clone();
            prop_assert_eq!(step(&wanted, Some(&live), |_| false), Step::Nothing);
            live["more"] = added.clone();
            live["status"] = added;
            live["metadata"]["generation"] = json!(7);
            prop_assert_eq!(step(&wanted, Some(&live), |_| false), Step::Nothing);
        }
    }
}

#[test]
fn what_stands_for_an_object_is_that_object_to_everything_but_applying() {
    let feed = Feed {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "shop".to_owned(),
        name: "big".to_owned(),
    };
    let reference = Entry::Reference(entry::Reference {
        digest: entry::Digest::of(b"x"),
        size: 1,
        object: feed.clone(),
    });
    let sealed = Entry::Sealed(entry::Sealed {
        object: Feed {
            kind: "Secret".to_owned(),
            ..feed
        },
        key: "k".to_owned(),
        fingerprint: "f".to_owned(),
        enc: vec![1],
        ciphertext: vec![2],
    });
    let mut description = description(&[]);
    description["spec"]["raw"] = json!([reference.to_raw(), sealed.to_raw()]);
    let names = |ids: Vec<ObjectId>| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = ["ConfigMap shop/big", "Secret shop/big"];
    assert_eq!(names(brought(&description, [])), expected);
    let (asked, problems) = asked(&description);
    assert_eq!(problems, []);
    description["status"]["manifestStatuses"] = asked.iter().map(|asked| asked.id.to_feed()).collect();
    assert_eq!(leftovers(&description, [], &ids(&asked)), []);
}

#[test]
fn what_is_asked_for_no_longer_is_known_by_what_was() {
    let map = |version: &str, name: &str, value: &str| {
        json!({"apiVersion": version, "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"},
            "data": {"key": value}})
    };
    let old = description(&[deployment(1), map("v1", "a", "1"), map("v1", "b", "1")]);
    for (new, expected) in [
        (old.clone(), vec![]),
        (
            description(&[map("v1", "b", "2"), deployment(2)]),
            vec!["ConfigMap shop/a"],
        ),
        (
            description(&[]),
            vec!["Deployment shop/web", "ConfigMap shop/a", "ConfigMap shop/b"],
        ),
    ] {
        let dropped: Vec<String> = dropped(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(dropped, expected);
    }
}
