//! The hub's side: which clusters are connected, and streams to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::Env;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role as SocketRole;
use tunnel_proto::{Config, DialError, Limits, Role, SessionEnd, Stats};

use crate::link::{self, Link};
use crate::metrics::Metrics;
use crate::moving::Moving;
use crate::stream::TunnelStream;

/// The tunnels of one hub. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    env: Env,
    limits: Limits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next_key: u64,
    sessions: BTreeMap<String, Entry>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Entry {
    key: u64,
    link: Arc<Link>,
}

/// A cluster with a tunnel.
#[derive(Debug, Clone)]
pub struct Connected {
    /// The cluster's id.
    pub cluster_id: String,
    /// For how long.
    pub age: Duration,
    /// The session's counters and sizes.
    pub stats: Stats,
}

/// Why no stream could be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialFailure {
    /// The cluster's agent has no tunnel to this hub.
    #[error("cluster \"{cluster_id}\" is not connected: its agent has no tunnel to this hub")]
    NotConnected {
        /// The cluster's id.
        cluster_id: String,
    },
    /// The tunnel cannot take the stream.
    #[error("no stream to cluster \"{cluster_id}\"")]
    Session {
        /// The cluster's id.
        cluster_id: String,
        /// Why not.
        #[source]
        source: DialError,
    },
}

impl Registry {
    /// A registry without tunnels.
    pub fn new(env: Env, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                env,
                limits,
                table: Mutex::new(Table::default()),
            }),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries one cluster's tunnel on an upgraded socket until it ends; says why it did. Whoever calls has
    /// authorized the peer for this cluster id: a session that the cluster already has is closed.
    pub async fn serve<S>(&self, cluster_id: &str, socket: S) -> SessionEnd
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (key, link, older) = self.enter(cluster_id);
        if let Some(older) = older {
            older.close(SessionEnd::Replaced);
        }
        let guard = Leave {
            registry: self,
            cluster_id,
            key,
            link: &link,
        };
        let config = link::web_socket_config(&self.shared.limits);
        let socket =
            WebSocketStream::from_raw_socket(Moving::new(socket), SocketRole::Server, Some(config)).await;
        tracing::info!(cluster = cluster_id, session = key, "tunnel opened");
        let end = link::drive(Arc::clone(&link), socket, |_| {}).await;
        tracing::info!(cluster = cluster_id, session = key, reason = %end, "tunnel closed");
        drop(guard);
        end
    }

    fn enter(&self, cluster_id: &str) -> (u64, Arc<Link>, Option<Arc<Link>>) {
        let mut table = self.table();
        table.next_key += 1;
        let key = table.next_key;
        let link = Link::new(Config {
            role: Role::Hub,
            client_key: cluster_id.to_owned(),
            session_key: key,
            first_frame: (self.shared.env.random_u64() >> 1).cast_signed(),
            limits: self.shared.limits.clone(),
        });
        table.metrics.sessions_total += 1;
        let entry = Entry {
            key,
            link: Arc::clone(&link),
        };
        let older = table.sessions.insert(cluster_id.to_owned(), entry);
        if older.is_some() {
            table.metrics.replaced_total += 1;
        }
        (key, link, older.map(|entry| entry.link))
    }

    /// Opens a stream to `address` (`host:port`) as the cluster's agent reaches it. A dial that fails at the far side
    /// shows in the first read.
    ///
    /// # Errors
    /// No tunnel, or the tunnel takes no more streams.
    pub fn dial(&self, cluster_id: &str, proto: &str, address: &str) -> Result<TunnelStream, DialFailure> {
        let link = self
            .table()
            .sessions
            .get(cluster_id)
            .map(|entry| Arc::clone(&entry.link));
        let result = match link {
            None => Err(DialFailure::NotConnected {
                cluster_id: cluster_id.to_owned(),
            }),
            Some(link) => match link.with(|state| state.session.dial(proto, address)) {
                Ok(conn) => Ok(TunnelStream::new(link, conn)),
                Err(source) => Err(DialFailure::Session {
                    cluster_id: cluster_id.to_owned(),
                    source,
                }),
            },
        };
        let mut table = self.table();
        match result {
            Ok(_) => table.metrics.dials_total += 1,
            Err(_) => table.metrics.dial_failures_total += 1,
        }
        result
    }

    /// Whether a cluster has a tunnel.
    pub fn is_connected(&self, cluster_id: &str) -> bool {
        self.table().sessions.contains_key(cluster_id)
    }

    /// The clusters that have one, by id.
    pub fn connected(&self) -> Vec<Connected> {
        self.table()
            .sessions
            .iter()
            .map(|(cluster_id, entry)| Connected {
                cluster_id: cluster_id.clone(),
                age: entry.link.now(),
                stats: entry.link.stats(),
            })
            .collect()
    }

    /// Ends a cluster's tunnel, if it has one; its agent may connect again.
    pub fn disconnect(&self, cluster_id: &str) {
        let link = self
            .table()
            .sessions
            .get(cluster_id)
            .map(|entry| Arc::clone(&entry.link));
        if let Some(link) = link {
            link.close(SessionEnd::Stopped);
        }
    }

    /// Ends all tunnels.
    pub fn close(&self) {
        let links: Vec<Arc<Link>> = self
            .table()
            .sessions
            .values()
            .map(|entry| Arc::clone(&entry.link))
            .collect();
        for link in links {
            link.close(SessionEnd::Stopped);
        }
    }

    /// Counters since start.
    pub fn metrics(&self) -> Metrics {
        let table = self.table();
        let mut metrics = table.metrics.clone();
        metrics.sessions = table.sessions.len() as u64;
        metrics
    }
}

/// Takes a session out of the table, also when the task that serves it is dropped.
struct Leave<'a> {
    registry: &'a Registry,
    cluster_id: &'a str,
    key: u64,
    link: &'a Arc<Link>,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.link.close(SessionEnd::Stopped);
        let mut table = self.registry.table();
        if table
            .sessions
            .get(self.cluster_id)
            .is_some_and(|entry| entry.key == self.key)
        {
            table.sessions.remove(self.cluster_id);
        }
        table.metrics.ended(self.link.now());
    }
}
