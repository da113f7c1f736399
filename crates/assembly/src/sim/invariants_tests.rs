//! A world that is well, and one broken world for each invariant: it must be found out, by that one.

use serde_json::json;

use super::*;
use api::annotations;

use crate::sim::world::Write;

/// The writes that make a fleet of two with an application, in order: cluster and object.
fn story() -> Vec<(&'static str, Value)> {
    let deployment = |replicas: u64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "nginx", "namespace": "web"}, "spec": {"replicas": replicas}})
    };
    let raw = |replicas: u64| {
        use base64::Engine as _;
        json!([base64::engine::general_purpose::STANDARD.encode(deployment(replicas).to_string())])
    };
    let feed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "nginx"});
    let labels = json!({"apps.clusternet.io/subs.uid": "s", "apps.clusternet.io/config.uid": "b"});
    let mut story = vec![(
        PARENT,
        json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Manifest",
            "metadata": {"name": "deployments.web.nginx", "namespace": "templates", "uid": "t"}}),
    )];
    for (name, home) in [("one", "home-one"), ("two", "home-two")] {
        story.extend([
            (
                PARENT,
                json!({"apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ManagedCluster",
                    "metadata": {"name": name, "namespace": home, "uid": name, "labels": {"demo": "nginx"}},
                    "status": {"nodeStatistics": {"readyNodes": 1},
                        "conditions": [{"type": "Ready", "status": "True"}]}}),
            ),
            (
                PARENT,
                json!({"apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ClusterRegistrationRequest",
                    "metadata": {"name": name, "uid": format!("request-{name}")}}),
            ),
            (
                PARENT,
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home, "uid": home,
                    "labels": {"clusters.clusternet.io/cluster-id": name}}}),
            ),
        ]);
    }
    let detail = |name: &str, ready: u64| json!({"clusterName": name, "available": true, "replicaStatus": {"replicas": ready, "readyReplicas": ready}});
    let mut status = feed.clone();
    status["feedStatusDetails"] = json!([detail("one", 3), detail("two", 3)]);
    status["feedStatusSummary"] =
        json!({"available": true, "replicaStatus": {"replicas": 6, "readyReplicas": 6}});
    story.push((
        PARENT,
        json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "nginx", "namespace": "default", "uid": "s", "generation": 1,
                "annotations": {"apps.tombolo.io/min-available": "80%"}},
            "spec": {"schedulingStrategy": "Dividing", "feeds": [feed]},
            "status": {"bindingClusters": ["home-one/one", "home-two/two"],
                "conditions": [{"type": "Applied", "status": "True", "message": "all"}],
                "replicas": {"apps/v1/Deployment/web/nginx": [3, 3]}, "aggregatedStatuses": [status]}}),
    ));
    for (name, home) in [("one", "home-one"), ("two", "home-two")] {
        let metadata = |kind: &str| {
            json!({"name": "nginx", "namespace": home, "generation": 1,
            "uid": if kind == "Base" { "b" } else { "d" }, "labels": labels})
        };
        story.push((
            PARENT,
            json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Base", "metadata": metadata("Base")}),
        ));
        story.push((
            PARENT,
            json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Description",
                "metadata": metadata("Description"), "spec": {"raw": raw(3)}}),
        ));
        story.push((
            name,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "uid": "web"}}),
        ));
        let mut live = deployment(3);
        live["metadata"]["uid"] = json!("live");
        live["metadata"]["annotations"] = json!({annotations::OWNED_BY_DESCRIPTION: format!("{home}.nginx")});
        live["status"] = json!({"replicas": 3, "readyReplicas": 3});
        story.push((name, live));
        for pod in ["a", "b", "c"] {
            story.push((
                name,
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "web", "uid": pod}}),
            ));
        }
        story.push((
            name,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                "metadata": {"name": "theirs", "namespace": FOREIGN, "uid": "theirs"}}),
        ));
    }
    story
}

fn goal() -> Goal {
    let both = ["one", "two"].map(str::to_owned);
    Goal {
        fleet: both.clone().map(|name| (name, 1)).into(),
        application: Some(Application {
            places: both.map(|name| (name, 1)).into(),
            divided: true,
            replicas: 6,
            notes: BTreeMap::new(),
            parts: vec![crate::sim::world::deployment("web", "nginx")],
        }),
    }
}

/// Writes at a time; what the steps say to it.
fn write(world: &mut World, at: u64, cluster: &str, key: &Key, new: Option<&Value>) -> Vec<String> {
    let bytes = new.map(|new| new.to_string().into_bytes());
    let mut broken = Vec::new();
    let write = Write {
        at,
        cluster,
        key,
        new: bytes.as_deref(),
    };
    world.write(&write, |world, change| {
        broken.extend(STEPS.iter().filter_map(|step| step(world, change)));
    });
    broken
}

/// A world that is well.
fn well() -> World {
    let mut world = World::default();
    for (at, (cluster, object)) in (0..).zip(story()) {
        let broken = write(&mut world, at, cluster, &key_of(&object), Some(&object));
        assert_eq!(broken, Vec::<String>::new(), "{object}");
    }
    world
}

/// The object of the story, changed.
fn changed(cluster: &str, kind: &str, place: usize, change: impl FnOnce(&mut Value)) -> Value {
    let mut all = story()
        .into_iter()
        .filter(|(at, it)| *at == cluster && it["kind"] == kind);
    let (_, mut object) = all.nth(place).unwrap();
    change(&mut object);
    object
}

/// An hour later, when nobody acts on what was.
const LATER: u64 = 3_600_000;

#[test]
fn a_sound_world_is_sound() {
    assert_eq!(lacks(&well(), &goal()), Vec::<String>::new());
}

#[test]
fn each_broken_write_is_caught() {
    let annotation = annotations::OWNED_BY_DESCRIPTION;
    let with =
        |cluster, kind, place, change: &dyn Fn(&mut Value)| (cluster, changed(cluster, kind, place, change));
    let rows: [((&str, Value), &str); 12] = [
        (
            with(PARENT, "Subscription", 0, &|it| {
                it["metadata"]["uid"] = json!("another")
            }),
            "became another object",
        ),
        (
            with(PARENT, "Subscription", 0, &|it| {
                it["metadata"]["generation"] = json!(0)
            }),
            "went back from generation 1 to 0",
        ),
        (
            with(PARENT, "Subscription", 0, &|it| {
                it["spec"]["schedulingStrategy"] = json!("Replication");
                it["status"]["bindingClusters"] = json!(["home-one/one"]);
            }),
            "is not bound to home-two/two any more",
        ),
        (
            with(PARENT, "Base", 0, &|it| {
                it["metadata"]["name"] = json!("new");
                it["metadata"]["labels"]["apps.clusternet.io/subs.uid"] = json!("gone");
            }),
            "a Subscription that is gone",
        ),
        (
            with(PARENT, "Base", 0, &|it| {
                it["metadata"]["namespace"] = json!("home-three")
            }),
            "was never bound to",
        ),
        (
            with("one", "Deployment", 0, &|it| {
                it["metadata"]["annotations"][annotation] = json!("home-two.nginx");
            }),
            "another cluster's Description",
        ),
        (
            with("one", "Deployment", 0, &|it| {
                it["metadata"]["annotations"][annotation] = json!("home-one.other");
            }),
            "a Description that never was",
        ),
        (
            with("one", "Deployment", 0, &|it| {
                it["metadata"]["name"] = json!("other")
            }),
            "was never asked for",
        ),
        (
            with("one", "ConfigMap", 0, &|it| it["data"] = json!({"a": "c"})),
            "is foreign, and was changed",
        ),
        (
            with("one", "Deployment", 0, &|it| it["spec"]["replicas"] = json!(1)),
            "4 replicas of apps/deployments \"web/nginx\" are ready in all clusters, and 5 must be",
        ),
        (
            with("one", "Deployment", 0, &|it| {
                it["status"]["readyReplicas"] = json!(0)
            }),
            "3 replicas of",
        ),
        (
            with(PARENT, "Description", 0, &|it| {
                use base64::Engine as _;
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "y"}});
                let raw = base64::engine::general_purpose::STANDARD.encode(map.to_string());
                it["spec"]["raw"] = json!([raw]);
                it["metadata"]["generation"] = json!(2);
            }),
            "which its Subscription never fed",
        ),
    ];
    for ((cluster, object), expected) in rows {
        let broken = write(&mut well(), LATER, cluster, &key_of(&object), Some(&object));
        assert!(
            broken.len() == 1 && broken[0].contains(expected),
            "{expected}: {broken:?}"
        );
    }
}

#[test]
fn each_unfounded_deletion_is_caught() {
    for (cluster, kind, expected) in [
        (PARENT, "Subscription", "nobody asked for that"),
        (PARENT, "ManagedCluster", "nobody asked for that"),
        (PARENT, "Manifest", "nobody asked for that"),
        (PARENT, "Base", "its Subscription is bound to the cluster"),
        (PARENT, "Description", "is there"),
        ("one", "ConfigMap", "is foreign, and was deleted"),
    ] {
        let object = changed(cluster, kind, 0, |_| {});
        let broken = write(&mut well(), LATER, cluster, &key_of(&object), None);
        assert!(
            broken.len() == 1 && broken[0].contains(expected),
            "{kind}: {broken:?}"
        );
        let going = changed(cluster, kind, 0, |it| {
            it["metadata"]["deletionTimestamp"] = json!("now")
        });
        let broken = write(&mut well(), LATER, cluster, &key_of(&going), Some(&going));
        assert!(
            broken.len() == 1 && broken[0].contains(expected),
            "{kind} is to go: {broken:?}"
        );
    }
    // One of the application's is missed by its floor, too.
    let object = changed("one", "Deployment", 0, |_| {});
    let broken = write(&mut well(), LATER, "one", &key_of(&object), None);
    assert!(
        broken[0].contains("the Description home-one.nginx asks for it"),
        "{broken:?}"
    );
}

#[test]
fn what_goes_with_reason_may_go() {
    let mut world = well();
    let deployment = changed("one", "Deployment", 0, |_| {});
    world.by_hand("one", key_of(&deployment));
    let broken = write(&mut world, LATER, "one", &key_of(&deployment), None);
    assert_eq!(broken, Vec::<String>::new(), "by hand");

    let mut world = well();
    let subscription = changed(PARENT, "Subscription", 0, |it| {
        it["metadata"]["deletionTimestamp"] = json!("now");
    });
    world.by_hand(PARENT, key_of(&subscription));
    let mut broken = write(
        &mut world,
        LATER,
        PARENT,
        &key_of(&subscription),
        Some(&subscription),
    );
    for (cluster, kind) in [(PARENT, "Base"), (PARENT, "Description"), ("one", "Deployment")] {
        let going = changed(cluster, kind, 0, |it| {
            it["metadata"]["deletionTimestamp"] = json!("now")
        });
        broken.extend(write(&mut world, LATER, cluster, &key_of(&going), Some(&going)));
    }
    assert_eq!(broken, Vec::<String>::new(), "taken back");

    // And does not come again.
    let deployment = changed("one", "Deployment", 0, |_| {});
    let description = changed(PARENT, "Description", 0, |_| {});
    write(&mut world, LATER, "one", &key_of(&deployment), None);
    write(&mut world, LATER, PARENT, &key_of(&description), None);
    let broken = write(&mut world, LATER, "one", &key_of(&deployment), Some(&deployment));
    assert!(broken[0].contains("made again after the end of"), "{broken:?}");
}

#[test]
fn what_was_not_asked_for_a_moment_ago_may_go() {
    for (later, expected) in [(LATER + 1_000, false), (2 * LATER, true)] {
        let mut world = well();
        // Nothing is asked for, and then all of it again.
        for (generation, empty) in [(2, true), (3, false)] {
            let description = changed(PARENT, "Description", 0, |it| {
                it["metadata"]["generation"] = json!(generation);
                if empty {
                    it["spec"]["raw"] = json!([]);
                }
            });
            write(
                &mut world,
                LATER,
                PARENT,
                &key_of(&description),
                Some(&description),
            );
        }
        let deployment = changed("one", "Deployment", 0, |_| {});
        let broken = write(&mut world, later, "one", &key_of(&deployment), None);
        let caught = broken.iter().any(|it| it.contains("asks for it"));
        assert_eq!(caught, expected, "{later}: {broken:?}");
    }
}

#[test]
fn a_deletion_is_not_taken_back() {
    let mut world = well();
    let going = changed(PARENT, "Base", 0, |it| {
        it["metadata"]["deletionTimestamp"] = json!("now")
    });
    write(&mut world, LATER, PARENT, &key_of(&going), Some(&going));
    let back = changed(PARENT, "Base", 0, |_| {});
    let broken = write(&mut world, LATER, PARENT, &key_of(&back), Some(&back));
    assert!(broken[0].contains("was to go, and is to stay"), "{broken:?}");
}

#[test]
fn each_world_that_has_not_come_right_is_told() {
    type Break = fn(&mut Value);
    let rows: [(&str, &str, Break, &str); 12] = [
        (
            PARENT,
            "ManagedCluster",
            |it| it["status"]["conditions"] = json!([]),
            "one is not ready",
        ),
        (
            PARENT,
            "ManagedCluster",
            |it| it["spec"]["taints"] = json!([{"key": "x"}]),
            "one has taints",
        ),
        (
            PARENT,
            "ManagedCluster",
            |it| it["status"]["nodeStatistics"]["readyNodes"] = json!(7),
            "one has 1 nodes and says 7",
        ),
        (
            PARENT,
            "Manifest",
            |it| it["metadata"]["deletionTimestamp"] = json!("now"),
            "has been going since",
        ),
        (
            PARENT,
            "Subscription",
            |it| it["status"]["bindingClusters"] = json!(["home-one/one"]),
            "the Subscription is not bound to two",
        ),
        (
            PARENT,
            "Subscription",
            |it| it["status"]["replicas"]["apps/v1/Deployment/web/nginx"] = json!([4, 2]),
            "two is to have 2 of 6 with weight 1 of 2",
        ),
        (
            PARENT,
            "Subscription",
            |it| {
                it["status"]["aggregatedStatuses"][0]["feedStatusDetails"][0]["replicaStatus"]["readyReplicas"] =
                    json!(2);
            },
            "the parent says 2 readyReplicas of apps/deployments \"web/nginx\" in one",
        ),
        (
            PARENT,
            "Subscription",
            |it| it["status"]["conditions"][0]["status"] = json!("False"),
            "the parent does not say that everything is applied: \"all\"",
        ),
        (
            PARENT,
            "Subscription",
            |it| it["status"]["aggregatedStatuses"][0]["feedStatusSummary"]["available"] = json!(false),
            "is not available",
        ),
        (
            PARENT,
            "Subscription",
            |it| it["status"]["aggregatedStatuses"][0]["feedStatusSummary"]["replicaStatus"] = json!({}),
            "the parent says 0 replicas of apps/deployments \"web/nginx\" in all, where 6 are",
        ),
        (
            "one",
            "Deployment",
            |it| it["status"]["readyReplicas"] = json!(2),
            "one runs 2/3 of 3",
        ),
        (
            "one",
            "Deployment",
            |it| it["metadata"]["annotations"][NOTE] = json!("x"),
            "is noted Some(\"x\") instead of None",
        ),
    ];
    for (cluster, kind, broken, expected) in rows {
        let mut world = well();
        let object = changed(cluster, kind, 0, broken);
        write(&mut world, LATER, cluster, &key_of(&object), Some(&object));
        let told = lacks(&world, &goal());
        assert!(
            told.iter().any(|it| it.contains(expected)),
            "{expected}: {told:?}"
        );
    }
}

#[test]
fn each_thing_that_is_missing_is_told() {
    for (cluster, kind, expected) in [
        (PARENT, "Base", "1 apps.clusternet.io/bases instead of 2"),
        (PARENT, "Description", "which does not ask for it"),
        (PARENT, "ManagedCluster", "one is not registered"),
        (PARENT, "Manifest", "the templates are not as many"),
        ("one", "Deployment", "one has no apps/deployments"),
        ("one", "Pod", "2 pods of 3 in one"),
    ] {
        let mut world = well();
        let object = changed(cluster, kind, 0, |_| {});
        write(&mut world, LATER, cluster, &key_of(&object), None);
        let told = lacks(&world, &goal());
        assert!(
            told.iter().any(|it| it.contains(expected)),
            "{expected}: {told:?}"
        );
    }
    let taken_back = Goal {
        application: None,
        ..goal()
    };
    let told = lacks(&well(), &taken_back);
    assert!(told.iter().any(|it| it.contains("is left with")), "{told:?}");
}
