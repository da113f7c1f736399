//! The cells that are more than a field of the object.

use jiff::Timestamp;
use machinery::selector::LabelSelector;
use serde_json::{Map, Value};

use super::age::{human, since};
use super::pods;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn or(text: String, absent: &str) -> String {
    if text.is_empty() { absent.to_owned() } else { text }
}

fn joined<'a>(items: impl IntoIterator<Item = &'a Value>, separator: &str) -> String {
    items.into_iter().map(text).collect::<Vec<_>>().join(separator)
}

/// The condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(&object["status"]["conditions"])
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// The cell of a named function.
pub(super) fn cell(name: &str, object: &Value, now: Timestamp) -> Value {
    let spec = &object["spec"];
    let status = &object["status"];
    Value::from(match name {
        "pod-ready" => pods::ready(object),
        "pod-status" => pods::status(object),
        "pod-restarts" => pods::restarts(object, now),
        "pod-gates" => pods::gates(object),
        "containers" => joined(containers(object).iter().map(|container| &container["name"]), ","),
        "images" => joined(
            containers(object).iter().map(|container| &container["image"]),
            ",",
        ),
        "pod-labels" => labels(&object["template"]["metadata"]["labels"]),
        "selector" => selector(&spec["selector"]),
        "pod-selector" => selector(&spec["podSelector"]),
        "node-selector" => labels(&spec["template"]["spec"]["nodeSelector"]),
        "replicas-ready" => format!(
            "{}/{}",
            status["readyReplicas"].as_i64().unwrap_or(0),
            spec["replicas"].as_i64().unwrap_or(0)
        ),
        "phase" if !object["metadata"]["deletionTimestamp"].is_null() => "Terminating".to_owned(),
        "phase" => text(&status["phase"]).to_owned(),
        "claim" => match (&spec["claimRef"]["namespace"], &spec["claimRef"]["name"]) {
            (Value::String(namespace), Value::String(name)) => format!("{namespace}/{name}"),
            _ => String::new(),
        },
        "access-modes" => access_modes(object),
        "endpoints" => endpoints(object),
        "slice-ports" => or(
            joined_numbers(list(&object["ports"]).iter().map(|port| &port["port"])),
            "<unset>",
        ),
        "slice-endpoints" => or(
            some(
                list(&object["endpoints"])
                    .iter()
                    .flat_map(|endpoint| list(&endpoint["addresses"]))
                    .map(text),
            ),
            "<unset>",
        ),
        "node-status" | "node-roles" | "node-internal" | "node-external" => node(name, object),
        "service-external" => service_external(object),
        "service-ports" => service_ports(object),
        "event-last" | "event-first" | "event-object" | "event-source" => event(name, object, now),
        "event-count" => {
            let count = object["count"].as_i64().or(object["series"]["count"].as_i64());
            return Value::from(count.unwrap_or(1).to_string());
        }
        "job-status" | "job-completions" | "job-duration" => job(name, object, now),
        "last-schedule" => match status["lastScheduleTime"].as_str() {
            Some(time) => since(time, now),
            None => "<none>".to_owned(),
        },
        _ => return Value::from(rarer_cell(name, object)),
    })
}

/// What a template shows where an object shows its status.
pub(super) const NO_STATUS: &str = "<none>";

/// The cell of a named function for a template, which has no status: of two numbers the one that is asked for.
pub(super) fn of_template(name: &str, object: &Value, now: Timestamp) -> Value {
    let shown = cell(name, object, now);
    match name {
        "replicas-ready" | "pod-ready" | "pod-gates" | "job-completions" => {
            let asked = shown.as_str().and_then(|text| text.strip_prefix("0/"));
            asked.map_or(shown.clone(), |asked| Value::from(format!("-/{asked}")))
        }
        "pod-status" | "pod-restarts" | "phase" | "node-status" | "node-internal" | "node-external"
        | "job-status" | "job-duration" | "last-schedule" | "csr-condition" | "api-available"
        | "missing-level" => Value::from(NO_STATUS),
        "service-external" if shown == "<pending>" => Value::from(NO_STATUS),
        _ => shown,
    }
}

/// The cells of kinds that are seen less often.
fn rarer_cell(name: &str, object: &Value) -> String {
    let spec = &object["spec"];
    let status = &object["status"];
    match name {
        "csr-duration" => match spec["expirationSeconds"].as_i64() {
            Some(seconds) => human(seconds),
            None => "<none>".to_owned(),
        },
        "csr-condition" => csr_condition(object),
        "role" => format!(
            "{}/{}",
            text(&object["roleRef"]["kind"]),
            text(&object["roleRef"]["name"])
        ),
        "users" => subjects(object, "User"),
        "groups" => subjects(object, "Group"),
        "accounts" => subjects(object, "ServiceAccount"),
        "api-service" => match (
            spec["service"]["namespace"].as_str(),
            spec["service"]["name"].as_str(),
        ) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => "Local".to_owned(),
        },
        "api-available" => match condition(object, "Available") {
            Some(condition) if condition["status"] == "True" => "True".to_owned(),
            Some(condition) => format!("{} ({})", text(&condition["status"]), text(&condition["reason"])),
            None => "Unknown".to_owned(),
        },
        "controller" => list(&object["metadata"]["ownerReferences"])
            .iter()
            .find(|owner| owner["controller"] == true)
            .map_or_else(|| "<none>".to_owned(), controller),
        "scale-target" => format!(
            "{}/{}",
            text(&spec["scaleTargetRef"]["kind"]),
            text(&spec["scaleTargetRef"]["name"])
        ),
        "scale-metrics" => scale_metrics(object),
        "quota-requests" => quota(object, false),
        "quota-limits" => quota(object, true),
        "ingress-hosts" => or(
            some(
                list(&spec["rules"])
                    .iter()
                    .map(|rule| text(&rule["host"]))
                    .filter(|host| !host.is_empty()),
            ),
            "*",
        ),
        "ingress-address" => addresses(&status["loadBalancer"]["ingress"]),
        "ingress-ports" if list(&spec["tls"]).is_empty() => "80".to_owned(),
        "ingress-ports" => "80, 443".to_owned(),
        "class-parameters" => match spec["parameters"]["kind"].as_str() {
            Some(kind) => {
                let group = text(&spec["parameters"]["apiGroup"]);
                let dot = if group.is_empty() { "" } else { "." };
                format!("{kind}{dot}{group}/{}", text(&spec["parameters"]["name"]))
            }
            None => "<none>".to_owned(),
        },
        "missing-level" => match condition(object, "Dangling") {
            Some(condition) => text(&condition["status"]).to_owned(),
            None => "?".to_owned(),
        },
        "parent" => {
            let parent = &spec["parentRef"];
            format!(
                "{}/{}/{}",
                text(&parent["resource"]),
                text(&parent["namespace"]),
                text(&parent["name"])
            )
        }
        "cidrs" => joined(list(&spec["cidrs"]), ","),
        "modes" => or(joined(list(&spec["volumeLifecycleModes"]), ","), "<none>"),
        "token-requests" => or(
            joined(
                list(&spec["tokenRequests"])
                    .iter()
                    .map(|request| &request["audience"]),
                ",",
            ),
            "<unset>",
        ),
        _ => String::new(),
    }
}

fn containers(object: &Value) -> &[Value] {
    let template = if object["template"].is_object() {
        &object["template"]
    } else if object["spec"]["jobTemplate"].is_object() {
        &object["spec"]["jobTemplate"]["spec"]["template"]
    } else {
        &object["spec"]["template"]
    };
    list(&template["spec"]["containers"])
}

/// A map as `a=b,c=d`.
fn labels(value: &Value) -> String {
    let empty = Map::new();
    let map = value.as_object().unwrap_or(&empty);
    let pairs: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    or(pairs.join(","), "<none>")
}

fn selector(value: &Value) -> String {
    let typed = value.get("matchLabels").is_some() || value.get("matchExpressions").is_some();
    if !typed {
        return labels(value);
    }
    let selector = LabelSelector::from_value(value).map(|selector| selector.to_string());
    or(selector.unwrap_or_else(|_| "<error>".to_owned()), "<none>")
}

/// The first three of some words, and how many there are besides.
fn some<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    let shown = words.iter().take(3).copied().collect::<Vec<_>>().join(",");
    match words.len().checked_sub(3) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

fn joined_numbers<'a>(items: impl Iterator<Item = &'a Value>) -> String {
    items
        .filter_map(Value::as_i64)
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

fn access_modes(object: &Value) -> String {
    let modes = match list(&object["status"]["accessModes"]) {
        [] => list(&object["spec"]["accessModes"]),
        modes => modes,
    };
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    modes.iter().map(short).collect::<Vec<_>>().join(",")
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(&object["subsets"]) {
        for address in list(&subset["addresses"]) {
            let ip = text(&address["ip"]);
            match list(&subset["ports"]) {
                [] => all.push(ip.to_owned()),
                ports => all.extend(ports.iter().map(|port| format!("{ip}:{}", port["port"]))),
            }
        }
    }
    or(some(all.iter().map(String::as_str)), "<none>")
}

fn node(name: &str, object: &Value) -> String {
    let address = |kind: &str| {
        list(&object["status"]["addresses"])
            .iter()
            .find(|address| address["type"] == kind)
            .map_or_else(
                || "<none>".to_owned(),
                |address| text(&address["address"]).to_owned(),
            )
    };
    match name {
        "node-internal" => address("InternalIP"),
        "node-external" => address("ExternalIP"),
        "node-roles" => {
            let mut roles = Vec::new();
            for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
                if let Some(role) = key.strip_prefix("node-role.kubernetes.io/") {
                    roles.push(role);
                } else if key == "kubernetes.io/role" {
                    roles.push(text(value));
                }
            }
            roles.retain(|role| !role.is_empty());
            roles.sort_unstable();
            or(roles.join(","), "<none>")
        }
        _ => {
            let ready = match condition(object, "Ready").map(|condition| text(&condition["status"])) {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            };
            if object["spec"]["unschedulable"] == true {
                format!("{ready},SchedulingDisabled")
            } else {
                ready.to_owned()
            }
        }
    }
}

fn addresses(ingress: &Value) -> String {
    list(ingress)
        .iter()
        .map(|point| match text(&point["ip"]) {
            "" => text(&point["hostname"]),
            ip => ip,
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn service_external(object: &Value) -> String {
    let spec = &object["spec"];
    let external = joined(list(&spec["externalIPs"]), ",");
    match text(&spec["type"]) {
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        "LoadBalancer" => {
            let balancers = addresses(&object["status"]["loadBalancer"]["ingress"]);
            let all = [balancers, external]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(",");
            or(all, "<pending>")
        }
        _ => or(external, "<none>"),
    }
}

fn service_ports(object: &Value) -> String {
    let ports: Vec<String> = list(&object["spec"]["ports"])
        .iter()
        .map(|port| {
            let protocol = match text(&port["protocol"]) {
                "" => "TCP",
                protocol => protocol,
            };
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
                _ => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    or(ports.join(","), "<none>")
}

fn event(name: &str, object: &Value, now: Timestamp) -> String {
    let first = [&object["firstTimestamp"], &object["eventTime"]]
        .into_iter()
        .find_map(Value::as_str);
    let last = [&object["series"]["lastObservedTime"], &object["lastTimestamp"]]
        .into_iter()
        .find_map(Value::as_str)
        .or(first);
    let age = |time: Option<&str>| time.map_or_else(|| "<unknown>".to_owned(), |time| since(time, now));
    let involved = &object["involvedObject"];
    match name {
        "event-last" => age(last),
        "event-first" => age(first),
        "event-object" => format!(
            "{}/{}",
            text(&involved["kind"]).to_lowercase(),
            text(&involved["name"])
        ),
        _ => {
            let component = match text(&object["source"]["component"]) {
                "" => text(&object["reportingComponent"]),
                component => component,
            };
            let host = match text(&object["source"]["host"]) {
                "" => text(&object["reportingInstance"]),
                host => host,
            };
            [component, host]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

fn job(name: &str, object: &Value, now: Timestamp) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    let is = |kind: &str| condition(object, kind).is_some_and(|condition| condition["status"] == "True");
    match name {
        "job-completions" => {
            let done = status["succeeded"].as_i64().unwrap_or(0);
            match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
                (Some(wanted), _) => format!("{done}/{wanted}"),
                (None, Some(parallel)) if parallel > 1 => format!("{done}/1 of {parallel}"),
                (None, _) => format!("{done}/1"),
            }
        }
        "job-duration" => match (status["startTime"].as_str(), status["completionTime"].as_str()) {
            (None, _) => String::new(),
            (Some(start), None) => since(start, now),
            (Some(start), Some(end)) => end
                .parse()
                .map_or_else(|_| String::new(), |end| since(start, end)),
        },
        _ if is("Complete") => "Complete".to_owned(),
        _ if is("Failed") => "Failed".to_owned(),
        _ if !object["metadata"]["deletionTimestamp"].is_null() => "Terminating".to_owned(),
        _ if is("Suspended") => "Suspended".to_owned(),
        _ if is("FailureTarget") => "FailureTarget".to_owned(),
        _ if is("SuccessCriteriaMet") => "SuccessCriteriaMet".to_owned(),
        _ => "Running".to_owned(),
    }
}

fn csr_condition(object: &Value) -> String {
    let is = |kind: &str| condition(object, kind).is_some();
    let mut words = Vec::new();
    if is("Denied") {
        words.push("Denied");
    } else if is("Approved") {
        words.push("Approved");
    } else {
        words.push("Pending");
    }
    if is("Failed") {
        words.push("Failed");
    }
    if !text(&object["status"]["certificate"]).is_empty() {
        words.push("Issued");
    }
    words.join(",")
}

fn subjects(object: &Value, kind: &str) -> String {
    list(&object["subjects"])
        .iter()
        .filter(|subject| subject["kind"] == kind)
        .map(|subject| match (kind, text(&subject["namespace"])) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn controller(owner: &Value) -> String {
    let kind = text(&owner["kind"]).to_lowercase();
    match text(&owner["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text(&owner["name"])),
        None => format!("{kind}/{}", text(&owner["name"])),
    }
}

fn scale_metrics(object: &Value) -> String {
    let metrics: Vec<String> = list(&object["spec"]["metrics"])
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            let resource = &metric["resource"];
            let current =
                &object["status"]["currentMetrics"][index]["resource"]["current"]["averageUtilization"];
            let current = current
                .as_i64()
                .map_or_else(|| "<unknown>".to_owned(), |value| format!("{value}%"));
            match resource["target"]["averageUtilization"].as_i64() {
                Some(target) => format!("{}: {current}/{target}%", text(&resource["name"])),
                None => format!("{current}/<unknown>"),
            }
        })
        .collect();
    or(some(metrics.iter().map(String::as_str)), "<none>")
}

fn quota(object: &Value, limits: bool) -> String {
    let empty = Map::new();
    object["status"]["hard"]
        .as_object()
        .unwrap_or(&empty)
        .iter()
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, hard)| {
            let used = &object["status"]["used"][name.as_str()];
            format!("{name}: {}/{}", text(used), text(hard))
        })
        .collect::<Vec<_>>()
        .join(", ")
}
