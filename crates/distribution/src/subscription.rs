//! Subscription → one Base in the namespace of each bound cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{annotations, apps, finalizers, labels, reasons, settle};
use machinery::meta;
use serde_json::{Map, Value, json};

use crate::action::{Action, Next, Plan, add_finalizer, remove_finalizers};
use crate::change_set::Standing;
use crate::feed::{self, Feed};
use crate::floor::Floor;
use crate::labels as names;

/// Longest name of a Subscription that Bases carry in labels: their own names are longer by six.
const NAME_LABEL_LIMIT: usize = names::LABEL_VALUE_LIMIT - 6;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// A namespace of this name, at least if a bound cluster's.
    pub namespace: &'a dyn Fn(&str) -> Option<Arc<Value>>,
    /// Every Base that carries the Subscription's uid.
    pub bases: &'a [Arc<Value>],
    /// The template of a feed.
    pub template: &'a dyn Fn(&Feed) -> Option<Arc<Value>>,
    /// Why a Base of a cluster that is not bound any more is to stay for now.
    pub stays: &'a dyn Fn(&Value) -> Option<String>,
    /// Whether a Base of this namespace and name exists.
    pub is_taken: &'a dyn Fn(&str, &str) -> bool,
    /// How it stands to the change sets that concern it.
    pub standing: &'a Standing,
}

/// What to do about a Subscription.
pub fn plan(view: &View<'_>) -> Plan {
    let subscription = view.subscription;
    if meta::is_deleting(subscription) {
        return plan_deletion(view);
    }
    let mut plan = Plan::default();
    if let Some(mut patch) = add_finalizer(subscription, finalizers::APP) {
        patch["metadata"]["labels"] = json!({meta::uid(subscription): meta::kind(subscription)});
        plan.push(Action::patch(&apps::SUBSCRIPTIONS, subscription, patch));
        let note = format!("finalizer {} has been injected successfully", finalizers::APP);
        plan.push(Action::normal(subscription, reasons::FINALIZER_INJECTED, note));
    } else if meta::label(subscription, meta::uid(subscription)).is_none() {
        let patch = json!({"metadata": {"labels": {meta::uid(subscription): meta::kind(subscription)}}});
        plan.push(Action::patch(&apps::SUBSCRIPTIONS, subscription, patch));
    }
    view.standing.plan(subscription, &mut plan);
    if let Some(fault) = settle::fault(subscription) {
        plan.push(Action::warning(subscription, reasons::INVALID_SETTLE, fault));
    }
    // Without any word from a scheduler there is nothing to do, and nothing to undo.
    let Some(bound) = bound_namespaces(subscription) else {
        return plan;
    };
    let written = plan.actions.len();
    if let Some(incomplete) = view.standing.incomplete.first() {
        plan.next = Next::Blocked(incomplete.to_string());
    } else {
        let mut homes: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
        for base in view.bases {
            homes.entry(meta::namespace(base)).or_default().push(base);
        }
        for namespace in &bound {
            let bases = homes.remove(namespace.as_str()).unwrap_or_default();
            plan_base(view, namespace, bases, &mut plan);
        }
    }
    for base in view
        .bases
        .iter()
        .filter(|base| !bound.contains(meta::namespace(base)))
    {
        if meta::is_deleting(base) {
            continue;
        }
        match (view.stays)(base) {
            None => plan.push(Action::delete(&apps::BASES, base)),
            Some(why) => {
                plan.push(Action::normal(subscription, reasons::MOVE_HELD, why.clone()));
                plan.next = Next::Blocked(why);
            }
        }
    }
    if let Some(fault) = Floor::fault(subscription) {
        plan.push(Action::warning(
            subscription,
            reasons::MOVE_HELD,
            fault.to_string(),
        ));
    }
    // Bases tell it too, but who looks at those?
    for feed in Feed::all_of(subscription) {
        if let Some(trouble) = feed::trouble(&feed, (view.template)(&feed).as_deref()) {
            plan.push(Action::warning(subscription, &trouble.reason, trouble.note));
        }
    }
    if plan.actions[written..]
        .iter()
        .any(|action| !matches!(action, Action::Event { .. }))
    {
        let note = format!(
            "Subscription {} is synced to {} cluster(s)",
            key(subscription),
            bound.len()
        );
        plan.push(Action::normal(subscription, reasons::SYNCED, note));
    }
    plan
}

/// Bases go first, then the Subscription.
fn plan_deletion(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    if !view.bases.is_empty() {
        for base in view.bases.iter().filter(|base| !meta::is_deleting(base)) {
            plan.push(Action::delete(&apps::BASES, base));
        }
        plan.next = Next::Blocked(format!("waiting for {} Base(s) to be deleted", view.bases.len()));
        return plan;
    }
    if let Some(patch) = remove_finalizers(view.subscription, &[finalizers::APP]) {
        plan.push(Action::patch(&apps::SUBSCRIPTIONS, view.subscription, patch));
    }
    plan
}

/// What to do about the Bases in the namespace of a bound cluster.
fn plan_base(view: &View<'_>, namespace: &str, bases: Vec<&Arc<Value>>, plan: &mut Plan) {
    let subscription = view.subscription;
    let Some(home) = (view.namespace)(namespace).filter(|home| !meta::is_deleting(home)) else {
        return;
    };
    let (leaving, mut living): (Vec<_>, Vec<_>) = bases.into_iter().partition(|base| meta::is_deleting(base));
    living.sort_by_key(|base| (meta::creation_timestamp(base), meta::name(base)));
    let Some(base) = living.pop() else {
        // What is still being taken away would fight with what is new.
        if leaving.is_empty() {
            let object = new_base(view, &home);
            let name = meta::name(&object).to_owned();
            plan.push(Action::Create {
                resource: apps::BASES,
                object,
            });
            let note = format!("Base {namespace}/{name} is created successfully");
            plan.push(Action::normal(subscription, reasons::BASE_CREATED, note));
        }
        return;
    };
    if !living.is_empty() {
        let note = format!(
            "multiple Bases in namespace {namespace}, the newest {} is used",
            meta::name(base)
        );
        plan.push(Action::warning(subscription, reasons::MULTIPLE_BASES, note));
    }
    if let Some(patch) = base_patch(subscription, base, &home) {
        plan.push(Action::patch(&apps::BASES, base, patch));
        let note = format!("Base {namespace}/{} is updated successfully", meta::name(base));
        plan.push(Action::normal(subscription, reasons::BASE_UPDATED, note));
    }
}

fn new_base(view: &View<'_>, home: &Value) -> Value {
    let (subscription, namespace) = (view.subscription, meta::name(home));
    let name = (0..)
        .map(|salt| {
            let suffix = names::suffix(&[meta::uid(subscription), namespace], salt);
            names::base_name(meta::name(subscription), &suffix)
        })
        .find(|name| !(view.is_taken)(namespace, name))
        .expect("names never run out");
    let mut base = json!({
        "apiVersion": apps::BASES.api_version(), "kind": apps::BASES.kind,
        "metadata": {
            "namespace": namespace, "name": name, "labels": base_labels(subscription, home),
            "finalizers": [finalizers::APP],
        },
        "spec": {"feeds": feeds(subscription)},
    });
    if let Some(init) = meta::annotation(subscription, annotations::IS_DEFAULT_CLUSTER_INIT) {
        meta::set_annotation(&mut base, annotations::IS_DEFAULT_CLUSTER_INIT, init);
    }
    base
}

fn base_labels(subscription: &Value, home: &Value) -> Map<String, Value> {
    let mut map = Map::from_iter([names::created_by()]);
    let (name, namespace, uid) = (
        meta::name(subscription),
        meta::namespace(subscription),
        meta::uid(subscription),
    );
    let limit = names::LABEL_VALUE_LIMIT;
    names::set_if_fits(&mut map, labels::CONFIG_KIND, &apps::SUBSCRIPTIONS.kind, limit);
    names::set_if_fits(&mut map, labels::CONFIG_NAME, name, NAME_LABEL_LIMIT);
    names::set_if_fits(&mut map, labels::CONFIG_NAMESPACE, namespace, limit);
    names::set_if_fits(&mut map, labels::CONFIG_UID, uid, limit);
    names::set_if_fits(&mut map, labels::SUBSCRIPTION_NAME, name, NAME_LABEL_LIMIT);
    names::set_if_fits(&mut map, labels::SUBSCRIPTION_NAMESPACE, namespace, limit);
    names::set_if_fits(&mut map, labels::SUBSCRIPTION_UID, uid, limit);
    for key in [labels::CLUSTER_ID, labels::CLUSTER_NAME] {
        names::set_if_fits(&mut map, key, meta::label(home, key).unwrap_or_default(), limit);
    }
    map.insert(uid.to_owned(), json!(apps::SUBSCRIPTIONS.kind));
    map
}

/// What a Base lacks.
fn base_patch(subscription: &Value, base: &Value, home: &Value) -> Option<Value> {
    let mut patch = add_finalizer(base, finalizers::APP).unwrap_or_else(|| json!({"metadata": {}}));
    let missing = names::missing(base, &base_labels(subscription, home));
    if !missing.is_empty() {
        patch["metadata"]["labels"] = Value::Object(missing);
    }
    let key = annotations::IS_DEFAULT_CLUSTER_INIT;
    if meta::annotation(base, key) != meta::annotation(subscription, key) {
        patch["metadata"]["annotations"] = json!({key: meta::annotation(subscription, key)});
    }
    if base["spec"]["feeds"] != feeds(subscription) {
        patch["spec"] = json!({"feeds": feeds(subscription)});
    }
    (patch != json!({"metadata": {}})).then_some(patch)
}

fn feeds(subscription: &Value) -> Value {
    let feeds = &subscription["spec"]["feeds"];
    if feeds.is_array() {
        feeds.clone()
    } else {
        json!([])
    }
}

/// The namespaces of `status.bindingClusters`; `None` if nobody has scheduled yet.
fn bound_namespaces(subscription: &Value) -> Option<BTreeSet<String>> {
    let bound = subscription["status"]["bindingClusters"].as_array()?.iter();
    Some(
        bound
            .filter_map(|key| Some(key.as_str()?.split_once('/')?.0.to_owned()))
            .collect(),
    )
}

fn key(object: &Value) -> String {
    format!("{}/{}", meta::namespace(object), meta::name(object))
}

#[cfg(test)]
#[path = "subscription_tests.rs"]
mod tests;
