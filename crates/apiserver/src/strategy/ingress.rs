//! Ingresses: who is reached by which host and path.

use std::net::IpAddr;

use machinery::names;
use serde_json::{Value, json};

use super::fields::{items, named, port, present, text};
use super::{Generation, Strategy};
use crate::problems::Problems;

/// The rules of Ingresses.
pub(super) static INGRESS: Strategy = Strategy {
    create: |object| object["status"] = json!({"loadBalancer": {}}),
    validate: |object, problems| validate(&object["spec"], problems),
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

fn validate(spec: &Value, problems: &mut Problems) {
    let default = &spec["defaultBackend"];
    if default.is_null() && items(&spec["rules"]).next().is_none() {
        problems.invalid(
            "spec",
            &Value::Null,
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    if !default.is_null() {
        backend(default, "spec.defaultBackend", problems);
    }
    for (index, rule) in items(&spec["rules"]) {
        let path = format!("spec.rules[{index}]");
        host(&rule["host"], &format!("{path}.host"), problems);
        if rule["http"].is_null() {
            continue;
        }
        let path = format!("{path}.http.paths");
        if items(&rule["http"]["paths"]).next().is_none() {
            problems.required(path.as_str(), "");
        }
        for (index, found) in items(&rule["http"]["paths"]) {
            let path = format!("{path}[{index}]");
            http_path(found, &path, problems);
            backend(&found["backend"], &format!("{path}.backend"), problems);
        }
    }
    for (index, tls) in items(&spec["tls"]) {
        let path = format!("spec.tls[{index}]");
        for (index, name) in items(&tls["hosts"]) {
            domain(name, &format!("{path}.hosts[{index}]"), problems);
        }
        let secret = format!("{path}.secretName");
        named(
            &tls["secretName"],
            &secret,
            names::dns1123_subdomain_problems,
            problems,
        );
    }
    let class = &spec["ingressClassName"];
    named(
        class,
        "spec.ingressClassName",
        names::dns1123_subdomain_problems,
        problems,
    );
}

fn host(value: &Value, path: &str, problems: &mut Problems) {
    if text(value).parse::<IpAddr>().is_ok() {
        problems.invalid(path, value, "must be a DNS name, not an IP address");
    }
    domain(value, path, problems);
}

fn domain(value: &Value, path: &str, problems: &mut Problems) {
    let rules = if text(value).contains('*') {
        names::wildcard_subdomain_problems
    } else {
        names::dns1123_subdomain_problems
    };
    named(value, path, rules, problems);
}

fn http_path(found: &Value, path: &str, problems: &mut Problems) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let kind = &found["pathType"];
    if kind.is_null() {
        problems.required(format!("{path}.pathType"), "pathType must be specified");
        return;
    }
    if !TYPES.iter().any(|known| kind == known) {
        problems.unsupported(format!("{path}.pathType"), kind, &TYPES);
        return;
    }
    let value = Value::from(text(&found["path"]));
    let shown = text(&value);
    let path = format!("{path}.path");
    let free = kind == "ImplementationSpecific";
    if !shown.starts_with('/') {
        if !(free && shown.is_empty()) {
            problems.invalid(path, &value, "must be an absolute path");
        }
        return;
    }
    if free {
        return;
    }
    for part in ["//", "/./", "/../", "%2f", "%2F"] {
        if shown.contains(part) {
            problems.invalid(path.as_str(), &value, format!("must not contain '{part}'"));
        }
    }
    for end in ["/..", "/."] {
        if shown.ends_with(end) {
            problems.invalid(path.as_str(), &value, format!("cannot end with '{end}'"));
        }
    }
}

fn backend(value: &Value, path: &str, problems: &mut Problems) {
    let (service, resource) = (&value["service"], &value["resource"]);
    let nothing = Value::from("");
    match (service.is_null(), resource.is_null()) {
        (true, true) => problems.invalid(path, &nothing, "resource or service backend is required"),
        (false, false) => {
            problems.invalid(path, &nothing, "cannot set both resource and service backends");
        }
        (true, false) => {
            present(&resource["kind"], &format!("{path}.resource.kind"), "", problems);
            present(&resource["name"], &format!("{path}.resource.name"), "", problems);
        }
        (false, true) => {
            let at = format!("{path}.service");
            present(&service["name"], &format!("{at}.name"), "", problems);
            named(
                &service["name"],
                &format!("{at}.name"),
                names::dns1035_label_problems,
                problems,
            );
            let (name, number) = (&service["port"]["name"], &service["port"]["number"]);
            match (text(name).is_empty(), number.as_i64().unwrap_or(0) == 0) {
                (true, true) => problems.required(path, "port name or number is required"),
                (false, false) => {
                    problems.invalid(path, &nothing, "cannot set both port name & port number");
                }
                (false, true) => port(name, &format!("{at}.port.name"), problems),
                (true, false) => port(number, &format!("{at}.port.number"), problems),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn names_what_leads_nowhere() {
        let service = json!({"service": {"name": "s", "port": {"number": 80}}});
        let one = |host: &str, path: &str, kind: &str, backend: &Value| {
            json!({"spec": {"rules": [{"host": host, "http": {"paths": [
                {"path": path, "pathType": kind, "backend": backend}]}}]}})
        };
        let path = |path: &str| one("", path, "Prefix", &service);
        let to = |backend: Value| one("a.b", "/", "Exact", &backend);
        const PATH: &str = "spec.rules[0].http.paths[0].path";
        const BACKEND: &str = "spec.rules[0].http.paths[0].backend";
        check(
            INGRESS.validate,
            vec![
                (path("/a/.b/c.."), vec![]),
                (one("*.a.b", "", "ImplementationSpecific", &service), vec![]),
                (
                    one("a.b", "/a//../%2f", "ImplementationSpecific", &service),
                    vec![],
                ),
                (
                    json!({"spec": {"defaultBackend": service, "rules": [{"host": "a.b"}]}}),
                    vec![],
                ),
                (
                    json!({"spec": {}}),
                    vec![("spec", "either `defaultBackend` or `rules`")],
                ),
                (
                    json!({"spec": {"defaultBackend": {}}}),
                    vec![("spec.defaultBackend", "resource or service")],
                ),
                (
                    one("1.2.3.4", "/", "Exact", &service),
                    vec![("spec.rules[0].host", "must be a DNS name, not an IP address")],
                ),
                (
                    one("A_", "/", "Exact", &service),
                    vec![("spec.rules[0].host", "RFC 1123 subdomain")],
                ),
                (
                    one("*.A_", "/", "Exact", &service),
                    vec![("spec.rules[0].host", "wildcard")],
                ),
                (path("rel"), vec![(PATH, "must be an absolute path")]),
                (path(""), vec![(PATH, "must be an absolute path")]),
                (
                    one("", "rel", "ImplementationSpecific", &service),
                    vec![(PATH, "must be an absolute path")],
                ),
                (path("/a//b"), vec![(PATH, "must not contain '//'")]),
                (path("/a/../b"), vec![(PATH, "must not contain '/../'")]),
                (path("/a%2Fb"), vec![(PATH, "must not contain '%2F'")]),
                (path("/a/.."), vec![(PATH, "cannot end with '/..'")]),
                (
                    one("", "/", "X", &service),
                    vec![("spec.rules[0].http.paths[0].pathType", "Unsupported")],
                ),
                (
                    json!({"spec": {"rules": [{"http": {}}]}}),
                    vec![("spec.rules[0].http.paths", "Required value")],
                ),
                (
                    to(json!({})),
                    vec![(BACKEND, "resource or service backend is required")],
                ),
                (
                    to(json!({"service": {"name": "A_", "port": {}}})),
                    vec![
                        ("spec.rules[0].http.paths[0].backend.service.name", "DNS-1035"),
                        (BACKEND, "port name or number is required"),
                    ],
                ),
                (
                    to(json!({"service": {"name": "s", "port": {"name": "a", "number": 1}}})),
                    vec![(BACKEND, "cannot set both port name & port number")],
                ),
                (
                    to(json!({"service": {"name": "s", "port": {"number": 70_000}}})),
                    vec![(
                        "spec.rules[0].http.paths[0].backend.service.port.number",
                        "between 1 and 65535",
                    )],
                ),
                (
                    to(json!({"resource": {"kind": "K"}})),
                    vec![(
                        "spec.rules[0].http.paths[0].backend.resource.name",
                        "Required value",
                    )],
                ),
                (
                    json!({"spec": {"defaultBackend": service, "ingressClassName": "A_",
                        "tls": [{"hosts": ["A_"], "secretName": "B_"}]}}),
                    vec![
                        ("spec.tls[0].hosts[0]", "RFC 1123 subdomain"),
                        ("spec.tls[0].secretName", "RFC 1123 subdomain"),
                        ("spec.ingressClassName", "RFC 1123 subdomain"),
                    ],
                ),
            ],
        );
    }
}
