//! Makes of the credential that the parent has handed out, which never ends, one that ends soon and is renewed in time:
//! an old copy of it, in a backup or on a disk, opens nothing.

use std::time::Duration;

use api::{annotations, clusters, kubernetes, secret};
use jiff::{SignedDuration, Timestamp};
use kubeio::{Cache, Client, Patch};
use machinery::meta;
use serde_json::{Value, json};

use crate::error::chain;
use crate::parent::{Credential, ParentConnector};
use crate::registration::Membership;

/// How much shorter than asked for a token may last; parents round.
const SLACK: SignedDuration = SignedDuration::from_mins(1);
/// Before the announcement is tried again.
const RETRY: Duration = Duration::from_mins(1);

/// What a service account's token says about itself. Not verified: it is the agent's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    namespace: String,
    account: String,
    begins: Timestamp,
    /// When it ends; `None`: with its Secret.
    pub(crate) ends: Option<Timestamp>,
}

impl Claims {
    /// Of a token; `None` if it is not a service account's.
    pub(crate) fn of(token: &str) -> Option<Self> {
        let payload = token.split('.').nth(1)?;
        let mut standard: String = payload
            .chars()
            .map(|c| match c {
                '-' => '+',
                '_' => '/',
                other => other,
            })
            .collect();
        while !standard.len().is_multiple_of(4) {
            standard.push('=');
        }
        let claims: Value = serde_json::from_slice(&secret::decode(&json!(standard))?).ok()?;
        let (namespace, account) = claims["sub"]
            .as_str()?
            .strip_prefix("system:serviceaccount:")?
            .split_once(':')?;
        let time = |claim: &str| Timestamp::from_second(claims[claim].as_i64()?).ok();
        Some(Self {
            namespace: namespace.to_owned(),
            account: account.to_owned(),
            begins: time("iat").unwrap_or_default(),
            ends: time("exp"),
        })
    }

    /// Whether it is time for another one: half of its life is over, or it would last longer than is wanted now.
    pub(crate) fn is_due(&self, lifetime: Duration, now: Timestamp) -> bool {
        let Some(ends) = self.ends else { return true };
        let life = ends.duration_since(self.begins);
        let wanted = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
        let limit = wanted.checked_add(SLACK).unwrap_or(wanted);
        life > limit || now.duration_since(self.begins) >= life / 2
    }

    /// Whether it lasts as long as was asked for.
    fn lasts(&self, lifetime: Duration) -> bool {
        let wanted = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
        self.ends
            .is_some_and(|ends| ends.duration_since(self.begins) >= wanted - SLACK)
    }
}

/// A membership with a new token in the place of one that is due; `None` if the parent gives none, or if it is not due.
pub(crate) async fn exchange(
    parent: &Client,
    membership: &Membership,
    lifetime: Option<Duration>,
    now: Timestamp,
) -> Option<Membership> {
    let lifetime = lifetime?;
    let held = Claims::of(&membership.credential.token)?;
    if !held.is_due(lifetime, now) {
        return None;
    }
    match request(parent, &held, lifetime).await {
        Ok(token) if Claims::of(&token).is_some_and(|claims| claims.lasts(lifetime)) => Some(Membership {
            credential: Credential {
                token,
                ca: membership.credential.ca.clone(),
            },
            ..membership.clone()
        }),
        Ok(_) => {
            tracing::warn!(
                asked_s = lifetime.as_secs(),
                "the parent gives no tokens that last so long, so the old one is kept: ask for less with --cluster-token-lifetime"
            );
            None
        }
        Err(error) => {
            tracing::info!(error = %chain(&error), "the parent gives no token that ends, so the old one is kept");
            None
        }
    }
}

async fn request(parent: &Client, held: &Claims, lifetime: Duration) -> Result<String, kubeio::Error> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": lifetime.as_secs()},
    });
    let answer = parent
        .create_subresource(
            &kubernetes::SERVICE_ACCOUNTS,
            Some(&held.namespace),
            &held.account,
            "token",
            &request,
        )
        .await?;
    Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
}

/// The membership with the parent's present authority, if that is another than the held one and fits the parent.
pub(crate) async fn with_authority(
    connector: &dyn ParentConnector,
    held: &Membership,
    request: &Value,
) -> Result<Option<Membership>, kubeio::Error> {
    let offered = secret::decode(&request["status"]["caCertificate"]).filter(|pem| !pem.is_empty());
    if offered.is_none() || offered == held.credential.ca {
        return Ok(None);
    }
    let membership = Membership {
        credential: Credential {
            token: held.credential.token.clone(),
            ca: offered,
        },
        ..held.clone()
    };
    let with_it = connector.connect(&membership.credential)?;
    let found = with_it
        .get(&clusters::REGISTRATION_REQUESTS, None, meta::name(request))
        .await;
    found.map(|_| Some(membership))
}

/// Says on the ManagedCluster until when the agent needs nothing else, or that it has nothing of its own, for ever: the
/// parent may put away the credential that never ends as long as that is so.
pub(crate) async fn announce(
    parent: &Client,
    managed: &Cache,
    lifetime: Option<Duration>,
    held: &Membership,
) {
    let ends = lifetime.and_then(|_| Claims::of(&held.credential.token)?.ends);
    managed.ready().await;
    let mut changes = managed.subscribe();
    loop {
        let patch = managed
            .list()
            .first()
            .and_then(|cluster| Some((cluster.clone(), announcement(cluster, ends)?)));
        if let Some((cluster, patch)) = patch {
            let (namespace, name) = (Some(meta::namespace(&cluster)), meta::name(&cluster));
            let resource = &clusters::MANAGED_CLUSTERS;
            let said = parent
                .patch(resource, namespace, name, None, Patch::Merge, &patch)
                .await;
            match said {
                Ok(cluster) => managed.put(cluster),
                Err(error) => {
                    tracing::debug!(error = %chain(&error), "it is not said when the credential ends");
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            }
        }
        changes.next().await;
    }
}

/// What has to change on a ManagedCluster so that it says when the credential ends; `None` if it does.
fn announcement(cluster: &Value, ends: Option<Timestamp>) -> Option<Value> {
    let wanted = ends.map(|ends| ends.to_string());
    let said = meta::annotation(cluster, annotations::CREDENTIAL_ENDS);
    (said != wanted.as_deref())
        .then(|| json!({"metadata": {"annotations": {annotations::CREDENTIAL_ENDS: wanted}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &Value) -> String {
        let payload = secret::encode(claims.to_string());
        let payload = payload.trim_end_matches('=').replace('+', "-").replace('/', "_");
        format!("e30.{payload}.c2ln")
    }

    #[test]
    fn a_token_says_whose_it_is_and_when_it_ends() {
        let subject = "system:serviceaccount:clusternet-x:clusternet-y";
        let claims = Claims::of(&token(
            &json!({"sub": subject, "iat": 100, "exp": 200, "a": "???>>>"}),
        ))
        .unwrap();
        assert_eq!(
            (claims.namespace.as_str(), claims.account.as_str()),
            ("clusternet-x", "clusternet-y")
        );
        assert_eq!(claims.ends.map(Timestamp::as_second), Some(200));
        assert_eq!(Claims::of(&token(&json!({"sub": subject}))).unwrap().ends, None);
        for other in [
            "token-1".to_owned(),
            "abcdef.0123456789abcdef".to_owned(),
            "a.?.c".to_owned(),
            "..".to_owned(),
            token(&json!({"sub": "jane"})),
            token(&json!({"sub": "system:serviceaccount:x"})),
            token(&json!([])),
        ] {
            assert_eq!(Claims::of(&other), None, "{other}");
        }
    }

    #[test]
    fn a_token_is_renewed_at_half_of_its_life() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (begins, ends, lifetime, now, expected) in [
            (0, None, 3_600, 0, true),
            (0, Some(3_600), 3_600, 0, false),
            (0, Some(3_600), 3_600, 1_799, false),
            (0, Some(3_600), 3_600, 1_800, true),
            (0, Some(3_600), 3_600, 9_999, true),
            // The clock was set back.
            (5_000, Some(8_600), 3_600, 0, false),
            // It was asked for with another flag.
            (0, Some(36_000), 3_600, 1, true),
            (0, Some(3_600), 36_000, 1, false),
            (0, Some(3_607), 3_600, 1, false),
        ] {
            let claims = Claims {
                namespace: String::new(),
                account: String::new(),
                begins: at(begins),
                ends: ends.map(at),
            };
            let due = claims.is_due(Duration::from_secs(lifetime), at(now));
            assert_eq!(due, expected, "{begins} {ends:?} {lifetime} {now}");
        }
    }

    #[test]
    fn says_when_it_ends_once() {
        let ends = Some(Timestamp::from_second(1_800_000_000).unwrap());
        let mut cluster = json!({"metadata": {"name": "edge-7"}});
        assert_eq!(announcement(&cluster, None), None);
        let patch = announcement(&cluster, ends).unwrap();
        machinery::patch::merge_patch(&mut cluster, &patch);
        assert_eq!(announcement(&cluster, ends), None);
        let patch = announcement(&cluster, None).unwrap();
        machinery::patch::merge_patch(&mut cluster, &patch);
        assert_eq!(announcement(&cluster, None), None);
    }
}
