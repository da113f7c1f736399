//! Dividing by room against a server in this process, with predictors behind its proxy.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::{apps, clusters, kubernetes};
use apiserver::UserInfo;
use bytes::Bytes;
use clock::Env;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kubeio::{BoxError, Client};
use runtime::CancellationToken;
use serde_json::{Value, json};
use testplane::Plane;
use tower::ServiceExt as _;

/// What a cluster's predictor says; nothing at all if it hangs.
type Rooms = Arc<Mutex<BTreeMap<String, Option<u32>>>>;

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// A client of the plane whose proxy leads to predictors.
fn with_predictors(plane: &Plane, rooms: &Rooms) -> Client {
    let (server, rooms) = (plane.server.clone(), Arc::clone(rooms));
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (inner, rooms) = (server.client_service(UserInfo::loopback()), Arc::clone(&rooms));
        async move {
            let path = request.uri().path().to_owned();
            let Some(id) = path
                .strip_prefix("/apis/proxies.clusternet.io/v1alpha1/sockets/")
                .and_then(|rest| rest.strip_suffix("/proxy/http/localhost:8080/replicas/predict"))
            else {
                let answer = inner.oneshot(request).await.map_err(BoxError::from)?;
                return Ok::<Answer, BoxError>(
                    answer.map(|body| UnsyncBoxBody::new(body.map_err(Into::into))),
                );
            };
            assert_eq!(request.method(), Method::POST);
            assert_eq!(request.headers()["Cluster-ID"], id);
            let body = request.into_body().collect().await?.to_bytes();
            let question: Value = serde_json::from_slice(&body)?;
            assert_eq!(question["resources"]["requests"]["cpu"], "1");
            let room = rooms.lock().unwrap()[id];
            let Some(room) = room else {
                return std::future::pending().await;
            };
            let text = json!({"replicas": {"default": room}}).to_string();
            let body = UnsyncBoxBody::new(Full::new(Bytes::from(text)).map_err(|never| match never {}));
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::OK;
            Ok(answer)
        }
    });
    Client::from_service(service)
}

fn cluster_id(name: &str) -> String {
    format!("00000000-0000-4000-8000-{name:0>12}")
}

async fn join(plane: &Plane, rooms: &Rooms, name: &str, room: Option<u32>) {
    let home = format!("ns-{name}");
    rooms.lock().unwrap().insert(cluster_id(name), room);
    plane.create_namespaces(&[&home]).await;
    let cluster = json!({"metadata": {"name": name, "labels": {"area": "1"}},
        "spec": {"clusterId": cluster_id(name), "clusterType": "EdgeCluster", "syncMode": "Pull"}});
    plane
        .create(&clusters::MANAGED_CLUSTERS, Some(&home), &cluster)
        .await;
    let status =
        json!({"predictorEnabled": true, "predictorAddress": "http://localhost:8080", "useSocket": true});
    plane
        .change_status(&clusters::MANAGED_CLUSTERS, Some(&home), name, &status)
        .await;
}

fn feeds() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web"}])
}

fn inventory(desired: u32) -> Value {
    let mut feeds = feeds();
    feeds[0]["desiredReplicas"] = json!(desired);
    feeds[0]["replicaJsonPath"] = json!("/spec/replicas");
    feeds[0]["replicaRequirements"] = json!({"resources": {"requests": {"cpu": "1"}}});
    json!({"metadata": {"name": "app"}, "spec": {"feeds": feeds}})
}

async fn subscribe(plane: &Plane, name: &str, mut spec: Value) {
    spec["subscribers"] = json!([{"clusterAffinity": {"matchLabels": {"area": "1"}}}]);
    spec["feeds"] = feeds();
    let subscription = json!({"metadata": {"name": name}, "spec": spec});
    plane
        .create(&apps::SUBSCRIPTIONS, Some("default"), &subscription)
        .await;
}

/// A scheduler at work.
struct Running {
    /// Its metrics as text.
    metrics: Box<dyn Fn() -> String>,
    end: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.end.cancel();
        self.task.await.unwrap();
    }
}

/// Starts a scheduler, and has it divide six replicas by the room that clusters have.
async fn divide(plane: &Plane, rooms: &Rooms, env: Env) -> Running {
    let config = scheduler::Config::default();
    let metrics = config.metrics.clone();
    let end = CancellationToken::new();
    let client = with_predictors(plane, rooms);
    let run = scheduler::run(config, client, env, end.clone());
    let task = tokio::spawn(async { run.await.unwrap() });
    let dynamic = json!({"schedulingStrategy": "Dividing", "dividingScheduling": {"type": "Dynamic"}});
    subscribe(plane, "app", dynamic).await;
    plane
        .create(&apps::FEED_INVENTORIES, Some("default"), &inventory(6))
        .await;
    Running {
        metrics: Box::new(move || metrics.render()),
        end,
        task,
    }
}

async fn await_replicas(plane: &Plane, expected: &[u32]) {
    let is_there = |it: &Value| it["status"]["replicas"]["apps/v1/Deployment/foo/web"] == json!(expected);
    plane
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", is_there)
        .await;
}

async fn await_event(plane: &Plane, note: &str) {
    let says = |it: &Value| it["reason"] == "FailedScheduling" && it["message"] == note;
    plane.await_any(&kubernetes::EVENTS, None, says).await;
}

#[tokio::test(start_paused = true)]
async fn divides_by_what_predictors_say() {
    let env = testplane::paused_env();
    let plane = Plane::start_parent(&env).await;
    plane.create_namespaces(&["default"]).await;
    let rooms = Rooms::default();
    join(&plane, &rooms, "1", Some(2)).await;
    join(&plane, &rooms, "2", Some(4)).await;
    let running = divide(&plane, &rooms, env).await;
    await_replicas(&plane, &[2, 4]).await;

    // More replicas: one predictor hangs, others are decided for meanwhile.
    *rooms.lock().unwrap().get_mut(&cluster_id("1")).unwrap() = None;
    plane
        .change(&apps::FEED_INVENTORIES, Some("default"), "app", &inventory(9))
        .await;
    let began = tokio::time::Instant::now();
    subscribe(&plane, "other", json!({})).await;
    let is_bound = |it: &Value| it["status"]["bindingClusters"] == json!(["ns-1/1", "ns-2/2"]);
    plane
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "other", is_bound)
        .await;
    assert!(
        began.elapsed().as_secs() < 20,
        "it waited for somebody else's predictor"
    );
    let note = "1 of 2 cluster(s) do not say what room they have (limit 0): \
                ns-1/1: its predictor has not answered within 20 s";
    await_event(&plane, note).await;

    // It answers again; what finds no room is told, and finds some later.
    for (name, room) in [("1", 1), ("2", 1)] {
        *rooms.lock().unwrap().get_mut(&cluster_id(name)).unwrap() = Some(room);
    }
    await_replicas(&plane, &[3, 5]).await;
    await_event(
        &plane,
        "no cluster has room for 1 replica(s) of apps/v1/Deployment/foo/web",
    )
    .await;
    await_replicas(&plane, &[4, 5]).await;

    // Fewer: nobody is asked.
    rooms.lock().unwrap().clear();
    plane
        .change(&apps::FEED_INVENTORIES, Some("default"), "app", &inventory(3))
        .await;
    await_replicas(&plane, &[1, 2]).await;
    let counted = (running.metrics)();
    let scheduled = "clusternet_scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default\"}";
    assert!(counted.contains(scheduled), "{counted}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn answers_are_about_the_sample_that_was_asked() {
    let env = testplane::paused_env();
    let plane = Plane::start_parent(&env).await;
    plane.create_namespaces(&["default"]).await;
    let rooms = Rooms::default();
    // Of so many only 100 are looked at; one of those hangs.
    for number in 0..150 {
        let room = (number != 10).then_some(1);
        join(&plane, &rooms, &format!("{number:03}"), room).await;
    }
    let running = divide(&plane, &rooms, env).await;
    while !(running.metrics)().contains("goroutines{work=\"predict\"} 1") {
        tokio::task::yield_now().await;
    }
    let is_bound = |it: &Value| it["status"]["bindingClusters"].is_array();
    for number in 0..20 {
        let name = format!("other-{number}");
        subscribe(&plane, &name, json!({})).await;
        plane
            .await_object(&apps::SUBSCRIPTIONS, Some("default"), &name, is_bound)
            .await;
    }
    let app = plane
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", is_bound)
        .await;
    let clusters = app["status"]["bindingClusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 100);
    assert!(
        clusters.contains(&json!("ns-010/010")),
        "it was asked, and counts as full"
    );
    running.stop().await;
}
