//! Two API servers, an agent between them, and hands that play the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::{Child, Config, Credential, ParentConnector};
use api::entry::Entry;
use api::{apps, clusters, finalizers, labels, names, proxies, secret};
use apiserver::{ApiServer, GroupHandler, RequestInfo, UserInfo};
use bytes::Bytes;
use clock::Env;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kubeio::{CancellationToken, Client, DeleteOptions, ListOptions, Patch};
use machinery::{ApiError, ApiResource, Reason};
use serde_json::{Value, json};
use testplane::Plane;
use tokio::task::JoinHandle;
use tower::ServiceExt;

pub(crate) const NAMESPACE: &str = "clusternet-abcde";
pub(crate) const BOOTSTRAP: &str = "abcdef.0123456789abcdef";

/// Requests that are answered 403, by how their `METHOD path` begins; with a `$` at the end, by all of it.
pub(crate) type Forbidden = Arc<Mutex<Vec<String>>>;

pub(crate) struct World {
    pub(crate) parent: Client,
    pub(crate) child: Client,
    pub(crate) config: Config,
    /// The tokens that the parent takes, besides those of its own making that have not ended.
    pub(crate) tokens: Arc<Mutex<BTreeSet<String>>>,
    /// What the agent may not do in the child.
    pub(crate) forbidden: Forbidden,
    /// What the agent asked the child: `METHOD path?query`.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// What the parent is too busy for; here the path has its query.
    pub(crate) unanswered: Forbidden,
    /// The payloads that the hub gives out, by digest.
    pub(crate) payloads: Payloads,
    /// Whether the parent gives the account of [`lasting_token`] others that end.
    pub(crate) gives_tokens: Arc<AtomicBool>,
    agent_child: Client,
    pub(crate) connector: Arc<Connector>,
    env: Env,
    servers_stop: CancellationToken,
}

pub(crate) struct Agent {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Agent {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Payloads by digest.
pub(crate) type Payloads = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// What the hub does with `sockets/ID/payloads/DIGEST`.
struct Hub(Payloads);

impl GroupHandler for Hub {
    fn group(&self) -> &str {
        proxies::GROUP
    }

    fn version(&self) -> &str {
        proxies::VERSION
    }

    fn discovery(&self) -> Value {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": proxies::SOCKETS.api_version(),
            "resources": [{"name": "sockets/payloads", "singularName": "", "namespaced": false, "kind": "Socket",
                           "verbs": ["get"]}]})
    }

    fn handle(
        &self,
        info: RequestInfo,
        _: UserInfo,
        request: Request<apiserver::Body>,
    ) -> BoxFuture<'_, Response<apiserver::Body>> {
        assert_eq!(info.subresource, "payloads");
        assert_eq!(request.uri().query(), Some("description=app"));
        let found = self.0.lock().unwrap().get(&info.rest).cloned();
        Box::pin(async move {
            match found {
                Some(bytes) => Response::new(apiserver::Body::from(bytes)),
                None => refuse(Reason::NotFound, "there is no such payload"),
            }
        })
    }
}

pub(crate) struct Connector {
    server: Arc<ApiServer>,
    tokens: Arc<Mutex<BTreeSet<String>>>,
    forbidden: Forbidden,
    gives_tokens: Arc<AtomicBool>,
    env: Env,
}

/// When a service account's token ends, if it says so.
pub(crate) fn end_of(token: &str) -> Option<i64> {
    let payload = token.split('.').nth(1)?.replace('-', "+").replace('_', "/");
    let padded = format!("{payload}{}", ["", "", "==", "="][payload.len() % 4]);
    let claims: Value = serde_json::from_slice(&secret::decode(&json!(padded))?).ok()?;
    claims["exp"].as_i64()
}

/// The token of the account of [`NAMESPACE`] that never ends.
pub(crate) fn lasting_token() -> String {
    signed(&json!({"sub": format!("system:serviceaccount:{NAMESPACE}:account")}))
}

fn signed(claims: &Value) -> String {
    let payload = secret::encode(claims.to_string())
        .replace('+', "-")
        .replace('/', "_");
    format!("e30.{}.c2ln", payload.trim_end_matches('='))
}

fn refuse(reason: Reason, message: &str) -> Response<apiserver::Body> {
    let error = ApiError::new(reason, message);
    let mut response = Response::new(apiserver::Body::from(error.to_value().to_string()));
    *response.status_mut() = http::StatusCode::from_u16(error.code).unwrap();
    response
}

impl ParentConnector for Connector {
    fn connect(&self, credential: &Credential) -> Result<Client, kubeio::Error> {
        let (token, tokens) = (credential.token.clone(), self.tokens.clone());
        let forbidden = self.forbidden.clone();
        let (env, gives_tokens) = (self.env.clone(), self.gives_tokens.clone());
        let service = self.server.client_service(UserInfo::loopback());
        Ok(Client::from_service(tower::service_fn(
            move |request: Request<Full<Bytes>>| {
                let is_young = end_of(&token).is_some_and(|end| env.now().as_second() < end);
                let known = is_young || tokens.lock().unwrap().contains(&token);
                let refused = is_refused(&forbidden, &format!("{} {}", request.method(), request.uri()));
                let service = service.clone();
                let gives_tokens = gives_tokens.load(Ordering::SeqCst);
                let now = env.now().as_second();
                async move {
                    if !known {
                        return Ok(refuse(Reason::Unauthorized, "Unauthorized"));
                    }
                    if refused {
                        return Ok(refuse(Reason::ServiceUnavailable, "the server is busy"));
                    }
                    if gives_tokens && request.uri().path().ends_with("/serviceaccounts/account/token") {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let mut answer: Value = serde_json::from_slice(&body).unwrap();
                        let end = now + answer["spec"]["expirationSeconds"].as_i64().unwrap();
                        let subject = format!("system:serviceaccount:{NAMESPACE}:account");
                        let claims = json!({"sub": subject, "iat": now, "exp": end});
                        answer["status"] = json!({"token": signed(&claims)});
                        return Ok(Response::new(apiserver::Body::from(answer.to_string())));
                    }
                    service.oneshot(request).await
                }
            },
        )))
    }

    fn tunnel(&self, _: &Credential) -> Result<Arc<dyn tunnel::Connector>, kubeio::BoxError> {
        Err("no tunnel here".into())
    }
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

impl World {
    pub(crate) async fn start() -> Self {
        let stop = CancellationToken::new();
        let env = testplane::paused_env();
        let (parent, child) = (Plane::start_parent(&env).await, Plane::start(&env).await);
        parent.govern(&stop).await;
        child.govern(&stop).await;
        parent.create_namespaces(&[NAMESPACE]).await;
        let tokens = Arc::new(Mutex::new(BTreeSet::from([BOOTSTRAP.to_owned()])));
        let (forbidden, unanswered) = (Forbidden::default(), Forbidden::default());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let payloads = Payloads::default();
        parent.server.add_group(Arc::new(Hub(payloads.clone())));
        let gives_tokens = Arc::new(AtomicBool::new(true));
        let mut config = Config::new("https://parent:6443", BOOTSTRAP, "host_1");
        config.gates.socket_connection = false;
        config.child_url = "https://child:6443".to_owned();
        config.cluster_name = Some("edge-7".to_owned());
        Self {
            agent_child: guarded(&child.server, &forbidden, &asked),
            connector: Arc::new(Connector {
                server: parent.server,
                tokens: tokens.clone(),
                forbidden: unanswered.clone(),
                gives_tokens: gives_tokens.clone(),
                env: env.clone(),
            }),
            parent: parent.client,
            child: child.client,
            config,
            tokens,
            payloads,
            forbidden,
            asked,
            unanswered,
            gives_tokens,
            env,
            servers_stop: stop,
        }
    }

    pub(crate) fn agent(&self) -> Agent {
        let stop = CancellationToken::new();
        let child = Child {
            client: self.agent_child.clone(),
            dialer: Arc::new(tunnel::TcpDialer),
        };
        let (config, connector, shutdown) = (self.config.clone(), self.connector.clone(), stop.clone());
        let env = self.env.clone();
        let task = tokio::spawn(async move {
            agent::run(config, child, connector, env, shutdown).await.unwrap();
        });
        Agent { stop, task }
    }

    /// A child whose agent was taken in, with its ManagedCluster.
    pub(crate) async fn joined() -> (Self, Agent) {
        let world = Self::start().await;
        let agent = world.agent();
        world.approve("token-1").await;
        (world, agent)
    }

    /// Waits for the request and grants it, as the controllers would.
    pub(crate) async fn approve(&self, token: &str) -> String {
        self.approve_by(token, "pem").await
    }

    /// Grants the request of a parent with this authority.
    pub(crate) async fn approve_by(&self, token: &str, authority: &str) -> String {
        let request = self
            .wait_one(&clusters::REGISTRATION_REQUESTS, None, |_| true)
            .await;
        let id = request["spec"]["clusterId"].as_str().unwrap().to_owned();
        let cluster = json!({
            "apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ManagedCluster",
            "metadata": {"name": "edge-7", "labels": {labels::CLUSTER_ID: id}},
            "spec": {"clusterId": id, "syncMode": "Pull"},
        });
        let made = self
            .parent
            .create(&clusters::MANAGED_CLUSTERS, Some(NAMESPACE), &cluster)
            .await;
        assert!(made.as_ref().is_ok_and(|_| true) || made.unwrap_err().is_already_exists());
        self.tokens.lock().unwrap().insert(token.to_owned());
        let status = json!({"status": {"result": "Approved", "dedicatedNamespace": NAMESPACE,
            "managedClusterName": "edge-7", "token": secret::encode(token), "caCertificate": secret::encode(authority)}});
        self.parent
            .patch(
                &clusters::REGISTRATION_REQUESTS,
                None,
                &names::for_cluster(&id),
                Some("status"),
                Patch::Merge,
                &status,
            )
            .await
            .unwrap();
        id
    }

    pub(crate) async fn describe(&self, name: &str, objects: &[Value]) {
        let raw = objects
            .iter()
            .map(|object| Entry::Object(object.clone()).to_raw());
        self.describe_raw(name, raw.collect()).await;
    }

    pub(crate) async fn describe_raw(&self, name: &str, raw: Vec<Value>) {
        let description = json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Description",
            "metadata": {"name": name, "namespace": NAMESPACE, "finalizers": [finalizers::APP]},
            "spec": {"deployer": "Generic", "raw": raw},
        });
        let descriptions = &apps::DESCRIPTIONS;
        if self
            .parent
            .get_opt(descriptions, Some(NAMESPACE), name)
            .await
            .unwrap()
            .is_none()
        {
            self.parent
                .create(descriptions, Some(NAMESPACE), &description)
                .await
                .unwrap();
        } else {
            let patch = json!({"spec": description["spec"]});
            self.change(&self.parent, descriptions, Some(NAMESPACE), name, &patch)
                .await;
        }
    }

    pub(crate) async fn change(
        &self,
        client: &Client,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) {
        client
            .patch(resource, namespace, name, None, Patch::Merge, patch)
            .await
            .unwrap();
    }

    /// Waits for a Description in a phase.
    pub(crate) async fn phase(&self, name: &str, phase: &str) -> Value {
        self.wait(&self.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), name, |it| {
            it["status"]["phase"] == phase
        })
        .await
    }

    pub(crate) async fn wait(
        &self,
        client: &Client,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = None;
        for _ in 0..1_200 {
            last = client.get_opt(resource, namespace, name).await.unwrap();
            if let Some(object) = last.as_ref().filter(|object| condition(object)) {
                return object.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "{} {name} is never as expected; last seen {last:#?}",
            resource.kind
        );
    }

    pub(crate) async fn gone(
        &self,
        client: &Client,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) {
        for _ in 0..1_200 {
            if client.get_opt(resource, namespace, name).await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} {name} is never gone", resource.kind);
    }

    pub(crate) async fn wait_one(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        for _ in 0..1_200 {
            let items = self
                .parent
                .list(resource, namespace, &ListOptions::default())
                .await
                .unwrap()
                .items;
            if let Some(found) = items.into_iter().find(&condition) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no {} is ever as expected", resource.kind);
    }

    pub(crate) async fn delete(
        &self,
        client: &Client,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) {
        client
            .delete(resource, namespace, name, &DeleteOptions::background())
            .await
            .unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.servers_stop.cancel();
    }
}

fn is_refused(forbidden: &Forbidden, line: &str) -> bool {
    let forbidden = forbidden.lock().unwrap();
    forbidden.iter().any(|pattern| match pattern.strip_suffix('$') {
        Some(whole) => line == whole,
        None => line.starts_with(pattern.as_str()),
    })
}

fn guarded(server: &Arc<ApiServer>, forbidden: &Forbidden, asked: &Arc<Mutex<Vec<String>>>) -> Client {
    let service = server.client_service(UserInfo::loopback());
    let (forbidden, asked) = (forbidden.clone(), asked.clone());
    Client::from_service(tower::service_fn(move |request: Request<Full<Bytes>>| {
        let line = format!("{} {}", request.method(), request.uri().path());
        asked
            .lock()
            .unwrap()
            .push(format!("{} {}", request.method(), request.uri()));
        let refused = is_refused(&forbidden, &line);
        let service = service.clone();
        async move {
            if refused {
                let message = r#"x is forbidden: User "a" cannot create resource "x" in API group "" in the namespace "y""#;
                return Ok(refuse(Reason::Forbidden, message));
            }
            service
                .oneshot(request)
                .await
                .map(|response| response.map(|body| apiserver::Body::new(body.map_err(|error| error))))
        }
    }))
}
