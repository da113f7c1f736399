//! Creating, reading, changing and deleting objects.

use serde_json::{Value, json};

use crate::harness::Harness;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": {"a": name}}, "data": {"k": "v"}})
}

#[tokio::test]
async fn an_object_is_created_read_changed_and_deleted() {
    let it = Harness::new().await;
    let made = it.post(MAPS, map("one")).await.expect(201);
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(made["metadata"]["creationTimestamp"].as_str().unwrap().len(), 20);
    let read = it.get(&format!("{MAPS}/one")).await.expect(200);
    assert_eq!(read, made);

    let mut changed = read.clone();
    changed["data"]["k"] = json!("w");
    let changed = it.put(&format!("{MAPS}/one"), changed).await.expect(200);
    assert_ne!(
        changed["metadata"]["resourceVersion"],
        read["metadata"]["resourceVersion"]
    );
    let status = it.put(&format!("{MAPS}/one"), read).await.expect(409);
    assert_eq!(status["reason"], "Conflict");
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on configmaps \"one\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    let same = it.put(&format!("{MAPS}/one"), changed.clone()).await.expect(200);
    assert_eq!(same, changed, "a write that changes nothing is none");

    let status = it.delete(&format!("{MAPS}/one")).await.expect(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"]["uid"], made["metadata"]["uid"]);
    let status = it.get(&format!("{MAPS}/one")).await.expect(404);
    assert_eq!(status["message"], "configmaps \"one\" not found");
}

#[tokio::test]
async fn bad_creates_are_refused_with_a_status() {
    let it = Harness::new().await;
    it.post(MAPS, map("one")).await.expect(201);
    let check = |answer: Value, reason: &str, message: &str| {
        assert_eq!(answer["kind"], "Status");
        assert_eq!(answer["reason"], reason, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(message), "{answer}");
    };
    check(
        it.post(MAPS, map("one")).await.expect(409),
        "AlreadyExists",
        "configmaps \"one\" already exists",
    );
    check(
        it.post("/api/v1/namespaces/none/configmaps", map("one"))
            .await
            .expect(404),
        "NotFound",
        "namespaces \"none\" not found",
    );
    check(
        it.post(MAPS, map("No_Good")).await.expect(422),
        "Invalid",
        "metadata.name: Invalid value: \"No_Good\"",
    );
    check(
        it.post("/api/v1/namespaces/default/secrets", map("x"))
            .await
            .expect(400),
        "BadRequest",
        "does not match the expected kind",
    );
    check(
        it.send("POST", MAPS, &[], b"{".to_vec()).await.expect(400),
        "BadRequest",
        "no valid JSON",
    );
    check(
        it.send("POST", MAPS, &[("content-type", "text/plain")], b"{}".to_vec())
            .await
            .expect(415),
        "UnsupportedMediaType",
        "accepted media types",
    );
    check(
        it.send("POST", MAPS, &[], vec![b' '; 4 << 20]).await.expect(413),
        "RequestEntityTooLarge",
        "limit",
    );
    let deep = format!(
        "kind: ConfigMap\nmetadata: {{name: deep}}\ndata: {}{}",
        "[".repeat(125),
        "]".repeat(125)
    );
    check(
        it.send(
            "POST",
            MAPS,
            &[("content-type", "application/yaml")],
            deep.into_bytes(),
        )
        .await
        .expect(400),
        "BadRequest",
        "nests deeper",
    );
    check(
        it.get("/api/v1/nonsense").await.expect(404),
        "NotFound",
        "could not find",
    );
    check(
        it.put(MAPS, map("one")).await.expect(405),
        "MethodNotAllowed",
        "does not allow this method",
    );
    check(
        it.get_as(MAPS, "text/html").await.expect(406),
        "NotAcceptable",
        "application/json",
    );
}

/// A body that is none of its kind is the client's mistake, whatever it is written in and whatever is wrong with it.
#[tokio::test]
async fn broken_bodies_are_refused() {
    const JSON: &str = "application/json";
    const YAML: &str = "application/yaml";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let it = Harness::new().await;
    // An envelope whose kind is a ConfigMap, and whose object ends in the middle of a field.
    let mut envelope = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x04\x0a\x7fab".to_vec();
    let mut table: Vec<(&str, Vec<u8>)> = vec![
        (JSON, b"{".to_vec()),
        (JSON, b"[]".to_vec()),
        (JSON, b"\xff\xfe{}".to_vec()),
        (JSON, Vec::new()),
        (YAML, b"a: [".to_vec()),
        (YAML, b"\xff\xfe".to_vec()),
        (YAML, b"- a\n- b\n".to_vec()),
        (YAML, b"a: &x [*x]\n".to_vec()),
        (YAML, b"kind: ConfigMap\nkind: [\n".to_vec()),
        (PROTOBUF, b"k8s\0".to_vec()),
        (PROTOBUF, b"k8s".to_vec()),
        (PROTOBUF, b"not protobuf".to_vec()),
        (
            PROTOBUF,
            b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        ),
        (PROTOBUF, envelope.clone()),
    ];
    while envelope.len() > 4 {
        envelope.pop();
        // With nothing after its kind it is a whole ConfigMap without anything in it.
        if envelope.len() != 21 {
            table.push((PROTOBUF, envelope.clone()));
        }
    }
    for (kind, body) in table {
        let answer = it
            .send("POST", MAPS, &[("content-type", kind)], body.clone())
            .await;
        let status = answer.expect(400);
        assert_eq!(
            (&status["kind"], &status["reason"]),
            (&json!("Status"), &json!("BadRequest")),
            "{kind} {body:?}"
        );
        assert!(
            status["message"].as_str().is_some_and(|text| text.len() > 10),
            "{status}"
        );
    }
    it.get(MAPS).await.expect(200);
}

#[tokio::test]
async fn fields_given_twice_and_unknown_ones_are_told_of() {
    let it = Harness::new().await;
    let strict = async |body: &[u8]| {
        let uri = format!("{MAPS}?fieldValidation=Strict");
        let refused = it.send("POST", &uri, &[], body.to_vec()).await.expect(400);
        refused["message"].as_str().unwrap().to_owned()
    };
    let twice = br#"{"kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1","a":"2"}}"#;
    let message = strict(twice).await;
    assert!(message.contains("duplicate field \"data.a\""), "{message}");
    let twice_and_unknown =
        br#"{"kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1","a":"2"},"colour":"red"}"#;
    assert_eq!(
        strict(twice_and_unknown).await,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \
         \"data.a\", unknown field \"colour\""
    );
    let warned = it.send("POST", MAPS, &[], twice.to_vec()).await;
    assert_eq!(
        warned.headers["warning"],
        "299 - \"duplicate field \\\"data.a\\\"\""
    );
}

#[tokio::test]
async fn names_are_generated_and_dry_runs_write_nothing() {
    let it = Harness::new().await;
    let mut wanted = map("x");
    wanted["metadata"] = json!({"generateName": "gen-"});
    let made = it.post(MAPS, wanted).await.expect(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    it.post(&format!("{MAPS}?dryRun=All"), map("dry"))
        .await
        .expect(201);
    it.get(&format!("{MAPS}/dry")).await.expect(404);
    it.send("DELETE", &format!("{MAPS}/{name}?dryRun=All"), &[], Vec::new())
        .await
        .expect(200);
    it.get(&format!("{MAPS}/{name}")).await.expect(200);
    it.post(&format!("{MAPS}?dryRun=Some"), map("dry"))
        .await
        .expect(422);
}

#[tokio::test]
async fn lists_are_selected_and_paged() {
    let it = Harness::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        it.post(MAPS, map(name)).await.expect(201);
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = it.get(MAPS).await.expect(200);
    assert_eq!(all["kind"], "ConfigMapList");
    assert_eq!(names(&all), ["a", "b", "c", "d", "e"]);
    let some = it
        .get(&format!("{MAPS}?labelSelector=a%20in%20(b,d)"))
        .await
        .expect(200);
    assert_eq!(names(&some), ["b", "d"]);
    let one = it
        .get(&format!("{MAPS}?fieldSelector=metadata.name%3Dc"))
        .await
        .expect(200);
    assert_eq!(names(&one), ["c"]);
    it.get(&format!("{MAPS}?fieldSelector=data.k%3Dc"))
        .await
        .expect(400);
    it.get(&format!("{MAPS}?labelSelector=a%20in")).await.expect(400);

    let page = it.get(&format!("{MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&page), ["a", "b"]);
    assert_eq!(page["metadata"]["remainingItemCount"], 3);
    it.delete(&format!("{MAPS}/d")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let page = it
        .get(&format!("{MAPS}?limit=9&continue={token}"))
        .await
        .expect(200);
    assert_eq!(names(&page), ["c", "d", "e"], "page two is of page one's state");
    assert!(page["metadata"]["continue"].is_null());
    it.get(&format!("{MAPS}?continue=rubbish")).await.expect(400);
    let revision = all["metadata"]["resourceVersion"].as_str().unwrap();
    let old = it
        .get(&format!(
            "{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact"
        ))
        .await
        .expect(200);
    assert_eq!(names(&old).len(), 5);
    it.get(&format!("{MAPS}?resourceVersion=99999999"))
        .await
        .expect(504);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let it = Harness::new().await;
    let mut wanted = map("held");
    wanted["metadata"]["finalizers"] = json!(["example.com/wait"]);
    it.post(MAPS, wanted).await.expect(201);
    let uri = format!("{MAPS}/held");
    let going = it.delete(&uri).await.expect(200);
    assert_eq!(going["kind"], "ConfigMap");
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let status = it
        .patch(
            &uri,
            "merge",
            json!({"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}),
        )
        .await
        .expect(422);
    assert!(status["message"].as_str().unwrap().contains("no new finalizers"));
    it.patch(&uri, "merge", json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    it.get(&uri).await.expect(404);
}

#[tokio::test]
async fn deletes_keep_their_preconditions() {
    let it = Harness::new().await;
    it.post(MAPS, map("one")).await.expect(201);
    let uri = format!("{MAPS}/one");
    let options = |body: Value| body.to_string().into_bytes();
    it.send(
        "DELETE",
        &uri,
        &[],
        options(json!({"preconditions": {"uid": "other"}})),
    )
    .await
    .expect(409);
    it.send(
        "DELETE",
        &uri,
        &[],
        options(json!({"propagationPolicy": "Sideways"})),
    )
    .await
    .expect(422);
    let going = it
        .send(
            "DELETE",
            &uri,
            &[],
            options(json!({"propagationPolicy": "Foreground"})),
        )
        .await
        .expect(200);
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for name in ["x", "y"] {
        it.post(MAPS, map(name)).await.expect(201);
    }
    let gone = it
        .delete(&format!("{MAPS}?labelSelector=a%3Dx"))
        .await
        .expect(200);
    assert_eq!(gone["items"].as_array().unwrap().len(), 1);
    it.get(&format!("{MAPS}/x")).await.expect(404);
    it.get(&format!("{MAPS}/y")).await.expect(200);
}
