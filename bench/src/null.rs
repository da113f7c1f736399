//! A server that answers canned bytes: what is left when the server does nothing.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::phases::{LISTED, object};

/// Serves on a free port until it is killed; writes `folder/kubeconfig` first.
pub(crate) async fn serve(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let leaf = |name: &str| -> anyhow::Result<_> {
        let key = KeyPair::generate()?;
        Ok((
            CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &issuer)?,
            key,
        ))
    };
    let (server, server_key) = leaf("127.0.0.1")?;
    let (client, client_key) = leaf("client")?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(issuer.der().clone())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![server.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der())),
        )?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let kubeconfig = format!(
        "clusters: [{{name: c, cluster: {{server: \"https://{}\", certificate-authority-data: {}}}}}]\n\
         users: [{{name: u, user: {{client-certificate-data: {}, client-key-data: {}}}}}]\n",
        listener.local_addr()?,
        STANDARD.encode(issuer.pem()),
        STANDARD.encode(client.pem()),
        STANDARD.encode(client_key.serialize_pem()),
    );
    std::fs::write(folder.join("kubeconfig"), kubeconfig)?;
    let canned = Arc::new(Canned::new());
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    loop {
        let (tcp, _) = listener.accept().await?;
        let (acceptor, canned) = (acceptor.clone(), canned.clone());
        tokio::spawn(async move {
            tcp.set_nodelay(true)?;
            let stream = acceptor.accept(tcp).await?;
            let service = service_fn(move |request| answer(canned.clone(), request));
            let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
            anyhow::Ok(served?)
        });
    }
}

struct Canned {
    object: Bytes,
    list: Bytes,
}

impl Canned {
    fn new() -> Self {
        let items: Vec<String> = (0..LISTED)
            .map(|index| object(&format!("listed-{index}")))
            .collect();
        let list = format!(
            "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"items\":[{}]}}",
            items.join(",")
        );
        Self {
            object: Bytes::from(object("canned")),
            list: Bytes::from(list),
        }
    }
}

async fn answer(
    canned: Arc<Canned>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_list = request.method() == Method::GET && request.uri().path().ends_with("/configmaps");
    // The body is read: a server that does not take it would measure nothing.
    let _broken_off = request.into_body().collect().await;
    let body = if is_list {
        canned.list.clone()
    } else {
        canned.object.clone()
    };
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}
