//! Tables and metadata, in the versions that clients ask for, of objects and of lists.

use serde_json::{Value, json};

use crate::harness::Harness;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn forms_come_in_two_versions_and_fit_what_they_are_of() {
    let it = Harness::new().await;
    it.post(MAPS, json!({"metadata": {"name": "x"}}))
        .await
        .expect(201);
    let one = format!("{MAPS}/x");
    let of_a_list = "you requested PartialObjectMetadata, but the requested object is a list";
    let of_one = "you requested PartialObjectMetadataList, but the requested object is not a list";
    for version in ["v1", "v1beta1"] {
        let api_version = json!(format!("meta.k8s.io/{version}"));
        for (uri, form, refusal) in [
            (MAPS, "Table", None),
            (&one, "Table", None),
            (MAPS, "PartialObjectMetadataList", None),
            (&one, "PartialObjectMetadata", None),
            (MAPS, "PartialObjectMetadata", Some(of_a_list)),
            (&one, "PartialObjectMetadataList", Some(of_one)),
        ] {
            let accept = format!("application/json;as={form};v={version};g=meta.k8s.io");
            let answer = it.get_as(uri, &accept).await;
            if let Some(refusal) = refusal {
                let refused = answer.expect(406);
                assert_eq!(
                    (&refused["reason"], &refused["message"]),
                    (&json!("NotAcceptable"), &json!(refusal)),
                    "{uri} {accept}"
                );
                continue;
            }
            let shown = answer.expect(200);
            assert_eq!(
                (&shown["kind"], &shown["apiVersion"]),
                (&json!(form), &api_version),
                "{uri} {accept}"
            );
            let parts = ["/rows/0/object", "/items/0"].map(|path| shown.pointer(path));
            for part in parts.into_iter().flatten() {
                assert_eq!(
                    (&part["kind"], &part["apiVersion"]),
                    (&json!("PartialObjectMetadata"), &api_version),
                    "{uri} {accept}"
                );
            }
        }
        for form in ["Table", "PartialObjectMetadata"] {
            let accept = format!("application/json;as={form};v={version};g=meta.k8s.io");
            let mut events = it.watch(&format!("{MAPS}?watch=1"), &accept).await;
            let event = events.next().await.unwrap();
            assert_eq!(event["object"]["kind"], form);
            assert_eq!(event["object"]["apiVersion"], api_version, "{form}");
        }
    }
    // A whole object in a table's row is none of these forms.
    let table = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let whole = it
        .get_as(&format!("{MAPS}?includeObject=Object"), table)
        .await
        .expect(200);
    assert_eq!(whole["rows"][0]["object"]["apiVersion"], "v1");
    let newer = "application/json;as=Table;v=v2;g=meta.k8s.io";
    it.get_as(MAPS, newer).await.expect(406);
    it.get_as(MAPS, &format!("{newer},{table}")).await.expect(200);
}

/// Whether there is such an object or not: names are judged first.
#[tokio::test]
async fn finalizers_of_built_in_kinds_have_a_domain() {
    let it = Harness::new().await;
    let unqualified = "name is neither a standard finalizer name nor is it fully qualified";
    let both = "finalizer orphan and foregroundDeletion cannot be both set";
    let held = |finalizers: &Value| json!({"metadata": {"name": "x", "finalizers": finalizers}});
    let uri = format!("{MAPS}/x");
    for is_there in [false, true] {
        if is_there {
            it.post(MAPS, json!({"metadata": {"name": "x"}}))
                .await
                .expect(201);
        }
        for (finalizers, why) in [
            (json!(["foo"]), unqualified),
            (json!(["example.com/ok", "a b"]), unqualified),
            (json!(["orphan", "foregroundDeletion"]), both),
        ] {
            let mut answers = vec![it.post(MAPS, held(&finalizers)).await];
            if is_there {
                answers.push(it.put(&uri, held(&finalizers)).await);
                answers.push(it.patch(&uri, "merge", held(&finalizers)).await);
            }
            for answer in answers {
                let refused = answer.expect(422);
                assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
            }
        }
    }
    for finalizers in [
        json!(["orphan"]),
        json!(["foregroundDeletion", "example.com/x"]),
        json!(["kubernetes"]),
    ] {
        let written = it.patch(&uri, "merge", held(&finalizers)).await.expect(200);
        assert_eq!(written["metadata"]["finalizers"], finalizers);
    }
}
