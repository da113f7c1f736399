//! What a Description asks for, and what has to be done about one object. Pure.

use std::collections::BTreeMap;
use std::fmt;

use api::entry::{self, Entry};
use api::feed::Feed;
use api::{annotations, labels};
use kubeio::ObjectKey;
use machinery::{Gvk, builtin, meta, patch};
use serde_json::{Value, json};

use crate::outcome::Problem;

/// With more than this, the last applied configuration would not fit into the annotations (256 KiB in all).
const LAST_APPLIED_LIMIT: usize = 200 << 10;

/// Metadata that the server owns; differences there are no drift.
const SERVER_OWNED: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Names an object of any kind in a child.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Its kind.
    pub kind: Gvk,
    /// Its namespace and name.
    pub key: ObjectKey,
}

impl ObjectId {
    /// An object's id.
    pub fn of(object: &Value) -> Self {
        Self {
            kind: meta::gvk(object),
            key: ObjectKey::of(object),
        }
    }

    /// The id of the object that a feed is.
    pub fn of_feed(feed: &Feed) -> Self {
        Self {
            kind: Gvk::new(&feed.api_version, &feed.kind),
            key: ObjectKey::new(&*feed.namespace, &*feed.name),
        }
    }

    /// From an entry of `manifestStatuses`.
    pub fn from_feed(feed: &Value) -> Option<Self> {
        let text = |field: &str| feed[field].as_str().unwrap_or_default();
        let id = Self {
            kind: Gvk::new(text("apiVersion"), text("kind")),
            key: ObjectKey::new(text("namespace"), text("name")),
        };
        (!id.kind.kind.is_empty() && !id.key.name.is_empty()).then_some(id)
    }

    /// As an entry of `manifestStatuses`.
    pub fn to_feed(&self) -> Value {
        let mut feed = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "name": self.key.name,
        });
        if !self.key.namespace.is_empty() {
            feed["namespace"] = json!(self.key.namespace);
        }
        feed
    }

    /// Whether it is the same object, whatever the version it is spoken of in.
    pub fn is_same_object(&self, other: &Self) -> bool {
        self.kind.group == other.kind.group && self.kind.kind == other.kind.kind && self.key == other.key
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.key)
    }
}

/// Which of an object's kinds go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wave {
    /// Definitions of kinds.
    Definitions,
    /// Namespaces.
    Namespaces,
    /// Everything else.
    Rest,
}

impl Wave {
    /// All waves, first to last.
    pub const ALL: [Self; 3] = [Self::Definitions, Self::Namespaces, Self::Rest];

    /// The wave of a kind.
    pub fn of(kind: &Gvk) -> Self {
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Definitions,
            ("", "Namespace") => Self::Namespaces,
            (_, _) => Self::Rest,
        }
    }
}

/// An object as it is to be in the child.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// Which object.
    pub id: ObjectId,
    /// The object, with our annotations.
    pub object: Value,
}

/// What a Description asks for about one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Which object.
    pub id: ObjectId,
    /// The object, or what stands for it.
    pub entry: Entry,
}

/// What a Description asks for, in order, and what in it cannot be used. Of two entries for one object the later counts.
pub fn asked(description: &Value) -> (Vec<Asked>, Vec<Problem>) {
    let mut all: Vec<Asked> = Vec::new();
    let mut problems = Vec::new();
    for (index, raw) in entry::raw(description).iter().enumerate() {
        match Entry::read(raw) {
            Err(why) => problems.push(Problem::Undecodable { index, why }),
            Ok(entry) => {
                let id = ObjectId::of_feed(&entry.feed());
                all.retain(|other| !other.id.is_same_object(&id));
                all.push(Asked { id, entry });
            }
        }
    }
    (all, problems)
}

/// The objects of which something is asked.
pub fn ids(asked: &[Asked]) -> Vec<ObjectId> {
    asked.iter().map(|asked| asked.id.clone()).collect()
}

/// An object as a Description is to have it in the child: without what only a server may write, with our marks.
pub fn prepare(mut object: Value, description: &ObjectKey) -> Desired {
    let id = ObjectId::of(&object);
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    let metadata = meta::ensure_metadata(&mut object);
    for field in SERVER_OWNED {
        metadata.remove(*field);
    }
    if meta::label(&object, labels::CREATED_BY).is_none() {
        // The watches of the agent find applied objects by this label.
        meta::set_label(&mut object, labels::CREATED_BY, labels::CREATED_BY_CONTROLLERS);
    }
    let notes = meta::ensure_annotations(&mut object);
    notes.remove(annotations::KUBECTL_LAST_APPLIED);
    notes.remove(annotations::LAST_APPLIED);
    notes.insert(
        annotations::OWNED_BY_DESCRIPTION.to_owned(),
        json!(owner_text(description)),
    );
    let applied = object.to_string();
    if applied.len() <= LAST_APPLIED_LIMIT {
        meta::set_annotation(&mut object, annotations::LAST_APPLIED, &applied);
    }
    Desired { id, object }
}

/// The value of the owned-by annotation.
pub fn owner_text(description: &ObjectKey) -> String {
    format!("{}.{}", description.namespace, description.name)
}

/// The Description that an object says it comes from. Namespaces have no dots, so the first one ends it; names may
/// have some.
pub fn owner(object: &Value) -> Option<ObjectKey> {
    let text = meta::annotation(object, annotations::OWNED_BY_DESCRIPTION)?;
    let (namespace, name) = text.split_once('.')?;
    (!namespace.is_empty() && !name.is_empty()).then(|| ObjectKey::new(namespace, name))
}

/// What has to be done about one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It is not there.
    Create,
    /// It is as it is to be.
    Nothing,
    /// It differs: a strategic merge patch (built-in kinds).
    Strategic(Value),
    /// It differs: a JSON merge patch.
    Merge(Value),
    /// It is being deleted: wait until it is gone.
    Wait,
    /// Another Description, which is there, has it, and as this one wants it.
    Share,
    /// Another Description, which is there, has it, and wants it otherwise.
    Refuse(ObjectKey),
}

/// What has to be done about an object, given its live state. `is_there` tells whether a Description exists.
pub fn step(desired: &Desired, live: Option<&Value>, is_there: impl Fn(&ObjectKey) -> bool) -> Step {
    let Some(live) = live else {
        return Step::Create;
    };
    if meta::is_deleting(live) {
        return Step::Wait;
    }
    let ours = owner(&desired.object);
    if let Some(other) = owner(live).filter(|other| Some(other) != ours.as_ref())
        && is_there(&other)
    {
        return if is_as_wanted(&desired.object, live) {
            Step::Share
        } else {
            Step::Refuse(other)
        };
    }
    if !drifted(&desired.object, live) {
        return Step::Nothing;
    }
    let original: Value = meta::annotation(live, annotations::LAST_APPLIED)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null);
    let strategic = builtin::schema(&desired.id.kind)
        .and_then(|schema| patch::strategic_diff(&original, &desired.object, live, schema).ok());
    let is_empty = |patch: &Value| patch.as_object().is_some_and(serde_json::Map::is_empty);
    match strategic {
        Some(patch) if is_empty(&patch) => Step::Nothing,
        Some(patch) => Step::Strategic(patch),
        None => {
            let patch = patch::json_merge_diff(&original, &desired.object, live);
            if is_empty(&patch) {
                Step::Nothing
            } else {
                Step::Merge(patch)
            }
        }
    }
}

/// Whether a live object is as it is wanted but for the marks that say for whom it was applied.
fn is_as_wanted(wanted: &Value, live: &Value) -> bool {
    let mut wanted = wanted.clone();
    let notes = meta::ensure_annotations(&mut wanted);
    notes.remove(annotations::OWNED_BY_DESCRIPTION);
    notes.remove(annotations::LAST_APPLIED);
    !drifted(&wanted, live)
}

/// Whether a live object lacks something of the wanted one. What others added is no drift, nor is its status or what
/// the server owns. (A field that is no longer wanted shows in the last applied configuration.)
pub fn drifted(wanted: &Value, live: &Value) -> bool {
    let (Some(wanted), Some(live)) = (wanted.as_object(), live.as_object()) else {
        return wanted != live;
    };
    wanted.iter().any(|(field, value)| match field.as_str() {
        // Versions of one kind are the same object.
        "status" | "apiVersion" => false,
        "metadata" => value.as_object().into_iter().flatten().any(|(field, value)| {
            !SERVER_OWNED.contains(&field.as_str())
                && lacks(
                    value,
                    live.get("metadata").and_then(|metadata| metadata.get(field)),
                )
        }),
        // The server keeps `data` for both.
        "stringData" => false,
        _ => lacks(value, live.get(field)),
    })
}

fn lacks(wanted: &Value, live: Option<&Value>) -> bool {
    match (wanted, live) {
        (Value::Null, None | Some(Value::Null)) => false,
        // Servers drop empty maps and lists.
        (Value::Object(map), None) => !map.is_empty(),
        (Value::Array(list), None) => !list.is_empty(),
        (_, None) => true,
        (Value::Object(wanted), Some(Value::Object(live))) => {
            wanted.iter().any(|(field, value)| lacks(value, live.get(field)))
        }
        (Value::Array(wanted), Some(Value::Array(live))) => {
            wanted.len() != live.len()
                || wanted
                    .iter()
                    .zip(live)
                    .any(|(wanted, live)| lacks(wanted, Some(live)))
        }
        (wanted, Some(live)) => wanted != live,
    }
}

/// Whether a change of a Description asks for a pass: all but its status does.
pub fn asks_anew(old: Option<&Value>, new: Option<&Value>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return true;
    };
    old["spec"] != new["spec"]
        || meta::generation(old) != meta::generation(new)
        || meta::is_deleting(old) != meta::is_deleting(new)
        || !meta::finalizers(old).eq(meta::finalizers(new))
        || meta::uid(old) != meta::uid(new)
}

/// What was applied for a Description and is wanted no longer: what its status names and what says that it is owned.
pub fn leftovers(
    description: &Value,
    owned: impl IntoIterator<Item = ObjectId>,
    wanted: &[ObjectId],
) -> Vec<ObjectId> {
    let mut all: Vec<ObjectId> = recorded(description);
    for id in owned {
        if !all.iter().any(|other| other.is_same_object(&id)) {
            all.push(id);
        }
    }
    all.retain(|id| !wanted.iter().any(|wanted| wanted.is_same_object(id)));
    all
}

/// Why what only the child knows of has to stay in it, if it has to: so says a ManagedCluster of its namespace, or there
/// is none, and the parent may not know the child yet.
pub fn hold(clusters: &[Value]) -> Option<&str> {
    if clusters.is_empty() {
        return Some("the parent has no ManagedCluster for it");
    }
    clusters
        .iter()
        .find_map(|cluster| meta::annotation(cluster, annotations::HOLD_ORPHANS))
}

/// What an earlier state of a Description asked for and a later one does not.
pub fn dropped(old: &Value, new: &Value) -> Vec<ObjectId> {
    if old["spec"]["raw"] == new["spec"]["raw"] {
        return Vec::new();
    }
    let (old, new) = (ids(&asked(old).0), ids(&asked(new).0));
    old.into_iter()
        .filter(|id| !new.iter().any(|other| other.is_same_object(id)))
        .collect()
}

/// Everything that a Description may have brought: what it asks for, what its status names, what says that it is owned.
pub fn brought(description: &Value, owned: impl IntoIterator<Item = ObjectId>) -> Vec<ObjectId> {
    let mut all = ids(&asked(description).0);
    for id in leftovers(description, owned, &[]) {
        if !all.iter().any(|other| other.is_same_object(&id)) {
            all.push(id);
        }
    }
    all
}

/// The objects that a Description's status names.
pub fn recorded(description: &Value) -> Vec<ObjectId> {
    description["status"]["manifestStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(ObjectId::from_feed)
        .collect()
}

/// Of the objects to remove, those whose turn it is: the last wave that is left goes first, so that a definition
/// outlives its objects.
pub fn removable<T>(left: &BTreeMap<ObjectId, T>) -> Vec<&ObjectId> {
    let last = left.keys().map(|id| Wave::of(&id.kind)).max();
    left.keys()
        .filter(|id| Some(Wave::of(&id.kind)) == last)
        .collect()
}

#[cfg(test)]
mod tests;
