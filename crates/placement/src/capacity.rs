//! The built-in predictor: how many more replicas the nodes of a cluster have room for.
//!
//! It says what the cluster's own scheduler would find, as far as that depends on one pod at a time: node selector,
//! required node affinity, taints (a cordon is one), requests and pod slots. What depends on other pods (spreading,
//! affinity between pods) is not looked at. Read once, a node is never counted twice: rooms of nodes add up.

use std::collections::BTreeMap;

use machinery::meta;
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use crate::taints::{Taint, Toleration, keeps_off};

/// The taint of a cordoned node.
const CORDON: &str = "node.kubernetes.io/unschedulable";
/// The resource whose amounts are slots.
const PODS: &str = "pods";
/// No answer is larger.
const MOST: u32 = i32::MAX as u32;

/// Amounts in the smallest unit that counts: thousandths of processors, bytes, pieces.
type Amounts = BTreeMap<String, i128>;

/// Why a question about a cluster makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidRequirements {
    /// The path of the field.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

/// What one replica needs.
#[derive(Debug, Clone, Default)]
pub struct Requirements {
    node_selector: LabelSelector,
    /// The terms of the required node affinity: any of them must match; none at all matches every node.
    affinity: Vec<LabelSelector>,
    tolerations: Vec<Toleration>,
    requests: Amounts,
}

impl Requirements {
    /// From the `replicaRequirements` of a FeedInventory, which is what a predictor is asked.
    ///
    /// # Errors
    /// The first field that cannot be read.
    pub fn from_value(value: &Value) -> Result<Self, InvalidRequirements> {
        let wrong = |field: String, problem: &dyn std::fmt::Display| InvalidRequirements {
            field,
            problem: problem.to_string(),
        };
        let selector = json!({"matchLabels": value["nodeSelector"]});
        let node_selector =
            LabelSelector::from_value(&selector).map_err(|error| wrong("nodeSelector".to_owned(), &error))?;
        let mut affinity = Vec::new();
        for (index, term) in required_terms(value).iter().enumerate() {
            let field = format!(
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]"
            );
            if !term["matchFields"].is_null() {
                return Err(wrong(format!("{field}.matchFields"), &"is not supported"));
            }
            let expressions = term["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
            affinity.push(
                LabelSelector::from_node_selector_term(expressions).map_err(|error| wrong(field, &error))?,
            );
        }
        let mut requests = Amounts::new();
        for (name, amount) in value["resources"]["requests"].as_object().into_iter().flatten() {
            let amount = Quantity::from_json(amount)
                .map_err(|error| wrong(format!("resources.requests.{name}"), &error))?;
            requests.insert(name.clone(), units(name, &amount));
        }
        let tolerations = value["tolerations"].as_array().into_iter().flatten();
        Ok(Self {
            node_selector,
            affinity,
            tolerations: tolerations.map(Toleration::from_value).collect(),
            requests,
        })
    }

    /// How many more replicas the nodes have room for, given the pods that are there.
    pub fn room<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a Value>,
        pods: impl IntoIterator<Item = &'a Value>,
    ) -> u32 {
        let mut used: BTreeMap<&str, Used> = BTreeMap::new();
        for pod in pods {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if !node.is_empty() && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                used.entry(node).or_default().add(pod);
            }
        }
        let nothing = Used::default();
        let rooms = nodes
            .into_iter()
            .filter(|node| self.fits(node))
            .map(|node| self.room_of(node, used.get(meta::name(node)).unwrap_or(&nothing)));
        sum(rooms)
    }

    /// Whether a replica may go to a node, whatever room it has.
    fn fits(&self, node: &Value) -> bool {
        let matches = |selector: &LabelSelector| selector.matches(|key| meta::label(node, key));
        let selected =
            matches(&self.node_selector) && (self.affinity.is_empty() || self.affinity.iter().any(matches));
        selected && taints(node).all(|taint| !keeps_off(&taint, &self.tolerations))
    }

    /// A node on which more is used than it has has no room; it takes none from others.
    fn room_of(&self, node: &Value, used: &Used) -> u32 {
        let allocatable = |name: &str| {
            let amount = Quantity::from_json(&node["status"]["allocatable"][name]).unwrap_or_default();
            units(name, &amount)
        };
        let mut room = allocatable(PODS) - i128::from(used.pods);
        for (name, request) in self.requests.iter().filter(|(_, request)| **request > 0) {
            let left = allocatable(name) - used.requests.get(name).copied().unwrap_or(0);
            room = room.min(left / request);
        }
        u32::try_from(room.max(0)).unwrap_or(MOST).min(MOST)
    }
}

/// The sum of what nodes have room for.
fn sum(rooms: impl Iterator<Item = u32>) -> u32 {
    rooms.fold(0, u32::saturating_add).min(MOST)
}

fn required_terms(value: &Value) -> &[Value] {
    let required = &value["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

fn taints(node: &Value) -> impl Iterator<Item = Taint> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let cordon = (node["spec"]["unschedulable"] == true).then(|| Taint {
        key: CORDON.to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    });
    taints.map(Taint::from_value).chain(cordon)
}

/// What the pods of one node use.
#[derive(Debug, Default)]
struct Used {
    pods: u32,
    requests: Amounts,
}

impl Used {
    fn add(&mut self, pod: &Value) {
        self.pods += 1;
        for (name, amount) in pod_requests(&pod["spec"]) {
            *self.requests.entry(name).or_default() += amount;
        }
    }
}

/// What a pod takes of its node: its containers together or its largest init container, whichever is more, and the
/// overhead of its runtime class. An init container that always restarts is one of the containers.
fn pod_requests(spec: &Value) -> Amounts {
    let requests = |container: &Value| read(&container["resources"]["requests"]);
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let stays = |container: &&Value| container["restartPolicy"] == "Always";
    let mut all = Amounts::new();
    for container in list("containers").chain(list("initContainers").filter(stays)) {
        for (name, amount) in requests(container) {
            *all.entry(name).or_default() += amount;
        }
    }
    for container in list("initContainers").filter(|it| !stays(it)) {
        for (name, amount) in requests(container) {
            let largest = all.entry(name).or_default();
            *largest = amount.max(*largest);
        }
    }
    for (name, amount) in read(&spec["overhead"]) {
        *all.entry(name).or_default() += amount;
    }
    all
}

/// Amounts that cannot be read count as nothing: they are those of somebody else's pod.
fn read(amounts: &Value) -> Amounts {
    let amounts = amounts.as_object().into_iter().flatten();
    amounts
        .filter_map(|(name, amount)| Some((name.clone(), units(name, &Quantity::from_json(amount).ok()?))))
        .collect()
}

/// The most that counts, so that sums of them never overflow.
const LIMIT: i128 = 1 << 100;

fn units(name: &str, amount: &Quantity) -> i128 {
    let units = if name == "cpu" {
        amount.milli()
    } else {
        amount.value()
    };
    units.clamp(-LIMIT, LIMIT)
}

/// Of a node only what [`Requirements::room`] reads.
pub fn node_view(node: &Value) -> Value {
    json!({
        "metadata": {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]},
        "spec": {"taints": node["spec"]["taints"], "unschedulable": node["spec"]["unschedulable"]},
        "status": {"allocatable": node["status"]["allocatable"]},
    })
}

/// Of a pod only what [`Requirements::room`] reads.
pub fn pod_view(pod: &Value) -> Value {
    let containers = |field: &str| -> Value {
        let containers = pod["spec"][field].as_array().into_iter().flatten();
        let view = |it: &Value| {
            let mut view = json!({"resources": {"requests": it["resources"]["requests"]}});
            if !it["restartPolicy"].is_null() {
                view["restartPolicy"] = it["restartPolicy"].clone();
            }
            view
        };
        containers.map(view).collect()
    };
    json!({
        "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
        "spec": {
            "nodeName": pod["spec"]["nodeName"], "overhead": pod["spec"]["overhead"],
            "containers": containers("containers"), "initContainers": containers("initContainers"),
        },
        "status": {"phase": pod["status"]["phase"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"zone": "a", "size": "8"}}, "spec": {},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "4"}}})
    }

    /// A pod on the node `n` that requests this much.
    fn pod(cpu: &str, memory: &str) -> Value {
        json!({"spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}]},
            "status": {"phase": "Running"}})
    }

    fn needs(more: &Value) -> Requirements {
        let mut value = json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
        machinery::patch::merge_patch(&mut value, more);
        Requirements::from_value(&value).unwrap()
    }

    /// The room on one node, through the views that a cache keeps.
    fn room(node: &Value, pods: &[Value]) -> u32 {
        let pods: Vec<Value> = pods.iter().map(pod_view).collect();
        needs(&json!({})).room([&node_view(node)], &pods)
    }

    #[test]
    fn counts_what_fits_on_a_node() {
        for (row, pods, expected) in [
            ("C1", [pod("1", "4Gi"), pod("1", "4Gi")], 2),
            ("C2", [pod("1", "4Gi"), pod("6", "4Gi")], 1),
            ("C3", [pod("1", "4Gi"), pod("1", "11Gi")], 1),
            ("over-committed", [pod("1", "4Gi"), pod("9", "4Gi")], 0),
        ] {
            assert_eq!(room(&node("n"), &pods), expected, "{row}");
        }
        assert_eq!(sum([4, 10].into_iter()), 14, "C4");
        assert_eq!(sum([MOST, MOST].into_iter()), MOST);
        let over = [pod("9", "4Gi")];
        let nodes = [node("n"), node("m")];
        assert_eq!(
            needs(&json!({})).room(&nodes, &over),
            4,
            "one node's lack is not another's"
        );
        let any = Requirements::default();
        assert_eq!(any.room(&nodes, &over), 7, "who needs nothing needs a slot");
    }

    #[test]
    fn counts_pods_as_schedulers_do() {
        let mut done = pod("8", "1Gi");
        done["status"]["phase"] = json!("Succeeded");
        let mut waiting = pod("8", "1Gi");
        waiting["spec"]["nodeName"] = Value::Null;
        assert_eq!(room(&node("n"), &[done, waiting]), 4);
        let cpu = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = cpu("2");
        sidecar["restartPolicy"] = json!("Always");
        let mut large = pod("1", "1Gi");
        large["spec"]["initContainers"] = json!([cpu("4"), cpu("5"), sidecar]);
        large["spec"]["overhead"] = json!({"cpu": "500m"});
        // 5 of the largest init container, half a processor of overhead: 2.5 are left.
        assert_eq!(room(&node("n"), &[large]), 2);
    }

    #[test]
    fn looks_only_at_nodes_that_would_take_a_replica() {
        let affinity = |expressions: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}})
        };
        let expression =
            |operator: &str, value: &str| json!([{"key": "size", "operator": operator, "values": [value]}]);
        for (row, needs_more, expected) in [
            ("all", json!({}), 4),
            ("selector", json!({"nodeSelector": {"zone": "a"}}), 4),
            ("other zone", json!({"nodeSelector": {"zone": "b"}}), 0),
            ("affinity", affinity(expression("Gt", "7")), 4),
            ("other size", affinity(expression("Gt", "8")), 0),
        ] {
            assert_eq!(needs(&needs_more).room([&node("n")], []), expected, "{row}");
        }
        let mut cordoned = node("n");
        cordoned["spec"]["unschedulable"] = json!(true);
        assert_eq!(needs(&json!({})).room([&cordoned], []), 0);
        let tolerant =
            json!({"tolerations": [{"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}]});
        assert_eq!(needs(&tolerant).room([&cordoned], []), 4);
    }

    #[test]
    fn tolerates_taints_of_nodes_as_of_clusters() {
        let keyed = |key: &str, value: &str, effect: &str| json!({"key": key, "operator": "Equal", "value": value, "effect": effect});
        let dedicated = |value: &str| keyed("dedicated", value, "NoSchedule");
        let foo = json!({"key": "foo", "operator": "Exists", "effect": "NoSchedule"});
        let (user1, bar) = ("dedicated=user1:NoSchedule", "foo=bar:NoSchedule");
        for (row, tolerations, taints, fits) in [
            ("F1", json!([]), &[user1][..], false),
            (
                "F2",
                json!([{"key": "dedicated", "value": "user1", "effect": "NoSchedule"}]),
                &[user1],
                true,
            ),
            ("F3", json!([dedicated("user2")]), &[user1], false),
            ("F4", json!([foo]), &[bar], true),
            (
                "F5",
                json!([dedicated("user2"), foo]),
                &["dedicated=user2:NoSchedule", bar],
                true,
            ),
            (
                "F6",
                json!([keyed("foo", "bar", "PreferNoSchedule")]),
                &[bar],
                false,
            ),
            ("F7", json!([keyed("foo", "bar", "")]), &[bar], true),
            (
                "F8",
                json!([dedicated("user2")]),
                &["dedicated=user1:PreferNoSchedule"],
                true,
            ),
            ("F9", json!([]), &["dedicated=user1:PreferNoSchedule"], true),
            (
                "another effect",
                json!([dedicated("user1")]),
                &["dedicated=user1:NoExecute"],
                false,
            ),
        ] {
            let mut tainted = node("n");
            let taint = |text: &&str| {
                let (key, rest) = text.split_once('=').unwrap();
                let (value, effect) = rest.split_once(':').unwrap();
                json!({"key": key, "value": value, "effect": effect})
            };
            tainted["spec"]["taints"] = taints.iter().map(taint).collect();
            let needs = needs(&json!({"tolerations": tolerations}));
            assert_eq!(needs.room([&tainted], []), if fits { 4 } else { 0 }, "{row}");
        }
    }

    #[test]
    fn names_what_it_cannot_read() {
        let error = |value: Value| Requirements::from_value(&value).unwrap_err().to_string();
        assert!(
            error(json!({"resources": {"requests": {"cpu": "lots"}}}))
                .starts_with("resources.requests.cpu: ")
        );
        assert!(error(json!({"nodeSelector": {"a b": "c"}})).starts_with("nodeSelector: "));
        let by_field = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": []}]}}}});
        assert!(error(by_field).ends_with(".matchFields: is not supported"));
    }
}
