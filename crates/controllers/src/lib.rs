//! The controllers on the parent: approval of clusters, their life cycle, and what they get.
//!
//! | name | does |
//! |---|---|
//! | `crrapprover` | ClusterRegistrationRequest → namespace, ManagedCluster, credential, rights ([`registration`]) |
//! | `clusterlifecycle` | heartbeats → condition and taints; a deleted ManagedCluster leaves the fleet ([`lifecycle`]) |
//! | `deployer` | Subscription → Base → Description, status back, protection of templates ([`deployer`]) |
//! | | Description → child, where the parent applies ([`push`]) |
//! | `clusterdiscovery` | clusters of Cluster API → the agent in them ([`discovery`]) |
//! | `serviceimport` | ServiceImport → Service with the endpoints of all clusters that export it ([`services`]) |
//!
//! Decisions are pure functions, in `distribution` or in the `plan` modules here; the shells watch, plan and carry
//! out. The entry is [`run`].

mod carry;
mod config;
pub mod deployer;
pub mod discovery;
pub mod fuzz;
mod index;
pub mod lifecycle;
pub mod push;
pub mod registration;
mod seal;
pub mod services;
mod shared;

use std::sync::Arc;

use api::names;
use clock::Env;
use kubeio::{Client, Elector, Recorder};
use runtime::CancellationToken;

pub use config::{Config, ConfigError, Controller};
pub use distribution::replicas::OwnKind;

use crate::seal::Sealer;
use crate::shared::Shared;

/// Where the controllers work.
#[derive(Debug, Clone)]
pub struct Clients {
    /// The parent.
    pub parent: Client,
    /// The management cluster of Cluster API; none, and its clusters are not looked for.
    pub cluster_api: Option<Client>,
}

impl From<Client> for Clients {
    fn from(parent: Client) -> Self {
        Self {
            parent,
            cluster_api: None,
        }
    }
}

/// Runs the controllers that the configuration names until `shutdown`.
///
/// # Errors
/// None at present: what fails is tried again.
pub async fn run(
    config: Config,
    clients: impl Into<Clients>,
    env: Env,
    shutdown: CancellationToken,
) -> Result<(), kubeio::Error> {
    let clients = clients.into();
    let (config, clients, env) = (&config, &clients, &env);
    Elector::lead(
        config.election.clone(),
        &clients.parent,
        env,
        &shutdown,
        |stop| async move {
            work(config, clients, env, &stop).await;
        },
    )
    .await;
    Ok(())
}

async fn work(config: &Config, clients: &Clients, env: &Env, stop: &CancellationToken) {
    let client = &clients.parent;
    let recorder = Recorder::start(client.clone(), env.clone(), names::CONTROLLERS);
    let shared = Shared::start(client.clone(), env.clone(), recorder, config);
    let shared = Arc::new(shared);
    let on = |controller| config.controllers.contains(&controller);
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = shared.ready() => {}
    }
    let approver = async {
        if on(Controller::Approver) {
            registration::run(&shared, config.workers, stop).await;
        }
    };
    let life_cycle = async {
        if on(Controller::LifeCycle) {
            lifecycle::run(&shared, config.workers, stop).await;
        }
    };
    let deployer = async {
        if on(Controller::Deployer) {
            let sealer = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                sealer = Sealer::obtain(client, env) => Arc::new(sealer),
            };
            tokio::join!(
                deployer::run(&shared, config, &sealer, stop),
                push::run(&shared, &config.metrics, &sealer.ring, stop)
            );
        }
    };
    let imports = async {
        if config.imports_services() {
            services::run(&shared, config.workers, stop).await;
        } else if on(Controller::ServiceImport) {
            services::take_back(&shared, stop).await;
        }
    };
    let discovery = async {
        if let Some(client) = &clients.cluster_api
            && on(Controller::ClusterDiscovery)
        {
            discovery::run(client, env, stop).await;
        }
    };
    tokio::join!(approver, life_cycle, deployer, imports, discovery);
}
