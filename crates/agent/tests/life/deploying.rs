//! Objects come, stay, change and go as Descriptions say.

use api::entry::{Digest, Entry, Reference};
use api::{annotations, apps, clusters, finalizers, kubernetes, labels};
use kubeio::{ListOptions, Patch};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::harness::{NAMESPACE, World, namespace};

const WIDGETS: ApiResource = ApiResource::namespaced("x.io", "v1", "widgets", "Widget");

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"key": value}})
}

fn deployment(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "1000m"}}}]}}}})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

#[tokio::test(start_paused = true)]
async fn everything_arrives_at_once_in_waves() {
    let (world, agent) = World::joined().await;
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}, "spec": {"a": 1}});
    // The worst order: each needs a later one.
    world
        .describe(
            "app.v1-generic",
            &[
                widget,
                deployment(3),
                config_map("c", "1"),
                namespace("shop"),
                definition(),
            ],
        )
        .await;
    let description = world.phase("app.v1-generic", "Success").await;
    assert_eq!(
        description["status"]["manifestStatuses"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    for (resource, name) in [
        (&WIDGETS, "w"),
        (&kubernetes::DEPLOYMENTS, "web"),
        (&kubernetes::CONFIG_MAPS, "c"),
    ] {
        let object = world.child.get(resource, Some("shop"), name).await.unwrap();
        assert_eq!(
            meta::annotation(&object, annotations::OWNED_BY_DESCRIPTION),
            Some("clusternet-abcde.app.v1-generic")
        );
        assert!(meta::annotation(&object, annotations::LAST_APPLIED).is_some());
    }
    let event = world
        .wait_one(&kubernetes::EVENTS, Some(NAMESPACE), |it| {
            it["reason"] == "SuccessfullyDeployed"
        })
        .await;
    assert_eq!(event["source"]["component"], "clusternet-agent");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_undone_and_status_flows_back() {
    let (world, agent) = World::joined().await;
    world
        .describe("app", &[namespace("shop"), deployment(3), config_map("c", "1")])
        .await;
    world.phase("app", "Success").await;
    let (deployments, maps) = (&kubernetes::DEPLOYMENTS, &kubernetes::CONFIG_MAPS);

    // What others add stays; what was wanted comes back.
    let drift = json!({"spec": {"replicas": 9, "revisionHistoryLimit": 4}});
    world
        .change(&world.child, deployments, Some("shop"), "web", &drift)
        .await;
    let back = world
        .wait(&world.child, deployments, Some("shop"), "web", |it| {
            it["spec"]["replicas"] == 3
        })
        .await;
    assert_eq!(back["spec"]["revisionHistoryLimit"], 4);
    world.delete(&world.child, maps, Some("shop"), "c").await;
    world
        .wait(&world.child, maps, Some("shop"), "c", |it| {
            it["data"]["key"] == "1"
        })
        .await;

    let status = json!({"status": {"replicas": 3, "readyReplicas": 2}});
    world
        .child
        .patch(
            deployments,
            Some("shop"),
            "web",
            Some("status"),
            Patch::Merge,
            &status,
        )
        .await
        .unwrap();
    let description = world
        .wait(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app", |it| {
            it["status"]["manifestStatuses"][1]["observedStatus"]["readyReplicas"] == 2
        })
        .await;
    assert_eq!(description["status"]["phase"], "Success");

    // An older report that comes late, or another's, does not stay.
    let mut old = description["status"].clone();
    old["manifestStatuses"][1]["observedStatus"] = json!({"replicas": 3});
    let late = json!({"status": old});
    let (parent, namespace) = (&world.parent, Some(NAMESPACE));
    parent
        .patch(
            &apps::DESCRIPTIONS,
            namespace,
            "app",
            Some("status"),
            Patch::Merge,
            &late,
        )
        .await
        .unwrap();
    let again = world
        .wait(parent, &apps::DESCRIPTIONS, namespace, "app", |it| {
            it["status"] == description["status"]
        })
        .await;
    assert!(again["metadata"]["resourceVersion"] != description["metadata"]["resourceVersion"]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_and_removed_feeds_go_even_if_the_agent_was_away() {
    let (world, agent) = World::joined().await;
    world
        .describe(
            "app",
            &[
                namespace("shop"),
                deployment(3),
                config_map("c", "1"),
                config_map("d", "1"),
            ],
        )
        .await;
    world.phase("app", "Success").await;
    world
        .describe("app", &[namespace("shop"), deployment(5), config_map("c", "2")])
        .await;
    let maps = &kubernetes::CONFIG_MAPS;
    world
        .wait(&world.child, maps, Some("shop"), "c", |it| {
            it["data"]["key"] == "2"
        })
        .await;
    world.gone(&world.child, maps, Some("shop"), "d").await;

    agent.stop().await;
    let before = world.child.get(maps, Some("shop"), "c").await.unwrap();
    world
        .describe("app", &[namespace("shop"), config_map("c", "2")])
        .await;
    let agent = world.agent();
    world
        .gone(&world.child, &kubernetes::DEPLOYMENTS, Some("shop"), "web")
        .await;
    world
        .wait(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app", |it| {
            it["status"]["manifestStatuses"]
                .as_array()
                .is_some_and(|all| all.len() == 2)
        })
        .await;
    let after = world.child.get(maps, Some("shop"), "c").await.unwrap();
    assert_eq!(
        meta::resource_version(&after),
        meta::resource_version(&before),
        "nothing was written again"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_followed_to_its_end() {
    let (world, agent) = World::joined().await;
    world
        .describe("app", &[namespace("shop"), config_map("c", "1")])
        .await;
    world.phase("app", "Success").await;
    let maps = &kubernetes::CONFIG_MAPS;
    let hold = json!({"metadata": {"finalizers": ["x.io/hold"]}});
    world.change(&world.child, maps, Some("shop"), "c", &hold).await;
    world
        .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    let going = world.phase("app", "Uninstalling").await;
    assert!(
        going["status"]["reason"]
            .as_str()
            .unwrap()
            .contains("ConfigMap shop/c"),
        "{going}"
    );
    assert!(meta::has_finalizer(&going, finalizers::APP));
    let let_go = json!({"metadata": {"finalizers": null}});
    world.change(&world.child, maps, Some("shop"), "c", &let_go).await;
    world
        .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world.gone(&world.child, maps, Some("shop"), "c").await;
    assert!(
        world
            .child
            .get_opt(&kubernetes::NAMESPACES, None, "shop")
            .await
            .unwrap()
            .is_none()
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_and_cured_when_it_is_given() {
    let (world, agent) = World::joined().await;
    let creating = "POST /apis/apps/v1/namespaces/shop/deployments".to_owned();
    world.forbidden.lock().unwrap().push(creating);
    world
        .describe("app", &[namespace("shop"), deployment(1), config_map("c", "1")])
        .await;
    let failed = world.phase("app", "Failure").await;
    let reason = failed["status"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("the deployer may not create deployments of group apps"),
        "{reason}"
    );
    world
        .child
        .get(&kubernetes::CONFIG_MAPS, Some("shop"), "c")
        .await
        .expect("the others are applied");
    world.forbidden.lock().unwrap().clear();
    world.phase("app", "Success").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_never_might_be_applied_holds_nothing_up() {
    let (world, agent) = World::joined().await;
    let everything = ["GET", "POST", "PATCH", "DELETE"];
    let forbid = everything.map(|verb| format!("{verb} /apis/apps/v1/namespaces/shop/deployments"));
    world.forbidden.lock().unwrap().extend(forbid);
    let objects = [namespace("shop"), config_map("c", "1"), deployment(1)];
    for name in ["dropped", "deleted"] {
        world.describe(name, &objects).await;
        let failed = world.phase(name, "Failure").await;
        let entries = failed["status"]["manifestStatuses"].as_array().unwrap();
        let seen: Vec<bool> = entries
            .iter()
            .map(|entry| entry["observedStatus"].is_object())
            .collect();
        assert_eq!(seen, [true, true, false], "{failed}");

        // Out of the feeds first, then with the whole Description.
        if name == "dropped" {
            world.describe(name, &objects[..2]).await;
            let done = world.phase(name, "Success").await;
            assert_eq!(done["status"]["manifestStatuses"].as_array().unwrap().len(), 2);
        }
        world
            .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), name)
            .await;
        world
            .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), name)
            .await;
        world
            .gone(&world.child, &kubernetes::NAMESPACES, None, "shop")
            .await;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_and_may_not_be_removed_any_more_is_waited_for() {
    let (world, agent) = World::joined().await;
    world
        .describe("app", &[namespace("shop"), config_map("c", "1")])
        .await;
    world.phase("app", "Success").await;
    agent.stop().await;
    let everything = ["GET", "POST", "PATCH", "DELETE"];
    let forbid = everything.map(|verb| format!("{verb} /api/v1/namespaces/shop/configmaps"));
    world.forbidden.lock().unwrap().extend(forbid);
    // The new agent never saw the object itself, and passes over it before it is to go.
    let agent = world.agent();
    world
        .describe("app", &[namespace("shop"), config_map("c", "2")])
        .await;
    world.phase("app", "Failure").await;
    world
        .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world.phase("app", "Uninstalling").await;
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    let waiting = world.phase("app", "Uninstalling").await;
    let reason = waiting["status"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("ConfigMap shop/c: missing right: the deployer may not get configmaps"),
        "{reason}"
    );
    world.forbidden.lock().unwrap().clear();
    world
        .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world
        .gone(&world.child, &kubernetes::CONFIG_MAPS, Some("shop"), "c")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_agent_follows_the_sync_mode_of_its_cluster() {
    let (mut world, agent) = World::joined().await;
    agent.stop().await;
    world.config.gates.app_pusher = true;
    let agent = world.agent();
    world
        .describe("app", &[namespace("shop"), config_map("c", "1")])
        .await;
    world.phase("app", "Success").await;
    let mode = |mode: &str| json!({"spec": {"syncMode": mode}});
    let (managed, maps) = (&clusters::MANAGED_CLUSTERS, &kubernetes::CONFIG_MAPS);
    world
        .change(&world.parent, managed, Some(NAMESPACE), "edge-7", &mode("Push"))
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    world
        .describe("app", &[namespace("shop"), config_map("c", "2")])
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    let map = world.child.get(maps, Some("shop"), "c").await.unwrap();
    assert_eq!(map["data"]["key"], "1", "the parent deploys now");
    world
        .change(&world.parent, managed, Some(NAMESPACE), "edge-7", &mode("Pull"))
        .await;
    world
        .wait(&world.child, maps, Some("shop"), "c", |it| {
            it["data"]["key"] == "2"
        })
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_also_when_nobody_applies_any_more() {
    let (world, agent) = World::joined().await;
    world
        .describe("app", &[namespace("shop"), config_map("c", "1")])
        .await;
    world.phase("app", "Success").await;
    let push = json!({"spec": {"syncMode": "Push"}});
    let managed = &clusters::MANAGED_CLUSTERS;
    world
        .change(&world.parent, managed, Some(NAMESPACE), "edge-7", &push)
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    world
        .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world
        .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world
        .gone(&world.child, &kubernetes::NAMESPACES, None, "shop")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_descriptions_do_not_fight_over_an_object() {
    let (world, agent) = World::joined().await;
    world
        .describe("first", &[namespace("shop"), config_map("c", "1")])
        .await;
    world.phase("first", "Success").await;
    world.describe("second", &[config_map("c", "2")]).await;
    let refused = world.phase("second", "Failure").await;
    assert!(
        refused["status"]["reason"]
            .as_str()
            .unwrap()
            .contains("belongs to Description clusternet-abcde/first")
    );
    let map = world
        .child
        .get(&kubernetes::CONFIG_MAPS, Some("shop"), "c")
        .await
        .unwrap();
    assert_eq!(map["data"]["key"], "1");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_two_descriptions_want_alike_is_shared_and_goes_with_the_last() {
    let (world, agent) = World::joined().await;
    let (namespaces, maps) = (&kubernetes::NAMESPACES, &kubernetes::CONFIG_MAPS);
    let (parent, own) = (&world.parent, Some(NAMESPACE));
    world
        .describe("first", &[namespace("shop"), config_map("c", "1")])
        .await;
    world.phase("first", "Success").await;
    world
        .describe("second", &[namespace("shop"), config_map("d", "1")])
        .await;
    let second = world.phase("second", "Success").await;
    let seen = &second["status"]["manifestStatuses"][0]["observedStatus"];
    assert_eq!(seen["phase"], "Active", "what is shared is reported");
    let owner = |object: &Value| object["metadata"]["annotations"][annotations::OWNED_BY_DESCRIPTION].clone();
    let shop = world.child.get(namespaces, None, "shop").await.unwrap();
    assert_eq!(owner(&shop), format!("{NAMESPACE}.first"));

    // Whose namespace cannot be as it is wanted still gets what is in it.
    let mut otherwise = namespace("shop");
    otherwise["metadata"]["labels"] = json!({"tier": "gold"});
    world.describe("third", &[otherwise, config_map("e", "1")]).await;
    let third = world.phase("third", "Failure").await;
    assert!(
        third["status"]["reason"]
            .as_str()
            .unwrap()
            .contains("Namespace shop")
    );
    world.wait(&world.child, maps, Some("shop"), "e", |_| true).await;
    world.delete(parent, &apps::DESCRIPTIONS, own, "third").await;
    world.gone(parent, &apps::DESCRIPTIONS, own, "third").await;

    world.delete(parent, &apps::DESCRIPTIONS, own, "first").await;
    world.gone(parent, &apps::DESCRIPTIONS, own, "first").await;
    world.gone(&world.child, maps, Some("shop"), "c").await;
    let kept = world
        .wait(&world.child, namespaces, None, "shop", |it| {
            owner(it) == format!("{NAMESPACE}.second")
        })
        .await;
    assert_eq!(kept["metadata"]["uid"], shop["metadata"]["uid"]);
    world.child.get(maps, Some("shop"), "d").await.unwrap();
    world.delete(parent, &apps::DESCRIPTIONS, own, "second").await;
    world.gone(&world.child, namespaces, None, "shop").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_chart_is_declined_and_its_release_let_go() {
    let (world, agent) = World::joined().await;
    let releases = &apps::HELM_RELEASES;
    let description = json!({
        "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Description",
        "metadata": {"name": "app-helm", "namespace": NAMESPACE, "finalizers": [finalizers::APP]},
        "spec": {"deployer": "Helm", "charts": [{"namespace": "foo", "name": "sql"}], "raw": ["IA=="], "chartRaw": ["e30="]},
    });
    let description = world
        .parent
        .create(&apps::DESCRIPTIONS, Some(NAMESPACE), &description)
        .await
        .unwrap();
    let described = world.phase("app-helm", "Failure").await;
    assert_eq!(
        described["status"]["conditions"][0]["reason"],
        "ChartsNotExecuted"
    );
    let why = described["status"]["reason"].as_str().unwrap();
    assert!(why.contains("HelmChart foo/sql is not deployed"), "{why}");

    // The parent makes the release a little later.
    let release = json!({
        "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmRelease",
        "metadata": {"name": "app-helm-foo-sql", "finalizers": [finalizers::APP],
            "labels": {labels::CONFIG_UID: description["metadata"]["uid"]}},
        "spec": {"repo": "https://charts.example.com", "chart": "sql", "targetNamespace": "foo"},
    });
    world
        .parent
        .create(releases, Some(NAMESPACE), &release)
        .await
        .unwrap();
    world
        .wait(
            &world.parent,
            releases,
            Some(NAMESPACE),
            "app-helm-foo-sql",
            |it| it["status"]["phase"] == "unknown" && it["status"]["description"].is_string(),
        )
        .await;
    let name = "app-helm";
    world
        .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), name)
        .await;
    world
        .delete(&world.parent, releases, Some(NAMESPACE), "app-helm-foo-sql")
        .await;
    world
        .gone(&world.parent, releases, Some(NAMESPACE), "app-helm-foo-sql")
        .await;
    agent.stop().await;
}

/// D12 (a): what is taken out of a set soon after it came never remains.
#[tokio::test(start_paused = true)]
async fn d12_rapid_edits_leave_nothing_behind() {
    let (world, mut agent) = World::joined().await;
    let env = testplane::paused_env();
    let pause = async || tokio::time::sleep(std::time::Duration::from_millis(env.random_u64() % 100)).await;
    let kept = [namespace("shop"), config_map("b", "1")];
    let both = [namespace("shop"), config_map("b", "1"), config_map("a", "1")];
    for round in 0..200 {
        world.describe("app", &both).await;
        pause().await;
        world.describe("app", &kept).await;
        pause().await;
        if round == 100 {
            agent.stop().await;
            world.describe("app", &both).await;
            world.describe("app", &kept).await;
            agent = world.agent();
        }
    }
    let description = world
        .parent
        .get(&apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await
        .unwrap();
    let generation = meta::generation(&description);
    world
        .wait(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app", |it| {
            let status = &it["status"];
            let on_record = status["manifestStatuses"].as_array().map_or(0, Vec::len);
            status["phase"] == "Success" && status["observedGeneration"] == generation && on_record == 2
        })
        .await;
    let maps = world
        .child
        .list(&kubernetes::CONFIG_MAPS, Some("shop"), &ListOptions::default())
        .await
        .unwrap();
    let names: Vec<&str> = maps.items.iter().map(meta::name).collect();
    assert_eq!(names, ["b"]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_description_refers_to_is_got_from_the_hub() {
    let (world, agent) = World::joined().await;
    world
        .wait(
            &world.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
            |it| it["status"]["features"] == json!(["payload-references"]),
        )
        .await;
    let reference = |object: &Value| {
        let text = object.to_string();
        let digest = Digest::of(text.as_bytes());
        let raw = Entry::Reference(Reference {
            digest: digest.clone(),
            size: text.len() as u64,
            object: api::feed::Feed::of_object(object),
        })
        .to_raw();
        (digest.to_string(), text.into_bytes(), raw)
    };
    let shop = Entry::Object(namespace("shop")).to_raw();
    let (old, new) = (config_map("c", "1"), config_map("c", &"2".repeat(1_000_000)));
    let (digest, bytes, raw) = reference(&old);
    world.payloads.lock().unwrap().insert(digest, bytes);
    world.describe_raw("app", vec![shop.clone(), raw]).await;
    world.phase("app", "Success").await;
    let maps = &kubernetes::CONFIG_MAPS;
    let applied = world.child.get(maps, Some("shop"), "c").await.unwrap();
    assert_eq!(applied["data"]["key"], "1");

    // What cannot be got, or is not what it should be, leaves the object as it is.
    let (digest, bytes, raw) = reference(&new);
    world.describe_raw("app", vec![shop, raw]).await;
    let description = world.phase("app", "Failure").await;
    assert_eq!(
        description["status"]["reason"],
        "ConfigMap shop/c: its content cannot be got: the hub answers 404: there is no such payload"
    );
    world
        .payloads
        .lock()
        .unwrap()
        .insert(digest.clone(), old.to_string().into_bytes());
    let description = world
        .wait(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app", |it| {
            it["status"]["conditions"][0]["reason"] == "PayloadWrong"
        })
        .await;
    assert!(
        description["status"]["manifestStatuses"][1]["observedStatus"].is_object(),
        "it is still there"
    );
    let applied = world.child.get(maps, Some("shop"), "c").await.unwrap();
    assert_eq!(applied["data"]["key"], "1");
    world.payloads.lock().unwrap().insert(digest, bytes);
    world.phase("app", "Success").await;
    let applied = world.child.get(maps, Some("shop"), "c").await.unwrap();
    assert_eq!(applied["data"], new["data"]);

    // Nothing has to be got to take it away again.
    agent.stop().await;
    world.payloads.lock().unwrap().clear();
    let agent = world.agent();
    world
        .delete(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    world.gone(&world.child, maps, Some("shop"), "c").await;
    world
        .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sealed_to_the_cluster_is_opened_in_it_alone() {
    let mut world = World::start().await;
    world.config.report_interval = std::time::Duration::from_secs(30);
    let agent = world.agent();
    world.approve("token-1").await;
    let told = async |other_than: &str| -> String {
        let cluster = world
            .wait(
                &world.parent,
                &clusters::MANAGED_CLUSTERS,
                Some(NAMESPACE),
                "edge-7",
                |it| {
                    it["status"]["encryptionKey"]
                        .as_str()
                        .is_some_and(|key| key != other_than)
                },
            )
            .await;
        cluster["status"]["encryptionKey"].as_str().unwrap().to_owned()
    };
    let fingerprints = sealing::Fingerprints::new(&[7; 32]).unwrap();
    let seal = |key: &str, value: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"},
            "stringData": {"password": value}});
        let key: sealing::PublicKey = key.parse().unwrap();
        let feed = api::feed::Feed::of_object(&object);
        let sealed = key.seal(&feed, object.to_string().as_bytes(), &fingerprints);
        Entry::Sealed(sealed.unwrap()).to_raw()
    };
    let shop = Entry::Object(namespace("shop")).to_raw();
    let first = told("").await;
    world
        .describe_raw("app", vec![shop.clone(), seal(&first, "hunter2")])
        .await;
    world.phase("app", "Success").await;
    let secrets = &kubernetes::SECRETS;
    let holds = async |value: &str| {
        world
            .wait(&world.child, secrets, Some("shop"), "key", |it| {
                it["data"]["password"] == value
            })
            .await
    };
    holds("aHVudGVyMg==").await;

    // The key outlives the agent, and goes with its Secret.
    agent.stop().await;
    let agent = world.agent();
    let stranger = sealing::KeyPair::from_random([1; 32])
        .unwrap()
        .public()
        .to_string();
    world
        .describe_raw("app", vec![shop.clone(), seal(&stranger, "hunter3")])
        .await;
    let description = world.phase("app", "Failure").await;
    let status = &description["status"];
    assert_eq!(status["conditions"][0]["reason"], "NotOpened");
    let reason = status["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("Secret shop/key: its content cannot be read: it is encrypted to key"),
        "{reason}"
    );
    world
        .describe_raw("app", vec![shop.clone(), seal(&first, "hunter4")])
        .await;
    world.phase("app", "Success").await;
    holds("aHVudGVyNA==").await;
    let own = Some(world.config.namespace.as_str());
    world
        .delete(&world.child, secrets, own, api::names::AGENT_KEY_SECRET)
        .await;
    let second = told(&first).await;
    world
        .describe_raw("app", vec![shop, seal(&second, "hunter5")])
        .await;
    holds("aHVudGVyNQ==").await;
    let events = world
        .parent
        .list(&kubernetes::EVENTS, None, &ListOptions::default())
        .await
        .unwrap();
    assert!(!json!(events.items).to_string().contains("hunter"));
    agent.stop().await;
}
