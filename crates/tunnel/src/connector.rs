//! Where the agent's sockets to the hub come from.

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A byte stream both ways.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Any byte stream.
pub type BoxIo = Box<dyn Io>;

/// Opens the socket that a tunnel runs on: TCP and TLS in earnest, a pipe in a simulation.
pub trait Connector: Send + Sync {
    /// Connects to a hub; `tls` as its URL says.
    fn connect(&self, host: &str, port: u16, tls: bool) -> BoxFuture<'static, io::Result<BoxIo>>;
}

/// TCP, with TLS where the URL asks for it.
#[derive(Debug, Clone)]
pub struct TlsConnector {
    config: Arc<rustls::ClientConfig>,
}

impl TlsConnector {
    /// A connector that trusts, and presents, what `config` says.
    pub fn new(config: Arc<rustls::ClientConfig>) -> Self {
        Self { config }
    }
}

impl Connector for TlsConnector {
    fn connect(&self, host: &str, port: u16, tls: bool) -> BoxFuture<'static, io::Result<BoxIo>> {
        let config = Arc::clone(&self.config);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Box::pin(async move {
            let socket = TcpStream::connect((host.as_str(), port)).await?;
            socket.set_nodelay(true)?;
            if !tls {
                return Ok(Box::new(socket) as BoxIo);
            }
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let socket = tokio_rustls::TlsConnector::from(config)
                .connect(name, socket)
                .await?;
            Ok(Box::new(socket) as BoxIo)
        })
    }
}
