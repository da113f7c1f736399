//! The agent's life: lead, register, work, and again.

use std::sync::Arc;
use std::time::Duration;

use ::tunnel::Dialer;
use api::{annotations, clusters, kubernetes, names};
use clock::Env;
use futures::future::BoxFuture;
use kubeio::{CancellationToken, Client, Elector, ElectorConfig, Leadership};
use machinery::meta;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::{Error, chain};
use crate::exchange::exchange;
use crate::identity;
use crate::parent::{Credential, ParentConnector};
use crate::registration::{self, Answer, Membership};
use crate::session::{End, Session};

/// The first waits for the parent's answer, then the period.
const POLLS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
const POLL_PERIOD: Duration = names::RETRY_PERIOD;
/// Why a cluster keeps what its parent does not know.
const WAS_MEMBER: &str = "it was a member before, and registered again";

/// The child, as the agent reaches it.
#[derive(Clone)]
pub struct Child {
    /// A client of its API server.
    pub client: Client,
    /// Dials what the hub asks for; only the configuration's targets get this far.
    pub dialer: Arc<dyn Dialer>,
}

/// Runs an agent until `shutdown`. Several may run for one child; the one that holds the Lease works.
///
/// # Errors
/// [`Error::Config`] at once; everything else is tried again for ever.
pub async fn run(
    config: Config,
    child: Child,
    parent: Arc<dyn ParentConnector>,
    env: Env,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    config.check()?;
    let child = Child {
        client: child.client.with_user_agent(names::AGENT),
        ..child
    };
    ensure_namespace(&child.client, &config.namespace).await;
    let mut election = ElectorConfig::new(
        config.namespace.clone(),
        config.lease_name.clone(),
        config.identity.clone(),
    );
    election.lease_duration = config.lease_duration;
    election.renew_deadline = config.renew_deadline;
    election.retry_period = config.retry_period;
    let elector = Elector::new(child.client.clone(), env.clone(), election);
    let agent = Arc::new(Agent {
        config: Arc::new(config),
        child,
        parent,
        env,
    });
    // Boxed: the compiler cannot show otherwise that the whole is Send.
    let lead = |leadership| -> BoxFuture<'static, ()> {
        let agent = agent.clone();
        Box::pin(async move { agent.lead(leadership).await })
    };
    elector.run(&shutdown, lead).await;
    Ok(())
}

/// Makes the agent's namespace if it may; if not, the Lease's error tells.
async fn ensure_namespace(child: &Client, namespace: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    match child.get_opt(&kubernetes::NAMESPACES, None, namespace).await {
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => {
            if let Err(error) = child.create(&kubernetes::NAMESPACES, None, &object).await
                && !error.is_already_exists()
            {
                tracing::warn!(namespace, error = %chain(&error), "the agent's namespace cannot be made");
            }
        }
    }
}

struct Agent {
    config: Arc<Config>,
    child: Child,
    parent: Arc<dyn ParentConnector>,
    env: Env,
}

impl Agent {
    /// Works while leading. Boxed, because the compiler cannot tell that a future behind a closure's borrow is `Send`.
    fn lead(&self, leadership: Leadership) -> BoxFuture<'_, ()> {
        Box::pin(self.work(leadership))
    }

    async fn work(&self, leadership: Leadership) {
        let cluster_id = identity::cluster_id(&leadership.lease).to_owned();
        tracing::info!(cluster = %cluster_id, "agent leads");
        let mut trust_kept = true;
        let mut renewed = None;
        while !leadership.lost.is_cancelled() {
            let membership = match renewed.take() {
                Some(membership) => membership,
                None => tokio::select! {
                    biased;
                    () = leadership.lost.cancelled() => return,
                    membership = self.join(&cluster_id, trust_kept) => membership,
                },
            };
            let membership = self.shorten(&cluster_id, membership).await;
            let session = Session {
                config: self.config.clone(),
                env: self.env.clone(),
                child: self.child.client.clone(),
                dialer: self.child.dialer.clone(),
                connector: self.parent.clone(),
                cluster_id: cluster_id.clone(),
                membership,
            };
            match session.run(&leadership.lost).await {
                Ok(End::Stopped) => return,
                Ok(End::Renewed(membership)) => {
                    tracing::info!(cluster = %cluster_id, "the parent has handed out a new credential");
                    if let Err(error) = self.keep(&cluster_id, &membership.cluster, &membership).await {
                        // It works without; the next start begins with the old one and learns this one again.
                        tracing::warn!(cluster = %cluster_id, error = %chain(&error), "the new credential is not kept");
                    }
                    renewed = Some(membership);
                    continue;
                }
                Ok(End::Lost(why)) => {
                    tracing::warn!(cluster = %cluster_id, ?why, "the parent does not know this cluster any more; registering again");
                    trust_kept = false;
                }
                Err(error) => {
                    tracing::error!(cluster = %cluster_id, error = %chain(&error), "session not started");
                    trust_kept = false;
                }
            }
            self.pause(&leadership.lost, POLL_PERIOD).await;
        }
    }

    /// With a token that ends in the place of one that does not, or that is due, if the parent gives one and the child
    /// keeps it.
    async fn shorten(&self, cluster_id: &str, membership: Membership) -> Membership {
        let Ok(parent) = self.parent.connect(&membership.credential) else {
            return membership;
        };
        let parent = parent.with_user_agent(names::AGENT);
        let lifetime = self.config.token_lifetime;
        match exchange(&parent, &membership, lifetime, self.env.now()).await {
            Some(shortened) => match self.keep(cluster_id, &shortened.cluster, &shortened).await {
                Ok(()) => shortened,
                Err(error) => {
                    tracing::warn!(cluster = %cluster_id, error = %chain(&error), "a new token is not kept, so the old one is used on");
                    membership
                }
            },
            None => membership,
        }
    }

    async fn pause(&self, lost: &CancellationToken, period: Duration) {
        tokio::select! {
            biased;
            () = lost.cancelled() => {}
            () = tokio::time::sleep(self.jittered(period)) => {}
        }
    }

    /// Up to 0.4 times more.
    fn jittered(&self, period: Duration) -> Duration {
        let share = u32::try_from(self.env.random_u64() % 400).expect("below 400");
        period + period * share / 1_000
    }

    /// Becomes a member: by what is kept if that is still good, else by asking.
    async fn join(&self, cluster_id: &str, trust_kept: bool) -> Membership {
        let mut trust_kept = trust_kept;
        loop {
            let result = if trust_kept {
                self.resume(cluster_id).await
            } else {
                Ok(None)
            };
            let result = match result {
                Ok(Some(membership)) => return membership,
                Ok(None) => self.register(cluster_id).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(membership) => return membership,
                Err(error) => tracing::warn!(cluster = %cluster_id, error = %chain(&error), "not registered"),
            }
            // A parent that was away may be back and know us.
            trust_kept = true;
            tokio::time::sleep(self.jittered(POLL_PERIOD)).await;
        }
    }

    /// The membership that is kept in the child, if the parent still takes its credential.
    async fn resume(&self, cluster_id: &str) -> Result<Option<Membership>, Error> {
        let Some(membership) = self
            .kept()
            .await?
            .and_then(|secret| registration::kept(&self.config, cluster_id, &secret))
        else {
            return Ok(None);
        };
        let Ok(client) = self.parent.connect(&membership.credential) else {
            return Ok(None);
        };
        let request = client
            .get_opt(
                &clusters::REGISTRATION_REQUESTS,
                None,
                &names::for_cluster(cluster_id),
            )
            .await;
        match request {
            Ok(Some(_)) => Ok(Some(membership)),
            Ok(None) => Ok(None),
            Err(error) if error.is_unauthorized() || error.is_forbidden() => {
                tracing::info!(cluster = %cluster_id, "the kept credential is not good any more");
                Ok(None)
            }
            Err(source) => Err(Error::doing("reach the parent")(source)),
        }
    }

    /// The Secret that keeps a membership in the child.
    async fn kept(&self) -> Result<Option<Value>, Error> {
        let (secrets, namespace) = (&kubernetes::SECRETS, Some(self.config.namespace.as_str()));
        let kept = self
            .child
            .client
            .get_opt(secrets, namespace, names::PARENT_CLUSTER_SECRET)
            .await;
        kept.map_err(Error::doing("read the kept credential"))
    }

    /// Comes to the parent with the bootstrap token; a client for that, and the request if there is one.
    async fn knock(&self, ca: Option<Vec<u8>>, request: &str) -> Result<(Client, Option<Value>), Error> {
        let token = self.config.registration_token.clone();
        let client = self
            .parent
            .connect(&Credential { token, ca })
            .map_err(Error::doing("connect to the parent"))?
            .with_user_agent(names::AGENT);
        let requests = &clusters::REGISTRATION_REQUESTS;
        let earlier = match client.get_opt(requests, None, request).await {
            Err(error) if error.is_unauthorized() => return Err(Error::TokenRefused(error)),
            // A token that was made for one cluster reads nothing but the answer.
            Err(error) if error.is_forbidden() => None,
            other => other.map_err(Error::doing("read the registration request"))?,
        };
        Ok((client, earlier))
    }

    /// Asks to be taken in and waits for the answer.
    async fn register(&self, cluster_id: &str) -> Result<Membership, Error> {
        let config = &self.config;
        let requests = &clusters::REGISTRATION_REQUESTS;
        let name = names::for_cluster(cluster_id);
        let kept = self.kept().await?;
        let told = kept
            .as_ref()
            .and_then(|secret| registration::kept(config, cluster_id, secret))
            .and_then(|membership| membership.credential.ca);
        let (client, earlier) = match self.knock(told.clone(), &name).await {
            // The parent may have become another since, whom only the operator knows.
            Err(_) if told.is_some() => self.knock(None, &name).await?,
            answer => answer?,
        };
        let cluster_name = identity::cluster_name(
            config.cluster_name.as_deref(),
            earlier.as_ref(),
            &config.cluster_name_prefix,
            &self.env,
        );
        let mut request = match earlier {
            Some(request) => request,
            None => {
                let mut request = registration::request(config, cluster_id, &cluster_name);
                if kept.is_some() {
                    meta::set_annotation(&mut request, annotations::HOLD_ORPHANS, WAS_MEMBER);
                }
                match client.create(requests, None, &request).await {
                    Err(error) if error.is_already_exists() => request,
                    other => other.map_err(Error::doing("ask to be registered"))?,
                }
            }
        };
        let mut polls = POLLS.into_iter();
        loop {
            match registration::answer(&request) {
                Answer::Approved(membership) => {
                    let name = match membership.cluster.as_str() {
                        "" => &cluster_name,
                        granted => granted,
                    };
                    self.keep(cluster_id, name, &membership).await?;
                    tracing::info!(cluster = %cluster_id, name, namespace = %membership.namespace, "registered");
                    return Ok(membership);
                }
                Answer::Refused(why) => {
                    tracing::warn!(cluster = %cluster_id, why, "registration refused; waiting")
                }
                Answer::Waiting => tracing::debug!(cluster = %cluster_id, "registration not answered yet"),
            }
            let pause = polls.next().unwrap_or_else(|| self.jittered(POLL_PERIOD));
            tokio::time::sleep(pause).await;
            match client.get(requests, None, &name).await {
                Ok(answered) => request = answered,
                Err(error) if error.is_forbidden() => {
                    if polls.len() == 0 {
                        tracing::warn!(
                            cluster = %cluster_id, name = %cluster_name,
                            "the registration is not approved yet, or the token was made for a cluster of another name; waiting"
                        );
                    }
                }
                Err(source) => return Err(Error::doing("read the registration request")(source)),
            }
        }
    }

    /// Keeps a membership in the child.
    async fn keep(&self, cluster_id: &str, cluster_name: &str, membership: &Membership) -> Result<(), Error> {
        let secrets = &kubernetes::SECRETS;
        let namespace = Some(self.config.namespace.as_str());
        let secret = registration::parent_secret(&self.config, cluster_id, cluster_name, membership);
        let client = &self.child.client;
        match client.create(secrets, namespace, &secret).await {
            Err(error) if error.is_already_exists() => client
                .replace(secrets, namespace, names::PARENT_CLUSTER_SECRET, &secret)
                .await
                .map(drop),
            other => other.map(drop),
        }
        .map_err(Error::doing("keep the credential"))
    }
}
