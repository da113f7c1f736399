//! The same binary on real Kubernetes: a parent, two children behind tunnels, one Subscription.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use e2e::{Bench, ControlPlane, Kubectl, Process, contains, plain_http, tombolo, vault, wait_for};

const HUB_PORT: u16 = 17_160;
/// Of a second hub, to which no agent connects.
const OTHER_HUB_PORT: u16 = 17_162;
/// Where the scheduler serves its status, and after it the controllers.
const SCHEDULER_PORT: u16 = 17_164;
/// Opens the gate of services across clusters.
const SERVICES: &str = "MultiClusterService=true";

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/nginx")
        .join(name)
        .display()
        .to_string()
}

#[test]
fn one_subscription_reaches_two_real_clusters_and_comes_back() {
    let Some(bench) = Bench::find("one_subscription_reaches_two_real_clusters_and_comes_back") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let parent = ControlPlane::start(&bench, "parent", 17_100, "api kcm");
    let children = [
        ControlPlane::start(&bench, "child-1", 17_120, "api kcm scheduler kwok"),
        ControlPlane::start(&bench, "child-2", 17_140, "api kcm scheduler kwok"),
    ];
    let admin = parent.kubectl();

    prepare_parent(&bench, &admin);
    let roles = start_roles(&bench, &parent, folder.path());
    for name in ["v1alpha1.proxies.clusternet.io", "v1alpha1.shadow"] {
        admin.run(&format!(
            "wait --for=condition=Available apiservice/{name} --timeout=60s"
        ));
    }
    let token = bootstrap_token(&admin);
    let agents: Vec<Process> = children
        .iter()
        .zip(["child-1", "child-2"])
        .map(|(child, name)| join(&bench, &parent, child, name, &token, folder.path()))
        .collect();

    wait_for("both clusters are ready", Duration::from_secs(90), || {
        let list = admin.json("managedclusters -A")?;
        let ready = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|cluster| is_true(cluster, "Ready"))
            .count();
        if ready == 2 {
            Ok(())
        } else {
            Err(format!("{ready} of 2 are ready"))
        }
    });
    let table = admin.run("get mcls -A");
    assert!(
        table.contains("CLUSTER ID") && table.contains("child-1"),
        "{table}"
    );

    hold_a_child(&bench, &parent, &admin, folder.path());
    distribute(&bench, &parent, &admin, &children);
    distribute_what_is_large_and_secret(&bench, &parent, &children, folder.path());
    read_metrics(&bench, &admin, folder.path());
    reach_through_the_hub(&bench, &parent, folder.path());
    reach_through_another_hub(&bench, &parent, folder.path());
    share_a_service(&admin, &children);
    withdraw(&admin, &children);
    drop(agents);
    leave(&bench, &parent, &children[0]);
    drop(roles);
}

fn is_true(object: &serde_json::Value, kind: &str) -> bool {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Agents have credentials that end, and none that does not; of its own ManagedCluster a child changes nothing that it is
/// selected by.
fn hold_a_child(bench: &Bench, parent: &ControlPlane, admin: &Kubectl, folder: &Path) {
    let requests = wait_for("no lasting credential is left", Duration::from_secs(60), || {
        let requests = admin.json("clsrr")?;
        let all = requests["items"].as_array().cloned().unwrap_or_default();
        let lasting = "get secrets -A --field-selector type=kubernetes.io/service-account-token -o name";
        let lasting = admin.run(lasting);
        let is_gone = lasting.is_empty() && all.iter().all(|it| it["status"]["token"].is_null());
        is_gone.then_some(all).ok_or(lasting)
    });
    let of_the_first = |it: &&serde_json::Value| it["spec"]["clusterName"] == "child-1";
    let request = requests.iter().find(of_the_first).expect("its request");
    let home = request["status"]["dedicatedNamespace"]
        .as_str()
        .expect("a namespace");
    let role = "rolebinding clusternet-managedcluster-role";
    let account = admin.run(&format!("get {role} -n {home} -o jsonpath={{.subjects[0].name}}"));
    let kubeconfig = parent.service_account_kubeconfig(home, &account, folder);
    let child = bench.kubectl(kubeconfig);
    let patch =
        |patch: &str| child.try_run(&format!("patch mcls child-1 -n {home} --type merge -p '{patch}'"));
    for change in [
        r#"{"metadata":{"labels":{"node.clusternet.io/zone":"a"}}}"#,
        r#"{"metadata":{"labels":{"node.clusternet.io/zone":null},"annotations":{"a":"b"}}}"#,
    ] {
        patch(change).expect("what agents do");
    }
    for change in [
        r#"{"metadata":{"labels":{"env":"prod"}}}"#,
        r#"{"metadata":{"labels":{"demo":null}}}"#,
        r#"{"metadata":{"labels":null}}"#,
        r#"{"metadata":{"finalizers":[]}}"#,
        r#"{"spec":{"syncMode":"Push"}}"#,
        r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#,
    ] {
        contains(
            &patch(change).expect_err(change),
            &["orbidden", "tombolo-children"],
        );
    }
}

fn prepare_parent(bench: &Bench, admin: &Kubectl) {
    let port = HUB_PORT.to_string();
    let output = tombolo(
        bench,
        &["install", "--hub-external-name", "localhost", "--hub-port", &port],
    )
    .output()
    .expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    admin.with_input(
        "apply --server-side -f -",
        &String::from_utf8_lossy(&output.stdout),
    );
}

fn start_roles(bench: &Bench, parent: &ControlPlane, folder: &Path) -> Vec<Process> {
    let (port, peer_port) = (HUB_PORT.to_string(), (HUB_PORT + 1).to_string());
    let [scheduler, controllers] = [SCHEDULER_PORT, SCHEDULER_PORT + 1].map(|port| port.to_string());
    [
        (
            "hub",
            "clusternet-hub",
            vec![
                "--secure-port",
                port.as_str(),
                "--bind-address",
                "127.0.0.1",
                "--peer-advertise-address",
                "127.0.0.1",
                "--peer-port",
                peer_port.as_str(),
            ],
        ),
        (
            "scheduler",
            "clusternet-scheduler",
            vec!["--leader-elect=true", "--secure-port", &scheduler],
        ),
        (
            "controllers",
            "clusternet-controller-manager",
            vec![
                "--controllers=*",
                "--secure-port",
                &controllers,
                "--feature-gates",
                SERVICES,
            ],
        ),
    ]
    .into_iter()
    .map(|(role, account, flags)| {
        let kubeconfig = parent.service_account_kubeconfig("clusternet-system", account, folder);
        let mut command = tombolo(bench, &[role, "--kubeconfig"]);
        command.arg(kubeconfig).args(flags);
        Process::start(role, &mut command, folder)
    })
    .collect()
}

/// What the scheduler serves about itself: health for everybody, metrics for whoever the parent lets read them.
fn read_metrics(bench: &Bench, admin: &Kubectl, folder: &Path) {
    let path = folder.join("empty.kubeconfig");
    std::fs::write(&path, "apiVersion: v1\nkind: Config\n").expect("a kubeconfig can be written");
    let kubectl = bench.kubectl(&path);
    let get = |token: &str, path: &str| {
        let server = format!("--server=https://127.0.0.1:{SCHEDULER_PORT} --insecure-skip-tls-verify");
        kubectl.try_run(&format!("{server} --token={token} get --raw {path}"))
    };
    admin.run("create serviceaccount scraper -n default");
    let token = admin.run("create token scraper -n default");
    let token = token.trim();
    contains(
        &get(token, "/readyz?verbose").expect("it is ready"),
        &["readyz check passed"],
    );
    let refused = get(token, "/metrics").expect_err("nobody let it");
    contains(&refused, &["cannot get path"]);
    contains(
        &get("a.b.c", "/metrics").expect_err("a stranger"),
        &["Unauthorized"],
    );
    admin.run("create clusterrole scraper --verb=get --non-resource-url=/metrics");
    admin.run("create clusterrolebinding scraper --clusterrole=scraper --serviceaccount=default:scraper");
    let text = wait_for("metrics", Duration::from_secs(30), || get(token, "/metrics"));
    contains(
        &text,
        &["clusternet_scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default\"}"],
    );
    admin.run("delete clusterrolebinding/scraper clusterrole/scraper");
}

fn bootstrap_token(admin: &Kubectl) -> String {
    let (id, secret) = ("e2etok", "0123456789abcdef");
    admin.with_input(
        "apply -f -",
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: bootstrap-token-{id}, namespace: kube-system}}\n\
             type: bootstrap.kubernetes.io/token\nstringData:\n  token-id: {id}\n  token-secret: {secret}\n  \
             usage-bootstrap-authentication: \"true\"\n  auth-extra-groups: \
             system:bootstrappers:clusternet:register-cluster-token\n"
        ),
    );
    format!("{id}.{secret}")
}

fn join(
    bench: &Bench,
    parent: &ControlPlane,
    child: &ControlPlane,
    name: &str,
    token: &str,
    folder: &Path,
) -> Process {
    child.add_nodes(3);
    let output = tombolo(bench, &["join", "--print-rights"])
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    child.kubectl().with_input(
        "apply --server-side -f -",
        &String::from_utf8_lossy(&output.stdout),
    );
    let kubeconfig = child.service_account_kubeconfig("clusternet-system", "clusternet-agent", folder);
    let mut command = tombolo(bench, &["agent", "--kubeconfig"]);
    command
        .arg(kubeconfig)
        .args([
            "--cluster-reg-parent-url",
            &parent.url(),
            "--cluster-reg-token",
            token,
        ])
        .args(["--cluster-reg-name", name, "--cluster-labels", "demo=nginx"])
        // Several on one machine.
        .args(["--secure-port", "0"])
        .args([
            "--cluster-status-update-frequency",
            "5s",
            "--cluster-reg-parent-ca",
        ])
        .arg(parent.ca())
        .args(["--feature-gates", SERVICES]);
    Process::start(&format!("agent-{name}"), &mut command, folder)
}

fn distribute(bench: &Bench, parent: &ControlPlane, admin: &Kubectl, children: &[ControlPlane]) {
    // The parent's own discovery learns of the hub's groups a moment after they are available.
    wait_for("the templates are stored", Duration::from_secs(30), || {
        let output = tombolo(bench, &["apply", "-f", &example("nginx.yaml"), "--kubeconfig"])
            .arg(parent.kubeconfig())
            .output()
            .expect("the program starts");
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    });
    admin.run(&format!("apply -f {}", example("subscription.yaml")));
    for child in children {
        let kubectl = child.kubectl();
        wait_for("nginx runs in the child", Duration::from_secs(90), || {
            let deployment = kubectl.json("-n web deployment nginx")?;
            match deployment["status"]["readyReplicas"].as_i64() {
                Some(2) => Ok(()),
                other => Err(format!("{other:?} of 2 pods are ready")),
            }
        });
    }
    wait_for("the Subscription shows both", Duration::from_secs(60), || {
        let subscription = admin.json("subscription nginx")?;
        let statuses = subscription["status"]["aggregatedStatuses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let deployment = statuses.iter().find(|status| status["kind"] == "Deployment");
        let ready = deployment
            .and_then(|status| status["feedStatusSummary"]["replicaStatus"]["readyReplicas"].as_i64());
        if ready == Some(4) {
            Ok(())
        } else {
            Err(format!("{}", subscription["status"]))
        }
    });
}

fn distribute_what_is_large_and_secret(
    bench: &Bench,
    parent: &ControlPlane,
    children: &[ControlPlane],
    folder: &Path,
) {
    let file = folder.join("vault.yaml");
    std::fs::write(&file, vault::templates()).expect("a file can be written");
    let output = tombolo(bench, &["create", "--kubeconfig"])
        .arg(parent.kubeconfig())
        .arg("-f")
        .arg(&file)
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let admin = parent.kubectl();
    admin.with_input("apply -f -", &vault::subscription());
    for child in children {
        let kubectl = child.kubectl();
        wait_for("everything arrives", Duration::from_secs(90), || {
            vault::arrived(&kubectl)
        });
    }
    vault::check_hidden(&admin);
    admin.run("delete subscription vault --timeout=60s");
}

fn reach_through_the_hub(bench: &Bench, parent: &ControlPlane, folder: &Path) {
    for name in ["child-1", "child-2"] {
        // The agent publishes its credential beside everything else that it does.
        let kubeconfig = wait_for("a kubeconfig through the hub", Duration::from_secs(30), || {
            let output = tombolo(bench, &["kubeconfig", name, "--kubeconfig"])
                .arg(parent.kubeconfig())
                .output()
                .expect("the program starts");
            if output.status.success() {
                Ok(output.stdout)
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        });
        let path = folder.join(format!("{name}-through-hub.kubeconfig"));
        std::fs::write(&path, kubeconfig).expect("a kubeconfig can be written");
        let kubectl = bench.kubectl(&path);
        let listing = kubectl.run("get deployments -A");
        assert!(listing.contains("nginx"), "{listing}");
        // Nothing runs behind the pods: the child's own words arrive, also in answer to an upgrade.
        for line in [
            "-n web logs deployment/nginx",
            "-n web exec deployment/nginx -- true",
        ] {
            let complaint = kubectl.try_run(line).expect_err("there is no kubelet");
            assert!(
                !complaint.contains("cluster "),
                "not the hub's words: {complaint}"
            );
        }
        let (_proxy, address) = plain_http(bench, &path, folder);
        watch_on_a_web_socket(address);
    }
}

/// A hub without tunnels asks the one that has them.
fn reach_through_another_hub(bench: &Bench, parent: &ControlPlane, folder: &Path) {
    let admin = parent.kubectl();
    let kubeconfig = parent.service_account_kubeconfig("clusternet-system", "clusternet-hub", folder);
    let (port, peer_port) = (OTHER_HUB_PORT.to_string(), (OTHER_HUB_PORT + 1).to_string());
    let mut command = tombolo(
        bench,
        &["hub", "--bind-address", "127.0.0.1", "--secure-port", &port],
    );
    command
        .args(["--peer-advertise-address", "127.0.0.1", "--peer-port", &peer_port])
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let mut other = Process::start("other-hub", &mut command, folder);
    let token = admin.run("-n clusternet-system create token clusternet-hub-proxy");
    let id = admin.run("get mcls -A -o jsonpath={.items[0].spec.clusterId}");
    let line = format!(
        "--server https://127.0.0.1:{port} --insecure-skip-tls-verify --token {} get --raw \
         /apis/proxies.clusternet.io/v1alpha1/sockets/{id}/proxy/direct/version",
        token.trim()
    );
    // Without the administrator's own certificate, which the hub does not know.
    let nobody = folder.join("nobody.kubeconfig");
    std::fs::write(&nobody, "apiVersion: v1\nkind: Config\n").expect("a kubeconfig can be written");
    let kubectl = bench.kubectl(nobody);
    wait_for(
        "the other hub passes a request on",
        Duration::from_secs(30),
        || {
            let version = kubectl.try_run(&line)?;
            if version.contains("v1.34") {
                Ok(())
            } else {
                Err(version)
            }
        },
    );
    other
        .stop(Duration::from_secs(10))
        .expect("it ends within ten seconds");
    let leases = admin.run("-n clusternet-system get leases -o name");
    let hubs = leases
        .lines()
        .filter(|line| line.contains("clusternet-hub-peer-"));
    assert_eq!(hubs.count(), 1, "a hub that ends takes its Lease away: {leases}");
}

/// A real API server watches over WebSocket too: a connection that is upgraded all the way through parent, hub and
/// tunnel.
fn watch_on_a_web_socket(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("kubectl serves");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout can be set");
    let head = "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                Upgrade: websocket\r\nOrigin: http://localhost\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("an open connection");
    let (mut seen, mut part) = (Vec::new(), [0; 4_096]);
    let mut text = String::new();
    while !(text.contains("\"ADDED\"") && text.contains("kube-system")) {
        let read = stream.read(&mut part).expect("events come");
        assert!(read > 0, "the connection ended: {text}");
        seen.extend_from_slice(&part[..read]);
        text = String::from_utf8_lossy(&seen).into_owned();
    }
    assert!(text.starts_with("HTTP/1.1 101"), "{text}");
}

/// Both clusters export the application's Service; on the parent there is one with the endpoints of both. The export of
/// the second cluster goes with its namespace, later.
fn share_a_service(admin: &Kubectl, children: &[ControlPlane]) {
    let definition = admin
        .json("crd serviceexports.multicluster.x-k8s.io")
        .expect("the parent has it");
    let definition = serde_json::json!({"apiVersion": definition["apiVersion"], "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]}, "spec": definition["spec"]});
    for child in children {
        let kubectl = child.kubectl();
        kubectl.with_input("apply -f -", &definition.to_string());
        kubectl
            .run("wait --for=condition=Established crd/serviceexports.multicluster.x-k8s.io --timeout=30s");
        kubectl.run(&format!("apply -f {}", example("export.yaml")));
    }
    admin.run(&format!("apply -f {}", example("import.yaml")));
    let gathered = |clusters: &[&str]| {
        wait_for("the endpoints are on the parent", Duration::from_secs(60), || {
            let slices = admin.json(
                "-n default endpointslices -l services.clusternet.io/multi-cluster-service-name=nginx",
            )?;
            let slices = slices["items"].as_array().cloned().unwrap_or_default();
            let mut seen: Vec<String> = slices
                .iter()
                .map(|it| {
                    let cluster = &it["metadata"]["labels"]["clusters.clusternet.io/cluster-name"];
                    let endpoints = it["endpoints"].as_array().map_or(0, Vec::len);
                    format!("{} {endpoints}", cluster.as_str().unwrap_or_default())
                })
                .collect();
            seen.sort();
            let expected: Vec<String> = clusters.iter().map(|cluster| format!("{cluster} 2")).collect();
            if seen == expected {
                Ok(slices)
            } else {
                Err(format!("{seen:?}"))
            }
        })
    };
    let revision = |slices: &[serde_json::Value]| {
        let of_second = |it: &&serde_json::Value| {
            it["metadata"]["labels"]["clusters.clusternet.io/cluster-name"] == "child-2"
        };
        let slice = slices.iter().find(of_second);
        slice.map(|it| it["metadata"]["resourceVersion"].clone())
    };
    let before = gathered(&["child-1", "child-2"]);
    let service =
        admin.run("-n default get service -l services.clusternet.io/multi-cluster-service-name=nginx");
    assert!(service.contains("derived-web-"), "{service}");
    for child in children {
        child
            .kubectl()
            .run("-n web wait --for=condition=Valid serviceexport/nginx --timeout=30s");
    }
    children[0]
        .kubectl()
        .run("-n web delete serviceexport nginx --wait=true --timeout=60s");
    let after = gathered(&["child-2"]);
    assert_eq!(
        revision(&before),
        revision(&after),
        "what is as it should be is not written"
    );
    admin.run("-n default delete serviceimport nginx");
    for kind in ["services", "endpointslices"] {
        wait_for("what was derived is gone", Duration::from_secs(30), || {
            let line = format!(
                "-n default get {kind} -l services.clusternet.io/multi-cluster-service-name=nginx -o name"
            );
            match admin.try_run(&line)?.trim() {
                "" => Ok(()),
                left => Err(left.to_owned()),
            }
        });
    }
}

fn withdraw(admin: &Kubectl, children: &[ControlPlane]) {
    admin.run("delete subscription nginx --wait=true --timeout=60s");
    for child in children {
        let kubectl = child.kubectl();
        wait_for(
            "the namespace is gone from the child",
            Duration::from_secs(60),
            || match kubectl.try_run("get namespace web -o name") {
                Err(complaint) if complaint.contains("not found") => Ok(()),
                Err(complaint) | Ok(complaint) => Err(complaint),
            },
        );
    }
    wait_for("no copy of an endpoint is left", Duration::from_secs(30), || {
        let line = "get endpointslices -A -l services.clusternet.io/multi-cluster-service-name=nginx -o name";
        match admin.try_run(line)?.trim() {
            "" => Ok(()),
            left => Err(left.to_owned()),
        }
    });
}

/// A cluster that leaves leaves nothing behind, on neither side.
fn leave(bench: &Bench, parent: &ControlPlane, child: &ControlPlane) {
    let admin = parent.kubectl();
    let id = admin.run(
        "get mcls -A -l clusters.clusternet.io/cluster-name=child-1 -o jsonpath={.items[0].spec.clusterId}",
    );
    let output = tombolo(bench, &["leave", "--kubeconfig"])
        .arg(parent.kubeconfig())
        .arg("--child-kubeconfig")
        .arg(child.kubeconfig())
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let selector = format!("-l clusters.clusternet.io/cluster-id={id}");
    for kind in [
        "ns",
        "clsrr",
        "clusterroles",
        "clusterrolebindings",
        "mcls -A",
        "sa -A",
        "secrets -A",
    ] {
        wait_for(
            &format!("no {kind} of it is left on the parent"),
            Duration::from_secs(60),
            || {
                let left = admin.try_run(&format!("get {kind} {selector} -o name"))?;
                if left.trim().is_empty() { Ok(()) } else { Err(left) }
            },
        );
    }
    let kubectl = child.kubectl();
    wait_for(
        "nothing of it is left in the child",
        Duration::from_secs(60),
        || {
            let roles = kubectl.try_run("get clusterroles,clusterrolebindings,ns -o name")?;
            let left: Vec<&str> = roles.lines().filter(|line| line.contains("clusternet")).collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            }
        },
    );
}
