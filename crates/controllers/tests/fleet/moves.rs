//! Replicas that move between clusters, and what clusters say of them.

use std::time::Duration;

use api::{annotations, apps, clusters, finalizers, labels};
use machinery::meta;
use serde_json::{Value, json};

use crate::harness::{self, Fleet};

/// Two clusters, and a Subscription of a Deployment of 12 replicas that are divided; the clusters' namespaces.
async fn divided(fleet: &Fleet, annotations: &Value) -> [String; 2] {
    let homes = [fleet.join("edge-7").await, fleet.join("edge-8").await];
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    let patch = json!({"template": {"spec": {"replicas": 12}}});
    fleet
        .change(
            &apps::MANIFESTS,
            "clusternet-reserved",
            "deployments.foo.web",
            None,
            &patch,
        )
        .await;
    let feed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web"});
    let subscription = json!({"metadata": {"name": "app", "annotations": annotations}, "spec": {
        "schedulingStrategy": "Dividing", "dividingScheduling": {"type": "Static"},
        "subscribers": [{"clusterAffinity": {}, "weight": 1}], "feeds": [feed]}});
    fleet
        .create(&apps::SUBSCRIPTIONS, Some("default"), &subscription)
        .await;
    let inventory = fleet.await_one(&apps::FEED_INVENTORIES, "default").await;
    assert_eq!(inventory["spec"]["feeds"][0]["desiredReplicas"], 12);
    homes
}

/// What a scheduler writes: the shares of some of the two clusters.
async fn divide(fleet: &Fleet, homes: &[String; 2], shares: [Option<u64>; 2]) {
    let chosen = homes.iter().zip(["edge-7", "edge-8"]).zip(shares);
    let (bound, shares): (Vec<String>, Vec<u64>) = chosen
        .filter_map(|((home, name), share)| Some((format!("{home}/{name}"), share?)))
        .unzip();
    let status = json!({"bindingClusters": bound, "replicas": {"apps/v1/Deployment/foo/web": shares}});
    let status = json!({"status": status});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", Some("status"), &status)
        .await;
}

/// Waits until a cluster gets so many replicas; its Description's name.
async fn gets(fleet: &Fleet, home: &str, replicas: i64) -> String {
    let description = fleet.await_one(&apps::DESCRIPTIONS, home).await;
    let name = description["metadata"]["name"].as_str().unwrap();
    let description = fleet
        .await_object(&apps::DESCRIPTIONS, Some(home), name, |it| {
            harness::replicas(it) == replicas
        })
        .await;
    description["metadata"]["name"].as_str().unwrap().to_owned()
}

/// What an agent reports of so many replicas that are ready.
async fn ready(fleet: &Fleet, home: &str, description: &str, replicas: i64) {
    let ready = json!({"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web", "observedStatus": ready});
    fleet
        .report(
            home,
            description,
            &json!({"phase": "Success", "manifestStatuses": [web]}),
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn replicas_move_as_they_become_ready_elsewhere() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet, &json!({"apps.tombolo.io/min-available": "75%"})).await;
    let [first, second] = &homes;
    let is_heard = async |heard: bool| {
        fleet.env.advance(1);
        for (home, name) in homes.iter().zip(["edge-7", "edge-8"]) {
            fleet.heartbeat(home, name).await;
        }
        if !heard {
            let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Lost",
                "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}]}});
            let (resource, status) = (&clusters::MANAGED_CLUSTERS, Some("status"));
            fleet.change(resource, second, "edge-8", status, &lost).await;
        }
    };
    is_heard(true).await;
    divide(&fleet, &homes, [Some(12), Some(0)]).await;
    let old = gets(&fleet, first, 12).await;
    ready(&fleet, first, &old, 12).await;

    // 9 of 12 are the floor.
    divide(&fleet, &homes, [Some(2), Some(10)]).await;
    let new = gets(&fleet, second, 10).await;
    gets(&fleet, first, 9).await;
    let told = fleet.await_events("Subscription", "app", "MoveHeld").await;
    assert!(
        told[0].contains("keeps 9 replica(s) of Deployment foo/web instead of 2"),
        "{told:?}"
    );
    ready(&fleet, second, &new, 4).await;
    gets(&fleet, first, 5).await;
    // What a cluster said that is not heard of any more counts for nothing, until it is.
    is_heard(false).await;
    ready(&fleet, second, &new, 10).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    gets(&fleet, first, 5).await;
    is_heard(true).await;
    gets(&fleet, first, 2).await;

    // Neither does a cluster lose its last ones before the others can do without them.
    ready(&fleet, first, &old, 2).await;
    ready(&fleet, second, &new, 8).await;
    fleet
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", |it| {
            let details = &it["status"]["aggregatedStatuses"][0]["feedStatusDetails"];
            details[1]["replicaStatus"]["readyReplicas"] == 8
        })
        .await;
    divide(&fleet, &homes, [None, Some(12)]).await;
    gets(&fleet, second, 12).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let base = fleet.await_one(&apps::BASES, first).await;
    assert!(base["metadata"]["deletionTimestamp"].is_null());
    is_heard(true).await;
    ready(&fleet, second, &new, 9).await;
    fleet.take_away(first, &old).await;
    let base = base["metadata"]["name"].as_str().unwrap();
    fleet.await_gone(&apps::BASES, Some(first), base).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_keeps_nothing_for_others() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet, &json!({"apps.tombolo.io/min-available": "12"})).await;
    let [first, second] = &homes;
    divide(&fleet, &homes, [Some(12), Some(0)]).await;
    let old = gets(&fleet, first, 12).await;
    divide(&fleet, &homes, [None, Some(12)]).await;
    gets(&fleet, second, 12).await;
    fleet
        .delete(&clusters::MANAGED_CLUSTERS, Some(first), "edge-7")
        .await;
    fleet.take_away(first, &old).await;
    fleet
        .await_gone(&clusters::MANAGED_CLUSTERS, Some(first), "edge-7")
        .await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sends_each_cluster_its_share_only() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet, &json!({})).await;
    for shares in [[4_u64, 8], [9, 3]] {
        divide(&fleet, &homes, shares.map(Some)).await;
        for (home, share) in homes.iter().zip(shares) {
            let mut seen = Vec::new();
            while seen.last() != Some(&i64::try_from(share).unwrap()) {
                seen.push(harness::replicas(
                    &fleet.await_one(&apps::DESCRIPTIONS, home).await,
                ));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(!seen.contains(&12), "the full count never goes out");
            let localization = fleet.await_one(&apps::LOCALIZATIONS, home).await;
            let value = localization["spec"]["overrides"][0]["value"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(value.contains(&share.to_string()), "{value}");
        }
    }
    fleet.stop().await;
}

/// What clusters report at the same time is looked at together: the status is not written once for each of them.
#[tokio::test(start_paused = true)]
async fn reports_that_come_together_are_added_up_once() {
    let mut fleet = Fleet::start().await;
    let homes = fleet.join_many(20).await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.subscribe(&[]).await;
    let bound: Vec<String> = homes
        .iter()
        .enumerate()
        .map(|(index, home)| format!("{home}/edge-{index}"))
        .collect();
    let status = json!({"status": {"bindingClusters": bound}});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", Some("status"), &status)
        .await;
    let mut names = Vec::new();
    for home in &homes {
        let description = fleet.await_one(&apps::DESCRIPTIONS, home).await;
        names.push(meta::name(&description).to_owned());
    }
    for (home, name) in homes.iter().zip(&names) {
        fleet.report(home, name, &json!({"phase": "Success"})).await;
    }
    fleet
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", |it| {
            it["status"]["completedReleases"] == 20
        })
        .await;
    let told = fleet.await_events("Subscription", "app", "AggregateStatus").await;
    assert!(told.len() <= 3, "{told:?}");
    fleet.stop().await;
}

/// Labels are the child's to write. Whoever puts another's on its own Description neither holds up what the other's
/// Subscription is to have, nor its end.
#[tokio::test(start_paused = true)]
async fn a_description_that_claims_to_be_anothers_is_nobodys() {
    let mut fleet = Fleet::start().await;
    let homes = divided(&fleet, &json!({})).await;
    let listed = json!({"template": {"metadata": {"annotations": {annotations::STATEFUL: "true"}}}});
    let (manifests, reserved) = (&apps::MANIFESTS, "clusternet-reserved");
    fleet
        .change(manifests, reserved, "deployments.foo.web", None, &listed)
        .await;
    let is_listed = |it: &Value| it["metadata"]["annotations"][annotations::STATEFUL].is_string();
    let inventories = &apps::FEED_INVENTORIES;
    fleet
        .await_object(inventories, Some("default"), "app", is_listed)
        .await;
    divide(&fleet, &homes, [Some(12), Some(0)]).await;
    let given = gets(&fleet, &homes[0], 12).await;
    let base = fleet.await_one(&apps::BASES, &homes[0]).await;
    let subscription = meta::label(&base, labels::SUBSCRIPTION_UID).unwrap().to_owned();

    let intruder = fleet.join("edge-9").await;
    let claim = json!({
        "metadata": {
            "name": "claim-generic", "finalizers": ["of.the.child/own", finalizers::APP],
            "labels": {labels::SUBSCRIPTION_UID: subscription, labels::CONFIG_UID: meta::uid(&base)},
        },
        "spec": {"deployer": "Generic", "raw": []},
    });
    fleet.create(&apps::DESCRIPTIONS, Some(&intruder), &claim).await;
    ready(&fleet, &intruder, "claim-generic", 1_000).await;
    ready(&fleet, &homes[0], &given, 2).await;
    divide(&fleet, &homes, [Some(2), Some(10)]).await;
    gets(&fleet, &homes[0], 2).await;
    let taken = gets(&fleet, &homes[1], 10).await;

    fleet.delete(&apps::SUBSCRIPTIONS, Some("default"), "app").await;
    fleet.take_away(&homes[0], &given).await;
    fleet.take_away(&homes[1], &taken).await;
    fleet
        .await_gone(&apps::SUBSCRIPTIONS, Some("default"), "app")
        .await;
    let claim = fleet
        .get(&apps::DESCRIPTIONS, Some(&intruder), "claim-generic")
        .await;
    assert!(!meta::is_deleting(&claim), "nor is it anybody's to delete");
    fleet.stop().await;
}
