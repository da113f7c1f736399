//! Localizations and Globalizations while their feed is in use.

use api::{apps, clusters};
use serde_json::{Value, json};

use super::harness::{Fleet, objects};

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web"})
}

/// A policy that sets the label `by`.
fn policy(name: &str, when: &str) -> Value {
    let patch = format!("metadata: {{labels: {{by: {name}}}}}");
    json!({"metadata": {"name": name}, "spec": {"overridePolicy": when, "feed": deployment(),
        "overrides": [{"name": "label", "type": "MergePatch", "value": patch}]}})
}

/// Waits until the Deployment that goes out has this label `by`.
async fn await_by(fleet: &Fleet, home: &str, by: Option<&str>) {
    let description = fleet.await_one(&apps::DESCRIPTIONS, home).await;
    let name = description["metadata"]["name"].as_str().unwrap();
    let is_so = |it: &Value| objects(it)[0]["metadata"]["labels"]["by"].as_str() == by;
    fleet
        .await_object(&apps::DESCRIPTIONS, Some(home), name, is_so)
        .await;
}

#[tokio::test(start_paused = true)]
async fn apply_now_or_with_the_next_change_and_leave_nothing_behind() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.heartbeat(&home, "edge-7").await;
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    let place = ("clusternet-reserved", "deployments.foo.web");
    let manifest = fleet.get(&apps::MANIFESTS, Some(place.0), place.1).await;
    let uid = manifest["metadata"]["uid"].as_str().unwrap();
    fleet.subscribe(&[&home]).await;
    await_by(&fleet, &home, None).await;

    let localizations = (&apps::LOCALIZATIONS, Some(home.as_str()));
    let labelled = |it: &Value| it["metadata"]["labels"][uid] == "Deployment";
    fleet
        .create(localizations.0, localizations.1, &policy("now", "ApplyNow"))
        .await;
    await_by(&fleet, &home, Some("now")).await;
    let policy_object = fleet
        .await_object(localizations.0, localizations.1, "now", labelled)
        .await;
    assert_eq!(
        policy_object["metadata"]["finalizers"],
        json!(["apps.clusternet.io/finalizer"])
    );
    fleet.delete(localizations.0, localizations.1, "now").await;
    fleet.await_gone(localizations.0, localizations.1, "now").await;
    await_by(&fleet, &home, None).await;

    fleet
        .create(localizations.0, localizations.1, &policy("later", "ApplyLater"))
        .await;
    fleet
        .await_object(localizations.0, localizations.1, "later", labelled)
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    await_by(&fleet, &home, None).await;
    let change = json!({"template": {"metadata": {"annotations": {"a": "b"}}}});
    fleet
        .change(&apps::MANIFESTS, place.0, place.1, None, &change)
        .await;
    await_by(&fleet, &home, Some("later")).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_globalization_follows_the_labels_of_clusters() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.heartbeat(&home, "edge-7").await;
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    fleet.subscribe(&[&home]).await;
    let mut north = policy("north", "ApplyNow");
    north["spec"]["clusterAffinity"] = json!({"matchLabels": {"area": "north"}});
    fleet.create(&apps::GLOBALIZATIONS, None, &north).await;
    await_by(&fleet, &home, None).await;
    for (area, by) in [("north", Some("north")), ("south", None)] {
        let labels = json!({"metadata": {"labels": {"area": area}}});
        fleet
            .change(&clusters::MANAGED_CLUSTERS, &home, "edge-7", None, &labels)
            .await;
        await_by(&fleet, &home, by).await;
    }
    fleet.delete(&apps::GLOBALIZATIONS, None, "north").await;
    fleet.await_gone(&apps::GLOBALIZATIONS, None, "north").await;
    fleet.stop().await;
}
