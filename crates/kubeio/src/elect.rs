//! Leader election by a Lease, with client-go's record and timing.

use std::future::Future;
use std::time::Duration;

use clock::Env;
use jiff::Timestamp;
use machinery::ApiResource;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::Error;

const LEASES: ApiResource = ApiResource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Which Lease, and how long things may take.
#[derive(Debug, Clone)]
pub struct ElectorConfig {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// Who we are; unique among the candidates (`HOST_UUID`).
    pub identity: String,
    /// How long others respect a record that is not renewed. Default 15 s.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up. Default 10 s.
    pub renew_deadline: Duration,
    /// Between two tries. Default 2 s.
    pub retry_period: Duration,
}

impl ElectorConfig {
    /// The usual timing: 15 s, 10 s, 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// What a leader knows about its leadership.
#[derive(Debug, Clone)]
pub struct Leadership {
    /// The Lease as it was when it was won; its UID and annotations do not change while it exists.
    pub lease: Value,
    /// Cancelled when the leadership is lost or not wanted any more.
    pub lost: CancellationToken,
}

impl Leadership {
    /// The UID of the Lease.
    pub fn lease_uid(&self) -> &str {
        self.lease["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

/// A candidate.
#[derive(Debug)]
pub struct Elector {
    client: Client,
    env: Env,
    config: ElectorConfig,
}

/// The record that was seen last, and when (by our own monotonic clock) it last changed.
#[derive(Debug)]
struct Observed {
    spec: Value,
    since: Instant,
}

impl Elector {
    /// A candidate that does not run yet.
    pub fn new(client: Client, env: Env, config: ElectorConfig) -> Self {
        Self { client, env, config }
    }

    /// Competes for the Lease, runs `work` while it holds it, and competes again when it lost it, until `shutdown`;
    /// then `work` is told by its token, awaited, and the Lease released. When `work` ends by itself the Lease is
    /// released and this returns what it returned.
    pub async fn run<F, R, T>(&self, shutdown: &CancellationToken, mut work: F) -> Option<T>
    where
        F: FnMut(Leadership) -> R,
        R: Future<Output = T>,
    {
        loop {
            let lease = tokio::select! {
                biased;
                () = shutdown.cancelled() => return None,
                lease = self.acquire() => lease,
            };
            tracing::info!(lease = %self.config.name, identity = %self.config.identity, "leading");
            let lost = CancellationToken::new();
            let mut work = std::pin::pin!(work(Leadership {
                lease: lease.clone(),
                lost: lost.clone(),
            }));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    lost.cancel();
                    let ended = work.await;
                    self.release().await;
                    return Some(ended);
                }
                ended = &mut work => {
                    self.release().await;
                    return Some(ended);
                }
                () = self.renew(lease) => {
                    tracing::warn!(lease = %self.config.name, "leadership lost");
                    lost.cancel();
                    work.await;
                }
            }
        }
    }

    /// Does `work` until `shutdown`, with an election only while leading, as often as that is won; its token says when
    /// to stop. Without an election it does `work` once.
    pub async fn lead<F, R>(
        election: Option<ElectorConfig>,
        client: &Client,
        env: &Env,
        shutdown: &CancellationToken,
        mut work: F,
    ) where
        F: FnMut(CancellationToken) -> R,
        R: Future<Output = ()>,
    {
        let Some(config) = election else {
            return work(shutdown.clone()).await;
        };
        let elector = Self::new(client.clone(), env.clone(), config);
        while !shutdown.is_cancelled() {
            elector.run(shutdown, |leadership| work(leadership.lost)).await;
        }
    }

    /// Tries until the Lease is ours.
    async fn acquire(&self) -> Value {
        let mut observed = None;
        loop {
            match self.try_once(&mut observed).await {
                Ok(Some(lease)) => return lease,
                Ok(None) => {}
                Err(error) => tracing::debug!(lease = %self.config.name, %error, "cannot try for the lease"),
            }
            // client-go's jitter: up to 1.2 times the period more.
            let period = self.config.retry_period;
            let share = u32::try_from(self.env.random_u64() % 1_200).expect("below 1200");
            tokio::time::sleep(period + period * share / 1_000).await;
        }
    }

    /// Returns when the Lease is no longer ours.
    async fn renew(&self, lease: Value) {
        let mut observed = Some(Observed {
            spec: lease["spec"].clone(),
            since: Instant::now(),
        });
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.config.retry_period).await;
            let left = self.config.renew_deadline.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.try_once(&mut observed)).await {
                Ok(Ok(Some(_))) => renewed = Instant::now(),
                Ok(Ok(None)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(lease = %self.config.name, %error, "cannot renew the lease")
                }
                Err(_) => return,
            }
            if renewed.elapsed() >= self.config.renew_deadline {
                return;
            }
        }
    }

    /// One try to take or renew the Lease: `Some` if it is ours now.
    async fn try_once(&self, observed: &mut Option<Observed>) -> Result<Option<Value>, Error> {
        let ElectorConfig {
            namespace,
            name,
            identity,
            lease_duration,
            ..
        } = &self.config;
        let now = self.env.now();
        let Some(mut lease) = self.client.get_opt(&LEASES, Some(namespace), name).await? else {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": namespace},
                "spec": record(identity, *lease_duration, now, now, 0),
            });
            return match self.client.create(&LEASES, Some(namespace), &lease).await {
                Ok(lease) => {
                    *observed = Some(Observed {
                        spec: lease["spec"].clone(),
                        since: Instant::now(),
                    });
                    Ok(Some(lease))
                }
                Err(error) if error.is_already_exists() => Ok(None),
                Err(error) => Err(error),
            };
        };
        if observed
            .as_ref()
            .is_none_or(|observed| observed.spec != lease["spec"])
        {
            *observed = Some(Observed {
                spec: lease["spec"].clone(),
                since: Instant::now(),
            });
        }
        let age = observed
            .as_ref()
            .map(|observed| observed.since.elapsed())
            .unwrap_or_default();
        let Some(spec) = next_record(&lease["spec"], &self.config, now, age) else {
            return Ok(None);
        };
        lease["spec"] = spec;
        match self.client.replace(&LEASES, Some(namespace), name, &lease).await {
            Ok(lease) => {
                *observed = Some(Observed {
                    spec: lease["spec"].clone(),
                    since: Instant::now(),
                });
                Ok(Some(lease))
            }
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the Lease back, so that another need not wait.
    async fn release(&self) {
        let ElectorConfig {
            namespace,
            name,
            identity,
            ..
        } = &self.config;
        let result = async {
            let Some(mut lease) = self.client.get_opt(&LEASES, Some(namespace), name).await? else {
                return Ok(());
            };
            if lease["spec"]["holderIdentity"] != identity.as_str() {
                return Ok(());
            }
            let now = self.env.now();
            let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
            lease["spec"] = record("", Duration::from_secs(1), now, now, transitions);
            self.client
                .replace(&LEASES, Some(namespace), name, &lease)
                .await
                .map(|_| ())
        };
        if let Err(error) = tokio::time::timeout(self.config.renew_deadline, result)
            .await
            .unwrap_or(Ok(()))
        {
            let error: Error = error;
            tracing::debug!(lease = %name, %error, "cannot release the lease");
        }
    }
}

/// The record to write, or `None` while another candidate holds the Lease. `age` is how long ago we saw it change.
fn next_record(spec: &Value, config: &ElectorConfig, now: Timestamp, age: Duration) -> Option<Value> {
    let holder = spec["holderIdentity"].as_str().unwrap_or_default();
    let transitions = spec["leaseTransitions"].as_u64().unwrap_or(0);
    if holder == config.identity {
        let mut record = record(&config.identity, config.lease_duration, now, now, transitions);
        if let Some(acquired) = spec.get("acquireTime").filter(|time| !time.is_null()) {
            record["acquireTime"] = acquired.clone();
        }
        return Some(record);
    }
    let respected = Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or(0));
    if !holder.is_empty() && age < respected.max(Duration::from_secs(1)) {
        return None;
    }
    Some(record(
        &config.identity,
        config.lease_duration,
        now,
        now,
        transitions + 1,
    ))
}

fn record(
    identity: &str,
    duration: Duration,
    acquired: Timestamp,
    renewed: Timestamp,
    transitions: u64,
) -> Value {
    json!({
        "holderIdentity": identity,
        "leaseDurationSeconds": duration.as_secs(),
        "acquireTime": micro_time(acquired),
        "renewTime": micro_time(renewed),
        "leaseTransitions": transitions,
    })
}

/// `metav1.MicroTime`: six digits after the second.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests;
