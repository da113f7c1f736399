//! Edits that are made together are decided together.

use api::{annotations, apps, clusters};
use serde_json::{Value, json};

use crate::{WEB, World, pass, weights};

#[tokio::test(start_paused = true)]
async fn two_edits_are_one_decision() {
    let world = World::start().await;
    for inventory_first in [true, false] {
        for (total, second, before, after) in [(5, 0, [5, 5], [5, 0]), (10, 1, [5, 0], [5, 5])] {
            let weights = json!({"spec": {"subscribers": weights(second)}});
            if inventory_first {
                world.inventory(total).await;
                pass(10).await;
                world.subscription(weights).await;
            } else {
                world.subscription(weights).await;
                pass(10).await;
                world.inventory(total).await;
            }
            for _ in 0..20 {
                pass(10).await;
                assert_eq!(world.split().await, json!(before), "{total} {inventory_first}");
            }
            pass(100).await;
            assert_eq!(world.split().await, json!(after), "{total} {inventory_first}");
        }
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_edits_does_not_starve_and_a_person_may_not_want_to_wait() {
    let world = World::start().await;
    world.inventory(20).await;
    for edit in 0..25 {
        pass(100).await;
        world.subscription(json!({"spec": {"priority": edit}})).await;
    }
    assert_eq!(
        world.split().await,
        json!([10, 10]),
        "after two seconds at the latest"
    );
    for (settle, waits) in [("1s", 900), ("0", 0), ("nonsense", 200)] {
        world
            .subscription(json!({"metadata": {"annotations": {annotations::SETTLE: settle}}}))
            .await;
        pass(3_000).await;
        world.inventory(10).await;
        if waits > 0 {
            pass(waits).await;
            assert_eq!(world.split().await, json!([10, 10]), "{settle}");
        }
        pass(150).await;
        assert_eq!(world.split().await, json!([5, 5]), "{settle}");
        world.inventory(20).await;
        pass(3_000).await;
    }
    // Another cluster does not wait for anything, but comes with what is edited.
    world
        .subscription(json!({"metadata": {"annotations": {annotations::SETTLE: "30s"}}}))
        .await;
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let clusters = &clusters::MANAGED_CLUSTERS;
    world
        .plane
        .change(clusters, Some("ns-b"), "b", &json!({"spec": {"taints": taint}}))
        .await;
    pass(50).await;
    assert_eq!(world.split().await, json!([20]));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_frozen_is_not_decided_but_for_who_leaves() {
    let world = World::start().await;
    let own = |set: Option<&str>, taken: Option<&str>| json!({annotations::CHANGE_SET: set, annotations::CHANGE_SETS_TAKEN: taken});
    let edit =
        json!({"metadata": {"annotations": own(Some("r/2"), None)}, "spec": {"subscribers": weights(0)}});
    world.subscription(edit).await;
    world.inventory(5).await;
    pass(60_000).await;
    assert_eq!(world.split().await, json!([5, 5]));
    world
        .subscription(json!({"metadata": {"annotations": own(Some("r/2"), Some("r/2"))}}))
        .await;
    world.await_split(&[5, 0]).await;

    let marked = json!({annotations::FROZEN_BY: "s/3"});
    world
        .subscription(json!({"metadata": {"annotations": marked}, "spec": {"subscribers": weights(1)}}))
        .await;
    pass(60_000).await;
    assert_eq!(world.split().await, json!([5, 0]));
    world
        .plane
        .delete(&clusters::MANAGED_CLUSTERS, Some("ns-b"), "b")
        .await;
    world.await_split(&[5]).await;
    world
        .subscription(json!({"metadata": {"annotations": {annotations::FROZEN_BY: null}}}))
        .await;
    let taken = |it: &Value| it["status"]["specHash"] == json!(api::spec_hash::of(&it["spec"]));
    world
        .plane
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", taken)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_any_weight_replicas_are_not_divided_and_that_is_told() {
    let world = World::start().await;
    let mut weightless = weights(0);
    weightless[0]["weight"] = json!(0);
    world
        .subscription(json!({"spec": {"subscribers": weightless}}))
        .await;
    let says = |it: &Value| {
        let conditions = it["status"]["conditions"].as_array();
        let mut scheduled = conditions.into_iter().flatten();
        let scheduled = scheduled.find(|it| it["type"] == "Scheduled");
        scheduled.is_some_and(|it| it["message"].as_str().unwrap().ends_with(placement::UNDIVIDED))
    };
    let resource = &apps::SUBSCRIPTIONS;
    let object = world
        .plane
        .await_object(resource, Some("default"), "app", says)
        .await;
    assert_eq!(object["status"]["bindingClusters"], json!(["ns-a/a", "ns-b/b"]));
    assert!(object["status"]["replicas"][WEB].is_null(), "as upstream does");
    world
        .subscription(json!({"spec": {"subscribers": weights(1)}}))
        .await;
    world.await_split(&[5, 5]).await;
    world
        .plane
        .await_object(resource, Some("default"), "app", |it| !says(it))
        .await;
    world.stop().await;
}
