//! Gives pending pods to nodes: selector, taints, and room by requests and pod slots; the emptiest node wins.

use std::collections::BTreeMap;

use machinery::quantity::Quantity;
use serde_json::Value;

use crate::action::Action;
use crate::world::{World, containers, deleting, name, namespace, text};

/// Room left on a node.
#[derive(Debug, Clone, Copy)]
struct Room {
    cpu_milli: i128,
    memory_bytes: i128,
    pods: i128,
}

pub(crate) fn plan(world: &World, actions: &mut Vec<Action>) {
    let mut rooms: BTreeMap<&str, (Room, &Value)> = world
        .nodes
        .iter()
        .map(|node| (name(node), (allocatable(node), &**node)))
        .collect();
    for pod in &world.pods {
        if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
            && let Some((room, _)) = rooms.get_mut(text(pod, "/spec/nodeName"))
        {
            take(room, &requests(pod));
        }
    }
    for pod in world
        .pods
        .iter()
        .filter(|pod| text(pod, "/spec/nodeName").is_empty() && !deleting(pod))
    {
        let wanted = requests(pod);
        let best = rooms
            .iter_mut()
            .filter(|(_, (room, node))| {
                selected(&pod["spec"], node)
                    && tolerated(&pod["spec"], node)
                    && node["spec"]["unschedulable"] != true
                    && room.cpu_milli >= wanted.cpu_milli
                    && room.memory_bytes >= wanted.memory_bytes
                    && room.pods >= 1
            })
            .max_by(|(a, (room_a, _)), (b, (room_b, _))| {
                room_a.pods.cmp(&room_b.pods).then_with(|| b.cmp(a))
            });
        if let Some((node, (room, _))) = best {
            take(room, &wanted);
            actions.push(Action::Bind {
                namespace: namespace(pod).to_owned(),
                name: name(pod).to_owned(),
                node: (*node).to_owned(),
            });
        }
    }
}

fn take(room: &mut Room, wanted: &Room) {
    room.cpu_milli -= wanted.cpu_milli;
    room.memory_bytes -= wanted.memory_bytes;
    room.pods -= 1;
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn allocatable(node: &Value) -> Room {
    let of = |key: &str| amount(&node["status"]["allocatable"][key]);
    Room {
        cpu_milli: of("cpu").map_or(0, |quantity| quantity.milli()),
        memory_bytes: of("memory").map_or(0, |quantity| quantity.value()),
        pods: of("pods").map_or(0, |quantity| quantity.value()),
    }
}

/// What a container asks for, in thousandths of a processor and in bytes; what it names only as a limit counts too.
pub(crate) fn container_requests(container: &Value) -> (i128, i128) {
    let resources = &container["resources"];
    let of = |key: &str| amount(&resources["requests"][key]).or_else(|| amount(&resources["limits"][key]));
    (
        of("cpu").map_or(0, |quantity| quantity.milli()),
        of("memory").map_or(0, |quantity| quantity.value()),
    )
}

fn requests(pod: &Value) -> Room {
    let mut sum = Room {
        cpu_milli: 0,
        memory_bytes: 0,
        pods: 1,
    };
    for container in containers(pod) {
        let (cpu_milli, memory_bytes) = container_requests(container);
        sum.cpu_milli += cpu_milli;
        sum.memory_bytes += memory_bytes;
    }
    sum
}

/// Whether the node has every label of the pod spec's node selector.
pub(crate) fn selected(spec: &Value, node: &Value) -> bool {
    spec.get("nodeSelector")
        .and_then(Value::as_object)
        .is_none_or(|selector| {
            selector
                .iter()
                .all(|(key, value)| node["metadata"]["labels"].get(key) == Some(value))
        })
}

/// Whether the pod spec tolerates the node's NoSchedule and NoExecute taints.
pub(crate) fn tolerated(spec: &Value, node: &Value) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    taints
        .into_iter()
        .flatten()
        .filter(|taint| taint["effect"] != "PreferNoSchedule")
        .all(|taint| {
            spec.get("tolerations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .any(|toleration| {
                    let key = text(toleration, "/key");
                    let exists = text(toleration, "/operator") == "Exists";
                    let effect = text(toleration, "/effect");
                    (key.is_empty() && exists || key == text(taint, "/key"))
                        && (exists || text(toleration, "/value") == text(taint, "/value"))
                        && (effect.is_empty() || effect == text(taint, "/effect"))
                })
        })
}
