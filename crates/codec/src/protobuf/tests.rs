use base64::Engine as _;
use serde_json::json;

use super::table::Table;
use super::*;

/// Objects filled at random: their protobuf form and the JSON that Go prints for it (client-go v0.34.0).
const CASES: &str = include_str!("../../tests/data/protobuf-cases.jsonl");

fn cases() -> impl Iterator<Item = (String, Vec<u8>, Value)> {
    CASES.lines().map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(case["proto"].as_str().unwrap())
            .unwrap();
        (
            case["kind"].as_str().unwrap().to_owned(),
            bytes,
            case["json"].clone(),
        )
    })
}

/// Leaves out what says nothing: Go prints `null` for a required list that is empty, which is not on the wire.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.clone(), plain(value)));
            let said =
                |value: &Value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty());
            Value::Object(kept.filter(|(_, value)| said(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        // the reader of the fixture's JSON may be one unit off in a float's last place
        Value::Number(number) if number.is_f64() => json!(format!("{:.12}", number.as_f64().unwrap())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn every_kind_has_a_message() {
    let kinds: Vec<_> = Table::get().all_kinds().collect();
    assert!(kinds.len() > 300, "{}", kinds.len());
    for (version, kind) in [
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("v1", "Status"),
        ("policy/v1", "DeleteOptions"),
    ] {
        assert!(supports(version, kind), "{version} {kind}");
    }
    assert!(!supports("apps.clusternet.io/v1alpha1", "Subscription"));
    assert!(!supports("meta.k8s.io/v1", "Table"));
}

#[test]
fn decodes_as_go_prints() {
    let mut count = 0;
    for (kind, bytes, want) in cases() {
        let object = decode(&bytes).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(plain(&object), plain(&want), "{kind}");
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn what_is_encoded_decodes_the_same() {
    for (kind, bytes, want) in cases() {
        let object = decode(&bytes).unwrap();
        let encoded = encode(&object).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(decode(&encoded).unwrap(), object, "{kind}");
        // Go's own JSON, with its nulls, too
        let encoded = encode(&want).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(plain(&decode(&encoded).unwrap()), plain(&want), "{kind}");
    }
}

#[test]
fn keeps_what_was_set_to_zero() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": ""},
        "spec": {
            "replicas": 0, "paused": false, "unknown": 1, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"spec": {"containers": [{"name": "", "image": "", "env": [{"name": "A", "value": ""}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "securityContext": {"privileged": false}, "livenessProbe": {"httpGet": {"port": "http"}}}],
                "volumes": [{"name": "v", "emptyDir": {}}]}},
        },
    });
    let want = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {
            "replicas": 0, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"spec": {"containers": [{"name": "", "env": [{"name": "A"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "securityContext": {"privileged": false}, "livenessProbe": {"httpGet": {"port": "http"}}}],
                "volumes": [{"name": "v", "emptyDir": {}}]}},
        },
    });
    assert_eq!(decode(&encode(&object).unwrap()).unwrap(), want);
}

#[test]
fn what_go_leaves_out_is_left_out() {
    let quantities = Quantities {
        single: |value| value.as_str().map(|text| format!("one {text}")),
        of_resource: |value| (!value.is_null()).then(|| format!("res {value}")),
    };
    let pod =
        |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    let claim = |spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec});
    let crd = |schema: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    };
    let role =
        |rule: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [rule]});
    for (object, want) in [
        // texts, numbers, booleans, lists and maps; structs stay
        (
            pod(
                json!({"nodeName": "", "hostNetwork": false, "nodeSelector": {}, "tolerations": [],
                "securityContext": {"fsGroup": 0}, "dnsConfig": {"searches": [""]}, "hostAliases": [{"ip": ""}]}),
            ),
            pod(
                json!({"securityContext": {"fsGroup": 0}, "dnsConfig": {"searches": [""]}, "hostAliases": [{"ip": ""}]}),
            ),
        ),
        (
            pod(
                json!({"containers": [{"name": "", "imagePullPolicy": "", "command": [], "env": [{"name": "A", "value": ""}],
                "ports": [{"containerPort": 1, "hostPort": 0, "protocol": ""}], "resources": {}}]}),
            ),
            pod(
                json!({"containers": [{"name": "", "env": [{"name": "A"}], "ports": [{"containerPort": 1}], "resources": {}}]}),
            ),
        ),
        // wrong types are somebody else's to refuse
        (
            pod(json!({"nodeName": 0, "hostNetwork": "", "tolerations": {}, "containers": ""})),
            pod(json!({"nodeName": 0, "hostNetwork": "", "tolerations": {}, "containers": ""})),
        ),
        // quantities
        (
            pod(
                json!({"overhead": {"cpu": 1}, "volumes": [{"name": "v", "emptyDir": {"medium": "", "sizeLimit": "1"}}]}),
            ),
            pod(
                json!({"overhead": {"cpu": "res 1"}, "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "one 1"}}]}),
            ),
        ),
        // pointers tell empty from absent
        (
            claim(json!({"storageClassName": "", "volumeName": ""})),
            claim(json!({"storageClassName": ""})),
        ),
        // items and values stay, also in fields without a type
        (
            role(json!({"apiGroups": [""], "resources": [], "verbs": []})),
            role(json!({"apiGroups": [""], "verbs": []})),
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": ""}, "annotations": {},
                "generateName": ""}, "data": {"b": ""}, "binaryData": {}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"a": ""}}, "data": {"b": ""}}),
        ),
        (
            crd(
                json!({"title": "", "items": {"format": ""}, "additionalProperties": {"id": ""}, "default": {"a": ""},
                "properties": {"p": {"nullable": false}}, "required": []}),
            ),
            crd(
                json!({"items": {}, "additionalProperties": {}, "default": {"a": ""}, "properties": {"p": {}}}),
            ),
        ),
        // custom resources
        (
            json!({"apiVersion": "a/v1", "kind": "B", "metadata": {"generateName": ""}}),
            json!({"apiVersion": "a/v1", "kind": "B", "metadata": {"generateName": ""}}),
        ),
    ] {
        let mut normal = object.clone();
        normalize(&mut normal, quantities).unwrap();
        assert_eq!(normal, want, "{object}");
    }
    let mut bad = pod(json!({"containers": [{"resources": {"limits": {"cpu": null}}}]}));
    let error = normalize(&mut bad, quantities).unwrap_err().to_string();
    assert!(
        error.starts_with("spec.containers[0].resources.limits.cpu: quantities must"),
        "{error}"
    );
}

#[test]
fn times_lose_what_their_type_has_no_room_for() {
    let lease = |at: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": at}});
    for (written, read) in [
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05+01:00", "2026-01-02T02:04:05.000000Z"),
        ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.250000Z"),
    ] {
        assert_eq!(
            decode(&encode(&lease(written)).unwrap()).unwrap(),
            lease(read),
            "{written}"
        );
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"startTime": "2026-01-02T03:04:05.9Z"},
        "metadata": {"creationTimestamp": null}});
    let read = decode(&encode(&pod).unwrap()).unwrap();
    assert_eq!(read["status"]["startTime"], "2026-01-02T03:04:05Z");
    assert_eq!(read["metadata"], json!({}));
}

#[test]
fn a_list_without_items_says_so() {
    let list =
        json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []});
    assert_eq!(decode(&encode(&list).unwrap()).unwrap(), list);
}

#[test]
fn faults_name_the_field() {
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    for (spec, want) in [
        (
            json!({"containers": [{"name": 1}]}),
            "spec.containers[0].name: must be a string",
        ),
        (
            json!({"containers": [{"env": {}}]}),
            "spec.containers[0].env: must be a list",
        ),
        (
            json!({"nodeSelector": {"a": 1}}),
            "spec.nodeSelector.a: must be a string",
        ),
        (
            json!({"priority": 1_i64 << 40}),
            "spec.priority: must be an integer of 32 bits",
        ),
        (
            json!({"activeDeadlineSeconds": 1.5}),
            "spec.activeDeadlineSeconds: must be an integer of 64 bits",
        ),
        (json!([]), "spec: must be an object"),
    ] {
        assert_eq!(encode(&pod(spec)).unwrap_err().to_string(), want);
    }
    let error = encode(&json!({"apiVersion": "a/v1", "kind": "B"})).unwrap_err();
    assert_eq!(error.to_string(), "no kind \"B\" of \"a/v1\" has a protobuf form");
}

fn in_envelope(raw: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    wire::nested(&mut out, 1, |out| {
        wire::put_bytes(out, 1, b"v1");
        wire::put_bytes(out, 2, b"Pod");
    });
    wire::put_bytes(&mut out, 2, raw);
    out
}

#[test]
fn refuses_damage() {
    assert_eq!(decode(b"{}"), Err(Error::NoMagic));
    // a length of 2^31 - 1 for ten bytes
    let claim = [&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x07], &b"0123456789"[..]].concat();
    assert_eq!(decode(&in_envelope(&claim)), Err(Error::Damaged));
    assert_eq!(decode(&in_envelope(&[0x80; 12])), Err(Error::Damaged));
    let mut name = vec![0x0a, 0x04, 0x0a, 0x02];
    name.extend_from_slice(b"\xff\xfe");
    let error = decode(&in_envelope(&name)).unwrap_err();
    assert_eq!(error.to_string(), "metadata.name: must be valid UTF-8");
    // unknown fields of every wire type
    let unknown = [
        0xc0, 0x3e, 0x01, 0xc1, 0x3e, 0, 0, 0, 0, 0, 0, 0, 0, 0xc2, 0x3e, 0x01, 0x00, 0xc5, 0x3e, 0, 0, 0, 0,
    ];
    assert_eq!(
        decode(&in_envelope(&unknown)).unwrap(),
        json!({"apiVersion": "v1", "kind": "Pod"})
    );
    let groups = [0xc3, 0x3e].repeat(100_000);
    assert_eq!(decode(&in_envelope(&groups)), Err(Error::TooDeep));
}

#[test]
fn refuses_bottomless_schemas() {
    let mut schema = json!({"type": "object"});
    for _ in 0..50 {
        schema =
            json!({"properties": {"a": schema}, "items": {"type": "string"}, "additionalProperties": true});
    }
    let crd = |schema: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {"group": "a", "names": {"plural": "as", "kind": "A"}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    };
    let object = crd(schema.clone());
    assert_eq!(decode(&encode(&object).unwrap()).unwrap(), object);
    for _ in 0..300 {
        schema = json!({"not": schema});
    }
    assert_eq!(encode(&crd(schema)), Err(Error::TooDeep));
}

#[test]
fn watch_events_are_framed() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let mut stream = encode_watch_event("ADDED", &pod).unwrap().to_vec();
    let second = encode_watch_event("DELETED", &pod).unwrap();
    stream.extend_from_slice(&second[..second.len() - 1]);
    let first = next_watch_frame(&stream).unwrap().unwrap();
    assert_eq!((first.event, decode(first.object).unwrap()), ("ADDED", pod));
    assert_eq!(next_watch_frame(&stream[first.taken..]), Ok(None));
    assert_eq!(
        next_watch_frame(&[0xff, 0xff, 0xff, 0xff]),
        Err(Error::FrameTooLarge(0xffff_ffff))
    );
    // the event's type and object stand where metav1.WatchEvent has them
    assert_eq!(stream[4..11], *b"\x0a\x05ADDED");
}

#[test]
fn embedded_json_stays_json() {
    let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {
        "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {".": {}}}}]},
        "data": {"spec": {"template": [1, "a", null]}}, "revision": 3});
    assert_eq!(decode(&encode(&revision).unwrap()).unwrap(), revision);
}
