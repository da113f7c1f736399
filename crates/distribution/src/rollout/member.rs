//! One bound cluster, and how far it is with a version.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{annotations, apps, clusters};
use jiff::Timestamp;
use machinery::meta;
use serde_json::{Value, json};

use crate::action::Action;
use crate::status;
use crate::version::Index;

/// A bound cluster.
pub(super) struct Member {
    pub(super) cluster: Arc<Value>,
    pub(super) base: Option<Arc<Value>>,
    pub(super) descriptions: Vec<Arc<Value>>,
    /// The version that its Base names.
    pub(super) has: Option<String>,
    /// Since when it has been waited for.
    pub(super) waiting: Option<Timestamp>,
    pub(super) is_reachable: bool,
}

/// How far a cluster is with a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not taken in yet, and why if something is wrong.
    Coming(String),
    /// Taken in, but this is not available.
    Unavailable(String),
    /// All is well.
    Available,
}

impl Member {
    /// The clusters that a Subscription is bound to, by their names.
    pub(super) fn all(
        subscription: &Value,
        all_bases: &[Arc<Value>],
        all_descriptions: &[Arc<Value>],
        cluster: &dyn Fn(&str, &str) -> Option<Arc<Value>>,
    ) -> Vec<Self> {
        let mut descriptions: BTreeMap<&str, Vec<Arc<Value>>> = BTreeMap::new();
        for description in all_descriptions.iter().filter(|it| !meta::is_deleting(it)) {
            let home = descriptions.entry(meta::namespace(description)).or_default();
            home.push(Arc::clone(description));
        }
        let mut bases: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
        for base in all_bases.iter().filter(|it| !meta::is_deleting(it)) {
            // Of several, which nobody should make, the newest counts, as for their Subscription.
            let age = |it: &Value| (meta::creation_timestamp(it).to_owned(), meta::name(it).to_owned());
            let newest = bases.entry(meta::namespace(base)).or_insert(base);
            if age(newest) < age(base) {
                *newest = base;
            }
        }
        let bound = subscription["status"]["bindingClusters"].as_array();
        let mut members: Vec<Self> = bound
            .into_iter()
            .flatten()
            .filter_map(|key| {
                let (namespace, name) = key.as_str()?.split_once('/')?;
                let cluster = cluster(namespace, name)?;
                let base = bases.get(namespace).copied().cloned();
                let noted = |key: &str| base.as_deref().and_then(|it| meta::annotation(it, key));
                Some(Self {
                    descriptions: descriptions.get(namespace).cloned().unwrap_or_default(),
                    has: noted(annotations::VERSION).map(str::to_owned),
                    waiting: noted(annotations::WAITING_SINCE).and_then(|it| it.parse().ok()),
                    is_reachable: clusters::is_ready(&cluster),
                    base,
                    cluster,
                })
            })
            .collect();
        members.sort_by(|a, b| a.place().cmp(&b.place()));
        members
    }

    fn place(&self) -> (&str, &str) {
        (meta::name(&self.cluster), meta::namespace(&self.cluster))
    }

    pub(super) fn name(&self) -> &str {
        meta::name(&self.cluster)
    }

    pub(super) fn is_at(&self, version: &str) -> bool {
        self.has.as_deref() == Some(version)
    }

    /// How far its Descriptions are with a version.
    pub(super) fn stage(&self, version: &str, index: &Index) -> Stage {
        // One for the charts, one for the others.
        let wanted = [true, false]
            .into_iter()
            .filter(|chart| index.feeds.iter().any(|feed| feed.is_chart() == *chart));
        if self.descriptions.len() < wanted.count() {
            return Stage::Coming("there is no Description yet".to_owned());
        }
        for description in &self.descriptions {
            if meta::annotation(description, annotations::VERSION) != Some(version) {
                return Stage::Coming("its Description is of another version".to_owned());
            }
            let status = &description["status"];
            // An upstream agent does not say which generation it speaks of.
            let seen = &status["observedGeneration"];
            let is_current = seen.is_null() || seen.as_i64() == Some(meta::generation(description));
            if status["phase"] != "Success" || !is_current {
                let reason = status["reason"]
                    .as_str()
                    .filter(|it| is_current && !it.is_empty());
                return Stage::Coming(reason.unwrap_or("the cluster has not taken it in").to_owned());
            }
        }
        status::first_unavailable(&self.descriptions, &index.feeds)
            .map_or(Stage::Available, Stage::Unavailable)
    }

    /// What its Base is to say in place of what it says.
    pub(super) fn correction(&self) -> Option<Action> {
        let base = self.base.as_deref()?;
        let waiting = self.waiting.map(machinery::conditions::time);
        let mut changed = serde_json::Map::new();
        for (key, value) in [
            (annotations::VERSION, self.has.as_deref()),
            (annotations::WAITING_SINCE, waiting.as_deref()),
        ] {
            if meta::annotation(base, key) != value {
                changed.insert(key.to_owned(), json!(value));
            }
        }
        if changed.is_empty() {
            return None;
        }
        let patch = json!({"metadata": {"annotations": changed}});
        Some(Action::patch(&apps::BASES, base, patch))
    }
}
