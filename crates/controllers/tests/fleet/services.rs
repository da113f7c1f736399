//! A Service of two clusters on the parent.

use api::{clusters, kubernetes, labels, mcs};
use kubeio::ListOptions;
use machinery::meta;
use serde_json::{Value, json};

use super::harness::Fleet;

const DERIVED: &str = "derived-test-sgvukfmp95";
const COPY: &str = "test-my-service-x7k";

fn marks() -> Value {
    json!({labels::MULTI_CLUSTER_SERVICE_NAME: "my-service", labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "test"})
}

impl Fleet {
    async fn with_services() -> Self {
        let config = controllers::Config::default()
            .with_gates("MultiClusterService=true")
            .unwrap();
        let fleet = Self::start_with(config).await;
        fleet
            .create(
                &kubernetes::NAMESPACES,
                None,
                &json!({"metadata": {"name": "shop"}}),
            )
            .await;
        fleet
    }

    /// What an agent writes for an export.
    async fn export(&self, home: &str, address: &str, port: &str) {
        let mut of = marks();
        of[labels::CREATED_BY] = json!(labels::CREATED_BY_AGENT);
        of["kubernetes.io/service-name"] = json!(DERIVED);
        let slice = json!({"metadata": {"name": COPY, "labels": of}, "addressType": "IPv4",
            "endpoints": [{"addresses": [address, "127.0.0.1"], "conditions": {"ready": true}, "nodeName": "n"}],
            "ports": [{"name": port, "port": 8080}]});
        self.create(&kubernetes::ENDPOINT_SLICES, Some(home), &slice)
            .await;
    }

    async fn import(&self, name: &str, labels: Value) {
        let import = json!({"metadata": {"name": name, "labels": labels},
            "spec": {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]}});
        self.create(&mcs::SERVICE_IMPORTS, Some("shop"), &import).await;
    }

    /// Waits until exactly these addresses are there, each with its cluster.
    async fn await_endpoints(&self, expected: &[&str]) {
        let seen = async || {
            let options = ListOptions::labels(format!("kubernetes.io/service-name={DERIVED}"));
            let slices = self
                .client
                .list(&kubernetes::ENDPOINT_SLICES, Some("shop"), &options)
                .await;
            let mut all: Vec<String> = slices
                .unwrap()
                .items
                .iter()
                .map(|it| {
                    let cluster = meta::label(it, labels::CLUSTER_NAME).unwrap_or_default();
                    format!("{cluster} {}", it["endpoints"][0]["addresses"])
                })
                .collect();
            all.sort();
            (all == expected).then_some(())
        };
        self.wait(&format!("{expected:?}"), seen).await;
    }

    /// Waits until an import names these clusters.
    async fn await_clusters(&self, expected: Value) {
        self.await_object(&mcs::SERVICE_IMPORTS, Some("shop"), "mine", |it| {
            it["status"]["clusters"] == expected
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_gathers_the_endpoints_of_the_clusters_that_export() {
    let mut fleet = Fleet::with_services().await;
    let (north, south) = (fleet.join("north").await, fleet.join("south").await);
    fleet.export(&north, "10.1.0.1", "http").await;
    fleet.import("mine", marks()).await;
    fleet.await_endpoints(&[r#"north ["10.1.0.1"]"#]).await;
    fleet.export(&south, "10.2.0.1", "http").await;
    fleet
        .await_endpoints(&[r#"north ["10.1.0.1"]"#, r#"south ["10.2.0.1"]"#])
        .await;
    fleet
        .await_clusters(json!([{"cluster": "north"}, {"cluster": "south"}]))
        .await;
    let service = fleet.get(&kubernetes::SERVICES, Some("shop"), DERIVED).await;
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["selector"]),
        (&json!("ClusterIP"), &Value::Null)
    );
    let told = fleet
        .await_events("ServiceImport", "mine", "AddressesLeftOut")
        .await;
    assert!(told[0].contains("127.0.0.1"), "{told:?}");

    // An endpoint moves.
    let slices = &kubernetes::ENDPOINT_SLICES;
    let moved = json!({"endpoints": [{"addresses": ["10.1.0.2"]}]});
    fleet.change(slices, &north, COPY, None, &moved).await;
    fleet
        .await_endpoints(&[r#"north ["10.1.0.2"]"#, r#"south ["10.2.0.1"]"#])
        .await;
    // Somebody meddles.
    fleet.delete(&kubernetes::SERVICES, Some("shop"), DERIVED).await;
    fleet
        .await_object(&kubernetes::SERVICES, Some("shop"), DERIVED, |_| true)
        .await;
    // A cluster leaves, another takes its export back.
    fleet
        .delete(&clusters::MANAGED_CLUSTERS, Some(&south), "south")
        .await;
    fleet.await_endpoints(&[r#"north ["10.1.0.2"]"#]).await;
    fleet.delete(slices, Some(&north), COPY).await;
    fleet.await_endpoints(&[]).await;
    fleet.await_clusters(json!([])).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_derived_goes_with_the_import_even_if_nobody_looked() {
    let mut fleet = Fleet::with_services().await;
    let north = fleet.join("north").await;
    fleet.export(&north, "10.1.0.1", "http").await;
    for is_away in [false, true] {
        fleet.import("mine", marks()).await;
        fleet.await_endpoints(&[r#"north ["10.1.0.1"]"#]).await;
        if is_away {
            fleet.stop().await;
        }
        fleet.delete(&mcs::SERVICE_IMPORTS, Some("shop"), "mine").await;
        if is_away {
            fleet.run();
        }
        fleet.await_endpoints(&[]).await;
        fleet
            .await_gone(&kubernetes::SERVICES, Some("shop"), DERIVED)
            .await;
    }
    fleet.get(&kubernetes::ENDPOINT_SLICES, Some(&north), COPY).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_keeps_an_import_from_working_is_told() {
    let mut fleet = Fleet::with_services().await;
    let theirs = json!({"metadata": {"name": DERIVED}, "spec": {"ports": [{"port": 1}]}});
    fleet.create(&kubernetes::SERVICES, Some("shop"), &theirs).await;
    fleet.import("mine", marks()).await;
    fleet.import("bare", json!({})).await;
    fleet
        .await_events("ServiceImport", "mine", "DerivedNameTaken")
        .await;
    fleet
        .await_events("ServiceImport", "bare", "ImportWithoutLabels")
        .await;
    fleet.delete(&kubernetes::SERVICES, Some("shop"), DERIVED).await;
    fleet
        .await_object(&kubernetes::SERVICES, Some("shop"), DERIVED, |it| {
            it["spec"]["ports"][0]["name"] == "http"
        })
        .await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_differ_are_told() {
    let mut fleet = Fleet::with_services().await;
    let (north, south) = (fleet.join("north").await, fleet.join("south").await);
    fleet.export(&north, "10.1.0.1", "http").await;
    fleet.export(&south, "10.2.0.1", "web").await;
    let slices = &kubernetes::ENDPOINT_SLICES;
    let conflict = |it: &Value| meta::annotation(it, "services.clusternet.io/conflict").map(str::to_owned);
    for home in [&north, &south] {
        let told = fleet
            .await_object(slices, Some(home), COPY, |it| conflict(it).is_some())
            .await;
        assert!(conflict(&told).unwrap().contains("\"web\" (TCP)"), "{told}");
    }
    let agreed = json!({"ports": [{"name": "http", "port": 8080}]});
    fleet.change(slices, &south, COPY, None, &agreed).await;
    for home in [&north, &south] {
        fleet
            .await_object(slices, Some(home), COPY, |it| conflict(it).is_none())
            .await;
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_derived_goes_when_the_gate_is_closed() {
    let mut fleet = Fleet::with_services().await;
    let north = fleet.join("north").await;
    fleet.export(&north, "10.1.0.1", "http").await;
    fleet.import("mine", marks()).await;
    fleet.await_endpoints(&[r#"north ["10.1.0.1"]"#]).await;
    fleet.stop().await;
    fleet.config = controllers::Config::default()
        .with_controllers(["-serviceimport", "*"])
        .unwrap();
    fleet.run();
    // Another process may have the controller.
    fleet.join("south").await;
    fleet.await_endpoints(&[r#"north ["10.1.0.1"]"#]).await;
    fleet.stop().await;
    fleet.config = controllers::Config::default();
    fleet.run();
    fleet.await_endpoints(&[]).await;
    fleet
        .await_gone(&kubernetes::SERVICES, Some("shop"), DERIVED)
        .await;
    fleet.get(&kubernetes::ENDPOINT_SLICES, Some(&north), COPY).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_imported() {
    let mut fleet = Fleet::start().await;
    let shop = json!({"metadata": {"name": "shop"}});
    fleet.create(&kubernetes::NAMESPACES, None, &shop).await;
    fleet.import("mine", marks()).await;
    // Somebody else's request is answered after it.
    fleet.join("north").await;
    let derived = fleet
        .client
        .get_opt(&kubernetes::SERVICES, Some("shop"), DERIVED)
        .await;
    assert_eq!(derived.unwrap(), None);
    fleet.stop().await;
}
