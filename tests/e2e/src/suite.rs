//! What every parent has to do for an application in two clusters, from its delivery to its end: one body for the embedded
//! parent, a real one, and fleets of mixed make.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Kubectl, wait_for};

/// For what goes through several parts.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs our own command against the parent: its output, or its complaint.
pub type Ours<'a> = Box<dyn Fn(&[&str]) -> Result<String, String> + 'a>;

/// A parent with two ready clusters, and nothing of the application yet.
pub struct Suite<'a> {
    /// For the parent's administrator.
    pub admin: Kubectl,
    /// Our own commands.
    pub ours: Ours<'a>,
    /// The clusters' names, and kubectl in them.
    pub clusters: [(String, Kubectl); 2],
    /// For files.
    pub folder: PathBuf,
}

impl Suite<'_> {
    /// Everything, one after the other.
    ///
    /// # Panics
    /// When something does not come about.
    pub fn run(&self) {
        self.store(1);
        self.subscribe();
        self.arrives(1);
        self.reports();
        self.localize();
        self.divide();
        self.divide_by_room();
        self.store(2);
        self.arrives(2);
        self.drop_a_feed();
        self.withdraw();
    }

    fn templates(&self) -> String {
        self.folder.join("templates.yaml").display().to_string()
    }

    /// Stores the templates in some version, through the shadow API.
    ///
    /// # Panics
    /// When they are not taken.
    pub fn store(&self, version: u32) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "suite"}});
        // Another name than its Deployment's: upstream's agents keep statuses by name alone.
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "door", "namespace": "suite"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
        });
        let documents = [
            namespace,
            service,
            deployment("web", 2, version),
            deployment("split", 6, 1),
            deployment("room", 4, 1),
        ];
        let text: Vec<String> = documents.iter().map(ToString::to_string).collect();
        let path = self.templates();
        std::fs::write(&path, text.join("\n---\n")).expect("a file can be written");
        // The parent's own discovery learns of the hub's groups a moment after they are available.
        wait_for("the templates are stored", Duration::from_secs(60), || {
            (self.ours)(&["apply", "-f", &path])
        });
    }

    fn apply(&self, object: &Value) {
        self.admin.with_input("apply -f -", &object.to_string());
    }

    /// A Subscription of both clusters.
    ///
    /// # Panics
    /// When it is not taken.
    pub fn subscribe_to(&self, name: &str, strategy: &Value, feeds: &[Value]) {
        let names: Vec<&String> = self.clusters.iter().map(|(name, _)| name).collect();
        let both = json!({"matchExpressions": [
            {"key": "clusters.clusternet.io/cluster-name", "operator": "In", "values": names},
        ]});
        let mut subscription = json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Subscription",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"subscribers": [{"clusterAffinity": both}], "feeds": feeds},
        });
        for (field, value) in strategy.as_object().into_iter().flatten() {
            subscription["spec"][field] = value.clone();
        }
        self.apply(&subscription);
    }

    /// Subscribes to the whole application.
    ///
    /// # Panics
    /// When the Subscription is not taken.
    pub fn subscribe(&self) {
        let feeds = [
            feed("v1", "Namespace", "suite"),
            feed("v1", "Service", "door"),
            feed("apps/v1", "Deployment", "web"),
        ];
        self.subscribe_to("web", &json!({"schedulingStrategy": "Replication"}), &feeds);
    }

    /// The application runs in both clusters, in some version.
    ///
    /// # Panics
    /// When it does not come.
    pub fn arrives(&self, version: u32) {
        for (cluster, kubectl) in &self.clusters {
            wait_for("the application runs in the cluster", LIMIT, || {
                let deployment = kubectl.json("-n suite deployment web")?;
                let label = &deployment["metadata"]["labels"]["version"];
                let status = &deployment["status"];
                let current = status["observedGeneration"] == deployment["metadata"]["generation"]
                    && label == &json!(format!("v{version}"));
                let ready = status["readyReplicas"] == deployment["spec"]["replicas"]
                    && status["updatedReplicas"] == deployment["spec"]["replicas"];
                if current && ready {
                    Ok(())
                } else {
                    Err(format!("{cluster}: version {label}: {status}"))
                }
            });
            kubectl.run("-n suite get service door");
        }
    }

    /// The UIDs of the workload.
    ///
    /// # Panics
    /// When it is not there.
    pub fn uids(&self) -> Vec<String> {
        let uid = |kubectl: &Kubectl| kubectl.run("-n suite get deployment web -o jsonpath={.metadata.uid}");
        self.clusters.iter().map(|(_, kubectl)| uid(kubectl)).collect()
    }

    /// The Subscription shows what both clusters say.
    ///
    /// # Panics
    /// When it does not.
    pub fn reports(&self) {
        wait_for("the Subscription shows both", LIMIT, || {
            let status = self.admin.json("subscription web")?["status"].take();
            let statuses = status["aggregatedStatuses"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let deployment = statuses.iter().find(|it| it["kind"] == "Deployment");
            let ready = deployment.map(|it| &it["feedStatusSummary"]["replicaStatus"]["readyReplicas"]);
            if ready == Some(&json!(4)) && status["completedReleases"] == 2 {
                Ok(())
            } else {
                Err(status.to_string())
            }
        });
    }

    /// One cluster has a number of replicas of its own.
    ///
    /// # Panics
    /// When it does not get it, or the other does.
    pub fn localize(&self) {
        let selector = format!("-l clusters.clusternet.io/cluster-name={}", self.clusters[0].0);
        let home = self.admin.run(&format!(
            "get mcls -A {selector} -o jsonpath={{.items[0].metadata.namespace}}"
        ));
        self.apply(&json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Localization",
            "metadata": {"name": "three", "namespace": home},
            "spec": {
                "overridePolicy": "ApplyNow",
                "feed": feed("apps/v1", "Deployment", "web"),
                "overrides": [{"name": "three", "type": "MergePatch", "value": r#"{"spec":{"replicas":3}}"#}],
            },
        }));
        self.replicas("web", [3, 2]);
    }

    fn replicas(&self, name: &str, expected: [u32; 2]) {
        for ((cluster, kubectl), expected) in self.clusters.iter().zip(expected) {
            wait_for("the replicas are as they should be", LIMIT, || {
                let deployment = kubectl.json(&format!("-n suite deployment {name}"))?;
                let (wanted, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
                if *wanted == json!(expected) && status["readyReplicas"] == json!(expected) {
                    Ok(())
                } else {
                    Err(format!("{cluster}: {wanted} of {name} are wanted, {status}"))
                }
            });
        }
    }

    /// Replicas are divided by weight, and again when there are more.
    ///
    /// # Panics
    /// When they are not.
    pub fn divide(&self) {
        let subscriber = |index: usize, weight: u32| {
            let name = &self.clusters[index].0;
            json!({
                "clusterAffinity": {"matchLabels": {"clusters.clusternet.io/cluster-name": name}},
                "weight": weight,
            })
        };
        let strategy = json!({
            "schedulingStrategy": "Dividing",
            "dividingScheduling": {"type": "Static"},
            "subscribers": [subscriber(0, 1), subscriber(1, 2)],
        });
        self.subscribe_to("split", &strategy, &[feed("apps/v1", "Deployment", "split")]);
        self.replicas("split", [2, 4]);
        (self.ours)(&["scale", "deployment", "split", "-n", "suite", "--replicas", "9"])
            .expect("a template is scaled");
        self.replicas("split", [3, 6]);
    }

    /// Replicas go where the agents' predictors say that there is room.
    ///
    /// # Panics
    /// When they do not.
    pub fn divide_by_room(&self) {
        let strategy = json!({
            "schedulingStrategy": "Dividing",
            "dividingScheduling": {"type": "Dynamic", "dynamicDividing": {"strategy": "Spread"}},
        });
        self.subscribe_to("room", &strategy, &[feed("apps/v1", "Deployment", "room")]);
        self.replicas("room", [2, 2]);
    }

    /// What is no longer fed goes from the clusters, and nothing else does.
    ///
    /// # Panics
    /// When it stays, or something else goes.
    pub fn drop_a_feed(&self) {
        let before = self.uids();
        let feeds = [
            feed("v1", "Namespace", "suite"),
            feed("apps/v1", "Deployment", "web"),
        ];
        self.subscribe_to("web", &json!({"schedulingStrategy": "Replication"}), &feeds);
        self.await_gone("-n suite get service door -o name");
        assert_eq!(self.uids(), before);
    }

    /// Waits until kubectl finds something in neither cluster.
    ///
    /// # Panics
    /// When it stays.
    pub fn await_gone(&self, line: &str) {
        for (cluster, kubectl) in &self.clusters {
            wait_for(&format!("{line}: gone from {cluster}"), LIMIT, || {
                match kubectl.try_run(line) {
                    Err(complaint) if complaint.contains("not found") => Ok(()),
                    Err(complaint) | Ok(complaint) => Err(complaint),
                }
            });
        }
    }

    /// Waits until kubectl prints nothing on the parent.
    ///
    /// # Panics
    /// When something stays.
    pub fn await_nothing(&self, line: &str) {
        wait_for(&format!("{line}: nothing is left"), LIMIT, || {
            let left = self.admin.try_run(line)?;
            if left.trim().is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// Nothing is left of the Subscriptions, on either side, and the templates can go.
    ///
    /// # Panics
    /// When something stays.
    pub fn withdraw(&self) {
        self.admin
            .run("delete subscription --all --wait=true --timeout=90s");
        self.await_gone("get namespace suite -o name");
        self.await_nothing("get bases,descriptions,feedinventories -A -o name");
        (self.ours)(&["delete", "-f", &self.templates()]).expect("the templates are deleted");
        self.await_nothing("get manifests.apps.clusternet.io -A -o name");
    }
}

/// A Deployment of the application, in some version.
pub fn deployment(name: &str, replicas: u32, version: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "suite", "labels": {"version": format!("v{version}")}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": format!("example.com/web:{version}")}]},
            },
        },
    })
}

fn feed(api_version: &str, kind: &str, name: &str) -> Value {
    let mut feed = json!({"apiVersion": api_version, "kind": kind, "name": name});
    if kind != "Namespace" {
        feed["namespace"] = json!("suite");
    }
    feed
}
