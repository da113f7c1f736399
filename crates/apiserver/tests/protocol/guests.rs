//! Virtual groups and what stands behind pods.

use std::sync::Arc;

use apiserver::{ApiServer, Body, Caller, Config, GroupHandler, PodBackend, RequestInfo, Subject, UserInfo};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use serde_json::{Value, json};

use crate::harness::Harness;

struct Echo;

impl GroupHandler for Echo {
    fn group(&self) -> &str {
        "shadow"
    }

    fn version(&self) -> &str {
        "v1alpha1"
    }

    fn discovery(&self) -> Value {
        json!({"kind": "APIResourceList", "groupVersion": "shadow/v1alpha1", "resources": [
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"]}]})
    }

    fn handle(&self, info: RequestInfo, user: UserInfo, _: Request<Body>) -> BoxFuture<'_, Response<Body>> {
        assert_ne!(info.name, "panic");
        let text = format!("{} {} {}", user.name, info.verb, info.qualified_resource());
        async move { Response::new(Body::from(text)) }.boxed()
    }
}

#[tokio::test]
async fn a_group_answers_for_itself_and_may_fail() {
    let it = Harness::new().await;
    it.server.add_group(Arc::new(Echo));
    let answer = it.get("/apis/shadow/v1alpha1/namespaces/a/things/b").await;
    assert_eq!(answer.bytes.as_ref(), b"system:apiserver get things");
    let status = it
        .get("/apis/shadow/v1alpha1/namespaces/a/things/panic")
        .await
        .expect(500);
    assert_eq!(status["kind"], "Status");
    let groups = it.get("/apis").await.expect(200);
    assert!(
        groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .any(|group| group["name"] == "shadow")
    );
    let list = it.get("/apis/shadow/v1alpha1").await.expect(200);
    assert_eq!(list["resources"][0]["name"], "things");
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let text = String::from_utf8(it.get_as("/apis", aggregated).await.bytes.to_vec()).unwrap();
    assert!(text.contains("\"resource\":\"things\""), "{text}");
}

struct Logs;

impl PodBackend for Logs {
    fn connect(
        &self,
        info: RequestInfo,
        _: UserInfo,
        subject: Subject,
        _: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        let text = format!("{} of {}", info.subresource, subject.object["metadata"]["name"]);
        async move { Response::new(Body::from(text)) }.boxed()
    }
}

#[tokio::test]
async fn connecting_requests_reach_what_stands_behind() {
    let it = Harness::new().await;
    it.post(
        "/api/v1/namespaces/default/pods",
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    )
    .await
    .expect(201);
    let uri = "/api/v1/namespaces/default/pods/p/log";
    it.get(uri).await.expect(501);
    let mut config = Config::new(
        it.server.source().clone(),
        clock::Env::system(),
        Arc::new(apiserver::authz::AllowAll),
    );
    config.pods = Some(Arc::new(Logs));
    let server = ApiServer::start(config).await.unwrap();
    let it = Harness { server };
    assert_eq!(it.get(uri).await.bytes.as_ref(), b"log of \"p\"");
    let proxy = "/api/v1/namespaces/default/pods/https:p:8443/proxy/x";
    assert_eq!(it.get(proxy).await.bytes.as_ref(), b"proxy of \"p\"");
    it.get("/api/v1/namespaces/default/pods/none/log")
        .await
        .expect(404);
}

#[tokio::test]
async fn callers_in_the_process_are_users_like_others() {
    use tower::ServiceExt;
    let it = Harness::new().await;
    let service = it.server.client_service(UserInfo::new("alice", &[]));
    let request = Request::builder()
        .uri("/api/v1/namespaces/default")
        .body(Body::empty())
        .unwrap();
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let anonymous = Caller::Peer(apiserver::Peer::default());
    let request = Request::builder()
        .uri("/api/v1/namespaces")
        .body(Body::empty())
        .unwrap();
    assert_eq!(
        it.server.handle(request, anonymous).await.status(),
        200,
        "everything is allowed here"
    );
}
