//! The hub on the parent: where agents' tunnels end, the way into each cluster, and the store of templates.
//!
//! It answers two virtual API groups. `proxies.clusternet.io/v1alpha1` ([`proxy`]) takes tunnels and carries requests
//! through them; `shadow/v1alpha1` ([`shadow`]) shows the parent's kinds once more, where what is written becomes a
//! Manifest instead of a running object. The entry type is [`Hub`]: its handlers are plugged into the embedded API
//! server, or served as an aggregated API beside a real one.
//!
//! Deliberately absent: scheduling, what clusters get, registration (crates `scheduler`, `controllers`).

pub mod config;
mod error;
pub mod fuzz;
pub mod peers;
pub mod proxy;
mod respond;
mod reviews;
mod serve;
pub mod shadow;

use std::fmt;
use std::sync::Arc;

use apiserver::{Body, GroupHandler};
use clock::Env;
use http::{Request, Response};
use kubeio::Client;
use runtime::CancellationToken;
use tunnel::Registry;

pub use config::{Config, ConfigError};
pub use error::Error;
pub use reviews::Reviews;
pub use serve::{PeerConfig, ServeConfig, serve};

use crate::peers::Peers;
use crate::proxy::Proxy;
use crate::shadow::Shadow;

/// The hub. Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    config: Arc<Config>,
    registry: Registry,
    proxy: Arc<Proxy>,
    shadow: Arc<Shadow>,
    shutdown: CancellationToken,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub that reads and writes the parent with `client`. Its tasks end with `shutdown`. Needs a Tokio runtime.
    pub fn new(client: Client, env: Env, config: Config, shutdown: CancellationToken) -> Self {
        let config = Arc::new(config);
        let registry = Registry::new(env.clone(), config.tunnel.clone());
        let proxy = Proxy::new(
            Arc::clone(&config),
            registry.clone(),
            client.clone(),
            shutdown.clone(),
        );
        let shadow = Shadow::new(client, env, Arc::clone(&config), shutdown.clone());
        Self {
            config,
            registry,
            proxy: Arc::new(proxy),
            shadow: Arc::new(shadow),
            shutdown,
        }
    }

    /// The groups to plug into an API server (`ApiServer::add_group`). One that is switched off answers 503 and says so.
    pub fn groups(&self) -> Vec<Arc<dyn GroupHandler>> {
        vec![
            Arc::clone(&self.proxy) as Arc<dyn GroupHandler>,
            Arc::clone(&self.shadow) as Arc<dyn GroupHandler>,
        ]
    }

    /// The shadow API.
    pub fn shadow(&self) -> &Arc<Shadow> {
        &self.shadow
    }

    /// The tunnels: a simulation hands its agents' pipes to it.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Asks other hubs for clusters whose tunnels end there. The first call counts.
    pub fn ask_peers(&self, peers: Peers) {
        self.proxy.ask_peers(peers);
    }

    /// Answers another hub that asks for a stream; whoever calls has made sure that it is one.
    pub fn answer_peer(&self, request: Request<Body>) -> Response<Body> {
        peers::take_stream(&self.registry, request)
    }

    /// What Prometheus scrapes.
    pub fn metrics(&self) -> String {
        self.registry.metrics().render()
    }

    /// Ends all tunnels and background tasks.
    pub fn close(&self) {
        self.shutdown.cancel();
        self.registry.close();
    }
}
