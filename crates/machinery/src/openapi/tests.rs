use serde_json::{Value, json};

use super::*;

fn subscription(schema: &Value) -> CustomKind<'_> {
    CustomKind {
        group: "apps.clusternet.io",
        version: "v1alpha1",
        plural: "subscriptions",
        kind: "Subscription",
        list_kind: "SubscriptionList",
        namespaced: true,
        schema: Some(schema),
        status: true,
        scale: false,
    }
}

/// Every reference of a document leads to a schema that it holds.
fn assert_closed(document: &Value, schemas: &Value, prefix: &str) {
    fn each<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found.push(reference);
                }
                map.values().for_each(|value| each(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| each(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    each(document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let name = reference
            .strip_prefix(prefix)
            .unwrap_or_else(|| panic!("{reference}"));
        assert!(schemas.get(name).is_some(), "{reference}");
    }
}

#[test]
fn documents_hold_all_that_they_refer_to() {
    for (group, version) in builtin::group_versions() {
        let document = v3(group, version, &[]);
        assert_closed(
            &document,
            &document["components"]["schemas"],
            "#/components/schemas/",
        );
    }
    let schema = json!({"type": "object"});
    let document = v2(&[subscription(&schema)]);
    assert_closed(&document, &document["definitions"], "#/definitions/");
}

#[test]
fn what_a_group_shows_of_others_has_its_paths_and_their_kinds() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let widgets = CustomKind {
        group: "example.io",
        plural: "widgets",
        kind: "Widget",
        list_kind: "WidgetList",
        scale: true,
        ..subscription(&schema)
    };
    let deployments = builtin::resource("apps", "v1", "deployments").unwrap();
    let nodes = builtin::resource("", "v1", "nodes").unwrap();
    let document = v3_shown("shadow", "v1alpha1", &[deployments, nodes], &[widgets]);
    assert_closed(
        &document,
        &document["components"]["schemas"],
        "#/components/schemas/",
    );
    let paths: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let base = "/apis/shadow/v1alpha1/";
    assert!(paths.iter().all(|path| path.starts_with(base)), "{paths:?}");
    let home = format!("{base}namespaces/{{namespace}}/");
    for (path, group, kind) in [
        (format!("{home}deployments/{{name}}"), "apps", "Deployment"),
        (
            format!("{home}deployments/{{name}}/scale"),
            "autoscaling",
            "Scale",
        ),
        (format!("{base}nodes/{{name}}"), "", "Node"),
        (format!("{home}widgets/{{name}}/scale"), "autoscaling", "Scale"),
        (format!("{home}widgets/{{name}}"), "example.io", "Widget"),
    ] {
        let patch = &document["paths"][&path]["patch"];
        let found = &patch["x-kubernetes-group-version-kind"];
        assert_eq!(
            (&found["group"], &found["kind"]),
            (&json!(group), &json!(kind)),
            "{path}"
        );
    }
    assert!(
        !paths.iter().any(|path| path.ends_with("/status")),
        "templates have none"
    );
    let widget = &document["components"]["schemas"]["io.example.v1alpha1.Widget"];
    assert_eq!(widget["properties"]["spec"]["type"], "object");
}

#[test]
fn patches_can_ask_for_field_validation() {
    // this is what kubectl looks for before it lets the server validate
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let custom = [subscription(&schema)];
    for (group, version, kind) in [
        ("apps", "v1", "Deployment"),
        ("apps.clusternet.io", "v1alpha1", "Subscription"),
    ] {
        let document = v3(group, version, &custom);
        let paths = document["paths"].as_object().unwrap();
        let found = paths.values().any(|path| {
            path["patch"]["x-kubernetes-group-version-kind"]
                == json!({"group": group, "version": version, "kind": kind})
                && path["patch"]["parameters"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|p| p["name"] == "fieldValidation")
        });
        assert!(found, "{kind}");
    }
}

#[test]
fn custom_kinds_are_described() {
    let schema = json!({
        "type": "object", "description": "What goes where.", "x-kubernetes-validations": [{"rule": "true"}],
        "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "nullable": true, "properties": {
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "feed": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}},
        },
    });
    let document = v3("apps.clusternet.io", "v1alpha1", &[subscription(&schema)]);
    let schemas = &document["components"]["schemas"];
    let found = &schemas["io.clusternet.apps.v1alpha1.Subscription"];
    assert_eq!(
        found["x-kubernetes-group-version-kind"][0]["kind"],
        "Subscription"
    );
    assert_eq!(found["description"], "What goes where.");
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(found["properties"]["metadata"]["allOf"][0]["$ref"], meta);
    assert_eq!(
        found["properties"]["spec"]["properties"]["feed"]["properties"]["metadata"]["allOf"][0]["$ref"],
        meta
    );
    assert_eq!(
        found["properties"]["spec"]["properties"]["port"]["anyOf"][0]["type"],
        "integer"
    );
    let list = &schemas["io.clusternet.apps.v1alpha1.SubscriptionList"];
    assert_eq!(
        list["properties"]["items"]["items"]["$ref"],
        "#/components/schemas/io.clusternet.apps.v1alpha1.Subscription"
    );
    let status = "/apis/apps.clusternet.io/v1alpha1/namespaces/{namespace}/subscriptions/{name}/status";
    assert!(document["paths"][status]["put"].is_object());
    assert!(document["paths"][status.replace("/status", "/scale")].is_null());
    // nothing of other groups
    assert!(
        document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .all(|path| path.starts_with("/apis/apps.clusternet.io/v1alpha1/"))
    );

    let document = v2(&[subscription(&schema)]);
    let found = &document["definitions"]["io.clusternet.apps.v1alpha1.Subscription"];
    assert!(found["x-kubernetes-validations"].is_null());
    assert_eq!(found["properties"]["spec"], json!({}));
    assert_eq!(
        found["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
}

#[test]
fn the_index_lists_documents() {
    let index = v3_index([("api/v1", "12"), ("apis/apps/v1", "34")]);
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/apps/v1?hash=34"
    );
    assert_eq!(path_of("", "v1"), "api/v1");
}
