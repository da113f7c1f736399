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
