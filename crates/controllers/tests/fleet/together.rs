//! What is edited together goes out together.

use std::time::Duration;

use api::{annotations, apps};
use serde_json::{Value, json};

use crate::harness::{Fleet, objects, replicas};

const RESERVED: &str = "clusternet-reserved";

/// Two clusters that share a Deployment of ten replicas; their namespaces.
async fn divided(fleet: &Fleet) -> [String; 2] {
    let homes = [fleet.join("edge-7").await, fleet.join("edge-8").await];
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    template(fleet, json!({"spec": {"replicas": 10}})).await;
    let homes_of = [&*homes[0], &*homes[1]];
    fleet.subscribe(&homes_of).await;
    let spec = json!({"schedulingStrategy": "Dividing", "dividingScheduling": {"type": "Static"}});
    subscription(fleet, json!({"spec": spec})).await;
    answer(fleet, [5, 5]).await;
    for home in &homes {
        description(fleet, home, 5).await;
    }
    homes
}

async fn template(fleet: &Fleet, patch: Value) {
    let patch = json!({"template": patch});
    fleet
        .change(&apps::MANIFESTS, RESERVED, "deployments.foo.web", None, &patch)
        .await;
}

async fn subscription(fleet: &Fleet, patch: Value) {
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", None, &patch)
        .await;
}

/// What a scheduler would say to the present spec.
async fn answer(fleet: &Fleet, shares: [u64; 2]) {
    let object = fleet.get(&apps::SUBSCRIPTIONS, Some("default"), "app").await;
    let status = json!({"status": {"replicas": {"apps/v1/Deployment/foo/web": shares},
        "specHash": api::spec_hash::of(&object["spec"])}});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", Some("status"), &status)
        .await;
}

async fn description(fleet: &Fleet, home: &str, expected: i64) -> Value {
    fleet
        .wait(&format!("{expected} replicas in {home}"), async || {
            let all = kubeio::ListOptions::default();
            let all = fleet.client.list(&apps::DESCRIPTIONS, Some(home), &all).await;
            let found = all.unwrap().items.into_iter().next();
            found.filter(|it| replicas(it) == expected)
        })
        .await
}

fn web(description: &Value) -> Value {
    objects(description).remove(0)
}

/// Waits until a cluster gets the template of this name, with so many replicas.
async fn image_arrives(fleet: &Fleet, home: &str, has: i64, image: &str) {
    fleet
        .wait(&format!("{image} in {home}"), async || {
            let now = description(fleet, home, has).await;
            (web(&now)["metadata"]["labels"]["image"] == image).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_template_waits_for_the_division_that_belongs_to_it() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet).await;
    for weights_first in [false, true] {
        let (total, second) = if weights_first { (10, 5) } else { (5, 0) };
        let image = format!("nginx:{weights_first}");
        let edit = json!({"spec": {"replicas": total}, "metadata": {"labels": {"image": image}}});
        let weights = json!({"spec": {"priority": total}});
        if weights_first {
            subscription(&fleet, weights).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            template(&fleet, edit).await;
        } else {
            template(&fleet, edit).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            subscription(&fleet, weights).await;
        }
        // The scheduler takes its time: nothing goes out.
        tokio::time::sleep(Duration::from_secs(10)).await;
        for (home, has) in homes.iter().zip([5, 5 - second]) {
            let now = description(&fleet, home, has).await;
            assert_ne!(web(&now)["metadata"]["labels"]["image"], json!(image));
        }
        answer(&fleet, [5, u64::try_from(second).unwrap()]).await;
        for (home, has) in homes.iter().zip([5, second]) {
            image_arrives(&fleet, home, has, &image).await;
        }
    }

    // Nobody answers: the template goes out with the division that there is.
    template(
        &fleet,
        json!({"spec": {"replicas": 12}, "metadata": {"labels": {"image": "last"}}}),
    )
    .await;
    for home in &homes {
        image_arrives(&fleet, home, 5, "last").await;
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn edits_settle_before_they_go_out() {
    let mut fleet = Fleet::start().await;
    let homes = [fleet.join("edge-7").await];
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    template(&fleet, json!({"spec": {"replicas": 1}})).await;
    fleet.subscribe(&[&homes[0]]).await;
    description(&fleet, &homes[0], 1).await;
    let revision = async || description(&fleet, &homes[0], 1).await["metadata"]["generation"].as_i64();
    for (settle, changes) in [(None, 1), (Some("0"), 10), (Some("nonsense"), 1)] {
        subscription(
            &fleet,
            json!({"metadata": {"annotations": {annotations::SETTLE: settle}}}),
        )
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let before = revision().await.unwrap();
        for edit in 0..10 {
            let label = format!("{settle:?}-{edit}");
            template(&fleet, json!({"metadata": {"labels": {"edit": label}}})).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(revision().await.unwrap() - before, changes, "{settle:?}");
    }
    let told = fleet.await_events("Subscription", "app", "InvalidSettle").await;
    assert!(
        told[0].contains("nonsense") && told[0].contains("250ms"),
        "{told:?}"
    );
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_set_goes_out_when_all_of_it_is_there() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet).await;
    let set = |set: Option<&str>| json!({"annotations": {annotations::CHANGE_SET: set}});
    let edit = json!({"spec": {"replicas": 5}, "metadata": set(Some("release-1/2"))});
    template(&fleet, edit).await;
    let told = fleet
        .await_events("Subscription", "app", "ChangeSetIncomplete")
        .await;
    let expected = "change set release-1/2 lacks 1 object(s); there are Deployment foo/web";
    assert_eq!(told, [expected]);
    let frozen = |it: &Value| api::change_set::is_frozen(it);
    let app = ("default", "app");
    let object = fleet
        .await_object(&apps::SUBSCRIPTIONS, Some(app.0), app.1, frozen)
        .await;
    assert_eq!(
        object["metadata"]["annotations"][annotations::FROZEN_BY],
        "release-1/2"
    );
    tokio::time::sleep(Duration::from_mins(2)).await;
    let inventory = fleet.get(&apps::FEED_INVENTORIES, Some(app.0), app.1).await;
    assert_eq!(
        inventory["spec"]["feeds"][0]["desiredReplicas"], 10,
        "the scheduler does not hear of it"
    );
    for home in &homes {
        description(&fleet, home, 5).await;
    }

    subscription(
        &fleet,
        json!({"spec": {"priority": 1}, "metadata": set(Some("release-1/2"))}),
    )
    .await;
    let taken = |it: &Value| !api::change_set::is_frozen(it);
    let object = fleet
        .await_object(&apps::SUBSCRIPTIONS, Some(app.0), app.1, taken)
        .await;
    assert_eq!(
        object["metadata"]["annotations"][annotations::CHANGE_SETS_TAKEN],
        "release-1/2"
    );
    let wanted = |it: &Value| it["spec"]["feeds"][0]["desiredReplicas"] == 5;
    fleet
        .await_object(&apps::FEED_INVENTORIES, Some(app.0), app.1, wanted)
        .await;
    answer(&fleet, [5, 0]).await;
    description(&fleet, &homes[1], 0).await;
    let first = description(&fleet, &homes[0], 5).await;
    assert!(
        web(&first)["metadata"]["annotations"].is_null(),
        "the clusters need not know"
    );

    // The next set has other members; what is left of the last one freezes nobody.
    template(
        &fleet,
        json!({"spec": {"replicas": 6}, "metadata": set(Some("release-2/1"))}),
    )
    .await;
    let wanted = |it: &Value| it["spec"]["feeds"][0]["desiredReplicas"] == 6;
    fleet
        .await_object(&apps::FEED_INVENTORIES, Some(app.0), app.1, wanted)
        .await;
    answer(&fleet, [6, 0]).await;
    description(&fleet, &homes[0], 6).await;

    // Taking the annotation off thaws; a deletion does not wait.
    template(
        &fleet,
        json!({"spec": {"replicas": 7}, "metadata": set(Some("release-3/9"))}),
    )
    .await;
    fleet
        .await_object(&apps::SUBSCRIPTIONS, Some(app.0), app.1, frozen)
        .await;
    template(&fleet, json!({"metadata": set(None)})).await;
    fleet
        .await_object(&apps::SUBSCRIPTIONS, Some(app.0), app.1, taken)
        .await;
    answer(&fleet, [7, 0]).await;
    let last = description(&fleet, &homes[0], 7).await;
    template(&fleet, json!({"metadata": set(Some("release-4/9"))})).await;
    fleet
        .await_object(&apps::SUBSCRIPTIONS, Some(app.0), app.1, frozen)
        .await;
    fleet.delete(&apps::SUBSCRIPTIONS, Some(app.0), app.1).await;
    fleet
        .take_away(&homes[0], last["metadata"]["name"].as_str().unwrap())
        .await;
    let other = description_name(&fleet, &homes[1]).await;
    fleet.take_away(&homes[1], &other).await;
    fleet.await_gone(&apps::SUBSCRIPTIONS, Some(app.0), app.1).await;
    fleet.stop().await;
}

async fn description_name(fleet: &Fleet, home: &str) -> String {
    let one = fleet.await_one(&apps::DESCRIPTIONS, home).await;
    one["metadata"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_may_not_run_twice_ends_in_one_cluster_before_it_begins_in_another() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet).await;
    let stateful = json!({"annotations": {annotations::STATEFUL: "true"}});
    template(&fleet, json!({"metadata": stateful})).await;
    let listed =
        |it: &Value| it["metadata"]["annotations"][annotations::STATEFUL] == "apps/v1/Deployment/foo/web";
    fleet
        .await_object(&apps::FEED_INVENTORIES, Some("default"), "app", listed)
        .await;
    let runs = async |home: &String, replicas: u64| {
        let entry = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web",
            "observedStatus": {"replicas": replicas}});
        let name = description_name(&fleet, home).await;
        let status = json!({"phase": "Success", "manifestStatuses": [entry]});
        fleet.report(home, &name, &status).await;
    };
    for home in &homes {
        runs(home, 5).await;
    }
    answer(&fleet, [2, 8]).await;
    description(&fleet, &homes[0], 2).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    description(&fleet, &homes[1], 5).await;
    runs(&homes[0], 4).await;
    description(&fleet, &homes[1], 6).await;
    runs(&homes[0], 2).await;
    description(&fleet, &homes[1], 8).await;
    let told = fleet.await_events("Subscription", "app", "MoveHeld").await;
    assert!(told[0].contains("may still run elsewhere"), "{told:?}");
    fleet.stop().await;
}
