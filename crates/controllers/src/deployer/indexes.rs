//! What belongs to what.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{annotations, apps, entry, kubernetes, labels, payloads, rollouts};
use distribution::moves::Tally;
use distribution::{Feed, FeedIndex};
use kubeio::{Changes, ObjectKey};
use machinery::meta;
use serde_json::Value;

use crate::index::{Index, Tie};
use crate::shared::Shared;

/// Every look-up that planning needs.
pub(crate) struct Indexes {
    /// By uid, bound namespace and feed.
    pub(crate) subscriptions: Index,
    /// By the Subscription's uid, their own, and feed.
    pub(crate) bases: Index,
    /// By the Base's and the Subscription's uid, which are the child's to write, and the payloads that they refer to.
    pub(crate) descriptions: Index<Arc<Tally>>,
    /// By the Description's uid.
    pub(crate) releases: Index,
    /// By feed.
    pub(crate) localizations: Index,
    /// By feed.
    pub(crate) globalizations: Index,
    /// Of every kind that can be part of a change set, those that are, by it, and those that change a feed by that.
    change_sets: [Index; 5],
    /// By their Subscription.
    pub(crate) rollouts: Index,
    /// By their Subscription.
    pub(crate) revisions: Index,
    /// By what they are pieces of.
    pub(crate) payloads: Index,
    templates: FeedIndex,
    manifests: Changes,
    charts: Changes,
}

impl Indexes {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            subscriptions: Index::new(shared.cache(&apps::SUBSCRIPTIONS), subscription_ties),
            bases: Index::new(shared.cache(&apps::BASES), base_ties),
            descriptions: Index::keeping(shared.cache(&apps::DESCRIPTIONS), description_ties, |it| {
                Arc::new(Tally::of(it))
            }),
            releases: Index::new(shared.cache(&apps::HELM_RELEASES), release_ties),
            localizations: Index::new(shared.cache(&apps::LOCALIZATIONS), policy_ties),
            globalizations: Index::new(shared.cache(&apps::GLOBALIZATIONS), policy_ties),
            change_sets: [
                &apps::SUBSCRIPTIONS,
                &apps::MANIFESTS,
                &apps::HELM_CHARTS,
                &apps::LOCALIZATIONS,
                &apps::GLOBALIZATIONS,
            ]
            .map(|kind| Index::new(shared.cache(kind), change_set_ties)),
            rollouts: Index::new(shared.cache(&rollouts::ROLLOUTS), rollout_ties),
            revisions: Index::new(shared.cache(&kubernetes::SECRETS), revision_ties),
            payloads: Index::new(shared.cache(&payloads::PAYLOADS), payload_ties),
            templates: FeedIndex::default(),
            manifests: shared.cache(&apps::MANIFESTS).subscribe(),
            charts: shared.cache(&apps::HELM_CHARTS).subscribe(),
        }
    }

    /// Manifests and HelmCharts.
    pub(crate) fn templates(&mut self) -> &FeedIndex {
        for changes in [&mut self.manifests, &mut self.charts] {
            while let Some(change) = changes.try_next() {
                if let Some(old) = &change.old {
                    self.templates.remove(old);
                }
                if let Some(new) = &change.new {
                    self.templates.insert(new);
                }
            }
        }
        &self.templates
    }

    /// Everything that carries a change set.
    pub(crate) fn carriers(&mut self, set: &str) -> Vec<Arc<Value>> {
        let tie = Tie::ChangeSet(set.to_owned());
        self.change_sets
            .iter_mut()
            .flat_map(|index| index.find(&tie))
            .collect()
    }

    /// The Localizations and Globalizations of a feed that are part of a change set.
    pub(crate) fn policies_in_sets(&mut self, feed: &Feed) -> Vec<Arc<Value>> {
        let tie = feed_tie(feed);
        let [_, _, _, localizations, globalizations] = &mut self.change_sets;
        [localizations.find(&tie), globalizations.find(&tie)].concat()
    }

    /// The Descriptions of a Subscription, in the namespaces of its Bases: in others they only claim to be its own.
    pub(crate) fn tallies(&mut self, subscription: &Value) -> Vec<Arc<Tally>> {
        let uid = Tie::Uid(meta::uid(subscription).to_owned());
        let bases = self.bases.find(&uid);
        let homes: BTreeSet<&str> = bases.iter().map(|base| meta::namespace(base)).collect();
        let mut tallies = self.descriptions.find(&uid);
        tallies.retain(|it| homes.contains(meta::namespace(it.description())));
        tallies
    }

    /// Whether a Subscription has Rollouts, or something is kept for them.
    pub(crate) fn rolls_out(&mut self, subscription: &ObjectKey) -> bool {
        let tie = subscription_tie(&subscription.namespace, &subscription.name);
        self.rollouts.has(&tie) || self.revisions.has(&tie)
    }

    /// The templates of some feeds, in their order.
    pub(crate) fn templates_of(&mut self, feeds: &[Feed]) -> Vec<(Feed, Option<Arc<Value>>)> {
        let templates = self.templates();
        feeds
            .iter()
            .map(|feed| (feed.clone(), templates.get(feed).cloned()))
            .collect()
    }
}

/// The tie of everything that uses a feed.
pub(crate) fn feed_tie(feed: &Feed) -> Tie {
    Tie::Feed(feed.kind.clone(), feed.namespace.clone(), feed.name.clone())
}

/// The tie of everything that a Subscription is named by.
pub(crate) fn subscription_tie(namespace: &str, name: &str) -> Tie {
    Tie::Subscription(namespace.to_owned(), name.to_owned())
}

fn rollout_ties(object: &Value) -> Vec<Tie> {
    let name = object["spec"]["subscription"].as_str().unwrap_or_default();
    vec![subscription_tie(meta::namespace(object), name)]
}

fn revision_ties(object: &Value) -> Vec<Tie> {
    let of = meta::annotation(object, annotations::REVISION_OF).unwrap_or_default();
    let of = of
        .split_once('/')
        .map(|(namespace, name)| subscription_tie(namespace, name));
    of.into_iter().collect()
}

fn feed_ties(object: &Value) -> impl Iterator<Item = Tie> {
    Feed::all_of(object).into_iter().map(|feed| feed_tie(&feed))
}

fn label_ties<'a>(object: &'a Value, keys: &'a [&str]) -> impl Iterator<Item = Tie> + 'a {
    keys.iter()
        .filter_map(|key| meta::label(object, key))
        .map(|uid| Tie::Uid(uid.to_owned()))
}

fn subscription_ties(object: &Value) -> Vec<Tie> {
    let bound = object["status"]["bindingClusters"]
        .as_array()
        .into_iter()
        .flatten();
    let bound = bound.filter_map(|key| key.as_str()?.split_once('/'));
    let mut ties = vec![Tie::Uid(meta::uid(object).to_owned())];
    ties.extend(bound.map(|(namespace, _)| Tie::Namespace(namespace.to_owned())));
    ties.extend(feed_ties(object));
    ties
}

fn base_ties(object: &Value) -> Vec<Tie> {
    let mut ties = vec![Tie::Uid(meta::uid(object).to_owned())];
    ties.extend(label_ties(object, &[labels::CONFIG_UID]));
    ties.extend(feed_ties(object));
    ties
}

fn description_ties(object: &Value) -> Vec<Tie> {
    let owners = label_ties(object, &[labels::CONFIG_UID, labels::SUBSCRIPTION_UID]);
    owners.chain(entry::digests(object).map(Tie::Payload)).collect()
}

fn change_set_ties(object: &Value) -> Vec<Tie> {
    let Some(set) = api::change_set::of(object) else {
        return Vec::new();
    };
    let mut ties = policy_ties(object);
    ties.push(Tie::ChangeSet(set.to_owned()));
    ties
}

fn payload_ties(object: &Value) -> Vec<Tie> {
    let digest = payloads::digest_of_name(meta::name(object));
    digest.map(Tie::Payload).into_iter().collect()
}

fn policy_ties(object: &Value) -> Vec<Tie> {
    vec![feed_tie(&Feed::from_value(&object["spec"]["feed"]))]
}

fn release_ties(object: &Value) -> Vec<Tie> {
    label_ties(object, &[labels::CONFIG_UID]).collect()
}
