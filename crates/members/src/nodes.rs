//! Nodes that say what they are.

use serde_json::{Value, json};

use crate::action::Action;
use crate::world::{NODES, World, condition, name};

/// A simulated node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Its cores, a quantity.
    pub cpu: String,
    /// Its memory, a quantity.
    pub memory: String,
    /// How many pods it takes.
    pub pods: u32,
    /// Labels besides the usual ones.
    pub labels: Vec<(String, String)>,
}

impl NodeSpec {
    /// A node of 8 cores, 32 GiB and 110 pods.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            cpu: "8".into(),
            memory: "32Gi".into(),
            pods: 110,
            labels: Vec::new(),
        }
    }
}

pub(crate) fn plan(specs: &[NodeSpec], world: &World, now: &str, actions: &mut Vec<Action>) {
    for (index, spec) in specs.iter().enumerate() {
        let Some(node) = world.nodes.iter().find(|node| name(node) == spec.name) else {
            actions.push(Action::Create {
                resource: &NODES,
                namespace: None,
                object: object(spec),
            });
            continue;
        };
        if condition(node, "Ready").is_none() {
            actions.push(Action::Patch {
                resource: &NODES,
                namespace: None,
                name: spec.name.clone(),
                subresource: Some("status"),
                patch: json!({"status": status(spec, index, now)}),
            });
        }
    }
}

fn object(spec: &NodeSpec) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": spec.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "type": "simulated", "node-role.kubernetes.io/simulated": "",
    });
    for (key, value) in &spec.labels {
        labels[key] = json!(value);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {"providerID": format!("simulated://{}", spec.name)},
    })
}

fn status(spec: &NodeSpec, index: usize, now: &str) -> Value {
    let resources = json!({"cpu": spec.cpu, "memory": spec.memory, "pods": spec.pods.to_string()});
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!({
        "capacity": resources, "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": format!("198.18.0.{}", index + 1)},
            {"type": "Hostname", "address": spec.name},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "Simulated", "nothing runs here"),
            condition("DiskPressure", "False", "Simulated", "nothing runs here"),
            condition("PIDPressure", "False", "Simulated", "nothing runs here"),
            condition("Ready", "True", "Simulated", "this node is simulated by tombolo"),
        ],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "osImage": "simulated by tombolo",
            "kernelVersion": "none (simulated)", "containerRuntimeVersion": "none://simulated",
            "kubeletVersion": "v1.34.0-simulated", "kubeProxyVersion": "", "bootID": "", "machineID": "",
            "systemUUID": "",
        },
    })
}
