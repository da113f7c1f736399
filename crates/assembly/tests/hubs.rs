//! Hubs and clusters with simulated pods, over TLS: one moves from one hub to another, follows one whose certificate
//! authority is followed by another, and comes back to one that is restored.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use agent::Leaving;
use api::apps::{DESCRIPTIONS, SUBSCRIPTIONS};
use api::clusters::{MANAGED_CLUSTERS, REGISTRATION_REQUESTS};
use api::kubernetes::{DEPLOYMENTS, PODS, SECRETS};
use api::names::{BOOTSTRAP_GROUP, PARENT_CLUSTER_SECRET, SYSTEM_NAMESPACE};
use assembly::{Earlier, HttpsParent, MemberConfig, Origin, Plane, UpConfig, start_member, up};
use clock::Env;
use kubeio::{Choice, Client, Kubeconfig, ListOptions, Patch};
use machinery::{ApiResource, meta};
use runtime::{CancellationToken, Supervisor};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const TEMPLATES: &str = include_str!("../../../examples/nginx/nginx.yaml");
const SUBSCRIPTION: &str = include_str!("../../../examples/nginx/subscription.yaml");
static SHADOW: [ApiResource; 3] = [
    ApiResource::cluster("shadow", "v1alpha1", "namespaces", "Namespace"),
    ApiResource::namespaced("shadow", "v1alpha1", "services", "Service"),
    ApiResource::namespaced("shadow", "v1alpha1", "deployments", "Deployment"),
];
const ANYWHERE: &str = "127.0.0.1:0";
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Asks again until the answer is yes.
async fn wait_for(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !ask().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    assert!(
        tokio::time::timeout(LIMIT, asking).await.is_ok(),
        "{what}: not in time"
    );
}

/// A hub in a folder.
struct Hub {
    stop: CancellationToken,
    running: JoinHandle<Result<(), assembly::Error>>,
    client: Client,
    parent: HttpsParent,
}

impl Hub {
    async fn start(folder: &Path, listen: &str, replace_authority: bool) -> Self {
        let kubeconfig = folder.join("kubeconfig");
        let config = UpConfig {
            data_dir: folder.to_owned(),
            listen: listen.parse().unwrap(),
            members: 0,
            demo: false,
            exit_when_ready: false,
            without: Vec::new(),
            replace_authority,
        };
        // It is written once it can be used.
        std::fs::remove_file(&kubeconfig).ok();
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let running =
            tokio::spawn(async move { up(config, Env::system(), shutdown, &mut std::io::sink()).await });
        wait_for("the hub runs", async || {
            assert!(!running.is_finished(), "it has ended");
            kubeconfig.is_file()
        })
        .await;
        let files = Kubeconfig::read(&[kubeconfig]).unwrap();
        let target = files.choose(&Choice::default()).await.unwrap();
        Self {
            stop,
            running,
            client: target.client,
            parent: HttpsParent {
                url: target.server,
                authority_pem: target.authority.map(|pem| String::from_utf8(pem).unwrap()),
            },
        }
    }

    /// Distributes the sample application.
    async fn distribute(&self) {
        for text in [TEMPLATES, SUBSCRIPTION] {
            self.create(&codec::yaml::parse(text).unwrap()).await;
        }
    }

    /// Makes templates and Subscriptions.
    async fn create(&self, objects: &[Value]) {
        for object in objects {
            let namespace = Some(meta::namespace(object)).filter(|namespace| !namespace.is_empty());
            let known = SHADOW.iter().find(|resource| resource.kind == meta::kind(object));
            let resource = known.cloned().unwrap_or(SUBSCRIPTIONS);
            self.client.create(&resource, namespace, object).await.unwrap();
        }
    }

    /// A bootstrap token of it.
    async fn token(&self) -> String {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true", "auth-extra-groups": BOOTSTRAP_GROUP,
            },
        });
        self.client
            .create(&SECRETS, Some("kube-system"), &secret)
            .await
            .unwrap();
        "abcdef.0123456789abcdef".to_owned()
    }

    async fn scale(&self, replicas: i64) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.client
            .patch(&SHADOW[2], Some("web"), "nginx", None, Patch::Merge, &patch)
            .await
            .unwrap();
    }

    /// When its cluster reported last.
    async fn last_report(&self) -> Option<String> {
        let everything = ListOptions::default();
        let clusters = self.client.list_all(&MANAGED_CLUSTERS, None, &everything).await;
        let clusters = clusters.unwrap().items;
        let time = &clusters.first()?["status"]["lastObservedTime"];
        time.as_str().map(str::to_owned)
    }

    /// Whether its clusters are all there.
    async fn is_ready(&self) -> bool {
        let everything = ListOptions::default();
        let clusters = self.client.list_all(&MANAGED_CLUSTERS, None, &everything).await;
        clusters.unwrap().items.iter().all(assembly::fleet::is_ready)
    }

    /// Waits for another report than the last.
    async fn reports(&self, last: Option<String>) {
        wait_for("the cluster reports", async || {
            let report = self.last_report().await;
            report.is_some() && report != last
        })
        .await;
    }

    /// The phases of what its clusters are sent.
    async fn phases(&self) -> Vec<String> {
        let phase = |it: &Value| it["status"]["phase"].as_str().unwrap_or_default().to_owned();
        self.descriptions().await.iter().map(phase).collect()
    }

    async fn descriptions(&self) -> Vec<Value> {
        let everything = ListOptions::default();
        self.client
            .list_all(&DESCRIPTIONS, None, &everything)
            .await
            .unwrap()
            .items
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// A cluster with its agent.
struct Member {
    plane: Plane,
    planes: Supervisor,
    roles: Supervisor,
}

impl Member {
    async fn start(folder: &Path, parent: &HttpsParent, token: String) -> Self {
        Self::named("edge-7", folder, parent, token).await
    }

    async fn named(name: &str, folder: &Path, parent: &HttpsParent, token: String) -> Self {
        let config = MemberConfig {
            name: name.to_owned(),
            nodes: 2,
            labels: BTreeMap::from([("demo".to_owned(), "nginx".to_owned())]),
            token,
        };
        let mut planes = Supervisor::new(CancellationToken::new());
        let mut roles = Supervisor::new(CancellationToken::new());
        let (env, parent) = (Env::system(), parent.clone());
        let plane = start_member(config, folder, parent, &env, &mut planes, &mut roles)
            .await
            .unwrap();
        Self { plane, planes, roles }
    }

    async fn deployment(&self) -> Option<Value> {
        let client = self.plane.administrator();
        client.get_opt(&DEPLOYMENTS, Some("web"), "nginx").await.unwrap()
    }

    /// The names and UIDs of the sample's pods, once all of them are ready.
    async fn pods(&self, replicas: i64) -> BTreeMap<String, String> {
        wait_for("the pods are ready", async || {
            let found = self.deployment().await;
            found.is_some_and(|it| {
                it["status"]["readyReplicas"] == replicas && it["status"]["replicas"] == replicas
            })
        })
        .await;
        let (client, everything) = (self.plane.administrator(), ListOptions::default());
        let pods = client
            .list_all(&PODS, Some("web"), &everything)
            .await
            .unwrap()
            .items;
        pods.iter()
            .map(|pod| (meta::name(pod).to_owned(), meta::uid(pod).to_owned()))
            .collect()
    }

    /// The names and UIDs of all pods and Deployments, once there are enough of them.
    async fn everything(&self) -> BTreeMap<String, String> {
        self.pods(2).await;
        let (client, everything) = (self.plane.administrator(), ListOptions::default());
        let mut all = BTreeMap::new();
        wait_for("all pods are there", async || {
            all.clear();
            for resource in [PODS, DEPLOYMENTS] {
                let listed = client.list_all(&resource, Some("web"), &everything).await;
                let objects = listed.unwrap().items;
                let named = |it: &Value| {
                    (
                        format!("{}/{}", resource.kind, meta::name(it)),
                        meta::uid(it).to_owned(),
                    )
                };
                all.extend(objects.iter().map(named));
            }
            all.len() == 5
        })
        .await;
        all
    }

    /// Lets the agent end, and does something before its cluster does.
    async fn stop(self, before: impl AsyncFnOnce(Client)) {
        let Self { plane, planes, roles } = self;
        roles.shutdown().cancel();
        roles.run(LIMIT).await.unwrap();
        before(plane.administrator()).await;
        planes.shutdown().cancel();
        planes.run(LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_to_another_hub_and_its_pods_go_on() {
    let [folder, old, new] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let (old, new) = (
        Hub::start(old.path(), ANYWHERE, false).await,
        Hub::start(new.path(), ANYWHERE, false).await,
    );
    old.distribute().await;
    new.distribute().await;
    let member = Member::start(folder.path(), &old.parent, old.token().await).await;
    let before = member.pods(2).await;
    assert_eq!(before.len(), 2);
    member
        .stop(async |child: Client| {
            let keeping = Leaving {
                remove_objects: false,
                ..Leaving::default()
            };
            let left = agent::leave(&child, Some(&old.client), &keeping).await.unwrap();
            assert_eq!(left.remaining, Vec::<String>::new());
            let kept = ["Namespace web", "Deployment web/nginx", "Service web/nginx"];
            assert!(
                kept.iter().all(|kept| left.kept.iter().any(|it| it == kept)),
                "{left:?}"
            );
        })
        .await;
    wait_for("the old hub has let go", async || {
        old.descriptions().await.is_empty()
    })
    .await;
    // What the old hub wants now is nobody's business any more.
    old.scale(5).await;
    let member = Member::start(folder.path(), &new.parent, new.token().await).await;
    wait_for("the new hub has it", async || {
        let descriptions = new.descriptions().await;
        descriptions.iter().any(|it| it["status"]["phase"] == "Success")
    })
    .await;
    assert_eq!(member.pods(2).await, before);
    new.scale(3).await;
    let after = member.pods(3).await;
    assert!(
        before.iter().all(|(name, uid)| after.get(name) == Some(uid)),
        "{before:?} {after:?}"
    );
    member.stop(async |_| {}).await;
    old.stop().await;
    new.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_follows_a_hub_to_another_authority() {
    let [folder, data] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut hub = Hub::start(data.path(), ANYWHERE, false).await;
    // What the operator named stays what it was.
    let (first, token) = (hub.parent.clone(), hub.token().await);
    let listen = first.url.strip_prefix("https://").unwrap().to_owned();
    let mut member = Member::start(folder.path(), &first, token.clone()).await;
    hub.reports(None).await;
    for trusted in [2, 2, 1] {
        member.stop(async |_| {}).await;
        hub.stop().await;
        hub = Hub::start(data.path(), &listen, true).await;
        let last = hub.last_report().await;
        // Agents look when they come, and then every few minutes.
        wait_for("the hub tells it", async || {
            let everything = ListOptions::default();
            let requests = hub
                .client
                .list_all(&REGISTRATION_REQUESTS, None, &everything)
                .await;
            let answer = &requests.unwrap().items[0]["status"]["caCertificate"];
            let told = String::from_utf8(api::secret::decode(answer).unwrap()).unwrap();
            told.matches("BEGIN").count() == trusted && hub.parent.authority_pem == Some(told)
        })
        .await;
        assert!(
            hub.is_ready().await,
            "it is told while its cluster counts as connected"
        );
        member = Member::start(folder.path(), &first, token.clone()).await;
        hub.reports(last).await;
        wait_for("the cluster has heard of it", async || {
            let child = member.plane.administrator();
            let kept = child
                .get(&SECRETS, Some(SYSTEM_NAMESPACE), PARENT_CLUSTER_SECRET)
                .await;
            let told = api::secret::text(&kept.unwrap(), "ca.crt").unwrap();
            told.matches("BEGIN").count() == trusted
        })
        .await;
    }
    assert_ne!(hub.parent.authority_pem, first.authority_pem);
    member.stop(async |_| {}).await;
    hub.stop().await;
}

/// Another application, in the namespace of the sample.
fn late() -> [Value; 2] {
    let template = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "late", "namespace": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "late"}},
            "template": {
                "metadata": {"labels": {"app": "late"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    });
    let mut subscription = codec::yaml::parse(SUBSCRIPTION).unwrap().remove(0);
    subscription["metadata"]["name"] = json!("late");
    subscription["spec"]["feeds"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "late"}]);
    [template, subscription]
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_never_stopped_come_back_to_a_restored_hub_by_themselves() {
    let [data, restored, one, two] = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let backup = one.path().join("hub.backup");
    let hub = Hub::start(data.path(), ANYWHERE, false).await;
    let (parent, token) = (hub.parent.clone(), hub.token().await);
    let listen = parent.url.strip_prefix("https://").unwrap().to_owned();
    hub.distribute().await;
    let known = Member::named("edge-1", &one.path().join("data"), &parent, token.clone()).await;
    known.pods(2).await;
    let running = Origin::Running(hub.client.clone());
    assembly::backup(running, &backup, Earlier::Keep, &mut |_| {})
        .await
        .unwrap();
    // Of this the backup knows nothing.
    let late = late();
    hub.create(&late).await;
    let unknown = Member::named("edge-2", two.path(), &parent, token).await;
    let all_applied = async |hub: &Hub, count: usize| {
        wait_for("everything is applied", async || {
            let phases = hub.phases().await;
            phases.len() == count && phases.iter().all(|phase| phase == "Success")
        })
        .await;
    };
    all_applied(&hub, 4).await;
    let members = [&known, &unknown];
    let before = [known.everything().await, unknown.everything().await];
    hub.stop().await;

    // Into a folder that is there, and empty.
    let env = Env::system();
    let made = assembly::restore(&backup, restored.path(), &env).await.unwrap();
    assert_eq!(made.clusters, 1);
    let hub = Hub::start(restored.path(), &listen, false).await;
    wait_for("both clusters are ready", async || {
        let everything = ListOptions::default();
        let clusters = hub.client.list_all(&MANAGED_CLUSTERS, None, &everything).await;
        let clusters = clusters.unwrap().items;
        clusters.len() == 2 && clusters.iter().all(assembly::fleet::is_ready)
    })
    .await;
    all_applied(&hub, 2).await;
    let events = ApiResource::namespaced("", "v1", "events", "Event");
    wait_for("it is told what stays", async || {
        let listed = hub.client.list_all(&events, None, &ListOptions::default()).await;
        listed.unwrap().items.iter().any(|event| {
            event["reason"] == "OrphansHeld" && event["message"].to_string().contains("Deployment web/late")
        })
    })
    .await;
    for (member, before) in members.into_iter().zip(&before) {
        assert_eq!(member.everything().await, *before, "nothing was touched");
    }
    // What is said again is what is there.
    hub.create(&late).await;
    all_applied(&hub, 4).await;
    for (member, before) in members.into_iter().zip(&before) {
        assert_eq!(member.everything().await, *before);
    }
    known.stop(async |_| {}).await;
    unknown.stop(async |_| {}).await;
    hub.stop().await;
}
