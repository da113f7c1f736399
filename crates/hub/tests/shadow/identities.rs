//! What is written stays the template that its URL names, whatever a body leaves out or says otherwise.

use api::apps;
use serde_json::{Value, json};

use crate::{APPLY, DEPLOYMENTS, Fixture, deployment};

const NAMELESS: &str = "the name of the object (web based on URL) was undeterminable: name must be provided";

/// Whatever a body lacks: a template stays the object that its URL names, and says so.
#[tokio::test(start_paused = true)]
async fn a_body_that_lost_its_identity_is_not_written() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let widget = json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "web"}});
    fixture.create("/namespaces/shop/widgets", &widget).await;
    let without = |whole: &Value, fields: &[&str]| {
        let mut body = whole.clone();
        for field in fields {
            let (parent, field) = field.rsplit_once('/').expect("a pointer");
            let map = body.pointer_mut(parent).and_then(Value::as_object_mut);
            map.expect("an object").remove(field);
        }
        body
    };
    let patch = |kind: &'static str| ("PATCH", format!("application/{kind}"));
    for (path, manifest) in [
        (format!("{DEPLOYMENTS}/web"), "deployments.shop.web"),
        (format!("{DEPLOYMENTS}/web/scale"), "deployments.shop.web"),
        ("/namespaces/shop/widgets/web".to_owned(), "widgets.shop.web"),
    ] {
        let is_scale = path.ends_with("/scale");
        let before = fixture.manifest(manifest).await;
        let (_, whole) = fixture.send("GET", &path, &[], &Value::Null).await;
        let untyped: &[&str] = &["/apiVersion", "/kind"];
        for (lost, said) in [
            (&["/metadata/name"] as &[&str], NAMELESS),
            (&["/metadata"], NAMELESS),
            (
                &["/apiVersion", "/kind", "/metadata"],
                "the object provided is a \"\" of \"\"",
            ),
            (&["/kind"], "the object provided is a \"\" of "),
            (&["/apiVersion"], "the object provided is a "),
            (untyped, "the object provided is a \"\" of \"\""),
        ] {
            // What a scale does not say of its type it has.
            let said = match (is_scale, lost.contains(&"/metadata")) {
                (true, false) if lost != ["/metadata/name"] => continue,
                (true, _) => NAMELESS,
                (false, _) => said,
            };
            let body = without(&whole, lost);
            let replaced = json!([{"op": "replace", "path": "", "value": body}]);
            let (_, json_patch) = patch("json-patch+json");
            let merge = machinery::patch::merge_diff(&whole, &body);
            let (_, merge_patch) = patch("merge-patch+json");
            for (verb, kind, body) in [
                ("PUT", "application/json", &body),
                ("PATCH", &json_patch, &replaced),
                ("PATCH", &merge_patch, &merge),
            ] {
                let (status, refused) = fixture.send(verb, &path, &[("content-type", kind)], body).await;
                assert_eq!(status, 400, "{kind} {path} without {lost:?}: {refused}");
                let message = refused["message"].as_str().expect("text");
                assert!(
                    message.starts_with(said),
                    "{kind} {path} without {lost:?}: {message}"
                );
            }
        }
        let named =
            json!({"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": {"name": "other"}});
        let (status, _) = fixture.send("PUT", &path, &[], &named).await;
        assert_eq!(status, 400);
        assert_eq!(fixture.manifest(manifest).await, before, "{path}");
    }
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    for body in [
        json!({"$patch": "delete"}),
        json!({"metadata": {"$patch": "delete"}}),
    ] {
        let (status, _) = fixture
            .send("PATCH", &format!("{DEPLOYMENTS}/web"), &strategic, &body)
            .await;
        assert_eq!(status, 400, "{body}");
    }
}

/// What is applied says what it is; only its name may be that of the template there is.
#[tokio::test(start_paused = true)]
async fn what_is_applied_says_what_it_is() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let before = fixture.manifest("deployments.shop.web").await;
    for (config, said) in [
        (json!({}), "invalid object type: /, Kind="),
        (
            json!({"kind": "Deployment"}),
            "invalid object type: /, Kind=Deployment",
        ),
        (
            json!({"apiVersion": "apps/v1"}),
            "invalid object type: apps/v1, Kind=",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret"}),
            "invalid object type: /v1, Kind=Secret",
        ),
    ] {
        for name in ["web", "new"] {
            let path = format!("{DEPLOYMENTS}/{name}?fieldManager=x");
            let (status, refused) = fixture.send("PATCH", &path, &APPLY, &config).await;
            assert_eq!((status, &refused["message"]), (400, &json!(said)), "{config}");
        }
    }
    let typed = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let path = format!("{DEPLOYMENTS}/new?fieldManager=x");
    let (status, refused) = fixture.send("PATCH", &path, &APPLY, &typed).await;
    assert_eq!(
        (status, refused["message"].as_str()),
        (400, Some(NAMELESS.replace("(web ", "(new ").as_str()))
    );
    let (status, _) = fixture
        .send("GET", &format!("{DEPLOYMENTS}/new"), &[], &Value::Null)
        .await;
    assert_eq!(status, 404);
    assert_eq!(fixture.manifest("deployments.shop.web").await, before);
}

/// Older hubs took what is applied without a version, and noted its managers so.
#[tokio::test(start_paused = true)]
async fn managers_that_were_stored_without_a_version_stand_in_no_ones_way() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let mut manifest = fixture.manifest("deployments.shop.web").await;
    manifest["template"]["metadata"]["managedFields"] = json!([{"manager": "before-first-apply", "operation": "Update",
        "apiVersion": "", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    let (resource, reserved) = (apps::MANIFESTS, Some("clusternet-reserved"));
    let replaced = fixture
        .client
        .replace(&resource, reserved, "deployments.shop.web", &manifest);
    replaced.await.expect("a good manifest");
    let mut config = deployment("web");
    config["spec"]["replicas"] = json!(4);
    let path = format!("{DEPLOYMENTS}/web?fieldManager=a&force=true");
    let (status, applied) = fixture.send("PATCH", &path, &APPLY, &config).await;
    assert_eq!(
        (status, &applied["spec"]["replicas"]),
        (200, &json!(4)),
        "{applied}"
    );
    let entries = applied["metadata"]["managedFields"].as_array().expect("a list");
    assert!(
        entries.iter().all(|entry| entry["apiVersion"] == "apps/v1"),
        "{entries:?}"
    );
    assert!(entries.iter().any(|entry| entry["manager"] == "a"), "{entries:?}");
}
