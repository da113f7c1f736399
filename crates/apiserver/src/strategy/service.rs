//! Services: their defaults and rules. Which address and ports they get is decided in `crate::addresses`.

use std::collections::BTreeSet;

use machinery::names;
use serde_json::{Value, json};

use super::fields::one_of;
use super::{Strategy, default_field, field_mut, items_mut};
use crate::problems::Problems;

/// The rules of Services.
pub(super) static SERVICE: Strategy = Strategy {
    default: default_service,
    create: |service| service["status"] = json!({"loadBalancer": {}}),
    update: |new, old| {
        // Leaving out what was allocated keeps it, as long as the type still has it.
        if new["spec"]["type"] == "ExternalName" {
            return;
        }
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let kept = old["spec"][field].clone();
            if !kept.is_null()
                && let Some(spec) = new.get_mut("spec")
            {
                default_field(spec, field, kept);
            }
        }
        keep_node_ports(new, old);
    },
    validate: validate_service,
    validate_update: |new, old, problems| {
        let address = |service: &Value| {
            service["spec"]["clusterIP"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let external = new["spec"]["type"] == "ExternalName" || old["spec"]["type"] == "ExternalName";
        if !external && !address(old).is_empty() && address(new) != address(old) {
            problems.invalid(
                "spec.clusterIPs[0]",
                &json!([address(new)]),
                "may not change once set",
            );
        }
    },
    returns_deleted: true,
    create_on_update: true,
    ..Strategy::PLAIN
};

fn default_service(service: &mut Value) {
    let Some(spec) = field_mut(service, "spec") else {
        return;
    };
    default_field(spec, "type", "ClusterIP");
    default_field(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        default_field(
            spec,
            "sessionAffinityConfig",
            json!({"clientIP": {"timeoutSeconds": 10_800}}),
        );
    }
    for port in items_mut(spec, &["ports"]) {
        default_field(port, "protocol", "TCP");
        let number = port["port"].clone();
        if !number.is_null() {
            if port["targetPort"] == 0 || port["targetPort"] == "" {
                port["targetPort"] = Value::Null;
            }
            default_field(port, "targetPort", number);
        }
    }
    let kind = spec["type"].clone();
    if kind == "NodePort" || kind == "LoadBalancer" {
        default_field(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        default_field(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default_field(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Ports that stay keep their node ports.
fn keep_node_ports(new: &mut Value, old: &Value) {
    if !matches!(new["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        return;
    }
    let before = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
    for port in items_mut(new, &["spec", "ports"]) {
        let same = before
            .iter()
            .find(|other| other["port"] == port["port"] && other["protocol"] == port["protocol"]);
        if let Some(node) = same
            .map(|other| other["nodePort"].clone())
            .filter(|node| !node.is_null())
        {
            default_field(port, "nodePort", node);
        }
    }
}

fn validate_service(service: &Value, problems: &mut Problems) {
    let spec = &service["spec"];
    let name = &service["metadata"]["name"];
    if let Some(text) = name.as_str() {
        for problem in names::dns1035_label_problems(text) {
            problems.invalid("metadata.name", name, problem);
        }
    }
    one_of(
        &spec["type"],
        "spec.type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        problems,
    );
    one_of(
        &spec["sessionAffinity"],
        "spec.sessionAffinity",
        &["ClientIP", "None"],
        problems,
    );
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    if spec["type"] == "ExternalName" {
        if spec["externalName"].as_str().unwrap_or_default().is_empty() {
            problems.required("spec.externalName", "");
        }
    } else if ports.is_empty() && spec["clusterIP"] != "None" {
        problems.required("spec.ports", "");
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let number = &port["port"];
        if !number
            .as_i64()
            .is_some_and(|number| (1..=65_535).contains(&number))
        {
            problems.invalid(
                format!("{path}.port"),
                number,
                "must be between 1 and 65535, inclusive",
            );
        }
        one_of(
            &port["protocol"],
            &format!("{path}.protocol"),
            &["SCTP", "TCP", "UDP"],
            problems,
        );
        let label = port["name"].as_str().unwrap_or_default();
        if label.is_empty() && ports.len() > 1 {
            problems.required(format!("{path}.name"), "");
        } else if !label.is_empty() && !names.insert(label) {
            problems.duplicate(format!("{path}.name"), &port["name"]);
        }
        if !numbers.insert((number.as_i64(), port["protocol"].as_str())) {
            problems.duplicate(path, &json!({"port": number, "protocol": port["protocol"]}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_get_their_targets() {
        let mut service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        default_service(&mut service);
        assert_eq!(
            service["spec"]["ports"][0],
            json!({"port": 80, "protocol": "TCP", "targetPort": 80})
        );
        assert_eq!(service["spec"]["type"], "ClusterIP");
        let mut problems = Problems::default();
        validate_service(&service, &mut problems);
        assert!(problems.into_causes().is_empty());
        service["spec"]["ports"] = json!([{"port": 80}, {"port": 80}]);
        let mut problems = Problems::default();
        validate_service(&service, &mut problems);
        assert!(problems.into_causes().len() >= 3);
    }
}
