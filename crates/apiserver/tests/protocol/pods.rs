//! The subresources of pods that change a part of them.

use serde_json::{Value, json};

use crate::harness::Harness;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server with a pod of the class Burstable that has one ephemeral container, and that pod.
async fn with_pod() -> (Harness, Value) {
    let it = Harness::new().await;
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m", "example.com/gpu": "1"}});
    let pod = json!({
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i:1", "resources": resources}]},
    });
    it.post(PODS, pod).await.expect(201);
    let debugger = json!([{"name": "debug", "image": "d:1", "targetContainerName": "c"}]);
    let patch = json!({"spec": {"ephemeralContainers": debugger}});
    let uri = format!("{PODS}/p/ephemeralcontainers");
    let pod = it.patch(&uri, "strategic", patch).await.expect(200);
    (it, pod)
}

/// What a case does to a pod.
type Change = fn(&mut Value);

fn push(pod: &mut Value, list: &str, item: Value) {
    pod["spec"][list].as_array_mut().unwrap().push(item);
}

/// Puts a changed pod, all of whose other fields are changed as well; says what became of it, or which fields are at
/// fault.
async fn put(part: &str, change: Change) -> Result<(Value, Value), String> {
    let (it, before) = with_pod().await;
    let mut sent = before.clone();
    sent["metadata"]["labels"]["a"] = json!("changed");
    sent["metadata"]["annotations"] = json!({"a": "changed"});
    sent["spec"]["containers"][0]["image"] = json!("changed");
    sent["spec"]["nodeName"] = json!("changed");
    sent["status"]["phase"] = json!("Failed");
    change(&mut sent);
    let answer = it.put(&format!("{PODS}/p/{part}"), sent).await;
    let (code, answer) = (answer.status.as_u16(), answer.json());
    let stored = it.get(&format!("{PODS}/p")).await.expect(200);
    if code == 200 {
        assert_eq!(answer, stored);
        return Ok((before, stored));
    }
    assert_eq!(stored, before, "what is refused changes nothing");
    let causes = answer["details"]["causes"].as_array();
    let causes = causes.into_iter().flatten().map(|cause| {
        let text = |field: &str| cause[field].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("field"), text("message"))
    });
    Err(format!("{code} {}", causes.collect::<Vec<_>>().join("; ")))
}

/// A pod without what every write changes.
fn rest(mut pod: Value, without: &[&str]) -> Value {
    for field in ["resourceVersion", "generation", "managedFields"] {
        pod["metadata"][field] = Value::Null;
    }
    for pointer in without {
        *pod.pointer_mut(pointer).expect("it is there") = Value::Null;
    }
    pod
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_nothing_else() {
    let list = "/spec/ephemeralContainers";
    let add: Change = |pod| {
        push(pod, "ephemeralContainers", json!({"name": "more", "image": "m"}));
    };
    let (before, after) = put("ephemeralcontainers", add).await.unwrap();
    assert_eq!(rest(before.clone(), &[list]), rest(after.clone(), &[list]));
    assert_eq!(
        after["spec"]["ephemeralContainers"][1]["imagePullPolicy"],
        "Always"
    );
    assert_eq!(
        before["metadata"]["generation"].as_i64().map(|n| n + 1),
        after["metadata"]["generation"].as_i64()
    );
    let (before, after) = put("ephemeralcontainers", |_| {}).await.unwrap();
    assert_eq!(before, after);
    let cases: &[(Change, &str)] = &[
        (
            |pod| pod["spec"]["ephemeralContainers"] = json!([]),
            "422 spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"] = Value::Null,
            "422 spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed",
        ),
        (
            |pod| pod["spec"]["ephemeralContainers"][0]["image"] = json!("d:2"),
            "422 spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be changed",
        ),
        (
            |pod| push(pod, "ephemeralContainers", json!({"name": "c", "image": "m"})),
            "422 spec.ephemeralContainers[1].name: Duplicate value: \"c\"",
        ),
        (
            |pod| push(pod, "ephemeralContainers", json!({"image": "m", "name": ""})),
            "422 spec.ephemeralContainers[1].name: Required value",
        ),
        (
            |pod| push(pod, "ephemeralContainers", json!({"name": "m"})),
            "422 spec.ephemeralContainers[1].image: Required value",
        ),
        (
            |pod| {
                push(
                    pod,
                    "ephemeralContainers",
                    json!({"name": "m", "image": "m", "targetContainerName": "x"}),
                )
            },
            "422 spec.ephemeralContainers[1].targetContainerName: Not found: \"x\"",
        ),
        (
            |pod| {
                push(
                    pod,
                    "ephemeralContainers",
                    json!({"name": "m", "image": "m", "ports": [{"containerPort": 80}]}),
                )
            },
            "422 spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (|pod| pod["metadata"]["resourceVersion"] = json!("1"), "409 "),
        (|pod| pod["metadata"]["uid"] = json!("other"), "409 "),
    ];
    for (index, (change, refusal)) in cases.iter().enumerate() {
        assert_eq!(
            put("ephemeralcontainers", *change).await.unwrap_err(),
            *refusal,
            "case {index}"
        );
    }
}

#[tokio::test]
async fn a_resize_changes_processors_and_memory_and_nothing_else() {
    let resources = "/spec/containers/0/resources";
    let grow: Change = |pod| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("150m");
        pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("1Gi");
        pod["spec"]["ephemeralContainers"] = json!([]);
    };
    let (before, after) = put("resize", grow).await.unwrap();
    assert_eq!(
        rest(before.clone(), &[resources]),
        rest(after.clone(), &[resources])
    );
    let changed = after.pointer(resources).unwrap();
    assert_eq!(
        (&changed["requests"]["cpu"], &changed["limits"]["memory"]),
        (&json!("150m"), &json!("1Gi"))
    );
    assert_eq!(
        before["metadata"]["generation"].as_i64().map(|n| n + 1),
        after["metadata"]["generation"].as_i64()
    );
    let only = "422 spec: Forbidden: only cpu and memory resources are mutable";
    let cases: &[(Change, &str)] = &[
        (
            |pod| pod["spec"]["containers"][0]["resources"]["limits"]["example.com/gpu"] = json!("2"),
            only,
        ),
        (
            |pod| {
                pod["spec"]["containers"][0]["resizePolicy"] =
                    json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}])
            },
            only,
        ),
        (|pod| pod["spec"]["containers"][0]["name"] = json!("other"), only),
        (
            |pod| push(pod, "containers", json!({"name": "other", "image": "i"})),
            only,
        ),
        (
            |pod| pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = Value::Null,
            "422 spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (
            |pod| {
                pod["spec"]["containers"][0]["resources"] = json!({
                    "requests": {"cpu": "1", "memory": "1", "example.com/gpu": "1"},
                    "limits": {"cpu": "1", "memory": "1", "example.com/gpu": "1"},
                });
            },
            "422 spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
        ),
        (|pod| pod["metadata"]["resourceVersion"] = json!("1"), "409 "),
    ];
    for (index, (change, refusal)) in cases.iter().enumerate() {
        assert_eq!(
            put("resize", *change).await.unwrap_err(),
            *refusal,
            "case {index}"
        );
    }
}

#[tokio::test]
async fn a_pods_own_update_changes_neither() {
    let (it, pod) = with_pod().await;
    let cases: &[Change] = &[
        |pod| pod["spec"]["ephemeralContainers"] = json!([]),
        |pod| push(pod, "ephemeralContainers", json!({"name": "m", "image": "m"})),
        |pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("150m"),
    ];
    for (index, change) in cases.iter().enumerate() {
        let mut sent = pod.clone();
        change(&mut sent);
        let answer = it.put(&format!("{PODS}/p"), sent).await;
        assert_eq!(answer.status.as_u16(), 422, "case {index}");
    }
}

#[tokio::test]
async fn evictions_keep_to_the_budget_and_note_what_they_took() {
    let it = Harness::new().await;
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for name in ["one", "two"] {
        let pod = json!({"metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec});
        it.post(PODS, pod).await.expect(201);
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let status = json!({"status": status});
        it.patch(&format!("{PODS}/{name}/status"), "merge", status)
            .await
            .expect(200);
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let selector = json!({"matchLabels": {"a": "b"}});
    let budget = json!({"metadata": {"name": "w"}, "spec": {"selector": selector, "minAvailable": 1}});
    it.post(budgets, budget).await.expect(201);
    let evict = async |name: &str, query: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        it.post(&format!("{PODS}/{name}/eviction{query}"), eviction).await
    };
    let refused = evict("one", "").await.expect(429);
    assert_eq!(refused["reason"], "TooManyRequests");
    assert_eq!(
        refused["details"]["causes"][0]["reason"], "DisruptionBudget",
        "{refused}"
    );
    let counted = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1, "expectedPods": 2}});
    it.patch(&format!("{budgets}/w/status"), "merge", counted)
        .await
        .expect(200);
    let left = async || it.get(&format!("{budgets}/w")).await.expect(200)["status"].clone();
    evict("one", "?dryRun=All").await.expect(201);
    assert_eq!(left().await["disruptionsAllowed"], 1);
    evict("one", "").await.expect(201);
    it.get(&format!("{PODS}/one")).await.expect(404);
    let status = left().await;
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["one"].is_string(), "{status}");
    evict("two", "").await.expect(429);
    it.get(&format!("{PODS}/two")).await.expect(200);
    let another = json!({"metadata": {"name": "x"}, "spec": {"selector": {}, "minAvailable": 1}});
    it.post(budgets, another).await.expect(201);
    evict("two", "").await.expect(500);
    evict("none", "").await.expect(404);
}
