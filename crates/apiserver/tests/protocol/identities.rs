//! What is written stays the object that its URL names, whatever a body leaves out or says otherwise.

use machinery::patch::merge_diff;
use serde_json::{Value, json};

use crate::harness::Harness;

const NAMESPACED: &str = "/api/v1/namespaces/default";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/x";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// What a body lacks, or has wrong.
const FLAWS: [&str; 17] = [
    "no name",
    "empty name",
    "null name",
    "other name",
    "no namespace",
    "empty namespace",
    "other namespace",
    "no apiVersion",
    "other apiVersion",
    "no kind",
    "other kind",
    "no apiVersion and kind",
    "no metadata",
    "null metadata",
    "metadata that are a list",
    "nothing but apiVersion and kind",
    "nothing",
];

fn flawed(whole: &Value, flaw: &str) -> Value {
    let mut body = whole.clone();
    let metadata = |body: &mut Value, field: &str, value: Option<Value>| {
        let map = body["metadata"].as_object_mut().unwrap();
        match value {
            Some(value) => map.insert(field.to_owned(), value),
            None => map.remove(field),
        };
    };
    let mut without = |fields: &[&str]| {
        let map = body.as_object_mut().unwrap();
        map.retain(|field, _| !fields.contains(&field.as_str()));
    };
    match flaw {
        "no name" => metadata(&mut body, "name", None),
        "empty name" => metadata(&mut body, "name", Some(json!(""))),
        "null name" => metadata(&mut body, "name", Some(Value::Null)),
        "other name" => metadata(&mut body, "name", Some(json!("y"))),
        "no namespace" => metadata(&mut body, "namespace", None),
        "empty namespace" => metadata(&mut body, "namespace", Some(json!(""))),
        "other namespace" => metadata(&mut body, "namespace", Some(json!("other"))),
        "no apiVersion" => without(&["apiVersion"]),
        "other apiVersion" => body["apiVersion"] = json!("foo/v1"),
        "no kind" => without(&["kind"]),
        "other kind" => body["kind"] = json!("Node"),
        "no apiVersion and kind" => without(&["apiVersion", "kind"]),
        "no metadata" => without(&["metadata"]),
        "null metadata" => body["metadata"] = Value::Null,
        "metadata that are a list" => body["metadata"] = json!([]),
        "nothing but apiVersion and kind" => {
            body = json!({"apiVersion": whole["apiVersion"], "kind": whole["kind"]});
        }
        "nothing" => body = json!({}),
        other => panic!("{other} is no flaw"),
    }
    body
}

const NAMELESS: &str = "the name of the object (x based on URL) was undeterminable: name must be provided";
const MISNAMED: &str = "the name of the object (y) does not match the name on the URL (x)";
const MISPLACED: &str =
    "the namespace of the provided object does not match the namespace sent on the request";
const UNTYPED: &str = "invalid object type: ";

/// What a Kubernetes API server says, but that it says 422 or 500 for some bodies that cannot be read at all: `None`
/// for 200, the start of the message of a 400 otherwise.
fn expected(verb: &str, is_custom: bool, namespaced: bool, flaw: &str) -> Option<&'static str> {
    let is_untyped = matches!(
        flaw,
        "no apiVersion" | "no kind" | "no apiVersion and kind" | "nothing"
    );
    match (verb, flaw) {
        (_, "other name") => Some(MISNAMED),
        (_, "no namespace" | "empty namespace") => None,
        (_, "other namespace") => Some(MISPLACED).filter(|_| namespaced),
        (_, "metadata that are a list") => Some("metadata must be an object"),
        ("apply", _) if is_untyped || flaw.starts_with("other") => Some(UNTYPED),
        ("apply", "empty name" | "null name") => Some(NAMELESS),
        // The name is that of what it is applied to.
        ("apply", _) => None,
        (_, _) if is_untyped && is_custom => Some("Object '"),
        (
            _,
            "no name"
            | "empty name"
            | "null name"
            | "no metadata"
            | "null metadata"
            | "nothing"
            | "nothing but apiVersion and kind",
        ) => Some(NAMELESS),
        // The kind is no field of what it is applied to.
        ("strategic", _) => None,
        ("put", "no apiVersion" | "no kind" | "no apiVersion and kind") => None,
        (_, "no kind") => None,
        (_, "no apiVersion" | "no apiVersion and kind") => Some(NAMELESS),
        (_, "other apiVersion") => Some("the API version in the data (foo/v1) does not match"),
        (_, "other kind") => Some("the kind in the data (Node) does not match"),
        (verb, flaw) => panic!("{verb} {flaw}"),
    }
}

async fn prepared() -> Harness {
    let it = Harness::new().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {
                "status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}}}]},
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    });
    it.post(CRDS, definition).await.expect(201);
    let metadata = json!({"name": "x", "labels": {"demo": "yes"}, "finalizers": ["example.com/keep"]});
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let maps = format!("{NAMESPACED}/configmaps");
    for (list, body) in [
        (&*maps, json!({"data": {"a": "1"}})),
        (&*format!("{NAMESPACED}/secrets"), json!({"data": {"a": "MQ=="}})),
        (&*format!("{NAMESPACED}/pods"), json!({"spec": pod})),
        (&*format!("{NAMESPACED}/serviceaccounts"), json!({})),
        ("/api/v1/namespaces", json!({})),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        (
            REQUESTS,
            json!({"spec": {"request": "LS0t", "signerName": "a.b/c", "usages": ["client auth"]}}),
        ),
        (
            DEPLOYMENT.strip_suffix("/x").unwrap(),
            json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}}),
        ),
        (
            WIDGETS,
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"replicas": 1}}),
        ),
    ] {
        let mut body = body.clone();
        body["metadata"] = metadata.clone();
        it.post(list, body).await.expect(201);
    }
    it
}

#[tokio::test]
async fn a_body_that_lost_its_identity_is_not_written() {
    let it = prepared().await;
    let patches: &[&str] = &["put", "json", "merge", "strategic", "apply"];
    for (object, subresource, verbs) in [
        (format!("{NAMESPACED}/configmaps/x"), "", patches),
        (format!("{NAMESPACED}/secrets/x"), "", patches),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/x".to_owned(),
            "",
            patches,
        ),
        ("/api/v1/namespaces/x".to_owned(), "", patches),
        ("/api/v1/namespaces/x".to_owned(), "/status", patches),
        ("/api/v1/namespaces/x".to_owned(), "/finalize", &["put"]),
        (format!("{REQUESTS}/x"), "/approval", patches),
        (format!("{REQUESTS}/x"), "/status", patches),
        (format!("{NAMESPACED}/pods/x"), "", patches),
        (format!("{NAMESPACED}/pods/x"), "/status", patches),
        (format!("{NAMESPACED}/pods/x"), "/resize", patches),
        (format!("{NAMESPACED}/pods/x"), "/ephemeralcontainers", patches),
        (DEPLOYMENT.to_owned(), "", patches),
        (DEPLOYMENT.to_owned(), "/status", patches),
        (DEPLOYMENT.to_owned(), "/scale", patches),
        (format!("{WIDGETS}/x"), "", patches),
        (format!("{WIDGETS}/x"), "/status", patches),
        (format!("{WIDGETS}/x"), "/scale", patches),
    ] {
        let uri = format!("{object}{subresource}");
        let is_custom = object.starts_with(WIDGETS);
        let namespaced = object.contains("/namespaces/default/");
        for (verb, flaw) in verbs.iter().flat_map(|verb| FLAWS.map(|flaw| (*verb, flaw))) {
            if verb == "strategic" && is_custom && subresource != "/scale" {
                continue;
            }
            let case = format!("{verb} {uri} with {flaw}");
            let before = it.get(&object).await.expect(200);
            let whole = match subresource {
                "/scale" => it.get(&uri).await.expect(200),
                _ => before.clone(),
            };
            let answer = match verb {
                "put" => it.put(&uri, flawed(&whole, flaw)).await,
                "json" => {
                    let patch = json!([{"op": "replace", "path": "", "value": flawed(&whole, flaw)}]);
                    it.patch(&uri, verb, patch).await
                }
                "apply" => {
                    let named = json!({"name": "x", "namespace": whole["metadata"]["namespace"]});
                    let config =
                        json!({"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": named});
                    let config = flawed(&config, flaw);
                    it.patch(&format!("{uri}?fieldManager=m"), verb, config).await
                }
                _ => {
                    it.patch(&uri, verb, merge_diff(&whole, &flawed(&whole, flaw)))
                        .await
                }
            };
            let answered = (answer.status.as_u16(), answer.json());
            let after = it.get(&object).await.expect(200);
            match expected(verb, is_custom && subresource != "/scale", namespaced, flaw) {
                None => {
                    assert_eq!(answered.0, 200, "{case}: {}", answered.1);
                    for field in ["apiVersion", "kind"] {
                        assert_eq!(after[field], before[field], "{case}");
                    }
                    for field in ["name", "namespace", "uid", "labels", "finalizers"] {
                        assert_eq!(after["metadata"][field], before["metadata"][field], "{case}");
                    }
                }
                Some(message) => {
                    assert_eq!(
                        (answered.0, &answered.1["reason"]),
                        (400, &json!("BadRequest")),
                        "{case}: {}",
                        answered.1
                    );
                    let said = answered.1["message"].as_str().unwrap();
                    assert!(said.starts_with(message), "{case}: {said}");
                    assert_eq!(after, before, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_patch_cannot_take_an_object_away() {
    let it = prepared().await;
    for (object, is_custom) in [
        (format!("{NAMESPACED}/secrets/x"), false),
        (DEPLOYMENT.to_owned(), false),
        (format!("{DEPLOYMENT}/status"), false),
        (format!("{DEPLOYMENT}/scale"), false),
        (format!("{WIDGETS}/x"), true),
    ] {
        let before = it.get(&object).await.expect(200);
        let strategic = [
            json!({"$patch": "delete"}),
            json!({"$patch": "replace"}),
            json!({"metadata": {"$patch": "delete"}}),
            json!({"metadata": {"$patch": "replace"}}),
        ];
        let json = [
            json!([{"op": "remove", "path": "/metadata"}]),
            json!([{"op": "remove", "path": "/metadata/name"}]),
            json!([{"op": "replace", "path": "/metadata", "value": {}}]),
        ];
        let strategic = strategic.into_iter().filter(|_| !is_custom);
        let patches = strategic.map(|patch| ("strategic", patch));
        for (kind, patch) in patches.chain(json.map(|patch| ("json", patch))) {
            let refused = it.patch(&object, kind, patch.clone()).await.expect(400);
            assert_eq!(refused["message"], NAMELESS, "{object} {patch}");
        }
        assert_eq!(it.get(&object).await.expect(200), before);
    }
}

/// What is applied and not there has to have a name of its own, and so has what is made by an update.
#[tokio::test]
async fn what_is_made_by_an_apply_or_an_update_is_named() {
    let it = prepared().await;
    let typed = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let with = |metadata: Value| {
        let mut config = typed.clone();
        config["metadata"] = metadata;
        config
    };
    let uri = format!("{NAMESPACED}/configmaps/new");
    let nameless = NAMELESS.replace("(x ", "(new ");
    for (config, message) in [
        (typed.clone(), &*nameless),
        (with(json!({})), &nameless),
        (with(json!({"name": ""})), &nameless),
        (with(json!({"name": null})), &nameless),
        (json!({}), "invalid object type: /, Kind="),
        (
            json!({"metadata": {"name": "new"}}),
            "invalid object type: /, Kind=",
        ),
        (json!({"apiVersion": "v1"}), "invalid object type: /v1, Kind="),
        (
            json!({"apiVersion": "v1", "kind": "Secret"}),
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            json!({"apiVersion": "v2", "kind": "ConfigMap"}),
            "invalid object type: /v2, Kind=ConfigMap",
        ),
    ] {
        let refused = it
            .patch(&format!("{uri}?fieldManager=m"), "apply", config.clone())
            .await;
        assert_eq!(refused.expect(400)["message"], *message, "{config}");
    }
    it.get(&uri).await.expect(404);
    let applied = it
        .patch(
            &format!("{uri}?fieldManager=m"),
            "apply",
            with(json!({"name": "new"})),
        )
        .await;
    assert_eq!(applied.expect(201)["metadata"]["namespace"], "default");

    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/new";
    let refused = it.put(lease, json!({})).await.expect(400);
    assert_eq!(refused["message"], *nameless);
    it.get(lease).await.expect(404);
    it.put(lease, json!({"metadata": {"name": "new"}}))
        .await
        .expect(201);
}

#[tokio::test]
async fn what_is_asked_of_an_object_names_it() {
    let it = prepared().await;
    let pod = format!("{NAMESPACED}/pods/x");
    let account = format!("{NAMESPACED}/serviceaccounts/x");
    let other_kind = "the kind in the data (Node) does not match";
    let other_version = "the API version in the data (foo/v1) does not match";
    for (uri, api_version, kind) in [
        (format!("{pod}/binding"), "v1", "Binding"),
        (format!("{pod}/eviction"), "policy/v1", "Eviction"),
        (
            format!("{account}/token"),
            "authentication.k8s.io/v1",
            "TokenRequest",
        ),
    ] {
        let whole = json!({"apiVersion": api_version, "kind": kind, "spec": {"audiences": ["a"]},
            "metadata": {"name": "x", "namespace": "default"}, "target": {"kind": "Node", "name": "n"}});
        let before = it.get(&pod).await.expect(200);
        for (flaw, message) in [
            ("other namespace", MISPLACED),
            ("other kind", other_kind),
            ("other apiVersion", other_version),
            ("metadata that are a list", "metadata must be an object"),
            ("no name", "name in URL does not match name in "),
            ("empty name", "name in URL does not match name in "),
            ("other name", "name in URL does not match name in "),
            ("no metadata", "name in URL does not match name in "),
            ("nothing", "name in URL does not match name in "),
        ] {
            // A request for a token may leave out whose.
            if kind == "TokenRequest" && message.starts_with("name") {
                continue;
            }
            let refused = it.post(&uri, flawed(&whole, flaw)).await.expect(400);
            let said = refused["message"].as_str().unwrap();
            assert!(said.starts_with(message), "{uri} {flaw}: {said}");
            assert_eq!(it.get(&pod).await.expect(200), before, "{uri} {flaw}");
        }
        if kind == "Binding" {
            it.post(&uri, flawed(&whole, "no apiVersion and kind"))
                .await
                .expect(201);
        }
    }
    for version in ["policy/v1beta1", "policy/v1"] {
        let eviction = json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": "x"}});
        it.post(&format!("{pod}/eviction"), eviction).await.expect(201);
    }
}

#[tokio::test]
async fn no_write_makes_an_object_another_or_ends_it() {
    let it = prepared().await;
    let time = "2020-01-01T00:00:00Z";
    for (uri, kind) in [
        (format!("{NAMESPACED}/configmaps/x"), "ConfigMap"),
        (DEPLOYMENT.to_owned(), "Deployment.apps"),
        (format!("{DEPLOYMENT}/status"), "Deployment.apps"),
        (format!("{WIDGETS}/x"), "Widget.example.com"),
    ] {
        let before = it.get(&uri).await.expect(200);
        for (field, value) in [
            ("uid", json!("z")),
            ("deletionTimestamp", json!(time)),
            ("deletionGracePeriodSeconds", json!(5)),
        ] {
            let metadata = json!({"name": "x", field: value});
            let typed =
                json!({"apiVersion": before["apiVersion"], "kind": before["kind"], "metadata": metadata});
            let mut whole = before.clone();
            whole["metadata"][field] = value.clone();
            let apply = format!("{uri}?fieldManager=m");
            let put = if field == "uid" { 409 } else { 422 };
            for (answer, code) in [
                (
                    it.patch(&uri, "merge", json!({"metadata": {field: value}})).await,
                    422,
                ),
                (it.patch(&apply, "apply", typed).await, 422),
                (it.put(&uri, whole).await, put),
            ] {
                let refused = answer.expect(code);
                if code == 422 {
                    assert_eq!(
                        refused["message"],
                        format!(
                            "{kind} \"x\" is invalid: metadata.{field}: Invalid value: {value}: field is immutable"
                        ),
                    );
                }
            }
        }
        assert_eq!(it.get(&uri).await.expect(200), before);
        // Left out, and as they are, they are fine.
        for metadata in [json!({"uid": null}), json!({"uid": before["metadata"]["uid"]})] {
            it.patch(&uri, "merge", json!({"metadata": metadata}))
                .await
                .expect(200);
        }
    }
    // A status of a custom resource has nothing else.
    let status = format!("{WIDGETS}/x/status");
    let metadata = json!({"metadata": {"deletionTimestamp": time}});
    let written = it.patch(&status, "merge", metadata).await.expect(200);
    assert_eq!(written["metadata"]["deletionTimestamp"], Value::Null);
    // Of what is on its way out the time stays, and nobody has to repeat it.
    let uri = format!("{NAMESPACED}/configmaps/x");
    it.delete(&uri).await.expect(200);
    let going = it.get(&uri).await.expect(200);
    for value in [json!(time), Value::Null] {
        let patch = json!({"metadata": {"deletionTimestamp": value}});
        let patched = it.patch(&uri, "merge", patch).await.expect(200);
        assert_eq!(
            patched["metadata"]["deletionTimestamp"],
            going["metadata"]["deletionTimestamp"]
        );
    }
}
