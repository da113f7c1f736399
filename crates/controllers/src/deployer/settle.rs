//! Edits that are made together take effect together: what is out already is not changed while edits go on, while the
//! scheduler has not answered them, and while a change set is incomplete.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::apps;
use clock::settle::{Settling, Window};
use distribution::Feed;
use distribution::change_set::{self, Standing};
use distribution::settled::{Lookup, View, Waiting};
use kubeio::{Change, ObjectKey, Outcome};
use machinery::meta;
use serde_json::Value;
use tokio::time::Instant;

use super::indexes::feed_tie;
use super::{Deployer, Job};
use crate::index::Tie;

/// What is known of the edits of Subscriptions, by their uids.
pub(super) struct Settle {
    /// Where a Subscription says nothing else.
    window: Duration,
    started: Instant,
    edits: Mutex<Settling<String>>,
    waiting: Mutex<Waiting>,
}

impl Settle {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            started: Instant::now(),
            edits: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn edits(&self) -> MutexGuard<'_, Settling<String>> {
        self.edits.lock().expect("no holder panics")
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder panics")
    }

    /// A Subscription, or what it distributes, was edited.
    pub(super) fn edited(&self, subscription: &Value) {
        let window = Window::of(api::settle::of(subscription, self.window));
        let uid = meta::uid(subscription).to_owned();
        self.edits().edited(uid, window, self.now());
    }

    /// A Subscription is gone.
    pub(super) fn forget(&self, subscription: &Value) {
        self.edits().forget(&meta::uid(subscription).to_owned());
        self.waiting().forget(meta::uid(subscription));
    }
}

/// What a look at a Base has found of its Subscription.
pub(super) struct Found<'a> {
    pub(super) subscription: &'a Value,
    pub(super) inventory: Option<&'a Value>,
    pub(super) template: &'a Lookup<'a>,
}

impl Deployer {
    /// Something was edited that these use.
    pub(super) fn edited(&self, ties: &[Tie]) {
        let keys = self.indexes().subscriptions.keys(ties);
        let all = self.shared.cache(&apps::SUBSCRIPTIONS);
        for subscription in keys.iter().filter_map(|key| all.get_key(key)) {
            self.settle.edited(&subscription);
        }
    }

    /// Why the Descriptions of a Base are to stay as they are, as what its worker has to answer.
    pub(super) fn holds(&self, found: &Found<'_>) -> Option<Outcome> {
        let subscription = found.subscription;
        let uid = meta::uid(subscription);
        let view = View {
            subscription,
            inventory: found.inventory,
            template: self.feed_inventory.then_some(found.template),
        };
        let now = self.settle.now();
        let waits = self.settle.waiting().look(uid, &view, now);
        let hold = |why: &str, outcome: Outcome| {
            let (namespace, name) = (meta::namespace(subscription), meta::name(subscription));
            tracing::debug!(
                namespace,
                name,
                why,
                "the Descriptions of a Subscription stay as they are"
            );
            Some(outcome)
        };
        if let Some(incomplete) = self.standing(subscription).incomplete.first() {
            return hold(&incomplete.to_string(), Outcome::Done);
        }
        if let Some((unsettled, left)) = waits {
            return hold(unsettled.why(), Outcome::After(left));
        }
        let is_placed = || self.indexes().descriptions.has(&Tie::Uid(uid.to_owned()));
        let left = self.settle.edits().left(&uid.to_owned(), now)?;
        if is_placed() {
            return hold("edits go on", Outcome::After(left));
        }
        None
    }

    /// How a Subscription stands to the change sets that concern it.
    pub(super) fn standing(&self, subscription: &Value) -> Standing {
        let mut indexes = self.indexes();
        let mut concerning = Vec::new();
        for feed in Feed::all_of(subscription) {
            concerning.extend(indexes.templates().get(&feed).cloned());
            concerning.extend(indexes.policies_in_sets(&feed));
        }
        // A Localization concerns those that are bound to its cluster.
        let bound = subscription["status"]["bindingClusters"].as_array();
        let is_bound = |home: &str| {
            let mut keys = bound.into_iter().flatten().filter_map(Value::as_str);
            keys.any(|key| key.split_once('/').is_some_and(|(of, _)| of == home))
        };
        concerning.retain(|it| meta::kind(it) != apps::LOCALIZATIONS.kind || is_bound(meta::namespace(it)));
        let indexes = std::cell::RefCell::new(indexes);
        change_set::standing(subscription, &concerning, &|set| {
            indexes.borrow_mut().carriers(set)
        })
    }

    /// Wakes whom a change set concerns that an object has joined or left.
    pub(super) fn change_sets(&self, change: &Change) {
        let of =
            |state: &Option<Arc<Value>>| state.as_deref().and_then(api::change_set::of).map(str::to_owned);
        let (old, new) = (of(&change.old), of(&change.new));
        if old == new {
            return;
        }
        let mut concerned = Vec::new();
        let states = [&change.old, &change.new];
        concerned.extend(states.into_iter().flatten().cloned());
        for set in [old, new].into_iter().flatten() {
            concerned.extend(self.indexes().carriers(&set));
        }
        let mut keys = std::collections::BTreeSet::new();
        for object in concerned {
            if meta::kind(&object) == apps::SUBSCRIPTIONS.kind {
                keys.insert(ObjectKey::of(&object));
                continue;
            }
            let feed =
                Feed::of_template(&object).unwrap_or_else(|| Feed::from_value(&object["spec"]["feed"]));
            keys.extend(self.indexes().subscriptions.keys(&[feed_tie(&feed)]));
        }
        let all = self.shared.cache(&apps::SUBSCRIPTIONS);
        for key in keys {
            if let Some(subscription) = all.get_key(&key) {
                let uid = Tie::Uid(meta::uid(&subscription).to_owned());
                for base in self.indexes().bases.keys(&[uid]) {
                    self.queue.add(Job::Base(base));
                }
            }
            self.queue.add(Job::Subscription(key.clone()));
            self.queue.add(Job::Inventory(key));
        }
    }
}
