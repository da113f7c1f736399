//! Imports of two clusters that come, change and go.

use api::clusters;
use proptest::prelude::*;

use super::*;
use crate::services::CONFLICT;
use crate::world::World;

const DERIVED: &str = "derived-test-sgvukfmp95";

fn id() -> ServiceId {
    ServiceId::new("test", "my-service")
}

/// A parent with the clusters `north` and `south` in `home-north` and `home-south`, both exporting, and an import.
struct Parent(World);

impl Parent {
    fn new() -> Self {
        let mut parent = Self(World::default());
        for (cluster, address) in [("north", "10.1.0.1"), ("south", "10.2.0.1")] {
            parent.join(cluster);
            parent.slice(
                &format!("home-{cluster}"),
                "test-my-service-x7k",
                &[address],
                "http",
            );
        }
        parent.import("mine", &json!({}));
        parent
    }

    fn join(&mut self, cluster: &str) {
        let (home, id) = (format!("home-{cluster}"), format!("id-{cluster}"));
        let labels = json!({labels::CREATED_BY: labels::CREATED_BY_AGENT, labels::CLUSTER_ID: id});
        self.0.put(
            &kubernetes::NAMESPACES,
            json!({"metadata": {"name": home, "labels": labels}}),
        );
        let cluster = json!({"metadata": {"namespace": home, "name": cluster}, "spec": {"clusterId": id}});
        self.0.put(&clusters::MANAGED_CLUSTERS, cluster);
    }

    fn slice(&mut self, home: &str, name: &str, addresses: &[&str], port: &str) {
        let mut labels = id().labels(labels::CREATED_BY_AGENT);
        labels.insert(SERVICE_NAME.to_owned(), json!(DERIVED));
        self.slice_as(home, name, addresses, port, &json!(labels));
    }

    fn slice_as(&mut self, home: &str, name: &str, addresses: &[&str], port: &str, labels: &Value) {
        let slice = json!({"metadata": {"namespace": home, "name": name, "labels": labels}, "addressType": "IPv4",
            "endpoints": [{"addresses": addresses, "conditions": {"ready": true}, "nodeName": "node-of-the-parent"}],
            "ports": [{"name": port, "protocol": "TCP", "port": 8080}]});
        self.0.put(&kubernetes::ENDPOINT_SLICES, slice);
    }

    fn import(&mut self, name: &str, change: &Value) {
        let mut import = json!({
            "metadata": {"namespace": "shop", "name": name, "labels": {
                labels::MULTI_CLUSTER_SERVICE_NAME: "my-service", labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "test"}},
            "spec": {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]},
        });
        machinery::patch::merge_patch(&mut import, change);
        self.0.put(&mcs::SERVICE_IMPORTS, import);
    }

    fn home(&self, namespace: &str) -> Option<Home> {
        let members = self.0.list(&clusters::MANAGED_CLUSTERS);
        let namespace = self.0.get(&kubernetes::NAMESPACES, "", namespace);
        home(namespace.map(|it| &**it), &members)
    }

    fn plan(&self) -> Plan {
        let service = self.0.get(&kubernetes::SERVICES, "shop", DERIVED);
        plan(&View {
            id: &id(),
            namespace: "shop",
            imports: &self.0.list(&mcs::SERVICE_IMPORTS),
            slices: &self.0.list(&kubernetes::ENDPOINT_SLICES),
            home: &|namespace| self.home(namespace),
            service: service.map(|it| &**it),
        })
    }

    fn compare(&self) -> Plan {
        let slices = self.0.list(&kubernetes::ENDPOINT_SLICES);
        compare(&id(), &slices, &|namespace| self.home(namespace))
    }

    fn settle(&mut self) -> &mut Self {
        let plan = self.plan();
        self.0.apply(&plan);
        let again = self.plan();
        assert!(!again.writes(), "{again:?}");
        self
    }

    /// The derived slices with their clusters and addresses, the clusters that the first import names, and the
    /// events that were told.
    fn seen(&self) -> (Vec<String>, String, Vec<String>) {
        let slices = self.0.list(&kubernetes::ENDPOINT_SLICES);
        let slices = slices.iter().filter(|it| meta::namespace(it) == "shop");
        let told = slices.map(|it| {
            let cluster = meta::label(it, labels::CLUSTER_NAME).unwrap_or_default();
            format!("{cluster} {}", it["endpoints"][0]["addresses"])
        });
        let import = self.0.get(&mcs::SERVICE_IMPORTS, "shop", "mine");
        let clusters = import.map(|it| {
            slice::items(&it["status"], "clusters")
                .filter_map(|it| it["cluster"].as_str())
                .collect::<Vec<_>>()
                .join(",")
        });
        (
            told.collect(),
            clusters.unwrap_or_default(),
            self.0.events.clone(),
        )
    }

    fn service(&self) -> Option<&Arc<Value>> {
        self.0.get(&kubernetes::SERVICES, "shop", DERIVED)
    }
}

#[test]
fn gathers_the_slices_of_all_clusters_behind_a_service() {
    let mut parent = Parent::new();
    parent.settle();
    let service = parent.service().unwrap();
    assert_eq!(
        service["spec"],
        json!({"type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}]})
    );
    let slice = parent.0.get(
        &kubernetes::ENDPOINT_SLICES,
        "shop",
        "home-north-test-my-service-x7k",
    );
    let slice = slice.unwrap();
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            labels::MULTI_CLUSTER_SERVICE_NAME: "my-service", labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "test",
            labels::CREATED_BY: labels::CREATED_BY_CONTROLLERS, SERVICE_NAME: DERIVED,
            labels::CLUSTER_NAME: "north", labels::CLUSTER_ID: "id-north",
        })
    );
    assert_eq!(
        slice["endpoints"],
        json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}])
    );
    for object in [service, slice] {
        assert_eq!(object["metadata"]["ownerReferences"][0]["name"], "mine");
    }
}

/// What happens; then: the derived slices, the clusters that are named, the events.
type Step<'a> = (&'a str, fn(&mut Parent), &'a [&'a str], &'a str, &'a [&'a str]);

fn check(steps: &[Step<'_>]) {
    for (what, change, slices, clusters, events) in steps {
        let mut parent = Parent::new();
        parent.settle();
        change(&mut parent);
        let (have, named, told) = parent.settle().seen();
        assert_eq!((have, told), (strings(slices), strings(events)), "{what}");
        let served = !slices.is_empty();
        assert_eq!(parent.service().is_some(), served, "{what}");
        if served {
            assert_eq!(named, *clusters, "{what}");
        }
    }
}

const NORTH: &str = r#"north ["10.1.0.1"]"#;
const SOUTH: &str = r#"south ["10.2.0.1"]"#;
const BOTH: &str = "north,south";

#[test]
fn follows_what_clusters_do() {
    check(&[
        ("nothing", |_| {}, &[NORTH, SOUTH], BOTH, &[]),
        (
            "an endpoint changes",
            |it| it.slice("home-north", "test-my-service-x7k", &["10.1.0.9"], "http"),
            &[r#"north ["10.1.0.9"]"#, SOUTH],
            BOTH,
            &[],
        ),
        (
            "an export goes",
            |it| {
                it.0.delete(&kubernetes::ENDPOINT_SLICES, "home-north", "test-my-service-x7k")
            },
            &[SOUTH],
            "south",
            &[],
        ),
        (
            "a cluster leaves",
            |it| it.0.delete(&clusters::MANAGED_CLUSTERS, "home-north", "north"),
            &[SOUTH],
            "south",
            &[],
        ),
        (
            "a namespace goes",
            |it| it.0.delete(&kubernetes::NAMESPACES, "", "home-north"),
            &[SOUTH],
            "south",
            &[],
        ),
        (
            "a ManagedCluster names another's id",
            |it| {
                let forged = json!({"metadata": {"namespace": "home-north", "name": "north"}, "spec": {"clusterId": "id-south"}});
                it.0.put(&clusters::MANAGED_CLUSTERS, forged);
            },
            &[SOUTH],
            "south",
            &[],
        ),
        (
            "slices of a namespace that is no cluster's, and such as no agent writes",
            |it| {
                it.0.put(&kubernetes::NAMESPACES, json!({"metadata": {"name": "other"}}));
                it.slice("other", "a", &["10.3.0.1"], "http");
                it.slice("shop", "b", &["10.3.0.1"], "http");
                let mut labels = id().labels(labels::CREATED_BY_AGENT);
                it.slice_as("home-north", "c", &["10.3.0.1"], "http", &json!(labels));
                labels.insert(SERVICE_NAME.to_owned(), json!(DERIVED));
                labels.insert(labels::CREATED_BY.to_owned(), json!("x"));
                it.slice_as("home-north", "d", &["10.3.0.1"], "http", &json!(labels));
                it.0.delete(&kubernetes::ENDPOINT_SLICES, "shop", "b");
            },
            &[NORTH, SOUTH],
            BOTH,
            &[],
        ),
        (
            "a slice that calls itself another cluster's",
            |it| {
                let mut labels = id().labels(labels::CREATED_BY_AGENT);
                labels.insert(SERVICE_NAME.to_owned(), json!(DERIVED));
                labels.insert(labels::CLUSTER_NAME.to_owned(), json!("south"));
                it.slice_as(
                    "home-north",
                    "test-my-service-x7k",
                    &["10.1.0.1"],
                    "http",
                    &json!(labels),
                );
            },
            &[NORTH, SOUTH],
            BOTH,
            &[],
        ),
        (
            "an address that is nobody's",
            |it| {
                it.slice(
                    "home-north",
                    "test-my-service-x7k",
                    &["127.0.0.1", "10.1.0.2"],
                    "http",
                )
            },
            &[r#"north ["10.1.0.2"]"#, SOUTH],
            BOTH,
            &["AddressesLeftOut"],
        ),
        (
            "a port that one lacks",
            |it| it.slice("home-north", "test-my-service-x7k", &["10.1.0.2"], "web"),
            &[r#"north ["10.1.0.2"]"#, SOUTH],
            BOTH,
            &["PortsNotOffered"],
        ),
    ]);
}

#[test]
fn an_import_says_whose_exports_count() {
    for (named, expected) in [
        (None, "north,south"),
        (Some("south"), "south"),
        (Some("east, south"), "south"),
        (Some("south,north"), "north,south"),
        (Some("sou"), ""),
        (Some(""), ""),
    ] {
        let mut parent = Parent::new();
        parent.settle();
        parent.import(
            "mine",
            &json!({"metadata": {"annotations": {annotations::EXPORTING_CLUSTERS: named}}}),
        );
        let (slices, clusters, _) = parent.settle().seen();
        assert_eq!(clusters, expected, "{named:?}");
        let of = |cluster: &&str| !cluster.is_empty();
        assert_eq!(slices.len(), expected.split(',').filter(of).count(), "{named:?}");
    }
}

#[test]
fn follows_what_becomes_of_imports() {
    check(&[
        (
            "a second import of the same",
            |it| it.import("second", &json!({})),
            &[NORTH, SOUTH],
            BOTH,
            &["ImportedTwice"],
        ),
        (
            "the import becomes headless",
            |it| it.import("mine", &json!({"spec": {"type": "Headless"}})),
            &[],
            "",
            &["UnsupportedImportType"],
        ),
        (
            "the import is of something else",
            |it| {
                it.import(
                    "mine",
                    &json!({"metadata": {"labels": {labels::MULTI_CLUSTER_SERVICE_NAME: "x"}}}),
                )
            },
            &[],
            "",
            &[],
        ),
        (
            "the import goes",
            |it| it.0.delete(&mcs::SERVICE_IMPORTS, "shop", "mine"),
            &[],
            "",
            &[],
        ),
    ]);
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn the_next_import_takes_over() {
    let mut parent = Parent::new();
    parent.import("second", &json!({}));
    parent.settle();
    parent.0.delete(&mcs::SERVICE_IMPORTS, "shop", "mine");
    parent.settle();
    let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owner(parent.service().unwrap()), "second");
    assert_eq!(parent.seen().0.len(), 2);
}

#[test]
fn the_derived_service_is_as_the_import_says() {
    for change in [
        json!({"spec": {"ports": [{"name": "a", "protocol": "UDP", "port": 53}, {"name": "b", "port": 1, "appProtocol": "h2c"}]}}),
        json!({"spec": {"sessionAffinity": "ClientIP"}}),
        json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}}}}),
    ] {
        let mut fresh = Parent::new();
        fresh.import("mine", &change);
        fresh.settle();
        let expected = fresh.service().unwrap()["spec"].clone();
        let mut parent = Parent::new();
        parent.settle();
        parent.import("mine", &change);
        parent.settle();
        assert_eq!(parent.service().unwrap()["spec"], expected, "{change}");
        parent.import("mine", &json!({}));
        parent.settle();
        let plain = &parent.service().unwrap()["spec"];
        assert_eq!(
            (plain["sessionAffinity"].as_str(), &plain["sessionAffinityConfig"]),
            (Some("None"), &Value::Null),
            "{change}"
        );
    }
    let mut parent = Parent::new();
    parent.settle();
    let mut service = Value::clone(parent.service().unwrap());
    service["spec"]["selector"] = json!({"app": "mine"});
    service["spec"]["type"] = json!("LoadBalancer");
    service["spec"]["clusterIP"] = json!("10.96.0.7");
    service["spec"]["ports"][0]["targetPort"] = json!(80);
    parent.0.put(&kubernetes::SERVICES, service);
    parent.settle();
    let spec = &parent.service().unwrap()["spec"];
    assert_eq!(
        (
            &spec["selector"],
            &spec["type"],
            &spec["clusterIP"],
            &spec["ports"][0]["targetPort"]
        ),
        (&Value::Null, &json!("ClusterIP"), &json!("10.96.0.7"), &json!(80))
    );
}

#[test]
fn a_service_that_is_not_ours_is_left_alone_and_told_of() {
    let mut parent = Parent::new();
    let theirs =
        json!({"metadata": {"namespace": "shop", "name": DERIVED}, "spec": {"selector": {"app": "x"}}});
    parent.0.put(&kubernetes::SERVICES, theirs.clone());
    let Next::Blocked(why) = parent.plan().next else {
        panic!("it is blocked")
    };
    assert!(why.contains(DERIVED), "{why}");
    let (slices, clusters, events) = parent.settle().seen();
    assert_eq!((slices.len(), clusters.as_str()), (0, ""));
    assert_eq!(events, ["DerivedNameTaken"]);
    assert_eq!(parent.service().unwrap()["spec"], theirs["spec"]);
}

#[test]
fn clusters_that_differ_are_told() {
    let mut parent = Parent::new();
    let told = |parent: &mut Parent| {
        let plan = parent.compare();
        parent.0.apply(&plan);
        assert_eq!(parent.compare(), Plan::default());
        let slices = parent.0.list(&kubernetes::ENDPOINT_SLICES);
        let all: Vec<Option<String>> = slices
            .iter()
            .map(|it| meta::annotation(it, CONFLICT).map(str::to_owned))
            .collect();
        assert!(all.iter().all(|it| *it == all[0]), "{all:?}");
        all[0].clone()
    };
    assert_eq!(told(&mut parent), None);
    parent.slice("home-south", "test-my-service-x7k", &["10.2.0.1"], "web");
    let why = told(&mut parent).unwrap();
    let expected =
        r#"cluster "north", which exports it longest, has "http" (TCP), cluster "south" "web" (TCP)"#;
    assert_eq!(why, expected);
    parent
        .0
        .delete(&kubernetes::ENDPOINT_SLICES, "home-north", "test-my-service-x7k");
    assert_eq!(told(&mut parent), None);
}

/// What happens to one of three clusters or two imports, or what somebody does to what was derived.
#[derive(Debug, Clone)]
enum Happening {
    Exports(usize, u8),
    Withdraws(usize),
    Leaves(usize),
    Imports(usize),
    Forgets(usize),
    Meddles,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        3 => (0..3_usize, 1..4_u8).prop_map(|(cluster, address)| Happening::Exports(cluster, address)),
        1 => (0..3_usize).prop_map(Happening::Withdraws),
        1 => (0..3_usize).prop_map(Happening::Leaves),
        2 => (0..2_usize).prop_map(Happening::Imports),
        1 => (0..2_usize).prop_map(Happening::Forgets),
        1 => Just(Happening::Meddles),
    ];
    prop::collection::vec(one, 1..24)
}

proptest! {
    /// Whatever happens, one plan brings what is derived to what the clusters export and the imports ask for.
    #[test]
    fn one_plan_is_enough(all in happenings()) {
        const CLUSTERS: [&str; 3] = ["east", "north", "south"];
        const IMPORTS: [&str; 2] = ["mine", "second"];
        let mut parent = Parent::new();
        let mut exports = BTreeMap::from([("north", "10.1.0.1".to_owned()), ("south", "10.2.0.1".to_owned())]);
        let mut imports = BTreeSet::from(["mine"]);
        for happening in all {
            let slices = &kubernetes::ENDPOINT_SLICES;
            match happening {
                Happening::Exports(cluster, address) => {
                    let (cluster, address) = (CLUSTERS[cluster], format!("10.9.0.{address}"));
                    parent.join(cluster);
                    parent.slice(&format!("home-{cluster}"), "test-my-service-x7k", &[&address], "http");
                    exports.insert(cluster, address);
                }
                Happening::Withdraws(cluster) => if exports.remove(CLUSTERS[cluster]).is_some() {
                    parent.0.delete(slices, &format!("home-{}", CLUSTERS[cluster]), "test-my-service-x7k");
                },
                Happening::Leaves(cluster) => if exports.remove(CLUSTERS[cluster]).is_some() {
                    parent.0.delete(&clusters::MANAGED_CLUSTERS, &format!("home-{}", CLUSTERS[cluster]), CLUSTERS[cluster]);
                    parent.0.delete(slices, &format!("home-{}", CLUSTERS[cluster]), "test-my-service-x7k");
                },
                Happening::Imports(import) => {
                    parent.import(IMPORTS[import], &json!({}));
                    imports.insert(IMPORTS[import]);
                }
                Happening::Forgets(import) => if imports.remove(IMPORTS[import]) {
                    parent.0.delete(&mcs::SERVICE_IMPORTS, "shop", IMPORTS[import]);
                },
                Happening::Meddles => for slice in parent.0.list(slices) {
                    if meta::namespace(&slice) == "shop" {
                        let mut slice = Value::clone(&slice);
                        slice["endpoints"] = json!([]);
                        parent.0.put(slices, slice);
                    }
                },
            }
            let (have, ..) = parent.settle().seen();
            let mut expected: Vec<String> = exports
                .iter()
                .map(|(cluster, address)| format!("{cluster} [\"{address}\"]"))
                .collect();
            if imports.is_empty() {
                expected.clear();
            }
            prop_assert_eq!(have, expected);
            prop_assert_eq!(parent.service().is_some(), !imports.is_empty());
        }
    }
}
