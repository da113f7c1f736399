//! Secrets of type `kubernetes.io/service-account-token`: filled with a token of their account, deleted with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use machinery::{ApiError, meta};
use serde_json::{Value, json};
use smol_str::SmolStr;
use source::{Key, ObjectSource, Resource};

use super::feed::Notice;
use super::local::{Local, only};
use super::work::{Controller, Next};
use crate::error;
use crate::server::ApiServer;
use crate::tokens::{TokenKeys, secret_token};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Namespace and name.
type Name = (SmolStr, SmolStr);

/// See the module.
pub(super) struct TokenSecrets {
    source: Arc<dyn ObjectSource>,
    api: Local,
    tokens: Arc<TokenKeys>,
    authority_pem: Option<String>,
    /// The Secrets of each account.
    of_account: Mutex<BTreeMap<Name, BTreeSet<SmolStr>>>,
}

/// What to do with a Secret.
#[derive(Debug, PartialEq)]
enum Plan {
    Keep,
    /// Its account is gone or was replaced.
    Delete,
    /// Something is missing: a merge patch.
    Fill(Value),
}

/// Plans for a Secret and the account that it names. `token` signs one for it.
fn plan(
    secret: &Value,
    account: Option<&Value>,
    authority_pem: Option<&str>,
    token: impl FnOnce(&Value, &str) -> Result<String, ApiError>,
) -> Result<Plan, ApiError> {
    let uid = meta::annotation(secret, ACCOUNT_UID).unwrap_or_default();
    let account = account.filter(|account| uid.is_empty() || uid == meta::uid(account));
    let Some(account) = account else {
        return Ok(Plan::Delete);
    };
    let mut data = serde_json::Map::new();
    let has = |key: &str| secret["data"][key].as_str().is_some_and(|text| !text.is_empty());
    if let Some(pem) = authority_pem {
        let encoded = STANDARD.encode(pem);
        if secret["data"]["ca.crt"] != encoded.as_str() {
            data.insert("ca.crt".into(), json!(encoded));
        }
    }
    if !has("namespace") {
        data.insert(
            "namespace".into(),
            json!(STANDARD.encode(meta::namespace(secret))),
        );
    }
    if !has("token") {
        let token = token(account, meta::name(secret))?;
        data.insert("token".into(), json!(STANDARD.encode(token)));
    }
    if data.is_empty() && !uid.is_empty() {
        return Ok(Plan::Keep);
    }
    Ok(Plan::Fill(json!({
        "metadata": {
            "resourceVersion": meta::resource_version(secret),
            "annotations": {ACCOUNT_UID: meta::uid(account)},
        },
        "data": data,
    })))
}

impl TokenSecrets {
    pub(super) fn new(
        server: &Arc<ApiServer>,
        api: Local,
        tokens: Arc<TokenKeys>,
        authority_pem: Option<String>,
    ) -> Self {
        Self {
            source: server.source().clone(),
            api,
            tokens,
            authority_pem,
            of_account: Mutex::default(),
        }
    }

    async fn read(&self, plural: &str, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let key = Key::new(&Resource::new("", plural), namespace, name);
        let found = self.source.get(&key).await.map_err(error::of_source)?;
        Ok(found.map(|found| serde_json::from_slice(&found.json).unwrap_or(Value::Null)))
    }

    async fn tend(&self, (namespace, name): &Name) -> Result<Next, ApiError> {
        let Some(secret) = self.read("secrets", namespace, name).await? else {
            return Ok(Next::Done);
        };
        if secret["type"] != TYPE || meta::is_deleting(&secret) {
            return Ok(Next::Done);
        }
        let account_name = meta::annotation(&secret, ACCOUNT_NAME)
            .unwrap_or_default()
            .to_owned();
        self.accounts(|all| {
            let of = (namespace.clone(), SmolStr::new(&account_name));
            all.entry(of).or_default().insert(name.clone());
        });
        let account = self.read("serviceaccounts", namespace, &account_name).await?;
        let sign = |account: &Value, name: &str| secret_token(&self.tokens, account, name);
        let place = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let done = match plan(&secret, account.as_ref(), self.authority_pem.as_deref(), sign)? {
            Plan::Keep => return Ok(Next::Done),
            Plan::Fill(patch) => self.api.merge(&place, &patch).await,
            Plan::Delete => self.api.delete(&place, &only(meta::uid(&secret), None)).await,
        };
        match done {
            Err(error) if error.code == 404 => Ok(Next::Done),
            done => done.map(|_| Next::Done),
        }
    }

    fn accounts<T>(&self, look: impl FnOnce(&mut BTreeMap<Name, BTreeSet<SmolStr>>) -> T) -> T {
        look(&mut self.of_account.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Controller for TokenSecrets {
    type Key = Name;
    const NAME: &'static str = "token-secrets";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<Name>) {
        let (object, gone) = match notice {
            Notice::Put(object) => (object, false),
            Notice::Gone(object) => (object, true),
            Notice::Reset(_) | Notice::Synced => return,
        };
        let name = (object.key.namespace.clone(), object.key.name.clone());
        if object.key.resource.as_str() == "secrets" {
            if gone {
                self.accounts(|all| {
                    all.retain(|(namespace, _), secrets| {
                        if *namespace == name.0 {
                            secrets.remove(&name.1);
                        }
                        !secrets.is_empty()
                    });
                });
            } else if object.head.field("type").is_none_or(|kind| kind == TYPE) {
                // A source that does not index the type leaves the question to the look itself.
                wanted.push(name);
            }
            return;
        }
        let namespace = name.0.clone();
        let secrets = self.accounts(|all| all.get(&name).cloned().unwrap_or_default());
        wanted.extend(secrets.into_iter().map(|secret| (namespace.clone(), secret)));
    }

    fn look<'a>(&'a self, key: &'a Name, _: &'a mut Vec<Name>) -> BoxFuture<'a, Result<Next, ApiError>> {
        Box::pin(self.tend(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_once_and_deletes_with_the_account() {
        let account = json!({"metadata": {"name": "robot", "uid": "u"}});
        let mut secret = json!({"metadata": {
            "name": "t", "namespace": "shop", "resourceVersion": "7", "annotations": {ACCOUNT_NAME: "robot"},
        }});
        let plan = |secret: &Value, account: Option<&Value>| {
            super::plan(secret, account, Some("PEM"), |_, name| {
                Ok(format!("token of {name}"))
            })
            .unwrap()
        };
        let Plan::Fill(patch) = plan(&secret, Some(&account)) else {
            panic!()
        };
        assert_eq!(patch["data"]["token"], STANDARD.encode("token of t"));
        assert_eq!(patch["data"]["ca.crt"], STANDARD.encode("PEM"));
        secret["data"] = patch["data"].clone();
        secret["metadata"]["annotations"][ACCOUNT_UID] = json!("u");
        assert_eq!(plan(&secret, Some(&account)), Plan::Keep);
        assert_eq!(plan(&secret, None), Plan::Delete);
        let replaced = json!({"metadata": {"name": "robot", "uid": "other"}});
        assert_eq!(plan(&secret, Some(&replaced)), Plan::Delete);
    }
}
