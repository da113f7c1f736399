//! Which part of a divided feed a cluster gets.
//!
//! The division is part of what a Base is built from, so that no child ever runs the full count first. The
//! Localizations that say the same are made beside it for people and for other programs; ours does not read them.

use std::sync::Arc;

use api::{apps, labels, reasons};
use machinery::meta::{self, OwnerReference};
use serde_json::{Value, json};

use crate::action::{Action, Plan};
use crate::feed::Feed;
use crate::labels as names;

/// The name of the override in a Localization that divides.
const OVERRIDE_NAME: &str = "dividing scheduling replicas";
/// Larger priorities are not allowed.
const PRIORITY: u32 = 1_000;

/// One feed's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The feed.
    pub feed: Feed,
    /// Where its number of replicas is, as a JSON pointer.
    pub path: String,
    /// How many this cluster gets.
    pub replicas: u64,
}

/// How a Base's feeds are divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Division {
    /// Not at all.
    Whole,
    /// These are; the others are whole.
    Shares(Vec<Share>),
    /// It is not known yet, and why. Nothing may go out meanwhile.
    Unknown {
        /// The reason of an event, if people should hear of it.
        reason: Option<&'static str>,
        /// For people.
        why: String,
    },
}

impl Division {
    fn unknown(reason: Option<&'static str>, why: impl Into<String>) -> Self {
        Self::Unknown {
            reason,
            why: why.into(),
        }
    }

    /// A feed's share.
    pub fn share(&self, feed: &Feed) -> Option<&Share> {
        match self {
            Self::Shares(shares) => shares.iter().find(|share| share.feed.is_same(feed)),
            Self::Whole | Self::Unknown { .. } => None,
        }
    }
}

/// What the cluster of a dedicated namespace gets, as its Subscription's status and FeedInventory say.
pub fn of(subscription: Option<&Value>, inventory: Option<&Value>, namespace: &str) -> Division {
    let Some(subscription) = subscription else {
        return Division::unknown(None, "its Subscription is gone");
    };
    if subscription["spec"]["schedulingStrategy"] != "Dividing" {
        return Division::Whole;
    }
    let status = &subscription["status"];
    let mut bound = status["bindingClusters"].as_array().into_iter().flatten();
    let home = |key: &Value| {
        key.as_str()
            .and_then(|key| key.split_once('/'))
            .is_some_and(|(it, _)| it == namespace)
    };
    let Some(index) = bound.position(home) else {
        return Division::unknown(None, "the cluster is not bound any more");
    };
    let Some(replicas) = status["replicas"]
        .as_object()
        .filter(|replicas| !replicas.is_empty())
    else {
        return Division::Whole;
    };
    let Some(inventory) = inventory else {
        return Division::unknown(None, "there is no FeedInventory");
    };
    let mut shares = Vec::new();
    for entry in inventory["spec"]["feeds"].as_array().into_iter().flatten() {
        let feed = Feed::from_value(entry);
        let list = replicas
            .get(&feed.key())
            .and_then(Value::as_array)
            .filter(|list| !list.is_empty());
        let (false, Some(list)) = (entry["desiredReplicas"].is_null(), list) else {
            continue;
        };
        let Some(n) = list.get(index).and_then(Value::as_u64) else {
            let why = format!("status.replicas of {feed} has no entry for cluster {index}");
            return Division::unknown(Some(reasons::BAD_SCHEDULING_RESULT), why);
        };
        let path = entry["replicaJsonPath"].as_str().unwrap_or_default();
        if path.is_empty() {
            let why = format!("replicaJsonPath of {feed} is unset");
            return Division::unknown(Some(reasons::REPLICA_JSON_PATH_UNSET), why);
        }
        shares.push(Share {
            feed,
            path: path.to_owned(),
            replicas: n,
        });
    }
    Division::Shares(shares)
}

/// Whether a Localization is one of those made here.
pub fn is_made_here(localization: &Value) -> bool {
    meta::controller(localization).is_some_and(|owner| owner.kind == apps::BASES.kind)
}

/// Makes, corrects and removes the Localizations of a Base.
pub(crate) fn plan_localizations(
    base: &Value,
    division: &Division,
    localizations: &[Arc<Value>],
    plan: &mut Plan,
) {
    let shares: &[Share] = match division {
        Division::Shares(shares) => shares,
        Division::Whole => &[],
        Division::Unknown { .. } => return,
    };
    let own = |it: &&Arc<Value>| meta::controller(it).is_some_and(|owner| owner.uid == meta::uid(base));
    let own: Vec<&Arc<Value>> = localizations.iter().filter(own).collect();
    let wanted: Vec<Value> = shares.iter().map(|share| localization(base, share)).collect();
    for object in &wanted {
        match own.iter().find(|have| meta::name(have) == meta::name(object)) {
            None => plan.push(Action::Create {
                resource: apps::LOCALIZATIONS,
                object: object.clone(),
            }),
            Some(have) if have["spec"] != object["spec"] => {
                plan.push(Action::patch(
                    &apps::LOCALIZATIONS,
                    have,
                    json!({"spec": object["spec"]}),
                ));
            }
            Some(_) => {}
        }
    }
    for have in own {
        let kept = wanted.iter().any(|object| meta::name(object) == meta::name(have));
        if !kept && !meta::is_deleting(have) {
            plan.push(Action::delete(&apps::LOCALIZATIONS, have));
        }
    }
}

fn localization(base: &Value, share: &Share) -> Value {
    let suffix = names::suffix(&[meta::uid(base), &share.feed.key()], 0);
    let mut owner = OwnerReference::controller_of(base);
    owner.api_version = apps::BASES.api_version();
    owner.kind = apps::BASES.kind.to_string();
    let (created_by, value) = names::created_by();
    let mut object = json!({
        "apiVersion": apps::LOCALIZATIONS.api_version(), "kind": apps::LOCALIZATIONS.kind,
        "metadata": {
            "namespace": meta::namespace(base), "name": format!("{}-{suffix}", meta::name(base)),
            "labels": {created_by: value}, "ownerReferences": [owner.to_value()],
        },
        "spec": {
            "overridePolicy": "ApplyNow", "priority": PRIORITY, "feed": share.feed.to_value(),
            "overrides": [{
                "name": OVERRIDE_NAME, "type": "JSONPatch",
                "value": json!([{"path": share.path, "value": share.replicas, "op": "replace"}]).to_string(),
            }],
        },
    });
    if let Some(subscription) = meta::label(base, labels::SUBSCRIPTION_UID) {
        meta::set_label(&mut object, subscription, &apps::SUBSCRIPTIONS.kind);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(replicas: &Value) -> Value {
        json!({"spec": {"schedulingStrategy": "Dividing"},
               "status": {"bindingClusters": ["ns-a/a", "ns-b/b"], "replicas": replicas}})
    }

    fn inventory(path: &str) -> Value {
        json!({"spec": {"feeds": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "x", "desiredReplicas": 6, "replicaJsonPath": path},
            {"apiVersion": "v1", "kind": "Service", "namespace": "n", "name": "x"},
        ]}})
    }

    #[test]
    fn finds_each_clusters_share() {
        let divided = subscription(&json!({"apps/v1/Deployment/n/x": [4, 2], "v1/Service/n/x": []}));
        for (namespace, expected) in [("ns-a", 4), ("ns-b", 2)] {
            let Division::Shares(shares) = of(Some(&divided), Some(&inventory("/spec/replicas")), namespace)
            else {
                panic!("{namespace}")
            };
            assert_eq!(shares.len(), 1);
            assert_eq!(
                (shares[0].replicas, shares[0].path.as_str()),
                (expected, "/spec/replicas")
            );
        }
        let unknown = |division| match division {
            Division::Unknown { reason, .. } => reason,
            Division::Whole | Division::Shares(_) => panic!("it is known"),
        };
        assert_eq!(
            unknown(of(Some(&divided), Some(&inventory("/spec/replicas")), "ns-c")),
            None
        );
        assert_eq!(unknown(of(Some(&divided), None, "ns-a")), None);
        assert_eq!(
            unknown(of(Some(&divided), Some(&inventory("")), "ns-a")),
            Some("ReplicaJsonPathUnset")
        );
        let short = subscription(&json!({"apps/v1/Deployment/n/x": [6]}));
        assert_eq!(
            unknown(of(Some(&short), Some(&inventory("/x")), "ns-b")),
            Some("BadSchedulingResult")
        );
        assert_eq!(of(Some(&subscription(&json!({}))), None, "ns-a"), Division::Whole);
        assert_eq!(
            unknown(of(None, None, "ns-a")),
            None,
            "an orphan keeps what it has"
        );
    }
}
