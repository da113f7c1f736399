//! A cluster moves from one hub to another, and what runs in it goes on running. Two hubs and a cluster with simulated
//! pods, over TLS.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use agent::Leaving;
use api::apps::{DESCRIPTIONS, SUBSCRIPTIONS};
use api::kubernetes::{DEPLOYMENTS, PODS, SECRETS};
use api::names::BOOTSTRAP_GROUP;
use assembly::{HttpsParent, MemberConfig, Plane, UpConfig, start_member, up};
use clock::Env;
use kubeio::{Choice, Client, Kubeconfig, ListOptions, Patch};
use machinery::{ApiResource, meta};
use runtime::{CancellationToken, Supervisor};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const TEMPLATES: &str = include_str!("../../../examples/nginx/nginx.yaml");
const SUBSCRIPTION: &str = include_str!("../../../examples/nginx/subscription.yaml");
const SHADOW: [ApiResource; 3] = [
    ApiResource::cluster("shadow", "v1alpha1", "namespaces", "Namespace"),
    ApiResource::namespaced("shadow", "v1alpha1", "services", "Service"),
    ApiResource::namespaced("shadow", "v1alpha1", "deployments", "Deployment"),
];
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

/// A hub that distributes the sample application, in a folder of its own.
struct Hub {
    _folder: tempfile::TempDir,
    stop: CancellationToken,
    running: JoinHandle<Result<(), assembly::Error>>,
    client: Client,
    parent: HttpsParent,
}

impl Hub {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let config = UpConfig {
            data_dir: folder.path().to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            members: 0,
            demo: false,
            exit_when_ready: false,
        };
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let running =
            tokio::spawn(async move { up(config, Env::system(), shutdown, &mut std::io::sink()).await });
        wait_for("the hub runs", async || kubeconfig.is_file()).await;
        let files = Kubeconfig::read(&[kubeconfig]).unwrap();
        let target = files.choose(&Choice::default()).await.unwrap();
        let hub = Self {
            _folder: folder,
            stop,
            running,
            client: target.client,
            parent: HttpsParent {
                url: target.server,
                authority_pem: target.authority.map(|pem| String::from_utf8(pem).unwrap()),
            },
        };
        for object in [TEMPLATES, SUBSCRIPTION]
            .iter()
            .flat_map(|text| codec::yaml::parse(text).unwrap())
        {
            let namespace = Some(meta::namespace(&object)).filter(|namespace| !namespace.is_empty());
            let known = SHADOW
                .iter()
                .find(|resource| resource.kind == meta::kind(&object));
            let resource = known.unwrap_or(&SUBSCRIPTIONS);
            hub.client.create(resource, namespace, &object).await.unwrap();
        }
        hub
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
    async fn start(folder: &Path, hub: &Hub, token: String) -> Self {
        let config = MemberConfig {
            name: "edge-7".to_owned(),
            nodes: 2,
            labels: BTreeMap::from([("demo".to_owned(), "nginx".to_owned())]),
            token,
        };
        let mut planes = Supervisor::new(CancellationToken::new());
        let mut roles = Supervisor::new(CancellationToken::new());
        let (env, parent) = (Env::system(), hub.parent.clone());
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
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Hub::start().await, Hub::start().await);
    let member = Member::start(folder.path(), &old, old.token().await).await;
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
    let member = Member::start(folder.path(), &new, new.token().await).await;
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
