//! The agent's side: a tunnel to the hub that comes back whenever it breaks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clock::{Backoff, Env};
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Uri};
use runtime::BoxError;
use runtime::CancellationToken;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tunnel_proto::{Config, Limits, Role, SessionEnd};

use crate::bridge;
use crate::connector::Connector;
use crate::dialer::Dialer;
use crate::link::{self, Link};
use crate::moving::Moving;

/// How long connecting may take, and the handshake after it.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// A session that lived this long was a good one: the next reconnect is quick again.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Gives the headers of one connection attempt, such as a fresh token's `Authorization`.
pub type HeaderProvider = Arc<dyn Fn() -> BoxFuture<'static, Result<HeaderMap, BoxError>> + Send + Sync>;

/// What a client needs to know.
#[derive(Clone)]
pub struct ClientConfig {
    /// The hub's address for this cluster, `wss://HOST:PORT/apis/proxies.clusternet.io/v1alpha1/sockets/ID`. `https`
    /// means `wss`, `http` means `ws`.
    pub url: String,
    /// The cluster's id, for error texts.
    pub cluster_id: String,
    /// Asked before each attempt.
    pub headers: HeaderProvider,
    /// Bounds of the session.
    pub limits: Limits,
    /// The first wait before reconnecting. Default 500 ms.
    pub backoff_base: Duration,
    /// The longest wait before reconnecting. Default 30 s.
    pub backoff_max: Duration,
    /// Told about every change.
    pub state: watch::Sender<ClientState>,
}

/// Whether the tunnel is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientState {
    /// Not yet, or not any more; the text says why after a failure.
    Disconnected(Option<String>),
    /// The hub accepted the tunnel.
    Connected,
}

impl ClientConfig {
    /// A client for `url` that sends no headers of its own.
    pub fn new(url: impl Into<String>, cluster_id: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            cluster_id: cluster_id.into(),
            headers: Arc::new(|| Box::pin(async { Ok(HeaderMap::new()) })),
            limits: Limits::default(),
            backoff_base: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
            state: watch::Sender::new(ClientState::Disconnected(None)),
        }
    }
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConfig")
            .field("url", &self.url)
            .field("cluster_id", &self.cluster_id)
            .finish_non_exhaustive()
    }
}

/// Why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("tunnel URL {url:?} is not usable: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The headers could not be made.
    #[error("no credential for the hub")]
    Headers(#[source] BoxError),
    /// The hub cannot be reached.
    #[error("the hub at {address} cannot be reached")]
    Connect {
        /// Its `host:port`.
        address: String,
        /// What came back.
        #[source]
        source: io::Error,
    },
    /// The hub's answer is not a WebSocket.
    #[error("the hub refused the tunnel: HTTP {status}: {message}")]
    Refused {
        /// Its status code.
        status: u16,
        /// The start of its answer.
        message: String,
    },
    /// The handshake broke.
    #[error("the WebSocket handshake failed")]
    Handshake(#[source] Box<SocketError>),
    /// It took too long.
    #[error("the hub did not answer within {} s", CONNECT_DEADLINE.as_secs())]
    TimedOut,
}

/// Keeps a tunnel to the hub until shutdown: connects, serves, and after each failure waits a little longer, for ever.
///
/// # Errors
/// [`ConnectError::Url`] at once; nothing else ends it.
pub async fn run(
    config: ClientConfig,
    connector: Arc<dyn Connector>,
    dialer: Arc<dyn Dialer>,
    env: Env,
    shutdown: CancellationToken,
) -> Result<(), ConnectError> {
    let target = Target::parse(&config.url)?;
    let mut backoff = Backoff::new(config.backoff_base, config.backoff_max);
    loop {
        let started = Instant::now();
        let session = async {
            let socket = connect(&config, &target, connector.as_ref()).await?;
            tracing::info!(url = config.url, "tunnel connected");
            config.state.send_replace(ClientState::Connected);
            Ok::<_, ConnectError>(serve(&config, socket, Arc::clone(&dialer), &env).await)
        };
        let reason = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            ended = session => match ended {
                Ok(end) => end.to_string(),
                Err(error) => runtime::Chain(&error).to_string(),
            },
        };
        if started.elapsed() >= STABLE_AFTER {
            backoff.reset();
        }
        let wait = backoff.next_delay(env.random_u64());
        // One loss is everyday life (a hub restarts, a link flaps); that it does not come back is worth a warning.
        if backoff.attempts() <= 1 {
            tracing::info!(
                url = config.url,
                error = reason,
                retry_in_ms = wait.as_millis() as u64,
                "tunnel is down"
            );
        } else {
            tracing::warn!(
                url = config.url,
                error = reason,
                attempt = backoff.attempts(),
                retry_in_ms = wait.as_millis() as u64,
                "tunnel stays down"
            );
        }
        config.state.send_replace(ClientState::Disconnected(Some(reason)));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

struct Target {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

impl Target {
    fn parse(url: &str) -> Result<Self, ConnectError> {
        let error = |reason| ConnectError::Url {
            url: url.to_owned(),
            reason,
        };
        let uri: Uri = url.parse().map_err(|_| error("it is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("wss" | "https") => true,
            Some("ws" | "http") => false,
            _ => return Err(error("its scheme is none of wss, https, ws, http")),
        };
        let host = uri.host().ok_or_else(|| error("it names no host"))?.to_owned();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let scheme = if tls { "wss" } else { "ws" };
        let uri = format!("{scheme}://{host}:{port}{path}")
            .parse()
            .map_err(|_| error("it is not a URL"))?;
        Ok(Self { uri, host, port, tls })
    }
}

type Socket = tokio_tungstenite::WebSocketStream<Moving<crate::BoxIo>>;

async fn connect(
    config: &ClientConfig,
    target: &Target,
    connector: &dyn Connector,
) -> Result<Socket, ConnectError> {
    let headers = (config.headers)().await.map_err(ConnectError::Headers)?;
    let handshake = |error| ConnectError::Handshake(Box::new(error));
    let mut request: Request<()> = target.uri.clone().into_client_request().map_err(handshake)?;
    for (name, value) in &headers {
        request.headers_mut().insert(name, value.clone());
    }
    let io = tokio::time::timeout(
        CONNECT_DEADLINE,
        connector.connect(&target.host, target.port, target.tls),
    )
    .await
    .map_err(|_| ConnectError::TimedOut)?
    .map_err(|source| ConnectError::Connect {
        address: format!("{}:{}", target.host, target.port),
        source,
    })?;
    let settings = link::web_socket_config(&config.limits);
    let upgrade = tokio_tungstenite::client_async_with_config(request, Moving::new(io), Some(settings));
    match tokio::time::timeout(CONNECT_DEADLINE, upgrade).await {
        Err(_) => Err(ConnectError::TimedOut),
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(SocketError::Http(response))) => {
            let body = response.body().as_deref().unwrap_or_default();
            let message = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
            Err(ConnectError::Refused {
                status: response.status().as_u16(),
                message,
            })
        }
        Ok(Err(error)) => Err(handshake(error)),
    }
}

async fn serve(config: &ClientConfig, socket: Socket, dialer: Arc<dyn Dialer>, env: &Env) -> SessionEnd {
    let link = Link::new(Config {
        role: Role::Agent,
        client_key: config.cluster_id.clone(),
        session_key: env.random_u64() >> 1,
        first_frame: (env.random_u64() >> 1).cast_signed(),
        limits: config.limits.clone(),
    });
    // Dropped, and with it every stream's task, when the session ends.
    let mut streams = JoinSet::new();
    link::drive(link, socket, |opened| {
        while streams.try_join_next().is_some() {}
        streams.spawn(bridge::carry(opened, Arc::clone(&dialer)));
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_host_port_and_whether_to_use_tls() {
        let parse = |url: &str| {
            Target::parse(url)
                .map(|target| format!("{} {} {}", target.uri, target.host, target.port))
                .ok()
        };
        let expected = Some("wss://h:443/a/b h 443".to_owned());
        assert_eq!(parse("https://h/a/b"), expected);
        assert_eq!(parse("wss://h:443/a/b"), expected);
        assert_eq!(
            parse("http://[::1]:8080/x?y=1").as_deref(),
            Some("ws://[::1]:8080/x?y=1 [::1] 8080")
        );
        for bad in ["", "h:1", "ftp://h/", "/a", "https://"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
