//! Replicas that two clusters share: the scheduler against a server in this process.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod fail_over;
mod settling;

use std::time::Duration;

use api::{apps, clusters};
use clock::Env;
use kubeio::CancellationToken;
use serde_json::{Value, json};
use testplane::Plane;
use tokio::task::JoinHandle;

const WEB: &str = "apps/v1/Deployment/shop/web";

struct World {
    env: Env,
    plane: Plane,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn feed() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"})
}

fn wants(replicas: u32) -> Value {
    let mut feed = feed();
    feed["desiredReplicas"] = json!(replicas);
    feed["replicaJsonPath"] = json!("/spec/replicas");
    json!({"feeds": [feed]})
}

fn weights(second: u32) -> Value {
    let one = |name: &str, weight: u32| json!({"clusterAffinity": {"matchLabels": {"name": name}}, "weight": weight});
    json!([one("a", 1), one("b", second)])
}

impl World {
    /// Two clusters that share ten replicas.
    async fn start() -> Self {
        let env = testplane::paused_env();
        let plane = Plane::start_parent(&env).await;
        plane.create_namespaces(&["default", "ns-a", "ns-b"]).await;
        for name in ["a", "b"] {
            let cluster = json!({"metadata": {"name": name, "labels": {"name": name}}, "spec":
            {"clusterId": env.uuid(), "clusterType": "EdgeCluster", "syncMode": "Pull"}});
            let home = format!("ns-{name}");
            plane
                .create(&clusters::MANAGED_CLUSTERS, Some(&home), &cluster)
                .await;
        }
        let inventory = json!({"metadata": {"name": "app"}, "spec": wants(10)});
        plane
            .create(&apps::FEED_INVENTORIES, Some("default"), &inventory)
            .await;
        let spec = json!({"schedulingStrategy": "Dividing", "subscribers": weights(1), "feeds": [feed()]});
        let subscription = json!({"metadata": {"name": "app"}, "spec": spec});
        plane
            .create(&apps::SUBSCRIPTIONS, Some("default"), &subscription)
            .await;
        let stop = CancellationToken::new();
        let run = scheduler::run(
            scheduler::Config::default(),
            plane.client.clone(),
            env.clone(),
            stop.clone(),
        );
        let task = tokio::spawn(async move { run.await.unwrap() });
        let world = Self {
            env,
            plane,
            stop,
            task,
        };
        world.await_split(&[5, 5]).await;
        world
    }

    async fn subscription(&self, patch: Value) {
        self.plane
            .change(&apps::SUBSCRIPTIONS, Some("default"), "app", &patch)
            .await;
    }

    async fn inventory(&self, replicas: u32) {
        let patch = json!({"spec": wants(replicas)});
        self.plane
            .change(&apps::FEED_INVENTORIES, Some("default"), "app", &patch)
            .await;
    }

    async fn split(&self) -> Value {
        let object = self.plane.get(&apps::SUBSCRIPTIONS, Some("default"), "app").await;
        object["status"]["replicas"][WEB].clone()
    }

    async fn await_split(&self, expected: &[u32]) {
        let is = |it: &Value| it["status"]["replicas"][WEB] == json!(expected);
        self.plane
            .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", is)
            .await;
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
