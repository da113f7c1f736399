//! Services: their defaults and rules. Which address and ports they get is decided in `crate::addresses`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use machinery::names::{self, dns1123_label_problems};
use serde_json::{Value, json};

use super::fields::{items, labels, named, one_of, text};
use super::{Strategy, default_field, field_mut, fields, items_mut};
use crate::problems::Problems;

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The rules of Services.
pub(super) static SERVICE: Strategy = Strategy {
    default: default_service,
    create: |service| service["status"] = json!({"loadBalancer": {}}),
    update: |new, old| {
        drop_dependents(new, old);
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

/// Whether a type of Services has a port on every node.
fn has_node_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort"
        || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false
}

/// Whether a Service is reached from outside.
fn is_external(spec: &Value) -> bool {
    spec["type"] == "NodePort"
        || spec["type"] == "LoadBalancer"
        || items(&spec["externalIPs"]).next().is_some()
}

/// Takes along what the old type alone had, where the new version merely repeats it.
fn drop_dependents(new: &mut Value, old: &Value) {
    let before = &old["spec"];
    let after = &new["spec"];
    let mut dropped: Vec<&str> = Vec::new();
    let is = |spec: &Value, kind: &str| spec["type"] == kind;
    if is(after, "ExternalName") && !is(before, "ExternalName") {
        dropped.extend([
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ]);
    }
    if is_external(before) && !is_external(after) {
        dropped.push("externalTrafficPolicy");
    }
    if is(before, "LoadBalancer") && !is(after, "LoadBalancer") {
        dropped.extend([
            "allocateLoadBalancerNodePorts",
            "healthCheckNodePort",
            "loadBalancerClass",
        ]);
    }
    dropped.retain(|field| after[*field] == before[*field]);
    let ports_go = has_node_ports(before) && !has_node_ports(after) && !is(after, "LoadBalancer");
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
        for field in dropped {
            spec.remove(field);
        }
    }
    if ports_go {
        let given: Vec<&Value> = items(&before["ports"])
            .map(|(_, port)| &port["nodePort"])
            .collect();
        for port in items_mut(new, &["spec", "ports"]).filter_map(Value::as_object_mut) {
            port.retain(|field, value| field != "nodePort" || !given.contains(&&*value));
        }
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

fn traffic(spec: &Value, problems: &mut Problems) {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let external = &spec["externalTrafficPolicy"];
    one_of(external, "spec.externalTrafficPolicy", &POLICIES, problems);
    if !external.is_null() && !is_external(spec) {
        problems.invalid(
            "spec.externalTrafficPolicy",
            external,
            "may only be set for externally-accessible services",
        );
    }
    one_of(
        &spec["internalTrafficPolicy"],
        "spec.internalTrafficPolicy",
        &POLICIES,
        problems,
    );
    if spec["type"] != "LoadBalancer" && !spec["loadBalancerClass"].is_null() {
        problems.forbidden(
            "spec.loadBalancerClass",
            "may only be used when `type` is 'LoadBalancer'",
        );
    }
    let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let has_timeout = spec["sessionAffinity"] == "ClientIP";
    if has_timeout
        && timeout
            .as_i64()
            .is_some_and(|seconds| !(1..=86_400).contains(&seconds))
    {
        problems.invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            timeout,
            "must be greater than 0 and less than 86400",
        );
    }
    for (index, found) in items(&spec["externalIPs"]) {
        let path = format!("spec.externalIPs[{index}]");
        match text(found).parse::<IpAddr>() {
            Err(_) => problems.invalid(path, found, ADDRESS),
            Ok(address) if address.is_loopback() => problems.invalid(
                path,
                found,
                "may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            Ok(_) => {}
        }
    }
}

/// The address that a Service asks for, and of which family; this cluster has one family only.
fn address(spec: &Value, problems: &mut Problems) {
    const PATH: &str = "spec.clusterIPs[0]";
    let (wanted, kind) = (&spec["clusterIP"], text(&spec["type"]));
    match (kind, text(wanted)) {
        (_, "") => {}
        ("ExternalName", _) => {
            problems.forbidden("spec.clusterIPs", "may not be set for ExternalName services");
        }
        ("LoadBalancer" | "NodePort", "None") => problems.invalid(
            PATH,
            wanted,
            format!("may not be set to 'None' for {kind} services"),
        ),
        (_, "None") => {}
        (_, address) => match address.parse::<IpAddr>() {
            Err(_) => problems.invalid(PATH, wanted, ADDRESS),
            Ok(IpAddr::V6(_)) => {
                problems.invalid(PATH, wanted, "IPv6 is not configured on this cluster");
            }
            Ok(IpAddr::V4(_)) if spec["ipFamilies"][0] == "IPv6" => problems.invalid(
                PATH,
                wanted,
                "expected an IPv6 value as indicated by `ipFamilies[0]`",
            ),
            Ok(IpAddr::V4(_)) => {}
        },
    }
    families(spec, problems);
}

fn families(spec: &Value, problems: &mut Problems) {
    let policy = &spec["ipFamilyPolicy"];
    one_of(
        policy,
        "spec.ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
        problems,
    );
    // Without a selector and an address nobody but its author knows where a Service leads.
    let free = spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(|map| map.is_empty());
    if policy == "RequireDualStack" && !free {
        problems.invalid(
            "spec.ipFamilyPolicy",
            policy,
            "this cluster is not configured for dual-stack services",
        );
    }
    let mut seen = BTreeSet::new();
    for (index, family) in items(&spec["ipFamilies"]) {
        let path = format!("spec.ipFamilies[{index}]");
        one_of(family, &path, &["IPv4", "IPv6"], problems);
        if !seen.insert(text(family)) {
            problems.duplicate(path, family);
        } else if family == "IPv6" && !free {
            problems.invalid(path, family, "not configured on this cluster");
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
        let name = Value::from(text(&spec["externalName"]).trim_end_matches('.'));
        named(
            &name,
            "spec.externalName",
            names::dns1123_subdomain_problems,
            problems,
        );
    } else if ports.is_empty() && spec["clusterIP"] != "None" {
        problems.required("spec.ports", "");
    }
    address(spec, problems);
    traffic(spec, problems);
    labels(&spec["selector"], "spec.selector", problems);
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
        fields::port(&port["targetPort"], &format!("{path}.targetPort"), problems);
        if !has_node_ports(spec) && spec["type"] != "LoadBalancer" && !port["nodePort"].is_null() {
            let kind = text(&spec["type"]);
            problems.forbidden(
                format!("{path}.nodePort"),
                &format!("may not be used when `type` is '{kind}'"),
            );
        }
        named(
            &port["name"],
            &format!("{path}.name"),
            dns1123_label_problems,
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
    use super::super::tests::check;
    use super::*;

    fn service(fields: Value) -> Value {
        let mut service =
            json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
        for (field, value) in fields.as_object().unwrap() {
            service["spec"][field] = value.clone();
        }
        default_service(&mut service);
        service
    }

    #[test]
    fn addresses_fit_the_type_and_the_cluster() {
        const ONE: &str = "spec.clusterIPs[0]";
        check(
            validate_service,
            vec![
                (service(json!({"clusterIP": "None"})), vec![]),
                (
                    service(
                        json!({"clusterIP": "None", "selector": {}, "ipFamilies": ["IPv4", "IPv6"],
                    "ipFamilyPolicy": "RequireDualStack"}),
                    ),
                    vec![],
                ),
                (
                    service(json!({"type": "LoadBalancer", "clusterIP": "None"})),
                    vec![(ONE, "may not be set to 'None' for LoadBalancer services")],
                ),
                (
                    service(json!({"type": "NodePort", "clusterIP": "None"})),
                    vec![(ONE, "may not be set to 'None' for NodePort services")],
                ),
                (
                    service(
                        json!({"type": "ExternalName", "externalName": "a.b.", "clusterIP": "10.96.0.9"}),
                    ),
                    vec![("spec.clusterIPs", "may not be set for ExternalName services")],
                ),
                (
                    service(json!({"type": "ExternalName", "externalName": "A_"})),
                    vec![("spec.externalName", "RFC 1123 subdomain")],
                ),
                (
                    service(json!({"clusterIP": "bad"})),
                    vec![(ONE, "must be a valid IP address")],
                ),
                (
                    service(json!({"clusterIP": "fd00::1"})),
                    vec![(ONE, "IPv6 is not configured")],
                ),
                (
                    service(json!({"clusterIP": "10.96.0.9", "ipFamilies": ["IPv6"]})),
                    vec![
                        (ONE, "expected an IPv6 value"),
                        ("spec.ipFamilies[0]", "not configured"),
                    ],
                ),
                (
                    service(json!({"ipFamilies": ["X"]})),
                    vec![("spec.ipFamilies[0]", "Unsupported")],
                ),
                (
                    service(json!({"ipFamilies": ["IPv4", "IPv4"]})),
                    vec![("spec.ipFamilies[1]", "Duplicate")],
                ),
                (
                    service(json!({"ipFamilyPolicy": "RequireDualStack"})),
                    vec![("spec.ipFamilyPolicy", "not configured for dual-stack")],
                ),
                (
                    service(json!({"externalIPs": ["bad", "127.0.0.1"]})),
                    vec![
                        ("spec.externalIPs[0]", "must be a valid IP address"),
                        ("spec.externalIPs[1]", "loopback range"),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn ports_and_policies_fit_the_type() {
        check(
            validate_service,
            vec![
                (
                    service(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
                    vec![],
                ),
                (
                    service(json!({"ports": [{"port": 80, "targetPort": "UPPER_"}]})),
                    vec![
                        ("spec.ports[0].targetPort", "alpha-numeric"),
                        ("spec.ports[0].targetPort", "one letter"),
                    ],
                ),
                (
                    service(
                        json!({"ports": [{"port": 80, "targetPort": 70_000, "name": "A_", "nodePort": 30_000}]}),
                    ),
                    vec![
                        ("spec.ports[0].targetPort", "between 1 and 65535"),
                        (
                            "spec.ports[0].nodePort",
                            "may not be used when `type` is 'ClusterIP'",
                        ),
                        ("spec.ports[0].name", "RFC 1123 label"),
                    ],
                ),
                (
                    service(json!({"externalTrafficPolicy": "Local"})),
                    vec![("spec.externalTrafficPolicy", "externally-accessible services")],
                ),
                (
                    service(json!({"internalTrafficPolicy": "X"})),
                    vec![("spec.internalTrafficPolicy", "Unsupported")],
                ),
                (
                    service(json!({"loadBalancerClass": "a/b"})),
                    vec![("spec.loadBalancerClass", "when `type` is 'LoadBalancer'")],
                ),
                (
                    service(
                        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
                    ),
                    vec![(
                        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                        "greater than 0",
                    )],
                ),
                (
                    service(json!({"selector": {"a b": "c"}})),
                    vec![("spec.selector", "name part")],
                ),
            ],
        );
    }

    #[test]
    fn another_type_drops_what_only_the_old_one_had() {
        let stored = |kind: &str| {
            let mut service = service(
                json!({"type": kind, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
            );
            if kind != "ClusterIP" {
                service["spec"]["ports"][0]["nodePort"] = json!(30_001);
            }
            service
        };
        for (from, to) in [
            ("LoadBalancer", "ClusterIP"),
            ("NodePort", "ClusterIP"),
            ("LoadBalancer", "NodePort"),
            ("LoadBalancer", "ExternalName"),
            ("ClusterIP", "ExternalName"),
        ] {
            let old = stored(from);
            let mut new = old.clone();
            new["spec"]["type"] = json!(to);
            new["spec"]["externalName"] = json!("a.b");
            default_service(&mut new);
            (SERVICE.update)(&mut new, &old);
            let mut problems = Problems::default();
            validate_service(&new, &mut problems);
            let causes = problems.into_causes();
            assert!(causes.is_empty(), "{from} to {to}: {causes:?}");
            assert_eq!(new["spec"]["clusterIP"].is_null(), to == "ExternalName");
            assert_eq!(
                new["spec"]["ports"][0]["nodePort"].is_null(),
                to != "NodePort",
                "{new}"
            );
        }
    }

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
