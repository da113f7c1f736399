//! The controllers push: a parent and a child in this process, the hub's proxy played by a handler that takes the
//! child's tokens.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::entry::{Digest, Entry, Reference};
use api::{annotations, apps, clusters, finalizers, kubernetes, names, proxies, secret};
use apiserver::{ApiServer, Body, Caller, GroupHandler, RequestInfo, UserInfo};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use machinery::{ApiError, Reason, meta};
use runtime::CancellationToken;
use serde_json::{Value, json};
use testplane::Plane;
use tokio::task::JoinHandle;

const HOME: &str = "clusternet-abcde";
const ID: &str = "00000000-0000-4000-8000-000000000001";

/// What the hub does with `sockets/ID/proxy/direct`.
struct Proxy {
    child: Arc<ApiServer>,
    tokens: Arc<Mutex<BTreeSet<String>>>,
    hangs: Arc<AtomicBool>,
}

impl GroupHandler for Proxy {
    fn group(&self) -> &str {
        proxies::GROUP
    }

    fn version(&self) -> &str {
        proxies::VERSION
    }

    fn discovery(&self) -> Value {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": proxies::SOCKETS.api_version(), "resources": []})
    }

    fn handle(
        &self,
        info: RequestInfo,
        user: UserInfo,
        mut request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        Box::pin(async move {
            if self.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let token = user
                .extra
                .get("clusternet-token")
                .and_then(|values| values.first());
            let known = token.is_some_and(|token| self.tokens.lock().unwrap().contains(token));
            if user.name != "clusternet" || !known || info.name.as_str() != ID {
                let refusal = ApiError::new(Reason::Unauthorized, "Unauthorized").to_value();
                let mut response = Response::new(Body::from(refusal.to_string()));
                *response.status_mut() = StatusCode::UNAUTHORIZED;
                return response;
            }
            let path = request.uri().path_and_query().unwrap().as_str();
            // U15: the parent's address, the cluster's id, the child's path, and one slash between.
            let door = format!("/apis/proxies.clusternet.io/v1alpha1/sockets/{ID}/proxy/direct");
            let rest = path.strip_prefix(&*door).unwrap();
            assert!(rest.starts_with('/') && !rest.starts_with("//"), "{path}");
            *request.uri_mut() = rest.parse().unwrap();
            self.child
                .handle(request, Caller::User(UserInfo::loopback()))
                .await
        })
    }
}

struct World {
    parent: Plane,
    child: Plane,
    tokens: Arc<Mutex<BTreeSet<String>>>,
    /// Whether the child takes requests and never answers.
    hangs: Arc<AtomicBool>,
    stop: CancellationToken,
    controllers: JoinHandle<()>,
}

impl World {
    /// Waits until the Description is gone, and what it brought.
    async fn await_withdrawn(&self) {
        self.parent
            .await_gone(&apps::DESCRIPTIONS, Some(HOME), "app")
            .await;
        self.child.await_gone(&kubernetes::NAMESPACES, None, "shop").await;
    }

    /// A cluster in a sync mode whose agent lets the parent push (or not, or has not said).
    async fn start(mode: &str, app_pusher: Value) -> Self {
        let env = testplane::paused_env();
        let (parent, child) = (Plane::start_parent(&env).await, Plane::start(&env).await);
        let tokens = Arc::new(Mutex::new(BTreeSet::new()));
        let hangs = Arc::new(AtomicBool::new(false));
        parent.server.add_group(Arc::new(Proxy {
            child: child.server.clone(),
            tokens: tokens.clone(),
            hangs: hangs.clone(),
        }));
        let stop = CancellationToken::new();
        parent.govern(&stop).await;
        child.govern(&stop).await;
        parent.create_namespaces(&["clusternet-system"]).await;
        let home = json!({"metadata": {"name": HOME, "labels":
            {api::labels::CREATED_BY: api::labels::CREATED_BY_AGENT, api::labels::CLUSTER_ID: ID}}});
        parent.create(&kubernetes::NAMESPACES, None, &home).await;
        let cluster = json!({"metadata": {"name": "edge-7", "labels": {api::labels::CLUSTER_ID: ID}},
            "spec": {"clusterId": ID, "syncMode": mode}});
        parent
            .create(&clusters::MANAGED_CLUSTERS, Some(HOME), &cluster)
            .await;
        let report = json!({"appPusher": app_pusher, "useSocket": true});
        parent
            .change_status(&clusters::MANAGED_CLUSTERS, Some(HOME), "edge-7", &report)
            .await;
        let running = controllers::run(
            controllers::Config::default(),
            parent.client.clone(),
            env,
            stop.child_token(),
        );
        Self {
            controllers: tokio::spawn(async move { running.await.unwrap() }),
            parent,
            child,
            tokens,
            hangs,
            stop,
        }
    }

    /// The agent publishes a credential; it is the only good one.
    async fn publish(&self, token: &str) {
        *self.tokens.lock().unwrap() = BTreeSet::from([token.to_owned()]);
        let (secrets, name) = (&kubernetes::SECRETS, names::CHILD_DEPLOYER_SECRET);
        let data = json!({"data": {"token": secret::encode(token)}});
        let there = self
            .parent
            .client
            .get_opt(secrets, Some(HOME), name)
            .await
            .unwrap();
        if there.is_some() {
            return self.parent.change(secrets, Some(HOME), name, &data).await;
        }
        let mut published = data;
        published["metadata"] = json!({"name": name});
        self.parent.create(secrets, Some(HOME), &published).await;
    }

    async fn describe(&self, objects: &[Value]) {
        let raw: Vec<String> = objects
            .iter()
            .map(|object| secret::encode(object.to_string()))
            .collect();
        let there = self
            .parent
            .client
            .get_opt(&apps::DESCRIPTIONS, Some(HOME), "app")
            .await
            .unwrap();
        if there.is_some() {
            let patch = json!({"spec": {"raw": raw}});
            return self
                .parent
                .change(&apps::DESCRIPTIONS, Some(HOME), "app", &patch)
                .await;
        }
        let description = json!({"metadata": {"name": "app", "finalizers": [finalizers::APP]},
            "spec": {"deployer": "Generic", "raw": raw}});
        self.parent
            .create(&apps::DESCRIPTIONS, Some(HOME), &description)
            .await;
    }

    async fn phase(&self, phase: &str) -> Value {
        self.parent
            .await_object(&apps::DESCRIPTIONS, Some(HOME), "app", |it| {
                it["status"]["phase"] == phase
            })
            .await
    }

    async fn value(&self, name: &str, value: &str) -> Value {
        self.child
            .await_object(&kubernetes::CONFIG_MAPS, Some("shop"), name, |it| {
                it["data"]["key"] == value
            })
            .await
    }

    async fn stop(self) {
        self.stop.cancel();
        self.controllers.await.unwrap();
    }
}

fn shop() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"key": value}})
}

#[tokio::test(start_paused = true)]
async fn the_parent_applies_repairs_prunes_and_removes() {
    for mode in ["Push", "Dual"] {
        let world = World::start(mode, json!(true)).await;
        world.publish("one").await;
        world
            .describe(&[shop(), config_map("c", "1"), config_map("d", "1")])
            .await;
        let description = world.phase("Success").await;
        assert_eq!(
            description["status"]["manifestStatuses"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
        let map = world.value("c", "1").await;
        assert_eq!(
            meta::annotation(&map, annotations::OWNED_BY_DESCRIPTION),
            Some("clusternet-abcde.app")
        );

        // Drift is undone at once, not at the next look at everything.
        let start = tokio::time::Instant::now();
        let maps = &kubernetes::CONFIG_MAPS;
        world
            .child
            .change(maps, Some("shop"), "c", &json!({"data": {"key": "2"}}))
            .await;
        world.value("c", "1").await;
        world.child.delete(maps, Some("shop"), "c").await;
        world.value("c", "1").await;
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());

        world.describe(&[shop(), config_map("c", "3")]).await;
        world.value("c", "3").await;
        world.child.await_gone(maps, Some("shop"), "d").await;

        world.parent.delete(&apps::DESCRIPTIONS, Some(HOME), "app").await;
        world.await_withdrawn().await;
        let events = world.parent.events().await;
        for reason in ["SuccessfullyDeployed", "SuccessfullyPruningFeed"] {
            assert!(
                events.iter().any(|event| event.contains(reason)),
                "{reason}: {events:#?}"
            );
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_credential_replaces_the_old_one_at_once() {
    let world = World::start("Push", json!(true)).await;
    // The credential comes after what needs it.
    world.describe(&[shop(), config_map("c", "1")]).await;
    world.publish("one").await;
    world.phase("Success").await;
    let start = tokio::time::Instant::now();
    world.publish("two").await;
    world.describe(&[shop(), config_map("c", "2")]).await;
    world.value("c", "2").await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_lacking_is_told_on_the_description_and_ends_with_it() {
    let world = World::start("Push", json!(true)).await;
    world.describe(&[shop(), config_map("c", "1")]).await;
    let waiting = world.phase("Failure").await;
    let reason = waiting["status"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("its agent has not published a credential"),
        "{reason}"
    );
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "NoWay");
    world.publish("one").await;
    world.phase("Success").await;

    // Deletion waits for the credential too, and says so; nothing is left behind.
    let (secrets, published) = (&kubernetes::SECRETS, names::CHILD_DEPLOYER_SECRET);
    world.parent.delete(secrets, Some(HOME), published).await;
    world.phase("Failure").await;
    world.parent.delete(&apps::DESCRIPTIONS, Some(HOME), "app").await;
    let waiting = world.phase("Uninstalling").await;
    let reason = waiting["status"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("what was applied there is still there"),
        "{reason}"
    );
    let events = world.parent.events().await;
    for reason in [
        "UnSuccessfullyDeployed: the parent",
        "FailedDeletingDescription: the parent",
    ] {
        assert!(
            events.iter().any(|event| event.contains(reason)),
            "{reason}: {events:#?}"
        );
    }
    world.publish("two").await;
    world.await_withdrawn().await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_another_cluster_is_not_pushed_from() {
    let world = World::start("Push", json!(true)).await;
    let other =
        json!({"metadata": {"labels": {api::labels::CLUSTER_ID: "00000000-0000-4000-8000-000000000002"}}});
    world
        .parent
        .change(&kubernetes::NAMESPACES, None, HOME, &other)
        .await;
    world.publish("one").await;
    world.describe(&[shop()]).await;
    let refused = world.phase("Failure").await;
    let reason = refused["status"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("spec.clusterId is not what its namespace was made for"),
        "{reason}"
    );
    let own = json!({"metadata": {"labels": {api::labels::CLUSTER_ID: ID}}});
    world
        .parent
        .change(&kubernetes::NAMESPACES, None, HOME, &own)
        .await;
    world.phase("Success").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_holds_up_nobody() {
    let world = World::start("Push", json!(true)).await;
    world.publish("one").await;
    world.describe(&[shop()]).await;
    world.phase("Success").await;
    world.hangs.store(true, Ordering::SeqCst);
    world.describe(&[shop(), config_map("c", "1")]).await;
    // Its name is on record before it is applied.
    world
        .parent
        .await_object(&apps::DESCRIPTIONS, Some(HOME), "app", |it| {
            it["status"]["manifestStatuses"][1]["name"] == "c"
        })
        .await;
    let start = tokio::time::Instant::now();
    world.stop().await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_applies_follows_the_sync_mode() {
    let world = World::start("Pull", json!(true)).await;
    world.publish("one").await;
    world.describe(&[shop(), config_map("c", "1")]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let shops = world
        .child
        .client
        .get_opt(&kubernetes::NAMESPACES, None, "shop")
        .await;
    assert_eq!(shops.unwrap(), None, "the agent's turn");
    let mode = |mode: &str| json!({"spec": {"syncMode": mode}});
    let managed = &clusters::MANAGED_CLUSTERS;
    world
        .parent
        .change(managed, Some(HOME), "edge-7", &mode("Push"))
        .await;
    world.value("c", "1").await;
    world
        .parent
        .change(managed, Some(HOME), "edge-7", &mode("Pull"))
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.describe(&[shop(), config_map("c", "2")]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.value("c", "1").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_impasse_is_told_on_the_description() {
    let world = World::start("Push", json!(false)).await;
    world.publish("one").await;
    world.describe(&[shop()]).await;
    world
        .parent
        .await_any(&kubernetes::EVENTS, Some(HOME), |event| {
            event["reason"] == "UnSuccessfullyDeployed"
                && event["message"]
                    .as_str()
                    .unwrap()
                    .contains("feature gate AppPusher")
        })
        .await;
    let shops = world
        .child
        .client
        .get_opt(&kubernetes::NAMESPACES, None, "shop")
        .await;
    assert_eq!(shops.unwrap(), None);
    world
        .parent
        .change_status(
            &clusters::MANAGED_CLUSTERS,
            Some(HOME),
            "edge-7",
            &json!({"appPusher": true}),
        )
        .await;
    world.phase("Success").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_parent_applies_what_a_description_only_refers_to() {
    let world = World::start("Push", json!(true)).await;
    world.parent.create_namespaces(&[api::payloads::NAMESPACE]).await;
    world.publish("one").await;
    world.describe(&[shop()]).await;
    world.phase("Success").await;
    let object = config_map("big", &"x".repeat(1_000_000));
    let text = object.to_string();
    let digest = Digest::of(text.as_bytes());
    let reference = Entry::Reference(Reference {
        digest: digest.clone(),
        size: text.len() as u64,
        object: api::feed::Feed::of_object(&object),
    });
    let raw = json!({"spec": {"raw": [Entry::Object(shop()).to_raw(), reference.to_raw()]}});
    world
        .parent
        .change(&apps::DESCRIPTIONS, Some(HOME), "app", &raw)
        .await;
    let description = world.phase("Failure").await;
    let reason = description["status"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("ConfigMap shop/big: its content cannot be got:") && reason.contains("not found"),
        "{reason}"
    );
    for piece in api::payloads::pieces(&digest, text.as_bytes()) {
        world
            .parent
            .create(&api::payloads::PAYLOADS, Some(api::payloads::NAMESPACE), &piece)
            .await;
    }
    world.phase("Success").await;
    world.value("big", &"x".repeat(1_000_000)).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_parent_applies_is_sealed_to_its_own_key() {
    let world = World::start("Push", json!(true)).await;
    world.publish("one").await;
    let kept = world
        .parent
        .await_object(
            &kubernetes::SECRETS,
            Some(names::SYSTEM_NAMESPACE),
            names::CONTROLLERS_KEY_SECRET,
            |_| true,
        )
        .await;
    let key: sealing::PublicKey = kept["data"]["publicKey"].as_str().unwrap().parse().unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"},
        "stringData": {"password": "hunter2"}});
    let fingerprints = sealing::Fingerprints::new(&[7; 32]).unwrap();
    let sealed = key.seal(
        &api::feed::Feed::of_object(&object),
        object.to_string().as_bytes(),
        &fingerprints,
    );
    let raw = [Entry::Object(shop()), Entry::Sealed(sealed.unwrap())].map(|entry| entry.to_raw());
    let description = json!({"metadata": {"name": "app", "finalizers": [finalizers::APP]},
        "spec": {"deployer": "Generic", "raw": raw}});
    world
        .parent
        .create(&apps::DESCRIPTIONS, Some(HOME), &description)
        .await;
    world.phase("Success").await;
    world
        .child
        .await_object(&kubernetes::SECRETS, Some("shop"), "key", |it| {
            it["data"]["password"] == "aHVudGVyMg=="
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_parent_prunes_for_an_agent_that_does_not() {
    for (agent, prunes) in [("v0.18.0", true), ("tombolo/0.1.0", false)] {
        let world = World::start("Pull", json!(true)).await;
        let report = json!({"agentVersion": agent});
        let managed = &clusters::MANAGED_CLUSTERS;
        world
            .parent
            .change_status(managed, Some(HOME), "edge-7", &report)
            .await;
        world.publish("one").await;
        // What the agent has applied, and what another Description has.
        world.child.create(&kubernetes::NAMESPACES, None, &shop()).await;
        for (name, owner) in [("c", "app"), ("d", "app"), ("e", "other")] {
            let mut map = config_map(name, "1");
            meta::set_annotation(
                &mut map,
                annotations::OWNED_BY_DESCRIPTION,
                &format!("{HOME}.{owner}"),
            );
            world
                .child
                .create(&kubernetes::CONFIG_MAPS, Some("shop"), &map)
                .await;
        }
        let all = ["c", "d", "e"].map(|name| config_map(name, "1"));
        world.describe(&all).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        world.describe(&[config_map("c", "2")]).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let maps = &kubernetes::CONFIG_MAPS;
        if prunes {
            world.child.await_gone(maps, Some("shop"), "d").await;
            let events = world.parent.events().await;
            let told = |event: &String| event.contains("SuccessfullyPruningFeed");
            assert!(events.iter().any(told), "{events:#?}");
        } else {
            world.value("d", "1").await;
        }
        // To apply is the agent's turn, and another's object is not removed.
        world.value("c", "1").await;
        world.value("e", "1").await;
        world.stop().await;
    }
}
