//! What queries and the bodies of deletes ask for: every option with values good and bad, for every verb that has it.

use serde_json::{Value, json};

use crate::harness::{Answer, Harness};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server with one ConfigMap.
async fn with_one() -> Harness {
    let it = Harness::new().await;
    it.post(MAPS, json!({"metadata": {"name": "one"}}))
        .await
        .expect(201);
    it
}

/// What a case is about: a verb on a collection or on `one`, always with the same harmless body.
async fn send(it: &Harness, verb: &str, query: &str) -> Answer {
    let (method, path, kind) = match verb {
        "get" => ("GET", "/one", ""),
        "list" => ("GET", "", ""),
        "watch" => ("GET", "", ""),
        "create" => ("POST", "", "application/json"),
        "update" => ("PUT", "/one", "application/json"),
        "patch" => ("PATCH", "/one", "application/merge-patch+json"),
        "apply" => ("PATCH", "/one", "application/apply-patch+yaml"),
        "delete" => ("DELETE", "/one", ""),
        "deletecollection" => ("DELETE", "", ""),
        other => panic!("no verb {other}"),
    };
    // A watch that is accepted ends at once.
    let watch = if verb == "watch" {
        "watch=1&timeoutSeconds=-1&"
    } else {
        ""
    };
    let name = if verb == "create" { "two" } else { "one" };
    let body = match verb {
        "create" | "update" | "apply" => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
        }
        "patch" => json!({"data": {"a": "b"}}).to_string(),
        _ => String::new(),
    };
    let uri = format!("{MAPS}{path}?{watch}{query}");
    it.send(method, &uri, &[("content-type", kind)], body.into_bytes())
        .await
}

/// The reason, and the message with its kind of options cut off; a 422's causes name every field that its message names.
#[track_caller]
fn refusal(answer: Answer, case: &str) -> (u16, String) {
    let code = answer.status.as_u16();
    let status = answer.json();
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    let reason = match code {
        400 => "BadRequest",
        422 => "Invalid",
        504 => "Timeout",
        _ => return (code, String::new()),
    };
    assert_eq!(status["reason"], reason, "{case}: {status}");
    for cause in status["details"]["causes"].as_array().into_iter().flatten() {
        if code == 422 {
            let told = format!(
                "{}: {}",
                cause["field"].as_str().unwrap(),
                cause["message"].as_str().unwrap()
            );
            assert!(message.contains(&told), "{case}: {status}");
        }
    }
    (code, message)
}

const NO_NUMBER: &str = r#"strconv.ParseInt: parsing "abc": invalid syntax"#;
const NOT_KNOWN: &str = r#"Unsupported value: "Foo": supported values: "#;
const NO_REVISION: &str = "resourceVersionMatch is forbidden unless resourceVersion is provided";
const NO_INITIAL: &str = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
const NO_RULE: &str = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";

/// Verbs, a query, the status (0 for the verb's own) and what the message says.
type Case<'a> = (&'a str, &'a str, u16, &'a str);

async fn check(cases: &[Case<'_>]) {
    for (verbs, query, code, says) in cases {
        for verb in verbs.split(' ') {
            let it = with_one().await;
            let case = format!("{verb} ?{query}");
            let encoded = query.replace(' ', "+");
            let (found, message) = refusal(send(&it, verb, &encoded).await, &case);
            let own = if verb == "create" { 201 } else { 200 };
            assert_eq!(found, if *code == 0 { own } else { *code }, "{case}: {message}");
            assert!(message.contains(says), "{case}: {message}");
        }
    }
}

#[tokio::test]
async fn numbers_are_numbers() {
    check(&[
        ("list watch deletecollection", "limit=abc", 400, NO_NUMBER),
        (
            "list watch deletecollection",
            "limit=",
            400,
            "parsing \"\": invalid syntax",
        ),
        ("list deletecollection", "timeoutSeconds=abc", 400, NO_NUMBER),
        (
            "list",
            "timeoutSeconds=9223372036854775808",
            400,
            "value out of range",
        ),
        ("list watch deletecollection", "limit=-1", 0, ""),
        ("list deletecollection", "timeoutSeconds=-1", 0, ""),
        (
            "delete deletecollection",
            "gracePeriodSeconds=abc",
            400,
            NO_NUMBER,
        ),
        (
            "delete deletecollection",
            "gracePeriodSeconds=1.5",
            400,
            "invalid syntax",
        ),
        ("delete deletecollection", "gracePeriodSeconds=-1", 0, ""),
    ])
    .await;
}

#[tokio::test]
async fn booleans_are_on_but_for_zero_and_false() {
    check(&[
        ("list", "watch=false", 0, ""),
        ("list", "watch=FALSE", 0, ""),
        ("list", "allowWatchBookmarks=maybe", 0, ""),
        (
            "list",
            "watch=maybe&timeoutSeconds=-1&sendInitialEvents=1",
            422,
            NO_RULE,
        ),
        (
            "list",
            "watch&timeoutSeconds=-1&sendInitialEvents=1",
            422,
            NO_RULE,
        ),
        (
            "list",
            "sendInitialEvents=false",
            422,
            "sendInitialEvents is forbidden for list",
        ),
        ("delete deletecollection", "orphanDependents=maybe", 0, ""),
        ("get", "export=0", 0, ""),
        ("get", "export", 400, "no longer supported"),
    ])
    .await;
}

#[tokio::test]
async fn revisions_and_pages_go_together() {
    check(&[
        ("get list", "resourceVersion=0", 0, ""),
        (
            "get list watch",
            "resourceVersion=abc",
            400,
            r#"resourceVersion: Invalid value: "abc""#,
        ),
        (
            "get list watch",
            "resourceVersion=-1",
            400,
            r#"resourceVersion: Invalid value: "-1""#,
        ),
        (
            "get list",
            "resourceVersion=999999",
            504,
            "Too large resource version",
        ),
        (
            "list deletecollection",
            "continue=abc",
            400,
            "invalid continue token",
        ),
        (
            "list deletecollection",
            "resourceVersionMatch=Exact",
            422,
            NO_REVISION,
        ),
        (
            "list deletecollection",
            "resourceVersionMatch=NotOlderThan",
            422,
            NO_REVISION,
        ),
        (
            "list deletecollection",
            "resourceVersion=1&resourceVersionMatch=Foo",
            422,
            NOT_KNOWN,
        ),
        (
            "list deletecollection",
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "forbidden for resourceVersion \"0\"",
        ),
        (
            "list deletecollection",
            "resourceVersion=1&resourceVersionMatch=NotOlderThan&continue=x",
            422,
            "forbidden when continue is provided",
        ),
        (
            "list",
            "resourceVersion=1&resourceVersionMatch=NotOlderThan",
            0,
            "",
        ),
        ("list", "resourceVersionMatch=", 0, ""),
        ("watch", "resourceVersionMatch=NotOlderThan", 422, NO_INITIAL),
        ("watch", "resourceVersionMatch=Foo", 422, NOT_KNOWN),
        ("watch", "sendInitialEvents=true", 422, NO_RULE),
        ("watch", "sendInitialEvents=false", 422, NO_RULE),
        (
            "watch",
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            NO_RULE,
        ),
        (
            "watch",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            0,
            "",
        ),
        (
            "watch",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
            422,
            "forbidden when continue is provided",
        ),
    ])
    .await;
}

#[tokio::test]
async fn selectors_can_be_read() {
    check(&[
        ("list watch deletecollection", "labelSelector=a in (", 400, ""),
        ("list watch deletecollection", "fieldSelector=a", 400, ""),
        (
            "list watch deletecollection",
            "fieldSelector=spec.a=b",
            400,
            "spec.a",
        ),
    ])
    .await;
}

#[tokio::test]
async fn values_have_names() {
    check(&[
        ("delete deletecollection", "propagationPolicy=Foo", 422, NOT_KNOWN),
        (
            "delete deletecollection",
            "propagationPolicy=",
            422,
            r#"Unsupported value: """#,
        ),
        (
            "delete deletecollection",
            "propagationPolicy=Orphan&orphanDependents=1",
            422,
            "cannot be both set",
        ),
        (
            "create update patch delete deletecollection",
            "dryRun=Some",
            422,
            r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#,
        ),
        (
            "create update patch delete",
            "dryRun=",
            422,
            r#"Unsupported value: [""]"#,
        ),
        (
            "create update patch delete",
            "dryRun=All&dryRun=x",
            422,
            r#"["All","x"]"#,
        ),
        (
            "create update patch delete deletecollection",
            "dryRun=All&dryRun=All",
            0,
            "",
        ),
        ("get list watch", "dryRun=Some&fieldValidation=Foo&force=1", 0, ""),
        ("create update patch", "fieldValidation=Foo", 422, NOT_KNOWN),
        (
            "create update patch",
            "fieldValidation=strict",
            422,
            r#""", "Ignore", "Strict", "Warn""#,
        ),
        ("create update patch", "fieldValidation=&dryRun=All", 0, ""),
        ("delete deletecollection", "fieldValidation=Foo&dryRun=All", 0, ""),
    ])
    .await;
}

#[tokio::test]
async fn managers_are_short_and_can_be_seen() {
    let long = format!("fieldManager={}", "m".repeat(129));
    let longest = format!("fieldManager={}", "m".repeat(128));
    check(&[
        (
            "create update patch apply",
            &long,
            422,
            "Too long: may not be more than 128 bytes",
        ),
        (
            "create update patch apply",
            "fieldManager=a%0Ab",
            422,
            "U+000A (at position 1)",
        ),
        (
            "create update patch apply",
            "fieldManager=%E4%BD%A0%E2%80%8B",
            422,
            "U+200B (at position 3)",
        ),
        (
            "apply",
            "",
            422,
            "fieldManager: Required value: is required for apply patch",
        ),
        ("apply", "fieldManager=", 422, "fieldManager: Required value"),
        ("apply", "fieldManager=a&fieldValidation=Foo", 422, NOT_KNOWN),
        ("apply", "fieldManager=a&force=no&dryRun=All", 0, ""),
        (
            "patch",
            "force=false",
            422,
            "force: Forbidden: may not be specified for non-apply patch",
        ),
        ("patch", "force=", 422, "force: Forbidden"),
        ("create update", "force=x&dryRun=All", 0, ""),
        ("create update patch", &longest, 0, ""),
    ])
    .await;
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_of() {
    check(&[
        (
            "create",
            "dryRun=x&fieldValidation=Foo",
            422,
            "CreateOptions.meta.k8s.io \"\" is invalid: [dryRun",
        ),
        (
            "update",
            "dryRun=x&fieldValidation=Foo",
            422,
            "UpdateOptions.meta.k8s.io \"\" is invalid: [dryRun",
        ),
        (
            "patch",
            "dryRun=x&force=1",
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: [force",
        ),
        (
            "delete",
            "dryRun=x&propagationPolicy=Foo",
            422,
            "DeleteOptions.meta.k8s.io \"\" is invalid: [prop",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_query_has_preconditions() {
    check(&[
        ("delete deletecollection", "uid=other", 409, ""),
        ("delete", "resourceVersion=1", 409, ""),
    ])
    .await;
}

#[tokio::test]
async fn options_count_for_subresources_and_not_for_what_is_connected() {
    let it = Harness::new().await;
    let apps = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let made = it
        .post(apps, json!({"metadata": {"name": "d"}, "spec": spec}))
        .await;
    let made = made.expect(201);
    for part in ["scale", "status"] {
        let answer = it
            .put(&format!("{apps}/d/{part}?fieldValidation=Foo"), made.clone())
            .await;
        answer.expect(422);
    }
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    it.post(pods, pod).await.expect(201);
    it.post(&format!("{pods}/p/eviction?dryRun=Some"), json!({}))
        .await
        .expect(422);
    // Nothing stands behind pods here, which is all that is wrong.
    it.post(&format!("{pods}/p/exec?dryRun=Some"), json!({}))
        .await
        .expect(501);
}

#[tokio::test]
async fn a_deletes_body_is_typed_and_all_that_counts() {
    let cases = [
        (json!({}), 200, ""),
        (
            json!({"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": -1}),
            200,
            "",
        ),
        (
            json!({"unknown": 1, "preconditions": null, "dryRun": null}),
            200,
            "",
        ),
        (json!({"orphanDependents": true}), 200, ""),
        (json!([]), 400, "no DeleteOptions"),
        (json!({"kind": "Pod"}), 400, "a Pod, not DeleteOptions"),
        (json!({"gracePeriodSeconds": "abc"}), 400, "gracePeriodSeconds"),
        (json!({"gracePeriodSeconds": 1.5}), 400, "gracePeriodSeconds"),
        (json!({"orphanDependents": "true"}), 400, "orphanDependents"),
        (json!({"propagationPolicy": 1}), 400, "propagationPolicy"),
        (json!({"dryRun": "All"}), 400, "dryRun"),
        (json!({"dryRun": [1]}), 400, "dryRun"),
        (json!({"preconditions": "x"}), 400, "preconditions"),
        (json!({"preconditions": {"uid": 1}}), 400, "uid"),
        (
            json!({"preconditions": {"resourceVersion": 1}}),
            400,
            "resourceVersion",
        ),
        (json!({"preconditions": {"uid": ""}}), 409, ""),
        (json!({"preconditions": {"resourceVersion": "1"}}), 409, ""),
        (json!({"propagationPolicy": "Foo"}), 422, NOT_KNOWN),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": false}),
            422,
            "cannot be both set",
        ),
        (json!({"dryRun": ["All", "Some"]}), 422, r#"["All","Some"]"#),
    ];
    for (body, code, says) in cases {
        for path in ["/one", ""] {
            let it = with_one().await;
            // Only a request without a body is asked for its query.
            let uri = format!("{MAPS}{path}?propagationPolicy=Foo&gracePeriodSeconds=x");
            let answer = it.send("DELETE", &uri, &[], body.to_string().into_bytes()).await;
            let (found, message) = refusal(answer, &body.to_string());
            assert_eq!(found, code, "{body} {path}: {message}");
            assert!(message.contains(says), "{body}: {message}");
        }
    }
}

#[tokio::test]
async fn a_deletes_body_may_be_protobuf() {
    let cases = [
        (json!({"dryRun": ["Some"]}), 422),
        (json!({"propagationPolicy": "Foo"}), 422),
        (json!({"preconditions": {"uid": "other"}}), 409),
        (json!({"preconditions": {"resourceVersion": "1"}}), 409),
        (
            json!({"gracePeriodSeconds": 5, "propagationPolicy": "Background"}),
            200,
        ),
    ];
    for (mut options, code) in cases {
        for path in ["/one", ""] {
            let it = with_one().await;
            options["apiVersion"] = Value::from("v1");
            options["kind"] = Value::from("DeleteOptions");
            let bytes = codec::protobuf::encode(&options).unwrap().to_vec();
            let kind = [("content-type", "application/vnd.kubernetes.protobuf")];
            let answer = it.send("DELETE", &format!("{MAPS}{path}"), &kind, bytes).await;
            assert_eq!(answer.status.as_u16(), code, "{options} {path}");
        }
    }
}

#[tokio::test]
async fn a_collective_delete_keeps_to_its_page() {
    let it = Harness::new().await;
    for name in ["a", "b", "c"] {
        it.post(MAPS, json!({"metadata": {"name": name}}))
            .await
            .expect(201);
    }
    let first = it.delete(&format!("{MAPS}?limit=2")).await.expect(200);
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&first), ["a", "b"]);
    assert!(first["metadata"]["continue"].is_string(), "{first}");
    assert_eq!(names(&it.get(MAPS).await.expect(200)), ["c"]);
}

#[tokio::test]
async fn only_tables_ask_what_comes_with_their_rows() {
    let it = with_one().await;
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let uri = format!("{MAPS}?includeObject=Foo");
    it.get(&uri).await.expect(200);
    let status = it.get_as(&uri, table).await.expect(400);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(r#"includeObject: Invalid value: "Foo""#),
        "{message}"
    );
}
