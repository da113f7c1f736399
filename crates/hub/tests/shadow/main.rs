//! The shadow API plugged into an embedded API server: what users write and read there, and what becomes of it.

mod identities;
mod lone;

use std::sync::Arc;
use std::time::Duration;

use api::{apps, kubernetes, labels};
use apiserver::{ApiServer, Body, Caller, GroupHandler, UserInfo};
use clock::Env;
use http::Request;
use http_body_util::BodyExt;
use hub::{Config, Hub};
use kubeio::{Client, ListOptions};
use machinery::{ApiResource, meta};
use runtime::CancellationToken;
use serde_json::{Value, json};

const SHADOW: &str = "/apis/shadow/v1alpha1";

struct Fixture {
    server: Arc<ApiServer>,
    client: Client,
    _hub: Hub,
}

impl Fixture {
    async fn start() -> Self {
        Self::start_beside(None).await
    }

    /// A hub on a parent that serves this group too.
    async fn start_beside(group: Option<Arc<dyn GroupHandler>>) -> Self {
        let env = Env::system();
        let disk = clock::disk::SimDisk::new(1);
        let store = store::Store::open(
            Arc::new(disk),
            store::Options::new(env.clone()),
            store::Mode::Inline,
        )
        .expect("an empty disk");
        let config = apiserver::Config::new(store, env.clone(), Arc::new(apiserver::authz::AllowAll));
        let server = ApiServer::start(config).await.expect("an empty store");
        if let Some(group) = group {
            server.add_group(group);
        }
        let client = Client::from_service(server.client_service(UserInfo::loopback()));
        for crd in api::crds() {
            client
                .create(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, &crd)
                .await
                .expect("a good definition");
        }
        client
            .create(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, &widget_crd())
            .await
            .expect("a good definition");
        for name in ["default", "clusternet-reserved"] {
            let namespace = json!({"metadata": {"name": name}});
            client
                .create(&kubernetes::NAMESPACES, None, &namespace)
                .await
                .expect("a good namespace");
        }
        let hub = Hub::new(client.clone(), env, Config::default(), CancellationToken::new());
        for group in hub.groups() {
            server.add_group(group);
        }
        assert!(hub.shadow().refresh().await);
        Self {
            server,
            client,
            _hub: hub,
        }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
        self.send_as("jane", method, path, headers, body).await
    }

    async fn send_as(
        &self,
        user: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(format!("{SHADOW}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let request = request.body(body).expect("good parts");
        let response = self
            .server
            .handle(request, Caller::User(UserInfo::new(user, &[])))
            .await;
        let status = response.status().as_u16();
        let bytes = response
            .into_body()
            .collect()
            .await
            .expect("a whole answer")
            .to_bytes();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("no JSON: {bytes:?}")),
        )
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let (status, created) = self.send("POST", path, &[], object).await;
        assert_eq!(status, 201, "{created}");
        created
    }

    async fn manifest(&self, name: &str) -> Value {
        self.client
            .get(&apps::MANIFESTS, Some("clusternet-reserved"), name)
            .await
            .expect("a manifest")
    }
}

fn widget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {
            "group": "example.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 3, "minimum": 1},
                }}},
            }}, "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}],
        },
    })
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

const DEPLOYMENTS: &str = "/namespaces/shop/deployments";

#[tokio::test(start_paused = true)]
async fn what_is_created_becomes_a_manifest_and_nothing_runs() {
    let fixture = Fixture::start().await;
    let created = fixture.create(DEPLOYMENTS, &deployment("web")).await;
    assert_eq!((meta::name(&created), meta::namespace(&created)), ("web", "shop"));
    assert_eq!(created["spec"]["replicas"], 1, "the dry run fills in defaults");
    let manifest = fixture.manifest("deployments.shop.web").await;
    assert_eq!(meta::uid(&created), meta::uid(&manifest));
    assert_eq!(
        meta::resource_version(&created),
        meta::resource_version(&manifest)
    );
    assert_eq!(meta::label(&manifest, labels::CONFIG_KIND), Some("Deployment"));
    assert_eq!(meta::label(&manifest, labels::CONFIG_NAMESPACE), Some("shop"));
    assert_eq!(meta::label(&manifest, "app"), Some("web"));
    assert!(manifest["template"].get("status").is_none());
    let live = fixture
        .client
        .list(&kubernetes::DEPLOYMENTS, None, &ListOptions::default())
        .await
        .expect("a list");
    assert!(live.items.is_empty());
    let (status, got) = fixture
        .send("GET", &format!("{DEPLOYMENTS}/web"), &[], &Value::Null)
        .await;
    assert_eq!((status, &got), (200, &created));
    let (status, error) = fixture.send("POST", DEPLOYMENTS, &[], &deployment("web")).await;
    assert_eq!(status, 409);
    assert_eq!(error["message"], "deployments.apps \"web\" already exists");
}

#[tokio::test(start_paused = true)]
async fn faults_are_found_before_anything_is_stored() {
    let fixture = Fixture::start().await;
    let mut bad = deployment("web");
    bad["spec"]["selector"]["matchLabels"]["app"] = json!("other");
    let mut other_namespace = deployment("web");
    other_namespace["metadata"]["namespace"] = json!("elsewhere");
    let mut nameless = deployment("web");
    nameless["metadata"]["name"] = json!("");
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for (object, code) in [
        (bad, 422),
        (other_namespace, 400),
        (nameless, 422),
        (config_map, 400),
        (json!([1]), 400),
    ] {
        let (status, error) = fixture.send("POST", DEPLOYMENTS, &[], &object).await;
        assert_eq!(
            (status, &error["kind"]),
            (code, &json!("Status")),
            "{object} {error}"
        );
    }
    let widget = |size: i64| {
        json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"size": size}})
    };
    let (status, _) = fixture
        .send("POST", "/namespaces/a/widgets", &[], &widget(0))
        .await;
    assert_eq!(status, 422);
    let mut skipped = widget(0);
    skipped["metadata"]["annotations"] = json!({"apps.clusternet.io/skip-validating": "true"});
    assert_eq!(
        fixture.create("/namespaces/a/widgets", &skipped).await["spec"]["size"],
        0
    );
    let (status, tried) = fixture
        .send(
            "POST",
            &format!("{DEPLOYMENTS}?dryRun=All"),
            &[],
            &deployment("web"),
        )
        .await;
    assert_eq!((status, meta::name(&tried)), (201, "web"));
    let (status, _) = fixture
        .send("GET", &format!("{DEPLOYMENTS}/web"), &[], &Value::Null)
        .await;
    assert_eq!(status, 404);
}

#[tokio::test(start_paused = true)]
async fn names_that_exist_on_the_parent_do_not_stand_in_the_way() {
    let fixture = Fixture::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let created = fixture.create("/namespaces", &namespace).await;
    assert_eq!(meta::name(&created), "default");
    assert_eq!(
        meta::label(&created, "kubernetes.io/metadata.name"),
        Some("default")
    );
    let (_, got) = fixture
        .send("GET", "/namespaces/default", &[], &Value::Null)
        .await;
    assert_eq!(meta::uid(&got), meta::uid(&created));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "system:far:too-free"}, "rules": []});
    let created = fixture.create("/clusterroles", &role).await;
    assert_eq!(meta::name(&created), "system:far:too-free");
    let (status, _) = fixture
        .send("GET", "/clusterroles/system:far:too-free", &[], &Value::Null)
        .await;
    assert_eq!(status, 200);
    fixture.create("/customresourcedefinitions", &widget_crd()).await;
}

#[tokio::test(start_paused = true)]
async fn updates_lock_optimistically_and_drop_lost_labels() {
    let fixture = Fixture::start().await;
    let first = fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let mut second = first.clone();
    second["metadata"]["labels"] = json!({"tier": "front"});
    second["spec"]["replicas"] = json!(4);
    let (status, stored) = fixture.send("PUT", &path, &[], &second).await;
    assert_eq!(
        (status, &stored["spec"]["replicas"]),
        (200, &json!(4)),
        "{stored}"
    );
    let manifest = fixture.manifest("deployments.shop.web").await;
    assert_eq!(meta::label(&manifest, "app"), None);
    assert_eq!(meta::label(&manifest, "tier"), Some("front"));
    let (status, error) = fixture.send("PUT", &path, &[], &second).await;
    assert_eq!((status, &error["reason"]), (409, &json!("Conflict")), "{error}");
    let (status, _) = fixture
        .send("PUT", &format!("{DEPLOYMENTS}/none"), &[], &deployment("none"))
        .await;
    assert_eq!(status, 404);
}

#[tokio::test(start_paused = true)]
async fn patches_of_three_kinds_and_scale() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let strategic =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}});
    for (kind, body) in [
        ("application/strategic-merge-patch+json", strategic),
        (
            "application/merge-patch+json",
            json!({"metadata": {"labels": {"app": null, "x": "y"}}}),
        ),
        (
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]),
        ),
    ] {
        let (status, stored) = fixture
            .send("PATCH", &path, &[("content-type", kind)], &body)
            .await;
        assert_eq!(status, 200, "{kind} {stored}");
    }
    let manifest = fixture.manifest("deployments.shop.web").await;
    let template = &manifest["template"];
    assert_eq!(
        template["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:2"
    );
    assert_eq!(template["spec"]["replicas"], 7);
    assert_eq!(
        (meta::label(&manifest, "app"), meta::label(&manifest, "x")),
        (None, Some("y"))
    );
    let scale = format!("{path}/scale");
    let (_, mut seen) = fixture.send("GET", &scale, &[], &Value::Null).await;
    assert_eq!(
        (&seen["kind"], &seen["spec"]["replicas"]),
        (&json!("Scale"), &json!(7))
    );
    seen["spec"]["replicas"] = json!(2);
    let (status, stored) = fixture.send("PUT", &scale, &[], &seen).await;
    assert_eq!((status, &stored["spec"]["replicas"]), (200, &json!(2)));
    assert_eq!(fixture.send("PUT", &scale, &[], &seen).await.0, 409);
    let merge = [("content-type", "application/merge-patch+json")];
    let (status, _) = fixture
        .send("PATCH", &scale, &merge, &json!({"spec": {"replicas": 5}}))
        .await;
    assert_eq!(status, 200);
    assert_eq!(
        fixture.manifest("deployments.shop.web").await["template"]["spec"]["replicas"],
        5
    );
}

const APPLY: [(&str, &str); 1] = [("content-type", "application/apply-patch+yaml")];

#[tokio::test(start_paused = true)]
async fn applying_on_the_server_tracks_who_manages_what() {
    let fixture = Fixture::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let apply = async |query: &str, config: &Value| {
        fixture
            .send("PATCH", &format!("{path}?{query}"), &APPLY, config)
            .await
    };
    let managers = |object: &Value| -> Vec<String> {
        let entries = object["metadata"]["managedFields"].as_array();
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .map(|entry| format!("{} {}", entry["manager"], entry["operation"]).replace('"', ""))
            .collect();
        names.sort();
        names
    };
    let (status, nameless) = apply("", &deployment("web")).await;
    assert_eq!(
        (status, &nameless["details"]["causes"][0]["field"]),
        (422, &json!("fieldManager"))
    );
    let (status, tried) = apply("fieldManager=a&dryRun=All", &deployment("web")).await;
    assert_eq!((status, meta::name(&tried)), (201, "web"), "{tried}");
    let mut first = deployment("web");
    first["spec"]["replicas"] = json!(2);
    let (status, created) = apply("fieldManager=a", &first).await;
    assert_eq!(
        (status, managers(&created)),
        (201, vec!["a Apply".to_owned()]),
        "{created}"
    );
    let replicas = |count: u32| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": count}})
    };
    let (status, conflict) = apply("fieldManager=b", &replicas(7)).await;
    assert_eq!(
        (status, &conflict["details"]["causes"][0]["field"]),
        (409, &json!(".spec.replicas")),
        "{conflict}"
    );
    let (status, forced) = apply("fieldManager=b&force=true", &replicas(7)).await;
    assert_eq!(
        (status, &forced["spec"]["replicas"], managers(&forced)),
        (200, &json!(7), vec!["a Apply".to_owned(), "b Apply".to_owned()]),
        "{forced}"
    );
    let merge = [
        ("content-type", "application/merge-patch+json"),
        ("user-agent", "editor/1.0 (x)"),
    ];
    let (status, edited) = fixture
        .send("PATCH", &path, &merge, &json!({"spec": {"replicas": 3}}))
        .await;
    assert_eq!(
        (status, managers(&edited)),
        (200, vec!["a Apply".to_owned(), "editor Update".to_owned()]),
        "{edited}"
    );
    // What a manager no longer applies goes.
    let mut less = deployment("web");
    less["metadata"]["labels"] = json!({});
    let (status, applied) = apply("fieldManager=a&force=true", &less).await;
    assert_eq!((status, meta::label(&applied, "app")), (200, None), "{applied}");
    let (status, unknown) = apply("fieldManager=a&fieldValidation=Strict", &{
        let mut config = deployment("web");
        config["spec"]["replica"] = json!(1);
        config
    })
    .await;
    assert_eq!(status, 400, "{unknown}");
    assert!(
        unknown["message"]
            .as_str()
            .expect("text")
            .contains("unknown field \"spec.replica\""),
        "{unknown}"
    );
    let force = [("content-type", "application/merge-patch+json")];
    let (status, _) = fixture
        .send("PATCH", &format!("{path}?force=true"), &force, &json!({}))
        .await;
    assert_eq!(status, 422, "only apply can be forced");
}

#[tokio::test(start_paused = true)]
async fn forms_come_in_two_versions_and_fit_what_they_are_of() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let one = format!("{DEPLOYMENTS}/web");
    for version in ["v1", "v1beta1"] {
        for (path, form, code) in [
            (DEPLOYMENTS, "Table", 200),
            (&one, "Table", 200),
            (DEPLOYMENTS, "PartialObjectMetadataList", 200),
            (&one, "PartialObjectMetadata", 200),
            (DEPLOYMENTS, "PartialObjectMetadata", 406),
            (&one, "PartialObjectMetadataList", 406),
        ] {
            let accept = format!("application/json;as={form};v={version};g=meta.k8s.io");
            let (status, shown) = fixture
                .send("GET", path, &[("accept", &accept)], &Value::Null)
                .await;
            assert_eq!(status, code, "{path} {accept}: {shown}");
            if code == 200 {
                assert_eq!(
                    shown["apiVersion"],
                    format!("meta.k8s.io/{version}"),
                    "{path} {accept}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn templates_that_nobody_applied_are_not_tracked() {
    let fixture = Fixture::start().await;
    let mut object = deployment("web");
    object["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Update", "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]);
    fixture.create(DEPLOYMENTS, &object).await;
    let path = format!("{DEPLOYMENTS}/web");
    let merge = [("content-type", "application/merge-patch+json")];
    fixture
        .send("PATCH", &path, &merge, &json!({"spec": {"replicas": 3}}))
        .await;
    let manifest = fixture.manifest("deployments.shop.web").await;
    assert_eq!(
        manifest["template"]["metadata"].get("managedFields"),
        None,
        "{manifest}"
    );
    // A custom kind is applied by its definition's schema.
    let widget = json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 4}});
    let (status, applied) = fixture
        .send("PATCH", "/namespaces/a/widgets/w?fieldManager=a", &APPLY, &widget)
        .await;
    assert_eq!((status, &applied["spec"]["size"]), (201, &json!(4)), "{applied}");
}

#[tokio::test(start_paused = true)]
async fn bodies_and_options_are_judged_as_the_client_wants_it() {
    let fixture = Fixture::start().await;
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}"#;
    let post = async |query: &str| {
        let request = Request::post(format!("{SHADOW}/namespaces/shop/configmaps?dryRun=All&{query}"))
            .body(Body::from(twice))
            .expect("good parts");
        let user = Caller::User(UserInfo::new("jane", &[]));
        let response = fixture.server.handle(request, user).await;
        let warning = response.headers().get("warning").cloned();
        let warning = warning.map(|text| text.to_str().expect("text").to_owned());
        (response.status().as_u16(), warning.unwrap_or_default())
    };
    assert_eq!(post("fieldValidation=Strict").await.0, 400);
    let (status, warning) = post("").await;
    assert_eq!(status, 201);
    assert!(warning.contains("duplicate field \\\"data.a\\\""), "{warning}");
    assert_eq!(post("fieldValidation=Ignore").await, (201, String::new()));
    assert_eq!(post("fieldValidation=Maybe").await.0, 422);
    assert_eq!(post("dryRun=Some").await.0, 422);
    let (status, _) = fixture
        .send("GET", "/namespaces/shop/configmaps/a", &[], &Value::Null)
        .await;
    assert_eq!(status, 404);
}

#[tokio::test(start_paused = true)]
async fn options_are_judged_as_by_kubernetes() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let merge = [("content-type", "application/merge-patch+json")];
    let one = format!("{DEPLOYMENTS}/web");
    let nothing = Value::Null;
    for (method, path, query, body, code) in [
        ("GET", &one[..], "export=1", nothing.clone(), 400),
        ("GET", &one, "dryRun=Some", nothing.clone(), 200),
        ("GET", DEPLOYMENTS, "limit=x", nothing.clone(), 400),
        ("GET", DEPLOYMENTS, "timeoutSeconds=x", nothing.clone(), 400),
        (
            "GET",
            DEPLOYMENTS,
            "resourceVersionMatch=Exact",
            nothing.clone(),
            422,
        ),
        ("GET", DEPLOYMENTS, "sendInitialEvents=1", nothing.clone(), 422),
        ("GET", DEPLOYMENTS, "labelSelector=a+in+(", nothing.clone(), 400),
        (
            "GET",
            DEPLOYMENTS,
            "watch=1&timeoutSeconds=x",
            nothing.clone(),
            400,
        ),
        (
            "GET",
            DEPLOYMENTS,
            "watch=1&sendInitialEvents=1",
            nothing.clone(),
            422,
        ),
        ("PATCH", &one, "fieldManager=a%0A", json!({}), 422),
        ("PATCH", &one, "force=0", json!({}), 422),
        ("PUT", &one, "dryRun=", deployment("web"), 422),
        ("DELETE", &one, "gracePeriodSeconds=x", nothing.clone(), 400),
        ("DELETE", &one, "propagationPolicy=Foo", nothing.clone(), 422),
        ("DELETE", &one, "dryRun=Some", nothing.clone(), 422),
        ("DELETE", &one, "uid=other", nothing.clone(), 409),
        ("DELETE", DEPLOYMENTS, "limit=x", nothing.clone(), 400),
        (
            "DELETE",
            DEPLOYMENTS,
            "propagationPolicy=Foo",
            nothing.clone(),
            422,
        ),
        ("DELETE", &one, "", json!({"gracePeriodSeconds": "x"}), 400),
        ("DELETE", &one, "", json!({"kind": "Pod"}), 400),
        ("DELETE", &one, "", json!([1]), 400),
        ("DELETE", &one, "", json!({"dryRun": ["Some"]}), 422),
        ("DELETE", &one, "dryRun=Some", json!({"dryRun": ["All"]}), 200),
        (
            "DELETE",
            &one,
            "propagationPolicy=Foo",
            json!({"apiVersion": "apps/v1"}),
            200,
        ),
    ] {
        let path = format!("{path}?{query}");
        let (status, answer) = fixture
            .send(method, &path, &merge[..usize::from(method == "PATCH")], &body)
            .await;
        assert_eq!(status, code, "{method} {path} {body}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn tables_have_the_kinds_own_columns() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let widget =
        json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    fixture.create("/namespaces/a/widgets", &widget).await;
    let accept = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    for (path, expected) in [
        (
            DEPLOYMENTS,
            &["Name", "Ready", "Up-to-date", "Available", "Age"][..],
        ),
        (
            "/namespaces/shop/deployments/web",
            &["Name", "Ready", "Up-to-date", "Available", "Age"],
        ),
        (
            "/namespaces/shop/deployments/web/scale",
            &["Name", "Desired", "Available", "Age"],
        ),
        ("/widgets", &["Name", "Size"]),
    ] {
        let (status, table) = fixture.send("GET", path, &accept, &Value::Null).await;
        assert_eq!((status, &table["kind"]), (200, &json!("Table")), "{table}");
        let columns = table["columnDefinitions"].as_array().expect("a list").iter();
        let shown: Vec<&str> = columns
            .filter(|column| column["priority"] == 0)
            .filter_map(|column| column["name"].as_str())
            .collect();
        assert_eq!(shown, expected, "{path}");
    }
    let (_, yaml) = fixture
        .send(
            "GET",
            "/widgets",
            &[("accept", "application/json;q=0.5,application/json")],
            &Value::Null,
        )
        .await;
    assert_eq!(yaml["kind"], "WidgetList");
    assert_eq!(
        fixture
            .send("GET", "/widgets", &[("accept", "text/html")], &Value::Null)
            .await
            .0,
        406
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_has_no_status_to_write() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web/status");
    let (status, seen) = fixture.send("GET", &path, &[], &Value::Null).await;
    assert_eq!(
        (status, meta::name(&seen), seen.get("status")),
        (200, "web", None)
    );
    for (method, headers) in [
        ("PUT", &[][..]),
        ("PATCH", &[("content-type", "application/merge-patch+json")]),
    ] {
        assert_eq!(
            fixture.send(method, &path, headers, &deployment("web")).await.0,
            405
        );
    }
    assert_eq!(
        fixture
            .send("GET", &format!("{DEPLOYMENTS}/web/log"), &[], &Value::Null)
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn lists_select_and_come_as_tables() {
    let fixture = Fixture::start().await;
    for name in ["a", "b", "c"] {
        fixture.create(DEPLOYMENTS, &deployment(name)).await;
    }
    fixture
        .create("/namespaces/other/deployments", &deployment("a"))
        .await;
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().expect("a list").iter();
        items
            .map(|item| format!("{}/{}", meta::namespace(item), meta::name(item)))
            .collect()
    };
    for (path, expected) in [
        ("/deployments", vec!["other/a", "shop/a", "shop/b", "shop/c"]),
        (DEPLOYMENTS, vec!["shop/a", "shop/b", "shop/c"]),
        (
            "/deployments?labelSelector=app%20in%20(a,b)",
            vec!["other/a", "shop/a", "shop/b"],
        ),
        ("/deployments?fieldSelector=metadata.name%3Dc", vec!["shop/c"]),
        ("/namespaces/none/deployments", vec![]),
    ] {
        let (status, list) = fixture.send("GET", path, &[], &Value::Null).await;
        assert_eq!(
            (status, names(&list)),
            (200, expected.iter().map(|name| (*name).to_owned()).collect()),
            "{path}"
        );
        assert_eq!(list["kind"], "DeploymentList");
    }
    let (_, page) = fixture
        .send("GET", "/deployments?limit=3", &[], &Value::Null)
        .await;
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let (_, rest) = fixture
        .send(
            "GET",
            &format!("/deployments?limit=3&continue={token}"),
            &[],
            &Value::Null,
        )
        .await;
    assert_eq!((names(&page).len(), names(&rest).len()), (3, 1));
    let accept = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let (_, table) = fixture.send("GET", DEPLOYMENTS, &accept, &Value::Null).await;
    assert_eq!(
        (&table["kind"], &table["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("a"))
    );
    assert_eq!(
        fixture
            .send("GET", "/deployments?fieldSelector=spec.x%3D1", &[], &Value::Null)
            .await
            .0,
        400
    );
    assert_eq!(
        fixture.send("GET", "/subscriptions", &[], &Value::Null).await.0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn watches_show_changes_of_their_kind_only() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("old")).await;
    let request = Request::get(format!(
        "{SHADOW}/deployments?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    ))
    .body(Body::empty())
    .expect("good parts");
    let response = fixture
        .server
        .handle(request, Caller::User(UserInfo::new("jane", &[])))
        .await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(5), body.frame())
            .await
            .expect("an event");
        let bytes = frame
            .expect("a line")
            .expect("no error")
            .into_data()
            .expect("data");
        let event: Value = serde_json::from_slice(&bytes).expect("JSON");
        let kind = event["type"].as_str().expect("a type").to_owned();
        (kind, meta::name(&event["object"]).to_owned(), event)
    };
    let (kind, name, _) = next().await;
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "old"));
    let (kind, _, event) = next().await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(
        meta::annotation(&event["object"], "k8s.io/initial-events-end"),
        Some("true")
    );
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}});
    fixture.create("/namespaces/shop/configmaps", &config_map).await;
    fixture.create(DEPLOYMENTS, &deployment("new")).await;
    let (kind, name, event) = next().await;
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "new"));
    assert_eq!(event["object"]["kind"], "Deployment");
    let (status, _) = fixture
        .send("DELETE", &format!("{DEPLOYMENTS}/old"), &[], &Value::Null)
        .await;
    assert_eq!(status, 200);
    let (kind, name, _) = next().await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "old"));
}

#[tokio::test(start_paused = true)]
async fn deletes_honour_preconditions_and_collections() {
    let fixture = Fixture::start().await;
    for name in ["a", "b", "c"] {
        fixture.create(DEPLOYMENTS, &deployment(name)).await;
    }
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}});
    assert_eq!(
        fixture
            .send("DELETE", &format!("{DEPLOYMENTS}/a"), &[], &options)
            .await
            .0,
        409
    );
    let (status, answer) = fixture
        .send("DELETE", &format!("{DEPLOYMENTS}/a"), &[], &Value::Null)
        .await;
    assert_eq!((status, &answer["status"]), (200, &json!("Success")), "{answer}");
    assert_eq!(
        fixture
            .send("DELETE", &format!("{DEPLOYMENTS}/a"), &[], &Value::Null)
            .await
            .0,
        404
    );
    let (status, _) = fixture
        .send(
            "DELETE",
            &format!("{DEPLOYMENTS}?labelSelector=app%3Db"),
            &[],
            &Value::Null,
        )
        .await;
    assert_eq!(status, 200);
    let (_, list) = fixture.send("GET", DEPLOYMENTS, &[], &Value::Null).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

/// clusternet#528: the namespace controller visits every group.
#[tokio::test(start_paused = true)]
async fn d1_a_namespaces_end_does_not_reach_templates() {
    let fixture = Fixture::start().await;
    fixture.create(DEPLOYMENTS, &deployment("web")).await;
    let controller = "system:serviceaccount:kube-system:namespace-controller";
    let (status, _) = fixture
        .send_as(controller, "DELETE", DEPLOYMENTS, &[], &Value::Null)
        .await;
    assert_eq!(status, 200);
    let (_, rest) = fixture
        .send_as(controller, "GET", DEPLOYMENTS, &[], &Value::Null)
        .await;
    assert_eq!(rest["items"], json!([]), "nothing keeps the namespace from going");
    let (_, list) = fixture.send("GET", DEPLOYMENTS, &[], &Value::Null).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_new_custom_kind_is_shown_and_foreign_equals_do_not_mix() {
    let fixture = Fixture::start().await;
    let widget =
        json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    let created = fixture.create("/namespaces/a/widgets", &widget).await;
    assert_eq!(created["spec"]["size"], 3);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(
        fixture
            .send("PATCH", "/namespaces/a/widgets/w", &strategic, &json!({}))
            .await
            .0,
        415
    );
    let resource = ApiResource::namespaced("other.io", "v1", "widgets", "Widget");
    let mut foreign = fixture.manifest("widgets.a.w").await;
    foreign["metadata"] = json!({"name": "foreign", "namespace": "clusternet-reserved", "labels": {
        "apps.clusternet.io/config.kind": "Widget", "apps.clusternet.io/config.group": resource.group,
        "apps.clusternet.io/config.namespace": "a", "apps.clusternet.io/config.name": "f",
    }});
    fixture
        .client
        .create(&apps::MANIFESTS, Some("clusternet-reserved"), &foreign)
        .await
        .expect("a manifest");
    let (_, list) = fixture.send("GET", "/widgets", &[], &Value::Null).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let (_, discovery) = fixture.send("GET", "", &[], &Value::Null).await;
    let names: Vec<&str> = discovery["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|found| found["name"].as_str())
        .collect();
    assert!(
        names.contains(&"widgets") && names.contains(&"deployments/scale"),
        "{names:?}"
    );
    assert!(!names.contains(&"subscriptions"));
}
