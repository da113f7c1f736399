//! Base → Descriptions, carried out on the toy server.

use proptest::prelude::*;

use api::{annotations, clusters, labels};

use super::*;
use crate::feed::FeedIndex;
use crate::world::World;

const NAMESPACE: &str = "ns-a";
const BASE: &str = "app-x7k2p";

fn feed(kind: &str, name: &str) -> Value {
    let api_version = match kind {
        "HelmChart" => "apps.clusternet.io/v1alpha1",
        "Deployment" => "apps/v1",
        _ => "v1",
    };
    json!({"kind": kind, "apiVersion": api_version, "namespace": "foo", "name": name})
}

fn add_manifest(world: &mut World, kind: &str, name: &str) {
    let feed = Feed::from_value(&feed(kind, name));
    let (group, version) = machinery::resource::split_api_version(&feed.api_version);
    world.put(
        &apps::MANIFESTS,
        json!({
            "metadata": {"namespace": "clusternet-reserved", "name": format!("{}.foo.{name}", kind.to_lowercase()),
                "labels": {labels::CONFIG_GROUP: group, labels::CONFIG_VERSION: version, labels::CONFIG_KIND: kind,
                           labels::CONFIG_NAME: name, labels::CONFIG_NAMESPACE: "foo"}},
            "template": {"apiVersion": feed.api_version, "kind": kind,
                         "metadata": {"namespace": "foo", "name": name, "uid": "gone"}, "status": {"gone": true}},
        }),
    );
}

fn set_base(world: &mut World, feeds: &[Value]) {
    let mut base = match world.get(&apps::BASES, NAMESPACE, BASE) {
        Some(have) => Value::clone(have),
        None => json!({"metadata": {"namespace": NAMESPACE, "name": BASE, "labels": {
            labels::SUBSCRIPTION_UID: "sub-uid", labels::SUBSCRIPTION_NAME: "app", labels::SUBSCRIPTION_NAMESPACE: "default",
            labels::CLUSTER_ID: "id-a", labels::CLUSTER_NAME: "a"}}}),
    };
    base["spec"] = json!({"feeds": feeds});
    world.put(&apps::BASES, base);
}

fn pass(world: &World) -> Plan {
    pass_divided(world, &Division::Whole)
}

fn pass_divided(world: &World, division: &Division) -> Plan {
    let localizations = world.list(&apps::LOCALIZATIONS);
    let mut index = FeedIndex::default();
    for template in world
        .list(&apps::MANIFESTS)
        .iter()
        .chain(&world.list(&apps::HELM_CHARTS))
    {
        index.insert(template);
    }
    let base = world.get(&apps::BASES, NAMESPACE, BASE).unwrap();
    plan(&View {
        base,
        content: Content::Current,
        template: &|feed| index.get(feed).cloned(),
        descriptions: &world.labelled(&apps::DESCRIPTIONS, labels::CONFIG_UID, meta::uid(base)),
        overrides: &Overrides {
            localizations: &localizations,
            division: Some(division),
            clusters: &world.list(&clusters::MANAGED_CLUSTERS),
            ..Overrides::default()
        },
        packing: &Packing {
            stored: Some(&|name| {
                world
                    .get(&payloads::PAYLOADS, payloads::NAMESPACE, name)
                    .is_some()
            }),
            seal: None,
        },
    })
}

fn raw(description: &Value) -> Vec<Value> {
    let raw = description["spec"]["raw"].as_array().unwrap().iter();
    raw.map(|text| serde_json::from_slice(&BASE64.decode(text.as_str().unwrap()).unwrap()).unwrap())
        .collect()
}

#[test]
fn describes_its_manifests_in_their_order() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    add_manifest(&mut world, "Deployment", "web");
    set_base(&mut world, &[feed("Service", "web"), feed("Deployment", "web")]);
    world.apply(&pass(&world));
    assert!(!pass(&world).writes());
    let base_uid = meta::uid(world.get(&apps::BASES, NAMESPACE, BASE).unwrap()).to_owned();
    let description = world
        .get(&apps::DESCRIPTIONS, NAMESPACE, "app-x7k2p-generic")
        .unwrap();
    assert_eq!(
        raw(description),
        [
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "foo", "name": "web"}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "foo", "name": "web"}}),
        ]
    );
    assert_eq!(description["spec"]["deployer"], "Generic");
    let owner = &description["metadata"]["ownerReferences"];
    assert_eq!(
        owner,
        &json!([{"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Base", "name": BASE, "uid": base_uid,
                 "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        Value::Object(meta::labels(description).unwrap().clone()),
        json!({
            "clusternet.io/created-by": "clusternet-controller-manager",
            "clusters.clusternet.io/cluster-id": "id-a", "clusters.clusternet.io/cluster-name": "a",
            "apps.clusternet.io/config.kind": "Base", "apps.clusternet.io/config.name": BASE,
            "apps.clusternet.io/config.namespace": NAMESPACE, "apps.clusternet.io/config.uid": base_uid,
            "apps.clusternet.io/subs.name": "app", "apps.clusternet.io/subs.namespace": "default",
            "apps.clusternet.io/subs.uid": "sub-uid",
        })
    );
    assert_eq!(world.events, ["DescriptionCreated"]);
}

#[test]
fn delivers_all_or_nothing() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    set_base(&mut world, &[feed("Service", "web"), feed("Deployment", "web")]);
    let first = pass(&world);
    world.apply(&first);
    assert_eq!(
        first.next,
        Next::Blocked("Deployment foo/web in apps/v1 does not exist".to_owned())
    );
    assert_eq!(world.list(&apps::DESCRIPTIONS), []);
    assert_eq!(world.events, ["NonexistentDeployment"]);
    let blocked = |world: &World| {
        let base = world.get(&apps::BASES, NAMESPACE, BASE).unwrap();
        meta::annotation(base, annotations::BLOCKED).map(str::to_owned)
    };
    assert_eq!(
        blocked(&world).as_deref(),
        Some("Deployment foo/web in apps/v1 does not exist")
    );
    assert!(!pass(&world).writes());
    add_manifest(&mut world, "Deployment", "web");
    world.apply(&pass(&world));
    assert_eq!(blocked(&world), None);
    assert_eq!(world.list(&apps::DESCRIPTIONS).len(), 1);
}

#[test]
fn follows_changes_and_drops_what_is_no_longer_used() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    add_manifest(&mut world, "Deployment", "web");
    set_base(&mut world, &[feed("Service", "web"), feed("Deployment", "web")]);
    world.apply(&pass(&world));
    set_base(&mut world, &[feed("Service", "web")]);
    world.apply(&pass(&world));
    assert_eq!(raw(&world.list(&apps::DESCRIPTIONS)[0]).len(), 1);
    assert!(!pass(&world).writes());
    set_base(&mut world, &[]);
    world.apply(&pass(&world));
    assert!(
        world
            .list(&apps::DESCRIPTIONS)
            .iter()
            .all(|it| meta::is_deleting(it))
    );
    set_base(&mut world, &[feed("Service", "web")]);
    let again = pass(&world);
    world.apply(&again);
    assert_eq!(
        again.next,
        Next::Blocked("waiting for Description ns-a/app-x7k2p-generic to be deleted".to_owned())
    );
}

#[test]
fn waits_for_charts_to_be_found() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    let mut chart = json!({"metadata": {"namespace": "foo", "name": "mysql"}, "spec": {"chart": "mysql"}});
    set_base(&mut world, &[feed("HelmChart", "mysql"), feed("Service", "web")]);
    chart["status"] = json!({"phase": "NotFound", "reason": "no such repository"});
    world.put(&apps::HELM_CHARTS, chart.clone());
    let blocked = pass(&world);
    world.apply(&blocked);
    assert_eq!(
        blocked.next,
        Next::Blocked("HelmChart foo/mysql is not found: no such repository".to_owned())
    );
    chart["status"] = json!({"phase": "Found"});
    world.put(&apps::HELM_CHARTS, chart);
    world.apply(&pass(&world));
    assert_eq!(
        world.events,
        ["HelmChartNotFound", "DescriptionCreated", "DescriptionCreated"]
    );
    let helm = world
        .get(&apps::DESCRIPTIONS, NAMESPACE, "app-x7k2p-helm")
        .unwrap();
    assert_eq!(
        helm["spec"]["charts"],
        json!([{"namespace": "foo", "name": "mysql"}])
    );
    assert_eq!(
        helm["spec"]["raw"],
        json!(["IA=="]),
        "a blank: Kubernetes takes no empty bytes"
    );
    assert!(!pass(&world).writes());
}

#[test]
fn a_chart_that_nobody_looked_for_goes_out() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    world.put(
        &apps::HELM_CHARTS,
        json!({"metadata": {"namespace": "foo", "name": "mysql"}, "spec": {"chart": "mysql"}}),
    );
    set_base(&mut world, &[feed("HelmChart", "mysql"), feed("Service", "web")]);
    let first = pass(&world);
    assert_eq!(first.next, Next::Done);
    world.apply(&first);
    assert_eq!(world.events, ["DescriptionCreated", "DescriptionCreated"]);
    assert!(!pass(&world).writes());
}

#[test]
fn divides_before_anything_goes_out() {
    let mut world = World::default();
    add_manifest(&mut world, "Deployment", "web");
    let mut manifest = Value::clone(&world.list(&apps::MANIFESTS)[0]);
    manifest["template"]["spec"] = json!({"replicas": 12});
    world.put(&apps::MANIFESTS, manifest);
    set_base(&mut world, &[feed("Deployment", "web")]);
    let unknown = Division::Unknown {
        reason: None,
        why: "not yet".to_owned(),
    };
    world.apply(&pass_divided(&world, &unknown));
    assert_eq!(world.list(&apps::DESCRIPTIONS), []);
    let divided = |replicas| {
        let share = division::Share {
            feed: Feed::from_value(&feed("Deployment", "web")),
            path: "/spec/replicas".to_owned(),
            replicas,
        };
        Division::Shares(vec![share])
    };
    for replicas in [5, 7] {
        world.apply(&pass_divided(&world, &divided(replicas)));
        assert_eq!(
            raw(&world.list(&apps::DESCRIPTIONS)[0])[0]["spec"]["replicas"],
            replicas
        );
        assert!(!pass_divided(&world, &divided(replicas)).writes());
        let localization = &world.list(&apps::LOCALIZATIONS)[0];
        let value = localization["spec"]["overrides"][0]["value"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(value).unwrap(),
            json!([{"path": "/spec/replicas", "value": replicas, "op": "replace"}])
        );
    }
    world.apply(&pass(&world));
    assert_eq!(world.list(&apps::LOCALIZATIONS), []);
    assert_eq!(
        raw(&world.list(&apps::DESCRIPTIONS)[0])[0]["spec"]["replicas"],
        12
    );
}

#[test]
fn large_objects_are_stored_before_they_are_referred_to() {
    let mut world = World::default();
    add_manifest(&mut world, "ConfigMap", "big");
    let mut manifest = Value::clone(&world.list(&apps::MANIFESTS)[0]);
    manifest["template"]["data"] = json!({"x": "y".repeat(1_000_000)});
    world.put(&apps::MANIFESTS, manifest);
    set_base(&mut world, &[feed("ConfigMap", "big")]);
    let set_features = |world: &mut World, features: Value| {
        let cluster =
            json!({"metadata": {"namespace": NAMESPACE, "name": "a"}, "status": {"features": features}});
        world.put(&clusters::MANAGED_CLUSTERS, cluster);
    };
    let kinds = |plan: &Plan| -> Vec<String> {
        let creates = plan.actions.iter().filter_map(|action| match action {
            Action::Create { resource, .. } => Some(resource.kind.to_string()),
            Action::Patch { .. } | Action::Delete { .. } | Action::Event { .. } => None,
        });
        creates.collect()
    };
    set_features(&mut world, json!(["payload-references"]));
    let first = pass(&world);
    assert_eq!(kinds(&first), ["Payload", "Payload", "Description"]);
    world.apply(&first);
    assert!(!pass(&world).writes());
    let description = Value::clone(&world.list(&apps::DESCRIPTIONS)[0]);
    assert!(description.to_string().len() < 4_096);
    let digests: Vec<entry::Digest> = entry::digests(&description).collect();
    let stored = world.list(&payloads::PAYLOADS);
    let whole: Vec<u8> = stored
        .iter()
        .flat_map(|piece| payloads::data(piece).unwrap())
        .collect();
    assert_eq!(digests, [entry::Digest::of(&whole)]);
    // An agent that does not understand it gets it whole.
    set_features(&mut world, json!([]));
    world.apply(&pass(&world));
    assert_eq!(raw(&world.list(&apps::DESCRIPTIONS)[0])[0]["kind"], "ConfigMap");
    assert!(!pass(&world).writes());
}

#[test]
fn what_stands_for_others_is_not_distributed_itself() {
    for kind in ["PayloadReference", "Sealed"] {
        let mut world = World::default();
        add_manifest(&mut world, "ConfigMap", "a");
        let mut manifest = Value::clone(&world.list(&apps::MANIFESTS)[0]);
        manifest["template"]["apiVersion"] = json!("apps.tombolo.io/v1alpha1");
        manifest["template"]["kind"] = json!(kind);
        world.put(&apps::MANIFESTS, manifest);
        set_base(&mut world, &[feed("ConfigMap", "a")]);
        let plan = pass(&world);
        world.apply(&plan);
        let Next::Blocked(why) = plan.next else { panic!() };
        assert!(why.contains("cannot be distributed"), "{why}");
        assert_eq!(world.list(&apps::DESCRIPTIONS), []);
    }
}

#[test]
fn goes_after_its_descriptions() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    set_base(&mut world, &[feed("Service", "web")]);
    world.apply(&pass(&world));
    let base_uid = meta::uid(world.get(&apps::BASES, NAMESPACE, BASE).unwrap()).to_owned();
    world.delete(&apps::BASES, NAMESPACE, BASE);
    let waiting = pass(&world);
    world.apply(&waiting);
    assert_eq!(
        waiting.next,
        Next::Blocked("waiting for 1 Description(s) to be deleted".to_owned())
    );
    assert!(!pass(&world).writes());
    world.release(
        &apps::DESCRIPTIONS,
        NAMESPACE,
        "app-x7k2p-generic",
        finalizers::APP,
    );
    world.apply(&pass(&world));
    assert_eq!(world.list(&apps::BASES), []);
    assert_eq!(meta::label(&world.list(&apps::MANIFESTS)[0], &base_uid), None);
}

#[test]
fn keeps_to_a_template_that_is_deleted_while_it_is_in_use() {
    let mut world = World::default();
    add_manifest(&mut world, "Service", "web");
    let mut manifest = Value::clone(&world.list(&apps::MANIFESTS)[0]);
    manifest["metadata"]["finalizers"] = json!([finalizers::FEED_PROTECTION]);
    manifest["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.put(&apps::MANIFESTS, manifest);
    set_base(&mut world, &[feed("Service", "web")]);
    world.apply(&pass(&world));
    assert_eq!(world.list(&apps::DESCRIPTIONS).len(), 1);
}

proptest! {
    /// Whatever feeds come and go: after carrying a plan out there is nothing more to write.
    #[test]
    fn settles_at_once(steps in proptest::collection::vec(
        (proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..=4), 0_u8..4), 1..6)
    ) {
        let mut world = World::default();
        add_manifest(&mut world, "Service", "a");
        for (names, change) in steps {
            let feeds: Vec<Value> = names.iter().map(|name| feed("Service", name)).collect();
            set_base(&mut world, &feeds);
            match change {
                0 => add_manifest(&mut world, "Service", "b"),
                1 => add_manifest(&mut world, "Service", "c"),
                2 => {
                    if let Some(it) = world.list(&apps::DESCRIPTIONS).iter().find(|it| meta::is_deleting(it)) {
                        world.release(&apps::DESCRIPTIONS, NAMESPACE, meta::name(it), finalizers::APP);
                    }
                }
                _ => {}
            }
            world.apply(&pass(&world));
            prop_assert!(!pass(&world).writes());
        }
    }
}
