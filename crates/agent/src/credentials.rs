//! Publishes, in the dedicated namespace, how the parent reaches into the child.

use std::sync::Arc;
use std::time::Duration;

use api::{annotations, finalizers, kubernetes, labels, names, secret};
use clock::{Backoff, Env};
use jiff::Timestamp;
use kubeio::Client;
use machinery::meta;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::Config;
use crate::error::chain;

/// How long a token is asked for.
const TOKEN_SECONDS: i64 = 24 * 3_600;
/// Between two looks at the credential in the child.
const LOOK_PERIOD: Duration = Duration::from_mins(1);
/// Between two looks at what is published.
const PUBLISHED_PERIOD: Duration = Duration::from_mins(10);

/// Publishes for one session.
pub(crate) struct Publisher {
    pub(crate) config: Arc<Config>,
    pub(crate) env: Env,
    pub(crate) child: Client,
    pub(crate) parent: Client,
    pub(crate) namespace: String,
    pub(crate) cluster_id: String,
}

/// A credential in the child.
#[derive(Clone, PartialEq, Eq)]
struct Token {
    token: String,
    ca: Vec<u8>,
    account_uid: String,
    /// When to get another one; `None`: it lasts as long as its Secret.
    renew_at: Option<Timestamp>,
}

impl Token {
    /// Whether it need not be asked for again.
    fn is_fresh(&self, account_uid: &str, now: Timestamp) -> bool {
        self.account_uid == account_uid && self.renew_at.is_some_and(|renew_at| now < renew_at)
    }
}

impl Publisher {
    /// Publishes for ever; dropping the future ends it.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let mut held: Option<Token> = None;
        let mut published: Option<(Instant, Token)> = None;
        loop {
            let result = async {
                let token = self.current(held.as_ref()).await?;
                let is_published = published
                    .as_ref()
                    .is_some_and(|(at, last)| *last == token && at.elapsed() < PUBLISHED_PERIOD);
                if !is_published {
                    self.publish(&token).await?;
                    published = Some((Instant::now(), token.clone()));
                }
                Ok::<_, kubeio::Error>(token)
            };
            let pause = match result.await {
                Ok(token) => {
                    held = Some(token);
                    backoff.reset();
                    LOOK_PERIOD
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "the child's credential is not published");
                    backoff.next_delay(self.env.random_u64())
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// A token of the deployer's service account: that of its Secret if there is one, else a short-lived one, kept
    /// until it has to be renewed.
    async fn current(&self, held: Option<&Token>) -> Result<Token, kubeio::Error> {
        let account_uid = meta::uid(&self.account().await?).to_owned();
        if let Some(lasting) = self.lasting(&account_uid).await? {
            return Ok(lasting);
        }
        match held.filter(|held| held.is_fresh(&account_uid, self.env.now())) {
            Some(held) => Ok(held.clone()),
            None => self.request(account_uid).await,
        }
    }

    async fn lasting(&self, account_uid: &str) -> Result<Option<Token>, kubeio::Error> {
        let namespace = Some(self.config.namespace.as_str());
        let found = self
            .child
            .get_opt(&kubernetes::SECRETS, namespace, names::APP_DEPLOYER)
            .await?;
        Ok(found.and_then(|found| {
            let account = meta::annotation(&found, annotations::SERVICE_ACCOUNT_NAME);
            let token = secret::text(&found, "token").filter(|_| account == Some(names::APP_DEPLOYER))?;
            Some(Token {
                token,
                ca: secret::bytes(&found, "ca.crt").unwrap_or_default(),
                account_uid: account_uid.to_owned(),
                renew_at: None,
            })
        }))
    }

    async fn request(&self, account_uid: String) -> Result<Token, kubeio::Error> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": TOKEN_SECONDS},
        });
        let asked = self.env.now();
        let answer = self
            .child
            .create_subresource(
                &kubernetes::SERVICE_ACCOUNTS,
                Some(&self.config.namespace),
                names::APP_DEPLOYER,
                "token",
                &request,
            )
            .await?;
        let status = &answer["status"];
        Ok(Token {
            token: status["token"].as_str().unwrap_or_default().to_owned(),
            ca: self.ca().await?,
            account_uid,
            renew_at: Some(renewal(asked, status["expirationTimestamp"].as_str())),
        })
    }

    async fn account(&self) -> Result<Value, kubeio::Error> {
        let namespace = Some(self.config.namespace.as_str());
        let found = self
            .child
            .get_opt(&kubernetes::SERVICE_ACCOUNTS, namespace, names::APP_DEPLOYER)
            .await?;
        if let Some(account) = found {
            return Ok(account);
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {
                "name": names::APP_DEPLOYER,
                "namespace": self.config.namespace,
                "labels": {labels::CREATED_BY: labels::CREATED_BY_AGENT},
            },
        });
        self.child
            .create(&kubernetes::SERVICE_ACCOUNTS, namespace, &account)
            .await
    }

    async fn ca(&self) -> Result<Vec<u8>, kubeio::Error> {
        if !self.config.child_ca.is_empty() {
            return Ok(self.config.child_ca.clone());
        }
        let map = self
            .child
            .get_opt(
                &kubernetes::CONFIG_MAPS,
                Some(&self.config.namespace),
                "kube-root-ca.crt",
            )
            .await?;
        let pem = map.as_ref().and_then(|map| map["data"]["ca.crt"].as_str());
        // A young namespace gets its copy a moment later. A credential without it could not be used.
        let missing = || kubeio::Error::Answer {
            request: format!("GET ConfigMap {}/kube-root-ca.crt", self.config.namespace),
            problem: "the child's certificate authority is not published there (yet)".to_owned(),
        };
        Ok(pem
            .filter(|pem| !pem.is_empty())
            .ok_or_else(missing)?
            .as_bytes()
            .to_vec())
    }

    async fn publish(&self, token: &Token) -> Result<(), kubeio::Error> {
        let namespace = Some(self.namespace.as_str());
        let name = names::CHILD_DEPLOYER_SECRET;
        let wanted = published_secret(&self.config, &self.cluster_id, &self.namespace, token);
        let Some(current) = self.parent.get_opt(&kubernetes::SECRETS, namespace, name).await? else {
            self.parent
                .create(&kubernetes::SECRETS, namespace, &wanted)
                .await?;
            return Ok(());
        };
        match update(&current, wanted) {
            Some(changed) => self
                .parent
                .replace(&kubernetes::SECRETS, namespace, name, &changed)
                .await
                .map(drop),
            None => Ok(()),
        }
    }
}

fn published_secret(config: &Config, cluster_id: &str, namespace: &str, token: &Token) -> Value {
    let Token {
        token,
        ca,
        account_uid,
        renew_at: _,
    } = token;
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "name": names::CHILD_DEPLOYER_SECRET,
            "namespace": namespace,
            "finalizers": [finalizers::APP],
            "labels": {
                labels::CREATED_BY: labels::CREATED_BY_AGENT,
                labels::BOOTSTRAPPING: labels::CREDENTIALS_AUTO,
                labels::CLUSTER_ID: cluster_id,
            },
            "annotations": {annotations::AUTO_UPDATE: "true"},
        },
        "data": {
            "ca.crt": secret::encode(ca),
            "token": secret::encode(token),
            "service-account.name": secret::encode(names::APP_DEPLOYER),
            "service-account.uid": secret::encode(account_uid),
            names::ADVERTISE_URL_KEY: secret::encode(&config.child_url),
        },
    })
}

/// The Secret as it is to be, or `None`: it is so already, somebody froze it, or it is going.
fn update(current: &Value, wanted: Value) -> Option<Value> {
    let frozen = meta::annotation(current, annotations::AUTO_UPDATE) != Some("true");
    if frozen || meta::is_deleting(current) || current["data"] == wanted["data"] {
        return None;
    }
    let mut changed = current.clone();
    changed["data"] = wanted["data"].clone();
    Some(changed)
}

/// When four fifths of a token's life are over.
fn renewal(asked: Timestamp, expires: Option<&str>) -> Timestamp {
    let expires = expires.and_then(|text| text.parse::<Timestamp>().ok());
    let seconds = expires.map_or(TOKEN_SECONDS, |expires| {
        (expires.as_second() - asked.as_second()).max(0)
    });
    asked
        .checked_add(jiff::SignedDuration::from_secs(seconds / 5 * 4))
        .unwrap_or(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token {
            token: text.to_owned(),
            ca: b"pem".to_vec(),
            account_uid: "u".to_owned(),
            renew_at: None,
        }
    }

    #[test]
    fn the_secret_has_all_keys_and_is_left_alone_when_frozen() {
        let mut config = Config::new("https://p", "abcdef.0123456789abcdef", "host_1");
        config.child_url = "https://10.0.0.1:6443".to_owned();
        let first = published_secret(&config, "id-1", "clusternet-x", &token("a"));
        let keys: Vec<&String> = first["data"].as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "apiserver-advertise-url",
                "ca.crt",
                "service-account.name",
                "service-account.uid",
                "token"
            ]
        );
        assert!(meta::has_finalizer(&first, finalizers::APP));
        let second = published_secret(&config, "id-1", "clusternet-x", &token("b"));
        assert_eq!(update(&first, first.clone()), None);
        assert_eq!(update(&first, second.clone()).unwrap()["data"], second["data"]);
        let mut frozen = first;
        meta::set_annotation(&mut frozen, annotations::AUTO_UPDATE, "false");
        assert_eq!(update(&frozen, second), None);
    }

    #[test]
    fn a_token_is_held_while_its_account_lives_and_its_time_has_not_come() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        for (renew_at, account, now, expected) in [
            (Some("2026-01-01T12:00:00Z"), "u", "2026-01-01T11:59:59Z", true),
            (Some("2026-01-01T12:00:00Z"), "u", "2026-01-01T12:00:00Z", false),
            (
                Some("2026-01-01T12:00:00Z"),
                "other",
                "2026-01-01T00:00:00Z",
                false,
            ),
            (None, "u", "2026-01-01T00:00:00Z", false),
        ] {
            let token = Token {
                renew_at: renew_at.map(at),
                ..token("a")
            };
            assert_eq!(
                token.is_fresh(account, at(now)),
                expected,
                "{renew_at:?} {account} {now}"
            );
        }
    }

    #[test]
    fn tokens_are_renewed_before_they_expire() {
        let asked: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(
            renewal(asked, Some("2026-01-01T01:00:00Z")).to_string(),
            "2026-01-01T00:48:00Z"
        );
        assert_eq!(renewal(asked, None).to_string(), "2026-01-01T19:12:00Z");
    }
}
