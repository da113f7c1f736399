//! What placement reads of Subscriptions, ManagedClusters and FeedInventories.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use api::feed::Feed;
use api::{clusters, stateful};
use machinery::selector::LabelSelector;
use serde_json::Value;

use crate::fleet::by_text;
use crate::names::Names;
use crate::outage::Health;
use crate::predict::Predictor;
use crate::taints::{Taint, Toleration};

/// A ManagedCluster's namespace and name; its text form is what `status.bindingClusters` holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// The dedicated namespace.
    pub namespace: String,
    /// The ManagedCluster's name.
    pub name: String,
}

impl ClusterKey {
    /// A key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A text that is not `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not of the form namespace/name")]
pub struct InvalidClusterKey(pub String);

impl FromStr for ClusterKey {
    type Err = InvalidClusterKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::new(namespace, name))
            }
            Some(_) | None => Err(InvalidClusterKey(text.to_owned())),
        }
    }
}

/// A ManagedCluster as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Namespace and name.
    pub key: ClusterKey,
    /// Its labels, with those that say who it is as the parent knows them.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `spec.clusterId`.
    pub id: String,
    /// Who says how many replicas it has room for.
    pub predictor: Predictor,
    /// Whether it is ready, and since when.
    pub health: Health,
}

impl Cluster {
    /// From a ManagedCluster object; `None` if it has no namespace or name.
    pub fn from_value(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let key = ClusterKey::new(metadata["namespace"].as_str()?, metadata["name"].as_str()?);
        let taints = object["spec"]["taints"].as_array();
        Some(Self {
            key,
            labels: labels(object),
            taints: taints.into_iter().flatten().map(Taint::from_value).collect(),
            deleting: !metadata["deletionTimestamp"].is_null(),
            id: object["spec"]["clusterId"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            predictor: Predictor::from_value(object),
            health: Health::from_value(object),
        })
    }
}

/// The labels of a ManagedCluster; who it is, is not its own to say.
fn labels(cluster: &Value) -> BTreeMap<String, String> {
    let written = cluster["metadata"]["labels"].as_object().into_iter().flatten();
    let mut labels: BTreeMap<String, String> = written
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    labels.extend(clusters::identity_labels(cluster).map(|(key, value)| (key.to_owned(), value.to_owned())));
    labels
}

/// Whether a selector matches a set of labels.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

/// One of `spec.subscribers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// `clusterAffinity`; absent matches nothing.
    pub affinity: LabelSelector,
    /// `weight`, only read by static dividing; never negative.
    pub weight: u32,
    /// `subGroupStrategy.minClusters`.
    pub min_clusters: Option<usize>,
}

/// How replicas are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Whole feeds to each cluster.
    Replication,
    /// Replicas split by the subscribers' weights.
    StaticDividing,
    /// Replicas split by free capacity.
    DynamicDividing,
}

/// A FeedInventory: for each feed how many replicas it wants, if it can be divided at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// In the order of the Subscription's feeds.
    pub feeds: Vec<Wanted>,
}

/// What an inventory says about one feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The feed.
    pub feed: Feed,
    /// How many replicas; `None` if it is not divided.
    pub desired: Option<u32>,
    /// What one replica needs, as predictors read it.
    pub requirements: Value,
    /// Whether its replicas may not run in two clusters at a time.
    pub stateful: bool,
}

impl Inventory {
    /// From a FeedInventory object.
    pub fn from_value(object: &Value) -> Self {
        let feeds = object["spec"]["feeds"].as_array().into_iter().flatten();
        let wanted = |feed: &Value| Wanted {
            stateful: stateful::is(object, &Feed::from_value(feed)),
            feed: Feed::from_value(feed),
            desired: feed["desiredReplicas"]
                .as_u64()
                .and_then(|n| u32::try_from(n).ok()),
            requirements: feed["replicaRequirements"].clone(),
        };
        Self {
            feeds: feeds.map(wanted).collect(),
        }
    }

    /// Whether any feed has replicas to divide.
    pub fn is_divisible(&self) -> bool {
        self.feeds.iter().any(|wanted| wanted.desired.is_some())
    }
}

/// What a Subscription's status says about its last binding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bound {
    /// `bindingClusters`, in the stored order; malformed entries are left out.
    pub clusters: Vec<Arc<ClusterKey>>,
    /// `replicas`, by feed key, in the order of the clusters.
    pub replicas: BTreeMap<String, Vec<i64>>,
    /// `specHash`.
    pub spec_hash: Option<u64>,
    /// `desiredReleases`.
    pub desired_releases: Option<u64>,
    /// Whether all of it is there and well-formed, so that what is read here is what is stored.
    pub exact: bool,
    /// Whether the clusters are in the order of their keys' texts, as ours are.
    in_order: bool,
}

impl Bound {
    /// From a Subscription's status.
    pub fn from_value(status: &Value, names: &mut Names) -> Self {
        let mut exact = status["bindingClusters"].is_array();
        let clusters = status["bindingClusters"].as_array().into_iter().flatten();
        let mut keys = Vec::with_capacity(clusters.size_hint().0);
        for key in clusters {
            match key.as_str().and_then(|key| names.of(key)) {
                Some(key) => keys.push(key),
                None => exact = false,
            }
        }
        let replicas = status["replicas"].as_object().into_iter().flatten();
        let replicas = replicas
            .map(|(feed, list)| {
                exact &= list.is_array();
                let list = list.as_array().into_iter().flatten();
                let number = |n: &Value| {
                    exact &= n.is_i64();
                    n.as_i64().unwrap_or(0)
                };
                (feed.clone(), list.map(number).collect())
            })
            .collect();
        Self {
            in_order: keys.is_sorted_by(|left, right| by_text(left, right).is_lt()),
            clusters: keys,
            replicas,
            spec_hash: status["specHash"].as_u64(),
            desired_releases: status["desiredReleases"].as_u64(),
            exact,
        }
    }

    /// Whether it is bound to a cluster. Asked of thousands of clusters for each of thousands of Subscriptions when many
    /// clusters fall silent at once.
    pub fn contains(&self, key: &ClusterKey) -> bool {
        if self.in_order {
            let place = self.clusters.binary_search_by(|bound| by_text(bound, key));
            return place.is_ok();
        }
        self.clusters.iter().any(|bound| **bound == *key)
    }
}

/// A Subscription as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `spec.schedulingStrategy` and `spec.dividingScheduling.type`.
    pub strategy: Strategy,
    /// `spec.schedulingBySubGroup`.
    pub by_sub_group: bool,
    /// `spec.priority`, 0 if absent; larger goes first.
    pub priority: i32,
    /// `spec.subscribers`.
    pub subscribers: Vec<Subscriber>,
    /// `spec.clusterTolerations`.
    pub tolerations: Vec<Toleration>,
    /// `spec.feeds`.
    pub feeds: Vec<Feed>,
    /// The hash of the whole spec.
    pub spec_hash: u64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its status.
    pub bound: Bound,
}

/// Why a Subscription cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSubscription {
    /// A subscriber's selector is malformed.
    #[error("spec.subscribers[{index}].clusterAffinity: {problem}")]
    Affinity {
        /// Which subscriber.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A field that the API has and nobody acts on.
    #[error("{field}: is not supported: leave it out")]
    Unsupported {
        /// The field.
        field: String,
    },
    /// An unknown word for the strategy or the kind of dividing.
    #[error("{field}: unsupported value \"{value}\"")]
    Word {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

impl Subscription {
    /// From a Subscription object.
    ///
    /// # Errors
    /// A malformed selector or an unknown strategy.
    pub fn from_value(object: &Value) -> Result<Self, InvalidSubscription> {
        Self::read(object, &mut Names::default())
    }

    /// From a Subscription object, with one copy of each cluster's key.
    ///
    /// # Errors
    /// A malformed selector or an unknown strategy.
    pub fn read(object: &Value, names: &mut Names) -> Result<Self, InvalidSubscription> {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subscribers = array(&spec["subscribers"]).enumerate();
        let subscribers = subscribers.map(|(index, value)| subscriber(index, value));
        Ok(Self {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            scheduler_name: text(&spec["schedulerName"]),
            strategy: strategy(spec)?,
            by_sub_group: spec["schedulingBySubGroup"].as_bool().unwrap_or(false),
            priority: spec["priority"]
                .as_i64()
                .and_then(|n| i32::try_from(n).ok())
                .unwrap_or(0),
            subscribers: subscribers.collect::<Result<_, _>>()?,
            tolerations: array(&spec["clusterTolerations"])
                .map(Toleration::from_value)
                .collect(),
            feeds: array(&spec["feeds"]).map(Feed::from_value).collect(),
            spec_hash: api::spec_hash::of(spec),
            deleting: !metadata["deletionTimestamp"].is_null(),
            bound: Bound::from_value(&object["status"], names),
        })
    }

    /// Whether its spec is the other's, as far as anybody here reads it.
    pub fn has_spec_of(&self, other: &Self) -> bool {
        let Self {
            namespace: _,
            name: _,
            scheduler_name,
            strategy,
            by_sub_group,
            priority,
            subscribers,
            tolerations,
            feeds,
            spec_hash,
            deleting: _,
            bound: _,
        } = self;
        *spec_hash == other.spec_hash
            && *strategy == other.strategy
            && *by_sub_group == other.by_sub_group
            && *priority == other.priority
            && *scheduler_name == other.scheduler_name
            && *subscribers == other.subscribers
            && *tolerations == other.tolerations
            && *feeds == other.feeds
    }

    /// Whether any subscriber's affinity matches these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.subscribers
            .iter()
            .any(|subscriber| selects(&subscriber.affinity, labels))
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn subscriber(index: usize, value: &Value) -> Result<Subscriber, InvalidSubscription> {
    let affinity = &value["clusterAffinity"];
    let affinity = if affinity.is_null() {
        LabelSelector::nothing()
    } else {
        LabelSelector::from_value(affinity).map_err(|problem| InvalidSubscription::Affinity {
            index,
            problem: problem.to_string(),
        })?
    };
    let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    Ok(Subscriber {
        affinity,
        weight: number(&value["weight"]).unwrap_or(0),
        min_clusters: number(&value["subGroupStrategy"]["minClusters"])
            .or_else(|| value["subGroupStrategy"].is_object().then_some(0))
            .map(|n| n as usize),
    })
}

fn strategy(spec: &Value) -> Result<Strategy, InvalidSubscription> {
    let word = |value: &Value, default: &str| {
        value
            .as_str()
            .filter(|s| !s.is_empty())
            .unwrap_or(default)
            .to_owned()
    };
    let strategy = word(&spec["schedulingStrategy"], "Replication");
    match strategy.as_str() {
        "Replication" => Ok(Strategy::Replication),
        "Dividing" => {
            let dividing = word(&spec["dividingScheduling"]["type"], "Static");
            match dividing.as_str() {
                "Static" => Ok(Strategy::StaticDividing),
                "Dynamic" => dynamic(&spec["dividingScheduling"]["dynamicDividing"]),
                _ => Err(InvalidSubscription::Word {
                    field: "spec.dividingScheduling.type",
                    value: dividing,
                }),
            }
        }
        _ => Err(InvalidSubscription::Word {
            field: "spec.schedulingStrategy",
            value: strategy,
        }),
    }
}

/// Binpack is a word of the API that no scheduler of the peers ever acted on, and there are fields like it; to take them
/// for a Spread without would be a lie.
fn dynamic(details: &Value) -> Result<Strategy, InvalidSubscription> {
    const PATH: &str = "spec.dividingScheduling.dynamicDividing";
    let strategy = details["strategy"].as_str().unwrap_or_default();
    if !matches!(strategy, "" | "Spread") {
        return Err(InvalidSubscription::Word {
            field: "spec.dividingScheduling.dynamicDividing.strategy",
            value: strategy.to_owned(),
        });
    }
    let is_given = |field: &&str| match &details[*field] {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    };
    let ignored = [
        "topologySpreadConstraints",
        "preferredClusters",
        "minClusters",
        "maxClusters",
    ];
    match ignored.iter().find(|field| is_given(field)) {
        Some(field) => Err(InvalidSubscription::Unsupported {
            field: format!("{PATH}.{field}"),
        }),
        None => Ok(Strategy::DynamicDividing),
    }
}

#[cfg(test)]
mod tests {
    use api::labels;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_whom_the_parent_knows_it_for() {
        let cluster = Cluster::from_value(&json!({
            "metadata": {"namespace": "ns", "name": "member-9", "labels":
                {labels::CLUSTER_NAME: "member-1", labels::CLUSTER_ID: "id-1", "region": "north"}},
            "spec": {"clusterId": "id-9"},
        }))
        .unwrap();
        let expected = [
            (labels::CLUSTER_ID, "id-9"),
            (labels::CLUSTER_NAME, "member-9"),
            ("region", "north"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(cluster.labels, BTreeMap::from(expected));
    }

    #[test]
    fn reads_a_subscription() {
        let subscription = Subscription::from_value(&json!({
            "metadata": {"namespace": "default", "name": "app"},
            "spec": {
                "schedulerName": "default", "priority": 7, "schedulingStrategy": "Dividing",
                "subscribers": [
                    {"clusterAffinity": {"matchLabels": {"a": "1"}}, "weight": 2, "subGroupStrategy": {"minClusters": 1}},
                    {"clusterAffinity": {}},
                    {},
                ],
                "feeds": [{"apiVersion": "v1", "kind": "Namespace", "name": "x"}],
            },
            "status": {"bindingClusters": ["ns/b", "junk"], "replicas": {"v1/Namespace/x": []}, "specHash": 3},
        }))
        .unwrap();
        assert_eq!(
            (subscription.priority, subscription.strategy),
            (7, Strategy::StaticDividing)
        );
        assert_eq!(
            subscription.bound.clusters,
            [Arc::new(ClusterKey::new("ns", "b"))]
        );
        assert_eq!(subscription.feeds[0].key(), "v1/Namespace/x");
        let none = BTreeMap::new();
        let matching: Vec<bool> = subscription
            .subscribers
            .iter()
            .map(|s| selects(&s.affinity, &none))
            .collect();
        assert_eq!(
            matching,
            [false, true, false],
            "an empty selector matches all, an absent one nothing"
        );
        assert_eq!(subscription.subscribers[0].min_clusters, Some(1));
        assert_eq!(subscription.subscribers[1].min_clusters, None);
    }

    #[test]
    fn is_bound_to_what_is_stored_in_whatever_order() {
        let orders = [
            &["a-b/a", "a/b", "a/x", "ns-2/c"][..],
            &["a/b", "a/x", "a-b/a", "ns-2/c"],
            &["ns-2/c", "a/x", "a/x", "a-b/a", "junk", "a/b"],
            &[],
        ];
        for stored in orders {
            let bound = Bound::from_value(&json!({"bindingClusters": stored}), &mut Names::default());
            for key in [
                "a-b/a", "a/b", "a/x", "ns-2/c", "a/a", "a-b/b", "ns-2/x", "ns-22/c",
            ] {
                let key: ClusterKey = key.parse().unwrap();
                let expected = stored.contains(&key.to_string().as_str());
                assert_eq!(bound.contains(&key), expected, "{stored:?} {key}");
            }
        }
    }

    #[test]
    fn knows_a_spec_by_the_peers_number() {
        let spec = json!({
            "schedulerName": "default", "schedulingStrategy": "Replication",
            "subscribers": [{"clusterAffinity": {"matchLabels": {"cluster-name": "abc"}}}],
            "feeds": [{"name": "bar", "namespace": "foo", "apiVersion": "abc.com/v1", "kind": "Demo"}],
        });
        let subscription = Subscription::from_value(&json!({"spec": spec})).unwrap();
        assert_eq!(subscription.spec_hash, 2_608_449_479, "Q14");
    }

    #[test]
    fn names_what_is_wrong() {
        let bad = json!({"spec": {"subscribers": [{"clusterAffinity":
            {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}});
        let error = Subscription::from_value(&bad).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("spec.subscribers[0].clusterAffinity: "),
            "{error}"
        );
        let bad = json!({"spec": {"schedulingStrategy": "Random"}});
        assert_eq!(
            Subscription::from_value(&bad).unwrap_err().to_string(),
            "spec.schedulingStrategy: unsupported value \"Random\""
        );
        let dividing = |details: Value| json!({"spec": {"schedulingStrategy": "Dividing", "dividingScheduling": details}});
        let dynamic = Subscription::from_value(&dividing(json!({"type": "Dynamic"}))).unwrap();
        assert_eq!(dynamic.strategy, Strategy::DynamicDividing);
        let bad = dividing(json!({"type": "Dynamic", "dynamicDividing": {"strategy": "Binpack"}}));
        assert_eq!(
            Subscription::from_value(&bad).unwrap_err().to_string(),
            "spec.dividingScheduling.dynamicDividing.strategy: unsupported value \"Binpack\""
        );
        for (field, value) in [
            ("topologySpreadConstraints", json!([{"maxSkew": 1}])),
            ("preferredClusters", json!([{"weight": 1}])),
            ("minClusters", json!(1)),
            ("maxClusters", json!(2)),
        ] {
            let given =
                dividing(json!({"type": "Dynamic", "dynamicDividing": {"strategy": "Spread", field: value}}));
            assert_eq!(
                Subscription::from_value(&given).unwrap_err().to_string(),
                format!("spec.dividingScheduling.dynamicDividing.{field}: is not supported: leave it out")
            );
        }
        let empty =
            json!({"type": "Dynamic", "dynamicDividing": {"strategy": "Spread", "preferredClusters": []}});
        let empty = Subscription::from_value(&dividing(empty)).unwrap();
        assert_eq!(empty.strategy, Strategy::DynamicDividing);
    }
}
