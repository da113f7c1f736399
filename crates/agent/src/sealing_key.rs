//! The key that Secrets on their way to this cluster are encrypted to: kept in a Secret beside the agent, made when it is
//! not there. Who deletes that Secret gets another key, which the parent hears of with the next report.

use std::sync::Arc;

use api::{kubernetes, labels, names};
use clock::Env;
use kubeio::Client;
use runtime::Chain;
use sealing::{KeyPair, KeyRing};
use serde_json::{Value, json};

/// The keys of a cluster, with the one that is kept.
pub(crate) async fn ring(child: &Client, namespace: &str, env: &Env) -> Arc<KeyRing> {
    let ring = Arc::new(KeyRing::default());
    refresh(child, namespace, &ring, env).await;
    ring
}

/// Takes up the key that is kept, or makes one. What cannot be had now changes nothing: the next report tries again.
pub(crate) async fn refresh(child: &Client, namespace: &str, ring: &KeyRing, env: &Env) {
    match obtain(child, namespace, env).await {
        Ok(pair) => ring.put(pair),
        Err(why) => tracing::warn!(
            namespace,
            name = names::AGENT_KEY_SECRET,
            error = why,
            "there is no key of the cluster, so Secrets come as the key before says, or in clear"
        ),
    }
}

async fn obtain(child: &Client, namespace: &str, env: &Env) -> Result<KeyPair, String> {
    let (secrets, name) = (&kubernetes::SECRETS, names::AGENT_KEY_SECRET);
    let told = |error: kubeio::Error| Chain(&error).to_string();
    let there = child.get_opt(secrets, Some(namespace), name).await;
    let object = match there.map_err(told)? {
        Some(there) => there,
        None => {
            let wanted = new_secret(namespace, env).map_err(|error| error.to_string())?;
            let made = child.create_or_get(secrets, Some(namespace), &wanted).await;
            made.map_err(told)?
        }
    };
    pair(&object)
}

fn pair(object: &Value) -> Result<KeyPair, String> {
    KeyPair::from_secret(object).map_err(|error| {
        format!("what the Secret holds cannot be used, delete it to have it made anew: {error}")
    })
}

fn new_secret(namespace: &str, env: &Env) -> Result<Value, sealing::Error> {
    let mut private = [0; 32];
    env.random.fill(&mut private);
    let pair = KeyPair::from_random(private)?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": names::AGENT_KEY_SECRET, "namespace": namespace,
            "labels": {labels::CREATED_BY: labels::CREATED_BY_AGENT},
        },
        "data": pair.to_secret_data(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_the_key_again_and_anything_else_is_told() {
        let mut kept = new_secret("ns", &Env::system()).unwrap();
        assert!(pair(&kept).is_ok());
        kept["data"]["privateKey"] = json!("AAAA");
        assert!(pair(&kept).unwrap_err().contains("delete it"));
    }
}
