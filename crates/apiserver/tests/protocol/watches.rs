//! Watching objects.

use serde_json::json;

use crate::harness::Harness;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_watch_sees_the_state_and_every_change() {
    let it = Harness::new().await;
    it.post(MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    let mut events = it.watch("/api/v1/configmaps?watch=1", "application/json").await;
    assert_eq!(events.line().await, "ADDED a");
    it.post(MAPS, json!({"metadata": {"name": "b"}}))
        .await
        .expect(201);
    it.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "y"}}))
        .await
        .expect(200);
    it.delete(&format!("{MAPS}/b")).await.expect(200);
    assert_eq!(events.line().await, "ADDED b");
    assert_eq!(events.line().await, "MODIFIED a");
    assert_eq!(events.line().await, "DELETED b");
}

#[tokio::test(start_paused = true)]
async fn leaving_a_selection_is_a_deletion() {
    let it = Harness::new().await;
    let list = it.get(MAPS).await.expect(200);
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let uri = format!("{MAPS}?watch=1&labelSelector=in%3Dyes&resourceVersion={revision}&timeoutSeconds=5");
    let mut events = it.watch(&uri, "application/json").await;
    it.post(MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    let label = |value: &str| json!({"metadata": {"labels": {"in": value}}});
    it.patch(&format!("{MAPS}/a"), "merge", label("yes"))
        .await
        .expect(200);
    let left = it
        .patch(&format!("{MAPS}/a"), "merge", label("no"))
        .await
        .expect(200);
    it.delete(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(events.line().await, "ADDED a");
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(
        event["object"]["metadata"]["labels"]["in"], "yes",
        "the last object that matched"
    );
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
    assert_eq!(events.line().await, "END");
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_and_quiet_watches_get_more() {
    let it = Harness::new().await;
    it.post(MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    let uri = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = it.watch(&uri, "application/json").await;
    assert_eq!(events.line().await, "ADDED a");
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
    // Who says nothing of it, and names no revision, gets the same.
    let uri = format!("{MAPS}?watch=1&allowWatchBookmarks=true");
    let mut events = it.watch(&uri, "application/json").await;
    assert_eq!(events.line().await, "ADDED a");
    let bookmark = events.next().await.unwrap();
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
}
