//! The cluster proxy end to end in one process: a parent that knows one cluster, the hub's HTTP server, an agent with a
//! tunnel, and the cluster's API server behind TLS. All connections are pipes.

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::Body;
use bytes::Bytes;
use clock::Env;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hub::peers::{PeerAddress, Peers};
use hub::{Config, Hub};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use runtime::CancellationToken;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use support::{Parent, call, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tunnel::client::{self, ClientConfig, ClientState};
use tunnel::{AllowList, BoxIo, Connector, DialRefusal, Dialer};

const ID: &str = "00000000-0000-4000-8000-000000000001";
const ROOT: &str = "/apis/proxies.clusternet.io/v1alpha1/sockets/00000000-0000-4000-8000-000000000001";

/// A server's TLS, and what goes with it as PEM.
struct Tls {
    config: Arc<rustls::ServerConfig>,
    ca: String,
    /// A client's certificate and key that the server knows.
    client: (String, String),
}

/// The cluster's servers: its API server with TLS at 10.0.0.1:6443, a plain one at web:80, one with a certificate of
/// somebody else at 10.0.0.2:443, and flood:80, whose answer has 4 GiB.
#[derive(Clone)]
struct Servers {
    good: Arc<rustls::ServerConfig>,
    foreign: Arc<rustls::ServerConfig>,
    ca: String,
    client: (String, String),
    dials: Arc<AtomicUsize>,
    /// How many bytes of its answer flood:80 got rid of.
    flooded: Arc<AtomicUsize>,
}

fn tls(address: &str) -> Tls {
    let ca_key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("good names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).expect("a certificate");
    let issuer = rcgen::Issuer::new(params, ca_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new(vec![address.to_owned()])
        .expect("a good name")
        .signed_by(&key, &issuer)
        .expect("a certificate");
    let client_key = rcgen::KeyPair::generate().expect("a key");
    let client = rcgen::CertificateParams::new(Vec::new())
        .expect("good names")
        .signed_by(&client_key, &issuer)
        .expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.der().clone()).expect("a certificate");
    let clients =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .expect("a good authority");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).expect("a key"),
        )
        .expect("a key that fits");
    Tls {
        config: Arc::new(config),
        ca: ca.pem(),
        client: (client.pem(), client_key.serialize_pem()),
    }
}

/// Answers with as much as is taken of 4 GiB.
async fn flood(mut io: tokio::io::DuplexStream, sent: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await?);
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 4_u64 << 30);
    io.write_all(head.as_bytes()).await?;
    loop {
        sent.fetch_add(io.write(&[b'x'; 16 << 10]).await?, Ordering::SeqCst);
    }
}

/// Tells what arrived, and whether with a certificate; an upgrade echoes bytes.
async fn serve(certified: bool, mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if let Some(protocol) = request.headers().get("upgrade").cloned() {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let io = TokioIo::new(upgrade.await.expect("a caller"));
            let (mut reader, mut writer) = tokio::io::split(io);
            tokio::io::copy(&mut reader, &mut writer).await
        });
        let response = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("upgrade", protocol);
        return Ok(response
            .header("connection", "Upgrade")
            .body(Full::default())
            .expect("good parts"));
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let mut headers: Vec<String> = parts
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    headers.sort();
    let seen = json!({
        "certified": certified, "method": parts.method.as_str(), "uri": parts.uri.to_string(), "headers": headers,
        "body": String::from_utf8_lossy(&body),
    });
    Ok(Response::new(Full::from(seen.to_string())))
}

async fn serve_http<S>(io: S, certified: bool)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(
        TokioIo::new(io),
        service_fn(move |request| serve(certified, request)),
    );
    // Broken connections are the other side's business.
    drop(connection.with_upgrades().await);
}

impl Dialer for Servers {
    fn dial(&self, _: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        self.dials.fetch_add(1, Ordering::SeqCst);
        let (near, far) = duplex(64 << 10);
        match address {
            "web:80" => drop(tokio::spawn(serve_http(far, false))),
            "flood:80" => drop(tokio::spawn(flood(far, Arc::clone(&self.flooded)))),
            "10.0.0.1:6443" | "10.0.0.2:443" => {
                let config = if address == "10.0.0.1:6443" {
                    &self.good
                } else {
                    &self.foreign
                };
                let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(config));
                tokio::spawn(async move {
                    if let Ok(io) = acceptor.accept(far).await {
                        let certified = io.get_ref().1.peer_certificates().is_some();
                        serve_http(io, certified).await;
                    }
                });
            }
            _ => {
                let (address, source) = (address.to_owned(), std::io::ErrorKind::ConnectionRefused.into());
                return Box::pin(async move { Err(DialRefusal::Failed { address, source }) });
            }
        }
        Box::pin(async move { Ok(Box::new(near) as BoxIo) })
    }
}

struct ToHub(Hub);

impl Connector for ToHub {
    fn connect(&self, _: &str, _: u16, _: bool) -> BoxFuture<'static, std::io::Result<BoxIo>> {
        let io = connect(&self.0);
        Box::pin(async move { Ok(Box::new(io) as BoxIo) })
    }
}

/// The way from one hub to another.
struct ToPeer(Hub);

impl Connector for ToPeer {
    fn connect(&self, _: &str, _: u16, _: bool) -> BoxFuture<'static, std::io::Result<BoxIo>> {
        let (near, far) = duplex(64 << 10);
        let hub = self.0.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = hub.answer_peer(request.map(Body::new));
                std::future::ready(Ok::<_, Infallible>(response))
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
            // Broken connections are the other side's business.
            drop(connection.with_upgrades().await);
        });
        Box::pin(async move { Ok(Box::new(near) as BoxIo) })
    }
}

struct Fixture {
    parent: Parent,
    hub: Hub,
    servers: Servers,
}

async fn fixture() -> Fixture {
    let good = tls("10.0.0.1");
    let servers = Servers {
        good: good.config,
        foreign: tls("10.0.0.2").config,
        ca: good.ca,
        client: good.client,
        dials: Arc::default(),
        flooded: Arc::default(),
    };
    let parent = Parent::new();
    parent.put(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "clusternet-x", "labels": {api::labels::CLUSTER_ID: ID}, "resourceVersion": "1"},
    }));
    parent.put(json!({
        "apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ManagedCluster",
        "metadata": {"name": "edge-7", "namespace": "clusternet-x", "resourceVersion": "1"},
        "spec": {"clusterId": ID}, "status": {"apiserverURL": "https://10.0.0.1:6443"},
    }));
    use base64::Engine;
    let ca = base64::engine::general_purpose::STANDARD.encode(&servers.ca);
    parent.put(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "child-cluster-deployer", "namespace": "clusternet-x", "resourceVersion": "2"},
        "data": {"ca.crt": ca},
    }));
    let hub = Hub::new(
        parent.client(),
        Env::system(),
        Config::default(),
        CancellationToken::new(),
    );
    Fixture { parent, hub, servers }
}

impl Fixture {
    async fn with_agent(self) -> Self {
        self.with_agent_at("///").await
    }

    /// With an agent that asks for its tunnel there, after the cluster's own path.
    async fn with_agent_at(self, suffix: &str) -> Self {
        let config = ClientConfig::new(format!("https://hub:443{ROOT}{suffix}"), ID);
        let mut state = config.state.subscribe();
        let targets = ["10.0.0.1:6443", "10.0.0.2:443", "web:80", "closed:80", "flood:80"].map(str::to_owned);
        let dialer = Arc::new(AllowList::new(targets, self.servers.clone()));
        let connector = Arc::new(ToHub(self.hub.clone()));
        let run = client::run(config, connector, dialer, Env::system(), CancellationToken::new());
        tokio::spawn(async move { run.await.expect("a good URL") });
        state
            .wait_for(|state| *state == ClientState::Connected)
            .await
            .expect("the agent runs");
        while !self.hub.registry().is_connected(ID) {
            tokio::task::yield_now().await;
        }
        self
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
        call(&self.hub, "GET", &format!("{ROOT}{path}"), headers, "").await
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_reaches_the_api_server_with_the_childs_credential_only() {
    let fixture = fixture().await.with_agent().await;
    let headers = [
        ("x-extra", "clusternet-token=child"),
        ("x-extra", "clusternet-impersonate-user=jane"),
        ("authorization", "Basic system:anonymous"),
        ("impersonate-user", "clusternet"),
        ("accept", "application/json"),
    ];
    let path = format!("{ROOT}/proxy/direct/api/v1/pods?a=b%20c&dryRun=All");
    let (status, seen) = call(&fixture.hub, "POST", &path, &headers, "hello").await;
    assert_eq!(status, StatusCode::OK, "{seen}");
    let expected = json!({
        "certified": false, "method": "POST", "uri": "/api/v1/pods?a=b%20c&dryRun=All", "body": "hello",
        "headers": [
            "accept: application/json", "authorization: Bearer child", "content-length: 5", "host: 10.0.0.1:6443",
            "impersonate-user: jane",
        ],
    });
    assert_eq!(seen, expected);
    for path in [
        "/proxy/http/web/x",
        "/proxy/direct/version",
        "/proxy/direct/version",
    ] {
        assert_eq!(fixture.get(path, &[]).await.0, StatusCode::OK, "{path}");
    }
    assert_eq!(
        fixture.servers.dials.load(Ordering::SeqCst),
        2,
        "connections are used again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_childs_client_certificate_is_shown_to_the_child() {
    use base64::Engine;
    let fixture = fixture().await.with_agent().await;
    let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    let (certificate, key) = &fixture.servers.client;
    // As parents lower the names of extras, and as curl users write them.
    for prefix in ["clusternet-", "Clusternet-"] {
        let extras = [
            format!("{prefix}certificate={}", encode(certificate)),
            format!("{prefix}privatekey={}", encode(key)),
        ];
        let headers = [("x-extra", extras[0].as_str()), ("x-extra", extras[1].as_str())];
        for form in ["direct", "https/10.0.0.1:6443"] {
            let (status, seen) = fixture.get(&format!("/proxy/{form}/version"), &headers).await;
            assert_eq!(
                (status, &seen["certified"], &seen["uri"]),
                (StatusCode::OK, &json!(true), &json!("/version")),
                "{form}: {seen}"
            );
        }
    }
    // A connection with a certificate is nobody else's.
    let (_, seen) = fixture.get("/proxy/direct/version", &[]).await;
    assert_eq!(seen["certified"], false);
}

/// D11 (d): a huge answer waits for its slow reader where it comes from, and others go on.
#[tokio::test(start_paused = true)]
async fn d11_an_answer_of_four_gigabytes_is_held_by_nobody() {
    /// What the pipes, the tunnel and the two HTTP ends may hold together.
    const HELD: usize = 4 << 20;
    let fixture = fixture().await.with_agent().await;
    let mut reader = connect(&fixture.hub);
    let ask = format!("GET {ROOT}/proxy/http/flood:80/ HTTP/1.1\r\nHost: hub\r\n\r\n");
    reader.write_all(ask.as_bytes()).await.expect("a hub that reads");
    let mut taken = 0;
    for _ in 0..5 {
        let mut part = vec![0; 256 << 10];
        reader.read_exact(&mut part).await.expect("an answer");
        taken += part.len();
        let (status, _) = fixture.get("/proxy/http/web/x", &[]).await;
        assert_eq!(status, StatusCode::OK, "the cluster answers others");
        // The clock only moves when nothing else can.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let sent = fixture.servers.flooded.load(Ordering::SeqCst);
        assert!(sent >= taken - (64 << 10), "{sent} of {taken}");
        assert!(sent <= taken + HELD, "{} bytes are held", sent - taken);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_passes_as_bytes() {
    let fixture = fixture().await.with_agent().await;
    echoes(&fixture.hub).await;
}

/// Bytes go both ways through an upgraded connection.
async fn echoes(hub: &Hub) {
    let io = connect(hub);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io))
        .await
        .expect("a server");
    tokio::spawn(connection.with_upgrades());
    let request = Request::post(format!(
        "{ROOT}/proxy/direct/api/v1/namespaces/a/pods/b/exec?command=sh"
    ))
    .header("connection", "Upgrade")
    .header("upgrade", "SPDY/3.1")
    .header("host", "parent")
    .body(Full::<Bytes>::default())
    .expect("good parts");
    let response = sender.send_request(request).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["upgrade"], "SPDY/3.1");
    let mut io = TokioIo::new(hyper::upgrade::on(response).await.expect("an upgrade"));
    let sent: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    let (mut reader, mut writer) = tokio::io::split(&mut io);
    let mut read = vec![0; sent.len()];
    let (written, seen) = tokio::join!(writer.write_all(&sent), reader.read_exact(&mut read));
    written.expect("an open connection");
    seen.expect("an open connection");
    assert!(read == sent);
}

#[tokio::test(start_paused = true)]
async fn a_hub_without_the_tunnel_asks_the_one_that_has_it() {
    let fixture = fixture().await.with_agent().await;
    let other = Hub::new(
        fixture.parent.client(),
        Env::system(),
        Config::default(),
        CancellationToken::new(),
    );
    let path = format!("{ROOT}/proxy/direct/version");
    assert_eq!(
        call(&other, "GET", &path, &[], "").await.0,
        StatusCode::BAD_REQUEST
    );
    let peer = |id: &str| PeerAddress {
        id: id.to_owned(),
        host: id.to_owned(),
        port: 8_123,
    };
    // One that has no tunnels either is asked first.
    let empty = Hub::new(
        fixture.parent.client(),
        Env::system(),
        Config::default(),
        CancellationToken::new(),
    );
    let hubs = [("a", empty), ("b", fixture.hub.clone())];
    let reach = Hubs(hubs.map(|(name, hub)| (name, ToPeer(hub))));
    let peers = Peers::new(move || vec![peer("a"), peer("b")], Arc::new(reach));
    other.ask_peers(peers);
    let (status, seen) = call(&other, "GET", &path, &[("x-extra", "clusternet-token=child")], "").await;
    assert_eq!(
        (status, &seen["uri"]),
        (StatusCode::OK, &json!("/version")),
        "{seen}"
    );
    echoes(&other).await;
    let (status, unknown) = call(&other, "GET", &path.replace("0001", "0002"), &[], "").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{unknown}");
}

/// Hubs by name.
struct Hubs([(&'static str, ToPeer); 2]);

impl Connector for Hubs {
    fn connect(&self, host: &str, port: u16, tls: bool) -> BoxFuture<'static, std::io::Result<BoxIo>> {
        let (_, hub) = self.0.iter().find(|(name, _)| *name == host).expect("a hub");
        hub.connect(host, port, tls)
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_reached_is_a_status_that_names_the_cluster() {
    let alone = fixture().await;
    let (status, seen) = alone.get("/proxy/direct/version", &[]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(seen["message"].as_str().expect("text").contains(ID), "{seen}");
    let fixture = alone.with_agent().await;
    let table = [
        (
            "/proxy/https/10.0.0.2/x",
            502,
            "no verified TLS connection to 10.0.0.2:443",
        ),
        ("/proxy/http/closed/x", 502, "dial closed:80: connection refused"),
        (
            "/proxy/http/metadata/x",
            502,
            "metadata:80 is not on the agent's allow list",
        ),
        ("/proxy/ftp/x", 400, "direct/"),
        ("/logs", 404, "sockets/logs"),
    ];
    for (path, code, text) in table {
        let (status, seen) = fixture.get(path, &[]).await;
        assert_eq!(status.as_u16(), code, "{path}: {seen}");
        assert_eq!(seen["code"], code);
        assert!(
            seen["message"].as_str().expect("text").contains(text),
            "{path}: {seen}"
        );
    }
    let (status, _) = fixture
        .get("/proxy/direct", &[("x-extra", "clusternet-certificate=?")])
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn connected_clusters_are_sockets() {
    for suffix in ["", "/", "////", "?a=b", "/?watch=true"] {
        let asked = fixture().await.with_agent_at(suffix).await;
        assert!(asked.hub.registry().is_connected(ID), "U13 {suffix}");
    }
    let fixture = fixture().await.with_agent().await;
    let (status, socket) = fixture.get("/", &[]).await;
    assert_eq!(
        (status, &socket["metadata"]["name"]),
        (StatusCode::OK, &json!(ID))
    );
    for suffix in ["", "/", "////", "?a=b", "/?watch=true"] {
        let (status, socket) = fixture.get(suffix, &[]).await;
        assert_eq!(
            (status, &socket["metadata"]["name"]),
            (StatusCode::OK, &json!(ID)),
            "U13 {suffix}"
        );
    }
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for headers in [&[][..], &upgrade] {
        let (status, error) = fixture.get("/connect", headers).await;
        assert_eq!(
            (status, &error["kind"]),
            (StatusCode::NOT_FOUND, &json!("Status"))
        );
    }
    let root = "/apis/proxies.clusternet.io/v1alpha1/sockets";
    let (_, list) = call(&fixture.hub, "GET", root, &[], "").await;
    assert_eq!(list["items"].as_array().expect("a list").len(), 1);
    assert_eq!(
        call(&fixture.hub, "GET", &format!("{root}/ghost"), &[], "")
            .await
            .0,
        StatusCode::NOT_FOUND
    );
    let off = Config {
        socket_connection: false,
        ..Config::default()
    };
    let hub = Hub::new(
        Parent::new().client(),
        Env::system(),
        off,
        CancellationToken::new(),
    );
    let groups: Vec<String> = hub
        .groups()
        .iter()
        .map(|group| group.group().to_owned())
        .collect();
    assert!(groups.contains(&"proxies.clusternet.io".to_owned()));
    assert_eq!(
        call(&hub, "GET", root, &[], "").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_gets_what_its_own_descriptions_refer_to_and_nothing_else() {
    use api::entry::{Digest, Entry, Reference};
    let fixture = fixture().await;
    let bytes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data":
        {"x": "y".repeat(1_000_000)}})
    .to_string();
    let digest = Digest::of(bytes.as_bytes());
    let pieces = api::payloads::pieces(&digest, bytes.as_bytes());
    assert_eq!(pieces.len(), 2);
    let describe = |namespace: &str, digest: &Digest| {
        let entry = Entry::Reference(Reference {
            digest: digest.clone(),
            size: bytes.len() as u64,
            object: api::feed::Feed {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: String::new(),
                name: "big".to_owned(),
            },
        });
        json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Description",
            "metadata": {"name": "app-generic", "namespace": namespace, "resourceVersion": "1"},
            "spec": {"deployer": "Generic", "raw": [entry.to_raw()]}})
    };
    fixture.parent.put(describe("clusternet-x", &digest));
    fixture
        .parent
        .put(describe("clusternet-y", &Digest::of(b"another's")));
    fixture.parent.put(pieces[0].clone());
    let path = |digest: &str, name: &str| format!("/payloads/{digest}?description={name}");
    let ours = path(&digest.to_string(), "app-generic");
    let (status, answer) = fixture.get(&ours, &[]).await;
    assert_eq!(
        status,
        StatusCode::SERVICE_UNAVAILABLE,
        "a piece is missing: {answer}"
    );
    fixture.parent.put(pieces[1].clone());
    let (status, answer) = fixture.get(&ours, &[]).await;
    assert_eq!(
        (status, answer["data"]["x"].as_str().map(str::len)),
        (StatusCode::OK, Some(1_000_000))
    );
    for (case, path, expected) in [
        (
            "another's",
            path(&Digest::of(b"another's").to_string(), "app-generic"),
            StatusCode::NOT_FOUND,
        ),
        (
            "of no Description",
            path(&digest.to_string(), "other"),
            StatusCode::NOT_FOUND,
        ),
        ("no digest", path("x", "app-generic"), StatusCode::BAD_REQUEST),
        (
            "no Description is named",
            format!("/payloads/{digest}"),
            StatusCode::BAD_REQUEST,
        ),
    ] {
        let (status, answer) = fixture.get(&path, &[]).await;
        assert_eq!(status, expected, "{case}: {answer}");
    }
    let stranger = ROOT.replace("0001", "0002");
    let (status, _) = call(&fixture.hub, "GET", &format!("{stranger}{ours}"), &[], "").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "a cluster that is not known");
    let (status, _) = call(&fixture.hub, "POST", &format!("{ROOT}{ours}"), &[], "").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}
