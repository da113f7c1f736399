//! HTTP connections through tunnels that wait for their next request.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apiserver::Body;
use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use super::credentials::Identity;
use super::tls::Configs;

/// Waiting connections for one destination.
const MAX_IDLE_EACH: usize = 8;

/// Waiting connections in all.
const MAX_IDLE: usize = 512;

/// How long a connection waits; servers close theirs after 60 s or more.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// What a connection is good for. A token is part of a request and may change; a client certificate is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) cluster_id: String,
    pub(crate) tls: bool,
    pub(crate) address: String,
    pub(crate) ca: Option<std::sync::Arc<[u8]>>,
    pub(crate) identity: Option<Identity>,
}

struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

/// Waiting connections, newest last.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<BTreeMap<Key, Vec<Idle>>>,
    pub(crate) tls: Configs,
}

impl Pool {
    /// A connection that was used before and may still be good.
    pub(crate) fn take(&self, key: &Key) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.get_mut(key)?;
        while let Some(Idle { sender, since }) = waiting.pop() {
            if !sender.is_closed() && since.elapsed() < IDLE_FOR {
                return Some(sender);
            }
        }
        idle.remove(key);
        None
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn put(&self, key: Key, sender: SendRequest<Body>) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = idle.values().map(Vec::len).sum();
        if all >= MAX_IDLE {
            idle.retain(|_, waiting| {
                waiting.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < IDLE_FOR);
                !waiting.is_empty()
            });
            if idle.values().map(Vec::len).sum::<usize>() >= MAX_IDLE {
                return;
            }
        }
        let waiting = idle.entry(key).or_default();
        if waiting.len() >= MAX_IDLE_EACH {
            waiting.remove(0);
        }
        waiting.push(Idle {
            sender,
            since: Instant::now(),
        });
    }
}
