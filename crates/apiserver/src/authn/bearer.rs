//! Bearer tokens: service accounts' and bootstrap tokens. A signature proves nothing about today: the account, and
//! what the token is bound to, must still be there with the same uid.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use source::{Key, Resource};

use super::{Authenticated, Authenticator, Refusal, bootstrap};
use crate::tokens::{Bound, Claims, MAX_TOKEN_BYTES, ObjectRef, TokenError};
use crate::user::UserInfo;

impl Authenticator {
    /// Whose a token is, if it is for one of the audiences.
    pub(crate) async fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Authenticated, Refusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong(token.len()).into());
        }
        if let Some(bootstrap) = bootstrap::BootstrapToken::parse(token) {
            let user = self.bootstrap_user(&bootstrap).await?;
            return Ok(Authenticated {
                user,
                audiences: self.own_audiences(audiences)?,
            });
        }
        let claims = match self.tokens.verify(token, self.env.now().as_second()) {
            Ok(claims) => claims,
            Err(TokenError::Malformed(_) | TokenError::Issuer) => return Err(Refusal::UnknownToken),
            Err(error) => return Err(error.into()),
        };
        let audiences = if claims.is_legacy() {
            self.own_audiences(audiences)?
        } else {
            intersection(&claims.audiences, audiences)?
        };
        let user = self.service_account(token, &claims).await?;
        Ok(Authenticated { user, audiences })
    }

    fn own_audiences(&self, wanted: &[String]) -> Result<Vec<String>, TokenError> {
        intersection(self.tokens.audiences(), wanted)
    }

    async fn read(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Value>, Refusal> {
        let key = Key::new(&Resource::from(resource), namespace, name);
        let object = self
            .source
            .get(&key)
            .await
            .map_err(|error| Refusal::Source(error.to_string()))?;
        let Some(object) = object else { return Ok(None) };
        serde_json::from_slice(&object.json)
            .map(Some)
            .map_err(|error| Refusal::Source(error.to_string()))
    }

    /// Whether an object is there, with the uid if one is given. Reads no JSON.
    async fn stands(&self, resource: &str, namespace: &str, object: &ObjectRef) -> Result<bool, Refusal> {
        let key = Key::new(&Resource::from(resource), namespace, &object.name);
        let found = self
            .source
            .get(&key)
            .await
            .map_err(|error| Refusal::Source(error.to_string()))?;
        Ok(found.is_some_and(|found| object.uid.is_empty() || found.head.uid() == object.uid))
    }

    async fn service_account(&self, token: &str, claims: &Arc<Claims>) -> Result<UserInfo, Refusal> {
        let namespace = &claims.namespace;
        let gone = |what: &str, object: &ObjectRef| {
            TokenError::Gone(format!("{what} \"{namespace}/{}\"", object.name))
        };
        if !self.stands("serviceaccounts", namespace, &claims.account).await? {
            return Err(gone("service account", &claims.account).into());
        }
        let mut user = UserInfo::service_account(namespace, &claims.account.name);
        user.uid.clone_from(&claims.account.uid);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(
                    format!("authentication.kubernetes.io/{key}"),
                    vec![value.to_owned()],
                );
            }
        };
        match &claims.bound {
            Bound::Nothing => {}
            Bound::Pod(pod, node) => {
                if !self.stands("pods", namespace, pod).await? {
                    return Err(gone("pod", pod).into());
                }
                extra("pod-name", &pod.name);
                extra("pod-uid", &pod.uid);
                if let Some(node) = node {
                    extra("node-name", &node.name);
                    extra("node-uid", &node.uid);
                }
            }
            Bound::Secret(secret) if claims.is_legacy() => {
                if !self.legacy_secret_stands(token, claims, secret).await? {
                    return Err(gone("secret", secret).into());
                }
            }
            Bound::Secret(secret) => {
                if !self.stands("secrets", namespace, secret).await? {
                    return Err(gone("secret", secret).into());
                }
            }
            Bound::Node(node) => {
                if !self.stands("nodes", "", node).await? {
                    return Err(gone("node", node).into());
                }
                extra("node-name", &node.name);
                extra("node-uid", &node.uid);
            }
        }
        if !claims.id.is_empty() {
            extra("credential-id", &format!("JTI={}", claims.id));
        }
        Ok(user)
    }

    /// A Secret's token is void as soon as the Secret is of another kind or account, or holds another token.
    async fn legacy_secret_stands(
        &self,
        token: &str,
        claims: &Claims,
        secret: &ObjectRef,
    ) -> Result<bool, Refusal> {
        let Some(found) = self.read("secrets", &claims.namespace, &secret.name).await? else {
            return Ok(false);
        };
        let annotations = &found["metadata"]["annotations"];
        Ok(found["type"] == "kubernetes.io/service-account-token"
            && found["data"]["token"] == STANDARD.encode(token)
            && annotations["kubernetes.io/service-account.name"] == claims.account.name.as_str()
            && annotations["kubernetes.io/service-account.uid"]
                .as_str()
                .is_none_or(|uid| uid == claims.account.uid))
    }

    async fn bootstrap_user(&self, token: &bootstrap::BootstrapToken<'_>) -> Result<UserInfo, Refusal> {
        let secret = self
            .read("secrets", bootstrap::NAMESPACE, &token.secret_name())
            .await?;
        let Some(secret) = secret else {
            return Err(Refusal::Bootstrap("is unknown"));
        };
        token.user(&secret, self.env.now()).map_err(Refusal::Bootstrap)
    }
}

fn intersection(found: &[String], wanted: &[String]) -> Result<Vec<String>, TokenError> {
    let both: Vec<String> = wanted.iter().filter(|one| found.contains(one)).cloned().collect();
    if both.is_empty() {
        return Err(TokenError::Audience {
            found: found.to_vec(),
            wanted: wanted.to_vec(),
        });
    }
    Ok(both)
}
