//! Clusters fall silent, come back, and flap.

use api::{annotations, apps, clusters, reasons};
use serde_json::{Value, json};

use crate::{World, pass};

/// What the controllers write when a cluster turns.
async fn turns(world: &World, name: &str, ready: bool) {
    let (home, resource) = (format!("ns-{name}"), &clusters::MANAGED_CLUSTERS);
    let now = world.env.now().to_string();
    let cluster = world.plane.get(resource, Some(&home), name).await;
    let status = json!({"conditions": [{"type": "Ready", "status": if ready { "True" } else { "Unknown" },
        "reason": "Test", "message": "", "lastTransitionTime": now}]});
    world
        .plane
        .change_status(resource, Some(&home), name, &status)
        .await;
    let taint = json!({"key": reasons::TAINT_UNSCHEDULABLE, "value": "Test", "effect": "NoSchedule"});
    let taints = if ready { json!([]) } else { json!([taint]) };
    let noted = api::turns::noted(&cluster, ready, &now);
    let patch =
        json!({"spec": {"taints": taints}, "metadata": {"annotations": {annotations::READY_TURNS: noted}}});
    world.plane.change(resource, Some(&home), name, &patch).await;
}

/// What is said of fail-over.
async fn said(world: &World) -> (String, String) {
    let object = world
        .plane
        .get(&apps::SUBSCRIPTIONS, Some("default"), "app")
        .await;
    let all = object["status"]["conditions"].as_array().unwrap();
    let one = all.iter().find(|it| it["type"] == reasons::FAIL_OVER);
    let text = |field: &str| one.map_or("", |it| it[field].as_str().unwrap()).to_owned();
    (text("status"), text("reason"))
}

fn both(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test(start_paused = true)]
async fn replicas_leave_a_silent_cluster_and_come_back() {
    let world = World::start().await;
    for name in ["a", "b"] {
        turns(&world, name, true).await;
    }
    // What somebody else says stays.
    let theirs = json!({"type": "Applied", "status": "True", "reason": "All", "message": "",
        "lastTransitionTime": world.env.now().to_string()});
    let object = world
        .plane
        .get(&apps::SUBSCRIPTIONS, Some("default"), "app")
        .await;
    let mut all = object["status"]["conditions"].as_array().unwrap().clone();
    assert_eq!(all.len(), 1, "only Scheduled while all is well: {all:?}");
    all.push(theirs);
    let subscriptions = &apps::SUBSCRIPTIONS;
    world
        .plane
        .change_status(subscriptions, Some("default"), "app", &json!({"conditions": all}))
        .await;

    pass(120_000).await;
    turns(&world, "b", false).await;
    pass(299_000).await;
    assert_eq!(world.split().await, json!([5, 5]));
    assert_eq!(said(&world).await, both("False", "Waiting"));
    pass(2_000).await;
    assert_eq!(world.split().await, json!([10]));
    assert_eq!(said(&world).await, both("True", "Moved"));
    turns(&world, "b", true).await;
    pass(58_000).await;
    assert_eq!(world.split().await, json!([10]));
    pass(4_000).await;
    assert_eq!(world.split().await, json!([5, 5]));
    assert_eq!(said(&world).await, both("False", "AllReady"));
    let object = world.plane.get(subscriptions, Some("default"), "app").await;
    let types: Vec<&Value> = object["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["type"])
        .collect();
    assert_eq!(types, ["Scheduled", "Applied", "FailOver"]);
    let told = world.plane.events().await;
    for reason in ["Waiting: ", "Moved: ", "AllReady: "] {
        assert!(
            told.iter().any(|it| it.contains(&format!("FailOver: {reason}"))),
            "{reason} {told:#?}"
        );
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_moves_for_a_cluster_that_flaps() {
    let world = World::start().await;
    turns(&world, "b", true).await;
    for _ in 0..4 {
        for ready in [false, true] {
            pass(100_000).await;
            turns(&world, "b", ready).await;
            pass(1_000).await;
            assert_eq!(world.split().await, json!([5, 5]));
        }
    }
    turns(&world, "b", false).await;
    pass(590_000).await;
    assert_eq!(world.split().await, json!([5, 5]));
    assert_eq!(said(&world).await, both("False", "Flapping"));
    pass(20_000).await;
    assert_eq!(world.split().await, json!([10]));
    turns(&world, "b", true).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_may_not_run_twice_waits_for_a_person() {
    let world = World::start().await;
    let stateful = json!({"metadata": {"annotations": {annotations::STATEFUL: crate::WEB}}});
    world
        .plane
        .change(&apps::FEED_INVENTORIES, Some("default"), "app", &stateful)
        .await;
    turns(&world, "b", true).await;
    turns(&world, "b", false).await;
    pass(3_600_000).await;
    assert_eq!(world.split().await, json!([5, 5]));
    assert_eq!(said(&world).await, both("False", "Stateful"));
    let fenced = json!({"metadata": {"labels": {annotations::FENCED: "true"}}});
    world
        .plane
        .change(&clusters::MANAGED_CLUSTERS, Some("ns-b"), "b", &fenced)
        .await;
    world.await_split(&[10]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_another_cluster_replicas_stay() {
    let world = World::start().await;
    let closed = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    world
        .plane
        .change(
            &clusters::MANAGED_CLUSTERS,
            Some("ns-a"),
            "a",
            &json!({"spec": {"taints": closed}}),
        )
        .await;
    world.await_split(&[10]).await;
    turns(&world, "b", false).await;
    pass(3_600_000).await;
    assert_eq!(world.split().await, json!([10]));
    assert_eq!(said(&world).await, both("False", "NoTarget"));
    world.stop().await;
}
