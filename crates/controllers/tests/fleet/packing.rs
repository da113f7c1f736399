//! What Descriptions only refer to, and what is encrypted in them.

use api::entry::{self, Entry};
use api::{apps, clusters, kubernetes, payloads};
use kubeio::ListOptions;
use machinery::meta;
use serde_json::{Value, json};

use crate::harness::{Fleet, objects};

/// A template of a ConfigMap with so many bytes.
async fn set_map(fleet: &Fleet, name: &str, bytes: usize) {
    let patch = json!({"template": {"data": {"x": "y".repeat(bytes)}}});
    let full = format!("configmaps.foo.{name}");
    fleet
        .change(&apps::MANIFESTS, "clusternet-reserved", &full, None, &patch)
        .await;
}

#[tokio::test(start_paused = true)]
async fn large_objects_are_kept_once_for_all_clusters_as_long_as_one_refers_to_them() {
    let mut fleet = Fleet::start().await;
    let homes = [fleet.join("edge-7").await, fleet.join("edge-8").await];
    for (home, name) in homes.iter().zip(["edge-7", "edge-8"]) {
        let status = json!({"status": {"features": ["payload-references"]}});
        fleet
            .change(&clusters::MANAGED_CLUSTERS, home, name, Some("status"), &status)
            .await;
    }
    for name in ["a", "b", "c"] {
        fleet.manifest("v1", "ConfigMap", "foo", name).await;
        set_map(&fleet, name, 920_000).await;
    }
    fleet.subscribe(&[&homes[0], &homes[1]]).await;
    let referred = |description: &Value| api::entry::digests(description).collect::<Vec<_>>();
    let stored = async || {
        let all = fleet
            .client
            .list(&payloads::PAYLOADS, None, &ListOptions::default())
            .await
            .unwrap();
        all.items
    };
    for home in &homes {
        let description = fleet.await_one(&apps::DESCRIPTIONS, home).await;
        assert!(description.to_string().len() < 8_192);
        assert_eq!(referred(&description).len(), 3);
    }
    assert_eq!(stored().await.len(), 3, "once for both, in one piece each");

    // What nobody refers to any more goes after a while; what is still referred to stays.
    let before = fleet.await_one(&apps::DESCRIPTIONS, &homes[0]).await;
    fleet.env.advance(700);
    set_map(&fleet, "a", 5).await;
    fleet
        .await_object(&apps::DESCRIPTIONS, Some(&homes[0]), meta::name(&before), |it| {
            referred(it).len() == 2
        })
        .await;
    fleet
        .wait("the end of a payload", async || {
            (stored().await.len() == 2).then_some(())
        })
        .await;

    // What somebody takes away that is needed comes back.
    let lost = meta::name(&stored().await[0]).to_owned();
    fleet
        .delete(&payloads::PAYLOADS, Some(payloads::NAMESPACE), &lost)
        .await;
    fleet
        .await_object(&payloads::PAYLOADS, Some(payloads::NAMESPACE), &lost, |_| true)
        .await;

    // An agent that understands no references gets everything whole. (Its size is the server's to judge.)
    set_map(&fleet, "b", 50_000).await;
    set_map(&fleet, "c", 50_000).await;
    let status = json!({"status": {"features": []}});
    fleet
        .change(
            &clusters::MANAGED_CLUSTERS,
            &homes[0],
            "edge-7",
            Some("status"),
            &status,
        )
        .await;
    fleet
        .await_object(&apps::DESCRIPTIONS, Some(&homes[0]), meta::name(&before), |it| {
            referred(it).is_empty() && objects(it).len() == 3
        })
        .await;
    fleet.stop().await;
}

/// A cluster that tells this key, and a Secret on its way there; answers the cluster's namespace and the Description.
async fn with_secret(fleet: &Fleet, key: &sealing::KeyPair) -> (String, Value) {
    let home = fleet.join("edge-7").await;
    fleet.manifest("v1", "Secret", "foo", "key").await;
    let (manifests, name) = (&apps::MANIFESTS, "secrets.foo.key");
    let template = json!({"template": {"stringData": {"password": "hunter2"}}});
    fleet
        .change(manifests, "clusternet-reserved", name, None, &template)
        .await;
    tell_key(fleet, &home, &key.public().to_string()).await;
    fleet.subscribe(&[&home]).await;
    let description = fleet.await_one(&apps::DESCRIPTIONS, &home).await;
    (home, description)
}

async fn tell_key(fleet: &Fleet, home: &str, key: &str) {
    let status = json!({"status": {"encryptionKey": key}});
    fleet
        .change(
            &clusters::MANAGED_CLUSTERS,
            home,
            "edge-7",
            Some("status"),
            &status,
        )
        .await;
}

/// The first entry of a Description, if it is sealed.
fn sealed(description: &Value) -> Option<entry::Sealed> {
    match entry::entries(description).next() {
        Some(Entry::Sealed(sealed)) => Some(sealed),
        Some(Entry::Object(_) | Entry::Reference(_)) | None => None,
    }
}

fn password(pair: &sealing::KeyPair, sealed: &entry::Sealed) -> String {
    let opened: Value = serde_json::from_slice(&pair.open(sealed).unwrap()).unwrap();
    opened["stringData"]["password"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_is_sealed_stays_and_what_was_tampered_with_comes_back() {
    let pair = sealing::KeyPair::from_random([1; 32]).unwrap();
    let mut fleet = Fleet::start().await;
    let (home, description) = with_secret(&fleet, &pair).await;
    let name = meta::name(&description).to_owned();
    let first = sealed(&description).unwrap();
    assert_eq!(password(&pair, &first), "hunter2");

    fleet.stop().await;
    fleet.run();
    let other = sealing::Fingerprints::new(&[7; 32]).unwrap();
    let mut forged = first.clone();
    forged.ciphertext = pair
        .public()
        .seal(&first.object, b"{}", &other)
        .unwrap()
        .ciphertext;
    let raw = json!({"spec": {"raw": [Entry::Sealed(forged.clone()).to_raw()]}});
    fleet.change(&apps::DESCRIPTIONS, &home, &name, None, &raw).await;
    let back = fleet
        .await_object(&apps::DESCRIPTIONS, Some(&home), &name, |it| {
            sealed(it).is_some_and(|it| it != forged)
        })
        .await;
    assert_eq!(password(&pair, &sealed(&back).unwrap()), "hunter2");

    fleet.stop().await;
    fleet.run();
    fleet.manifest("v1", "ConfigMap", "foo", "other").await;
    let (manifests, other) = (&apps::MANIFESTS, "configmaps.foo.other");
    fleet
        .await_object(manifests, Some("clusternet-reserved"), other, |it| {
            it["metadata"]["finalizers"].is_array()
        })
        .await;
    let same = fleet.get(&apps::DESCRIPTIONS, Some(&home), &name).await;
    assert_eq!(
        meta::resource_version(&same),
        meta::resource_version(&back),
        "nothing is sealed anew"
    );
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn secrets_follow_the_key_of_their_cluster() {
    let mut fleet = Fleet::start().await;
    let (home, description) = with_secret(&fleet, &sealing::KeyPair::from_random([2; 32]).unwrap()).await;
    let name = meta::name(&description).to_owned();
    // A cluster with another key gets everything anew; one whose key is none gets nothing more.
    let next = sealing::KeyPair::from_random([3; 32]).unwrap();
    tell_key(&fleet, &home, &next.public().to_string()).await;
    fleet
        .await_object(&apps::DESCRIPTIONS, Some(&home), &name, |it| {
            sealed(it).is_some_and(|it| next.open(&it).is_ok())
        })
        .await;
    tell_key(&fleet, &home, "none").await;
    let base = fleet.await_one(&apps::BASES, &home).await;
    let notes = fleet
        .await_events("Base", meta::name(&base), "FailedApplyingOverrides")
        .await;
    assert!(
        notes[0].contains("Secret foo/key cannot be encrypted for its cluster"),
        "{notes:?}"
    );
    let events = fleet
        .client
        .list(&kubernetes::EVENTS, None, &ListOptions::default())
        .await
        .unwrap();
    assert!(!json!(events.items).to_string().contains("hunter2"));

    // An agent of another kind gets them as ever.
    tell_key(&fleet, &home, "").await;
    fleet.heartbeat(&home, "edge-7").await;
    fleet
        .await_object(&apps::DESCRIPTIONS, Some(&home), &name, |it| {
            sealed(it).is_none() && objects(it)[0]["stringData"]["password"] == "hunter2"
        })
        .await;
    fleet.stop().await;
}
