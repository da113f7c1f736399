//! Workloads on a simulated cluster, planned and applied to a naive model of an API server until nothing is left
//! to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use machinery::patch::merge_patch;
use members::action::Action;
use members::world::World;
use members::{NodeSpec, plan};
use serde_json::{Value, json};

/// Objects by (plural, namespace, name), and a clock.
struct Cluster {
    specs: Vec<NodeSpec>,
    objects: BTreeMap<(String, String, String), Value>,
    now: Timestamp,
    uids: u32,
    passes: u64,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let specs = (0..nodes)
            .map(|index| NodeSpec::named(format!("node-{index}")))
            .collect();
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        Self {
            specs,
            objects: BTreeMap::new(),
            now,
            uids: 0,
            passes: 0,
        }
    }

    fn world(&self) -> World {
        let of = |plural: &str| -> Vec<Arc<Value>> {
            self.objects
                .iter()
                .filter(|(key, _)| key.0 == plural)
                .map(|(_, value)| Arc::new(value.clone()))
                .collect()
        };
        World {
            nodes: of("nodes"),
            pods: of("pods"),
            deployments: of("deployments"),
            replica_sets: of("replicasets"),
            stateful_sets: of("statefulsets"),
            daemon_sets: of("daemonsets"),
            jobs: of("jobs"),
            budgets: of("poddisruptionbudgets"),
        }
    }

    fn create(&mut self, plural: &str, mut object: Value) {
        self.uids += 1;
        object["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let key = (
            plural.to_owned(),
            text("/metadata/namespace"),
            text("/metadata/name"),
        );
        self.objects.entry(key).or_insert(object);
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Create { resource, object, .. } => self.create(&resource.plural, object),
            Action::Patch {
                resource,
                namespace,
                name,
                patch,
                ..
            } => {
                let key = (resource.plural.to_string(), namespace.unwrap_or_default(), name);
                merge_patch(self.objects.get_mut(&key).expect("patched objects exist"), &patch);
            }
            Action::Bind {
                namespace,
                name,
                node,
            } => {
                let key = ("pods".to_owned(), namespace, name);
                self.objects.get_mut(&key).expect("bound pods exist")["spec"]["nodeName"] = json!(node);
            }
            Action::Delete {
                resource,
                namespace,
                name,
                at_once,
                ..
            } => {
                let key = (resource.plural.to_string(), namespace, name);
                if at_once {
                    self.objects.remove(&key);
                } else if let Some(object) = self.objects.get_mut(&key) {
                    object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
                }
            }
        }
    }

    /// Plans and applies until nothing is left now, then jumps to the next due time, until none is near.
    fn settle(&mut self) {
        for _ in 0..400 {
            self.passes += 1;
            let plan = plan(&self.specs, &self.world(), self.now, self.passes);
            if !plan.actions.is_empty() {
                plan.actions.into_iter().for_each(|action| self.apply(action));
            } else if let Some(due) = plan.wake_at {
                self.now = due;
            } else {
                return;
            }
        }
        panic!("planning after applying still asks for something");
    }

    /// Plans and applies until nothing is left and every pod runs.
    fn settle_until_running(&mut self) {
        for _ in 0..400 {
            self.passes += 1;
            let plan = plan(&self.specs, &self.world(), self.now, self.passes);
            let running = |pod: &&Value| pod["status"]["phase"] == "Running";
            if !plan.actions.is_empty() {
                plan.actions.into_iter().for_each(|action| self.apply(action));
            } else if self.pods().iter().all(running) {
                return;
            } else if let Some(due) = plan.wake_at {
                self.now = due;
            }
        }
        panic!("the pods do not run");
    }

    fn get(&self, plural: &str, name: &str) -> &Value {
        &self.objects[&(plural.to_owned(), "demo".to_owned(), name.to_owned())]
    }

    fn pods(&self) -> Vec<&Value> {
        self.objects
            .iter()
            .filter(|(key, _)| key.0 == "pods")
            .map(|(_, pod)| pod)
            .collect()
    }

    fn set(&mut self, plural: &str, name: &str, patch: Value) {
        let key = (plural.to_owned(), "demo".to_owned(), name.to_owned());
        let object = self.objects.get_mut(&key).expect("it exists");
        merge_patch(object, &patch);
        object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
    }
}

fn template(annotations: Value) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [{"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

fn workload(kind: &str, replicas: i64, annotations: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "demo"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(annotations),
        },
    })
}

#[test]
fn nodes_say_that_they_are_simulated() {
    let mut cluster = Cluster::new(2);
    cluster.settle();
    let world = cluster.world();
    assert_eq!(world.nodes.len(), 2);
    for node in &world.nodes {
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.34.0-simulated");
        assert_eq!(node["status"]["conditions"][3]["status"], "True");
    }
}

#[test]
fn a_deployment_comes_up_scales_and_rolls() {
    let mut cluster = Cluster::new(2);
    cluster.create("deployments", workload("Deployment", 3, json!({})));
    cluster.settle();
    assert_eq!(cluster.get("deployments", "web")["status"]["readyReplicas"], 3);
    assert_eq!(cluster.pods().len(), 3);

    cluster.set("deployments", "web", json!({"spec": {"replicas": 1}}));
    cluster.settle();
    assert_eq!(cluster.pods().len(), 1);
    assert_eq!(
        cluster.get("deployments", "web")["status"]["observedGeneration"],
        2
    );

    cluster.set("deployments", "web", json!({"spec": {"replicas": 4}}));
    cluster.settle();
    let image = json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}});
    cluster.set("deployments", "web", image);
    cluster.settle();
    let status = &cluster.get("deployments", "web")["status"];
    assert_eq!(
        (&status["updatedReplicas"], &status["availableReplicas"]),
        (&json!(4), &json!(4))
    );
    assert!(
        cluster
            .pods()
            .iter()
            .all(|pod| pod["metadata"]["labels"]["v"] == "2")
    );
}

#[test]
fn templates_of_a_deployment_are_counted() {
    let mut cluster = Cluster::new(2);
    cluster.create("deployments", workload("Deployment", 2, json!({})));
    let revisions = |cluster: &mut Cluster, version: &str| {
        let image = json!({"spec": {"template": {"metadata": {"labels": {"v": version}}}}});
        cluster.set("deployments", "web", image);
        cluster.settle();
        let of = |object: &Value| {
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut sets: Vec<String> = cluster
            .objects
            .iter()
            .filter(|(key, _)| key.0 == "replicasets")
            .map(|(_, set)| of(set))
            .collect();
        sets.sort();
        (of(cluster.get("deployments", "web")), sets.join(","))
    };
    let check = |cluster: &mut Cluster, version: &str, current: &str, sets: &str| {
        assert_eq!(
            revisions(cluster, version),
            (current.to_owned(), sets.to_owned()),
            "template {version}"
        );
    };
    check(&mut cluster, "1", "1", "1");
    check(&mut cluster, "2", "2", "1,2");
    // Back to the first: it is the newest again.
    check(&mut cluster, "1", "3", "2,3");
}

#[test]
fn a_failing_template_never_takes_the_old_pods_below_the_floor() {
    let mut cluster = Cluster::new(2);
    cluster.create("deployments", workload("Deployment", 4, json!({})));
    cluster.settle();
    let fails = json!({"members.tombolo.io/fail": "CrashLoopBackOff"});
    cluster.set(
        "deployments",
        "web",
        json!({"spec": {"template": {"metadata": {"annotations": fails}}}}),
    );
    cluster.settle();
    let status = &cluster.get("deployments", "web")["status"];
    assert_eq!(
        status["availableReplicas"], 3,
        "maxUnavailable 25% of 4 lets one go: {status}"
    );
    assert_eq!(status["conditions"][0]["status"], "True");
}

#[test]
fn recreate_ends_the_old_pods_before_it_starts_new_ones() {
    let mut cluster = Cluster::new(1);
    let mut deployment = workload("Deployment", 2, json!({}));
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create("deployments", deployment);
    cluster.settle();
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}});
    cluster.set("deployments", "web", labels);
    cluster.settle();
    assert_eq!(cluster.get("deployments", "web")["status"]["updatedReplicas"], 2);
    assert_eq!(cluster.pods().len(), 2);
}

#[test]
fn a_cluster_has_no_more_pods_than_it_has_room_for() {
    let mut cluster = Cluster::new(1);
    let many = i64::from(i32::MAX);
    cluster.create("replicasets", workload("ReplicaSet", many, json!({})));
    let mut parallel = workload("StatefulSet", many, json!({}));
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    cluster.create("statefulsets", parallel);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web", "namespace": "demo"},
        "spec": {"completions": many, "parallelism": many, "template": template(json!({}))},
    });
    cluster.create("jobs", job);
    let plan = plan(&cluster.specs, &cluster.world(), cluster.now, 1);
    let pods =
        |action: &&Action| matches!(action, Action::Create { resource, .. } if resource.plural == "pods");
    assert_eq!(plan.actions.iter().filter(pods).count(), 3_000);
    plan.actions
        .into_iter()
        .filter(|action| !pods(&action))
        .for_each(|action| cluster.apply(action));
    let failure = &cluster.get("replicasets", "web")["status"]["conditions"][0];
    assert_eq!(failure["reason"], "FailedCreate", "{failure}");
}

#[test]
fn stateful_pods_are_named_by_ordinal_and_go_from_the_end() {
    let mut cluster = Cluster::new(1);
    cluster.create("statefulsets", workload("StatefulSet", 3, json!({})));
    cluster.settle();
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster
            .pods()
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names(&cluster), ["web-0", "web-1", "web-2"]);
    cluster.set("statefulsets", "web", json!({"spec": {"replicas": 1}}));
    cluster.settle();
    assert_eq!(names(&cluster), ["web-0"]);
    assert_eq!(cluster.get("statefulsets", "web")["status"]["readyReplicas"], 1);
}

#[test]
fn stateful_pods_have_their_claims_among_their_volumes() {
    let mut cluster = Cluster::new(1);
    let mut set = workload("StatefulSet", 1, json!({}));
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
    set["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    cluster.create("statefulsets", set);
    cluster.settle();
    let volumes = &cluster.pods()[0]["spec"]["volumes"];
    assert_eq!(
        *volumes,
        json!([
            {"name": "tmp", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        ])
    );
}

#[test]
fn a_daemon_set_has_a_pod_on_each_node() {
    let mut cluster = Cluster::new(3);
    cluster.create("daemonsets", workload("DaemonSet", 0, json!({})));
    cluster.settle();
    assert_eq!(cluster.get("daemonsets", "web")["status"]["numberReady"], 3);
    assert_eq!(cluster.pods().len(), 3);
    // One that was made twice goes again.
    let mut twin = Value::clone(cluster.pods()[0]);
    let first = twin["metadata"]["name"].clone();
    twin["metadata"]["name"] = json!("a-twin");
    cluster.now += jiff::SignedDuration::from_secs(10);
    cluster.create("pods", twin);
    cluster.settle();
    let names: Vec<Value> = cluster
        .pods()
        .iter()
        .map(|pod| pod["metadata"]["name"].clone())
        .collect();
    assert!(names.len() == 3 && names.contains(&first), "{names:?}");
    assert_eq!(
        cluster.get("daemonsets", "web")["status"]["currentNumberScheduled"],
        3
    );
}

#[test]
fn who_follows_a_deleted_pod_has_a_name_of_its_own_but_in_stateful_sets() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web", "namespace": "demo"},
        "spec": {"template": template(json!({"members.tombolo.io/exit-after": "9m"}))},
    });
    for (plural, object, keeps) in [
        ("deployments", workload("Deployment", 2, json!({})), false),
        ("replicasets", workload("ReplicaSet", 2, json!({})), false),
        ("daemonsets", workload("DaemonSet", 0, json!({})), false),
        ("jobs", job, false),
        ("statefulsets", workload("StatefulSet", 2, json!({})), true),
    ] {
        let mut cluster = Cluster::new(1);
        cluster.create(plural, object);
        cluster.settle_until_running();
        let names = |cluster: &Cluster| -> Vec<String> {
            let pods = cluster.pods().into_iter();
            pods.map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned())
                .collect()
        };
        let before = names(&cluster);
        cluster.set(
            "pods",
            &before[0],
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        );
        cluster.settle_until_running();
        let after = names(&cluster);
        assert_eq!(after.len(), before.len(), "{plural}");
        assert_eq!(
            after.contains(&before[0]),
            keeps,
            "{plural}: {before:?} {after:?}"
        );
    }
}

#[test]
fn planning_again_with_the_same_number_asks_for_the_same_pods() {
    for (plural, object) in [
        ("replicasets", workload("ReplicaSet", 3, json!({}))),
        ("daemonsets", workload("DaemonSet", 0, json!({}))),
    ] {
        let mut cluster = Cluster::new(3);
        cluster.settle();
        cluster.create(plural, object);
        let seen = cluster.world();
        let mut asked = |world: &World, random: u64| -> Vec<String> {
            let actions = plan(&cluster.specs, world, cluster.now, random).actions;
            let mut names = Vec::new();
            for action in actions {
                if let Action::Create { object, .. } = &action {
                    names.push(object["metadata"]["name"].as_str().expect("a name").to_owned());
                }
                cluster.apply(action);
            }
            names
        };
        let first = asked(&seen, 7);
        assert_eq!(first.len(), 3, "{plural}");
        // The writes are done, but nothing of them is seen.
        assert_eq!(asked(&seen, 7), first, "{plural}");
        assert_eq!(cluster.pods().len(), 3, "{plural}");
    }
}

#[test]
fn a_job_completes_and_a_failing_one_gives_up() {
    let mut cluster = Cluster::new(1);
    let job = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "demo"},
            "spec": {"completions": 3, "parallelism": 2, "backoffLimit": 1, "template": template(annotations)},
        })
    };
    cluster.create("jobs", job("good", json!({})));
    cluster.create("jobs", job("bad", json!({"members.tombolo.io/exit-code": "1"})));
    cluster.settle();
    let status = |name: &str| cluster.get("jobs", name)["status"].clone();
    assert_eq!(
        (
            &status("good")["succeeded"],
            &status("good")["conditions"][1]["type"]
        ),
        (&json!(3), &json!("Complete"))
    );
    assert_eq!(status("bad")["conditions"][1]["type"], "Failed");
}

#[test]
fn pods_whose_command_ends_end_or_wait_to_be_started_anew() {
    for (command, policy, phase, state) in [
        (&["echo", "hi"][..], "Never", "Succeeded", "terminated"),
        (&["echo", "hi"], "OnFailure", "Succeeded", "terminated"),
        (&["echo", "hi"], "Always", "Running", "waiting"),
        (&["false"], "Never", "Failed", "terminated"),
        (&["false"], "OnFailure", "Running", "waiting"),
        (&["sleep", "9"], "Always", "Running", "running"),
        (&["sleep", "9"], "Never", "Running", "running"),
    ] {
        let mut cluster = Cluster::new(1);
        let containers = json!([{"name": "c", "image": "busybox", "args": command}]);
        let pod = json!({
            "metadata": {"name": "x", "namespace": "demo"},
            "spec": {"containers": containers, "restartPolicy": policy},
        });
        cluster.create("pods", pod);
        cluster.settle();
        let status = &cluster.get("pods", "x")["status"];
        let container = &status["containerStatuses"][0];
        assert_eq!(status["phase"], phase, "{command:?} {policy}");
        assert!(
            container["state"][state].is_object(),
            "{command:?} {policy}: {container}"
        );
        let waits = state == "waiting";
        assert_eq!(
            container["lastState"]["terminated"].is_object(),
            waits,
            "{container}"
        );
    }
    // A workload whose command ends has as many pods as before.
    let mut cluster = Cluster::new(1);
    let mut deployment = workload("Deployment", 2, json!({}));
    deployment["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["true"]);
    cluster.create("deployments", deployment);
    cluster.settle();
    assert_eq!(cluster.pods().len(), 2);
    let status = &cluster.get("deployments", "web")["status"];
    assert_eq!(status["availableReplicas"], 0, "{status}");
}

#[test]
fn a_budget_says_how_many_pods_may_go() {
    for (spec, expected, desired, allowed) in [
        (json!({"minAvailable": 2}), 3, 2, 1),
        (json!({"minAvailable": 5}), 3, 5, 0),
        (json!({"minAvailable": "50%"}), 3, 2, 1),
        (json!({"maxUnavailable": 1}), 3, 2, 1),
        (json!({"maxUnavailable": "34%"}), 3, 1, 2),
        (json!({"maxUnavailable": 0}), 3, 3, 0),
        (json!({"maxUnavailable": 9}), 3, 0, 3),
    ] {
        for (plural, kind) in [("deployments", "Deployment"), ("statefulsets", "StatefulSet")] {
            let mut cluster = Cluster::new(1);
            let mut budget = json!({"metadata": {"name": "web", "namespace": "demo"}, "spec": spec});
            budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
            cluster.create("poddisruptionbudgets", budget);
            cluster.create(plural, workload(kind, 3, json!({})));
            cluster.settle();
            let status = &cluster.get("poddisruptionbudgets", "web")["status"];
            let numbers = [
                "currentHealthy",
                "expectedPods",
                "desiredHealthy",
                "disruptionsAllowed",
                "observedGeneration",
            ];
            let found = numbers.map(|field| status[field].as_i64().unwrap_or(-1));
            assert_eq!(found, [3, expected, desired, allowed, 1], "{plural} {spec}");
        }
    }
}

#[test]
fn an_evicted_pod_counts_as_gone_until_it_is_or_stays_for_long() {
    let mut cluster = Cluster::new(1);
    let selector = json!({"matchLabels": {"app": "web"}});
    let budget = json!({
        "metadata": {"name": "web", "namespace": "demo"}, "spec": {"selector": selector, "minAvailable": 1},
    });
    cluster.create("poddisruptionbudgets", budget);
    cluster.create("statefulsets", workload("StatefulSet", 2, json!({})));
    cluster.settle();
    let allowed = |cluster: &Cluster| {
        cluster.get("poddisruptionbudgets", "web")["status"]["disruptionsAllowed"].clone()
    };
    assert_eq!(allowed(&cluster), 1);
    let evicted = json!({"web-1": cluster.now.to_string(), "gone": cluster.now.to_string()});
    let status = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": evicted}});
    cluster.set("poddisruptionbudgets", "web", status);
    let plan = plan(&cluster.specs, &cluster.world(), cluster.now, 0);
    assert!(plan.wake_at.is_some());
    plan.actions.into_iter().for_each(|action| cluster.apply(action));
    let budget = cluster.get("poddisruptionbudgets", "web");
    assert!(budget["status"]["disruptedPods"]["web-1"].is_string(), "{budget}");
    assert!(budget["status"]["disruptedPods"]["gone"].is_null(), "{budget}");
    assert_eq!(allowed(&cluster), 0);
    cluster.settle();
    assert_eq!(allowed(&cluster), 1);
}

#[test]
fn pods_without_room_stay_pending() {
    let mut cluster = Cluster::new(1);
    let mut deployment = workload("Deployment", 3, json!({}));
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
    cluster.create("deployments", deployment);
    cluster.settle();
    let bound = cluster
        .pods()
        .iter()
        .filter(|pod| pod["spec"]["nodeName"].is_string())
        .count();
    assert_eq!(bound, 2, "a node of 8 cores has room for two pods of 3");
}

#[test]
fn a_cordoned_or_tainted_node_gets_no_pods() {
    let mut cluster = Cluster::new(2);
    cluster.settle();
    let key = |name: &str| ("nodes".to_owned(), String::new(), name.to_owned());
    merge_patch(
        cluster.objects.get_mut(&key("node-0")).expect("a node"),
        &json!({"spec": {"unschedulable": true}}),
    );
    let taint = json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}});
    merge_patch(cluster.objects.get_mut(&key("node-1")).expect("a node"), &taint);
    cluster.create("deployments", workload("Deployment", 1, json!({})));
    cluster.settle();
    assert!(cluster.pods()[0]["spec"]["nodeName"].is_null());
    cluster.now = cluster
        .now
        .checked_add(SignedDuration::from_secs(1))
        .expect("in range");
    merge_patch(
        cluster.objects.get_mut(&key("node-0")).expect("a node"),
        &json!({"spec": {"unschedulable": null}}),
    );
    cluster.settle();
    assert_eq!(cluster.pods()[0]["spec"]["nodeName"], "node-0");
}
