//! What a Description left behind goes when the agent comes to see that it is gone.

use std::time::Duration;

use api::{annotations, apps, clusters, kubernetes, labels};
use kubeio::{Client, ListOptions, Patch};
use serde_json::{Value, json};

use crate::harness::{NAMESPACE, World, namespace};

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "1"}})
}

impl World {
    /// Lets a Description go without its child, as the parent does when the child is not ready.
    async fn give_up(&self, name: &str) {
        let (descriptions, place) = (&apps::DESCRIPTIONS, Some(NAMESPACE));
        self.delete(&self.parent, descriptions, place, name).await;
        let without = json!({"metadata": {"finalizers": []}});
        self.change(&self.parent, descriptions, place, name, &without)
            .await;
        self.gone(&self.parent, descriptions, place, name).await;
    }

    /// Puts the mark of a restored parent on the ManagedCluster, or takes it off.
    async fn mark(&self, why: &Value) {
        let patch = json!({"metadata": {"annotations": {annotations::HOLD_ORPHANS: why}}});
        self.change(
            &self.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
            &patch,
        )
        .await;
    }

    /// An object in the child that says where it comes from.
    async fn applied(&self, name: &str, owner: &str) {
        let mut object = config_map("default", name);
        object["metadata"]["labels"] = json!({labels::CREATED_BY: labels::CREATED_BY_CONTROLLERS});
        object["metadata"]["annotations"] = json!({annotations::OWNED_BY_DESCRIPTION: owner});
        let maps = &kubernetes::CONFIG_MAPS;
        self.child.create(maps, Some("default"), &object).await.unwrap();
    }
}

async fn has(client: &Client, name: &str) -> bool {
    let maps = &kubernetes::CONFIG_MAPS;
    client
        .get_opt(maps, Some("default"), name)
        .await
        .unwrap()
        .is_some()
}

#[tokio::test(start_paused = true)]
async fn what_went_while_the_agent_was_away_is_removed_once_the_parent_says_so() {
    let (world, agent) = World::joined().await;
    let shop = [namespace("shop"), config_map("shop", "c")];
    world.describe("app.v1-generic", &shop).await;
    world.phase("app.v1-generic", "Success").await;
    world.describe("stays", &[config_map("default", "stays")]).await;
    world.phase("stays", "Success").await;
    agent.stop().await;
    world.give_up("app.v1-generic").await;
    // A kind that no Description uses any more, another parent's, and what only looks like it.
    world.applied("forgotten", &format!("{NAMESPACE}.old")).await;
    world.applied("theirs", "clusternet-fghij.old").await;
    let plain = config_map("default", "plain");
    let maps = &kubernetes::CONFIG_MAPS;
    world.child.create(maps, Some("default"), &plain).await.unwrap();

    let list = "/apis/apps.clusternet.io/v1alpha1/namespaces/clusternet-abcde/descriptions?fieldSelector";
    world.unanswered.lock().unwrap().push(format!("GET {list}"));
    let agent = world.agent();
    tokio::time::sleep(Duration::from_secs(90)).await;
    for (object_namespace, name) in [("shop", "c"), ("default", "forgotten")] {
        let found = world.child.get_opt(maps, Some(object_namespace), name).await;
        assert!(found.unwrap().is_some(), "{name} went though nobody knows");
    }
    world.unanswered.lock().unwrap().clear();
    world
        .gone(&world.child, &kubernetes::NAMESPACES, None, "shop")
        .await;
    world.gone(&world.child, maps, Some("default"), "forgotten").await;
    for name in ["stays", "theirs", "plain"] {
        assert!(has(&world.child, name).await, "{name}");
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_looked_at_is_looked_at_again() {
    let (world, agent) = World::joined().await;
    agent.stop().await;
    world.applied("forgotten", &format!("{NAMESPACE}.old")).await;
    // Discovery fails at first; that one kind is forbidden would be the end of it.
    world.forbidden.lock().unwrap().push("GET /api$".to_owned());
    let agent = world.agent();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(has(&world.child, "forgotten").await);
    world.forbidden.lock().unwrap().clear();
    world
        .gone(
            &world.child,
            &kubernetes::CONFIG_MAPS,
            Some("default"),
            "forgotten",
        )
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_description_that_goes_before_its_objects_is_followed_up() {
    let (world, agent) = World::joined().await;
    world.describe("app", &[config_map("default", "c")]).await;
    world.phase("app", "Success").await;
    world
        .forbidden
        .lock()
        .unwrap()
        .push("DELETE /api/v1/namespaces/default/configmaps".to_owned());
    world.give_up("app").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(has(&world.child, "c").await);
    world.forbidden.lock().unwrap().clear();
    world
        .gone(&world.child, &kubernetes::CONFIG_MAPS, Some("default"), "c")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_description_of_the_same_name_takes_over() {
    let (world, agent) = World::joined().await;
    let both = [config_map("default", "kept"), config_map("default", "dropped")];
    world.describe("app", &both).await;
    world.phase("app", "Success").await;
    let kept = world
        .child
        .get(&kubernetes::CONFIG_MAPS, Some("default"), "kept")
        .await
        .unwrap();
    agent.stop().await;
    world.give_up("app").await;
    world.describe("app", &[config_map("default", "kept")]).await;
    let agent = world.agent();
    world.phase("app", "Success").await;
    world
        .gone(&world.child, &kubernetes::CONFIG_MAPS, Some("default"), "dropped")
        .await;
    let still = world
        .child
        .get(&kubernetes::CONFIG_MAPS, Some("default"), "kept")
        .await
        .unwrap();
    assert_eq!(
        machinery::meta::uid(&still),
        machinery::meta::uid(&kept),
        "it is never away"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_restored_parent_does_not_know_stays_until_somebody_says_otherwise() {
    let (world, agent) = World::joined().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "of-a-new-kind", "namespace": "default"}});
    let all = [
        config_map("default", "kept"),
        config_map("default", "newer"),
        account,
    ];
    world.describe("app", &all[..1]).await;
    let before = world.phase("app", "Success").await;
    world.describe("app", &all).await;
    world.describe("late", &[config_map("default", "late")]).await;
    for (name, objects) in [("app", 3), ("late", 1)] {
        let (descriptions, place) = (&apps::DESCRIPTIONS, Some(NAMESPACE));
        let applied = |it: &Value| {
            let applied = it["status"]["manifestStatuses"].as_array().map(Vec::len);
            it["status"]["phase"] == "Success" && applied == Some(objects)
        };
        world
            .wait(&world.parent, descriptions, place, name, applied)
            .await;
    }
    agent.stop().await;
    // The parent goes back to what it was.
    world.mark(&json!("restored")).await;
    world.give_up("late").await;
    world.describe("app", &all[..1]).await;
    let old = json!({"status": {"manifestStatuses": before["status"]["manifestStatuses"]}});
    world
        .parent
        .patch(
            &apps::DESCRIPTIONS,
            Some(NAMESPACE),
            "app",
            Some("status"),
            Patch::Merge,
            &old,
        )
        .await
        .unwrap();
    world.applied("forgotten", &format!("{NAMESPACE}.old")).await;
    let agent = world.agent();
    let events = kubernetes::EVENTS;
    let told = || async {
        let listed = world
            .parent
            .list_all(&events, Some(NAMESPACE), &ListOptions::default())
            .await;
        let notes = listed.unwrap().items;
        let held = notes.iter().filter(|event| event["reason"] == "OrphansHeld");
        held.map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let held = [
        "default/newer",
        "default/of-a-new-kind",
        "default/late",
        "default/forgotten",
    ];
    let mut before = Vec::new();
    while !held
        .iter()
        .all(|name| before.iter().any(|note: &String| note.contains(name)))
    {
        tokio::time::sleep(Duration::from_secs(1)).await;
        before = told().await;
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(told().await, before, "each is told once");
    for name in ["kept", "newer", "late", "forgotten"] {
        assert!(has(&world.child, name).await, "{name}");
    }
    // What it knows goes as ever, and so does what it learns.
    world.describe("app", &[config_map("default", "next")]).await;
    world
        .gone(&world.child, &kubernetes::CONFIG_MAPS, Some("default"), "kept")
        .await;
    assert!(has(&world.child, "next").await && has(&world.child, "newer").await);
    // A Description that is deleted takes along what it knows.
    world
        .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world
        .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    assert!(!has(&world.child, "next").await && has(&world.child, "newer").await);
    world.mark(&Value::Null).await;
    for name in ["newer", "late", "forgotten"] {
        world
            .gone(&world.child, &kubernetes::CONFIG_MAPS, Some("default"), name)
            .await;
    }
    let accounts = &kubernetes::SERVICE_ACCOUNTS;
    world
        .gone(&world.child, accounts, Some("default"), "of-a-new-kind")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_managed_cluster_nothing_is_removed() {
    let (world, agent) = World::joined().await;
    agent.stop().await;
    world.applied("forgotten", &format!("{NAMESPACE}.old")).await;
    world
        .delete(
            &world.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
        )
        .await;
    let agent = world.agent();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(has(&world.child, "forgotten").await);
    agent.stop().await;
}
