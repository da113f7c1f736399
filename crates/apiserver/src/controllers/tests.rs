use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use source::{Key, ObjectSource as _, Resource};

use super::*;
use crate::authn::{self, Anonymous, Authenticator};
use crate::authz::Rbac;
use crate::authz::fake::FakeSource;
use crate::pki::tests::env_at;
use crate::server::Config;
use crate::tokens::{DEFAULT_ISSUER, TokenKeys};

struct World {
    source: FakeSource,
    server: Arc<ApiServer>,
    api: Local,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

async fn world_on(source: FakeSource) -> World {
    let (env, _) = env_at(1_800_000_000);
    let shared = Arc::new(source.clone());
    let tokens = TokenKeys::seeded(&env, DEFAULT_ISSUER, &[DEFAULT_ISSUER.to_owned()]).unwrap();
    let authenticator = Authenticator::new(authn::Config {
        source: shared.clone(),
        env: env.clone(),
        tokens: Arc::new(tokens),
        client_authorities_pem: None,
        front_proxy: None,
        anonymous: Anonymous::Allowed,
    })
    .unwrap();
    let config = Config {
        authenticator: Some(Arc::new(authenticator)),
        ..Config::new(shared.clone(), env, Arc::new(Rbac::new(shared)))
    };
    let server = ApiServer::start(config).await.unwrap();
    let api = Local::new(&server);
    let facts = Facts {
        authority_pem: Some("PEM".to_owned()),
        ..Facts::default()
    };
    let shutdown = CancellationToken::new();
    let tasks = govern(&server, facts, &shutdown).await.unwrap();
    World {
        source,
        server,
        api,
        shutdown,
        tasks,
    }
}

async fn world() -> World {
    world_on(FakeSource::default()).await
}

impl World {
    async fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(&Resource::from(resource), namespace, name);
        let found = self.source.get(&key).await.unwrap()?;
        Some(serde_json::from_slice(&found.json).unwrap())
    }

    /// Waits (in paused time) until something holds.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        for _ in 0..2_000 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never came: {what}");
    }

    async fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.create("/api/v1/namespaces", &object).await.unwrap();
    }

    async fn config_map(&self, namespace: &str, name: &str, metadata: Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object["metadata"]["name"] = json!(name);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.api.create(&path, &object).await.unwrap()
    }

    async fn end(self) -> FakeSource {
        self.shutdown.cancel();
        self.tasks.wait().await;
        self.source
    }
}

fn owned_by(owner: &Value, blocks: bool) -> Value {
    json!({"ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }]})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_second_start_writes_nothing() {
    let world = world().await;
    world
        .until("the default accounts", async |world| {
            world
                .find("serviceaccounts", "kube-node-lease", "default")
                .await
                .is_some()
                && world
                    .find("configmaps", "kube-node-lease", "kube-root-ca.crt")
                    .await
                    .is_some()
        })
        .await;
    world
        .until("the aggregated roles", async |world| {
            let admin = world
                .find("rbac.authorization.k8s.io/clusterroles", "", "admin")
                .await;
            admin.is_some_and(|role| role["rules"].as_array().is_some_and(|rules| rules.len() > 15))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let source = world.end().await;
    let before = source.revision();
    let world = world_on(source).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.source.revision(), before);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn dependents_go_after_their_owner() {
    let world = world().await;
    let owner = world.config_map("default", "owner", json!({})).await;
    let child = world
        .config_map("default", "child", owned_by(&owner, false))
        .await;
    world
        .config_map("default", "grandchild", owned_by(&child, false))
        .await;
    world.config_map("default", "stranger", json!({})).await;
    world
        .api
        .delete(&format!("{MAPS}/owner"), &json!({}))
        .await
        .unwrap();
    world
        .until("grandchild gone", async |world| {
            world.find("configmaps", "default", "grandchild").await.is_none()
        })
        .await;
    assert!(world.find("configmaps", "default", "child").await.is_none());
    assert!(world.find("configmaps", "default", "stranger").await.is_some());
    // One that never had a living owner goes too; one that has another owner only forgets.
    let keeper = world.config_map("default", "keeper", json!({})).await;
    let mut both = owned_by(&owner, false);
    let second = owned_by(&keeper, false)["ownerReferences"][0].clone();
    both["ownerReferences"].as_array_mut().unwrap().push(second);
    world.config_map("default", "kept", both).await;
    world.config_map("default", "late", owned_by(&owner, false)).await;
    world
        .until("late gone, kept detached", async |world| {
            let kept = world.find("configmaps", "default", "kept").await.unwrap();
            world.find("configmaps", "default", "late").await.is_none()
                && kept["metadata"]["ownerReferences"].as_array().unwrap().len() == 1
        })
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_its_dependents() {
    let world = world().await;
    let owner = world.config_map("default", "owner", json!({})).await;
    let mut metadata = owned_by(&owner, true);
    metadata["finalizers"] = json!(["example.com/hold"]);
    world.config_map("default", "child", metadata).await;
    let options = json!({"propagationPolicy": "Foreground"});
    world
        .api
        .delete(&format!("{MAPS}/owner"), &options)
        .await
        .unwrap();
    world
        .until("child marked", async |world| {
            let child = world.find("configmaps", "default", "child").await.unwrap();
            !child["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(
        world.find("configmaps", "default", "owner").await.is_some(),
        "it waits"
    );
    let patch = json!({"metadata": {"finalizers": null}});
    world.api.merge(&format!("{MAPS}/child"), &patch).await.unwrap();
    world
        .until("owner gone", async |world| {
            world.find("configmaps", "default", "owner").await.is_none()
        })
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_forget_their_owner_and_stay() {
    let world = world().await;
    let owner = world.config_map("default", "owner", json!({})).await;
    world.config_map("default", "child", owned_by(&owner, true)).await;
    // The graph has to know the child before the owner goes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let options = json!({"propagationPolicy": "Orphan"});
    world
        .api
        .delete(&format!("{MAPS}/owner"), &options)
        .await
        .unwrap();
    world
        .until("owner gone", async |world| {
            world.find("configmaps", "default", "owner").await.is_none()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let child = world.find("configmaps", "default", "child").await.unwrap();
    assert!(child["metadata"]["ownerReferences"].is_null());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_along() {
    let world = world().await;
    world.namespace("shop").await;
    world
        .until("the default account", async |world| {
            world.find("serviceaccounts", "shop", "default").await.is_some()
        })
        .await;
    world.config_map("shop", "one", json!({})).await;
    world
        .config_map("shop", "held", json!({"finalizers": ["example.com/hold"]}))
        .await;
    world
        .api
        .delete("/api/v1/namespaces/shop", &json!({}))
        .await
        .unwrap();
    world
        .until("conditions", async |world| {
            let namespace = world.find("namespaces", "", "shop").await.unwrap();
            namespace["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.len() == 5)
        })
        .await;
    assert!(world.find("configmaps", "shop", "one").await.is_none());
    assert!(world.find("serviceaccounts", "shop", "default").await.is_none());
    let patch = json!({"metadata": {"finalizers": null}});
    let held = "/api/v1/namespaces/shop/configmaps/held";
    world.api.merge(held, &patch).await.unwrap();
    world
        .until("namespace gone", async |world| {
            world.find("namespaces", "", "shop").await.is_none()
        })
        .await;
    let source = world.end().await;
    let key = Key::new(&Resource::from("serviceaccounts"), "shop", "default");
    assert!(source.get(&key).await.unwrap().is_none(), "it does not come back");
}

#[tokio::test(start_paused = true)]
async fn token_secrets_live_with_their_account() {
    let world = world().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    world.api.create(accounts, &account).await.unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
    });
    world
        .api
        .create("/api/v1/namespaces/default/secrets", &secret)
        .await
        .unwrap();
    world
        .until("a token", async |world| {
            let secret = world.find("secrets", "default", "robot-token").await.unwrap();
            secret["data"]["token"].is_string() && secret["data"]["ca.crt"].is_string()
        })
        .await;
    world
        .api
        .delete(&format!("{accounts}/robot"), &json!({}))
        .await
        .unwrap();
    world
        .until("the Secret gone", async |world| {
            world.find("secrets", "default", "robot-token").await.is_none()
        })
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_default_account_comes_back() {
    let world = world().await;
    let there = async |world: &World| {
        world
            .find("serviceaccounts", "default", "default")
            .await
            .is_some()
    };
    world.until("it", there).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    world.api.delete(path, &json!({})).await.unwrap();
    world.until("it again", there).await;
    assert!(world.server.env().now().as_second() > 0);
    world.end().await;
}
