//! What of an object does not belong into a template: the server's own fields, and values that a cluster allots.

use serde_json::Value;

/// Removes them. The UID stays, and so do the managers of fields.
pub(crate) fn trim(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    match (api_version, object["kind"].as_str().unwrap_or_default()) {
        ("v1", "Service") => trim_service(object),
        ("batch/v1", "Job") => trim_job(object),
        _ => {}
    }
}

fn trim_service(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    if spec
        .get("clusterIPs")
        .and_then(|all| all.get(0))
        .is_some_and(|first| first != "None")
    {
        spec.remove("clusterIPs");
    }
    let exposed = matches!(
        spec.get("type").and_then(Value::as_str),
        Some("NodePort" | "LoadBalancer")
    );
    if exposed {
        spec.remove("healthCheckNodePort");
    }
    if let Some(ports) = spec.get_mut("ports").and_then(Value::as_array_mut) {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
}

const CONTROLLER_UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

fn trim_job(job: &mut Value) {
    let Some(spec) = job.get_mut("spec") else { return };
    remove(spec.pointer_mut("/selector/matchLabels"), &CONTROLLER_UIDS);
    let labels = [
        CONTROLLER_UIDS[0],
        CONTROLLER_UIDS[1],
        "batch.kubernetes.io/job-name",
    ];
    remove(spec.pointer_mut("/template/metadata/labels"), &labels);
    remove(spec.pointer_mut("/template/metadata"), &["creationTimestamp"]);
}

fn remove(map: Option<&mut Value>, keys: &[&str]) {
    if let Some(map) = map.and_then(Value::as_object_mut) {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mut object: Value, expected: Value) {
        trim(&mut object);
        assert_eq!(object, expected);
    }

    #[test]
    fn servers_fields_go_and_the_uid_stays() {
        check(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "a", "uid": "u", "creationTimestamp": null, "resourceVersion": "1",
                "selfLink": "/x", "generation": 1, "labels": {"a": "b"},
            }, "data": {"k": "v"}, "status": {}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "labels": {"a": "b"}},
                "data": {"k": "v"}}),
        );
    }

    #[test]
    fn o9_a_service_keeps_no_allotted_addresses_or_ports() {
        let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": spec});
        check(
            service(
                json!({"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                "healthCheckNodePort": 30001, "externalTrafficPolicy": "Local",
                "ports": [{"port": 80, "nodePort": 30002}, {"port": 81}]}),
            ),
            service(
                json!({"type": "NodePort", "externalTrafficPolicy": "Local", "ports": [{"port": 80}, {"port": 81}]}),
            ),
        );
        let headless = json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": []});
        check(service(headless.clone()), service(headless));
    }

    #[test]
    fn o10_a_job_keeps_no_labels_of_its_controller() {
        let job = |selector: Value, labels: Value, metadata: Value| {
            let mut template = json!({"metadata": metadata, "spec": {}});
            template["metadata"]["labels"] = labels;
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {
                "selector": {"matchLabels": selector}, "template": template,
            }})
        };
        check(
            job(
                json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "mine": "1"}),
                json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
                    "batch.kubernetes.io/job-name": "j", "job-name": "j", "app": "x"}),
                json!({"creationTimestamp": null}),
            ),
            job(
                json!({"mine": "1"}),
                json!({"job-name": "j", "app": "x"}),
                json!({}),
            ),
        );
    }
}
