//! What each cluster has of a Subscription, against what it would have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::entry::{Digest, Entry, Reference};
use api::labels;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use distribution::Feed;
use machinery::{meta, resource};
use placement::{ClusterKey, Subscription};
use serde_json::Value;

use super::fields::{self, Field};
use crate::Error;

/// For each cluster and feed key the least and the most replicas.
pub(super) type Ranges = BTreeMap<(ClusterKey, String), (i64, i64)>;

/// What would become of it in one cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fate {
    pub(super) cluster: ClusterKey,
    pub(super) course: Course,
    /// Of the feeds that are divided.
    pub(super) replicas: Vec<Replicas>,
    /// The objects that change, but for their replicas.
    pub(super) objects: Vec<ObjectChange>,
}

/// Whether a cluster has the Subscription, and would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Gained,
    Kept,
    Lost,
}

impl Course {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Gained => "gained",
            Self::Kept => "kept",
            Self::Lost => "lost",
        }
    }
}

/// How many replicas of a divided feed a cluster has, and would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) feed: Feed,
    /// `None` where it has none of it.
    pub(super) now: Option<i64>,
    pub(super) then: Then,
}

/// A number that may depend on what clusters answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Known(Option<i64>),
    Between(i64, i64),
}

impl Replicas {
    pub(super) fn changes(&self) -> bool {
        match self.then {
            Then::Known(then) => self.now != then,
            Then::Between(..) => true,
        }
    }
}

/// What would become of one object in a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ObjectChange {
    pub(super) object: Feed,
    pub(super) verdict: Verb,
}

/// How an object changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verb {
    Added,
    Removed,
    Changed(Vec<Field>),
}

impl Fate {
    pub(super) fn changes(&self) -> bool {
        self.course != Course::Kept || !self.objects.is_empty() || self.replicas.iter().any(Replicas::changes)
    }
}

/// What a cluster has, by group, kind, namespace and name.
type Objects = BTreeMap<(String, Feed), Content>;

/// What is known of an object.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    /// All of it.
    Whole(Value),
    /// What it is, and the digest of its JSON.
    Digest(Reference),
    /// What it is.
    Sealed(Feed),
}

impl Content {
    fn feed(&self) -> Feed {
        match self {
            Self::Whole(object) => Feed::of_object(object),
            Self::Digest(reference) => reference.object.clone(),
            Self::Sealed(feed) => feed.clone(),
        }
    }

    /// `None` if only its recipient can tell.
    fn digest(&self) -> Option<Digest> {
        match self {
            Self::Whole(object) => Some(Digest::of(object.to_string().as_bytes())),
            Self::Digest(reference) => Some(reference.digest.clone()),
            Self::Sealed(_) => None,
        }
    }

    fn pointer_mut(&mut self, path: &str) -> Option<&mut Value> {
        match self {
            Self::Whole(object) => object.pointer_mut(path),
            // What is divided is whole.
            Self::Digest(_) | Self::Sealed(_) => None,
        }
    }

    /// What differs; of what is kept elsewhere only whether it does.
    fn diff(&self, new: &Self) -> Vec<Field> {
        if let (Self::Whole(old), Self::Whole(new)) = (self, new) {
            return fields::diff(old, new);
        }
        match (self.digest(), new.digest()) {
            (Some(old), Some(new)) if old != new => vec![Field {
                path: "content".to_owned(),
                change: fields::Change::Hidden("changed"),
            }],
            // Whoever plans says that what is sealed is not compared.
            (Some(_), Some(_)) | (None, _) | (_, None) => Vec::new(),
        }
    }
}

/// A Subscription now and then.
pub(super) struct Comparison<'a> {
    /// With the status as it is.
    pub(super) before: &'a Subscription,
    /// With the status as it would be.
    pub(super) after: &'a Value,
    pub(super) divided: Vec<(Feed, String)>,
    pub(super) ranges: Ranges,
}

impl Comparison<'_> {
    /// What becomes of it in each cluster that has something of it, or would.
    ///
    /// # Errors
    /// [`Error::Missing`] for a Description that cannot be read.
    pub(super) fn fates(
        &self,
        bases: &[Arc<Value>],
        before: &[Arc<Value>],
        after: &[Arc<Value>],
    ) -> Result<Vec<Fate>, Error> {
        let (mut old, mut new) = (by_namespace(before)?, by_namespace(after)?);
        let named = |object: &Arc<Value>| {
            let name = meta::label(object, labels::CLUSTER_NAME).unwrap_or_default();
            ClusterKey::new(meta::namespace(object), name)
        };
        let then: BTreeSet<ClusterKey> = if self.before.deleting {
            BTreeSet::new()
        } else {
            let bound = self.after["status"]["bindingClusters"].as_array();
            let bound = bound.into_iter().flatten();
            bound.filter_map(|key| key.as_str()?.parse().ok()).collect()
        };
        let bound = self.before.bound.clusters.iter();
        let mut now: BTreeSet<ClusterKey> = bound.map(|key| ClusterKey::clone(key)).collect();
        let known: BTreeSet<String> = now.iter().chain(&then).map(|key| key.namespace.clone()).collect();
        // What a Subscription left behind.
        let rest = bases.iter().chain(before).map(named);
        now.extend(rest.filter(|key| !known.contains(&key.namespace)));
        let all: BTreeSet<&ClusterKey> = now.union(&then).collect();
        let fates = all.into_iter().map(|cluster| {
            let take =
                |all: &mut BTreeMap<String, Objects>| all.remove(&cluster.namespace).unwrap_or_default();
            let (old, new) = (take(&mut old), take(&mut new));
            let course = match (now.contains(cluster), then.contains(cluster)) {
                (false, _) => Course::Gained,
                (true, true) => Course::Kept,
                (true, false) => Course::Lost,
            };
            self.fate(cluster, course, old, new)
        });
        Ok(fates.collect())
    }

    fn fate(&self, cluster: &ClusterKey, course: Course, mut old: Objects, mut new: Objects) -> Fate {
        let mut replicas = Vec::new();
        for (feed, path) in &self.divided {
            let number = |objects: &mut Objects| {
                let number = objects.get_mut(&identity(feed))?.pointer_mut(path)?;
                // It is told of by itself.
                number.take().as_i64()
            };
            let (now, then) = (number(&mut old), number(&mut new));
            let range = self.ranges.get(&(cluster.clone(), feed.key()));
            let then = match range {
                Some((least, most)) => Then::Between(*least, *most),
                None => Then::Known(then),
            };
            if now.is_some() || then != Then::Known(None) {
                replicas.push(Replicas {
                    feed: feed.clone(),
                    now,
                    then,
                });
            }
        }
        Fate {
            cluster: cluster.clone(),
            course,
            replicas,
            objects: changes(&old, &new),
        }
    }
}

/// What changes from some objects to others, in the order of their kinds and names.
fn changes(old: &Objects, new: &Objects) -> Vec<ObjectChange> {
    let all: BTreeSet<&(String, Feed)> = old.keys().chain(new.keys()).collect();
    all.into_iter()
        .filter_map(|key| {
            let verdict = match (old.get(key), new.get(key)) {
                (None, _) => Verb::Added,
                (_, None) => Verb::Removed,
                (Some(old), Some(new)) => {
                    let fields = old.diff(new);
                    (!fields.is_empty()).then_some(Verb::Changed(fields))?
                }
            };
            let object = new.get(key).or_else(|| old.get(key))?;
            Some(ObjectChange {
                object: object.feed(),
                verdict,
            })
        })
        .collect()
}

/// The version of an object's API makes no difference to which object it is.
fn identity(feed: &Feed) -> (String, Feed) {
    let group = resource::split_api_version(&feed.api_version).0.to_owned();
    let feed = Feed {
        api_version: String::new(),
        ..feed.clone()
    };
    (group, feed)
}

/// The objects of Descriptions that are to stay, by namespace.
fn by_namespace(descriptions: &[Arc<Value>]) -> Result<BTreeMap<String, Objects>, Error> {
    let mut all: BTreeMap<String, Objects> = BTreeMap::new();
    for description in descriptions.iter().filter(|it| !meta::is_deleting(it)) {
        let objects = all.entry(meta::namespace(description).to_owned()).or_default();
        for object in decoded(description)? {
            objects.insert(identity(&object.feed()), object);
        }
    }
    Ok(all)
}

/// What a Description brings; a chart has its values in a field `values`.
fn decoded(description: &Value) -> Result<Vec<Content>, Error> {
    let list = |field: &str| -> Result<Vec<Value>, Error> {
        let texts = description["spec"][field].as_array().into_iter().flatten();
        texts
            .map(|text| {
                let bytes = BASE64.decode(text.as_str()?).ok()?;
                // A chart without values.
                if bytes.is_empty() {
                    return Some(Value::Null);
                }
                serde_json::from_slice(&bytes).ok()
            })
            .enumerate()
            .map(|(index, object)| {
                object.ok_or_else(|| {
                    Error::Missing(format!(
                        "{} cannot be compared: spec.{field}[{index}] is no JSON in base64",
                        title(description)
                    ))
                })
            })
            .collect()
    };
    if description["spec"]["deployer"] != "Helm" {
        let entries = list("raw")?
            .into_iter()
            .map(|document| match Entry::of(document)? {
                Entry::Reference(reference) => Ok(Content::Digest(reference)),
                Entry::Object(object) => Ok(Content::Whole(object)),
                Entry::Sealed(sealed) => Ok(Content::Sealed(sealed.object)),
            });
        return entries
            .collect::<Result<_, String>>()
            .map_err(|why| Error::Missing(format!("{} cannot be compared: {why}", title(description))));
    }
    let mut charts = list("chartRaw")?;
    for (chart, values) in charts.iter_mut().zip(list("raw")?) {
        if !values.is_null() {
            chart["values"] = values;
        }
    }
    Ok(charts.into_iter().map(Content::Whole).collect())
}

fn title(description: &Value) -> String {
    format!(
        "Description {}/{}",
        meta::namespace(description),
        meta::name(description)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_charts_values_are_part_of_it() {
        let raw = |text: &str| json!([BASE64.encode(text)]);
        let chart = json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart", "metadata": {"name": "c"}});
        let mut description = json!({"metadata": {"namespace": "ns", "name": "d"},
            "spec": {"deployer": "Helm", "chartRaw": raw(&chart.to_string()), "raw": raw("")}});
        assert_eq!(decoded(&description).unwrap(), [Content::Whole(chart)]);
        description["spec"]["raw"] = raw("{\"a\":1}");
        let Content::Whole(chart) = &decoded(&description).unwrap()[0] else {
            panic!()
        };
        assert_eq!(chart["values"], json!({"a": 1}));
        description["spec"]["raw"] = json!(["?"]);
        let error = decoded(&description).unwrap_err().to_string();
        assert_eq!(
            error,
            "Description ns/d cannot be compared: spec.raw[0] is no JSON in base64"
        );
    }

    #[test]
    fn what_is_kept_elsewhere_is_compared_by_its_digest() {
        let map = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": text}});
        let whole = |text: &str| Content::Whole(map(text));
        let digest = |text: &str| {
            let text = map(text).to_string();
            Content::Digest(Reference {
                digest: Digest::of(text.as_bytes()),
                size: text.len() as u64,
                object: Feed::of_object(&map("")),
            })
        };
        for (old, new, expected) in [
            (digest("a"), digest("a"), None),
            (digest("a"), whole("a"), None),
            (whole("a"), digest("a"), None),
            (digest("a"), whole("b"), Some("content")),
            (digest("a"), digest("b"), Some("content")),
            (Content::Sealed(Feed::default()), whole("a"), None),
            (whole("a"), whole("b"), Some("data.a")),
        ] {
            let fields = old.diff(&new);
            let paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
            assert_eq!(paths, Vec::from_iter(expected), "{old:?} {new:?}");
        }
    }
}
