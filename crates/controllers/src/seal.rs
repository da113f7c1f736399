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

const PUBLIC: &str = "publicKey";
const PRIVATE: &str = "privateKey";
const FINGERPRINT: &str = "fingerprintKey";
/// Before the Secret is looked for again.
const RETRY: Duration = Duration::from_secs(2);

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
        loop {
            match Self::try_obtain(client, env).await {
                Ok(sealer) => return sealer,
                Err(why) => tracing::warn!(
                    namespace = names::SYSTEM_NAMESPACE,
                    name = names::CONTROLLERS_KEY_SECRET,
                    error = why,
                    "there is no key to encrypt with, so nothing is delivered"
                ),
            }
            tokio::time::sleep(RETRY + RETRY * u32::from(env.random_u64() as u8) / 256).await;
        }
    }

    async fn try_obtain(client: &Client, env: &Env) -> Result<Self, String> {
        let (secrets, namespace) = (&kubernetes::SECRETS, Some(names::SYSTEM_NAMESPACE));
        let told = |error: kubeio::Error| Chain(&error).to_string();
        let name = names::CONTROLLERS_KEY_SECRET;
        if let Some(there) = client.get_opt(secrets, namespace, name).await.map_err(told)? {
            return Self::of(&there);
        }
        let wanted = new_secret(env).map_err(|error| error.to_string())?;
        match client.create(secrets, namespace, &wanted).await {
            // Another was quicker.
            Err(error) if error.is_already_exists() => {
                Self::of(&client.get(secrets, namespace, name).await.map_err(told)?)
            }
            Err(error) => Err(told(error)),
            Ok(made) => Self::of(&made),
        }
    }

    fn of(object: &Value) -> Result<Self, String> {
        let bytes = |key: &str| secret::bytes(object, key).unwrap_or_default();
        let wrong = |error: sealing::Error| {
            format!("what the Secret holds cannot be used, delete it to have it made anew: {error}")
        };
        let pair = KeyPair::from_parts(&bytes(PUBLIC), bytes(PRIVATE)).map_err(wrong)?;
        Ok(Self {
            fingerprints: Fingerprints::new(&bytes(FINGERPRINT)).map_err(wrong)?,
            own: pair.public().clone(),
            ring: Arc::new(KeyRing::of(pair)),
        })
    }
}

fn new_secret(env: &Env) -> Result<Value, sealing::Error> {
    let (mut private, mut fingerprint) = ([0; 32], [0_u8; 32]);
    env.random.fill(&mut private);
    env.random.fill(&mut fingerprint);
    let pair = KeyPair::from_random(private)?;
    let (public, private) = pair.expose();
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": names::CONTROLLERS_KEY_SECRET, "namespace": names::SYSTEM_NAMESPACE,
            "labels": {labels::CREATED_BY: labels::CREATED_BY_CONTROLLERS},
        },
        "data": {
            PUBLIC: secret::encode(public), PRIVATE: secret::encode(private),
            FINGERPRINT: secret::encode(fingerprint),
        },
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
