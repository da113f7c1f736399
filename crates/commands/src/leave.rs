//! `leave`: takes a cluster out of the fleet, leaving nothing behind on either side.

use std::io::Write;
use std::time::Duration;

use agent::Leaving;
use api::clusters::MANAGED_CLUSTERS;
use api::install::{BOOTSTRAP_SECRET, ChildOptions, child as child_objects};
use api::kubernetes as k8s;
use api::labels::{CLUSTER_ID, CLUSTER_NAME};
use api::names::{AGENT, APP_DEPLOYER, PARENT_CLUSTER_SECRET, SYSTEM_NAMESPACE};
use kubeio::{Client, DeleteOptions, ListOptions};
use machinery::{ApiResource, meta};
use serde_json::Value;

use crate::join::TOKEN_TYPE;
use crate::{Error, Hub};

/// Where bootstrap tokens are.
const TOKENS_NAMESPACE: &str = "kube-system";
/// How often the agent's pods are looked at while they end, and with which pause.
const END_TRIES: u32 = 240;
const END_PAUSE: Duration = Duration::from_millis(250);

/// What becomes of the objects that the fleet brought into the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// They go.
    Remove,
    /// They stay, as the cluster's own.
    Keep,
}

/// Stops the agent, removes the cluster from the hub, and then every trace from the cluster. Safe to repeat.
///
/// # Errors
/// [`Error::Missing`] with what could not be removed and why.
pub async fn leave(
    hub: &Hub,
    child: &Client,
    brought: Brought,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut remaining = Vec::new();
    forget_tokens(hub, &joined(child).await?, out).await?;
    remove(
        child,
        &k8s::DEPLOYMENTS,
        Some(SYSTEM_NAMESPACE),
        AGENT,
        out,
        &mut remaining,
    )
    .await?;
    await_end(child).await?;
    let leaving = Leaving {
        remove_objects: brought == Brought::Remove,
        ..Leaving::default()
    };
    let left = agent::leave(child, Some(&hub.client), &leaving)
        .await
        .map_err(|error| Error::Missing(format!("the cluster cannot be asked who it is: {error}")))?;
    for removed in &left.removed {
        writeln!(out, "{removed} removed")?;
    }
    for kept in &left.kept {
        writeln!(out, "{kept} stays, as the cluster's own")?;
    }
    remaining.extend(left.remaining);
    // Last but for what never changes: until here a second try finds the token.
    remove(
        child,
        &k8s::SECRETS,
        Some(SYSTEM_NAMESPACE),
        BOOTSTRAP_SECRET,
        out,
        &mut remaining,
    )
    .await?;
    let shared = is_shared(child).await?;
    for object in child_objects(&ChildOptions::default()).iter().rev() {
        let Some(resource) = resource_of(object) else {
            continue;
        };
        if shared && meta::kind(object) == "Namespace" {
            writeln!(out, "Namespace {SYSTEM_NAMESPACE} stays: others use it")?;
            continue;
        }
        let namespace = Some(meta::namespace(object)).filter(|namespace| !namespace.is_empty());
        remove(
            child,
            resource,
            namespace,
            meta::name(object),
            out,
            &mut remaining,
        )
        .await?;
    }
    if remaining.is_empty() {
        Ok(())
    } else {
        Err(Error::Missing(format!("left behind: {}", remaining.join("; "))))
    }
}

fn resource_of(object: &Value) -> Option<&'static ApiResource> {
    k8s::ALL
        .iter()
        .find(|resource| resource.kind == meta::kind(object))
}

async fn remove(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    out: &mut (dyn Write + Send),
    remaining: &mut Vec<String>,
) -> Result<(), Error> {
    match client
        .delete(resource, namespace, name, &DeleteOptions::background())
        .await
    {
        Ok(()) => writeln!(out, "{} {name} removed", resource.kind)?,
        Err(error) if error.is_not_found() => {}
        Err(error) => remaining.push(format!("{} {name}: {error}", resource.kind)),
    }
    Ok(())
}

/// What a cluster that wants to join, or has joined, says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Joined {
    /// Its name in the fleet.
    name: Option<String>,
    /// Its id there, once it was registered.
    id: Option<String>,
    /// The bootstrap token that it holds.
    token: Option<Token>,
}

/// A bootstrap token.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    id: String,
    secret: String,
}

impl Token {
    /// From `ID.SECRET`.
    fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.trim().split_once('.')?;
        let plain = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)).then(|| Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }

    fn object_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// Whether a Secret of the hub is this token: what a child says counts only for what it could use itself.
    fn is(&self, secret: &Value) -> bool {
        api::secret::text(secret, "token-secret").as_ref() == Some(&self.secret)
    }
}

/// Reads what `join` put into the cluster, and what its agent kept once it was registered.
async fn joined(child: &Client) -> Result<Joined, Error> {
    let namespace = Some(SYSTEM_NAMESPACE);
    let failed = || Error::hub("the cluster does not say who it is");
    let kept = child
        .get_opt(&k8s::SECRETS, namespace, PARENT_CLUSTER_SECRET)
        .await;
    let bootstrap = child.get_opt(&k8s::SECRETS, namespace, BOOTSTRAP_SECRET).await;
    let agent = child.get_opt(&k8s::DEPLOYMENTS, namespace, AGENT).await;
    Ok(from_objects(
        kept.map_err(failed())?.as_ref(),
        bootstrap.map_err(failed())?.as_ref(),
        agent.map_err(failed())?.as_ref(),
    ))
}

fn from_objects(kept: Option<&Value>, bootstrap: Option<&Value>, agent: Option<&Value>) -> Joined {
    let registered = kept.and_then(|secret| meta::label(secret, CLUSTER_NAME));
    let wanted = || {
        let mut words = agent?["spec"]["template"]["spec"]["containers"][0]["args"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str);
        words.find(|word| *word == "--cluster-reg-name")?;
        words.next()
    };
    let name = registered.filter(|name| !name.is_empty()).or_else(wanted);
    Joined {
        name: name
            .filter(|name| machinery::names::is_dns1123_subdomain(name).is_ok())
            .map(ToOwned::to_owned),
        id: kept
            .and_then(|secret| meta::label(secret, CLUSTER_ID))
            .map(ToOwned::to_owned),
        token: bootstrap
            .and_then(|secret| api::secret::text(secret, "token"))
            .and_then(|text| Token::parse(&text)),
    }
}

/// Nobody may join again with a token that was made for this cluster: neither with those that carry its name nor with
/// the one that it holds.
async fn forget_tokens(hub: &Hub, joined: &Joined, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let failed = || Error::hub("the cluster's bootstrap tokens cannot be removed");
    let namespace = Some(TOKENS_NAMESPACE);
    let mut doomed = Vec::new();
    if let Some(name) = &joined.name
        && may_bear(hub, name, joined.id.as_deref()).await?
    {
        let selector = ListOptions::labels(format!("{CLUSTER_NAME}={name}"));
        let tokens = hub.client.list_all(&k8s::SECRETS, namespace, &selector).await;
        let tokens = tokens.map_err(failed())?.items;
        let tokens = tokens.iter().filter(|secret| secret["type"] == TOKEN_TYPE);
        doomed.extend(tokens.map(|token| meta::name(token).to_owned()));
    }
    if let Some(token) = &joined.token {
        let name = token.object_name();
        let found = hub.client.get_opt(&k8s::SECRETS, namespace, &name).await;
        let found = found.map_err(failed())?.filter(|found| token.is(found));
        if found.is_some() && !doomed.contains(&name) {
            doomed.push(name);
        }
    }
    for name in doomed {
        let options = DeleteOptions::background();
        match hub.client.delete(&k8s::SECRETS, namespace, &name, &options).await {
            Err(error) if error.is_not_found() => {}
            deleted => {
                deleted.map_err(failed())?;
                writeln!(out, "Secret {name} removed")?;
            }
        }
    }
    Ok(())
}

/// Whether a name may be the child's, which says so itself: no cluster of another id bears it.
async fn may_bear(hub: &Hub, name: &str, id: Option<&str>) -> Result<bool, Error> {
    let named = ListOptions {
        field_selector: format!("metadata.name={name}"),
        ..ListOptions::default()
    };
    let bearers = hub
        .client
        .list_all(&MANAGED_CLUSTERS, None, &named)
        .await
        .map_err(Error::hub("the clusters cannot be listed"))?
        .items;
    Ok(bearers.is_empty() || bearers.iter().any(|it| it["spec"]["clusterId"].as_str() == id))
}

/// Waits until no agent runs any more that could register again.
async fn await_end(child: &Client) -> Result<(), Error> {
    let selector = ListOptions::labels(format!("app={AGENT}"));
    for _ in 0..END_TRIES {
        let pods = child
            .list_all(&k8s::PODS, Some(SYSTEM_NAMESPACE), &selector)
            .await
            .map_err(Error::hub("the agent's pods cannot be listed"))?;
        if pods.items.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(END_PAUSE).await;
    }
    Err(Error::Missing(
        "the agent's pods do not end: look at them, then try again".into(),
    ))
}

/// Whether others than the agent live in the system namespace: a hub may be a child of its own fleet.
async fn is_shared(child: &Client) -> Result<bool, Error> {
    let accounts = child
        .list_all(
            &k8s::SERVICE_ACCOUNTS,
            Some(SYSTEM_NAMESPACE),
            &ListOptions::default(),
        )
        .await
        .map_err(Error::hub(
            "the accounts of the system namespace cannot be listed",
        ))?;
    Ok(accounts
        .items
        .iter()
        .map(meta::name)
        .any(|name| !["default", AGENT, APP_DEPLOYER].contains(&name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(key: &str, value: &str) -> Value {
        json!({"data": {key: api::secret::encode(value)}})
    }

    #[test]
    fn a_cluster_says_who_it_is_before_and_after_it_registered() {
        let labelled = |name: &str| json!({"metadata": {"labels": {CLUSTER_NAME: name}}});
        let agent = |args: Value| json!({"spec": {"template": {"spec": {"containers": [{"args": args}]}}}});
        let wanted = agent(json!(["agent", "--cluster-reg-name", "edge-2", "--x", "y"]));
        let bootstrap = secret("token", "abcdef.0123456789abcdef\n");
        for (kept, bootstrap, agent, name, id) in [
            (None, None, None, None, None),
            (
                Some(labelled("edge-1")),
                None,
                Some(&wanted),
                Some("edge-1"),
                None,
            ),
            (Some(labelled("")), None, Some(&wanted), Some("edge-2"), None),
            (
                None,
                Some(&bootstrap),
                Some(&wanted),
                Some("edge-2"),
                Some("abcdef"),
            ),
            (None, Some(&bootstrap), None, None, Some("abcdef")),
            (
                None,
                None,
                Some(&agent(json!(["agent", "--cluster-reg-name"]))),
                None,
                None,
            ),
            (None, None, Some(&agent(Value::Null)), None, None),
            (None, Some(&json!({"data": {"token": "?"}})), None, None, None),
        ] {
            let found = from_objects(kept.as_ref(), bootstrap, agent);
            assert_eq!(found.name.as_deref(), name, "{found:?}");
            assert_eq!(
                found.token.as_ref().map(|token| token.id.as_str()),
                id,
                "{found:?}"
            );
        }
    }

    #[test]
    fn only_a_token_that_the_cluster_could_use_is_its_own() {
        let token = Token::parse("abcdef.0123456789abcdef").expect("a token");
        assert_eq!(token.object_name(), "bootstrap-token-abcdef");
        assert!(token.is(&secret("token-secret", "0123456789abcdef")));
        assert!(!token.is(&secret("token-secret", "0123456789abcdee")));
        assert!(!token.is(&json!({})));
        for bad in [
            "",
            "abcdef",
            "abc.0123456789abcdef",
            "abcdef.0123",
            "abcde/.0123456789abcdef",
            "ABCDEF.0123456789abcdef",
        ] {
            assert_eq!(Token::parse(bad), None, "{bad:?}");
        }
    }
}
