//! The scheduler against a server in this process.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::{apps, clusters, kubernetes};
use apiserver::{ApiServer, Body, UserInfo};
use bytes::Bytes;
use clock::Env;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use kubeio::{Client, DeleteOptions, ListOptions, Patch};
use machinery::ApiResource;
use runtime::CancellationToken;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

struct Parent {
    client: Client,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Holds the scheduler's writes back.
struct Gate {
    /// Of the Subscriptions whose names begin so.
    name: &'static str,
    /// How many may pass.
    opened: Semaphore,
    waiting: watch::Sender<usize>,
    /// How many waited at once.
    most: AtomicUsize,
    /// What the next of its writes are answered with, the last first.
    refusals: Mutex<Vec<u16>>,
}

impl Gate {
    fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            opened: Semaphore::new(0),
            waiting: watch::Sender::new(0),
            most: AtomicUsize::new(0),
            refusals: Mutex::default(),
        })
    }

    /// Waits until a request may pass; answers with what it is refused, if it is.
    async fn pass(&self, request: &Request<Full<Bytes>>) -> Option<u16> {
        let path = request.uri().path();
        if request.method() != Method::PATCH || !path.contains(self.name) {
            return None;
        }
        self.waiting.send_modify(|waiting| *waiting += 1);
        self.most.fetch_max(*self.waiting.borrow(), Ordering::Relaxed);
        self.opened.acquire().await.unwrap().forget();
        self.waiting.send_modify(|waiting| *waiting -= 1);
        self.refusals.lock().unwrap().pop()
    }

    async fn await_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|waiting| *waiting == count).await.unwrap();
    }
}

impl Parent {
    async fn start() -> Self {
        Self::start_behind(Gate::new("nobody")).await
    }

    async fn start_behind(gate: Arc<Gate>) -> Self {
        let env = Env::system();
        let disk = clock::disk::SimDisk::new(1);
        let store = store::Store::open(
            Arc::new(disk),
            store::Options::new(env.clone()),
            store::Mode::Inline,
        )
        .unwrap();
        let config = apiserver::Config::new(store, env.clone(), Arc::new(apiserver::authz::AllowAll));
        let server = ApiServer::start(config).await.unwrap();
        let client = Client::from_service(server.client_service(UserInfo::loopback()));
        for crd in api::crds() {
            client
                .create(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, &crd)
                .await
                .unwrap();
        }
        for name in ["default", "ns-a", "ns-b"] {
            client
                .create(
                    &kubernetes::NAMESPACES,
                    None,
                    &json!({"metadata": {"name": name}}),
                )
                .await
                .unwrap();
        }
        let stop = CancellationToken::new();
        let service = server.client_service(UserInfo::loopback());
        let its_client = Client::from_service(tower::service_fn(move |request| {
            let (gate, service) = (Arc::clone(&gate), service.clone());
            async move {
                let Some(code) = gate.pass(&request).await else {
                    return service.oneshot(request).await;
                };
                let status =
                    json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "not now"});
                let mut refusal = Response::new(Body::from(status.to_string()));
                *refusal.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok(refusal)
            }
        }));
        let its_stop = stop.clone();
        let run = async move {
            scheduler::run(scheduler::Config::default(), its_client, env, its_stop)
                .await
                .unwrap()
        };
        Self {
            client,
            stop,
            task: tokio::spawn(run),
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Creates an object; its `apiVersion` and kind are filled in.
    async fn create(&self, resource: &ApiResource, namespace: &str, object: &Value) {
        let mut object = object.clone();
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        self.client
            .create(resource, Some(namespace), &object)
            .await
            .unwrap();
    }

    async fn subscribe(&self, area: &str) {
        self.subscribe_as("app", area).await;
    }

    async fn subscribe_as(&self, name: &str, area: &str) {
        let subscription = json!({"metadata": {"name": name}, "spec": {
            "subscribers": [{"clusterAffinity": {"matchLabels": {"area": area}}}],
            "feeds": [{"apiVersion": "v1", "kind": "Namespace", "name": "foo"}],
        }});
        self.create(&apps::SUBSCRIPTIONS, "default", &subscription).await;
    }

    async fn cluster(&self, name: &str, area: &str) {
        let cluster = json!({"metadata": {"name": name, "labels": {"area": area}},
            "spec": {"clusterId": Env::system().uuid(), "clusterType": "EdgeCluster", "syncMode": "Pull"}});
        self.create(&clusters::MANAGED_CLUSTERS, &format!("ns-{name}"), &cluster)
            .await;
    }

    async fn change(&self, cluster: &str, patch: &Value) {
        let home = format!("ns-{cluster}");
        self.client
            .patch(
                &clusters::MANAGED_CLUSTERS,
                Some(&home),
                cluster,
                None,
                Patch::Merge,
                patch,
            )
            .await
            .unwrap();
    }

    async fn edit(&self, name: &str, patch: &Value) {
        let resource = &apps::SUBSCRIPTIONS;
        self.client
            .patch(resource, Some("default"), name, None, Patch::Merge, patch)
            .await
            .unwrap();
    }

    /// Waits until the condition `Scheduled` of the Subscription says this, and returns its message.
    async fn await_scheduled(&self, status: &str, reason: &str) -> String {
        for _ in 0..400 {
            let object = self
                .client
                .get(&apps::SUBSCRIPTIONS, Some("default"), "app")
                .await
                .unwrap();
            let conditions = object["status"]["conditions"].as_array();
            let mut said = conditions.into_iter().flatten();
            if let Some(said) =
                said.find(|it| it["type"] == "Scheduled" && it["status"] == status && it["reason"] == reason)
            {
                return said["message"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never Scheduled={status} for {reason}");
    }

    async fn await_bound(&self, expected: &[&str]) -> Value {
        self.await_bound_as("app", expected).await
    }

    async fn await_bound_as(&self, name: &str, expected: &[&str]) -> Value {
        for _ in 0..400 {
            let object = self
                .client
                .get(&apps::SUBSCRIPTIONS, Some("default"), name)
                .await
                .unwrap();
            if object["status"]["bindingClusters"] == json!(expected) {
                return object;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never bound to {expected:?}");
    }

    async fn await_event(&self, reason: &str) -> String {
        for _ in 0..400 {
            let events = self
                .client
                .list(&kubernetes::EVENTS, None, &ListOptions::default())
                .await
                .unwrap()
                .items;
            if let Some(event) = events.iter().rev().find(|event| event["reason"] == reason) {
                return event["message"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no event {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn binds_and_follows_the_clusters() {
    let parent = Parent::start().await;
    parent.subscribe("1").await;
    parent.cluster("b", "1").await;
    parent.cluster("a", "2").await;
    let bound = parent.await_bound(&["ns-b/b"]).await;
    assert_eq!(bound["status"]["desiredReleases"], 1);
    assert!(bound["status"]["specHash"].is_u64());
    assert_eq!(
        parent.await_event("Scheduled").await,
        "Successfully assigned default/app to ns-b/b"
    );
    parent
        .change("a", &json!({"metadata": {"labels": {"area": "1"}}}))
        .await;
    parent.await_bound(&["ns-a/a", "ns-b/b"]).await;
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    parent.change("b", &json!({"spec": {"taints": taint}})).await;
    parent.await_bound(&["ns-a/a"]).await;
    parent.change("b", &json!({"spec": {"taints": []}})).await;
    parent.await_bound(&["ns-a/a", "ns-b/b"]).await;
    let options = DeleteOptions::background();
    parent
        .client
        .delete(&clusters::MANAGED_CLUSTERS, Some("ns-b"), "b", &options)
        .await
        .unwrap();
    parent.await_bound(&["ns-a/a"]).await;
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_unbinds_nothing() {
    let parent = Parent::start().await;
    parent.cluster("a", "1").await;
    parent.subscribe("1").await;
    parent.await_bound(&["ns-a/a"]).await;
    let silent = json!({"key": api::reasons::TAINT_UNSCHEDULABLE, "value": "ClusterStatusUnknown", "effect": "NoSchedule"});
    parent.change("a", &json!({"spec": {"taints": [silent]}})).await;
    // The next decision sees both: the taint of `a` and a cluster to compare with.
    parent.cluster("b", "1").await;
    parent.await_bound(&["ns-a/a", "ns-b/b"]).await;
    let own = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    parent
        .change("a", &json!({"spec": {"taints": [silent, own]}}))
        .await;
    parent.await_bound(&["ns-b/b"]).await;
    // What a user took away does not come back before the cluster is ready.
    parent.change("a", &json!({"spec": {"taints": [silent]}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    parent.await_bound(&["ns-b/b"]).await;
    parent.change("a", &json!({"spec": {"taints": []}})).await;
    parent.await_bound(&["ns-a/a", "ns-b/b"]).await;
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn keeps_the_last_binding_when_nothing_fits_and_says_so() {
    let parent = Parent::start().await;
    parent.cluster("a", "1").await;
    parent.subscribe("1").await;
    parent.await_bound(&["ns-a/a"]).await;
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    parent.change("a", &json!({"spec": {"taints": taint}})).await;
    assert_eq!(
        parent.await_event("FailedScheduling").await,
        "0/1 clusters are available: 1 cluster(s) had taint {k: v}, that the subscription didn't tolerate. \
         The present binding to 1 cluster(s) is kept."
    );
    parent.await_bound(&["ns-a/a"]).await;
    let options = DeleteOptions::background();
    parent
        .client
        .delete(&clusters::MANAGED_CLUSTERS, Some("ns-a"), "a", &options)
        .await
        .unwrap();
    // A cluster that is gone is no copy to keep.
    parent.await_bound(&[]).await;
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_edited_into_nonsense_stays_bound_and_says_so_until_it_makes_sense_again() {
    let parent = Parent::start().await;
    parent.cluster("a", "1").await;
    parent.subscribe("1").await;
    parent.await_bound(&["ns-a/a"]).await;
    parent.await_scheduled("True", "Scheduled").await;
    let subscribers = |operator: &str| {
        let expression = json!({"key": "area", "operator": operator, "values": ["1"]});
        json!({"spec": {"subscribers": [{"clusterAffinity": {"matchExpressions": [expression]}}]}})
    };
    for _ in 0..2 {
        parent.edit("app", &subscribers("Foo")).await;
        let said = parent.await_scheduled("False", "InvalidSpec").await;
        assert!(
            said.contains("Foo") && said.ends_with("; what is bound stays bound"),
            "{said}"
        );
        parent.await_bound(&["ns-a/a"]).await;
        parent.edit("app", &subscribers("In")).await;
        let said = parent.await_scheduled("True", "Scheduled").await;
        assert_eq!(said, "bound to 1 cluster(s)");
    }
    // It is followed as before.
    parent.cluster("b", "1").await;
    parent.await_bound(&["ns-a/a", "ns-b/b"]).await;
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leaves_other_schedulers_work_alone() {
    let parent = Parent::start().await;
    parent.cluster("a", "1").await;
    let theirs = json!({"metadata": {"name": "theirs"}, "spec": {"schedulerName": "mine",
        "subscribers": [{"clusterAffinity": {}}], "feeds": []}});
    parent.create(&apps::SUBSCRIPTIONS, "default", &theirs).await;
    parent.subscribe("1").await;
    parent.await_bound(&["ns-a/a"]).await;
    let theirs = parent
        .client
        .get(&apps::SUBSCRIPTIONS, Some("default"), "theirs")
        .await
        .unwrap();
    assert!(theirs["status"]["bindingClusters"].is_null());
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_slow_write_holds_up_no_other_subscription() {
    let gate = Gate::new("slow");
    let parent = Parent::start_behind(Arc::clone(&gate)).await;
    parent.cluster("a", "1").await;
    for name in ["slow-1", "slow-2", "slow-3", "fast"] {
        parent.subscribe_as(name, "1").await;
    }
    parent.await_bound_as("fast", &["ns-a/a"]).await;
    gate.await_waiting(3).await;
    gate.opened.add_permits(3);
    for name in ["slow-1", "slow-2", "slow-3"] {
        parent.await_bound_as(name, &["ns-a/a"]).await;
    }
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_being_written_is_decided_again_when_the_answer_is_there() {
    let gate = Gate::new("slow");
    let parent = Parent::start_behind(Arc::clone(&gate)).await;
    parent.cluster("a", "1").await;
    parent.subscribe_as("slow", "1").await;
    gate.await_waiting(1).await;
    // Somebody else writes into its status first.
    let others = json!({"status": {"completedReleases": 1}});
    parent
        .client
        .patch(
            &apps::SUBSCRIPTIONS,
            Some("default"),
            "slow",
            Some("status"),
            Patch::Merge,
            &others,
        )
        .await
        .unwrap();
    parent.subscribe_as("fast", "1").await;
    parent.cluster("b", "1").await;
    // It has seen both clusters then.
    parent.await_bound_as("fast", &["ns-a/a", "ns-b/b"]).await;
    // The first status, which comes too late, then twice a binding and its conditions.
    gate.opened.add_permits(5);
    let bound = parent.await_bound_as("slow", &["ns-a/a", "ns-b/b"]).await;
    assert_eq!(bound["status"]["completedReleases"], 1);
    assert_eq!(gate.most.load(Ordering::Relaxed), 1, "never two at once");
    parent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_said_is_said_later() {
    for refusals in [vec![500], vec![429, 503], vec![409; 9]] {
        let gate = Gate::new("app");
        gate.opened.add_permits(100);
        gate.refusals.lock().unwrap().clone_from(&refusals);
        let parent = Parent::start_behind(Arc::clone(&gate)).await;
        parent.cluster("a", "2").await;
        // Nothing fits, and nothing changes any more.
        parent.subscribe("1").await;
        let said = async {
            loop {
                let (resource, home) = (&apps::SUBSCRIPTIONS, Some("default"));
                let object = parent.client.get(resource, home, "app").await.unwrap();
                if object["status"]["conditions"][0]["reason"] == "Unschedulable" {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let said = tokio::time::timeout(Duration::from_mins(2), said).await;
        assert!(said.is_ok(), "{refusals:?}");
        assert!(gate.refusals.lock().unwrap().is_empty());
        parent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_write_into_the_status_makes_no_difference() {
    let parent = Parent::start().await;
    parent.cluster("a", "1").await;
    parent.subscribe("1").await;
    let bound = parent.await_bound(&["ns-a/a"]).await;
    let others = json!({"status": {"completedReleases": 1, "aggregatedStatuses": []}});
    parent
        .client
        .patch(
            &apps::SUBSCRIPTIONS,
            Some("default"),
            "app",
            Some("status"),
            Patch::Merge,
            &others,
        )
        .await
        .unwrap();
    parent
        .change("a", &json!({"metadata": {"labels": {"area": "2"}}}))
        .await;
    parent.cluster("b", "1").await;
    let now = parent.await_bound(&["ns-b/b"]).await;
    assert_eq!(now["status"]["completedReleases"], 1);
    assert_eq!(now["status"]["specHash"], bound["status"]["specHash"]);
    parent.stop().await;
}
