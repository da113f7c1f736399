//! A load client: HTTP/2 over TLS with a client certificate, one connection a client.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where a server is and who we are to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) authority: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Target {
    /// Reads a kubeconfig with inline or file credentials.
    pub(crate) fn from_kubeconfig(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let documents = codec::yaml::parse(&text).map_err(|error| anyhow::anyhow!("{error}"))?;
        let config = documents.first().context("an empty kubeconfig")?;
        let inline = |pointer: &str| -> anyhow::Result<Vec<u8>> {
            let data = config.pointer(pointer).and_then(serde_json::Value::as_str);
            Ok(STANDARD.decode(data.with_context(|| format!("no {pointer} in the kubeconfig"))?)?)
        };
        let server = config
            .pointer("/clusters/0/cluster/server")
            .and_then(serde_json::Value::as_str);
        let authority = server
            .context("no server")?
            .trim_start_matches("https://")
            .trim_end_matches('/');
        Self::new(
            authority,
            &inline("/clusters/0/cluster/certificate-authority-data")?,
            &inline("/users/0/user/client-certificate-data")?,
            &inline("/users/0/user/client-key-data")?,
        )
    }

    fn new(authority: &str, ca: &[u8], certificate: &[u8], key: &[u8]) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate?)?;
        }
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            authority: authority.to_owned(),
            tls: Arc::new(tls),
        })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let tcp = TcpStream::connect(&self.authority).await?;
        tcp.set_nodelay(true)?;
        let host = self.authority.rsplit_once(':').context("no port")?.0.to_owned();
        let stream = TlsConnector::from(self.tls.clone())
            .connect(ServerName::try_from(host)?, tcp)
            .await?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            // The windows of Go's client, which kubectl and all controllers use.
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(1 << 30)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Client {
            sender,
            authority: self.authority.clone(),
        })
    }
}

/// One connection.
#[derive(Clone)]
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

impl Client {
    /// Sends a request; the body of the answer is not read yet.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.authority))
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::ACCEPT_ENCODING, "identity")
            .header(http::header::CONTENT_TYPE, content_type)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and keeps the whole answer, which must be a success.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let response = self.send(method, path, content_type, body).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }

    /// Sends a request and reads the whole answer, which must be a success, without keeping it; gives its length.
    pub(crate) async fn drain(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<usize> {
        let response = self.send(method, path, content_type, body).await?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let bytes = body.collect().await?.to_bytes();
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }
}
