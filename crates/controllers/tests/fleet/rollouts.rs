//! A Rollout through the real controllers, with the test as scheduler and agents, and a restart in its midst.

use api::{annotations, apps, kubernetes, labels, rollouts};
use kubeio::ListOptions;
use machinery::meta;
use serde_json::{Value, json};

use super::harness::{Fleet, objects};

const MANIFEST: (&str, &str) = ("clusternet-reserved", "configmaps.foo.settings");

async fn revisions(fleet: &Fleet) -> usize {
    let kept = ListOptions::labels(labels::REVISION);
    let listed = fleet
        .client
        .list(&kubernetes::SECRETS, Some(MANIFEST.0), &kept)
        .await;
    let items = listed.unwrap().items;
    assert!(
        items
            .iter()
            .all(|it| it["type"] == rollouts::REVISION_TYPE && it["immutable"] == true)
    );
    items.len()
}

/// A new state of the template.
async fn write(fleet: &Fleet, text: &str) {
    let patch = json!({"template": {"data": {"text": text}}});
    fleet
        .change(&apps::MANIFESTS, MANIFEST.0, MANIFEST.1, None, &patch)
        .await;
}

fn text(description: &Value) -> String {
    objects(description)[0]["data"]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Waits until a cluster is to have this text, and reports what became of it.
async fn take_in(fleet: &Fleet, home: &str, expected: &str, phase: &str) -> Value {
    let name = meta::name(&fleet.await_one(&apps::DESCRIPTIONS, home).await).to_owned();
    let description = fleet
        .await_object(&apps::DESCRIPTIONS, Some(home), &name, |it| text(it) == expected)
        .await;
    let status = json!({"phase": phase, "reason": "it is not well",
        "observedGeneration": meta::generation(&description)});
    fleet.report(home, &name, &status).await;
    description
}

async fn await_phase(fleet: &Fleet, phase: &str) -> Value {
    fleet
        .await_object(&rollouts::ROLLOUTS, Some("default"), "careful", |it| {
            it["status"]["phase"] == phase
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn goes_wave_by_wave_and_back_whoever_carries_it_on() {
    let mut fleet = Fleet::start().await;
    let (canary, edge) = (fleet.join("canary").await, fleet.join("edge").await);
    fleet.heartbeat(&canary, "canary").await;
    fleet.heartbeat(&edge, "edge").await;
    fleet.manifest("v1", "ConfigMap", "foo", "settings").await;
    write(&fleet, "one").await;
    let rollout = json!({"metadata": {"name": "careful"}, "spec": {
        "subscription": "app", "progressDeadline": "30s",
        "waves": [{"name": "canary", "clusterSelector": {"matchLabels": {labels::CLUSTER_NAME: "canary"}}}],
    }});
    fleet.create(&rollouts::ROLLOUTS, Some("default"), &rollout).await;
    fleet.subscribe(&[]).await;
    let bound = json!({"status": {"bindingClusters": [format!("{canary}/canary"), format!("{edge}/edge")]}});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", Some("status"), &bound)
        .await;

    // The first version.
    fleet.await_one(&apps::BASES, &edge).await;
    let first = take_in(&fleet, &canary, "one", "Pending").await;
    let none = fleet
        .client
        .list(&apps::DESCRIPTIONS, Some(&edge), &ListOptions::default())
        .await
        .unwrap();
    assert!(none.items.is_empty(), "its wave has not come");
    take_in(&fleet, &canary, "one", "Success").await;
    take_in(&fleet, &edge, "one", "Success").await;
    let complete = await_phase(&fleet, "Complete").await;
    let version = meta::annotation(&first, annotations::VERSION).unwrap();
    assert_eq!(complete["status"]["stableVersion"], version);
    assert_eq!(revisions(&fleet).await, 2, "a template and an index");

    // A bad one, and other controllers that find it half done.
    write(&fleet, "bad").await;
    take_in(&fleet, &canary, "bad", "Failure").await;
    fleet.stop().await;
    fleet.env.advance(31);
    fleet.heartbeat(&canary, "canary").await;
    fleet.heartbeat(&edge, "edge").await;
    fleet.run();
    take_in(&fleet, &canary, "one", "Success").await;
    let back = await_phase(&fleet, "RolledBack").await;
    assert_eq!(
        back["status"]["failures"],
        json!([{"cluster": "canary", "reason": "it is not well"}])
    );
    let told = fleet.await_events("Rollout", "careful", "RollingBack").await;
    assert!(told[0].contains("canary: it is not well"), "{told:?}");
    let at_edge = fleet.await_one(&apps::DESCRIPTIONS, &edge).await;
    assert_eq!(
        (text(&at_edge).as_str(), meta::generation(&at_edge)),
        ("one", 1),
        "it never saw it"
    );

    // Without the Rollout all is as ever.
    fleet
        .delete(&rollouts::ROLLOUTS, Some("default"), "careful")
        .await;
    for home in [&canary, &edge] {
        let description = take_in(&fleet, home, "bad", "Success").await;
        assert_eq!(meta::annotation(&description, annotations::VERSION), None);
    }
    fleet
        .wait("the end of what was kept", async || {
            (revisions(&fleet).await == 0).then_some(())
        })
        .await;
    let again = fleet.await_one(&apps::BASES, &edge).await;
    assert_eq!(meta::annotation(&again, annotations::VERSION), None);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_without_rollouts_is_served_as_ever() {
    let mut fleet = Fleet::start().await;
    fleet.stop().await;
    let definition = "rollouts.apps.tombolo.io";
    fleet
        .delete(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, definition)
        .await;
    fleet
        .await_gone(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, definition)
        .await;
    fleet.run();
    let home = fleet.join("edge-7").await;
    fleet.heartbeat(&home, "edge-7").await;
    fleet.manifest("v1", "ConfigMap", "foo", "settings").await;
    write(&fleet, "one").await;
    fleet.subscribe(&[&home]).await;
    take_in(&fleet, &home, "one", "Success").await;
    fleet.stop().await;
}
