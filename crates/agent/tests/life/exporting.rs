//! What the child exports is on the parent as long as it is exported.

use api::{finalizers, kubernetes, labels, mcs};
use machinery::meta;
use serde_json::{Value, json};

use crate::harness::{Agent, NAMESPACE, World, namespace};

const COPY: &str = "test-my-service-x7k";

impl World {
    /// A child with the gate open, and a Service with one endpoint.
    async fn exporting() -> (Self, Agent) {
        let mut world = Self::start().await;
        world.config.gates.multi_cluster_service = true;
        let objects = &world.child;
        objects
            .create(&kubernetes::NAMESPACES, None, &namespace("test"))
            .await
            .unwrap();
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "my-service"},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}});
        objects
            .create(&kubernetes::SERVICES, Some("test"), &service)
            .await
            .unwrap();
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "my-service-x7k", "labels": {"kubernetes.io/service-name": "my-service"}},
            "addressType": "IPv4", "endpoints": endpoints("10.0.0.1"), "ports": [{"port": 8080}]});
        objects
            .create(&kubernetes::ENDPOINT_SLICES, Some("test"), &slice)
            .await
            .unwrap();
        let agent = world.agent();
        world.approve("token-1").await;
        (world, agent)
    }

    /// The definition of ServiceExports.
    async fn define(&self) {
        let crds = api::crds();
        let crd = crds
            .iter()
            .find(|it| it["spec"]["names"]["plural"] == "serviceexports");
        self.child
            .create(
                &kubernetes::CUSTOM_RESOURCE_DEFINITIONS,
                None,
                crd.expect("it is ours"),
            )
            .await
            .unwrap();
    }

    async fn export(&self, name: &str) {
        let export = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {"name": name}});
        let (exports, place) = (&mcs::SERVICE_EXPORTS, Some("test"));
        // A definition is served a moment after it is there.
        for _ in 0..100 {
            match self.child.create(exports, place, &export).await {
                Ok(_) => return,
                Err(error) if error.is_not_found() => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("ServiceExports are never served");
    }

    async fn copy(&self, address: &str) -> Value {
        let slices = &kubernetes::ENDPOINT_SLICES;
        self.wait(&self.parent, slices, Some(NAMESPACE), COPY, |it| {
            it["endpoints"][0]["addresses"] == json!([address])
        })
        .await
    }

    /// Waits until an export says something about a condition.
    async fn says(&self, name: &str, kind: &str, status: &str, reason: &str) -> Value {
        let exports = &mcs::SERVICE_EXPORTS;
        self.wait(&self.child, exports, Some("test"), name, |it| {
            let conditions = it["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == kind && condition["status"] == status && condition["reason"] == reason
            })
        })
        .await
    }

    /// Whether the agent began to watch something in the child.
    fn watched(&self, path: &str) -> bool {
        let asked = self.asked.lock().unwrap();
        let begin = format!("GET {path}?");
        asked
            .iter()
            .any(|line| line.starts_with(&begin) && line.contains("watch="))
    }
}

fn endpoints(address: &str) -> Value {
    json!([{"addresses": [address], "conditions": {"ready": true}, "nodeName": "n"}])
}

#[tokio::test(start_paused = true)]
async fn an_export_arrives_changes_and_goes() {
    let (world, agent) = World::exporting().await;
    world.define().await;
    world.export("other").await;
    world.says("other", "Valid", "False", "ServiceNotFound").await;
    world.export("my-service").await;
    let copy = world.copy("10.0.0.1").await;
    assert_eq!(
        meta::label(&copy, "kubernetes.io/service-name"),
        Some("derived-test-sgvukfmp95")
    );
    assert!(copy["endpoints"][0]["nodeName"].is_null());
    let export = world.says("my-service", "Valid", "True", "Exported").await;
    assert!(meta::has_finalizer(&export, finalizers::APP));

    let change = json!({"endpoints": endpoints("10.0.0.2")});
    let slices = &kubernetes::ENDPOINT_SLICES;
    world
        .change(&world.child, slices, Some("test"), "my-service-x7k", &change)
        .await;
    world.copy("10.0.0.2").await;
    let label = json!({"metadata": {"labels": {labels::SUBSCRIPTION_NAMESPACE: "shop"}}});
    world
        .change(
            &world.child,
            &mcs::SERVICE_EXPORTS,
            Some("test"),
            "my-service",
            &label,
        )
        .await;
    world
        .wait(&world.parent, slices, Some(NAMESPACE), COPY, |it| {
            meta::label(it, labels::SUBSCRIPTION_NAMESPACE) == Some("shop")
        })
        .await;
    // What somebody does to the copy is undone, and what the parent says is passed on.
    let change = json!({"endpoints": [], "metadata": {"annotations": {"services.clusternet.io/conflict": "they differ"}}});
    world
        .change(&world.parent, slices, Some(NAMESPACE), COPY, &change)
        .await;
    world.copy("10.0.0.2").await;
    world.says("my-service", "Conflict", "True", "PortsDiffer").await;

    let exports = &mcs::SERVICE_EXPORTS;
    world
        .delete(&world.child, exports, Some("test"), "my-service")
        .await;
    world.gone(&world.parent, slices, Some(NAMESPACE), COPY).await;
    world
        .gone(&world.child, exports, Some("test"), "my-service")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_child_is_watched_only_while_there_is_an_export() {
    let paths = ["/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"];
    let (world, agent) = World::exporting().await;
    world.define().await;
    world
        .wait_one(&api::clusters::MANAGED_CLUSTERS, Some(NAMESPACE), |it| {
            it["status"]["lastObservedTime"].is_string()
        })
        .await;
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(paths.map(|path| world.watched(path)), [false; 2]);
    world.export("my-service").await;
    world.copy("10.0.0.1").await;
    assert_eq!(paths.map(|path| world.watched(path)), [true; 2]);
    let exports = &mcs::SERVICE_EXPORTS;
    world
        .delete(&world.child, exports, Some("test"), "my-service")
        .await;
    world
        .gone(&world.child, exports, Some("test"), "my-service")
        .await;
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    world.asked.lock().unwrap().clear();
    // Longer than a watch lasts.
    tokio::time::sleep(std::time::Duration::from_mins(11)).await;
    assert_eq!(paths.map(|path| world.watched(path)), [false; 2]);
    world.export("my-service").await;
    world.copy("10.0.0.1").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_export_that_went_while_the_agent_was_away_leaves_no_copy() {
    let (world, agent) = World::exporting().await;
    world.define().await;
    world.export("my-service").await;
    world.says("my-service", "Valid", "True", "Exported").await;
    agent.stop().await;
    let exports = &mcs::SERVICE_EXPORTS;
    let without = json!({"metadata": {"finalizers": []}});
    world
        .change(&world.child, exports, Some("test"), "my-service", &without)
        .await;
    world
        .delete(&world.child, exports, Some("test"), "my-service")
        .await;
    world.copy("10.0.0.1").await;
    let agent = world.agent();
    world
        .gone(&world.parent, &kubernetes::ENDPOINT_SLICES, Some(NAMESPACE), COPY)
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_keeps_what_is_there() {
    let (world, agent) = World::exporting().await;
    world.define().await;
    world.export("my-service").await;
    world.copy("10.0.0.1").await;
    agent.stop().await;
    world
        .forbidden
        .lock()
        .unwrap()
        .push("GET /apis/discovery.k8s.io/v1/endpointslices".to_owned());
    let agent = world.agent();
    tokio::time::sleep(std::time::Duration::from_mins(3)).await;
    world.copy("10.0.0.1").await;
    world.forbidden.lock().unwrap().clear();
    let change = json!({"endpoints": endpoints("10.0.0.2")});
    world
        .change(
            &world.child,
            &kubernetes::ENDPOINT_SLICES,
            Some("test"),
            "my-service-x7k",
            &change,
        )
        .await;
    world.copy("10.0.0.2").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_everything_is_taken_back() {
    let (mut world, agent) = World::exporting().await;
    world.define().await;
    world.export("my-service").await;
    world.copy("10.0.0.1").await;
    agent.stop().await;
    let theirs = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "theirs", "labels": {
        labels::MULTI_CLUSTER_SERVICE_NAME: "my-service", labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "test"}}, "addressType": "IPv4"});
    let slices = &kubernetes::ENDPOINT_SLICES;
    world
        .parent
        .create(slices, Some(NAMESPACE), &theirs)
        .await
        .unwrap();
    world.config.gates.multi_cluster_service = false;
    let agent = world.agent();
    world.gone(&world.parent, slices, Some(NAMESPACE), COPY).await;
    let free = |it: &Value| !meta::has_finalizer(it, finalizers::APP);
    let exports = &mcs::SERVICE_EXPORTS;
    world
        .wait(&world.child, exports, Some("test"), "my-service", free)
        .await;
    world.says("my-service", "Valid", "False", "NotServed").await;
    world
        .parent
        .get(slices, Some(NAMESPACE), "theirs")
        .await
        .expect("it is not ours");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_lets_its_exports_go() {
    let (world, agent) = World::exporting().await;
    world.define().await;
    world.export("my-service").await;
    world.copy("10.0.0.1").await;
    agent.stop().await;
    let leaving = agent::Leaving::default();
    let left = agent::leave(&world.child, Some(&world.parent), &leaving)
        .await
        .unwrap();
    assert_eq!(left.remaining, Vec::<String>::new());
    let exports = &mcs::SERVICE_EXPORTS;
    let export = world
        .child
        .get(exports, Some("test"), "my-service")
        .await
        .unwrap();
    assert_eq!(meta::finalizers(&export).count(), 0);
}
