//! Built-in kinds: defaults, rules, subresources and forms.

use serde_json::{Value, json};

use crate::harness::{Harness, namespace};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.25", "ports": [{"containerPort": 80}]}]}}}})
}

#[tokio::test]
async fn fields_of_a_wrong_type_are_the_clients_fault() {
    let it = Harness::new().await;
    let pod_of = |spec: Value| json!({"spec": {"template": spec}});
    for (group, plural) in [
        ("api/v1", "pods"),
        ("api/v1", "services"),
        ("api/v1", "secrets"),
        ("api/v1", "persistentvolumeclaims"),
        ("apis/apps/v1", "deployments"),
        ("apis/apps/v1", "statefulsets"),
        ("apis/batch/v1", "jobs"),
        ("apis/batch/v1", "cronjobs"),
        ("apis/autoscaling/v1", "horizontalpodautoscalers"),
        ("apis/autoscaling/v2", "horizontalpodautoscalers"),
        ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ] {
        for mut odd in [
            json!({"spec": "x", "data": "x", "subjects": "x"}),
            json!({"spec": ["x"], "data": ["x"], "subjects": {"a": "x"}}),
            json!({"spec": {"ports": "x", "containers": ["x"], "volumes": 1}, "data": 1, "roleRef": "x"}),
            json!({"metadata": {"labels": "x", "annotations": ["x"]}}),
            pod_of(json!("x")),
            pod_of(json!({"metadata": "x"})),
            pod_of(json!({"metadata": {"labels": "x"}, "spec": "x"})),
        ] {
            odd["metadata"]["name"] = json!("a");
            let answer = it
                .post(&format!("/{group}/namespaces/default/{plural}"), odd.clone())
                .await;
            let code = answer.status.as_u16();
            // What a kind does not know is left out, so that some of it is accepted.
            assert!(code < 500, "{code} to {odd} as {plural}");
        }
    }
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": "x"}}}});
    it.post("/apis/batch/v1/namespaces/default/jobs", job)
        .await
        .expect(400);
    let pod = json!({"metadata": {"name": "p"}, "spec": "x"});
    it.post("/api/v1/namespaces/default/pods", pod).await.expect(400);
}

#[tokio::test]
async fn deployments_get_their_defaults_and_generations() {
    let it = Harness::new().await;
    let made = it.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    assert_eq!(made["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(
        made["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"],
        "IfNotPresent"
    );
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Update");
    let uri = format!("{DEPLOYMENTS}/d");
    let same = it
        .patch(&uri, "merge", json!({"spec": {"replicas": 2}}))
        .await
        .expect(200);
    assert_eq!(same, made, "nothing changed");
    let changed = it
        .patch(
            &uri,
            "strategic",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.26"}]}}}}),
        )
        .await
        .expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    let container = &changed["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:1.26");
    assert_eq!(container["ports"][0]["containerPort"], 80, "merged by name");
    let changed = it
        .patch(
            &uri,
            "json",
            json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]),
        )
        .await
        .expect(200);
    assert_eq!(changed["spec"]["replicas"], 5);
    it.patch(
        &uri,
        "json",
        json!([{"op": "test", "path": "/spec/replicas", "value": 1}]),
    )
    .await
    .expect(422);
    it.patch(&uri, "text/plain", json!({})).await.expect(415);
    let scale = it.get(&format!("{uri}/scale")).await.expect(200);
    assert_eq!(scale["status"]["selector"], "app=d");
    let status = it
        .patch(
            &uri,
            "merge",
            json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
        )
        .await
        .expect(422);
    assert!(
        status["message"].as_str().unwrap().contains("field is immutable"),
        "{status}"
    );
    let mut wrong = deployment("w");
    wrong["spec"]["replicas"] = json!("three");
    it.post(DEPLOYMENTS, wrong).await.expect(400);
    let mut unknown = deployment("u");
    unknown["spec"]["replica"] = json!(1);
    let status = it
        .post(&format!("{DEPLOYMENTS}?fieldValidation=Strict"), unknown)
        .await
        .expect(400);
    assert_eq!(
        status["message"],
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.replica\""
    );
}

#[tokio::test]
async fn apply_creates_merges_and_reports_conflicts() {
    let it = Harness::new().await;
    let uri = format!("{DEPLOYMENTS}/d");
    let made = it
        .patch(&format!("{uri}?fieldManager=one"), "apply", deployment("d"))
        .await
        .expect(201);
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "one");
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    let again = it
        .patch(&format!("{uri}?fieldManager=one"), "apply", deployment("d"))
        .await
        .expect(200);
    assert_eq!(again, made, "applying again changes nothing");
    let mut other = deployment("d");
    other["spec"]["replicas"] = json!(7);
    let status = it
        .patch(&format!("{uri}?fieldManager=two"), "apply", other.clone())
        .await
        .expect(409);
    assert!(
        status["message"].as_str().unwrap().contains(".spec.replicas"),
        "{status}"
    );
    let forced = it
        .patch(&format!("{uri}?fieldManager=two&force=true"), "apply", other)
        .await
        .expect(200);
    assert_eq!(forced["spec"]["replicas"], 7);
    it.patch(&uri, "apply", deployment("d")).await.expect(422);
    // A part of what is not there is not made.
    let part = "/api/v1/namespaces/default/pods/none/ephemeralcontainers?fieldManager=one";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "none"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    it.patch(part, "apply", pod).await.expect(404);
}

#[tokio::test]
async fn who_applies_nothing_any_longer_manages_nothing() {
    let it = Harness::new().await;
    let uri = "/api/v1/namespaces/default/configmaps/c";
    let map = |value: Option<&str>| {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        if let Some(value) = value {
            map["data"] = json!({"k": value});
        }
        map
    };
    let apply = async |manager: &str, value: Option<&str>| {
        let uri = format!("{uri}?fieldManager={manager}");
        it.patch(&uri, "apply", map(value)).await
    };
    apply("one", Some("a")).await.expect(201);
    let left = apply("one", None).await.expect(200);
    assert!(left["data"].is_null(), "{left}");
    assert!(left["metadata"]["managedFields"].is_null(), "{left}");
    let taken = apply("two", Some("b")).await.expect(200);
    assert_eq!(taken["metadata"]["managedFields"][0]["manager"], "two", "{taken}");
}

#[tokio::test]
async fn evictions_are_tried_and_kept_to_their_preconditions() {
    let it = Harness::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = it.post(pods, pod).await.expect(201);
    let evict = async |query: &str, options: Value| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
            "deleteOptions": options});
        it.post(&format!("{pods}/p/eviction{query}"), eviction).await
    };
    for (query, options, code) in [
        ("?dryRun=All", json!(null), 201),
        ("", json!({"dryRun": ["All"]}), 201),
        ("", json!({"preconditions": {"uid": "other"}}), 409),
        ("", json!({"preconditions": {"resourceVersion": "1"}}), 409),
        ("", json!({"propagationPolicy": "Sideways"}), 422),
        ("", json!([]), 400),
    ] {
        evict(query, options).await.expect(code);
        it.get(&format!("{pods}/p")).await.expect(200);
    }
    let of_another = json!({"metadata": {"name": "other"}});
    it.post(&format!("{pods}/p/eviction"), of_another)
        .await
        .expect(400);
    it.get(&format!("{pods}/p")).await.expect(200);
    let found = json!({"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}});
    evict("", found).await.expect(201);
    it.get(&format!("{pods}/p")).await.expect(404);
}

#[tokio::test]
async fn services_share_no_address() {
    let it = Harness::new().await;
    let uri = "/api/v1/namespaces/default/services";
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let first = it.post(uri, service("a")).await.expect(201);
    let second = it.post(uri, service("b")).await.expect(201);
    let address = |service: &Value| service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address(&first).starts_with("10.96."));
    assert_ne!(address(&first), address(&second));
    assert_ne!(
        first["spec"]["ports"][0]["nodePort"],
        second["spec"]["ports"][0]["nodePort"]
    );
    let mut taken = service("c");
    taken["spec"]["clusterIP"] = json!(address(&first));
    it.post(uri, taken.clone()).await.expect(422);
    it.post(uri, service("a")).await.expect(409);
    it.post(&format!("{uri}?dryRun=All"), service("dry"))
        .await
        .expect(201);
    it.post(uri, taken.clone()).await.expect(422);
    let gone = it.delete(&format!("{uri}/a")).await.expect(200);
    assert_eq!(gone["kind"], "Service", "services answer with themselves");
    it.post(uri, taken).await.expect(201);
    let plain = json!({"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "name": "x"}]}});
    it.put(&format!("{uri}/b"), plain).await.expect(422);
    let plain = json!({"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}});
    let kept = it.put(&format!("{uri}/b"), plain).await.expect(200);
    assert_eq!(address(&kept), address(&second));
}

#[tokio::test]
async fn some_namespaces_may_not_be_deleted() {
    let it = Harness::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        let refused = it.delete(&format!("/api/v1/namespaces/{name}")).await.expect(403);
        let why = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(refused["message"], json!(why));
    }
}

#[tokio::test]
async fn namespaces_end_in_two_steps() {
    let it = Harness::new().await;
    let made = it.post("/api/v1/namespaces", namespace("n")).await.expect(201);
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!(made["status"]["phase"], "Active");
    let going = it.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(going["status"]["phase"], "Terminating");
    let status = it
        .post(
            "/api/v1/namespaces/n/configmaps",
            json!({"metadata": {"name": "late"}}),
        )
        .await
        .expect(403);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("because it is being terminated"),
        "{status}"
    );
    let mut done = going;
    done["spec"]["finalizers"] = json!([]);
    it.put("/api/v1/namespaces/n/finalize", done).await.expect(200);
    it.get("/api/v1/namespaces/n").await.expect(404);
}

#[tokio::test]
async fn objects_come_as_tables_metadata_and_protobuf() {
    let it = Harness::new().await;
    it.post(DEPLOYMENTS, deployment("d")).await.expect(201);
    let table = it.get_as(DEPLOYMENTS, TABLE).await.expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][1]["name"], "Ready");
    assert_eq!(table["rows"][0]["cells"][1], "0/2");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = it.get_as(DEPLOYMENTS, partial).await.expect(200);
    assert_eq!(list["items"][0]["metadata"]["name"], "d");
    assert!(list["items"][0]["spec"].is_null());
    let protobuf = "application/vnd.kubernetes.protobuf";
    for uri in [format!("{DEPLOYMENTS}/d"), DEPLOYMENTS.to_owned()] {
        let answer = it.get_as(&uri, protobuf).await;
        assert_eq!(answer.headers["content-type"], protobuf);
        let decoded = codec::protobuf::decode(&answer.bytes).unwrap();
        let json = it.get(&uri).await.expect(200);
        assert_eq!(decoded["kind"], json["kind"]);
        assert_eq!(
            decoded["metadata"]["resourceVersion"],
            json["metadata"]["resourceVersion"]
        );
    }
    let body = codec::protobuf::encode(&deployment("p")).unwrap().to_vec();
    let made = it
        .send("POST", DEPLOYMENTS, &[("content-type", protobuf)], body)
        .await
        .expect(201);
    assert_eq!(made["spec"]["replicas"], 2);
    let status = it.get_as(&format!("{DEPLOYMENTS}/none"), protobuf).await;
    assert_eq!(
        codec::protobuf::decode(&status.bytes).unwrap()["reason"],
        "NotFound"
    );
    let yaml = it.get_as(&format!("{DEPLOYMENTS}/d"), "application/yaml").await;
    assert!(String::from_utf8_lossy(&yaml.bytes).contains("kind: Deployment"));
}

#[tokio::test]
async fn events_are_one_set_of_objects_in_two_groups() {
    let it = Harness::new().await;
    it.post(
        "/apis/events.k8s.io/v1/namespaces/default/events",
        json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "hello", "reason": "R",
            "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "action": "A",
            "reportingController": "c", "reportingInstance": "i"}),
    )
    .await
    .expect(201);
    let core = it
        .get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")
        .await
        .expect(200);
    assert_eq!(core["items"][0]["message"], "hello");
    assert_eq!(core["items"][0]["apiVersion"], "v1");
    let new = it
        .get("/apis/events.k8s.io/v1/namespaces/default/events/e")
        .await
        .expect(200);
    assert_eq!(new["note"], "hello");
}

#[tokio::test]
async fn the_server_says_what_it_serves() {
    let it = Harness::new().await;
    assert_eq!(it.get("/version").await.expect(200)["minor"], "34");
    assert_eq!(it.get("/api").await.expect(200)["versions"], json!(["v1"]));
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let answer = it.get_as("/apis", aggregated).await;
    assert_eq!(answer.headers["content-type"], aggregated);
    assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
    let apps = it.get("/apis/apps/v1").await.expect(200);
    assert_eq!(apps["groupVersion"], "apps/v1");
    it.get("/apis/none").await.expect(404);
    let index = it.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = it.get(&url).await;
    let tag = answer.headers["etag"].to_str().unwrap().to_owned();
    assert!(url.ends_with(tag.trim_matches('"')), "{url}: {tag}");
    let again = it.send("GET", &url, &[("if-none-match", &tag)], Vec::new()).await;
    assert_eq!((again.status.as_u16(), again.bytes.len()), (304, 0));
    let document = answer.expect(200);
    assert!(document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let old = it.get("/openapi/v2").await.expect(200);
    assert!(old["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = it.get_as("/openapi/v2", protobuf).await;
    assert_eq!(
        answer.headers["content-type"],
        protobuf.replace('@', ".").as_str()
    );
    assert_eq!(answer.bytes.as_ref(), codec::openapi::encode(&old));
    let known = [
        ("accept", protobuf),
        ("if-none-match", answer.headers["etag"].to_str().unwrap()),
    ];
    let again = it.send("GET", "/openapi/v2", &known, Vec::new()).await;
    assert_eq!((again.status.as_u16(), again.bytes.len()), (304, 0));
    it.get_as("/openapi/v2", "text/html").await.expect(406);
    assert_eq!(it.get("/healthz").await.bytes.as_ref(), b"ok");
    assert!(it.get("/metrics").await.bytes.len() > 100);
    it.get("/nothing").await.expect(404);
}

#[tokio::test]
async fn kubectl_finds_what_it_prints() {
    let it = Harness::new().await;
    let mut object = deployment("d");
    object["metadata"]["annotations"] = json!({});
    object["metadata"]["labels"] = json!({"a": "b"});
    let made = it.post(DEPLOYMENTS, object).await.expect(201);
    assert!(made["metadata"].get("annotations").is_none(), "{made}");
    let uri = format!("{DEPLOYMENTS}/d");
    let bare = it
        .patch(&uri, "merge", json!({"metadata": {"labels": {"a": null}}}))
        .await
        .expect(200);
    assert!(bare["metadata"].get("labels").is_none(), "{bare}");

    // Of an invalid patch kubectl prints only the causes.
    let failed = it
        .patch(&uri, "json", json!([{"op": "remove", "path": "/none"}]))
        .await
        .expect(422);
    assert_eq!(failed["details"]["causes"][0]["field"], "patch", "{failed}");

    let tables = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = it.get_as(&format!("{uri}/scale"), tables).await.expect(200);
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);

    // A short name for two resources makes kubectl warn.
    let groups = [
        it.get("/api/v1").await.expect(200),
        it.get("/apis/events.k8s.io/v1").await.expect(200),
    ];
    let short: Vec<&Value> = groups
        .iter()
        .flat_map(|group| group["resources"].as_array().unwrap())
        .filter(|resource| resource["shortNames"] == json!(["ev"]))
        .collect();
    assert_eq!(short.len(), 1);
}

#[tokio::test]
async fn signing_requests_say_who_asks() {
    let it = Harness::new().await;
    let made = it
        .post(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            json!({"metadata": {"name": "c"}, "spec": {"request": "AA==", "usages": ["client auth"],
                "signerName": "example.com/s", "username": "somebody-else", "groups": ["system:masters"]}}),
        )
        .await
        .expect(201);
    assert_ne!(made["spec"]["username"], "somebody-else");
    assert!(!made["spec"]["username"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn hostile_bodies_get_short_answers() {
    let it = Harness::new().await;
    let keys: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("!{n}"), json!(""))).collect();
    let maps = "/api/v1/namespaces/default/configmaps";
    let refused = it
        .post(maps, json!({"metadata": {"name": "m"}, "data": keys}))
        .await
        .expect(422);
    assert_eq!(refused["details"]["causes"].as_array().unwrap().len(), 101);

    let mut unknown: serde_json::Map<String, Value> =
        (0..10_000).map(|n| (format!("u{n}"), json!(1))).collect();
    unknown.insert("metadata".to_owned(), json!({"name": "m"}));
    let made = it.post(maps, Value::Object(unknown)).await;
    let size: usize = made
        .headers
        .get_all("warning")
        .iter()
        .map(http::HeaderValue::len)
        .sum();
    assert!(
        made.status == 201 && (1..8_192).contains(&size),
        "{} {size}",
        made.status
    );

    // Merging lists takes no time that grows with their square.
    let items = |letter: &str| -> Vec<Value> {
        (0..10_000)
            .map(|n| json!({"name": format!("{letter}{n}"), "value": "v"}))
            .collect()
    };
    let mut object = deployment("d");
    let container = object["spec"]["template"]["spec"]["containers"][0]["name"].clone();
    object["spec"]["template"]["spec"]["containers"][0]["env"] = Value::from(items("a"));
    it.post(DEPLOYMENTS, object).await.expect(201);
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": container, "env": items("b")}]}}}});
    let merged = it
        .patch(&format!("{DEPLOYMENTS}/d"), "strategic", patch)
        .await
        .expect(200);
    let env = merged["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    assert_eq!(env.map(Vec::len), Some(20_000));
}

#[tokio::test]
async fn autoscalers_are_one_set_of_objects_in_two_versions() {
    let it = Harness::new().await;
    let old = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let made = it
        .post(
            old,
            json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
                "scaleTargetRef": {"kind": "Deployment", "name": "d"}}}),
        )
        .await
        .expect(201);
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 50, "{made}");
    let new = it.get(&old.replace("v1", "v2")).await.expect(200);
    let target = &new["items"][0]["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 50, "{new}");
    let versions = it.get("/apis/autoscaling").await.expect(200);
    assert_eq!(versions["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn built_in_lists_may_repeat_keys() {
    let it = Harness::new().await;
    let mut object = deployment("d");
    let container = &mut object["spec"]["template"]["spec"]["containers"][0];
    container["env"] = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    container["ports"] = json!([{"containerPort": 80}, {"containerPort": 80}]);
    it.post(DEPLOYMENTS, object.clone()).await.expect(201);
    object["metadata"]["name"] = json!("e");
    object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]);
    let refused = it.post(DEPLOYMENTS, object).await.expect(422);
    assert!(
        refused["message"].as_str().unwrap().contains("volumeMounts[1]"),
        "{refused}"
    );
}

/// Where a kind is made, its name, what an object says, and what becomes of that.
type Sparse = (String, &'static str, Value, Vec<(&'static str, Value)>);

fn with_empty_texts() -> Vec<Sparse> {
    let pod = json!({"containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "", "workingDir": "",
        "env": [{"name": "A", "value": ""}], "ports": [{"containerPort": 1, "protocol": "", "name": ""}]}],
        "nodeName": "", "restartPolicy": "", "dnsPolicy": "", "schedulerName": "", "priorityClassName": ""});
    let template = json!({"metadata": {"labels": {"a": ""}}, "spec": pod});
    let selector = json!({"matchLabels": {"a": ""}});
    let core = "/api/v1/namespaces/default";
    vec![
        (
            format!("{core}/pods"),
            "Pod",
            json!({"spec": pod}),
            vec![
                ("/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
                (
                    "/spec/containers/0/ports/0",
                    json!({"containerPort": 1, "protocol": "TCP"}),
                ),
                ("/spec/containers/0/env/0", json!({"name": "A"})),
                ("/spec/containers/0/workingDir", Value::Null),
                ("/spec/nodeName", Value::Null),
                ("/spec/restartPolicy", json!("Always")),
            ],
        ),
        (
            DEPLOYMENTS.to_owned(),
            "Deployment",
            json!({"spec": {"selector": selector, "template": template, "strategy": {"type": ""}}}),
            vec![
                ("/spec/strategy/type", json!("RollingUpdate")),
                ("/spec/template/spec/nodeName", Value::Null),
                ("/spec/template/metadata/labels/a", json!("")),
            ],
        ),
        (
            format!("{core}/services"),
            "Service",
            json!({"spec": {"type": "", "sessionAffinity": "", "clusterIP": "", "externalName": "",
                "ports": [{"port": 1, "protocol": "", "targetPort": ""}, {"name": "b", "port": 2, "targetPort": 0}]}}),
            vec![
                ("/spec/type", json!("ClusterIP")),
                ("/spec/sessionAffinity", json!("None")),
            ],
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs".to_owned(),
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "concurrencyPolicy": "", "jobTemplate": {"spec": {"template": {"spec":
                {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "imagePullPolicy": ""}]}}}}}}),
            vec![("/spec/concurrencyPolicy", json!("Allow"))],
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings".to_owned(),
            "RoleBinding",
            json!({"roleRef": {"apiGroup": "", "kind": "Role", "name": "r"},
                "subjects": [{"apiGroup": "", "kind": "User", "name": "u", "namespace": ""}]}),
            vec![
                ("/roleRef/apiGroup", json!("rbac.authorization.k8s.io")),
                ("/subjects/0/apiGroup", json!("rbac.authorization.k8s.io")),
                ("/subjects/0/namespace", Value::Null),
            ],
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles".to_owned(),
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            vec![("/rules/0/apiGroups", json!([""]))],
        ),
        (
            format!("{core}/secrets"),
            "Secret",
            json!({"type": "", "data": {"a": ""}}),
            vec![("/type", json!("Opaque")), ("/data/a", json!(""))],
        ),
        (
            format!("{core}/persistentvolumeclaims"),
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "",
                "resources": {"requests": {"storage": "1024Mi"}}}}),
            vec![
                ("/spec/storageClassName", json!("")),
                ("/spec/volumeName", Value::Null),
                ("/spec/resources/requests/storage", json!("1Gi")),
            ],
        ),
    ]
}

/// Go's types know no difference between a text that is empty and one that is not there.
#[tokio::test]
async fn an_empty_text_is_an_unset_one() {
    let it = Harness::new().await;
    for (uri, kind, rest, want) in with_empty_texts() {
        let group = uri.trim_start_matches("/apis/").trim_start_matches("/api/");
        let api_version = group.split("/namespaces").next().unwrap();
        let mut object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "e", "generateName": ""}});
        for (field, value) in rest.as_object().unwrap() {
            object[field] = value.clone();
        }
        if kind == "Service" {
            object["spec"]["ports"][0]["name"] = json!("a");
        }
        let made = it.post(&uri, object.clone()).await.expect(201);
        for (path, want) in want {
            assert_eq!(made.pointer(path).unwrap_or(&Value::Null), &want, "{kind} {path}");
        }
        assert!(made["metadata"].get("generateName").is_none());
        if kind == "Service" {
            assert_eq!(made["spec"]["ports"][0]["targetPort"], 1);
            assert_eq!(made["spec"]["ports"][1]["targetPort"], 2);
        }
        // the same is said in protobuf, both ways
        let own = format!("{uri}/e");
        let binary = it.get_as(&own, codec::protobuf::CONTENT_TYPE).await;
        let same = codec::protobuf::decode(&binary.bytes).unwrap();
        assert_eq!(same, it.get(&own).await.json(), "{kind}");
        it.delete(&own).await;
        let body = codec::protobuf::encode(&object).unwrap().to_vec();
        let headers = [("content-type", codec::protobuf::CONTENT_TYPE)];
        let again = it.send("POST", &uri, &headers, body).await.expect(201);
        let mut wanted = made.clone();
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            wanted["metadata"][field] = again["metadata"][field].clone();
        }
        for field in ["clusterIP", "clusterIPs"] {
            if kind == "Service" {
                wanted["spec"][field] = again["spec"][field].clone();
            }
        }
        assert_eq!(again, wanted, "{kind}");
    }
}

#[tokio::test]
async fn a_pod_of_no_node_is_bound_to_one() {
    let it = Harness::new().await;
    let uri = "/api/v1/namespaces/default/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "", "containers": [{"name": "c", "image": "i"}]}});
    it.post(uri, pod).await.expect(201);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"}});
    it.post(&format!("{uri}/p/binding"), binding).await.expect(201);
    assert_eq!(it.get(&format!("{uri}/p")).await.json()["spec"]["nodeName"], "n");
}

/// As a real server has it: who applies owns what they wrote, also what is not kept; applying again changes nothing.
#[tokio::test]
async fn who_applies_what_is_empty_owns_it() {
    let it = Harness::new().await;
    let uri = format!("{DEPLOYMENTS}/q");
    let object = |cpu: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "q"}, "spec": {
            "selector": {"matchLabels": {"a": ""}}, "strategy": {"type": ""},
            "template": {"metadata": {"labels": {"a": ""}}, "spec": {"nodeName": "", "tolerations": [], "containers": [
                {"name": "c", "image": "i:1", "imagePullPolicy": "", "env": [{"name": "A", "value": ""}],
                    "resources": {"limits": {"cpu": cpu}}}]}}}})
    };
    let apply = async |manager: &str, cpu: Value| {
        it.patch(&format!("{uri}?fieldManager={manager}"), "apply", object(cpu))
            .await
    };
    let made = apply("one", json!(0.5)).await.expect(201);
    assert_eq!(
        made["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {"f:selector": {}, "f:strategy": {"f:type": {}}, "f:template": {
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:nodeName": {}, "f:tolerations": {}, "f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
                "f:resources": {"f:limits": {"f:cpu": {}}}}}}}}})
    );
    assert_eq!(apply("one", json!(0.5)).await.expect(200), made);
    for (cpu, conflicts) in [("0.5", 6), ("500m", 5)] {
        let refused = apply("two", json!(cpu)).await.expect(409);
        assert_eq!(
            refused["details"]["causes"].as_array().unwrap().len(),
            conflicts,
            "{refused}"
        );
    }
    let refused = it.post(DEPLOYMENTS, object(json!("lots"))).await.expect(400);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "Deployment in version \"v1\" cannot be handled as a Deployment: spec.template.spec.containers[0]"
        ) && message.contains("quantities must match"),
        "{message}"
    );
}

#[tokio::test]
async fn a_pod_needs_its_account() {
    let it = Harness::new().await;
    let core = "/api/v1/namespaces/default";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}});
    let refused = it.post(&format!("{core}/pods"), pod.clone()).await.expect(403);
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not found"
    );
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    it.post(&format!("{core}/serviceaccounts"), account)
        .await
        .expect(201);
    it.post(&format!("{core}/pods"), pod).await.expect(201);
    let status = json!({"status": {"podIP": "bad"}});
    let refused = it
        .patch(&format!("{core}/pods/p/status"), "merge", status)
        .await
        .expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "status.podIPs[0]");
    let status = json!({"status": {"podIP": "10.0.0.1"}});
    let kept = it
        .patch(&format!("{core}/pods/p/status"), "merge", status)
        .await
        .expect(200);
    assert_eq!(kept["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    let finalize = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}, "spec": {"finalizers": ["x"]}});
    it.put("/api/v1/namespaces/other/finalize", finalize)
        .await
        .expect(422);
}
