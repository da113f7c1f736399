//! What would become of one Subscription: the scheduler's decision and the controllers' plans, made over what would be
//! there, and compared with what is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::entry::{self, Entry};
use api::{annotations, apps, clusters, labels};
use distribution::overrides::Overrides;
use distribution::pack::Packing;
use distribution::replicas::{OwnKind, OwnKinds};
use distribution::{
    Action, Feed, FeedIndex, Next, Target, base, change_set, division, inventory, subscription,
};
use jiff::Timestamp;
use machinery::patch::merge_patch;
use machinery::{ApiResource, Gvk, builtin, meta, resource};
use placement::{
    Binding, Cluster, ClusterKey, Config, Decision, Fleet, Inventory, Prediction, Snapshot, Subscription,
    UNDIVIDED, Verdict, decide, place, status_patch,
};
use serde_json::{Value, json};

use super::compare::{Comparison, Fate, Ranges};
use crate::Error;

/// The uid of what is not there yet.
const NEW: &str = "new";
/// More room than anybody needs.
const PLENTY: u32 = 1 << 30;

/// What there would be, apart from the Subscription.
#[derive(Default)]
pub(super) struct World {
    /// The ManagedClusters.
    pub(super) clusters: Vec<Arc<Value>>,
    /// Manifests and HelmCharts.
    pub(super) templates: FeedIndex,
    pub(super) globalizations: Vec<Arc<Value>>,
    /// By namespace.
    pub(super) localizations: BTreeMap<String, Vec<Arc<Value>>>,
}

/// What there is of the Subscription.
#[derive(Default)]
pub(super) struct Live {
    pub(super) inventory: Option<Value>,
    pub(super) bases: Vec<Arc<Value>>,
    pub(super) descriptions: Vec<Arc<Value>>,
}

/// How the hub's scheduler and controllers are configured.
pub(super) struct Rules<'a> {
    pub(super) placement: &'a Config,
    pub(super) own_kinds: &'a [OwnKind],
    /// When it decides.
    pub(super) now: Option<Timestamp>,
}

/// What would become of a Subscription.
pub(super) struct Outlook {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) strategy: &'static str,
    /// What else is to be known, in sentences.
    pub(super) notes: Vec<String>,
    /// Every cluster that has something of it, or would.
    pub(super) clusters: Vec<Fate>,
}

/// What would become of a Subscription that is as `object` says, with its status as it is.
///
/// # Errors
/// [`Error`] if the Subscription makes no sense, or a Description cannot be read.
pub(super) fn foresee(
    object: &Value,
    live: &Live,
    world: &World,
    rules: &Rules<'_>,
) -> Result<Outlook, Error> {
    let mut after = object.clone();
    if meta::uid(&after).is_empty() {
        after["metadata"]["uid"] = json!(NEW);
    }
    let read = Subscription::from_value(&after);
    let read = read.map_err(|why| Error::Usage(format!("Subscription {:?}: {why}", meta::name(object))))?;
    let mut notes = Vec::new();
    let inventory = inventory_after(&after, live, world, rules, &mut notes);
    let mut ranges = Ranges::new();
    if !read.deleting {
        let decided = Scheduling {
            subscription: &read,
            inventory: inventory.as_ref().map(Inventory::from_value),
            world,
            rules,
        };
        ranges = decided.bind(&mut after, &mut notes);
    }
    let bases = bases_after(&after, live, world);
    let (descriptions, held) = descriptions_after(&after, inventory.as_ref(), live, &bases, world);
    notes.extend(not_compared(&live.descriptions));
    for (why, count) in held {
        notes.push(format!("Nothing changes in {count} cluster(s) meanwhile: {why}."));
    }
    if live
        .bases
        .iter()
        .any(|it| meta::annotation(it, annotations::VERSION).is_some())
    {
        notes.push("A Rollout brings it out wave by wave; shown is what it comes to.".to_owned());
    }
    let clusters = Comparison {
        before: &read,
        after: &after,
        divided: divided(&after, inventory.as_ref()),
        ranges,
    }
    .fates(&live.bases, &live.descriptions, &descriptions)?;
    Ok(Outlook {
        namespace: read.namespace.clone(),
        name: read.name.clone(),
        strategy: crate::explain::strategy(read.strategy),
        notes,
        clusters,
    })
}

/// The FeedInventory as it would be.
fn inventory_after(
    after: &Value,
    live: &Live,
    world: &World,
    rules: &Rules<'_>,
    notes: &mut Vec<String>,
) -> Option<Value> {
    let learned = live.inventory.as_ref().into_iter().flat_map(learned);
    let own_kinds: OwnKinds = learned.chain(rules.own_kinds.iter().cloned()).collect();
    let plan = inventory::plan(&inventory::View {
        subscription: after,
        inventory: live.inventory.as_ref(),
        template: &|feed| world.templates.get(feed).cloned(),
        own_kinds: &own_kinds,
    });
    if let Next::Blocked(why) = &plan.next {
        notes.push(format!("What is to be divided stays as it was: {why}."));
    }
    let have = live.inventory.clone().map(Arc::new).into_iter().collect();
    let after = carried_out(have, &apps::FEED_INVENTORIES, plan.actions).pop();
    after.map(|it| Value::clone(&it))
}

/// Users' own kinds that an inventory shows the controllers to divide.
fn learned(inventory: &Value) -> Vec<OwnKind> {
    let feeds = inventory["spec"]["feeds"].as_array().into_iter().flatten();
    feeds
        .filter_map(|entry| {
            let feed = Feed::from_value(entry);
            let path = entry["replicaJsonPath"].as_str()?;
            let group = resource::split_api_version(&feed.api_version).0;
            let is_builtin = builtin::schema(&Gvk::new(&feed.api_version, &feed.kind)).is_some();
            (!is_builtin)
                .then(|| format!("{}.{group}={path}", feed.kind).parse().ok())
                .flatten()
        })
        .collect()
}

/// Objects of one resource after a plan.
pub(super) fn carried_out(
    have: Vec<Arc<Value>>,
    resource: &ApiResource,
    actions: Vec<Action>,
) -> Vec<Arc<Value>> {
    let have = have.into_iter().map(|object| (Target::of(&object), object));
    let mut objects: BTreeMap<Target, Arc<Value>> = have.collect();
    for action in actions {
        match action {
            Action::Create {
                resource: of,
                mut object,
            } if of == *resource => {
                object["metadata"]["uid"] = json!(NEW);
                objects.insert(Target::of(&object), Arc::new(object));
            }
            Action::Patch {
                resource: of,
                target,
                patch,
                ..
            } if of == *resource => {
                if let Some(object) = objects.get_mut(&target) {
                    merge_patch(Arc::make_mut(object), &patch);
                }
            }
            Action::Delete { resource: of, target } if of == *resource => {
                objects.remove(&target);
            }
            Action::Create { .. } | Action::Patch { .. } | Action::Delete { .. } | Action::Event { .. } => {}
        }
    }
    objects.into_values().collect()
}

struct Scheduling<'a> {
    subscription: &'a Subscription,
    inventory: Option<Inventory>,
    world: &'a World,
    rules: &'a Rules<'a>,
}

impl Scheduling<'_> {
    /// Makes the status of a Subscription say where it would go; what is not known before clusters answer has a range.
    fn bind(&self, after: &mut Value, notes: &mut Vec<String>) -> Ranges {
        let Some(profile) = self.rules.placement.profile(&self.subscription.scheduler_name) else {
            notes.push(format!(
                "It stays where it is, as far as is known: spec.schedulerName {:?} is no profile of this scheduler; \
                 name its file with --scheduler-config.",
                self.subscription.scheduler_name
            ));
            return Ranges::new();
        };
        let clusters = self.world.clusters.iter();
        let clusters: Fleet = clusters
            .filter_map(|object| Cluster::from_value(object))
            .collect();
        let snapshot = Snapshot {
            inventory: self.inventory.as_ref(),
            percentage_to_score: self.rules.placement.percentage_to_score,
            now: self.rules.now,
            ..Snapshot::of(self.subscription, &clusters, profile)
        };
        let placement = place(&snapshot);
        let mut verdicts = placement.verdicts.values();
        if verdicts.any(|verdict| *verdict == Verdict::Unsampled) {
            notes.push(
                "More clusters fit than the scheduler looks at; which it takes depends on whose turn it is."
                    .to_owned(),
            );
        }
        match placement.decision {
            Decision::Bind {
                binding,
                short,
                is_undivided,
            } => {
                write_binding(after, &binding);
                for (feed, count) in short {
                    notes.push(format!("No cluster has room for {count} replica(s) of {feed}."));
                }
                if is_undivided {
                    notes.push(format!("But {UNDIVIDED}."));
                }
                Ranges::new()
            }
            Decision::Unfit { error, kept } => {
                if let Some(kept) = kept {
                    write_binding(after, &kept);
                }
                notes.push(format!("It stays where it is: {error}"));
                Ranges::new()
            }
            Decision::Waiting(_) => {
                notes.push("The scheduler would wait until all its feeds are there as templates.".to_owned());
                Ranges::new()
            }
            Decision::Failed(failure) => {
                notes.push(format!("It cannot be scheduled: {failure}."));
                Ranges::new()
            }
            Decision::Predict(asked) => bounds(&snapshot, &asked, after, notes),
        }
    }
}

fn write_binding(after: &mut Value, binding: &Binding<'_>) {
    if let Some(patch) = status_patch(&after["status"], binding) {
        merge_patch(after, &patch);
    }
}

/// What is known before clusters say what room they have: the decisions if there is none anywhere, and plenty.
fn bounds(
    snapshot: &Snapshot<'_>,
    asked: &[&ClusterKey],
    after: &mut Value,
    notes: &mut Vec<String>,
) -> Ranges {
    let feeds = snapshot.inventory.map_or(0, |inventory| inventory.feeds.len());
    let answers = |room: u32| -> BTreeMap<ClusterKey, Prediction> {
        let answer = |key: &&ClusterKey| (ClusterKey::clone(key), Ok(vec![Some(room); feeds]));
        asked.iter().map(answer).collect()
    };
    let (none, plenty) = (answers(0), answers(PLENTY));
    let (Some((least, open)), Some((most, _))) = (answered(snapshot, &none), answered(snapshot, &plenty))
    else {
        notes.push(
            "Where it goes depends on what clusters answer when they are asked for their room.".to_owned(),
        );
        return Ranges::new();
    };
    for wanted in snapshot.inventory.into_iter().flat_map(|it| &it.feeds) {
        if let Some(count) = open.get(&wanted.feed.key()) {
            notes.push(format!(
                "{count} replica(s) of {} go where there is room: bounds, until {} cluster(s) are asked.",
                wanted.feed,
                asked.len()
            ));
        }
    }
    let mut ranges = Ranges::new();
    for (feed, open) in &open {
        let (none, plenty) = (shares(&least, feed), shares(&most, feed));
        for (cluster, none) in none {
            let plenty = plenty.get(cluster).copied().unwrap_or(0);
            // They come in the order of their keys.
            let range = if asked.binary_search(&cluster).is_ok() {
                (none, none + i64::from(*open))
            } else {
                (none.min(plenty), none.max(plenty))
            };
            if range.0 < range.1 {
                ranges.insert((cluster.clone(), feed.clone()), range);
            }
        }
    }
    write_binding(after, &least);
    ranges
}

/// The binding after clusters have answered, and how many replicas find no room then.
fn answered<'a>(
    snapshot: &Snapshot<'a>,
    predictions: &'a BTreeMap<ClusterKey, Prediction>,
) -> Option<(Binding<'a>, BTreeMap<String, u32>)> {
    let snapshot = Snapshot {
        predictions,
        ..*snapshot
    };
    match decide(&snapshot).decision {
        Decision::Bind { binding, short, .. } => Some((binding, short)),
        Decision::Predict(_) | Decision::Unfit { .. } | Decision::Waiting(_) | Decision::Failed(_) => None,
    }
}

/// How many replicas of a feed each cluster gets.
fn shares<'a>(binding: &Binding<'a>, feed: &str) -> BTreeMap<&'a ClusterKey, i64> {
    let replicas = binding.replicas().get(feed).into_iter().flatten();
    let replicas = replicas.map(|count| i64::from(*count));
    binding.clusters().iter().copied().zip(replicas).collect()
}

/// The Bases as they would be.
fn bases_after(after: &Value, live: &Live, world: &World) -> Vec<Arc<Value>> {
    let homes: BTreeMap<String, Arc<Value>> = world
        .clusters
        .iter()
        .map(|cluster| {
            let labels: BTreeMap<&str, &str> = clusters::identity_labels(cluster).collect();
            let namespace = meta::namespace(cluster);
            let home = json!({"metadata": {"name": namespace, "labels": labels}});
            (namespace.to_owned(), Arc::new(home))
        })
        .collect();
    let plan = subscription::plan(&subscription::View {
        subscription: after,
        namespace: &|name| homes.get(name).cloned(),
        bases: &live.bases,
        template: &|feed| world.templates.get(feed).cloned(),
        // What it comes to, however long a move is held.
        stays: &|_| None,
        is_taken: &|_, _| false,
        standing: &change_set::Standing::default(),
    });
    carried_out(live.bases.clone(), &apps::BASES, plan.actions)
}

/// The Descriptions as they would be, and how many clusters are held back, by why.
fn descriptions_after(
    after: &Value,
    inventory: Option<&Value>,
    live: &Live,
    bases: &[Arc<Value>],
    world: &World,
) -> (Vec<Arc<Value>>, BTreeMap<String, usize>) {
    let mut members: BTreeMap<&str, Vec<Arc<Value>>> = BTreeMap::new();
    for cluster in &world.clusters {
        let home = members.entry(meta::namespace(cluster)).or_default();
        home.push(Arc::clone(cluster));
    }
    let (mut descriptions, mut held) = (Vec::new(), BTreeMap::new());
    let mut of_bases: BTreeMap<(&str, &str), Vec<Arc<Value>>> = BTreeMap::new();
    for description in &live.descriptions {
        let base = meta::label(description, labels::CONFIG_UID).unwrap_or_default();
        let place = (meta::namespace(description), base);
        of_bases.entry(place).or_default().push(Arc::clone(description));
    }
    for object in bases {
        let namespace = meta::namespace(object);
        let have = of_bases
            .remove(&(namespace, meta::uid(object)))
            .unwrap_or_default();
        let division = division::of(Some(after), inventory, namespace);
        let none = Vec::new();
        let plan = base::plan(&base::View {
            base: object,
            // What it comes to, whichever wave a cluster waits for.
            content: base::Content::Current,
            template: &|feed| world.templates.get(feed).cloned(),
            descriptions: &have,
            overrides: &Overrides {
                globalizations: &world.globalizations,
                localizations: world.localizations.get(namespace).unwrap_or(&none),
                clusters: members.get(namespace).unwrap_or(&none),
                division: Some(&division),
            },
            packing: &Packing::default(),
        });
        if let Next::Blocked(why) = plan.next {
            *held.entry(why).or_default() += 1;
        }
        descriptions.extend(carried_out(have, &apps::DESCRIPTIONS, plan.actions));
    }
    (descriptions, held)
}

/// That what only its recipients can read is not compared.
fn not_compared(descriptions: &[Arc<Value>]) -> Option<String> {
    let entries = descriptions.iter().flat_map(|it| entry::entries(it));
    let sealed = entries.filter_map(|entry| match entry {
        Entry::Sealed(sealed) => Some(sealed.object.to_string()),
        Entry::Object(_) | Entry::Reference(_) => None,
    });
    let sealed: BTreeSet<String> = sealed.collect();
    (!sealed.is_empty()).then(|| {
        let names: Vec<String> = sealed.into_iter().collect();
        format!(
            "Whether the content of {} changes is not known here: it is encrypted for its clusters.",
            names.join(", ")
        )
    })
}

/// The feeds that are divided, and where their number of replicas is.
fn divided(after: &Value, inventory: Option<&Value>) -> Vec<(Feed, String)> {
    if after["spec"]["schedulingStrategy"] != "Dividing" {
        return Vec::new();
    }
    let feeds = inventory.map(|inventory| &inventory["spec"]["feeds"]);
    let feeds = feeds.and_then(Value::as_array).into_iter().flatten();
    let replicas = &after["status"]["replicas"];
    feeds
        .filter(|entry| !entry["desiredReplicas"].is_null())
        .filter_map(|entry| {
            let feed = Feed::from_value(entry);
            let list = replicas[feed.key()].as_array()?;
            (!list.is_empty()).then_some(())?;
            Some((feed, entry["replicaJsonPath"].as_str()?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
#[path = "foresee_tests.rs"]
mod tests;
