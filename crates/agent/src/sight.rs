//! The nodes and pods of the child, each watched once for all who look, with as little of them as those read.

use std::sync::OnceLock;

use api::kubernetes;
use kubeio::{Cache, CacheOptions, Client};
use placement::capacity;
use serde_json::{Value, json};

/// What a session sees of the child. Nothing is watched before somebody looks.
pub(crate) struct Sight {
    child: Client,
    /// Whether anybody asks for room; else pods are only counted.
    predicts: bool,
    nodes: OnceLock<Cache>,
    pods: OnceLock<Cache>,
}

impl Sight {
    pub(crate) fn new(child: Client, predicts: bool) -> Self {
        Self {
            child,
            predicts,
            nodes: OnceLock::new(),
            pods: OnceLock::new(),
        }
    }

    pub(crate) fn nodes(&self) -> &Cache {
        self.nodes
            .get_or_init(|| self.watch(kubernetes::NODES, node_view))
    }

    pub(crate) fn pods(&self) -> &Cache {
        let project: fn(Value) -> Value = if self.predicts {
            |pod| capacity::pod_view(&pod)
        } else {
            phase_view
        };
        self.pods.get_or_init(|| self.watch(kubernetes::PODS, project))
    }

    fn watch(&self, resource: machinery::ApiResource, project: fn(Value) -> Value) -> Cache {
        let options = CacheOptions {
            project,
            ..CacheOptions::default()
        };
        Cache::start(self.child.clone(), resource, options)
    }
}

/// Of a node what the predictor and the report read. A node's heartbeat makes no difference.
fn node_view(node: Value) -> Value {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready: Vec<Value> = conditions
        .filter(|condition| condition["type"] == "Ready")
        .map(|condition| json!({"type": "Ready", "status": condition["status"]}))
        .collect();
    let mut view = capacity::node_view(&node);
    view["status"]["conditions"] = json!(ready);
    view["status"]["capacity"] = node["status"]["capacity"].clone();
    view
}

/// Of a pod what counting reads.
fn phase_view(pod: Value) -> Value {
    json!({
        "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
        "status": {"phase": pod["status"]["phase"]},
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use placement::capacity::Requirements;

    use super::*;
    use crate::report;

    #[test]
    fn a_node_keeps_what_the_report_and_the_predictor_read() {
        let node = |ready: &str, heartbeat: &str| {
            json!({
                "metadata": {"name": "n", "labels": {"node.clusternet.io/zone": "z"}, "annotations": {"a": "b"}},
                "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
                "status": {
                    "capacity": {"cpu": "8", "pods": "110"}, "allocatable": {"cpu": "7", "pods": "100"},
                    "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}],
                },
            })
        };
        let tolerant = json!({"nodeSelector": {"node.clusternet.io/zone": "z"}, "tolerations": [{"operator": "Exists"}],
            "resources": {"requests": {"cpu": "1"}}});
        let says = |node: Value| {
            let room = |needs: &Value| Requirements::from_value(needs).unwrap().room([&node], []);
            let rooms = [room(&tolerant), room(&json!({}))];
            let nodes = [Arc::new(node.clone())];
            let prefixes = ["node.clusternet.io/".to_owned()];
            let told = json!([
                report::statistics(&nodes),
                report::sums(&nodes, "allocatable"),
                report::sums(&nodes, "capacity"),
                report::promote(&nodes, &prefixes, 0.8),
            ]);
            (rooms, told)
        };
        for ready in ["True", "False"] {
            let (all, view) = (says(node(ready, "1")), says(node_view(node(ready, "1"))));
            assert_eq!(all, view, "{ready}");
            assert_eq!(all.0, [7, 0]);
        }
        assert_eq!(node_view(node("True", "1")), node_view(node("True", "2")));
    }
}
