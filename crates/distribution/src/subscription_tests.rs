//! Subscription → Bases, carried out on the toy server.

use api::kubernetes::NAMESPACES;
use proptest::prelude::*;

use super::*;
use crate::world::World;

const NAME: &str = "app";

fn world(clusters: &[&str]) -> World {
    let mut world = World::default();
    for name in ["foo", "bar"] {
        add_template(&mut world, "Namespace", name);
    }
    for cluster in clusters {
        add_cluster(&mut world, cluster);
    }
    world
}

fn add_cluster(world: &mut World, cluster: &str) {
    world.put(
        &NAMESPACES,
        json!({"metadata": {"name": format!("ns-{cluster}"), "labels": {
            labels::CLUSTER_ID: format!("id-{cluster}"), labels::CLUSTER_NAME: cluster}}}),
    );
}

fn subscribe(world: &mut World, bound: &[&str]) {
    let bound: Vec<String> = bound
        .iter()
        .map(|cluster| format!("ns-{cluster}/{cluster}"))
        .collect();
    let mut object = match world.get(&apps::SUBSCRIPTIONS, "default", NAME) {
        Some(have) => Value::clone(have),
        None => json!({"metadata": {"namespace": "default", "name": NAME},
                       "spec": {"feeds": [{"kind": "Namespace", "apiVersion": "v1", "name": "foo"}]}}),
    };
    object["status"] = json!({"bindingClusters": bound});
    world.put(&apps::SUBSCRIPTIONS, object);
}

fn pass(world: &World) -> Plan {
    let subscription = world.get(&apps::SUBSCRIPTIONS, "default", NAME).unwrap();
    let uid = meta::uid(subscription);
    let mut index = crate::FeedIndex::default();
    for template in world
        .list(&apps::MANIFESTS)
        .iter()
        .chain(&world.list(&apps::HELM_CHARTS))
    {
        index.insert(template);
    }
    plan(&View {
        subscription,
        namespace: &|name| world.get(&NAMESPACES, "", name).cloned(),
        bases: &world.labelled(&apps::BASES, labels::CONFIG_UID, uid),
        template: &|feed| index.get(feed).cloned(),
        stays: &|base| {
            let held = meta::annotation(base, "held")?;
            Some(held.to_owned())
        },
        is_taken: &|namespace, name| world.get(&apps::BASES, namespace, name).is_some(),
        standing: &Standing::default(),
    })
}

fn homes(world: &World) -> Vec<String> {
    world
        .list(&apps::BASES)
        .iter()
        .map(|base| meta::namespace(base).to_owned())
        .collect()
}

fn add_template(world: &mut World, kind: &str, name: &str) {
    world.put(
        &apps::MANIFESTS,
        json!({"metadata": {"namespace": "clusternet-reserved", "name": format!("{kind}.{name}"), "labels":
            {labels::CONFIG_VERSION: "v1", labels::CONFIG_KIND: kind, labels::CONFIG_NAME: name}}}),
    );
}

#[test]
fn tells_which_feeds_do_not_go_out() {
    let mut world = world(&["a"]);
    subscribe(&mut world, &["a"]);
    let mut object = Value::clone(world.get(&apps::SUBSCRIPTIONS, "default", NAME).unwrap());
    object["spec"]["feeds"] = json!([
        {"kind": "Namespace", "apiVersion": "v1", "name": "foo"},
        {"kind": "Namespace", "apiVersion": "v1", "name": "missing"},
        {"kind": "HelmChart", "apiVersion": "apps.clusternet.io/v1alpha1", "namespace": "foo", "name": "mysql"},
    ]);
    world.put(&apps::SUBSCRIPTIONS, object);
    world.put(
        &apps::HELM_CHARTS,
        json!({"metadata": {"namespace": "foo", "name": "mysql"}}),
    );
    world.apply(&pass(&world));
    world.events.clear();
    for expected in [&["NonexistentNamespace"][..], &[]] {
        let plan = pass(&world);
        assert!(!plan.writes(), "an event is nothing to write");
        world.apply(&plan);
        assert_eq!(std::mem::take(&mut world.events), expected);
        add_template(&mut world, "Namespace", "missing");
    }
}

#[test]
fn makes_one_base_a_cluster() {
    let mut world = world(&["a", "b"]);
    subscribe(&mut world, &["a", "b", "missing"]);
    world.apply(&pass(&world));
    assert_eq!(homes(&world), ["ns-a", "ns-b"]);
    assert_eq!(
        world.events,
        ["FinalizerInjected", "BaseCreated", "BaseCreated", "Synced"]
    );
    assert!(!pass(&world).writes());
    let base = &world.list(&apps::BASES)[0];
    let uid = meta::uid(world.get(&apps::SUBSCRIPTIONS, "default", NAME).unwrap());
    assert_eq!(
        Value::Object(meta::labels(base).unwrap().clone()),
        json!({
            "clusternet.io/created-by": "clusternet-controller-manager",
            "clusters.clusternet.io/cluster-id": "id-a", "clusters.clusternet.io/cluster-name": "a",
            "apps.clusternet.io/config.kind": "Subscription", "apps.clusternet.io/config.name": NAME,
            "apps.clusternet.io/config.namespace": "default", "apps.clusternet.io/config.uid": uid,
            "apps.clusternet.io/subs.name": NAME, "apps.clusternet.io/subs.namespace": "default",
            "apps.clusternet.io/subs.uid": uid, uid: "Subscription",
        })
    );
    assert!(meta::has_finalizer(base, finalizers::APP));
    assert!(meta::name(base).starts_with("app-") && meta::name(base).len() == 9);
}

#[test]
fn does_nothing_before_anybody_scheduled() {
    let mut world = world(&["a"]);
    subscribe(&mut world, &["a"]);
    world.apply(&pass(&world));
    let mut object = Value::clone(world.get(&apps::SUBSCRIPTIONS, "default", NAME).unwrap());
    object["status"] = json!({});
    world.put(&apps::SUBSCRIPTIONS, object);
    assert_eq!(pass(&world), Plan::default());
    assert_eq!(homes(&world), ["ns-a"]);
}

#[test]
fn follows_changes_of_the_subscription() {
    let mut world = world(&["a"]);
    subscribe(&mut world, &["a"]);
    world.apply(&pass(&world));
    let mut object = Value::clone(world.get(&apps::SUBSCRIPTIONS, "default", NAME).unwrap());
    object["spec"]["feeds"] = json!([{"kind": "Namespace", "apiVersion": "v1", "name": "bar"}]);
    meta::set_annotation(&mut object, annotations::IS_DEFAULT_CLUSTER_INIT, "true");
    world.put(&apps::SUBSCRIPTIONS, object);
    world.apply(&pass(&world));
    let base = &world.list(&apps::BASES)[0];
    assert_eq!(base["spec"]["feeds"][0]["name"], "bar");
    assert_eq!(
        meta::annotation(base, annotations::IS_DEFAULT_CLUSTER_INIT),
        Some("true")
    );
    assert!(world.events.contains(&reasons::BASE_UPDATED.to_owned()));
    assert!(!pass(&world).writes());
}

#[test]
fn uses_the_newest_of_several_bases() {
    let mut world = world(&["a"]);
    subscribe(&mut world, &["a"]);
    world.apply(&pass(&world));
    let mut twin = Value::clone(&world.list(&apps::BASES)[0]);
    for (name, created) in [
        ("app-young", "2026-02-01T00:00:01Z"),
        ("app-old", "2025-01-01T00:00:59Z"),
    ] {
        twin["metadata"]["name"] = json!(name);
        twin["metadata"]["uid"] = json!(name);
        twin["metadata"]["creationTimestamp"] = json!(created);
        twin["spec"]["feeds"] = json!([]);
        world.put(&apps::BASES, twin.clone());
    }
    world.apply(&pass(&world));
    assert!(world.events.contains(&reasons::MULTIPLE_BASES.to_owned()));
    assert_eq!(
        world.get(&apps::BASES, "ns-a", "app-young").unwrap()["spec"]["feeds"][0]["name"],
        "foo"
    );
    assert_eq!(
        world.get(&apps::BASES, "ns-a", "app-old").unwrap()["spec"]["feeds"],
        json!([])
    );
}

#[test]
fn waits_for_a_leaving_base_before_making_another() {
    let mut world = world(&["a"]);
    subscribe(&mut world, &["a"]);
    world.apply(&pass(&world));
    subscribe(&mut world, &[]);
    world.apply(&pass(&world));
    subscribe(&mut world, &["a"]);
    assert!(
        !pass(&world).writes(),
        "the old one still holds objects in the cluster"
    );
    let name = meta::name(&world.list(&apps::BASES)[0]).to_owned();
    world.release(&apps::BASES, "ns-a", &name, finalizers::APP);
    world.apply(&pass(&world));
    assert!(!meta::is_deleting(&world.list(&apps::BASES)[0]));
}

#[test]
fn a_base_that_is_held_stays_until_it_is_not() {
    let mut world = world(&["a", "b"]);
    subscribe(&mut world, &["a", "b"]);
    world.apply(&pass(&world));
    let mut base = Value::clone(
        world
            .list(&apps::BASES)
            .iter()
            .find(|it| meta::namespace(it) == "ns-a")
            .unwrap(),
    );
    base["metadata"]["annotations"] = json!({"held": "not yet"});
    world.put(&apps::BASES, base.clone());
    subscribe(&mut world, &["b"]);
    let plan = pass(&world);
    assert_eq!(plan.next, Next::Blocked("not yet".to_owned()));
    world.events.clear();
    world.apply(&plan);
    assert_eq!((homes(&world).len(), world.events[0].as_str()), (2, "MoveHeld"));
    base["metadata"]["annotations"] = json!({});
    world.put(&apps::BASES, base);
    world.apply(&pass(&world));
    let kept = world.list(&apps::BASES);
    assert_eq!(kept.iter().filter(|it| !meta::is_deleting(it)).count(), 1);
}

#[test]
fn takes_another_name_when_one_is_taken() {
    let mut world = world(&["a"]);
    subscribe(&mut world, &["a"]);
    world.apply(&pass(&world));
    let name = meta::name(&world.list(&apps::BASES)[0]).to_owned();
    world.put(
        &apps::BASES,
        json!({"metadata": {"namespace": "ns-a", "name": name, "labels": {}}}),
    );
    world.apply(&pass(&world));
    assert_eq!(homes(&world), ["ns-a", "ns-a"]);
    assert!(!pass(&world).writes());
}

#[test]
fn goes_after_its_bases() {
    let mut world = world(&["a", "b"]);
    subscribe(&mut world, &["a", "b"]);
    world.apply(&pass(&world));
    world.delete(&apps::SUBSCRIPTIONS, "default", NAME);
    world.apply(&pass(&world));
    assert_eq!(homes(&world).len(), 2, "held by their finalizers");
    assert!(!pass(&world).writes());
    for base in world.list(&apps::BASES) {
        world.release(
            &apps::BASES,
            meta::namespace(&base),
            meta::name(&base),
            finalizers::APP,
        );
    }
    world.apply(&pass(&world));
    assert!(world.get(&apps::SUBSCRIPTIONS, "default", NAME).is_none());
}

#[test]
fn leaves_long_names_out_of_labels() {
    let subscription = |length: usize| json!({"metadata": {"name": "a".repeat(length), "uid": "u"}});
    let home = json!({"metadata": {"name": "ns-a"}});
    assert!(base_labels(&subscription(57), &home).contains_key(labels::SUBSCRIPTION_NAME));
    let long = base_labels(&subscription(58), &home);
    assert!(!long.contains_key(labels::SUBSCRIPTION_NAME) && !long.contains_key(labels::CONFIG_NAME));
    assert!(long.contains_key(labels::SUBSCRIPTION_UID));
}

proptest! {
    /// Whatever is bound, comes and goes: after carrying a plan out there is nothing more to write.
    #[test]
    fn settles_at_once(steps in proptest::collection::vec((proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..=4), 0_u8..3), 1..6)) {
        let mut world = world(&["a", "b"]);
        for (bound, change) in steps {
            subscribe(&mut world, &bound);
            match change {
                0 => add_cluster(&mut world, "c"),
                1 => {
                    if let Some(base) = world.list(&apps::BASES).first() {
                        world.release(&apps::BASES, meta::namespace(base), meta::name(base), finalizers::APP);
                    }
                }
                _ => {}
            }
            world.apply(&pass(&world));
            prop_assert!(!pass(&world).writes());
            let living: Vec<String> = world
                .list(&apps::BASES).iter().filter(|base| !meta::is_deleting(base))
                .map(|base| meta::namespace(base).to_owned()).collect();
            let wanted = bound.iter().map(|cluster| format!("ns-{cluster}"));
            prop_assert!(living.iter().all(|home| wanted.clone().any(|it| it == *home)));
            let mut once = living.clone();
            once.dedup();
            prop_assert_eq!(once, living);
        }
    }
}
