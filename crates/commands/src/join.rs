//! `join`: what a cluster needs to join, with a fresh token of its own.

use std::io::Write;
use std::str::FromStr;

use api::install::{AgentOptions, ChildOptions, agent, bootstrap_secret, child};
use api::kubernetes::SECRETS;
use api::labels::CLUSTER_NAME;
use api::names::{BOOTSTRAP_GROUP, JOIN_GROUP, join_group};
use clock::Env;
use http::Uri;
use jiff::SignedDuration;
use kubeio::{DeleteOptions, ListOptions, Patch};
use machinery::meta;
use serde_json::{Value, json};

use crate::manifests::print;
use crate::{Error, Hub};

/// The type of a bootstrap token's Secret.
pub(crate) const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";

/// The parent's address as the child sees it: an HTTPS URL with a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentUrl(String);

impl FromStr for ParentUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem: &str| {
            Error::Usage(format!(
                "{text:?} {problem}: give the address at which the child reaches the parent's API server, such as \
                 https://hub.example.com:6443"
            ))
        };
        let uri: Uri = text.parse().map_err(|_| bad("is no URL"))?;
        match (uri.scheme_str(), uri.authority()) {
            (Some("https"), Some(authority)) if authority.as_str().contains('@') => {
                Err(bad("names a user, and the child has a token"))
            }
            (Some("https"), Some(authority)) if authority.host().is_empty() => Err(bad("names no host")),
            (Some("https"), Some(authority))
                if authority.as_str() != authority.host()
                    && authority.port_u16().is_none_or(|port| port == 0) =>
            {
                Err(bad("has a port that is none"))
            }
            (Some("https"), Some(_)) if uri.query().is_some() || text.contains('#') => {
                Err(bad("has more behind its path"))
            }
            (Some("https"), Some(_)) => Ok(Self(text.trim_end_matches('/').to_owned())),
            (Some("http"), _) => Err(bad("would send the token for everybody to read")),
            _ => Err(bad("is no https URL")),
        }
    }
}

/// How a cluster joins.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The name it gets.
    pub name: String,
    /// The parent's address as the child sees it.
    pub parent_url: ParentUrl,
    /// The image with this program.
    pub image: String,
    /// How long the token can be used.
    pub token_lifetime: SignedDuration,
    /// What the parent may send there.
    pub rights: ChildOptions,
}

/// Gives the cluster a bootstrap token on the hub, or makes the one that it has last from now, and prints what is to be
/// applied in the child. Safe to repeat.
///
/// # Errors
/// [`Error`] if the hub does not take the token.
pub async fn join(
    hub: &Hub,
    env: &Env,
    options: &JoinOptions,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let expiration = env
        .now()
        .checked_add(options.token_lifetime)
        .map_err(|error| Error::Usage(format!("a token cannot last {}: {error}", options.token_lifetime)))?;
    let namespace = Some("kube-system");
    let own = ListOptions::labels(format!("{CLUSTER_NAME}={}", options.name));
    let tokens = hub
        .client
        .list_all(&SECRETS, namespace, &own)
        .await
        .map_err(Error::hub("the cluster's bootstrap tokens cannot be read"))?;
    let kept = tokens
        .items
        .iter()
        .find_map(|secret| Some((secret, token(secret, &options.name)?)));
    let refused = || Error::hub("the hub takes no bootstrap token");
    let (made, token) = if let Some((secret, token)) = kept {
        let lasting = json!({"stringData": {
            "expiration": expiration.to_string(), "auth-extra-groups": groups(&options.name),
        }});
        hub.client
            .patch(
                &SECRETS,
                namespace,
                meta::name(secret),
                None,
                Patch::Merge,
                &lasting,
            )
            .await
            .map_err(refused())?;
        (None, token)
    } else {
        let (id, secret) = (env.suffix(6), env.suffix(16));
        let object = new_token(options, &id, &secret, &expiration.to_string());
        hub.client
            .create(&SECRETS, namespace, &object)
            .await
            .map_err(refused())?;
        (Some(object), format!("{id}.{secret}"))
    };
    let mut objects = child(&options.rights);
    objects.push(bootstrap_secret(&token, Some(&ca(hub)?)));
    objects.push(agent(&AgentOptions {
        image: &options.image,
        parent_url: &options.parent_url.0,
        name: Some(&options.name),
        sync_mode: None,
        replicas: 1,
        has_authority: true,
    }));
    let printed = print(out, &objects).and_then(|()| Ok(out.flush()?));
    if let (Err(_), Some(made)) = (&printed, made) {
        // Nobody has it, and nobody shall find it.
        hub.client
            .delete(
                &SECRETS,
                namespace,
                meta::name(&made),
                &DeleteOptions::background(),
            )
            .await
            .map_err(Error::hub("the bootstrap token cannot be taken back"))?;
    }
    printed
}

fn new_token(options: &JoinOptions, id: &str, secret: &str, expiration: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TOKEN_TYPE,
        "metadata": {
            "name": format!("bootstrap-token-{id}"), "namespace": "kube-system",
            "labels": {CLUSTER_NAME: options.name},
        },
        "stringData": {
            "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": groups(&options.name), "expiration": expiration,
            "description": format!("lets cluster {} join", options.name),
        },
    })
}

/// What a token may do that was made for the cluster of a name: ask, and read the answer to the request for that name.
fn groups(cluster_name: &str) -> String {
    format!("{JOIN_GROUP},{}", join_group(cluster_name))
}

/// The token that a Secret of the hub holds, if the cluster of a name can join with it, perhaps once it has the right
/// groups: earlier versions made such with the rights of tokens that everybody shares.
fn token(secret: &Value, cluster_name: &str) -> Option<String> {
    let text = |key: &str| api::secret::text(secret, key);
    let lets_in = secret["type"] == TOKEN_TYPE
        && !meta::is_deleting(secret)
        && text("usage-bootstrap-authentication").as_deref() == Some("true")
        && text("auth-extra-groups")
            .is_some_and(|held| held == groups(cluster_name) || held == BOOTSTRAP_GROUP);
    lets_in
        .then(|| Some(format!("{}.{}", text("token-id")?, text("token-secret")?)))
        .flatten()
}

fn ca(hub: &Hub) -> Result<String, Error> {
    let authority = hub.door.authority.clone();
    authority
        .and_then(|pem| String::from_utf8(pem).ok())
        .ok_or_else(|| Error::Missing("the hub's kubeconfig names no certificate authority".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_again_if_a_cluster_can_join_with_it() {
        let data = |pairs: &[(&str, &str)]| -> Value {
            let encoded = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(api::secret::encode(value))));
            Value::Object(encoded.collect())
        };
        let (own, others) = (groups("edge-7"), groups("edge-8"));
        let with = |groups| {
            [
                ("token-id", "abcdef"),
                ("token-secret", "0123456789abcdef"),
                ("usage-bootstrap-authentication", "true"),
                ("auth-extra-groups", groups),
            ]
        };
        let secret = |data: Value| json!({"type": TOKEN_TYPE, "data": data});
        for (groups, expected) in [
            (own.as_str(), Some("abcdef.0123456789abcdef")),
            (BOOTSTRAP_GROUP, Some("abcdef.0123456789abcdef")),
            (others.as_str(), None),
            (JOIN_GROUP, None),
        ] {
            let found = token(&secret(data(&with(groups))), "edge-7");
            assert_eq!(found.as_deref(), expected, "{groups}");
        }
        let good = with(&own);
        for missing in 0..good.len() {
            let mut less = good.to_vec();
            less.remove(missing);
            let found = token(&secret(data(&less)), "edge-7");
            assert_eq!(found, None, "without {}", good[missing].0);
        }
        let mut other = secret(data(&good));
        other["type"] = json!("Opaque");
        assert_eq!(token(&other, "edge-7"), None);
    }

    #[test]
    fn the_parents_address_is_an_https_url_with_a_host() {
        for (text, kept) in [
            ("https://hub.example.com:6443", "https://hub.example.com:6443"),
            ("https://10.0.0.1/", "https://10.0.0.1"),
            (
                "https://[fd00::1]:8443/clusters/a",
                "https://[fd00::1]:8443/clusters/a",
            ),
        ] {
            assert_eq!(text.parse::<ParentUrl>().expect(text).0, kept);
        }
        for (text, part) in [
            ("", "is no URL"),
            ("foo", "is no https URL"),
            ("hub.example.com:6443", "is no https URL"),
            ("/foo", "is no https URL"),
            ("http://hub.example.com", "for everybody to read"),
            ("ftp://hub.example.com", "is no https URL"),
            ("https://", "is no URL"),
            ("https://:6443", "names no host"),
            ("https://a:b", "has a port that is none"),
            ("https://a:99999", "has a port that is none"),
            ("https://a:", "has a port that is none"),
            ("https://u:p@a", "names a user"),
            ("https://a/?b=c", "has more behind its path"),
            ("https://a/#b", "has more behind its path"),
            ("https://a b", "is no URL"),
        ] {
            let error = text.parse::<ParentUrl>().expect_err(text).to_string();
            assert!(error.contains(part), "{text:?}: {error}");
            assert!(error.contains("such as https://hub.example.com:6443"), "{error}");
        }
    }
}
