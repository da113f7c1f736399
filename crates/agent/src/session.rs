//! What an agent does while the parent knows it: report, publish, deploy, keep the tunnel.

use std::sync::Arc;
use std::time::Duration;

use ::tunnel::Dialer;
use api::{clusters, labels, names};
use clock::Env;
use kubeio::{Cache, CacheOptions, CancellationToken, Client};

use crate::config::Config;
use crate::credentials::Publisher;
use crate::deploy::deployer::{Deployer, Parts};
use crate::error::{Error, chain};
use crate::heartbeat::{End, Heartbeat};
use crate::parent::ParentConnector;
use crate::registration::Membership;
use crate::tunnel;

/// How long what is under way may take once the session is over.
const FINISH: Duration = Duration::from_secs(4);

/// One session.
pub(crate) struct Session {
    pub(crate) config: Arc<Config>,
    pub(crate) env: Env,
    pub(crate) child: Client,
    pub(crate) dialer: Arc<dyn Dialer>,
    pub(crate) connector: Arc<dyn ParentConnector>,
    pub(crate) cluster_id: String,
    pub(crate) membership: Membership,
}

impl Session {
    /// Works until `shutdown` (`None`), or until the parent does not know the child any more.
    pub(crate) async fn run(self, shutdown: &CancellationToken) -> Result<Option<End>, Error> {
        let Self {
            config,
            env,
            child,
            dialer,
            connector,
            cluster_id,
            membership,
        } = self;
        let parent = connector
            .connect(&membership.credential)
            .map_err(Error::doing("connect to the parent"))?
            .with_user_agent(names::AGENT);
        let managed = CacheOptions {
            namespace: Some(membership.namespace.clone()),
            label_selector: format!("{}={cluster_id}", labels::CLUSTER_ID),
            ..CacheOptions::default()
        };
        let managed = Cache::start(parent.clone(), clusters::MANAGED_CLUSTERS, managed);
        let heartbeat = Heartbeat {
            config: config.clone(),
            env: env.clone(),
            child: child.clone(),
            parent: parent.clone(),
            namespace: membership.namespace.clone(),
            cluster_id: cluster_id.clone(),
            clusters: managed.clone(),
        };
        let publisher = Publisher {
            config: config.clone(),
            env: env.clone(),
            child: child.clone(),
            parent: parent.clone(),
            namespace: membership.namespace.clone(),
            cluster_id: cluster_id.clone(),
        };
        let deployer = Deployer::new(Parts {
            parent,
            child,
            namespace: membership.namespace.clone(),
            clusters: managed,
            default_mode: config.sync_mode,
            app_pusher: config.gates.app_pusher,
            recovery: config.gates.recovery,
            workers: config.workers,
            env: env.clone(),
        });
        // Cancelled when the session ends for whatever reason.
        let over = shutdown.child_token();
        let _end = over.clone().drop_guard();
        let tunnel = async {
            if !config.gates.socket_connection {
                return over.cancelled().await;
            }
            let credential = &membership.credential;
            let kept = tunnel::keep(
                &config,
                &cluster_id,
                &*connector,
                credential,
                dialer,
                env,
                over.clone(),
            )
            .await;
            if let Err(error) = kept {
                tracing::error!(error = %chain(&error), "no tunnel to the hub");
                over.cancelled().await;
            }
        };
        let mut deploying = std::pin::pin!(deployer.run(over.clone()));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {
                // What is under way is finished, unless that takes longer than another may wait for the lead.
                if tokio::time::timeout(FINISH, deploying).await.is_err() {
                    tracing::warn!("a description was left in the middle; the next leader takes it up");
                }
                Ok(None)
            }
            end = heartbeat.run() => Ok(Some(end)),
            () = &mut deploying => Ok(None),
            () = publisher.run() => Ok(None),
            () = tunnel => Ok(None),
        }
    }
}
