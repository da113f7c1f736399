//! Pods, and the pod templates of everything that makes pods.

use std::collections::BTreeSet;

use machinery::names;
use serde_json::{Value, json};

use super::fields::{items, labels, named, one_of, present, text};
use super::{Generation, Strategy, default_field, default_object, field_mut, items_mut, resources};
use crate::problems::Problems;

/// The rules of pods.
pub(super) static POD: Strategy = Strategy {
    default: |pod| {
        if pod["status"].is_object() {
            one_address(&mut pod["status"]);
        }
        if let Some(spec) = field_mut(pod, "spec") {
            default_spec(spec);
            default_field(spec, "enableServiceLinks", true);
            for field in ["containers", "initContainers"] {
                items_mut(spec, &[field]).for_each(request_limits);
            }
        }
    },
    create: create_pod,
    validate: |pod, problems| validate_spec(&pod["spec"], "spec", problems),
    validate_status: resources::status,
    validate_update: validate_change,
    generation: Generation::Spec,
    returns_deleted: true,
    ..Strategy::PLAIN
};

/// A pod's address is the first of its addresses, which it changes if both are given.
fn one_address(status: &mut Value) {
    let first = status["podIPs"][0]["ip"].clone();
    match (status["podIP"].as_str(), first.as_str()) {
        (Some(address), first) if first != Some(address) => {
            let list = json!([{"ip": address}]);
            status["podIPs"] = list;
        }
        (None, Some(_)) => status["podIP"] = first,
        _ => {}
    }
}

fn create_pod(pod: &mut Value) {
    let class = quality(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
    // What is no object here is refused once its types are looked at.
    let Some(spec) = field_mut(pod, "spec").filter(|spec| spec.is_object()) else {
        return;
    };
    default_object(
        spec,
        json!({"serviceAccountName": "default", "serviceAccount": "default", "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority"}),
    );
    let account = spec["serviceAccountName"].clone();
    spec["serviceAccount"] = account;
    let Some(list) = field_list(spec, "tolerations") else {
        return;
    };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|toleration| {
            (toleration["key"] == key || toleration["key"].is_null())
                && (toleration["effect"] == "NoExecute" || toleration["effect"].is_null())
        });
        if !tolerated {
            list.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

/// The list in a field, made an empty one where there is none.
pub(super) fn field_list<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Vec<Value>> {
    default_field(value, name, json!([]));
    value.get_mut(name)?.as_array_mut()
}

/// What a pod's requests and limits make of it when its node runs out of something.
pub(super) fn quality(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| spec[*field].as_array().into_iter().flatten())
        .collect();
    let has =
        |container: &Value, kind: &str, resource: &str| !container["resources"][kind][resource].is_null();
    let none = containers.iter().all(|container| {
        ["requests", "limits"]
            .iter()
            .all(|kind| !has(container, kind, "cpu") && !has(container, kind, "memory"))
    });
    if none {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|container| {
        ["cpu", "memory"].iter().all(|resource| {
            let limit = &container["resources"]["limits"][*resource];
            let request = &container["resources"]["requests"][*resource];
            !limit.is_null() && (request.is_null() || request == limit)
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

/// Fills in a pod's `spec`, also that of a template.
pub(super) fn default_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default_object(
        spec,
        json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "securityContext": {}, "schedulerName": "default-scheduler",
        }),
    );
    let host_network = spec["hostNetwork"] == true;
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items_mut(spec, &[field]) {
            default_container(container, host_network);
        }
    }
    for volume in items_mut(spec, &["volumes"]) {
        default_volume(volume);
    }
}

fn default_container(container: &mut Value, host_network: bool) {
    if !container.is_object() {
        return;
    }
    let image = container["image"].as_str().unwrap_or_default();
    let policy = if pulls_always(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    default_object(
        container,
        json!({
            "imagePullPolicy": policy, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "resources": {},
        }),
    );
    for port in items_mut(container, &["ports"]) {
        default_field(port, "protocol", "TCP");
        if host_network {
            let number = port["containerPort"].clone();
            default_field(port, "hostPort", number);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[probe].is_object() {
            default_object(
                &mut container[probe],
                json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
            );
            default_handler(&mut container[probe]);
        }
    }
    for hook in ["postStart", "preStop"] {
        if container["lifecycle"][hook].is_object() {
            default_handler(&mut container["lifecycle"][hook]);
        }
    }
    for variable in items_mut(container, &["env"]) {
        if variable["valueFrom"]["fieldRef"].is_object() {
            default_field(&mut variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
        }
    }
}

/// What a container may use at most it also asks for, unless it says otherwise. Holds for pods, not for templates.
fn request_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].clone();
    if let (Some(limits), Some(resources)) = (limits.as_object(), container.get_mut("resources")) {
        for (name, limit) in limits {
            if let Some(requests) = field_mut(resources, "requests") {
                default_field(requests, name, limit.clone());
            }
        }
    }
}

fn default_handler(handler: &mut Value) {
    if handler["httpGet"].is_object() {
        default_object(&mut handler["httpGet"], json!({"path": "/", "scheme": "HTTP"}));
    }
    if handler["grpc"].is_object() {
        default_field(&mut handler["grpc"], "service", "");
    }
}

/// Whether an image is named by its latest tag, or by none.
fn pulls_always(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => true,
    }
}

fn default_volume(volume: &mut Value) {
    if !volume.is_object() {
        return;
    }
    if volume
        .as_object()
        .is_some_and(|volume| volume.len() == 1 && volume.contains_key("name"))
    {
        volume["emptyDir"] = json!({});
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if volume[source].is_object() {
            default_field(&mut volume[source], "defaultMode", 0o644);
        }
    }
    for item in items_mut(volume, &["downwardAPI", "items"]) {
        if item["fieldRef"].is_object() {
            default_field(&mut item["fieldRef"], "apiVersion", "v1");
        }
    }
    for source in items_mut(volume, &["projected", "sources"]) {
        if source["serviceAccountToken"].is_object() {
            default_field(&mut source["serviceAccountToken"], "expirationSeconds", 3_600);
        }
        for item in items_mut(source, &["downwardAPI", "items"]) {
            if item["fieldRef"].is_object() {
                default_field(&mut item["fieldRef"], "apiVersion", "v1");
            }
        }
    }
    if volume["hostPath"].is_object() {
        default_field(&mut volume["hostPath"], "type", "");
    }
}

/// Refuses a `spec` that no node could run.
pub(super) fn validate_spec(spec: &Value, path: &str, problems: &mut Problems) {
    let containers = spec["containers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if containers.is_empty() {
        problems.required(format!("{path}.containers"), "");
    }
    let mut seen: Vec<&Value> = Vec::new();
    for field in ["containers", "initContainers"] {
        for (index, container) in spec[field].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            if seen.contains(&&container["name"]) {
                problems.duplicate(format!("{path}.name"), &container["name"]);
            }
            seen.push(&container["name"]);
            validate_container(container, &path, problems);
            ports(container, &path, problems);
        }
    }
    one_of(
        &spec["restartPolicy"],
        &format!("{path}.restartPolicy"),
        &["Always", "OnFailure", "Never"],
        problems,
    );
    one_of(
        &spec["dnsPolicy"],
        &format!("{path}.dnsPolicy"),
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        problems,
    );
    resources::deadline(
        &spec["activeDeadlineSeconds"],
        None,
        &format!("{path}.activeDeadlineSeconds"),
        problems,
    );
    labels(&spec["nodeSelector"], &format!("{path}.nodeSelector"), problems);
    for (field, rules) in [
        (
            "nodeName",
            names::dns1123_subdomain_problems as fn(&str) -> Vec<String>,
        ),
        ("hostname", names::dns1123_label_problems),
        ("subdomain", names::dns1123_label_problems),
    ] {
        named(&spec[field], &format!("{path}.{field}"), rules, problems);
    }
    volumes(spec, path, problems);
}

/// Refuses a container without a good name or an image.
pub(super) fn validate_container(container: &Value, path: &str, problems: &mut Problems) {
    match container["name"].as_str() {
        None | Some("") => problems.required(format!("{path}.name"), ""),
        Some(name) => {
            for problem in names::dns1123_label_problems(name) {
                problems.invalid(format!("{path}.name"), &container["name"], problem);
            }
        }
    }
    if container["image"].as_str().unwrap_or_default().is_empty() {
        problems.required(format!("{path}.image"), "");
    }
    one_of(
        &container["imagePullPolicy"],
        &format!("{path}.imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        problems,
    );
    variables(container, path, problems);
    resources::validate(container, path, problems);
    resources::security(container, path, problems);
}

fn ports(container: &Value, path: &str, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(&container["ports"]) {
        let path = format!("{path}.ports[{index}]");
        let name = format!("{path}.name");
        named(&port["name"], &name, names::port_name_problems, problems);
        if !text(&port["name"]).is_empty() && !seen.insert(text(&port["name"])) {
            problems.duplicate(name, &port["name"]);
        }
        let host = &port["hostPort"];
        if let Some(number) = host.as_i64().filter(|number| *number != 0) {
            for problem in names::port_number_problems(number) {
                problems.invalid(format!("{path}.hostPort"), host, problem);
            }
        }
        let number = &port["containerPort"];
        if number.is_null() || number == 0 {
            problems.required(format!("{path}.containerPort"), "");
        } else if !number
            .as_i64()
            .is_some_and(|number| (1..=65_535).contains(&number))
        {
            problems.invalid(
                format!("{path}.containerPort"),
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
    }
}

/// Refuses a volume of two sources, or of one that does not say which.
fn volume_source(volume: &Value, path: &str, problems: &mut Problems) {
    const NEEDED: [(&str, &str); 4] = [
        ("configMap", "name"),
        ("hostPath", "path"),
        ("persistentVolumeClaim", "claimName"),
        ("secret", "secretName"),
    ];
    named(
        &volume["name"],
        &format!("{path}.name"),
        names::dns1123_label_problems,
        problems,
    );
    let sources = volume.as_object().into_iter().flatten();
    for (index, (source, _)) in sources.filter(|(field, _)| *field != "name").enumerate() {
        if index > 0 {
            problems.forbidden(
                format!("{path}.{source}"),
                "may not specify more than 1 volume type",
            );
        }
    }
    for (source, field) in NEEDED {
        if !volume[source].is_null() {
            present(
                &volume[source][field],
                &format!("{path}.{source}.{field}"),
                "",
                problems,
            );
        }
    }
}

/// Refuses a variable without a name, or of two values.
fn variables(container: &Value, path: &str, problems: &mut Problems) {
    for (index, variable) in items(&container["env"]) {
        let path = format!("{path}.env[{index}]");
        let name = &variable["name"];
        present(name, &format!("{path}.name"), "", problems);
        if !text(name)
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
        {
            problems.invalid(
                format!("{path}.name"),
                name,
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            );
        }
        if !text(&variable["value"]).is_empty() && !variable["valueFrom"].is_null() {
            problems.invalid(
                format!("{path}.valueFrom"),
                &Value::from(""),
                "may not be specified when `value` is not empty",
            );
        }
    }
}

fn volumes(spec: &Value, path: &str, problems: &mut Problems) {
    let mut volumes: BTreeSet<&str> = BTreeSet::new();
    for (index, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        let name = &volume["name"];
        volume_source(volume, &format!("{path}.volumes[{index}]"), problems);
        match name.as_str() {
            None | Some("") => problems.required(format!("{path}.volumes[{index}].name"), ""),
            Some(text) => {
                if !volumes.insert(text) {
                    problems.duplicate(format!("{path}.volumes[{index}].name"), name);
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in spec[field].as_array().into_iter().flatten().enumerate() {
            for (place, mount) in container["volumeMounts"]
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
            {
                let path = format!("{path}.{field}[{index}].volumeMounts[{place}]");
                if !volumes.contains(mount["name"].as_str().unwrap_or_default()) {
                    problems.not_found(format!("{path}.name"), &mount["name"]);
                }
                if mount["mountPath"].as_str().unwrap_or_default().is_empty() {
                    problems.required(format!("{path}.mountPath"), "");
                }
            }
        }
    }
}

/// What of a pod's `spec` may change: images, a shorter deadline, further tolerations; and a node's name once.
fn validate_change(new: &Value, old: &Value, problems: &mut Problems) {
    let strip = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["containers", "initContainers"] {
            for container in items_mut(&mut spec, &[field]) {
                if let Some(container) = container.as_object_mut() {
                    container.remove("image");
                    container.remove("imagePullPolicy");
                }
            }
        }
        if let Some(spec) = spec.as_object_mut() {
            for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
                spec.remove(field);
            }
        }
        spec
    };
    let mut before = strip(old);
    if before["nodeName"].is_null()
        && let Some(node) = new["spec"].get("nodeName")
    {
        before["nodeName"] = node.clone();
    }
    let grace = |pod: &Value| pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(new) == Some(1) {
        before["terminationGracePeriodSeconds"] = json!(1);
    }
    resources::deadline(
        &new["spec"]["activeDeadlineSeconds"],
        Some(&old["spec"]["activeDeadlineSeconds"]),
        "spec.activeDeadlineSeconds",
        problems,
    );
    if strip(new) != before {
        problems.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_change};
    use super::*;

    #[test]
    fn fills_in_what_people_leave_out() {
        let mut spec = json!({
            "containers": [{"name": "a", "image": "nginx", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1"}}, "readinessProbe": {"httpGet": {"port": 80}}}],
            "volumes": [{"name": "tmp"}, {"name": "cfg", "configMap": {"name": "c"}}],
        });
        default_spec(&mut spec);
        let container = &spec["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert!(
            container["resources"]["requests"].is_null(),
            "templates keep what they say"
        );
        assert_eq!(container["readinessProbe"]["httpGet"]["scheme"], "HTTP");
        assert_eq!(container["readinessProbe"]["failureThreshold"], 3);
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["configMap"]["defaultMode"], 420);
        assert_eq!(spec["restartPolicy"], "Always");
        let once = spec.clone();
        default_spec(&mut spec);
        assert_eq!(spec, once, "defaults are filled in once");
        let mut pod = json!({"spec": spec});
        (POD.default)(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
    }

    #[test]
    fn names_every_problem() {
        let mut problems = Problems::default();
        validate_spec(
            &json!({"containers": [{"name": "A b", "imagePullPolicy": "Sometimes", "volumeMounts": [{"name": "x"}]}]}),
            "spec",
            &mut problems,
        );
        let fields: Vec<String> = problems
            .into_causes()
            .into_iter()
            .map(|cause| cause.field)
            .collect();
        assert_eq!(
            fields,
            [
                "spec.containers[0].name",
                "spec.containers[0].image",
                "spec.containers[0].imagePullPolicy",
                "spec.containers[0].volumeMounts[0].name",
                "spec.containers[0].volumeMounts[0].mountPath",
            ]
        );
    }

    #[test]
    fn a_pod_changes_little() {
        let pod = |field: &str, value: Value| {
            let mut pod = json!({"spec": {"activeDeadlineSeconds": 10, "terminationGracePeriodSeconds": 5}});
            pod["spec"][field] = value;
            pod
        };
        const DEADLINE: &str = "spec.activeDeadlineSeconds";
        let old = pod("activeDeadlineSeconds", json!(10));
        let hurried = pod("terminationGracePeriodSeconds", json!(-1));
        check_change(
            POD.validate_update,
            vec![
                (&old, pod("activeDeadlineSeconds", json!(5)), vec![]),
                (&old, pod("nodeName", json!("n")), vec![]),
                (
                    &old,
                    pod("activeDeadlineSeconds", json!(20)),
                    vec![(DEADLINE, "equal to previous value")],
                ),
                (
                    &old,
                    pod("activeDeadlineSeconds", json!(null)),
                    vec![(DEADLINE, "to nil value")],
                ),
                (
                    &old,
                    pod("activeDeadlineSeconds", json!(0)),
                    vec![(DEADLINE, "between 1 and 2147483647")],
                ),
                (
                    &old,
                    pod("terminationGracePeriodSeconds", json!(6)),
                    vec![("spec", "may not change fields")],
                ),
                (&hurried, pod("terminationGracePeriodSeconds", json!(1)), vec![]),
                (
                    &old,
                    pod("hostname", json!("h")),
                    vec![("spec", "may not change fields")],
                ),
            ],
        );
    }

    #[test]
    fn a_pods_address_is_its_first() {
        let both = |status: Value| {
            let mut pod = json!({"status": status, "spec": {}});
            (POD.default)(&mut pod);
            (pod["status"]["podIP"].clone(), pod["status"]["podIPs"].clone())
        };
        let one = json!([{"ip": "1.2.3.4"}]);
        let want = (json!("1.2.3.4"), one.clone());
        assert_eq!(both(json!({"podIP": "1.2.3.4"})), want);
        assert_eq!(both(json!({"podIPs": one})), want);
        assert_eq!(
            both(json!({"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.5"}]})),
            want
        );
        assert_eq!(both(json!({})), (Value::Null, Value::Null));
    }

    #[test]
    fn names_what_no_node_could_run() {
        let pod = |field: &str, value: Value| {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
            pod["spec"][field] = value;
            pod
        };
        let ports = |ports: Value| pod("containers", json!([{"name": "c", "image": "i", "ports": ports}]));
        check(
            POD.validate,
            vec![
                (
                    pod("activeDeadlineSeconds", json!(0)),
                    vec![("spec.activeDeadlineSeconds", "between 1")],
                ),
                (
                    pod("nodeSelector", json!({"a": "x y"})),
                    vec![("spec.nodeSelector", "a valid label")],
                ),
                (
                    pod("nodeName", json!("A_")),
                    vec![("spec.nodeName", "RFC 1123 subdomain")],
                ),
                (
                    pod("hostname", json!("a.b")),
                    vec![("spec.hostname", "must not contain dots")],
                ),
                (
                    ports(json!([{"containerPort": 1, "name": "UPPER"}])),
                    vec![
                        ("spec.containers[0].ports[0].name", "alpha-numeric"),
                        ("spec.containers[0].ports[0].name", "at least one letter"),
                    ],
                ),
                (
                    ports(
                        json!([{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a", "hostPort": 70_000}]),
                    ),
                    vec![
                        ("spec.containers[0].ports[1].name", "Duplicate value"),
                        ("spec.containers[0].ports[1].hostPort", "between 1 and 65535"),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn classes_pods_by_their_requests() {
        let check = |resources: Value, want: &str| {
            assert_eq!(quality(&json!({"containers": [{"resources": resources}]})), want);
        };
        check(json!({}), "BestEffort");
        check(json!({"requests": {"cpu": "1"}}), "Burstable");
        check(json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed");
    }
}
