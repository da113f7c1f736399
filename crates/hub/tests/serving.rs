//! A hub as an aggregated API: real sockets and TLS, a parent that answers reviews by hand.

mod support;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clock::Env;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hub::{ServeConfig, serve};
use hyper_util::rt::TokioIo;
use runtime::CancellationToken;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use support::Parent;
use tokio::net::{TcpListener, TcpStream};

/// Waits until the hub has put its CA into the registration.
async fn published_authority(parent: &Parent) -> String {
    loop {
        let service = parent
            .get("apiservices", "", "v1alpha1.shadow")
            .expect("it is installed");
        if let Some(bundle) = service["spec"]["caBundle"].as_str() {
            assert_eq!(service["spec"].get("insecureSkipTLSVerify"), None, "{service}");
            return String::from_utf8(STANDARD.decode(bundle).expect("base64")).expect("PEM");
        }
        tokio::task::yield_now().await;
    }
}

async fn get(address: std::net::SocketAddr, ca: &str, token: &str, path: &str) -> (StatusCode, Value) {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM"))
        .expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await.expect("a listener");
    let name = ServerName::try_from("clusternet-hub.clusternet-system.svc").expect("a name");
    let socket = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
        .expect("a verified hub");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .expect("HTTP");
    tokio::spawn(connection);
    let mut request = Request::get(path).header("host", "hub");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::<Bytes>::default()).expect("good parts");
    let response = sender.send_request(request).await.expect("an answer");
    let status = response.status();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a whole answer")
        .to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test]
async fn a_hub_tells_the_others_the_port_that_it_got() {
    let parent = Parent::new();
    let shutdown = CancellationToken::new();
    let peers = hub::PeerConfig {
        listen: "127.0.0.1:0".parse().expect("an address"),
        advertise: "localhost".to_owned(),
    };
    let config = ServeConfig {
        peers: Some(peers),
        ..ServeConfig::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (client, end) = (parent.client(), shutdown.clone());
    let serving = tokio::spawn(serve(config, client, listener, Env::system(), end));
    let holder = loop {
        let leases = parent.all("leases");
        if let Some(holder) = leases
            .first()
            .and_then(|lease| lease["spec"]["holderIdentity"].as_str())
        {
            break hub::peers::PeerAddress::parse(holder).expect("where the hub is");
        }
        tokio::task::yield_now().await;
    };
    TcpStream::connect(("127.0.0.1", holder.port))
        .await
        .expect("it listens there");
    shutdown.cancel();
    serving.await.expect("no panic").expect("a good configuration");
}

#[tokio::test]
async fn a_parent_can_verify_the_hub_and_decides_about_its_callers() {
    let parent = Parent::new();
    for name in ["v1alpha1.shadow", "v1alpha1.proxies.clusternet.io"] {
        parent.put(json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": name, "resourceVersion": "1"}, "spec": {"insecureSkipTLSVerify": true},
        }));
    }
    parent.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {},
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system", "resourceVersion": "1"},
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let shutdown = CancellationToken::new();
    let mut serving = tokio::spawn(serve(
        ServeConfig::default(),
        parent.client(),
        listener,
        Env::system(),
        shutdown.clone(),
    ));
    let ca = tokio::select! {
        ca = published_authority(&parent) => ca,
        ended = &mut serving => panic!("the hub ended: {ended:?}"),
    };
    let sockets = "/apis/proxies.clusternet.io/v1alpha1/sockets";
    let (status, list) = get(address, &ca, "good", sockets).await;
    assert_eq!(
        (status, &list["kind"]),
        (StatusCode::OK, &json!("SocketList")),
        "{list}"
    );
    assert_eq!(
        get(address, &ca, "bad", sockets).await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(get(address, &ca, "", sockets).await.0, StatusCode::FORBIDDEN);
    let (_, groups) = get(address, &ca, "good", "/apis").await;
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert!(
        names.contains(&"shadow") && names.contains(&"proxies.clusternet.io"),
        "{names:?}"
    );
    shutdown.cancel();
    serving.await.expect("no panic").expect("a good configuration");
    assert!(
        parent
            .get("secrets", "clusternet-system", "clusternet-hub-serving")
            .is_some()
    );
}
