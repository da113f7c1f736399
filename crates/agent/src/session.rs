//! What an agent does while the parent knows it: report, publish, deploy, keep the tunnel.

use std::sync::Arc;
use std::time::Duration;

use ::tunnel::Dialer;
use api::{clusters, labels, names};
use clock::Env;
use deployer::{Deployer, Duty, Parts};
use distribution::sync;
use kubeio::{Cache, CacheOptions, CancellationToken, Client};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::Config;
use crate::credentials::Publisher;
use crate::error::{Error, chain};
use crate::exchange;
use crate::exports::Exports;
use crate::heartbeat::{Heartbeat, Lost};
use crate::parent::ParentConnector;
use crate::predictor::Predictor;
use crate::registration::Membership;
use crate::sight::Sight;
use crate::{payloads, renewal, sealing_key, tunnel};

/// How long what is under way may take once the session is over.
const FINISH: Duration = Duration::from_secs(4);

/// Why a session ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It was asked to.
    Stopped,
    /// The parent does not know the child any more.
    Lost(Lost),
    /// The parent has handed out another credential.
    Renewed(Membership),
}

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
    /// Works until `shutdown`, or until the session is of no use any more.
    pub(crate) async fn run(self, shutdown: &CancellationToken) -> Result<End, Error> {
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
        let managed = itself(&parent, &membership.namespace, &cluster_id);
        let built_in = config.built_in_predictor();
        let sight = Arc::new(Sight::new(child.clone(), built_in.is_some()));
        let ring = sealing_key::ring(&child, &config.namespace, &env).await;
        let heartbeat = Heartbeat {
            config: config.clone(),
            env: env.clone(),
            child: child.clone(),
            sight: sight.clone(),
            parent: parent.clone(),
            namespace: membership.namespace.clone(),
            cluster_id: cluster_id.clone(),
            clusters: managed.clone(),
            ring: ring.clone(),
        };
        let publisher = Publisher {
            config: config.clone(),
            env: env.clone(),
            child: child.clone(),
            parent: parent.clone(),
            namespace: membership.namespace.clone(),
            cluster_id: cluster_id.clone(),
        };
        let exports = Exports::new(&env, &child, &parent, &membership.namespace);
        let (duty, duties) = watch::channel(None);
        let deployer = Deployer::new(Parts {
            parent: parent.clone(),
            child: child.clone(),
            namespace: membership.namespace.clone(),
            contents: payloads::contents(&parent, &cluster_id, ring),
            duty: duties,
            recovery: config.gates.recovery,
            workers: config.workers,
            component: names::AGENT,
            metrics: config.metrics.deployer.clone(),
            env: env.clone(),
        });
        let lifetime = config.token_lifetime;
        let renewed = renewal::renewed(&parent, &*connector, &cluster_id, &membership, lifetime, &env);
        let dialer: Arc<dyn Dialer> = match built_in {
            Some(address) => Arc::new(Predictor::new(sight, address, dialer, config.metrics.clone())),
            None => dialer,
        };
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
                env.clone(),
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
                Ok(End::Stopped)
            }
            lost = heartbeat.run() => Ok(End::Lost(lost)),
            membership = renewed => Ok(End::Renewed(membership)),
            () = &mut deploying => Ok(End::Stopped),
            () = publisher.run() => Ok(End::Stopped),
            () = tunnel => Ok(End::Stopped),
            () = exports.run(config.gates.exports(), &over) => Ok(End::Stopped),
            () = exchange::announce(&parent, &managed, lifetime, &membership) => Ok(End::Stopped),
            () = follow_mode(&config, &managed, &duty) => Ok(End::Stopped),
        }
    }
}

/// The ManagedCluster of a cluster.
fn itself(parent: &Client, namespace: &str, cluster_id: &str) -> Cache {
    let options = CacheOptions {
        namespace: Some(namespace.to_owned()),
        label_selector: format!("{}={cluster_id}", labels::CLUSTER_ID),
        ..CacheOptions::default()
    };
    Cache::start(parent.clone(), clusters::MANAGED_CLUSTERS, options)
}

/// Tells what to do about Descriptions, as long as the ManagedCluster may change its mode: for ever.
async fn follow_mode(config: &Config, managed: &Cache, duty: &watch::Sender<Option<Duty>>) {
    managed.ready().await;
    let mut changes = managed.subscribe();
    loop {
        let now = Some(duty_of(config, managed.list().first().map(|cluster| &**cluster)));
        duty.send_if_modified(|told| std::mem::replace(told, now) != now);
        changes.next().await;
    }
}

/// What the agent has to do about Descriptions. The mode that it was started with counts until there is a
/// ManagedCluster with another.
fn duty_of(config: &Config, cluster: Option<&Value>) -> Duty {
    let mode = cluster.and_then(sync::mode).unwrap_or(config.sync_mode);
    match sync::deployer(mode, Some(config.gates.app_pusher)) {
        sync::Deployer::Agent => Duty::Deploy,
        sync::Deployer::Parent => Duty::Observe,
        sync::Deployer::Nobody(_) => Duty::Release,
    }
}

#[cfg(test)]
mod tests {
    use api::clusters::SyncMode;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_managed_clusters_mode_counts_more_than_the_flag() {
        for (flag, cluster, pusher, expected) in [
            (SyncMode::Pull, None, false, Duty::Deploy),
            (SyncMode::Push, None, true, Duty::Observe),
            (SyncMode::Push, Some("Pull"), true, Duty::Deploy),
            (SyncMode::Pull, Some("Push"), true, Duty::Observe),
            (SyncMode::Pull, Some("Push"), false, Duty::Release),
            (SyncMode::Pull, Some("Dual"), true, Duty::Observe),
            (SyncMode::Pull, Some("Dual"), false, Duty::Deploy),
            (SyncMode::Push, Some("?"), true, Duty::Observe),
        ] {
            let mut config = Config::new("https://parent", "a.b.c", "host_1");
            (config.sync_mode, config.gates.app_pusher) = (flag, pusher);
            let cluster = cluster.map(|mode| json!({"spec": {"syncMode": mode}}));
            assert_eq!(
                duty_of(&config, cluster.as_ref()),
                expected,
                "{flag:?} {cluster:?} {pusher}"
            );
        }
    }
}
