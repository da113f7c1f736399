//! The two carriers of a request: a service in this process, or HTTPS.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::error::{BoxError, Error};
use crate::rate::{Limiter, Rate};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

type SendFn =
    dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>> + Send + Sync;

/// How long a connection may bring nothing before it counts as dead. A watch hears something every minute or so
/// (bookmarks), and over HTTP/2 pings are answered: nothing else tells of a dead end.
const SILENCE: Duration = Duration::from_secs(150);
/// Between two pings of a connection (HTTP/2), and how long an answer may take: those of Go's client.
const PING_PERIOD: Duration = Duration::from_secs(30);
const PING_DEADLINE: Duration = Duration::from_secs(15);
/// How much a server may send ahead on one stream (HTTP/2), and on all of a connection together.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Something that answers requests.
#[derive(Clone)]
pub(crate) struct Transport {
    send: Arc<SendFn>,
    /// For what goes through this server to others: see [`Http`].
    send_far: Arc<SendFn>,
}

/// How connections are used.
///
/// Over HTTP/2 all requests share one, watches too, which costs a server a fraction of what a connection for each does.
/// But it bounds how many (100 in kube-apiserver), and those beyond wait: so the watches of many children that are reached
/// through one hub have connections of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Http {
    /// A connection for each request that is under way.
    One,
    /// One connection for all, if the server can do that.
    Two,
}

/// What sends requests to a server.
fn carrier(config: &kube::Config, http: Http) -> Result<Arc<SendFn>, Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let tls = config
        .rustls_client_config()
        .map_err(|error| Error::Config(error.into()))?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(|error| Error::Config(error.into()))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = match http {
        Http::One => https.enable_http1().wrap_connector(connector),
        Http::Two => https.enable_all_versions().wrap_connector(connector),
    };
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(CONNECT_DEADLINE));
    connector.set_read_timeout(Some(SILENCE));
    // A request on a connection that was idle starts the time anew.
    connector.set_reset_reader_on_write(true);
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_PERIOD)
        .http2_keep_alive_timeout(PING_DEADLINE)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|error| Error::Config(error.into()))?)
        .layer(
            config
                .extra_headers_layer()
                .map_err(|error| Error::Config(error.into()))?,
        )
        .map_err(BoxError::from)
        .service(client);
    Ok(Transport::service(service).send)
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
    /// One way for everything.
    fn of(
        send: impl Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Result<Response<Body>, BoxError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let send: Arc<SendFn> = Arc::new(send);
        Self {
            send_far: Arc::clone(&send),
            send,
        }
    }

    /// A service in this process. It is cloned for each request.
    pub(crate) fn service<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::of(move |request| {
            let service = service.clone();
            Box::pin(async move {
                let response = service.oneshot(request).await.map_err(Into::into)?;
                Ok(response.map(|body| UnsyncBoxBody::new(body.map_err(Into::into))))
            })
        })
    }

    /// HTTPS (or HTTP), with what a `kube` configuration says of addresses, authorities and credentials.
    pub(crate) fn https(config: &kube::Config) -> Result<Self, Error> {
        if config.proxy_url.is_some() {
            return Err(Error::Config(
                "proxies are not supported: take proxy-url out of the kubeconfig".into(),
            ));
        }
        let (shared, own) = (carrier(config, Http::Two)?, carrier(config, Http::One)?);
        Ok(Self {
            send: shared,
            send_far: own,
        })
    }

    /// What lies behind a path of this server; each request carries the headers.
    pub(crate) fn through(&self, prefix: String, headers: HeaderMap) -> Self {
        let inner = Arc::clone(&self.send_far);
        Self::of(move |mut request| {
            let rest = request.uri().path_and_query().map_or("/", |path| path.as_str());
            match Uri::try_from(format!("{prefix}{rest}")) {
                Ok(uri) => *request.uri_mut() = uri,
                Err(error) => return Box::pin(std::future::ready(Err(error.into()))),
            }
            request.headers_mut().extend(headers.clone());
            inner(request)
        })
    }

    /// The same, with a bound on requests.
    pub(crate) fn limited(&self, rate: Rate) -> Self {
        let limiter = Arc::new(Limiter::new(rate));
        let slowly = |inner: &Arc<SendFn>| -> Arc<SendFn> {
            let (inner, limiter) = (Arc::clone(inner), Arc::clone(&limiter));
            Arc::new(move |request| {
                let (inner, limiter) = (Arc::clone(&inner), Arc::clone(&limiter));
                Box::pin(async move {
                    limiter.wait().await;
                    inner(request).await
                })
            })
        };
        Self {
            send: slowly(&self.send),
            send_far: slowly(&self.send_far),
        }
    }

    /// Whichever carrier is there when a request is sent.
    pub(crate) fn latest(carriers: watch::Receiver<Self>) -> Self {
        let far = carriers.clone();
        Self {
            send: Arc::new(move |request| {
                let send = Arc::clone(&carriers.borrow().send);
                send(request)
            }),
            send_far: Arc::new(move |request| {
                let send = Arc::clone(&far.borrow().send_far);
                send(request)
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
