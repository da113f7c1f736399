//! Clusters of Cluster API, whose management cluster is played by hand.

use std::sync::Arc;

use api::{kubernetes, secret};
use clock::Env;
use controllers::{Clients, Config};
use machinery::ApiResource;
use runtime::CancellationToken;
use serde_json::{Value, json};
use testplane::{Plane, StandingClock, paused_env};

const CLUSTERS: ApiResource = ApiResource::namespaced("cluster.x-k8s.io", "v1beta1", "clusters", "Cluster");
const SETS: ApiResource = ApiResource::namespaced(
    "addons.cluster.x-k8s.io",
    "v1beta1",
    "clusterresourcesets",
    "ClusterResourceSet",
);

/// A definition that lets everything through.
fn definition(resource: &ApiResource) -> Value {
    json!({
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group, "scope": "Namespaced",
            "names": {
                "plural": resource.plural, "kind": resource.kind,
                "singular": resource.kind.to_lowercase(), "listKind": format!("{}List", resource.kind),
            },
            "versions": [{
                "name": resource.version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn settings(image: &str) -> Value {
    json!({
        "metadata": {"name": "clusternet-cluster-api", "namespace": "capi-system"},
        "data": {
            "image": secret::encode(image), "parentURL": secret::encode("https://hub.example.com"),
            "regToken": secret::encode("abcdef.0123456789abcdef"),
        },
    })
}

async fn provision(plane: &Plane, namespace: &str, name: &str) {
    let cluster = json!({"metadata": {"name": name, "namespace": namespace}});
    plane.create(&CLUSTERS, Some(namespace), &cluster).await;
    plane
        .change_status(&CLUSTERS, Some(namespace), name, &json!({"phase": "Provisioned"}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn provisioned_clusters_get_the_agent_and_follow_the_settings() {
    let env = Env {
        clock: Arc::new(StandingClock::default()),
        ..paused_env()
    };
    let parent = Plane::start_parent(&env).await;
    let management = Plane::start(&env).await;
    for resource in [&CLUSTERS, &SETS] {
        management
            .create(
                &kubernetes::CUSTOM_RESOURCE_DEFINITIONS,
                None,
                &definition(resource),
            )
            .await;
    }
    management.create_namespaces(&["capi-system", "old", "new"]).await;
    // It was there before anybody looked.
    provision(&management, "old", "first").await;

    let stop = CancellationToken::new();
    let clients = Clients {
        parent: parent.client.clone(),
        cluster_api: Some(management.client.clone()),
    };
    let config = Config::default().with_controllers(["clusterdiscovery"]).unwrap();
    let running = tokio::spawn(controllers::run(config, clients, env, stop.clone()));

    // Half of what is needed is told.
    let mut half = settings("tombolo:1");
    half["data"]["regToken"] = json!("");
    let home = Some("capi-system");
    management.create(&kubernetes::SECRETS, home, &half).await;
    management
        .await_any(&kubernetes::EVENTS, home, |event| {
            event["reason"] == "FailedClusterDiscovery"
                && event["message"].as_str().unwrap().contains("\"regToken\"")
        })
        .await;
    assert!(management.list(&SETS, Some("old")).await.is_empty());

    let name = "clusternet-cluster-api";
    let whole = settings("tombolo:1");
    management.change(&kubernetes::SECRETS, home, name, &whole).await;
    let set = management.await_object(&SETS, Some("old"), name, |_| true).await;
    for reference in set["spec"]["resources"].as_array().unwrap() {
        let resource = match reference["kind"].as_str().unwrap() {
            "Secret" => kubernetes::SECRETS,
            _ => kubernetes::CONFIG_MAPS,
        };
        let name = reference["name"].as_str().unwrap();
        management.get(&resource, Some("old"), name).await;
    }
    management
        .await_object(&CLUSTERS, Some("old"), "first", |cluster| {
            cluster["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "first"
        })
        .await;

    // One that comes later, and one that is not there yet.
    provision(&management, "new", "second").await;
    management.await_object(&SETS, Some("new"), name, |_| true).await;
    management
        .change(&kubernetes::SECRETS, home, name, &settings("tombolo:2"))
        .await;
    for namespace in ["old", "new"] {
        management
            .await_object(
                &kubernetes::CONFIG_MAPS,
                Some(namespace),
                "clusternet-agent-deploy",
                |map| map["data"]["deploy.yaml"].as_str().unwrap().contains("tombolo:2"),
            )
            .await;
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
