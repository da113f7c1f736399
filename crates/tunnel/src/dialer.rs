//! What an agent dials when the hub asks.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::TcpStream;

use crate::connector::BoxIo;

/// How long a dial may take.
const DIAL_DEADLINE: Duration = Duration::from_secs(30);

/// Why the agent does not dial, in words for the hub.
#[derive(Debug, thiserror::Error)]
pub enum DialRefusal {
    /// The allow list does not name it.
    #[error("{address} is not on the agent's allow list")]
    NotAllowed {
        /// The address asked for.
        address: String,
    },
    /// Only TCP is dialed.
    #[error("protocol {proto:?} is not dialed")]
    Protocol {
        /// The protocol asked for.
        proto: String,
    },
    /// It was tried.
    #[error("dial {address}: {source}")]
    Failed {
        /// The address asked for.
        address: String,
        /// What came back. Part of the text, because the text is all that crosses the tunnel.
        source: io::Error,
    },
}

/// Opens what a Connect frame names.
pub trait Dialer: Send + Sync {
    /// Dials `address` (`host:port`) over `proto` (`tcp`), or says why not.
    fn dial(&self, proto: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>>;
}

/// Dials TCP from this host.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpDialer;

impl Dialer for TcpDialer {
    fn dial(&self, proto: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        let proto = proto.to_owned();
        let address = address.to_owned();
        Box::pin(async move {
            if proto != "tcp" {
                return Err(DialRefusal::Protocol { proto });
            }
            let dialed = match tokio::time::timeout(DIAL_DEADLINE, TcpStream::connect(&address)).await {
                Ok(Ok(socket)) => socket.set_nodelay(true).map(|()| socket),
                Ok(Err(source)) => Err(source),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            match dialed {
                Ok(socket) => Ok(Box::new(socket) as BoxIo),
                Err(source) => Err(DialRefusal::Failed { address, source }),
            }
        })
    }
}

/// Lets through only the addresses that it names. The hub can ask for any address: without this it would be a way into
/// everything that the agent reaches.
#[derive(Debug, Clone)]
pub struct AllowList<D> {
    targets: BTreeSet<String>,
    inner: D,
}

impl<D> AllowList<D> {
    /// Allows these `host:port` targets, compared without regard to case.
    pub fn new(targets: impl IntoIterator<Item = String>, inner: D) -> Self {
        Self {
            targets: targets
                .into_iter()
                .map(|target| target.to_ascii_lowercase())
                .collect(),
            inner,
        }
    }

    /// Whether an address is named.
    pub fn allows(&self, address: &str) -> bool {
        self.targets.contains(&address.to_ascii_lowercase())
    }
}

impl<D: Dialer> Dialer for AllowList<D> {
    fn dial(&self, proto: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        if self.allows(address) {
            self.inner.dial(proto, address)
        } else {
            let address = address.to_owned();
            Box::pin(async move { Err(DialRefusal::NotAllowed { address }) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_exactly_what_is_named() {
        let list = AllowList::new(
            ["10.0.0.1:443".to_owned(), "API.local:6443".to_owned()],
            TcpDialer,
        );
        assert!(list.allows("10.0.0.1:443"));
        assert!(list.allows("api.LOCAL:6443"));
        for refused in [
            "10.0.0.1:444",
            "10.0.0.10:443",
            "10.0.0.1",
            "169.254.169.254:80",
            "",
        ] {
            assert!(!list.allows(refused), "{refused}");
        }
    }
}
