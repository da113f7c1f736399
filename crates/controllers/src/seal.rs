//! What the controllers encrypt with: their own key, and what tells whether something sealed is still right.
//!
//! Both are in a Secret on the parent that the first of them makes. Who deletes it makes everything be sealed anew.

use std::sync::Arc;
use std::time::Duration;

use api::entry::Sealed;
use api::feed::Feed;
use api::{kubernetes, labels, names, secret};
use clock::Env;
use distribution::pack::Seal;
use kubeio::Client;
use runtime::Chain;
use sealing::{Fingerprints, KeyPair, KeyRing, PublicKey};
use serde_json::{Value, json};

const FINGERPRINT: &str = "fingerprintKey";
/// The longest pause before the Secret is looked for again.
const RETRY: Duration = Duration::from_secs(4);

/// Encrypts for clusters, and decrypts what the controllers themselves apply.
#[derive(Debug)]
pub(crate) struct Sealer {
    fingerprints: Fingerprints,
    own: PublicKey,
    /// What opens what is sealed to the parent.
    pub(crate) ring: Arc<KeyRing>,
}

impl Sealer {
    /// From the Secret, which is made if it is not there. Nothing is delivered before it is, so this waits.
    pub(crate) async fn obtain(client: &Client, env: &Env) -> Self {
        kubeio::until_answered("the controllers' key", RETRY, env, || async {
            let sealer = Self::try_obtain(client, env).await.inspect_err(|why| {
                tracing::warn!(
                    namespace = names::SYSTEM_NAMESPACE,
                    name = names::CONTROLLERS_KEY_SECRET,
                    error = why,
                    "there is no key to encrypt with, so nothing is delivered"
                );
            });
            Ok(sealer.ok())
        })
        .await
    }

    async fn try_obtain(client: &Client, env: &Env) -> Result<Self, String> {
        let (secrets, namespace) = (&kubernetes::SECRETS, Some(names::SYSTEM_NAMESPACE));
        let told = |error: kubeio::Error| Chain(&error).to_string();
        let there = client.get_opt(secrets, namespace, names::CONTROLLERS_KEY_SECRET);
        let object = match there.await.map_err(told)? {
            Some(there) => there,
            None => {
                let wanted = new_secret(env).map_err(|error| error.to_string())?;
                let made = client.create_or_get(secrets, namespace, &wanted).await;
                made.map_err(told)?
            }
        };
        Self::of(&object)
    }

    fn of(object: &Value) -> Result<Self, String> {
        let wrong = |error: sealing::Error| {
            format!("what the Secret holds cannot be used, delete it to have it made anew: {error}")
        };
        let fingerprint = secret::bytes(object, FINGERPRINT).unwrap_or_default();
        let pair = KeyPair::from_secret(object).map_err(wrong)?;
        Ok(Self {
            fingerprints: Fingerprints::new(&fingerprint).map_err(wrong)?,
            own: pair.public().clone(),
            ring: Arc::new(KeyRing::of(pair)),
        })
    }
}

fn new_secret(env: &Env) -> Result<Value, sealing::Error> {
    let (mut private, mut fingerprint) = ([0; 32], [0_u8; 32]);
    env.random.fill(&mut private);
    env.random.fill(&mut fingerprint);
    let mut data = KeyPair::from_random(private)?.to_secret_data();
    data.insert(FINGERPRINT.to_owned(), json!(secret::encode(fingerprint)));
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": names::CONTROLLERS_KEY_SECRET, "namespace": names::SYSTEM_NAMESPACE,
            "labels": {labels::CREATED_BY: labels::CREATED_BY_CONTROLLERS},
        },
        "data": data,
    }))
}

impl Seal for Sealer {
    fn own_key(&self) -> String {
        self.own.to_string()
    }

    fn seal(&self, key: &str, object: &Feed, json: &[u8]) -> Result<Sealed, String> {
        let key: PublicKey = key
            .parse()
            .map_err(|error| format!("status.encryptionKey of its ManagedCluster: {error}"))?;
        key.seal(object, json, &self.fingerprints)
            .map_err(|error| error.to_string())
    }

    fn holds(&self, sealed: &Sealed, key: &str, json: &[u8]) -> bool {
        let is_its_key = key.parse::<PublicKey>().is_ok_and(|key| key.id() == sealed.key);
        is_its_key && self.fingerprints.holds(sealed, json)
    }
}
