//! Rollouts: the snapshot for their plan, and what they have Bases made of.

use std::sync::Arc;

use api::{apps, clusters, kubernetes, reasons, rollouts};
use distribution::Feed;
use distribution::base::Content;
use distribution::rollout::{self, Told};
use distribution::version::Version;
use kubeio::{ObjectKey, Outcome};
use machinery::meta;
use serde_json::{Value, json};

use super::Deployer;
use super::indexes::subscription_tie;
use super::work::lookup;
use crate::index::Tie;

/// How many versions are kept at hand.
const AT_HAND: usize = 64;

/// What a Base is to be made of.
pub(super) enum Made {
    Current,
    Of(Arc<Version>),
    Held(String),
}

impl Made {
    pub(super) fn content(&self) -> Content<'_> {
        match self {
            Self::Current => Content::Current,
            Self::Of(version) => Content::Version(version),
            Self::Held(why) => Content::Held(why.clone()),
        }
    }
}

impl Deployer {
    pub(super) async fn sync_rollout(&self, key: &ObjectKey) -> Outcome {
        let subscription = self.shared.cache(&apps::SUBSCRIPTIONS).get_key(key);
        let tie = subscription_tie(&key.namespace, &key.name);
        let feeds = subscription.as_deref().map(Feed::all_of).unwrap_or_default();
        let (found, revisions, bases, descriptions, templates) = {
            let mut indexes = self.indexes();
            let (bases, tallies) = match subscription.as_deref() {
                Some(it) => (
                    indexes.bases.find(&Tie::Uid(meta::uid(it).to_owned())),
                    indexes.tallies(it),
                ),
                None => (Vec::new(), Vec::new()),
            };
            let descriptions: Vec<_> = tallies.iter().map(|it| Arc::clone(it.description())).collect();
            (
                indexes.rollouts.find(&tie),
                indexes.revisions.find(&tie),
                bases,
                descriptions,
                indexes.templates_of(&feeds),
            )
        };
        if !self.shared.cache(&rollouts::ROLLOUTS).is_ready() {
            return Outcome::Done;
        }
        let plan = rollout::plan(&rollout::View {
            subscription: subscription.as_deref(),
            rollouts: &found,
            bases: &bases,
            descriptions: &descriptions,
            cluster: &|namespace, name| {
                self.shared
                    .cache(&clusters::MANAGED_CLUSTERS)
                    .get(Some(namespace), name)
            },
            template: &|feed| lookup(&templates, feed),
            globalizations: &self.shared.cache(&apps::GLOBALIZATIONS).list(),
            revisions: &revisions,
            reserved_namespace: &self.reserved_namespace,
            now: self.shared.env.now(),
        });
        let about = rollout::in_charge(&found).map_or_else(
            || json!({"kind": kubernetes::SECRETS.kind, "metadata": {"namespace": self.reserved_namespace}}),
            |it| Value::clone(it),
        );
        self.finish(&about, reasons::FAILED_ROLLING_OUT, plan).await
    }

    /// What a Base is to be made of now.
    pub(super) fn told(&self, base: &Value, subscription: Option<&Value>) -> Made {
        let Some(subscription) = subscription else {
            return Made::Current;
        };
        let key = ObjectKey::of(subscription);
        let tie = subscription_tie(&key.namespace, &key.name);
        let (found, revisions) = {
            let mut indexes = self.indexes();
            (indexes.rollouts.find(&tie), indexes.revisions.find(&tie))
        };
        let is_known = self.shared.cache(&rollouts::ROLLOUTS).is_ready();
        match rollout::told(base, is_known.then_some(&found)) {
            Told::Current => Made::Current,
            Told::Wait(why) => Made::Held(why),
            Told::Version(name) => match self.version(&name, subscription, &revisions) {
                Ok(version) => Made::Of(version),
                Err(why) => Made::Held(why),
            },
        }
    }

    fn version(
        &self,
        name: &str,
        subscription: &Value,
        revisions: &[Arc<Value>],
    ) -> Result<Arc<Version>, String> {
        let key = (meta::uid(subscription).to_owned(), name.to_owned());
        let at_hand = || self.versions.lock().expect("no holder panics");
        if let Some(version) = at_hand().get(&key) {
            return Ok(Arc::clone(version));
        }
        let secret = |name: &str| revisions.iter().find(|it| meta::name(it) == name).cloned();
        let version = Version::load(name, subscription, &secret);
        let version = Arc::new(version.map_err(|error| format!("version {name}: {error}"))?);
        let mut kept = at_hand();
        if kept.len() >= AT_HAND {
            kept.pop_first();
        }
        kept.insert(key, Arc::clone(&version));
        Ok(version)
    }
}
