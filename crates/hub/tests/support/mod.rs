//! A parent API server of a few objects, and a hub's HTTP server on pipes.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use apiserver::query::Query;
use apiserver::{Body, RequestInfo, UserInfo};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hub::Hub;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeio::Client;
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex};

/// A parent that answers gets, lists and (silent) watches.
#[derive(Clone, Default)]
pub(crate) struct Parent {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Parent {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn put(&self, object: Value) {
        let plural = format!("{}s", object["kind"].as_str().expect("a kind").to_lowercase());
        let meta = &object["metadata"];
        let key = format!(
            "{plural}/{}/{}",
            meta["namespace"].as_str().unwrap_or(""),
            meta["name"].as_str().unwrap_or("")
        );
        self.objects.lock().expect("no panic").insert(key, object);
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.objects
            .lock()
            .expect("no panic")
            .get(&format!("{plural}/{namespace}/{name}"))
            .cloned()
    }

    pub(crate) fn all(&self, plural: &str) -> Vec<Value> {
        let objects = self.objects.lock().expect("no panic");
        let of_kind = objects
            .iter()
            .filter(|(key, _)| key.starts_with(&format!("{plural}/")));
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    pub(crate) fn client(&self) -> Client {
        let parent = self.clone();
        Client::from_service(tower::service_fn(move |request: Request<Full<Bytes>>| {
            let parent = parent.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.expect("a body in memory").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                Ok::<_, Infallible>(parent.answer(&Request::from_parts(parts, ()), body))
            }
        }))
    }

    fn answer(&self, request: &Request<()>, body: Value) -> Response<Body> {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let mut objects = self.objects.lock().expect("no panic");
        let prefix = format!("{}/", info.resource);
        let (status, value) = match info.verb.as_str() {
            "get" => match objects.get(&format!("{prefix}{}/{}", info.namespace, info.name)) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => {
                    let error = machinery::ApiError::not_found(&info.group, &info.resource, &info.name);
                    (StatusCode::NOT_FOUND, error.to_value())
                }
            },
            "list" => {
                let items: Vec<&Value> = objects
                    .iter()
                    .filter(|(key, _)| key.starts_with(&prefix))
                    .map(|(_, object)| object)
                    .collect();
                (
                    StatusCode::OK,
                    json!({"kind": "List", "metadata": {"resourceVersion": "9"}, "items": items}),
                )
            }
            "watch" => return Response::new(Body::from_stream(futures::stream::pending())),
            "create" if *info.resource == *"tokenreviews" => {
                let good = body["spec"]["token"] == "good";
                let user = json!({"username": "jane", "groups": ["ops"]});
                (
                    StatusCode::CREATED,
                    json!({"status": {"authenticated": good, "user": user}}),
                )
            }
            "create" if *info.resource == *"subjectaccessreviews" => (
                StatusCode::CREATED,
                json!({"status": {"allowed": body["spec"]["user"] == "jane"}}),
            ),
            "create" => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                objects.insert(format!("{prefix}{}/{name}", info.namespace), body.clone());
                (StatusCode::CREATED, body)
            }
            "patch" => {
                // Only what is applied need not be there.
                let key = format!("{prefix}{}/{}", info.namespace, info.name);
                let object = objects.entry(key).or_insert_with(|| json!({}));
                machinery::patch::merge_patch(object, &body);
                (StatusCode::OK, object.clone())
            }
            verb => (
                StatusCode::METHOD_NOT_ALLOWED,
                json!({"kind": "Status", "message": verb}),
            ),
        };
        let mut response = Response::new(Body::from(value.to_string()));
        *response.status_mut() = status;
        response
    }
}

/// A connection to the hub. The caller's identity is `jane`; each header `x-extra: KEY=VALUE` is one of its extras.
pub(crate) fn connect(hub: &Hub) -> DuplexStream {
    let (near, far) = duplex(64 << 10);
    let hub = hub.clone();
    tokio::spawn(async move {
        let service = service_fn(move |request: Request<Incoming>| {
            let hub = hub.clone();
            async move { Ok::<_, Infallible>(handle(&hub, request).await) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
        // Broken connections are the other side's business.
        drop(connection.with_upgrades().await);
    });
    near
}

async fn handle(hub: &Hub, mut request: Request<Incoming>) -> Response<Body> {
    let mut user = UserInfo::new("jane", &[]);
    for extra in request.headers().get_all("x-extra") {
        let (key, value) = extra.to_str().expect("text").split_once('=').expect("KEY=VALUE");
        user.extra
            .entry(key.to_owned())
            .or_default()
            .push(value.to_owned());
    }
    request.headers_mut().remove("x-extra");
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
    for group in hub.groups() {
        if *info.group == *group.group() && *info.version == *group.version() {
            return group.handle(info, user, request.map(Body::new)).await;
        }
    }
    panic!("no group for {}", info.path);
}

/// One request; the answer as JSON.
pub(crate) async fn call(
    hub: &Hub,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (StatusCode, Value) {
    let io = connect(hub);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io))
        .await
        .expect("a server");
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "parent");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::<Bytes>::from(body.to_owned()))
        .expect("good parts");
    let response = sender.send_request(request).await.expect("an answer");
    let status = response.status();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a whole answer")
        .to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))),
    )
}
