//! What a container may use: its requests, its limits and its rights on the node.

use machinery::names;
use serde_json::{Map, Value};

use super::fields::{amount, items, one_of, text};
use crate::problems::Problems;

/// What Kubernetes itself gives containers, besides huge pages.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";

/// Refuses amounts that are none, and requests above their limits.
pub(super) fn validate(container: &Value, path: &str, problems: &mut Problems) {
    let none = Map::new();
    let of = |kind: &str| container["resources"][kind].as_object().unwrap_or(&none);
    let (limits, requests) = (of("limits"), of("requests"));
    let path = format!("{path}.resources");
    for (kind, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, value) in amounts {
            let path = format!("{path}.{kind}[{name}]");
            resource_name(name, &path, problems);
            let Some(found) = amount(value) else { continue };
            if found.signum() < 0 {
                problems.invalid(path, value, "must be greater than or equal to 0");
            } else if name.contains('/') && found.milli() % 1_000 != 0 {
                problems.invalid(path, value, "must be an integer");
            }
        }
    }
    for (name, value) in requests {
        let path = format!("{path}.requests");
        let limit = limits.get(name).and_then(amount);
        match (amount(value), limit) {
            (Some(asked), Some(limit)) if shares(name) && asked > limit => problems.invalid(
                path,
                value,
                format!("must be less than or equal to {name} limit of {limit}"),
            ),
            (Some(asked), Some(limit)) if !shares(name) && asked != limit => {
                problems.invalid(path, value, format!("must be equal to {name} limit of {limit}"))
            }
            (Some(_), None) if !shares(name) => problems.required(
                path.replace(".requests", ".limits"),
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
    }
}

/// Whether containers may together have limits above what there is.
fn shares(name: &str) -> bool {
    !name.contains('/') && !name.starts_with(HUGE_PAGES)
}

fn resource_name(name: &str, path: &str, problems: &mut Problems) {
    let value = Value::from(name);
    for problem in names::qualified_name_problems(name) {
        problems.invalid(path, &value, problem);
    }
    if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with(HUGE_PAGES) {
        problems.invalid(path, &value, "must be a standard resource for containers");
    }
}

/// Refuses rights that contradict each other.
pub(super) fn security(container: &Value, path: &str, problems: &mut Problems) {
    let rights = &container["securityContext"];
    let path = format!("{path}.securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        if rights[field]
            .as_i64()
            .is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id))
        {
            problems.invalid(
                format!("{path}.{field}"),
                &rights[field],
                "must be between 0 and 2147483647, inclusive",
            );
        }
    }
    one_of(
        &rights["procMount"],
        &format!("{path}.procMount"),
        &["Default", "Unmasked"],
        problems,
    );
    if rights["allowPrivilegeEscalation"] != false {
        return;
    }
    if rights["privileged"] == true {
        problems.invalid(
            path.as_str(),
            rights,
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        );
    }
    for (_, added) in items(&rights["capabilities"]["add"]) {
        if added == "CAP_SYS_ADMIN" {
            problems.invalid(
                path.as_str(),
                rights,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
}

/// Refuses a deadline that is none; a pod's may only be brought forward.
pub(super) fn deadline(new: &Value, old: Option<&Value>, path: &str, problems: &mut Problems) {
    let seconds = new.as_i64();
    if seconds.is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        problems.invalid(path, new, "must be between 1 and 2147483647, inclusive");
        return;
    }
    match (old.and_then(Value::as_i64), seconds) {
        (Some(_), None) => {
            problems.invalid(path, new, "must not update from a positive integer to nil value")
        }
        (Some(before), Some(after)) if after > before => {
            problems.invalid(path, new, "must be less than or equal to previous value");
        }
        _ => {}
    }
}

/// Refuses addresses of a pod that are none.
pub(super) fn status(pod: &Value, problems: &mut Problems) {
    const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let status = &pod["status"];
    let mut families = [0, 0];
    for (index, found) in items(&status["podIPs"]) {
        match text(&found["ip"]).parse::<std::net::IpAddr>() {
            Ok(address) => families[usize::from(address.is_ipv6())] += 1,
            Err(_) => problems.invalid(format!("status.podIPs[{index}]"), &found["ip"], ADDRESS),
        }
    }
    if families.iter().any(|count| *count > 1) {
        problems.invalid(
            "status.podIPs",
            &status["podIPs"],
            "may specify no more than one IP for each IP family",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::check;
    use super::*;

    fn validate_one(container: &Value, problems: &mut Problems) {
        validate(container, "c", problems);
        security(container, "c", problems);
    }

    #[test]
    fn containers_use_what_they_may() {
        let using =
            |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        let rights = |rights: Value| json!({"securityContext": rights});
        const REQUESTS: &str = "c.resources.requests";
        check(
            validate_one,
            vec![
                (
                    using(
                        json!({"cpu": "1", "a.b/c": 1}),
                        json!({"cpu": 1, "memory": "1Gi", "a.b/c": "1"}),
                    ),
                    vec![],
                ),
                (
                    using(json!({"cpu": "2"}), json!({"cpu": "1"})),
                    vec![(REQUESTS, "less than or equal to cpu limit of 1")],
                ),
                (
                    using(json!({"cpu": "-1"}), json!({})),
                    vec![("c.resources.requests[cpu]", "greater than or equal to 0")],
                ),
                (
                    using(json!({"a.b/c": "1"}), json!({"a.b/c": "2"})),
                    vec![(REQUESTS, "equal to a.b/c limit of 2")],
                ),
                (
                    using(json!({"a.b/c": "1"}), json!({})),
                    vec![("c.resources.limits", "Limit must be set")],
                ),
                (
                    using(json!({}), json!({"a.b/c": "0.5"})),
                    vec![("c.resources.limits[a.b/c]", "must be an integer")],
                ),
                (
                    using(json!({"foo": "1"}), json!({})),
                    vec![("c.resources.requests[foo]", "standard resource for containers")],
                ),
                (
                    rights(json!({"privileged": true, "allowPrivilegeEscalation": true})),
                    vec![],
                ),
                (
                    rights(json!({"privileged": true, "allowPrivilegeEscalation": false})),
                    vec![(
                        "c.securityContext",
                        "`allowPrivilegeEscalation` to false and `privileged` to true",
                    )],
                ),
                (
                    rights(
                        json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
                    ),
                    vec![("c.securityContext", "CAP_SYS_ADMIN")],
                ),
                (
                    rights(json!({"runAsUser": -1})),
                    vec![("c.securityContext.runAsUser", "between 0 and 2147483647")],
                ),
                (
                    rights(json!({"procMount": "X"})),
                    vec![("c.securityContext.procMount", "Unsupported value")],
                ),
            ],
        );
    }

    #[test]
    fn a_pod_has_real_addresses() {
        let with = |addresses: Value| json!({"status": {"podIPs": addresses}});
        check(
            status,
            vec![
                (with(json!([{"ip": "1.2.3.4"}, {"ip": "fd00::1"}])), vec![]),
                (
                    with(json!([{"ip": "bad"}])),
                    vec![("status.podIPs[0]", "must be a valid IP address")],
                ),
                (
                    with(json!([{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}])),
                    vec![("status.podIPs", "no more than one IP for each IP family")],
                ),
            ],
        );
    }
}
