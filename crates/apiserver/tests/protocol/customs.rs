//! Custom resources and their definitions.

use serde_json::{Value, json};

use crate::harness::Harness;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"},
            "replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema,
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas"}},
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]},
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema, "deprecated": true},
            ]},
    })
}

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

#[tokio::test]
async fn a_definition_takes_effect_at_once() {
    let it = Harness::new().await;
    it.post(WIDGETS, widget("a", 1)).await.expect(404);
    let made = it.post(CRDS, definition()).await.expect(201);
    assert_eq!(made["status"]["conditions"][1]["type"], "Established");
    assert_eq!(made["status"]["conditions"][1]["status"], "True");
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "WidgetList");

    let mut wanted = widget("a", 1);
    wanted["spec"]["unknown"] = json!(true);
    wanted["status"] = json!({"phase": "set by nobody"});
    let answer = it.post(WIDGETS, wanted).await;
    assert_eq!(
        answer.headers["warning"],
        "299 - \"unknown field \\\"spec.unknown\\\"\""
    );
    let made = answer.expect(201);
    assert_eq!(made["spec"], json!({"size": 1, "colour": "red"}));
    assert!(made["status"].is_null());
    assert_eq!(made["metadata"]["generation"], 1);

    let status = it.post(WIDGETS, widget("b", 0)).await.expect(422);
    assert_eq!(
        status["message"],
        "Widget.example.com \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater \
         than or equal to 1"
    );
    it.delete(&format!("{CRDS}/widgets.example.com"))
        .await
        .expect(200);
    it.get(&format!("{CRDS}/widgets.example.com")).await.expect(404);
    it.get(&format!("{WIDGETS}/a")).await.expect(404);
}

#[tokio::test]
async fn status_and_scale_are_written_apart_and_versions_differ_in_name_only() {
    let it = Harness::new().await;
    it.post(CRDS, definition()).await.expect(201);
    it.post(WIDGETS, widget("a", 1)).await.expect(201);
    let uri = format!("{WIDGETS}/a");
    let changed = it
        .patch(
            &format!("{uri}/status"),
            "merge",
            json!({"status": {"phase": "Good"}, "spec": {"size": 7}}),
        )
        .await
        .expect(200);
    assert_eq!(changed["status"]["phase"], "Good");
    assert_eq!(changed["spec"]["size"], 1);
    assert_eq!(changed["metadata"]["generation"], 1);
    let changed = it
        .patch(
            &uri,
            "merge",
            json!({"status": {"phase": "Bad"}, "spec": {"size": 7}}),
        )
        .await
        .expect(200);
    assert_eq!(changed["status"]["phase"], "Good");
    assert_eq!(changed["metadata"]["generation"], 2);
    let mut unversioned = widget("a", 2);
    let status = it.put(&uri, unversioned.clone()).await.expect(422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("must be specified for an update")
    );
    unversioned["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"].clone();
    it.put(&uri, unversioned).await.expect(200);

    let unknown = it.get(&format!("{uri}/scale")).await.expect(500);
    assert_eq!(
        unknown["message"],
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let scale = it
        .patch(&format!("{uri}/scale"), "merge", json!({"spec": {"replicas": 3}}))
        .await
        .expect(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"]["replicas"], 3);
    assert_eq!(it.get(&uri).await.expect(200)["spec"]["replicas"], 3);

    let old = it.get(&uri.replace("/v1/", "/v1beta1/")).await;
    assert_eq!(
        old.headers["warning"],
        "299 - \"example.com/v1beta1 Widget is deprecated\""
    );
    assert_eq!(old.expect(200)["apiVersion"], "example.com/v1beta1");
    let list = it.get("/apis/example.com/v1beta1/widgets").await.expect(200);
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1beta1");
    it.patch(&uri, "strategic", json!({})).await.expect(415);
}

#[tokio::test]
async fn objects_with_finalizers_hold_their_definition() {
    let it = Harness::new().await;
    it.post(CRDS, definition()).await.expect(201);
    let mut held = widget("held", 1);
    held["metadata"]["finalizers"] = json!(["example.com/wait"]);
    it.post(WIDGETS, held).await.expect(201);
    it.post(WIDGETS, widget("free", 1)).await.expect(201);
    it.delete(&format!("{CRDS}/widgets.example.com"))
        .await
        .expect(200);
    it.get(&format!("{CRDS}/widgets.example.com")).await.expect(200);
    it.get(&format!("{WIDGETS}/free")).await.expect(404);
    it.post(WIDGETS, widget("late", 1)).await.expect(405);
    it.patch(
        &format!("{WIDGETS}/held"),
        "merge",
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .expect(200);
    it.get(&format!("{CRDS}/widgets.example.com")).await.expect(404);
    it.get(WIDGETS).await.expect(404);
}

#[tokio::test]
async fn objects_that_a_stricter_definition_would_refuse_can_still_change_and_go() {
    let it = Harness::new().await;
    it.post(CRDS, definition()).await.expect(201);
    let mut held = widget("held", 100);
    held["metadata"]["finalizers"] = json!(["example.com/wait"]);
    it.post(WIDGETS, held).await.expect(201);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let stricter = json!([
        {"op": "add", "path": format!("{spec}/properties/size/maximum"), "value": 10},
        {"op": "add", "path": format!("{spec}/required/-"), "value": "replicas"},
    ]);
    let crd = format!("{CRDS}/widgets.example.com");
    it.patch(&crd, "json", stricter).await.expect(200);
    it.post(WIDGETS, widget("new", 100)).await.expect(422);
    let uri = format!("{WIDGETS}/held");
    it.patch(
        &format!("{uri}/status"),
        "merge",
        json!({"status": {"phase": "Good"}}),
    )
    .await
    .expect(200);
    let status = it
        .patch(&uri, "merge", json!({"spec": {"replicas": 1, "size": 99}}))
        .await
        .expect(422);
    assert_eq!(
        status["details"]["causes"],
        json!([{"reason": "FieldValueInvalid", "field": "spec.size",
            "message": "Invalid value: 99: spec.size in body should be less than or equal to 10"}])
    );
    it.patch(&uri, "merge", json!({"spec": {"replicas": 1}}))
        .await
        .expect(200);
    it.delete(&crd).await.expect(200);
    it.patch(&uri, "merge", json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    it.get(&crd).await.expect(404);
}

#[tokio::test]
async fn definitions_need_schemas_that_say_all_and_rules_that_compile() {
    let it = Harness::new().await;
    let with = |field: Value, rule: Option<&str>| {
        let mut spec = json!({"type": "object", "properties": {"a": field, "n": {"type": "integer"}}});
        if let Some(rule) = rule {
            spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
        }
        let mut made = definition();
        for version in made["spec"]["versions"].as_array_mut().unwrap() {
            version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec.clone();
        }
        made
    };
    let spec = "spec.validation.openAPIV3Schema.properties[spec]";
    for (made, field, message) in [
        (
            with(json!({}), None),
            format!("{spec}.properties[a].type"),
            "Required value: must not be empty for specified object fields",
        ),
        (
            with(json!({"type": "string"}), Some("self.n >")),
            format!("{spec}.x-kubernetes-validations[0].rule"),
            "Invalid value: \"self.n >\": compilation failed: ERROR: Syntax error: unexpected end",
        ),
        (
            with(json!({"type": "string"}), Some("self.m > 1")),
            format!("{spec}.x-kubernetes-validations[0].rule"),
            "Invalid value: \"self.m > 1\": compilation failed: ERROR: undefined field 'm'",
        ),
        (
            with(
                json!({"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}),
                None,
            ),
            format!("{spec}.properties[a].items.x-kubernetes-validations[0].rule"),
            "Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema \
             within spec.validation.openAPIV3Schema.properties[spec].properties[a]",
        ),
        (
            with(json!({"type": "integer", "default": "x"}), None),
            format!("{spec}.properties[a].default"),
            "Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
    ] {
        let refused = it.post(CRDS, made).await.expect(422);
        let causes = &refused["details"]["causes"];
        assert_eq!(causes[0]["field"], field.as_str(), "{refused}");
        assert_eq!(causes[0]["message"], message);
    }
    // versions that differ are told apart
    let mut differs = with(json!({}), None);
    differs["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = json!({"type": "object"});
    let refused = it.post(CRDS, differs).await.expect(422);
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[a].type"
    );

    // every rule that is broken is told
    let mut two = with(json!({"type": "string"}), Some("self.n < 5"));
    for version in two["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
            .as_array_mut()
            .unwrap()
            .push(json!({"rule": "self.n != 9", "message": "nine is taken"}));
    }
    it.post(CRDS, two).await.expect(201);
    let mut object = widget("w", 1);
    object["spec"] = json!({"n": 9});
    let refused = it.post(WIDGETS, object).await.expect(422);
    assert_eq!(
        refused["details"]["causes"].as_array().unwrap().len(),
        2,
        "{refused}"
    );
    it.delete(&format!("{CRDS}/widgets.example.com"))
        .await
        .expect(200);

    let rule = "duration(self.a) < duration('1h') && (!has(self.n) || self.n == 3)";
    it.post(CRDS, with(json!({"type": "string"}), Some(rule)))
        .await
        .expect(201);
    let mut object = widget("w", 1);
    object["spec"] = json!({"a": "2h"});
    let refused = it.post(WIDGETS, object.clone()).await.expect(422);
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        format!("Invalid value: \"object\": failed rule: {rule}")
    );
    object["spec"] = json!({"a": "59m", "n": 3});
    it.post(WIDGETS, object).await.expect(201);
}
