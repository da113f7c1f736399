//! The two carriers of a request: a service in this process, or HTTPS.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tower::{Service, ServiceExt};

use crate::error::{BoxError, Error};
use crate::rate::{Limiter, Rate};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

type SendFn =
    dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>> + Send + Sync;

/// How long a connection may bring nothing before it counts as dead.
const SILENCE: Duration = Duration::from_secs(150);

/// Something that answers requests.
#[derive(Clone)]
pub(crate) struct Transport {
    send: Arc<SendFn>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

/// How a server's certificate is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// By these CA certificates (PEM).
    Ca(Vec<u8>),
    /// By the operating system's CA certificates.
    System,
    /// Not at all: anybody between can read the token.
    Anything,
}

/// How to reach an API server with a bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Connection {
    /// `https://HOST[:PORT][/PREFIX]`.
    pub server: String,
    /// Whom to believe that it is the server.
    pub trust: Trust,
    /// The bearer token; empty for none.
    pub token: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Transport {
    /// A service in this process. It is cloned for each request.
    pub(crate) fn service<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            send: Arc::new(move |request| {
                let service = service.clone();
                Box::pin(async move {
                    let response = service.oneshot(request).await.map_err(Into::into)?;
                    Ok(response.map(|body| UnsyncBoxBody::new(body.map_err(Into::into))))
                })
            }),
        }
    }

    /// HTTPS (or HTTP) through the `kube` crate.
    pub(crate) fn kube(mut config: kube::Config) -> Result<Self, Error> {
        // Retries are decided above, where the meaning of a request is known.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(10));
        // A watch hears something every minute or so (bookmarks): a connection that is silent for longer is dead, and
        // nothing else tells. A request on a connection that was idle starts the time anew.
        config.read_timeout = Some(SILENCE);
        config.reset_reader_on_write = true;
        let client = kube::Client::try_from(config).map_err(|error| Error::Config(error.into()))?;
        Ok(Self {
            send: Arc::new(move |request| {
                let client = client.clone();
                Box::pin(async move {
                    let (parts, body) = request.into_parts();
                    let bytes = body.collect().await?.to_bytes();
                    let request = Request::from_parts(parts, kube::client::Body::from(bytes));
                    let response = client.send(request).await?;
                    Ok(response.map(|body| UnsyncBoxBody::new(body.map_err(Into::into))))
                })
            }),
        })
    }

    /// What lies behind a path of this server; each request carries the headers.
    pub(crate) fn through(&self, prefix: String, headers: HeaderMap) -> Self {
        let inner = self.clone();
        Self {
            send: Arc::new(move |mut request| {
                let rest = request.uri().path_and_query().map_or("/", |path| path.as_str());
                match Uri::try_from(format!("{prefix}{rest}")) {
                    Ok(uri) => *request.uri_mut() = uri,
                    Err(error) => return Box::pin(std::future::ready(Err(error.into()))),
                }
                request.headers_mut().extend(headers.clone());
                inner.send(request)
            }),
        }
    }

    /// The same, with a bound on requests.
    pub(crate) fn limited(&self, rate: Rate) -> Self {
        let (inner, limiter) = (self.clone(), Arc::new(Limiter::new(rate)));
        Self {
            send: Arc::new(move |request| {
                let (inner, limiter) = (inner.clone(), Arc::clone(&limiter));
                Box::pin(async move {
                    limiter.wait().await;
                    inner.send(request).await
                })
            }),
        }
    }

    /// Whichever carrier is there when a request is sent.
    pub(crate) fn latest(carriers: watch::Receiver<Self>) -> Self {
        Self {
            send: Arc::new(move |request| {
                let carrier = carriers.borrow().clone();
                carrier.send(request)
            }),
        }
    }

    pub(crate) fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        (self.send)(request)
    }
}

/// A `kube` configuration from a server, its CA and a token.
pub(crate) fn config_from_token(connection: &Connection) -> Result<kube::Config, Error> {
    let Connection { server, trust, token } = connection;
    let url: http::Uri = server
        .parse()
        .map_err(|error: http::uri::InvalidUri| Error::Config(error.into()))?;
    let mut config = kube::Config::new(url);
    match trust {
        Trust::Ca(pem) => config.root_cert = Some(certificates(pem)?),
        Trust::System => {}
        Trust::Anything => config.accept_invalid_certs = true,
    }
    if !token.is_empty() {
        config.auth_info.token = Some(token.clone().into());
    }
    Ok(config)
}

/// The DER certificates of a PEM bundle.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    pem::certificates(pem).ok_or_else(|| Error::Config("the CA bundle holds no certificate".into()))
}

mod pem {
    //! Just enough PEM for CA bundles.

    use base64::Engine;

    pub(super) fn certificates(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
        let text = std::str::from_utf8(pem).ok()?;
        let mut found = Vec::new();
        let mut block: Option<String> = None;
        for line in text.lines().map(str::trim) {
            match (line, &mut block) {
                ("-----BEGIN CERTIFICATE-----", _) => block = Some(String::new()),
                ("-----END CERTIFICATE-----", Some(base64)) => {
                    found.push(base64::engine::general_purpose::STANDARD.decode(base64).ok()?);
                    block = None;
                }
                (line, Some(base64)) => base64.push_str(line),
                (_, None) => {}
            }
        }
        (!found.is_empty()).then_some(found)
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn reads_bundles() {
            let two = "# a\n-----BEGIN CERTIFICATE-----\nAQ\nID\n-----END CERTIFICATE-----\n\n-----BEGIN CERTIFICATE-----\nBAUG\n-----END CERTIFICATE-----\n";
            assert_eq!(
                super::certificates(two.as_bytes()),
                Some(vec![vec![1, 2, 3], vec![4, 5, 6]])
            );
            assert_eq!(super::certificates(b"junk"), None);
            assert_eq!(
                super::certificates(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"),
                None
            );
        }
    }
}
