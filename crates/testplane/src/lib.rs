//! A control plane for the tests of roles: an API server over a store on a simulated disk, all in this process, with
//! hands that make, change and await objects. A development dependency only.
//!
//! Time is the paused runtime's; waiting ends with the condition, or in a panic that tells what was seen last.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "helpers of tests are tests: they panic where a test would"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use api::kubernetes;
use apiserver::{ApiServer, UserInfo};
use clock::{Clock, Env};
use jiff::{SignedDuration, Timestamp};
use kubeio::{CancellationToken, Client, DeleteOptions, ListOptions, Patch};
use machinery::ApiResource;
use serde_json::{Value, json};

/// When tests begin.
const BEGINNING: i64 = 1_800_000_000;
/// Between two looks while waiting.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Looks before waiting fails: 400 s of the paused clock.
const LOOKS: u32 = 4_000;

/// System randomness, and wall time that goes with the paused runtime's.
pub fn paused_env() -> Env {
    Env {
        clock: Arc::new(PausedClock(tokio::time::Instant::now())),
        ..Env::system()
    }
}

/// Looks again and again until there is something to see; `None` if there never is.
async fn look_until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    for _ in 0..LOOKS {
        if let Some(seen) = look().await {
            return Some(seen);
        }
        tokio::time::sleep(LOOK_PERIOD).await;
    }
    None
}

/// Wall time that goes with the paused runtime's.
#[derive(Debug)]
struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let beginning = Timestamp::from_second(BEGINNING).unwrap();
        beginning + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// Wall time that stands unless it is moved.
#[derive(Debug)]
pub struct StandingClock(AtomicI64);

impl Default for StandingClock {
    fn default() -> Self {
        Self(AtomicI64::new(BEGINNING))
    }
}

impl StandingClock {
    /// Moves it.
    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// A control plane where everybody may do everything.
#[derive(Debug, Clone)]
pub struct Plane {
    /// Its server.
    pub server: Arc<ApiServer>,
    /// A client of it.
    pub client: Client,
}

impl Plane {
    /// An empty one, as a child has it.
    pub async fn start(env: &Env) -> Self {
        let disk = Arc::new(clock::disk::SimDisk::new(1));
        let store = store::Store::open(disk, store::Options::new(env.clone()), store::Mode::Inline).unwrap();
        let config = apiserver::Config::new(store, env.clone(), Arc::new(apiserver::authz::AllowAll));
        let server = ApiServer::start(config).await.unwrap();
        let client = Client::from_service(server.client_service(UserInfo::loopback()));
        Self { server, client }
    }

    /// One that knows our kinds, as a parent does.
    pub async fn start_parent(env: &Env) -> Self {
        let plane = Self::start(env).await;
        for crd in api::crds() {
            plane
                .create(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, &crd)
                .await;
        }
        plane
    }

    /// Runs garbage collection and the deletion of namespaces until the token is cancelled.
    pub async fn govern(&self, stop: &CancellationToken) {
        let facts = apiserver::bootstrap_policy::Facts::default();
        // They end with the token; nobody waits for them.
        drop(
            apiserver::controllers::govern(&self.server, facts, stop)
                .await
                .unwrap(),
        );
    }

    /// Makes namespaces.
    pub async fn create_namespaces(&self, names: &[&str]) {
        for name in names {
            self.create(
                &kubernetes::NAMESPACES,
                None,
                &json!({"metadata": {"name": name}}),
            )
            .await;
        }
    }

    /// Makes an object; its `apiVersion` and kind are filled in.
    pub async fn create(&self, resource: &ApiResource, namespace: Option<&str>, object: &Value) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        self.client.create(resource, namespace, &object).await.unwrap()
    }

    /// Reads an object that is there.
    pub async fn get(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) -> Value {
        self.client.get(resource, namespace, name).await.unwrap()
    }

    /// Merges a patch into an object.
    pub async fn change(&self, resource: &ApiResource, namespace: Option<&str>, name: &str, patch: &Value) {
        self.client
            .patch(resource, namespace, name, None, Patch::Merge, patch)
            .await
            .unwrap();
    }

    /// Merges a patch into an object's status.
    pub async fn change_status(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        status: &Value,
    ) {
        let patch = json!({"status": status});
        self.client
            .patch(resource, namespace, name, Some("status"), Patch::Merge, &patch)
            .await
            .unwrap();
    }

    /// Asks for an object's deletion.
    pub async fn delete(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) {
        self.client
            .delete(resource, namespace, name, &DeleteOptions::background())
            .await
            .unwrap();
    }

    /// All objects of a kind.
    pub async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Vec<Value> {
        let everything = ListOptions::default();
        self.client
            .list_all(resource, namespace, &everything)
            .await
            .unwrap()
            .items
    }

    /// Waits until an object is as expected.
    pub async fn await_object(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        expected: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = None;
        let found = look_until(async || {
            last = self.client.get_opt(resource, namespace, name).await.unwrap();
            last.clone().filter(|object| expected(object))
        });
        if let Some(object) = found.await {
            return object;
        }
        let events = self.events().await;
        panic!(
            "{} {name} is never as expected; last seen {last:#?}; events {events:#?}",
            resource.kind
        );
    }

    /// Waits until one of the objects of a kind is as expected.
    pub async fn await_any(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        expected: impl Fn(&Value) -> bool,
    ) -> Value {
        let found = look_until(async || {
            let all = self.list(resource, namespace).await;
            all.into_iter().find(|object| expected(object))
        });
        if let Some(object) = found.await {
            return object;
        }
        let events = self.events().await;
        panic!("no {} is ever as expected; events {events:#?}", resource.kind);
    }

    /// Waits until an object is gone.
    pub async fn await_gone(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) {
        let mut last = None;
        let gone = look_until(async || {
            last = self.client.get_opt(resource, namespace, name).await.unwrap();
            last.is_none().then_some(())
        });
        if gone.await.is_some() {
            return;
        }
        let events = self.events().await;
        panic!(
            "{} {name} never goes; last seen {last:#?}; events {events:#?}",
            resource.kind
        );
    }

    /// What events tell, as `Kind name: Reason: message`.
    pub async fn events(&self) -> Vec<String> {
        let events = self.list(&kubernetes::EVENTS, None).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .map(|event| {
                let about = &event["involvedObject"];
                format!(
                    "{} {}: {}: {}",
                    text(&about["kind"]),
                    text(&about["name"]),
                    text(&event["reason"]),
                    text(&event["message"])
                )
            })
            .collect()
    }
}
