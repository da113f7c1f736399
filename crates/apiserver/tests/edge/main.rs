//! The way in, from the socket to the object: certificates, tokens, rights, reviews, over a real store.

#![allow(clippy::unwrap_used, reason = "what a helper cannot do fails its test")]

use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::authn::{Anonymous, Authenticator, Config as Authn, FrontProxy, FrontProxyHeaders};
use apiserver::authz::Rbac;
use apiserver::bootstrap_policy::Facts;
use apiserver::controllers::govern;
use apiserver::listen::{Limits, serve};
use apiserver::pki::{FRONT_PROXY, Identity, Pki, ServingCertificate, client_config, server_config};
use apiserver::tokens::{DEFAULT_ISSUER, TokenKeys};
use apiserver::{ApiServer, Body, Caller, Config, UserInfo};
use base64::Engine as _;
use http::Request;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

struct Plane {
    server: Arc<ApiServer>,
    pki: Pki,
    address: SocketAddr,
    shutdown: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Plane {
    async fn start() -> Self {
        let env = clock::Env::system();
        let disk = clock::disk::SimDisk::new(1);
        let store = store::Store::open(
            Arc::new(disk),
            store::Options::new(env.clone()),
            store::Mode::Inline,
        )
        .unwrap();
        let pki = Pki::ephemeral(&[], &env).unwrap();
        let audiences = [DEFAULT_ISSUER.to_owned()];
        let tokens =
            TokenKeys::from_pem(pki.service_account_key.expose(), DEFAULT_ISSUER, &audiences).unwrap();
        let proxies = pki.front_proxy_authority.certificate_pem();
        let front_proxy = FrontProxy::new(
            proxies,
            vec![FRONT_PROXY.to_owned()],
            FrontProxyHeaders::default(),
        );
        let authenticator = Authenticator::new(Authn {
            source: store.clone(),
            env: env.clone(),
            tokens: Arc::new(tokens),
            client_authorities_pem: Some(pki.authority.certificate_pem().to_owned()),
            front_proxy: Some(front_proxy.unwrap()),
            anonymous: Anonymous::Allowed,
        })
        .unwrap();
        let config = Config {
            authenticator: Some(Arc::new(authenticator)),
            ..Config::new(store.clone(), env, Arc::new(Rbac::new(store)))
        };
        let server = ApiServer::start(config).await.unwrap();
        let shutdown = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        govern(&server, Facts::of(&pki, address.port()), &shutdown)
            .await
            .unwrap();
        let certificate = ServingCertificate::new(&pki.serving).unwrap();
        let tls = server_config(certificate, &[pki.authority.certificate_pem(), proxies]).unwrap();
        let served = tokio::spawn(serve(
            listener,
            tls,
            server.clone(),
            Limits::default(),
            shutdown.clone(),
        ));
        Self {
            server,
            pki,
            address,
            shutdown,
            served,
        }
    }

    /// One request over TLS.
    async fn send(
        &self,
        identity: Option<&Identity>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, Value) {
        let config = client_config(self.pki.authority.certificate_pem(), identity).unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .body(Body::from(body))
            .unwrap();
        let defaults = [("host", "localhost"), ("content-type", "application/json")];
        for (name, value) in defaults.iter().chain(headers) {
            let name = http::HeaderName::try_from(*name).unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn admin(&self, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.send(Some(&self.pki.admin), method, path, &[], &body).await;
        assert!(code < 300, "{method} {path}: {code} {answer}");
        answer
    }

    async fn bearer(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let value = format!("Bearer {token}");
        self.send(None, method, path, &[("authorization", &value)], &body)
            .await
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.served.await.unwrap();
    }
}

const CORE: &str = "/api/v1/namespaces/default";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn robot(plane: &Plane) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    plane
        .admin("POST", &format!("{CORE}/serviceaccounts"), account)
        .await;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600},
    });
    let mut of_another = request.clone();
    of_another["metadata"] = json!({"name": "other"});
    let path = format!("{CORE}/serviceaccounts/robot/token");
    let (code, refused) = plane
        .send(Some(&plane.pki.admin), "POST", &path, &[], &of_another)
        .await;
    assert_eq!(code, 422, "{refused}");
    let answer = plane.admin("POST", &path, request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_service_account_may_what_a_role_says_from_the_moment_that_it_says_so() {
    let plane = Plane::start().await;
    let token = robot(&plane).await;
    let (code, status) = plane
        .bearer(&token, "GET", &format!("{CORE}/pods"), Value::Null)
        .await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "pods is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"pods\" in API group \
         \"\" in the namespace \"default\""
    );
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reads"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
                  {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]});
    plane
        .admin("POST", &format!("{RBAC}/namespaces/default/roles"), role)
        .await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "reads"}, "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}});
    plane
        .admin(
            "POST",
            &format!("{RBAC}/namespaces/default/rolebindings"),
            binding,
        )
        .await;
    let (code, list) = plane
        .bearer(&token, "GET", &format!("{CORE}/pods"), Value::Null)
        .await;
    assert_eq!((code, &list["kind"]), (200, &json!("PodList")));
    // It may write roles, but only with rights that it has.
    let grant = |name: &str, verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
               "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
    };
    let roles = format!("{RBAC}/namespaces/default/roles");
    assert_eq!(
        plane.bearer(&token, "POST", &roles, grant("a", "list")).await.0,
        201
    );
    let (code, status) = plane.bearer(&token, "POST", &roles, grant("b", "delete")).await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("is attempting to grant RBAC permissions not currently held"),
        "{message}"
    );
    plane
        .admin("DELETE", &format!("{CORE}/serviceaccounts/robot"), Value::Null)
        .await;
    assert_eq!(
        plane
            .bearer(&token, "GET", &format!("{CORE}/pods"), Value::Null)
            .await
            .0,
        401
    );
    plane.end().await;
}

#[tokio::test]
async fn strangers_learn_what_everybody_may_know() {
    let plane = Plane::start().await;
    for (path, want) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/api", 403),
        ("/apis", 403),
        ("/metrics", 403),
        ("/api/v1/secrets", 403),
    ] {
        assert_eq!(
            plane.send(None, "GET", path, &[], &Value::Null).await.0,
            want,
            "{path}"
        );
    }
    let wrong = [("authorization", "Bearer wrong")];
    let (code, status) = plane.send(None, "GET", "/version", &wrong, &Value::Null).await;
    assert_eq!(
        (code, &status["reason"], &status["message"]),
        (401, &json!("Unauthorized"), &json!("Unauthorized"))
    );
    let claim = [
        ("x-remote-user", "kubernetes-admin"),
        ("x-remote-group", "system:masters"),
    ];
    assert_eq!(
        plane
            .send(None, "GET", "/api/v1/secrets", &claim, &Value::Null)
            .await
            .0,
        403
    );
    let acting = [
        ("impersonate-user", "kubernetes-admin"),
        ("impersonate-group", "system:masters"),
    ];
    assert_eq!(
        plane
            .send(None, "GET", "/api/v1/secrets", &acting, &Value::Null)
            .await
            .0,
        403
    );
    let proxy = Some(&plane.pki.front_proxy);
    assert_eq!(
        plane
            .send(proxy, "GET", "/api/v1/secrets", &claim, &Value::Null)
            .await
            .0,
        200
    );
    let stranger = Pki::ephemeral(&[], &clock::Env::system()).unwrap();
    assert_eq!(
        plane
            .send(Some(&stranger.admin), "GET", "/version", &[], &Value::Null)
            .await
            .0,
        401
    );
    plane.end().await;
}

#[tokio::test]
async fn reviews_answer_over_the_wire() {
    let plane = Plane::start().await;
    let token = robot(&plane).await;
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let answer = plane
        .admin("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        .await;
    assert_eq!(answer["status"]["authenticated"], true);
    assert_eq!(
        answer["status"]["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    let ask = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(
        plane.bearer(&token, "POST", path, ask.clone()).await.1["status"]["allowed"],
        false
    );
    assert_eq!(plane.admin("POST", path, ask).await["status"]["allowed"], true);
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, answer) = plane.bearer(&token, "POST", path, who).await;
    assert_eq!(
        answer["status"]["userInfo"]["username"],
        "system:serviceaccount:default:robot"
    );
    plane.end().await;
}

#[tokio::test]
async fn a_bootstrap_token_gets_its_groups_in() {
    let plane = Plane::start().await;
    let data = |text: &str| json!(base64::engine::general_purpose::STANDARD.encode(text));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef"},
        "data": {
            "token-id": data("abcdef"), "token-secret": data("0123456789abcdef"),
            "usage-bootstrap-authentication": data("true"),
            "auth-extra-groups": data("system:bootstrappers:clusternet:register-cluster-token"),
        },
    });
    plane
        .admin("POST", "/api/v1/namespaces/kube-system/secrets", secret)
        .await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "registers"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
    plane.admin("POST", &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "registers"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io",
                      "name": "system:bootstrappers:clusternet:register-cluster-token"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "registers"}});
    plane
        .admin("POST", &format!("{RBAC}/clusterrolebindings"), binding)
        .await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello"}});
    let path = format!("{CORE}/configmaps");
    assert_eq!(
        plane
            .bearer("abcdef.0123456789abcdef", "POST", &path, map)
            .await
            .0,
        201
    );
    assert_eq!(
        plane
            .bearer("abcdef.0123456789abcdef", "GET", &path, Value::Null)
            .await
            .0,
        403
    );
    assert_eq!(
        plane
            .bearer("abcdef.0123456789abcdeX", "GET", &path, Value::Null)
            .await
            .0,
        401
    );
    plane.end().await;
}

/// Lets the robot do what some rules say.
async fn grant(plane: &Plane, rules: Value) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "robot"},
        "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "robot"}, "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"}});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        plane
            .admin("POST", &format!("{RBAC}/namespaces/default/{plural}"), object)
            .await;
    }
}

#[tokio::test]
async fn who_may_only_change_objects_makes_none_by_changing_them() {
    let plane = Plane::start().await;
    let token = robot(&plane).await;
    grant(
        &plane,
        json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["secrets", "leases"],
                "verbs": ["get", "update", "patch"]}]),
    )
    .await;
    let authorization = format!("Bearer {token}");
    let change = async |method: &str, path: &str, body: &Value| {
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/apply-patch+yaml"),
        ];
        let headers = &headers[..if method == "PATCH" { 2 } else { 1 }];
        plane.send(None, method, path, headers, body).await
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "default"}}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "s"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (method, collection, object) in [
        ("PATCH", format!("{CORE}/secrets"), &secret),
        ("PATCH", leases.to_owned(), &lease),
        ("PUT", leases.to_owned(), &lease),
    ] {
        let path = format!("{collection}/s?fieldManager=robot");
        let (code, status) = change(method, &path, object).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(code, 403, "{method} {path}: {status}");
        assert!(
            message.contains("\"system:serviceaccount:default:robot\" cannot create resource"),
            "{message}"
        );
        plane.admin("POST", &collection, object.clone()).await;
        let (code, answer) = change(method, &path, object).await;
        assert_eq!(code, 200, "{method} {path}: {answer}");
        plane
            .admin("DELETE", &format!("{collection}/s"), Value::Null)
            .await;
    }
    plane.end().await;
}

#[tokio::test]
async fn who_may_see_one_object_may_list_and_watch_it_alone() {
    let plane = Plane::start().await;
    let token = robot(&plane).await;
    grant(
        &plane,
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"],
                "verbs": ["get", "list", "watch"]}]),
    )
    .await;
    for (query, code) in [
        ("fieldSelector=metadata.name%3Done", 200),
        ("fieldSelector=metadata.name%3Done&watch=1&timeoutSeconds=1", 200),
        ("fieldSelector=metadata.name%3Dtwo", 403),
        ("fieldSelector=metadata.name!%3Dtwo", 403),
        ("", 403),
        ("watch=1", 403),
    ] {
        let path = format!("{CORE}/configmaps?{query}");
        assert_eq!(
            plane.bearer(&token, "GET", &path, Value::Null).await.0,
            code,
            "{query}"
        );
    }
    plane.end().await;
}

#[tokio::test]
async fn the_loopback_user_may_everything_in_process() {
    let plane = Plane::start().await;
    let request = Request::get("/api/v1/secrets").body(Body::empty()).unwrap();
    let response = plane
        .server
        .handle(request, Caller::User(UserInfo::loopback()))
        .await;
    assert_eq!(response.status(), 200);
    plane.end().await;
}
