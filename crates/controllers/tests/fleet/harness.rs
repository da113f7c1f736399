//! A server on a simulated disk, the controllers, and everybody else played by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use api::{apps, clusters, finalizers, kubernetes, labels};
use apiserver::{ApiServer, UserInfo};
use clock::{Clock, Env};
use kubeio::{Client, DeleteOptions, ListOptions, Patch};
use machinery::{ApiResource, meta};
use runtime::CancellationToken;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The token of every service account.
pub(crate) const TOKEN: &str = "dG9rZW4=";

/// A wall clock that stands unless it is moved.
#[derive(Debug)]
pub(crate) struct Wall(AtomicI64);

impl Wall {
    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Wall {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

pub(crate) struct Fleet {
    pub(crate) client: Client,
    pub(crate) env: Arc<Wall>,
    /// Whether somebody fills token Secrets.
    pub(crate) fills_tokens: Arc<AtomicBool>,
    pub(crate) config: controllers::Config,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        Self::start_with(controllers::Config::default()).await
    }

    pub(crate) async fn start_with(controlling: controllers::Config) -> Self {
        let wall = Arc::new(Wall(AtomicI64::new(1_800_000_000)));
        let env = Env {
            clock: wall.clone(),
            ..Env::system()
        };
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
        for name in ["default", "clusternet-reserved", "clusternet-system"] {
            client
                .create(
                    &kubernetes::NAMESPACES,
                    None,
                    &json!({"metadata": {"name": name}}),
                )
                .await
                .unwrap();
        }
        let mut fleet = Self {
            client,
            env: wall,
            fills_tokens: Arc::new(AtomicBool::new(true)),
            config: controlling,
            stop: CancellationToken::new(),
            tasks: Vec::new(),
        };
        fleet.run();
        fleet
    }

    /// Starts the controllers (again).
    pub(crate) fn run(&mut self) {
        self.stop = CancellationToken::new();
        let env = Env {
            clock: self.env.clone(),
            ..Env::system()
        };
        let (client, stop) = (self.client.clone(), self.stop.clone());
        let run = controllers::run(self.config.clone(), client, env, stop);
        let tokens = fill_tokens(self.client.clone(), self.fills_tokens.clone(), self.stop.clone());
        let controllers = async move { run.await.unwrap() };
        self.tasks = vec![tokio::spawn(controllers), tokio::spawn(tokens)];
    }

    /// Stops them.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        for task in self.tasks.drain(..) {
            task.await.unwrap();
        }
    }

    /// Every object of some kinds with its revision.
    pub(crate) async fn revisions(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let kinds = [
            apps::SUBSCRIPTIONS,
            apps::BASES,
            apps::DESCRIPTIONS,
            apps::MANIFESTS,
            clusters::MANAGED_CLUSTERS,
            clusters::REGISTRATION_REQUESTS,
            kubernetes::ROLES,
            kubernetes::SECRETS,
            kubernetes::NAMESPACES,
        ];
        for kind in kinds {
            for object in self
                .client
                .list(&kind, None, &ListOptions::default())
                .await
                .unwrap()
                .items
            {
                let name = format!(
                    "{} {}/{}",
                    kind.kind,
                    meta::namespace(&object),
                    meta::name(&object)
                );
                all.push((name, meta::resource_version(&object).to_owned()));
            }
        }
        all
    }

    pub(crate) async fn get(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) -> Value {
        self.client.get(resource, namespace, name).await.unwrap()
    }

    /// Creates an object; its `apiVersion` and kind are filled in.
    pub(crate) async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        object: &Value,
    ) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        self.client.create(resource, namespace, &object).await.unwrap()
    }

    pub(crate) async fn delete(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) {
        self.client
            .delete(resource, namespace, name, &DeleteOptions::background())
            .await
            .unwrap();
    }

    /// Waits until `until` gives something; 400 s of the paused clock is the limit.
    pub(crate) async fn wait<T>(&self, what: &str, mut until: impl AsyncFnMut() -> Option<T>) -> T {
        for _ in 0..1_600 {
            if let Some(found) = until().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let events = self
            .client
            .list(&kubernetes::EVENTS, None, &ListOptions::default())
            .await
            .unwrap()
            .items;
        let events: Vec<String> = events
            .iter()
            .map(|it| format!("{}: {}", it["reason"], it["message"]))
            .collect();
        panic!("{what} never came; events: {events:#?}");
    }

    pub(crate) async fn await_object(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        self.wait(&format!("{} {name}", resource.kind), async || {
            self.client
                .get_opt(resource, namespace, name)
                .await
                .unwrap()
                .filter(|it| condition(it))
        })
        .await
    }

    pub(crate) async fn await_gone(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) {
        self.wait(&format!("the end of {} {name}", resource.kind), async || {
            self.client
                .get_opt(resource, namespace, name)
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
    }

    /// The only object of a kind in a namespace.
    pub(crate) async fn await_one(&self, resource: &ApiResource, namespace: &str) -> Value {
        self.wait(&format!("a {}", resource.kind), async || {
            let mut items = self
                .client
                .list(resource, Some(namespace), &ListOptions::default())
                .await
                .unwrap()
                .items;
            assert!(items.len() <= 1);
            items.pop()
        })
        .await
    }

    /// What events of one reason say about an object, as soon as there is one.
    pub(crate) async fn await_events(&self, kind: &str, name: &str, reason: &str) -> Vec<String> {
        self.wait(&format!("{reason} on {kind} {name}"), async || {
            let events = self
                .client
                .list(&kubernetes::EVENTS, None, &ListOptions::default())
                .await
                .unwrap()
                .items;
            let about = |it: &&Value| {
                it["involvedObject"]["kind"] == kind
                    && it["involvedObject"]["name"] == name
                    && it["reason"] == reason
            };
            let notes: Vec<String> = events
                .iter()
                .filter(about)
                .filter_map(|it| it["message"].as_str().map(str::to_owned))
                .collect();
            (!notes.is_empty()).then_some(notes)
        })
        .await
    }

    pub(crate) async fn change(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        sub: Option<&str>,
        patch: &Value,
    ) {
        self.client
            .patch(resource, Some(namespace), name, sub, Patch::Merge, patch)
            .await
            .unwrap();
    }

    /// A cluster asks to be let in; answers its id.
    pub(crate) async fn request(&self, cluster: &str) -> String {
        let id = Env::system().uuid();
        let request = json!({
            "metadata": {"name": format!("clusternet-{id}"), "labels": {labels::CLUSTER_ID: id}},
            "spec": {"clusterId": id, "clusterName": cluster, "clusterType": "EdgeCluster", "syncMode": "Pull",
                     "clusterLabels": {"region": "north"}},
        });
        self.create(&clusters::REGISTRATION_REQUESTS, None, &request)
            .await;
        id
    }

    /// A cluster joins; answers its namespace.
    pub(crate) async fn join(&self, cluster: &str) -> String {
        let name = format!("clusternet-{}", self.request(cluster).await);
        let request = self
            .await_object(&clusters::REGISTRATION_REQUESTS, None, &name, |it| {
                it["status"]["result"] == "Approved"
            })
            .await;
        request["status"]["dedicatedNamespace"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Lets `edge-0` and so on join; their namespaces.
    pub(crate) async fn join_many(&self, count: usize) -> Vec<String> {
        let mut homes = Vec::new();
        for index in 0..count {
            homes.push(self.join(&format!("edge-{index}")).await);
        }
        homes
    }

    pub(crate) async fn heartbeat(&self, home: &str, cluster: &str) {
        let status = json!({"lastObservedTime": self.env.now().to_string(), "heartbeatFrequencySeconds": 60,
            "conditions": [{"type": "Ready", "status": "True", "reason": "ManagedClusterReady", "message": "",
                            "lastTransitionTime": self.env.now().to_string()}]});
        self.change(
            &clusters::MANAGED_CLUSTERS,
            home,
            cluster,
            Some("status"),
            &json!({"status": status}),
        )
        .await;
    }

    pub(crate) async fn manifest(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let plural = format!("{}s", kind.to_lowercase());
        let (group, version) = machinery::resource::split_api_version(api_version);
        let mut of = json!({labels::CONFIG_GROUP: group, labels::CONFIG_VERSION: version, labels::CONFIG_KIND: kind,
                            labels::CONFIG_NAME: name});
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        let mut full = format!("{plural}.{name}");
        if !namespace.is_empty() {
            of[labels::CONFIG_NAMESPACE] = json!(namespace);
            object["metadata"]["namespace"] = json!(namespace);
            full = format!("{plural}.{namespace}.{name}");
        }
        let manifest = json!({"metadata": {"name": full, "labels": of}, "template": object});
        self.create(&apps::MANIFESTS, Some("clusternet-reserved"), &manifest)
            .await;
    }

    /// A Subscription of everything that [`manifest`](Self::manifest) made, bound to some namespaces.
    pub(crate) async fn subscribe(&self, homes: &[&str]) -> Value {
        let manifests = self
            .client
            .list(&apps::MANIFESTS, None, &ListOptions::default())
            .await
            .unwrap()
            .items;
        let mut feeds: Vec<Value> = manifests
            .iter()
            .map(|it| {
                let template = &it["template"];
                let mut feed = json!({"apiVersion": template["apiVersion"], "kind": template["kind"], "name": meta::name(template)});
                if !meta::namespace(template).is_empty() {
                    feed["namespace"] = json!(meta::namespace(template));
                }
                feed
            })
            .collect();
        feeds.sort_by_key(|feed| feed["kind"] != "Namespace");
        let subscription = json!({"metadata": {"name": "app"},
            "spec": {"subscribers": [{"clusterAffinity": {}}], "feeds": feeds}});
        let made = self
            .create(&apps::SUBSCRIPTIONS, Some("default"), &subscription)
            .await;
        self.bind(homes).await;
        made
    }

    /// What a scheduler would write.
    pub(crate) async fn bind(&self, homes: &[&str]) {
        let bound: Vec<String> = homes.iter().map(|home| format!("{home}/edge-7")).collect();
        let status = json!({"status": {"bindingClusters": bound, "desiredReleases": bound.len()}});
        self.change(&apps::SUBSCRIPTIONS, "default", "app", Some("status"), &status)
            .await;
    }

    /// What an agent would report.
    pub(crate) async fn report(&self, home: &str, description: &str, status: &Value) {
        self.change(
            &apps::DESCRIPTIONS,
            home,
            description,
            Some("status"),
            &json!({"status": status}),
        )
        .await;
    }

    /// What an agent does about a Description that is deleted.
    pub(crate) async fn take_away(&self, home: &str, description: &str) {
        let going = self
            .await_object(&apps::DESCRIPTIONS, Some(home), description, meta::is_deleting)
            .await;
        let mut left = going.clone();
        meta::remove_finalizer(&mut left, finalizers::APP);
        let left = json!({"metadata": {"finalizers": left["metadata"]["finalizers"]}});
        self.change(&apps::DESCRIPTIONS, home, description, None, &left)
            .await;
    }
}

/// What a token controller does.
async fn fill_tokens(client: Client, on: Arc<AtomicBool>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !on.load(Ordering::SeqCst) {
            continue;
        }
        let secrets = client
            .list(&kubernetes::SECRETS, None, &ListOptions::default())
            .await
            .unwrap()
            .items;
        for secret in secrets {
            if secret["type"] == "kubernetes.io/service-account-token" && secret["data"]["token"].is_null() {
                let data = json!({"data": {"token": TOKEN, "ca.crt": "Y2E="}});
                let (namespace, name) = (meta::namespace(&secret), meta::name(&secret));
                client
                    .patch(
                        &kubernetes::SECRETS,
                        Some(namespace),
                        name,
                        None,
                        Patch::Merge,
                        &data,
                    )
                    .await
                    .unwrap();
            }
        }
    }
}

/// The objects of a Description.
pub(crate) fn objects(description: &Value) -> Vec<Value> {
    use base64::Engine as _;
    let raw = description["spec"]["raw"].as_array().unwrap().iter();
    raw.map(|text| {
        let object = base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap());
        serde_json::from_slice(&object.unwrap()).unwrap()
    })
    .collect()
}

/// The replicas of a Description's first object.
pub(crate) fn replicas(description: &Value) -> i64 {
    objects(description)[0]["spec"]["replicas"].as_i64().unwrap()
}
