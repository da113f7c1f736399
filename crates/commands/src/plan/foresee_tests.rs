//! Edits of a small fleet: what is foreseen, and that nothing more is foreseen once it came.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::super::compare::Verb;
use super::super::fields::Field;
use super::*;

/// A cluster of its own namespace `ns-<name>`, with a label `zone`.
fn cluster(name: &str, zone: &str) -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ManagedCluster",
        "metadata": {"namespace": format!("ns-{name}"), "name": name, "labels": {"zone": zone}},
        "spec": {"clusterId": format!("id-{name}")},
    }))
}

fn manifest(object: &Value) -> Arc<Value> {
    let feed = Feed::of_object(object);
    let (group, version) = resource::split_api_version(&feed.api_version);
    Arc::new(json!({
        "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Manifest",
        "metadata": {"namespace": "clusternet-reserved", "name": format!("{}.{}", feed.kind.to_lowercase(), feed.name),
            "labels": {labels::CONFIG_GROUP: group, labels::CONFIG_VERSION: version, labels::CONFIG_KIND: feed.kind,
                       labels::CONFIG_NAME: feed.name, labels::CONFIG_NAMESPACE: feed.namespace}},
        "template": object,
    }))
}

fn deployment(image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}},
    })
}

fn secret(password: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "key"},
        "data": {"password": BASE64.encode(password)}})
}

/// Replicated to the zone `x`.
fn spec() -> Value {
    json!({
        "schedulerName": "default", "schedulingStrategy": "Replication",
        "subscribers": [{"clusterAffinity": {"matchLabels": {"zone": "x"}}}],
        "feeds": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            {"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "key"},
        ],
    })
}

fn divided(kind: &str, weights: [u32; 2]) -> Value {
    let mut spec = spec();
    spec["schedulingStrategy"] = json!("Dividing");
    spec["dividingScheduling"] = json!({"type": kind});
    let subscriber = |name: &str, weight| json!({"clusterAffinity": {"matchLabels": {labels::CLUSTER_NAME: name}}, "weight": weight});
    spec["subscribers"] = json!([subscriber("a", weights[0]), subscriber("b", weights[1])]);
    spec
}

/// A Subscription in a fleet.
struct Fleet {
    world: World,
    live: Live,
    subscription: Value,
}

impl Fleet {
    /// `a` and `b` are in the zone `x`, `c` is in `y`.
    fn new(spec: Value) -> Self {
        let mut world = World {
            clusters: vec![cluster("a", "x"), cluster("b", "x"), cluster("c", "y")],
            ..World::default()
        };
        for template in [deployment("nginx:1", 4), secret("one")] {
            world.templates.insert(&manifest(&template));
        }
        let mut subscription = json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Subscription",
            "metadata": {"namespace": "default", "name": "app", "uid": "uid-1"},
        });
        subscription["spec"] = spec;
        let mut fleet = Self {
            world,
            live: Live::default(),
            subscription,
        };
        fleet.settle();
        fleet
    }

    fn template(&mut self, object: &Value) {
        if let Some(old) = self.world.templates.get(&Feed::of_object(object)).cloned() {
            self.world.templates.remove(&old);
        }
        self.world.templates.insert(&manifest(object));
    }

    fn look(&self) -> Outlook {
        let rules = Rules {
            placement: &Config::default(),
            own_kinds: &[],
            now: None,
        };
        foresee(&self.subscription, &self.live, &self.world, &rules).unwrap()
    }

    /// Makes what is foreseen come true.
    fn settle(&mut self) {
        let placement = Config::default();
        let rules = Rules {
            placement: &placement,
            own_kinds: &[],
            now: None,
        };
        let mut notes = Vec::new();
        let inventory = inventory_after(&self.subscription, &self.live, &self.world, &rules, &mut notes);
        let read = Subscription::from_value(&self.subscription).unwrap();
        let scheduling = Scheduling {
            subscription: &read,
            inventory: inventory.as_ref().map(Inventory::from_value),
            world: &self.world,
            rules: &rules,
        };
        scheduling.bind(&mut self.subscription, &mut notes);
        let bases = bases_after(&self.subscription, &self.live, &self.world);
        let (descriptions, _) = descriptions_after(
            &self.subscription,
            inventory.as_ref(),
            &self.live,
            &bases,
            &self.world,
        );
        self.live = Live {
            inventory,
            bases,
            descriptions,
        };
    }

    /// What is foreseen, as lines; then it comes, and no more is foreseen.
    fn foreseen(&mut self) -> Vec<String> {
        let lines = lines(&self.look());
        self.settle();
        assert_eq!(lines_of_changes(&self.look()), [""; 0], "after {lines:?}");
        lines
    }
}

fn lines(outlook: &Outlook) -> Vec<String> {
    let mut lines = lines_of_changes(outlook);
    lines.extend(outlook.notes.iter().cloned());
    lines
}

fn lines_of_changes(outlook: &Outlook) -> Vec<String> {
    let mut lines = Vec::new();
    for fate in outlook.clusters.iter().filter(|fate| fate.changes()) {
        let mut words = vec![format!("{} {}", fate.cluster.name, fate.course.as_str())];
        for replicas in fate.replicas.iter().filter(|it| it.changes()) {
            words.push(format!("{:?} to {:?}", replicas.now, replicas.then));
        }
        for change in &fate.objects {
            match &change.verdict {
                Verb::Added => words.push(format!("+{}", change.object.kind)),
                Verb::Removed => words.push(format!("-{}", change.object.kind)),
                Verb::Changed(fields) => words.extend(fields.iter().map(Field::to_line)),
            }
        }
        lines.push(words.join("; "));
    }
    lines
}

#[test]
fn what_nobody_edits_stays() {
    for spec in [
        spec(),
        divided("Static", [1, 1]),
        json!({"subscribers": [], "feeds": []}),
    ] {
        assert_eq!(
            lines_of_changes(&Fleet::new(spec.clone()).look()),
            [""; 0],
            "{spec}"
        );
    }
}

#[test]
fn clusters_come_and_go_with_the_affinity() {
    let mut fleet = Fleet::new(spec());
    fleet.subscription["spec"]["subscribers"] = json!([{"clusterAffinity": {"matchExpressions":
        [{"key": labels::CLUSTER_NAME, "operator": "In", "values": ["b", "c"]}]}}]);
    assert_eq!(
        fleet.foreseen(),
        ["a lost; -Secret; -Deployment", "c gained; +Secret; +Deployment"]
    );
    fleet.subscription["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    let lines = lines(&fleet.look());
    assert_eq!(
        lines,
        ["b lost; -Secret; -Deployment", "c lost; -Secret; -Deployment"]
    );
}

#[test]
fn templates_and_overrides_change_fields() {
    let mut fleet = Fleet::new(spec());
    fleet.template(&deployment("nginx:2", 4));
    let image = "spec.template.spec.containers[web].image";
    assert_eq!(
        fleet.foreseen(),
        [
            format!("a kept; {image}: nginx:1 -> nginx:2"),
            format!("b kept; {image}: nginx:1 -> nginx:2")
        ]
    );
    fleet.template(&secret("two"));
    let hidden = "data.password: changed, its value is not shown";
    assert_eq!(
        fleet.foreseen(),
        [format!("a kept; {hidden}"), format!("b kept; {hidden}")]
    );
    let overrides = |kind: &str, namespace: &str, replicas: u32| {
        Arc::new(json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": kind,
            "metadata": {"namespace": namespace, "name": "more"},
            "spec": {
                "feed": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "overrides": [{"name": "r", "type": "MergePatch", "value": json!({"spec": {"replicas": replicas}}).to_string()}],
            },
        }))
    };
    let local = overrides("Localization", "ns-b", 7);
    fleet
        .world
        .localizations
        .insert("ns-b".into(), vec![Arc::clone(&local)]);
    assert_eq!(fleet.foreseen(), ["b kept; spec.replicas: 4 -> 7"]);
    fleet.world.globalizations.push(overrides("Globalization", "", 5));
    assert_eq!(
        fleet.foreseen(),
        ["a kept; spec.replicas: 4 -> 5"],
        "the local one is stronger"
    );
    let mut broken = Value::clone(&local);
    broken["spec"]["overrides"][0]["type"] = json!("Magic");
    fleet
        .world
        .localizations
        .insert("ns-b".into(), vec![Arc::new(broken)]);
    assert_eq!(
        lines(&fleet.look()),
        [
            "Nothing changes in 1 cluster(s) meanwhile: Localization ns-b/more: override \"r\": unsupported type \"Magic\"."
        ]
    );
}

#[test]
fn a_missing_feed_holds_everything_back() {
    let mut fleet = Fleet::new(spec());
    fleet.template(&deployment("nginx:2", 4));
    let gone = fleet
        .world
        .templates
        .get(&Feed::of_object(&secret("")))
        .cloned()
        .unwrap();
    fleet.world.templates.remove(&gone);
    assert_eq!(
        lines(&fleet.look()),
        ["Nothing changes in 2 cluster(s) meanwhile: Secret shop/key in v1 does not exist."]
    );
}

#[test]
fn weights_move_replicas_and_nothing_else() {
    let mut fleet = Fleet::new(divided("Static", [1, 1]));
    fleet.subscription["spec"] = divided("Static", [3, 1]);
    assert_eq!(
        fleet.foreseen(),
        [
            "a kept; Some(2) to Known(Some(3))",
            "b kept; Some(2) to Known(Some(1))"
        ]
    );
    fleet.template(&deployment("nginx:1", 8));
    assert_eq!(
        fleet.foreseen(),
        [
            "a kept; Some(3) to Known(Some(6))",
            "b kept; Some(1) to Known(Some(2))"
        ]
    );
    fleet.subscription["spec"] = spec();
    assert_eq!(
        fleet.foreseen(),
        ["a kept; spec.replicas: 6 -> 8", "b kept; spec.replicas: 2 -> 8"]
    );
    fleet.subscription["spec"] = divided("Static", [1, 0]);
    let lines = fleet.foreseen();
    assert!(
        lines.contains(&"b kept; Some(8) to Known(Some(0))".to_owned()),
        "{lines:?}"
    );
}

#[test]
fn what_depends_on_room_has_bounds() {
    let open = |count: u32, asked: usize| {
        format!(
            "{count} replica(s) of Deployment shop/web go where there is room: bounds, until {asked} cluster(s) are \
             asked."
        )
    };
    // Nobody has anything yet.
    let mut fleet = Fleet::new(spec());
    fleet.subscription["spec"] = divided("Dynamic", [1, 1]);
    assert_eq!(
        lines(&fleet.look()),
        [
            "a kept; Some(4) to Between(0, 4)".to_owned(),
            "b kept; Some(4) to Between(0, 4)".to_owned(),
            open(4, 2)
        ]
    );
    let key = "apps/v1/Deployment/shop/web";
    let bind = |fleet: &mut Fleet, replicas: [u32; 2]| {
        fleet.subscription["status"] = json!({"bindingClusters": ["ns-a/a", "ns-b/b"], "desiredReleases": 2,
            "replicas": {key: replicas, "v1/Secret/shop/key": []}});
        fleet.settle();
    };
    bind(&mut fleet, [3, 1]);
    assert_eq!(lines(&fleet.look()), [""; 0], "all of it is placed");
    // Less than there is needs no answer.
    fleet.template(&deployment("nginx:1", 2));
    assert_eq!(lines(&fleet.look()), ["a kept; Some(3) to Known(Some(1))"]);
    fleet.template(&deployment("nginx:1", 6));
    let more = [
        "a kept; Some(3) to Between(3, 5)".to_owned(),
        "b kept; Some(1) to Between(1, 3)".to_owned(),
        open(2, 2),
    ];
    assert_eq!(lines(&fleet.look()), more);
    // A silent cluster loses what finds room elsewhere.
    fleet.template(&deployment("nginx:1", 4));
    let taint = json!({"key": api::reasons::TAINT_UNSCHEDULABLE, "effect": "NoSchedule"});
    Arc::make_mut(&mut fleet.world.clusters[0])["spec"]["taints"] = json!([taint]);
    assert_eq!(
        lines(&fleet.look()),
        [
            "a kept; Some(3) to Between(0, 3)".to_owned(),
            "b kept; Some(1) to Between(1, 4)".to_owned(),
            open(3, 1)
        ]
    );
}

#[test]
fn what_cannot_be_decided_is_said() {
    for (change, part) in [
        (
            json!({"schedulerName": "other"}),
            "\"other\" is no profile of this scheduler",
        ),
        (
            json!({"schedulingBySubGroup": true}),
            "It cannot be scheduled: spec.subscribers[0].subGroupStrategy",
        ),
        (
            json!({"subscribers": [{"clusterAffinity": {"matchLabels": {"zone": "none"}}}]}),
            "It stays where it is: 0/3 clusters",
        ),
        (
            json!({"schedulingStrategy": "Dividing",
                "feeds": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "none"}]}),
            "The scheduler would wait",
        ),
    ] {
        let mut fleet = Fleet::new(spec());
        merge_patch(&mut fleet.subscription["spec"], &change);
        let outlook = fleet.look();
        assert_eq!(lines_of_changes(&outlook), [""; 0], "{change}");
        assert!(
            outlook.notes.iter().any(|note| note.contains(part)),
            "{change}: {:?}",
            outlook.notes
        );
    }
    let mut fleet = Fleet::new(spec());
    fleet.subscription["spec"]["schedulingStrategy"] = json!("Random");
    let rules = Rules {
        placement: &Config::default(),
        own_kinds: &[],
        now: None,
    };
    let error = foresee(&fleet.subscription, &fleet.live, &fleet.world, &rules).err();
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        error.contains("spec.schedulingStrategy: unsupported value"),
        "{error}"
    );
}

/// The controllers were told of a kind, this command was not.
#[test]
fn kinds_that_are_divided_already_are_known() {
    let rollout = |replicas: u32| {
        json!({"apiVersion": "argoproj.io/v1", "kind": "Rollout", "metadata": {"namespace": "shop", "name": "r"},
            "spec": {"replicas": replicas}})
    };
    let mut fleet = Fleet::new(spec());
    let feed = json!({"apiVersion": "argoproj.io/v1", "kind": "Rollout", "namespace": "shop", "name": "r"});
    fleet.subscription["spec"] = divided("Static", [1, 1]);
    fleet.subscription["spec"]["feeds"] = json!([feed]);
    fleet.template(&rollout(4));
    let mut entry = feed;
    entry["desiredReplicas"] = json!(4);
    entry["replicaJsonPath"] = json!("/spec/replicas");
    fleet.live.inventory =
        Some(json!({"metadata": {"namespace": "default", "name": "app"}, "spec": {"feeds": [entry]}}));
    fleet.settle();
    fleet.template(&rollout(8));
    assert_eq!(
        fleet.foreseen(),
        [
            "a kept; Some(2) to Known(Some(4))",
            "b kept; Some(2) to Known(Some(4))"
        ]
    );
}
