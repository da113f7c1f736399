//! What the parent and its children hold, as the committed writes say: the snapshot that the invariants look at. It
//! judges nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{annotations, labels};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::{meta, resource};
use serde_json::{Value, json};
use source::{Key, Resource};

/// The cluster that the others belong to.
pub(crate) const PARENT: &str = "parent";
/// The namespace in every member where things live that nobody but their owner may touch.
pub(crate) const FOREIGN: &str = "own";
/// The namespace of the application.
pub(crate) const APPLICATION: &str = "web";

/// The label of the clusters that the application is meant for.
pub(crate) const MEANT: (&str, &str) = ("demo", "nginx");

pub(crate) const SUBSCRIPTIONS: &str = "apps.clusternet.io/subscriptions";
pub(crate) const BASES: &str = "apps.clusternet.io/bases";
pub(crate) const DESCRIPTIONS: &str = "apps.clusternet.io/descriptions";
pub(crate) const MANIFESTS: &str = "apps.clusternet.io/manifests";
pub(crate) const CLUSTERS: &str = "clusters.clusternet.io/managedclusters";
pub(crate) const REQUESTS: &str = "clusters.clusternet.io/clusterregistrationrequests";
pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const DEPLOYMENTS: &str = "apps/deployments";
pub(crate) const PODS: &str = "pods";

/// The objects that count in the parent, and those in a child.
const IN_PARENT: [&str; 7] = [
    SUBSCRIPTIONS,
    BASES,
    DESCRIPTIONS,
    MANIFESTS,
    CLUSTERS,
    REQUESTS,
    NAMESPACES,
];
const IN_CHILD: [&str; 5] = [NAMESPACES, "services", DEPLOYMENTS, "configmaps", PODS];

/// What was written, once it is committed.
#[derive(Debug, Clone)]
pub(crate) struct Write<'a> {
    /// Virtual milliseconds since the beginning.
    pub(crate) at: u64,
    pub(crate) cluster: &'a str,
    pub(crate) key: &'a Key,
    /// The new version, `None` if the object is gone.
    pub(crate) new: Option<&'a [u8]>,
}

/// One change of an object that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) at: u64,
    pub(crate) cluster: &'a str,
    pub(crate) key: &'a Key,
    pub(crate) old: Option<&'a Value>,
    pub(crate) new: Option<&'a Value>,
}

impl Change<'_> {
    /// Whether somebody wants the object gone who did not before.
    pub(crate) fn is_deletion(&self) -> bool {
        let lives = |it: &Value| !meta::is_deleting(it);
        self.old.is_some_and(lives) && !self.new.is_some_and(lives)
    }
}

type Objects = BTreeMap<Key, Arc<Value>>;

/// What a Description asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Asked {
    generation: i64,
    /// Now.
    pub(crate) now: BTreeSet<Key>,
    /// At any time.
    pub(crate) ever: BTreeSet<Key>,
    /// When it last ceased to ask for what it does not ask for, or does again.
    pub(crate) dropped: BTreeMap<Key, u64>,
    /// It went, and so had everything that it asked for.
    pub(crate) ended: bool,
}

/// Whether a Subscription is bound to a dedicated namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) now: bool,
    /// When it was not for the last time.
    pub(crate) not_at: u64,
}

/// How many replicas of a divided feed run, and how many of them have to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    /// In which cluster how many of those that it is to have are ready.
    each: BTreeMap<String, u64>,
    /// In all.
    pub(crate) sum: u64,
    /// The floor that is declared.
    declared: u64,
    /// The floor that counts: it does once it has been reached.
    pub(crate) floor: u64,
    /// Somebody changed something by hand: the floor does not count.
    excused: bool,
}

impl Running {
    fn set(&mut self, cluster: &str, ready: u64) {
        let before = self.each.insert(cluster.to_owned(), ready).unwrap_or(0);
        self.sum = self.sum + ready - before;
        self.judge();
    }

    fn declare(&mut self, floor: u64) {
        self.declared = floor;
        self.floor = self.floor.min(floor);
        self.judge();
    }

    fn judge(&mut self) {
        if self.sum >= self.declared && !self.excused {
            self.floor = self.declared;
        }
    }
}

/// How many replicas of a feed are to be ready at any time.
fn floor(subscription: &Value, feed: &Value) -> u64 {
    let divided = subscription["spec"]["schedulingStrategy"] == "Dividing";
    let Some(text) = meta::annotation(subscription, annotations::MIN_AVAILABLE) else {
        return 0;
    };
    if !divided || meta::is_deleting(subscription) {
        return 0;
    }
    let text_of = |field: &str| feed[field].as_str().unwrap_or_default();
    let key = ["apiVersion", "kind", "namespace", "name"].map(text_of).join("/");
    let shares = subscription["status"]["replicas"][key].as_array();
    let all: u64 = shares.into_iter().flatten().filter_map(Value::as_u64).sum();
    match text.strip_suffix('%').map(str::parse::<u64>) {
        Some(share) => (all * share.unwrap_or(100)).div_ceil(100),
        None => text.parse().unwrap_or(all).min(all),
    }
}

/// The snapshot.
#[derive(Debug, Default)]
pub(crate) struct World {
    clusters: BTreeMap<String, Objects>,
    /// Everything anywhere that is to go and is not gone, and since when.
    pub(crate) going: BTreeMap<(String, Key), u64>,
    /// By `namespace.name` of a Description.
    pub(crate) asked: BTreeMap<String, Asked>,
    /// What a Subscription feeds or did, by its uid.
    pub(crate) fed: BTreeMap<String, BTreeSet<Key>>,
    /// By uid of a Subscription and dedicated namespace.
    pub(crate) bound: BTreeMap<(String, String), Bound>,
    /// Which cluster a dedicated namespace belongs to.
    pub(crate) homes: BTreeMap<String, String>,
    /// By Deployment.
    pub(crate) running: BTreeMap<Key, Running>,
    /// What somebody is about to delete or change by hand.
    by_hand: BTreeSet<(String, Key)>,
}

/// The key of an object of the resource that its kind has here.
pub(crate) fn key_of(object: &Value) -> Key {
    let kind = meta::kind(object);
    let (group, _) = resource::split_api_version(object["apiVersion"].as_str().unwrap_or_default());
    let plural = format!("{}s", kind.to_lowercase());
    let field = |name: &str| {
        let top = object[name].as_str();
        top.or_else(|| object["metadata"][name].as_str())
            .unwrap_or_default()
    };
    Key::new(&Resource::new(group, &plural), field("namespace"), field("name"))
}

/// The key of a Deployment.
pub(crate) fn deployment(namespace: &str, name: &str) -> Key {
    Key::new(&Resource::new("apps", "deployments"), namespace, name)
}

/// The Description that an object says it belongs to.
pub(crate) fn owner(object: &Value) -> Option<&str> {
    meta::annotation(object, annotations::OWNED_BY_DESCRIPTION)
}

/// How many of the replicas that a Deployment is to have are ready.
fn ready(deployment: &Value) -> u64 {
    let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or(0);
    ready.min(deployment["spec"]["replicas"].as_u64().unwrap_or(0))
}

/// An object without what nobody looks at.
fn slim(key: &Key, mut object: Value) -> Value {
    if key.resource.as_str() == PODS {
        return json!({"metadata": {
            "uid": object["metadata"]["uid"], "generation": object["metadata"]["generation"],
            "deletionTimestamp": object["metadata"]["deletionTimestamp"],
        }});
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("raw");
    }
    object
}

fn is_going(bytes: &[u8]) -> bool {
    const FIELD: &[u8] = br#""deletionTimestamp":""#;
    bytes.windows(FIELD.len()).any(|part| part == FIELD)
}

impl World {
    /// What there is of an object that counts.
    pub(crate) fn get(&self, cluster: &str, key: &Key) -> Option<&Value> {
        self.clusters.get(cluster)?.get(key).map(|it| &**it)
    }

    /// All objects that count of a resource in a cluster.
    pub(crate) fn all<'a>(
        &'a self,
        cluster: &str,
        resource: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Value)> {
        let (group, plural) = resource.rsplit_once('/').unwrap_or(("", resource));
        let first = Key::new(&Resource::new(group, plural), "", "");
        let objects = self.clusters.get(cluster);
        let objects = objects.into_iter().flat_map(move |it| it.range(first.clone()..));
        let objects = objects.take_while(move |(key, _)| key.resource.as_str() == resource);
        objects.map(|(key, object)| (key, &**object))
    }

    /// All objects that count in a cluster.
    pub(crate) fn everything(&self, cluster: &str) -> impl Iterator<Item = (&Key, &Value)> {
        let objects = self.clusters.get(cluster).into_iter().flatten();
        objects.map(|(key, object)| (key, &**object))
    }

    /// The clusters that ever wrote something.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.keys().map(String::as_str)
    }

    /// The Description of a name as the annotation has it.
    pub(crate) fn description(&self, called: &str) -> Option<&Value> {
        let (namespace, name) = called.split_once('.')?;
        let resource = Resource::new("apps.clusternet.io", "descriptions");
        self.get(PARENT, &Key::new(&resource, namespace, name))
    }

    /// The Subscription of a uid.
    pub(crate) fn subscription(&self, uid: &str) -> Option<&Value> {
        let mut all = self.all(PARENT, SUBSCRIPTIONS);
        all.find(|(_, it)| meta::uid(it) == uid).map(|(_, it)| it)
    }

    /// Whether a cluster is in the fleet and is to stay.
    pub(crate) fn is_member(&self, namespace: &str) -> bool {
        let mut all = self.all(PARENT, CLUSTERS);
        all.any(|(key, it)| key.namespace == namespace && !meta::is_deleting(it))
    }

    /// Somebody is about to change an object by hand: what comes of it is nobody's fault.
    pub(crate) fn by_hand(&mut self, cluster: &str, key: Key) {
        if cluster != PARENT
            && let Some(running) = self.running.get_mut(&key)
        {
            running.floor = 0;
            running.excused = true;
        }
        self.by_hand.insert((cluster.to_owned(), key));
    }

    /// Whether it was said of an object that somebody changes it by hand.
    pub(crate) fn is_by_hand(&self, cluster: &str, key: &Key) -> bool {
        self.by_hand.contains(&(cluster.to_owned(), key.clone()))
    }

    /// From now on only the parts change things.
    pub(crate) fn hands_off(&mut self) {
        self.by_hand.clear();
        for running in self.running.values_mut() {
            running.excused = false;
            running.judge();
        }
    }

    /// Takes a committed write in. `check` sees the world before it, and the change, if the object counts.
    pub(crate) fn write(&mut self, write: &Write<'_>, check: impl FnOnce(&Self, &Change<'_>)) {
        let Write {
            at,
            cluster,
            key,
            new,
        } = *write;
        let resource = key.resource.as_str();
        if resource == "coordination.k8s.io/leases" || resource == "events" {
            return;
        }
        let place = (cluster.to_owned(), key.clone());
        if new.is_some_and(is_going) {
            self.going.entry(place).or_insert(at);
        } else {
            self.going.remove(&place);
        }
        let counts = if cluster == PARENT {
            IN_PARENT.contains(&resource)
        } else {
            IN_CHILD.contains(&resource) && (resource != PODS || key.namespace == APPLICATION)
        };
        if !counts {
            return;
        }
        let full = new.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let old = self.clusters.get(cluster).and_then(|it| it.get(key)).cloned();
        let change = Change {
            at,
            cluster,
            key,
            old: old.as_deref(),
            new: full.as_ref(),
        };
        self.learn(&change);
        check(self, &change);
        let objects = self.clusters.entry(cluster.to_owned()).or_default();
        match full {
            Some(full) => objects.insert(key.clone(), Arc::new(slim(key, full))),
            None => objects.remove(key),
        };
    }

    /// Draws the conclusions from a change that are to be remembered.
    fn learn(&mut self, change: &Change<'_>) {
        let Change {
            cluster, key, new, ..
        } = *change;
        match key.resource.as_str() {
            DESCRIPTIONS => self.learn_description(key, new, change.at),
            SUBSCRIPTIONS => self.learn_subscription(change),
            CLUSTERS => {
                self.homes.insert(key.namespace.to_string(), key.name.to_string());
            }
            DEPLOYMENTS if cluster != PARENT => {
                let owned = new.filter(|it| owner(it).is_some() && !meta::is_deleting(it));
                let running = self.running.entry(key.clone()).or_default();
                running.set(cluster, owned.map_or(0, ready));
            }
            _ => {}
        }
    }

    fn learn_description(&mut self, key: &Key, new: Option<&Value>, at: u64) {
        let called = format!("{}.{}", key.namespace, key.name);
        let Some(new) = new else {
            let home = self.homes.get(key.namespace.as_str()).map_or("", String::as_str);
            let ended = !self
                .everything(home)
                .any(|(_, it)| owner(it) == Some(called.as_str()));
            let asked = self.asked.entry(called).or_default();
            *asked = Asked {
                ended,
                ever: std::mem::take(&mut asked.ever),
                ..Asked::default()
            };
            return;
        };
        let asked = self.asked.entry(called).or_default();
        asked.ended = false;
        let generation = new["metadata"]["generation"].as_i64().unwrap_or(0);
        if asked.generation == generation {
            return;
        }
        let raws = new["spec"]["raw"].as_array().into_iter().flatten();
        let raws = raws.filter_map(|raw| STANDARD.decode(raw.as_str()?).ok());
        let objects = raws.filter_map(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let before = std::mem::replace(&mut asked.now, objects.map(|object| key_of(&object)).collect());
        let dropped = before.difference(&asked.now);
        asked.dropped.extend(dropped.map(|key| (key.clone(), at)));
        asked.ever.extend(asked.now.iter().cloned());
        asked.generation = generation;
    }

    fn learn_subscription(&mut self, change: &Change<'_>) {
        let Some(new) = change.new else {
            self.running.values_mut().for_each(|it| it.declare(0));
            return;
        };
        let uid = meta::uid(new).to_owned();
        for feed in new["spec"]["feeds"].as_array().into_iter().flatten() {
            let key = key_of(feed);
            if key.resource.as_str() == DEPLOYMENTS {
                let running = self.running.entry(key.clone()).or_default();
                running.declare(floor(new, feed));
            }
            self.fed.entry(uid.clone()).or_default().insert(key);
        }
        let clusters = new["status"]["bindingClusters"].as_array().into_iter().flatten();
        let clusters: BTreeSet<&str> = clusters
            .filter_map(|it| it.as_str()?.split_once('/').map(|(namespace, _)| namespace))
            .collect();
        let range = (uid.clone(), String::new())..;
        for (_, bound) in self
            .bound
            .range_mut(range)
            .take_while(|((of, _), _)| *of == uid)
            .filter(|((_, namespace), _)| !clusters.contains(namespace.as_str()))
        {
            *bound = Bound {
                now: false,
                not_at: change.at,
            };
        }
        for namespace in clusters {
            let bound = self.bound.entry((uid.clone(), namespace.to_owned()));
            let bound = bound.or_insert(Bound {
                now: true,
                not_at: change.at,
            });
            if !bound.now {
                *bound = Bound {
                    now: true,
                    not_at: change.at,
                };
            }
        }
    }
}

/// The uid of the Subscription that an object of the parent was made for.
pub(crate) fn subscription_of(object: &Value) -> Option<&str> {
    meta::label(object, labels::SUBSCRIPTION_UID)
}
