//! Service-account tokens: what they claim, how they are signed and what `serviceaccounts/token` answers. Whether
//! the account of a token still exists is `authn`'s question.

mod key;
mod request;

use serde_json::{Map, Value, json};

pub use key::{MAX_TOKEN_BYTES, TokenError, TokenKeys};
pub use request::{
    DEFAULT_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS, MIN_LIFETIME_SECONDS, issue, secret_token,
};

/// The issuer of an embedded control plane's tokens, and the audience that its API server answers to.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The issuer of tokens that live in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// A named object with its uid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectRef {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// What a token is bound to besides its account: it is void when that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// The account alone.
    Nothing,
    /// A pod, and the node it was scheduled to if known.
    Pod(ObjectRef, Option<ObjectRef>),
    /// A Secret.
    Secret(ObjectRef),
    /// A node.
    Node(ObjectRef),
}

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The account's namespace.
    pub namespace: String,
    /// The account.
    pub account: ObjectRef,
    /// What it is bound to.
    pub bound: Bound,
    /// For whom it is; empty for a legacy token, which is for the API server.
    pub audiences: Vec<String>,
    /// Seconds since the epoch before which it is not valid.
    pub not_before: i64,
    /// Seconds since the epoch at which it expires; `None` for a legacy token.
    pub expires: Option<i64>,
    /// When it was made.
    pub issued: i64,
    /// Its unique id, empty for a legacy token.
    pub id: String,
}

impl Claims {
    /// Whether this is a token of a `kubernetes.io/service-account-token` Secret, without an expiry.
    pub fn is_legacy(&self) -> bool {
        self.expires.is_none()
    }

    /// The JWT's payload.
    pub(crate) fn to_value(&self, issuer: &str) -> Value {
        let subject = format!("system:serviceaccount:{}:{}", self.namespace, self.account.name);
        if let (None, Bound::Secret(secret)) = (self.expires, &self.bound) {
            return json!({
                "iss": LEGACY_ISSUER,
                "kubernetes.io/serviceaccount/namespace": self.namespace,
                "kubernetes.io/serviceaccount/secret.name": secret.name,
                "kubernetes.io/serviceaccount/service-account.name": self.account.name,
                "kubernetes.io/serviceaccount/service-account.uid": self.account.uid,
                "sub": subject,
            });
        }
        let reference = |object: &ObjectRef| json!({"name": object.name, "uid": object.uid});
        let mut own = Map::new();
        own.insert("namespace".into(), json!(self.namespace));
        own.insert("serviceaccount".into(), reference(&self.account));
        match &self.bound {
            Bound::Nothing => {}
            Bound::Pod(pod, node) => {
                own.insert("pod".into(), reference(pod));
                if let Some(node) = node {
                    own.insert("node".into(), reference(node));
                }
            }
            Bound::Secret(secret) => {
                own.insert("secret".into(), reference(secret));
            }
            Bound::Node(node) => {
                own.insert("node".into(), reference(node));
            }
        }
        json!({
            "aud": self.audiences, "exp": self.expires, "iat": self.issued, "iss": issuer, "jti": self.id,
            "kubernetes.io": own, "nbf": self.not_before, "sub": subject,
        })
    }

    /// From a JWT's payload whose signature was checked.
    pub(crate) fn from_value(value: &Value, issuer: &str) -> Result<Self, TokenError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let claims = match value["iss"].as_str() {
            Some(LEGACY_ISSUER) => Self {
                namespace: text(&value["kubernetes.io/serviceaccount/namespace"]),
                account: ObjectRef {
                    name: text(&value["kubernetes.io/serviceaccount/service-account.name"]),
                    uid: text(&value["kubernetes.io/serviceaccount/service-account.uid"]),
                },
                bound: Bound::Secret(ObjectRef {
                    name: text(&value["kubernetes.io/serviceaccount/secret.name"]),
                    uid: String::new(),
                }),
                audiences: Vec::new(),
                not_before: 0,
                expires: None,
                issued: 0,
                id: String::new(),
            },
            Some(found) if found == issuer => {
                let own = &value["kubernetes.io"];
                let reference = |key: &str| {
                    own.get(key).map(|object| ObjectRef {
                        name: text(&object["name"]),
                        uid: text(&object["uid"]),
                    })
                };
                let node = reference("node");
                let bound = match (reference("pod"), reference("secret"), node) {
                    (Some(pod), _, node) => Bound::Pod(pod, node),
                    (None, Some(secret), _) => Bound::Secret(secret),
                    (None, None, Some(node)) => Bound::Node(node),
                    (None, None, None) => Bound::Nothing,
                };
                Self {
                    namespace: text(&own["namespace"]),
                    account: reference("serviceaccount").unwrap_or_default(),
                    bound,
                    audiences: match value["aud"].as_array() {
                        Some(all) => all.iter().map(text).collect(),
                        None => value["aud"].as_str().map(str::to_owned).into_iter().collect(),
                    },
                    not_before: value["nbf"].as_i64().unwrap_or(0),
                    expires: Some(
                        value["exp"]
                            .as_i64()
                            .ok_or(TokenError::Malformed("it has no expiry"))?,
                    ),
                    issued: value["iat"].as_i64().unwrap_or(0),
                    id: text(&value["jti"]),
                }
            }
            _ => return Err(TokenError::Issuer),
        };
        if claims.namespace.is_empty() || claims.account.name.is_empty() || claims.account.uid.is_empty() {
            return Err(TokenError::Malformed("it names no service account"));
        }
        let subject = format!(
            "system:serviceaccount:{}:{}",
            claims.namespace, claims.account.name
        );
        if value["sub"] != subject {
            return Err(TokenError::Malformed("its subject is not its service account"));
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests;
