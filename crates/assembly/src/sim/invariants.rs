//! What must hold in a run, as functions of what the parent and its children hold ([`World`]). Nothing here asks
//! anybody or waits.
//!
//! | at each write ([`STEPS`]) | |
//! |---|---|
//! | objects stay themselves | [`stays_itself`]: uid, generation and deletion only go forward |
//! | no object outside its Subscription | [`is_fed`] in the parent, [`is_asked_for`] in the children |
//! | nothing is lost that is still wanted | [`stays_bound`], [`goes_with_reason`] |
//! | no foreign deletion, and no foreign change | [`spares_the_foreign`] |
//! | floors held | [`holds_the_floor`] |
//!
//! Revisions are checked where they are given (`recorded.rs`), what was acknowledged where a store starts again.
//!
//! What only has to come right in the end cannot be checked at each write, because for a while it does not hold. When
//! nothing has gone wrong for a while, [`lacks`] says what has not come right: everything runs where it should and
//! nowhere else, every deletion has ended, and what the parent says of the children is what they hold.

use std::collections::{BTreeMap, BTreeSet};

use api::reasons;
use machinery::meta;
use serde_json::Value;
use source::Key;

use super::world::{
    BASES, CLUSTERS, Change, DEPLOYMENTS, DESCRIPTIONS, FOREIGN, MANIFESTS, MEANT, NAMESPACES, PARENT, PODS,
    REQUESTS, SUBSCRIPTIONS, World, key_of, owner, subscription_of,
};
use crate::fleet as overview;

/// How long somebody may act on what was so: longer than a killed role is away, and than a watch waits before it is
/// opened again.
const HINDSIGHT_MS: u64 = 90_000;

/// What must hold at each write, of the world before it. An answer is what does not.
type Step = fn(&World, &Change<'_>) -> Option<String>;

/// See the table above.
pub(crate) const STEPS: [Step; 7] = [
    stays_itself,
    stays_bound,
    is_fed,
    is_asked_for,
    goes_with_reason,
    spares_the_foreign,
    holds_the_floor,
];

/// An object that is changed is the same one, and a deletion is not taken back.
fn stays_itself(_: &World, change: &Change<'_>) -> Option<String> {
    let (old, new) = (change.old?, change.new?);
    let said = |problem: String| Some(format!("{} of {} {problem}", change.key, change.cluster));
    if meta::uid(old) != meta::uid(new) {
        return said("became another object without being deleted".to_owned());
    }
    let generation = |it: &Value| it["metadata"]["generation"].as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        return said(format!(
            "went back from generation {} to {}",
            generation(old),
            generation(new)
        ));
    }
    if meta::is_deleting(old) && !meta::is_deleting(new) {
        return said("was to go, and is to stay".to_owned());
    }
    None
}

/// A Subscription that gives each cluster everything lets go of no cluster that it is meant for.
fn stays_bound(world: &World, change: &Change<'_>) -> Option<String> {
    let (key, old, new) = (change.key, change.old?, change.new?);
    let clusters = |it: &Value| {
        it["status"]["bindingClusters"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let divides = new["spec"]["schedulingStrategy"] == "Dividing";
    if key.resource.as_str() != SUBSCRIPTIONS || divides || meta::is_deleting(new) {
        return None;
    }
    let (before, after) = (clusters(old), clusters(new));
    if before == after {
        return None;
    }
    let after: BTreeSet<&str> = after.iter().filter_map(Value::as_str).collect();
    let lost = before.iter().filter_map(Value::as_str).find(|cluster| {
        let (namespace, name) = cluster.split_once('/').unwrap_or_default();
        let meant = world.all(PARENT, CLUSTERS).any(|(it, cluster)| {
            it.namespace == namespace
                && it.name == name
                && !meta::is_deleting(cluster)
                && meta::label(cluster, MEANT.0) == Some(MEANT.1)
        });
        meant && !after.contains(cluster)
    })?;
    Some(format!(
        "{key} is not bound to {lost} any more, for which it is meant"
    ))
}

/// What the parent makes for a cluster is fed by a Subscription that is there and was bound to the cluster.
fn is_fed(world: &World, change: &Change<'_>) -> Option<String> {
    let (key, new) = (change.key, change.new?);
    if change.cluster != PARENT || ![BASES, DESCRIPTIONS].contains(&key.resource.as_str()) {
        return None;
    }
    let subscription = subscription_of(new)?;
    if change.old.is_none() {
        if world.subscription(subscription).is_none() {
            return Some(format!("{key} was made for a Subscription that is gone"));
        }
        let place = (subscription.to_owned(), key.namespace.to_string());
        if !world.bound.contains_key(&place) {
            return Some(format!(
                "{key} was made for a cluster that its Subscription was never bound to"
            ));
        }
    }
    let asked = world.asked.get(&format!("{}.{}", key.namespace, key.name))?;
    let fed = world.fed.get(subscription);
    let outside = asked
        .now
        .iter()
        .find(|it| !fed.is_some_and(|fed| fed.contains(it)))?;
    Some(format!(
        "{key} asks for {outside}, which its Subscription never fed"
    ))
}

/// What a child holds for a Description is what the Description asks for, or did, and is not made once it is gone.
fn is_asked_for(world: &World, change: &Change<'_>) -> Option<String> {
    let (key, new) = (change.key, change.new?);
    if change.cluster == PARENT {
        return None;
    }
    let owner = owner(new)?;
    let (cluster, said) = (change.cluster, |problem: &str| {
        Some(format!("{key} of {} {problem} {owner}", change.cluster))
    });
    let (home, _) = owner.split_once('.').unwrap_or_default();
    if world.homes.get(home).is_none_or(|it| it != cluster) {
        return said("belongs to another cluster's Description");
    }
    let Some(asked) = world.asked.get(owner) else {
        return said("belongs to a Description that never was:");
    };
    if !asked.ever.contains(key) {
        return said("was never asked for by");
    }
    if change.old.is_none() && asked.ended {
        return said("was made again after the end of");
    }
    None
}

/// What goes has a reason to go: nothing wants it any more, or somebody took it away by hand.
fn goes_with_reason(world: &World, change: &Change<'_>) -> Option<String> {
    let (key, old) = (change.key, change.old?);
    if !change.is_deletion() || world.is_by_hand(change.cluster, key) {
        return None;
    }
    let missed = |wanted_by: String| {
        Some(format!(
            "{key} of {} was deleted though {wanted_by}",
            change.cluster
        ))
    };
    if change.cluster != PARENT {
        let owner = owner(old)?;
        let description = world.description(owner);
        let dropped_before = |at: &u64| at + HINDSIGHT_MS < change.at;
        let wanted = description.is_some_and(|it| !meta::is_deleting(it))
            && world
                .asked
                .get(owner)
                .is_some_and(|it| it.now.contains(key) && it.dropped.get(key).is_none_or(dropped_before))
            && !is_namespace_going(world, change.cluster, key);
        return if wanted {
            missed(format!("the Description {owner} asks for it"))
        } else {
            None
        };
    }
    match key.resource.as_str() {
        SUBSCRIPTIONS | CLUSTERS | MANIFESTS => missed("nobody asked for that".to_owned()),
        DESCRIPTIONS => {
            let base = owner_reference(old)?;
            let mut bases = world.all(PARENT, BASES);
            let base = bases
                .find(|(it, base_object)| it.namespace == key.namespace && meta::uid(base_object) == base);
            match base {
                Some((base, object)) if !meta::is_deleting(object) && world.is_member(&key.namespace) => {
                    missed(format!("{base} is there"))
                }
                _ => None,
            }
        }
        BASES => {
            let uid = subscription_of(old)?;
            let stays = world.subscription(uid).is_some_and(|it| !meta::is_deleting(it));
            let bound = world.bound.get(&(uid.to_owned(), key.namespace.to_string()));
            let bound = bound.is_some_and(|it| it.now && it.not_at + HINDSIGHT_MS < change.at);
            if stays && bound && world.is_member(&key.namespace) {
                missed("its Subscription is bound to the cluster".to_owned())
            } else {
                None
            }
        }
        _ => None,
    }
}

fn is_namespace_going(world: &World, cluster: &str, key: &Key) -> bool {
    let mut namespaces = world.all(cluster, NAMESPACES);
    let namespace = namespaces.find(|(it, _)| it.name == key.namespace);
    !key.namespace.is_empty() && namespace.is_none_or(|(_, it)| meta::is_deleting(it))
}

/// The uid of what a Description was made of.
fn owner_reference(object: &Value) -> Option<&str> {
    meta::label(object, api::labels::CONFIG_UID)
}

/// What is not ours is neither deleted nor changed.
fn spares_the_foreign(_: &World, change: &Change<'_>) -> Option<String> {
    let (key, old) = (change.key, change.old?);
    let foreign = key.namespace == FOREIGN || (key.resource.as_str() == NAMESPACES && key.name == FOREIGN);
    if change.cluster == PARENT || !foreign || key.resource.as_str() == PODS {
        return None;
    }
    let said = |what: &str| Some(format!("{key} of {} is foreign, and was {what}", change.cluster));
    if change.is_deletion() {
        return said("deleted");
    }
    let new = change.new?;
    let differs = |field: &str| old[field] != new[field];
    if differs("spec") || differs("data") || owner(new).is_some() {
        return said("changed");
    }
    None
}

/// Of replicas that move no fewer are ready than their Subscription declares.
fn holds_the_floor(world: &World, change: &Change<'_>) -> Option<String> {
    if change.key.resource.as_str() != DEPLOYMENTS {
        return None;
    }
    let running = world.running.get(change.key)?;
    (running.sum < running.floor).then(|| {
        format!(
            "{} replicas of {} are ready in all clusters, and {} must be at any time",
            running.sum, change.key, running.floor
        )
    })
}

/// The application as it should be.
#[derive(Debug, Clone)]
pub(crate) struct Application {
    /// Where, and with what weight.
    pub(crate) places: BTreeMap<String, u64>,
    /// Whether the clusters share the replicas by their weights; else each gets all.
    pub(crate) divided: bool,
    /// How many replicas the template has.
    pub(crate) replicas: u64,
    /// What the annotation [`NOTE`] says where.
    pub(crate) notes: BTreeMap<String, String>,
    /// What it consists of.
    pub(crate) parts: Vec<Key>,
}

/// The annotation that overrides set.
pub(crate) const NOTE: &str = "note";

/// What should have come true.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    /// Who is in the fleet, with how many nodes.
    pub(crate) fleet: BTreeMap<String, usize>,
    /// `None` once it is taken back.
    pub(crate) application: Option<Application>,
}

/// What has not come right.
pub(crate) fn lacks(world: &World, goal: &Goal) -> Vec<String> {
    let mut missing = Vec::new();
    fleet_is_there(world, goal, &mut missing);
    deletions_end(world, &mut missing);
    nothing_strays(world, &mut missing);
    match &goal.application {
        Some(application) => {
            let shares = bound(world, application, &mut missing);
            once_each(world, application.places.len(), &mut missing);
            runs(world, application, &shares, &mut missing);
            status_is_true(world, application, &mut missing);
        }
        None => {
            once_each(world, 0, &mut missing);
            let left = world.all(PARENT, SUBSCRIPTIONS);
            missing
                .extend(left.map(|(key, it)| format!("{key} is left with {}", it["metadata"]["finalizers"])));
        }
    }
    missing
}

/// Every cluster of the fleet is registered once, ready, without taints, and known with its nodes.
fn fleet_is_there(world: &World, goal: &Goal, missing: &mut Vec<String>) {
    let mut known = BTreeSet::new();
    for (key, cluster) in world.all(PARENT, CLUSTERS) {
        let name = key.name.as_str();
        if !known.insert(name) {
            missing.push(format!("{name} is registered twice"));
        }
        let Some(nodes) = goal.fleet.get(name) else {
            missing.push(format!("{name} is registered and has left"));
            continue;
        };
        if !overview::is_ready(cluster) {
            missing.push(format!("{name} is not ready"));
        }
        let taints = &cluster["spec"]["taints"];
        if !taints.as_array().is_none_or(Vec::is_empty) {
            missing.push(format!("{name} has taints: {taints}"));
        }
        let ready = &cluster["status"]["nodeStatistics"]["readyNodes"];
        if *ready != *nodes {
            missing.push(format!("{name} has {nodes} nodes and says {ready}"));
        }
    }
    let absent = goal.fleet.keys().filter(|name| !known.contains(name.as_str()));
    missing.extend(absent.map(|name| format!("{name} is not registered")));
    let requests = world.all(PARENT, REQUESTS).count();
    let homes = world.all(PARENT, NAMESPACES);
    let homes = homes
        .filter(|(_, it)| meta::label(it, api::labels::CLUSTER_ID).is_some())
        .count();
    for (found, what) in [
        (requests, "registration requests"),
        (homes, "dedicated namespaces"),
    ] {
        if found != goal.fleet.len() {
            missing.push(format!("{found} {what} instead of {}", goal.fleet.len()));
        }
    }
}

/// Everything that was to go is gone: no finalizer is left waiting.
fn deletions_end(world: &World, missing: &mut Vec<String>) {
    for ((cluster, key), since) in &world.going {
        missing.push(format!("{key} of {cluster} has been going since {since} ms"));
    }
}

/// Whatever says that it belongs to a Description belongs to one that asks for it.
fn nothing_strays(world: &World, missing: &mut Vec<String>) {
    for cluster in world.clusters().filter(|it| *it != PARENT) {
        for (key, object) in world.everything(cluster) {
            let Some(owner) = owner(object) else { continue };
            let asked = world.description(owner).and(world.asked.get(owner));
            if !asked.is_some_and(|asked| asked.now.contains(key)) {
                missing.push(format!(
                    "{key} of {cluster} belongs to {owner}, which does not ask for it"
                ));
            }
        }
    }
}

/// What was tried twice is not there twice.
fn once_each(world: &World, wanted: usize, missing: &mut Vec<String>) {
    for resource in [BASES, DESCRIPTIONS] {
        let found = world.all(PARENT, resource).count();
        if found != wanted {
            missing.push(format!("{found} {resource} instead of {wanted}"));
        }
    }
}

/// The Subscription is bound where it should be; how many replicas each cluster is to run.
fn bound(world: &World, application: &Application, missing: &mut Vec<String>) -> BTreeMap<String, u64> {
    let mut subscriptions = world.all(PARENT, SUBSCRIPTIONS);
    let Some((_, subscription)) = subscriptions.next() else {
        missing.push("there is no Subscription".to_owned());
        return BTreeMap::new();
    };
    let status = &subscription["status"];
    let keys = status["bindingClusters"].as_array().into_iter().flatten();
    let names: Vec<&str> = keys
        .filter_map(|it| it.as_str()?.split_once('/').map(|(_, name)| name))
        .collect();
    let found: BTreeSet<&str> = names.iter().copied().collect();
    for name in application.places.keys() {
        if !found.contains(name.as_str()) {
            missing.push(format!("the Subscription is not bound to {name}"));
        }
    }
    for name in &found {
        if !application.places.contains_key(*name) {
            missing.push(format!("the Subscription is bound to {name}"));
        }
    }
    if !application.divided {
        let all = application.places.keys();
        return all.map(|name| (name.clone(), application.replicas)).collect();
    }
    let shares = status["replicas"].as_object().into_iter().flatten();
    let Some(shares) = shares.filter_map(|(_, it)| it.as_array()).next() else {
        missing.push("the Subscription says nothing of shares".to_owned());
        return BTreeMap::new();
    };
    let shares: BTreeMap<String, u64> = names
        .iter()
        .zip(shares)
        .map(|(name, share)| ((*name).to_owned(), share.as_u64().unwrap_or(0)))
        .collect();
    let sum: u64 = shares.values().sum();
    if sum != application.replicas {
        missing.push(format!("{sum} replicas are shared of {}", application.replicas));
    }
    let weights: u64 = application.places.values().sum();
    for (name, weight) in &application.places {
        let (share, whole) = (
            shares.get(name).copied().unwrap_or(0),
            application.replicas * weight,
        );
        // Parts of replicas go to those that weigh most, also where their own share is whole.
        if share * weights + weights <= whole || share * weights > whole + weights {
            missing.push(format!(
                "{name} is to have {share} of {} with weight {weight} of {weights}",
                application.replicas
            ));
        }
    }
    shares
}

/// The application runs where it should, as it should, and nowhere else.
fn runs(world: &World, application: &Application, shares: &BTreeMap<String, u64>, missing: &mut Vec<String>) {
    for cluster in world.clusters().filter(|it| *it != PARENT) {
        if !application.places.contains_key(cluster) {
            // What strays is told of elsewhere; this is what does not even say whose it is.
            let left = application
                .parts
                .iter()
                .filter(|part| world.get(cluster, part).is_some());
            missing.extend(left.map(|part| format!("{part} is in {cluster}")));
        }
    }
    for name in application.places.keys() {
        let share = shares.get(name).copied().unwrap_or(0);
        for part in &application.parts {
            let Some(live) = world.get(name, part) else {
                missing.push(format!("{name} has no {part}"));
                continue;
            };
            if owner(live).is_none() {
                missing.push(format!("{part} of {name} does not say whose it is"));
            }
            if part.resource.as_str() != DEPLOYMENTS {
                continue;
            }
            let (wants, has) = (&live["spec"]["replicas"], &live["status"]["readyReplicas"]);
            if *wants != share || has.as_u64().unwrap_or(0) != share {
                missing.push(format!("{name} runs {has}/{wants} of {share}"));
            }
            let (note, wanted) = (
                meta::annotation(live, NOTE),
                application.notes.get(name).map(String::as_str),
            );
            if note != wanted {
                missing.push(format!(
                    "{part} of {name} is noted {note:?} instead of {wanted:?}"
                ));
            }
        }
        let pods = world.all(name, PODS).filter(|(_, pod)| !meta::is_deleting(pod));
        let pods = pods.count() as u64;
        if pods != share {
            missing.push(format!("{pods} pods of {share} in {name}"));
        }
    }
    if world.all(PARENT, MANIFESTS).count() != application.parts.len() {
        missing.push("the templates are not as many as the feeds".to_owned());
    }
}

/// How many replicas of which kind.
const COUNTS: [&str; 4] = [
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
];

/// Up to so many clusters a Subscription tells of each; of more it sums up, and gives examples.
const TOLD_OF_EACH: usize = 20;

/// What the Subscription says of its objects in the clusters is what the clusters hold.
fn status_is_true(world: &World, application: &Application, missing: &mut Vec<String>) {
    let Some((_, subscription)) = world.all(PARENT, SUBSCRIPTIONS).next() else {
        return;
    };
    let conditions = subscription["status"]["conditions"].as_array();
    let applied = conditions.and_then(|it| it.iter().find(|it| it["type"] == reasons::APPLIED));
    if applied.is_none_or(|it| it["status"] != "True") {
        let why = applied.map_or(&Value::Null, |it| &it["message"]);
        missing.push(format!(
            "the parent does not say that everything is applied: {why}"
        ));
    }
    let statuses = subscription["status"]["aggregatedStatuses"].as_array();
    for part in &application.parts {
        let mut told: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut summary = &Value::Null;
        for status in statuses.into_iter().flatten() {
            if key_of(status) == *part {
                summary = &status["feedStatusSummary"];
                let details = status["feedStatusDetails"].as_array().into_iter().flatten();
                told.extend(details.filter_map(|it| Some((it["clusterName"].as_str()?, it))));
            }
        }
        if summary["available"] != true {
            missing.push(format!("the parent says that {part} is not available"));
        }
        let mut sums = [0; COUNTS.len()];
        for name in application.places.keys() {
            let live = world.get(name, part).map(|it| &it["status"]);
            let truth = COUNTS.map(|field| live.and_then(|it| it[field].as_u64()).unwrap_or(0));
            (sums.iter_mut().zip(truth)).for_each(|(sum, truth)| *sum += truth);
            let Some(detail) = told.remove(name.as_str()) else {
                if application.places.len() <= TOLD_OF_EACH {
                    missing.push(format!("the parent says nothing of {part} in {name}"));
                }
                continue;
            };
            if detail["available"] != true {
                missing.push(format!("the parent says that {part} is not available in {name}"));
            }
            counts_are(
                &detail["replicaStatus"],
                truth,
                &format!("{part} in {name}"),
                missing,
            );
        }
        if part.resource.as_str() == DEPLOYMENTS {
            counts_are(
                &summary["replicaStatus"],
                sums,
                &format!("{part} in all"),
                missing,
            );
        }
        missing.extend(
            told.keys()
                .map(|name| format!("the parent speaks of {part} in {name}")),
        );
    }
}

/// What is said of numbers of replicas is so.
fn counts_are(said: &Value, truth: [u64; COUNTS.len()], of: &str, missing: &mut Vec<String>) {
    for (field, truth) in COUNTS.into_iter().zip(truth) {
        let said = said[field].as_u64().unwrap_or(0);
        if said != truth {
            missing.push(format!(
                "the parent says {said} {field} of {of}, where {truth} are"
            ));
        }
    }
}

#[cfg(test)]
#[path = "invariants_tests.rs"]
mod tests;
