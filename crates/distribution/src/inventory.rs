//! FeedInventories: what a dividing Subscription's feeds want, for whoever schedules it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{annotations, apps, labels, reasons, stateful};
use machinery::meta::{self, OwnerReference};
use machinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::action::{Action, Next, Plan};
use crate::feed::Feed;
use crate::labels as names;
use crate::replicas::OwnKinds;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// The FeedInventory of its namespace and name.
    pub inventory: Option<&'a Value>,
    /// The template of a feed.
    pub template: &'a dyn Fn(&Feed) -> Option<Arc<Value>>,
    /// Kinds of users' own that can be divided.
    pub own_kinds: &'a OwnKinds,
}

/// What to do about a Subscription's FeedInventory.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let subscription = view.subscription;
    if meta::is_deleting(subscription) || subscription["spec"]["schedulingStrategy"] != "Dividing" {
        return plan;
    }
    let (feeds, stateful) = match feeds(view) {
        Ok(feeds) => feeds,
        Err((reason, why)) => {
            plan.push(Action::warning(subscription, reason, why.clone()));
            plan.next = Next::Blocked(why);
            return plan;
        }
    };
    let mut wanted = object(subscription, &feeds);
    if let Some(stateful) = &stateful {
        meta::set_annotation(&mut wanted, annotations::STATEFUL, stateful);
    }
    let synced = match view.inventory {
        None => {
            plan.push(Action::Create {
                resource: apps::FEED_INVENTORIES,
                object: wanted,
            });
            true
        }
        Some(have) => {
            let mut patch = json!({});
            let missing = meta::labels(&wanted)
                .map(|labels| names::missing(have, labels))
                .unwrap_or_default();
            if !missing.is_empty() {
                patch["metadata"]["labels"] = Value::Object(missing);
            }
            if meta::controller(have).map(|owner| owner.uid).as_deref() != Some(meta::uid(subscription)) {
                patch["metadata"]["ownerReferences"] = wanted["metadata"]["ownerReferences"].clone();
            }
            if meta::annotation(have, annotations::STATEFUL) != stateful.as_deref() {
                patch["metadata"]["annotations"] = json!({annotations::STATEFUL: stateful});
            }
            if have["spec"]["feeds"] != feeds {
                patch["spec"] = json!({"feeds": feeds});
            }
            let differs = patch != json!({});
            if differs {
                plan.push(Action::patch(&apps::FEED_INVENTORIES, have, patch));
            }
            differs
        }
    };
    if synced {
        let note = format!("FeedInventory {} is synced", meta::name(subscription));
        plan.push(Action::normal(subscription, reasons::FEED_INVENTORY_SYNCED, note));
    }
    plan
}

fn object(subscription: &Value, feeds: &Value) -> Value {
    let mut map = Map::from_iter([names::created_by()]);
    let mut set = |key: &str, value: &str| names::set_if_fits(&mut map, key, value, names::LABEL_VALUE_LIMIT);
    set(labels::SUBSCRIPTION_NAME, meta::name(subscription));
    set(labels::SUBSCRIPTION_NAMESPACE, meta::namespace(subscription));
    set(labels::SUBSCRIPTION_UID, meta::uid(subscription));
    let mut owner = OwnerReference::controller_of(subscription);
    owner.api_version = apps::SUBSCRIPTIONS.api_version();
    owner.kind = apps::SUBSCRIPTIONS.kind.to_string();
    json!({
        "apiVersion": apps::FEED_INVENTORIES.api_version(), "kind": apps::FEED_INVENTORIES.kind,
        "metadata": {
            "namespace": meta::namespace(subscription), "name": meta::name(subscription), "labels": map,
            "ownerReferences": [owner.to_value()],
        },
        "spec": {"feeds": feeds},
    })
}

/// The inventory's feeds and the keys of those that may not run twice, or the reason of the event and why there are none.
fn feeds(view: &View<'_>) -> Result<(Value, Option<String>), (&'static str, String)> {
    let (mut feeds, mut stateful) = (Vec::new(), Vec::new());
    for feed in Feed::all_of(view.subscription) {
        if feed.is_chart() {
            return Err((
                reasons::UNPARSEABLE_FEEDS,
                format!("{feed} cannot be divided: charts are not"),
            ));
        }
        let Some(template) = (view.template)(&feed) else {
            return Err((
                reasons::FEED_INVENTORY_NOT_SYNCED,
                format!("{feed} does not exist"),
            ));
        };
        let entry = entry(&feed, &template["template"], view.own_kinds);
        let entry = entry.map_err(|why| (reasons::UNPARSEABLE_FEEDS, why))?;
        if !entry["desiredReplicas"].is_null() && stateful::says_so(&template["template"]) {
            stateful.push(feed.key());
        }
        feeds.push(entry);
    }
    let stateful = Some(stateful.join(",")).filter(|keys| !keys.is_empty());
    Ok((Value::Array(feeds), stateful))
}

/// One feed of an inventory.
fn entry(feed: &Feed, object: &Value, own_kinds: &OwnKinds) -> Result<Value, String> {
    let mut entry = feed.to_value();
    let Some(places) = own_kinds.places(feed, object) else {
        return Ok(entry);
    };
    let replicas = object.pointer(&places.replicas).and_then(Value::as_u64);
    if let Some(replicas) = replicas {
        entry["desiredReplicas"] = json!(replicas);
        entry["replicaJsonPath"] = json!(places.replicas);
    }
    let pod = places
        .template
        .and_then(|path| object.pointer(&path))
        .map(|it| &it["spec"]);
    let requirements =
        requirements(pod.unwrap_or(&Value::Null)).map_err(|why| format!("{feed} cannot be read: {why}"))?;
    if requirements != json!({}) {
        entry["replicaRequirements"] = requirements;
    }
    Ok(entry)
}

/// What one replica needs, from its pod's spec.
///
/// # Errors
/// A quantity that is none.
pub fn requirements(pod: &Value) -> Result<Value, String> {
    let mut requirements = json!({});
    for field in ["nodeSelector", "tolerations", "affinity"] {
        if !pod[field].is_null() {
            requirements[field] = pod[field].clone();
        }
    }
    let resources = resources(pod)?;
    if resources != json!({}) {
        requirements["resources"] = resources;
    }
    Ok(requirements)
}

type Amounts = BTreeMap<String, Quantity>;

/// Containers run together, so theirs add up; init containers run before, one by one, so the largest counts.
fn resources(pod: &Value) -> Result<Value, String> {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for container in pod["containers"].as_array().into_iter().flatten() {
        let (its_requests, its_limits) = of_container(container)?;
        for (sum, amounts) in [(&mut requests, its_requests), (&mut limits, its_limits)] {
            for (name, amount) in amounts {
                let total = match sum.get(&name) {
                    Some(have) => have
                        .checked_add(&amount)
                        .ok_or_else(|| format!("too much of {name}"))?,
                    None => amount,
                };
                sum.insert(name, total);
            }
        }
    }
    for container in pod["initContainers"].as_array().into_iter().flatten() {
        let (its_requests, its_limits) = of_container(container)?;
        for (largest, amounts) in [(&mut requests, its_requests), (&mut limits, its_limits)] {
            for (name, amount) in amounts {
                if largest.get(&name).is_none_or(|have| *have < amount) {
                    largest.insert(name, amount);
                }
            }
        }
    }
    let mut resources = json!({});
    for (field, amounts) in [("requests", requests), ("limits", limits)] {
        if !amounts.is_empty() {
            let amounts = amounts
                .into_iter()
                .map(|(name, amount)| (name, json!(amount.to_string())));
            resources[field] = Value::Object(amounts.collect());
        }
    }
    Ok(resources)
}

/// A container's requests and limits; a request that is missing takes the limit.
fn of_container(container: &Value) -> Result<(Amounts, Amounts), String> {
    let read = |field: &str| -> Result<Amounts, String> {
        let amounts = container["resources"][field].as_object().into_iter().flatten();
        amounts
            .map(|(name, amount)| {
                let amount =
                    Quantity::from_json(amount).map_err(|problem| format!("{field} of {name}: {problem}"))?;
                Ok((name.clone(), amount))
            })
            .collect()
    };
    let (mut requests, limits) = (read("requests")?, read("limits")?);
    for (name, amount) in &limits {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    Ok((requests, limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(requests: &Value, limits: &Value) -> Value {
        json!({"resources": {"requests": requests, "limits": limits}})
    }

    fn of(containers: &[Value], init: &[Value]) -> Value {
        requirements(&json!({"containers": containers, "initContainers": init})).unwrap()
    }

    #[test]
    fn adds_up_what_a_replica_needs() {
        assert_eq!(requirements(&json!({})).unwrap(), json!({}), "R1");
        let main = container(
            &json!({"memory": "256Mi", "cpu": "500m", "foo": "2"}),
            &json!({"memory": "384Mi", "cpu": "500m", "foo": "3"}),
        );
        let r2 = json!({"resources": {"requests": {"memory": "256Mi", "cpu": "500m", "foo": "2"},
                                      "limits": {"memory": "384Mi", "cpu": "500m", "foo": "3"}}});
        assert_eq!(of(std::slice::from_ref(&main), &[]), r2, "R2");
        let small = container(
            &json!({"memory": "1Mi", "bar": "1"}),
            &json!({"memory": "1Mi", "bar": "2"}),
        );
        let mut r3 = r2.clone();
        r3["resources"]["requests"]["bar"] = json!("1");
        r3["resources"]["limits"]["bar"] = json!("2");
        assert_eq!(of(std::slice::from_ref(&main), &[small]), r3, "R3");
        let large = container(
            &json!({"memory": "512Mi", "foo": "3"}),
            &json!({"memory": "512Mi", "foo": "4"}),
        );
        let mut r4 = r2;
        for (field, foo) in [("requests", "3"), ("limits", "4")] {
            r4["resources"][field]["memory"] = json!("512Mi");
            r4["resources"][field]["foo"] = json!(foo);
        }
        assert_eq!(of(&[main], &[large]), r4, "R4");
        let both = container(
            &json!({"memory": "128Mi", "cpu": "500m"}),
            &json!({"memory": "256Mi", "cpu": "500m"}),
        );
        let only_limits = container(&json!({}), &json!({"memory": "128Mi", "cpu": "500m"}));
        assert_eq!(
            of(&[both, only_limits], &[]),
            json!({"resources": {"requests": {"memory": "256Mi", "cpu": "1"}, "limits": {"memory": "384Mi", "cpu": "1"}}}),
            "R5"
        );
        assert!(
            requirements(&json!({"containers": [container(&json!({"cpu": "lots"}), &json!({}))]})).is_err()
        );
    }

    #[test]
    fn reads_what_a_workload_wants() {
        let object = json!({"spec": {"replicas": 3, "template": {"spec": {"nodeSelector": {"a": "b"}}}}});
        for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
            let feed = Feed::from_value(&json!({"apiVersion": "apps/v1", "kind": kind, "name": "x"}));
            let entry = entry(&feed, &object, &OwnKinds::default()).unwrap();
            assert_eq!(entry["desiredReplicas"], 3, "R6 {kind}");
            assert_eq!(entry["replicaJsonPath"], "/spec/replicas", "R6 {kind}");
            assert_eq!(
                entry["replicaRequirements"],
                json!({"nodeSelector": {"a": "b"}}),
                "R6 {kind}"
            );
        }
        let feed = Feed::from_value(&json!({"apiVersion": "example.com/v1", "kind": "Shard", "name": "x"}));
        let own = ["Shard.example.com=/spec/shards/count".parse().unwrap()]
            .into_iter()
            .collect();
        let shards =
            json!({"spec": {"shards": {"count": 4}, "template": {"spec": {"nodeSelector": {"a": "b"}}}}});
        let known = entry(&feed, &shards, &own).unwrap();
        assert_eq!(known["desiredReplicas"], 4);
        assert_eq!(known["replicaJsonPath"], "/spec/shards/count");
        assert!(known["replicaRequirements"].is_null());
        let unknown = entry(&feed, &shards, &OwnKinds::default()).unwrap();
        assert_eq!(unknown, feed.to_value());
    }

    #[test]
    fn writes_the_inventory_once() {
        let subscription = json!({"metadata": {"namespace": "default", "name": "app", "uid": "u"}, "spec": {
            "schedulingStrategy": "Dividing", "feeds": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}]}});
        let template = |_: &Feed| Some(Arc::new(json!({"template": {"spec": {"replicas": 4}}})));
        let run = |inventory: Option<&Value>| {
            plan(&View {
                subscription: &subscription,
                inventory,
                template: &template,
                own_kinds: &OwnKinds::default(),
            })
        };
        let first = run(None);
        let Action::Create { object, .. } = &first.actions[0] else {
            panic!()
        };
        assert_eq!(object["spec"]["feeds"][0]["desiredReplicas"], 4);
        assert_eq!(run(Some(object)), Plan::default());
        let db = |_: &Feed| {
            let metadata = json!({"annotations": {annotations::STATEFUL: "true"}});
            Some(Arc::new(
                json!({"template": {"metadata": metadata, "spec": {"replicas": 4}}}),
            ))
        };
        let stateful = plan(&View {
            subscription: &subscription,
            inventory: Some(object),
            template: &db,
            own_kinds: &OwnKinds::default(),
        });
        let Action::Patch { patch, .. } = &stateful.actions[0] else {
            panic!("{stateful:?}")
        };
        let listed = &patch["metadata"]["annotations"][annotations::STATEFUL];
        assert_eq!(
            *listed, "apps/v1/Deployment/x",
            "the scheduler hears what may not run twice"
        );
        let absent = plan(&View {
            subscription: &subscription,
            inventory: None,
            template: &|_| None,
            own_kinds: &OwnKinds::default(),
        });
        assert_eq!(
            absent.next,
            Next::Blocked("Deployment x does not exist".to_owned())
        );
        let mut whole = subscription.clone();
        whole["spec"]["schedulingStrategy"] = json!("Replication");
        assert_eq!(
            plan(&View {
                subscription: &whole,
                inventory: None,
                template: &template,
                own_kinds: &OwnKinds::default(),
            }),
            Plan::default()
        );
    }
}
