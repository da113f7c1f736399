//! The same binary on real Kubernetes: a parent, two children behind tunnels, one Subscription.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use e2e::{
    Bench, ControlPlane, Fleet, Kubectl, Make, Part, Process, Settings, contains, plain_http, tombolo, vault,
    wait_for,
};

/// Of a second hub, to which no agent connects.
const OTHER_HUB_PORT: u16 = 17_170;

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
    let mut fleet = Fleet::start(
        &bench,
        Settings {
            prefix: "",
            port: 17_100,
            // Services across clusters.
            gates: "MultiClusterService=true",
            mode: "Pull",
            install: &[],
        },
    );
    for part in [Part::Hub, Part::Scheduler, Part::Controllers] {
        fleet.run(part, &Make::Ours);
    }
    fleet.wait_for_the_hub();
    for child in 0..2 {
        fleet.run(Part::Agent(child), &Make::Ours);
    }
    fleet.wait_for_the_clusters();
    let admin = fleet.admin();
    let table = admin.run("get mcls -A");
    assert!(
        table.contains("CLUSTER ID") && table.contains("child-1"),
        "{table}"
    );

    hold_a_child(&fleet, &admin);
    // The same as on the embedded one.
    fleet.suite().run();
    distribute(&fleet, &admin);
    outlive_a_namespace(&fleet, &admin);
    distribute_what_is_large_and_secret(&fleet, &admin);
    read_metrics(&fleet, &admin);
    reach_through_the_hub(&fleet);
    reach_through_another_hub(&fleet);
    share_a_service(&admin, &fleet.children);
    withdraw(&admin, &fleet.children);
    for child in 0..2 {
        fleet.stop(Part::Agent(child));
    }
    leave(&fleet, &fleet.children[0]);
}

/// Agents have credentials that end, and none that does not; of its own ManagedCluster a child changes nothing that it is
/// selected by.
fn hold_a_child(fleet: &Fleet, admin: &Kubectl) {
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
    let kubeconfig = fleet
        .parent
        .service_account_kubeconfig(home, &account, fleet.folder.path());
    let child = fleet.bench.kubectl(kubeconfig);
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

/// What the scheduler serves about itself: health for everybody, metrics for whoever the parent lets read them.
fn read_metrics(fleet: &Fleet, admin: &Kubectl) {
    let path = fleet.folder.path().join("empty.kubeconfig");
    std::fs::write(&path, "apiVersion: v1\nkind: Config\n").expect("a kubeconfig can be written");
    let kubectl = fleet.bench.kubectl(&path);
    let port = fleet.port_of(Part::Scheduler);
    let get = |token: &str, path: &str| {
        let server = format!("--server=https://127.0.0.1:{port} --insecure-skip-tls-verify");
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

/// Asks the shadow API what a field of its templates is.
const EXPLAIN: &str = "explain deployments.spec.replicas --api-version=shadow/v1alpha1";

fn distribute(fleet: &Fleet, admin: &Kubectl) {
    // The parent's own discovery learns of the hub's groups a moment after they are available.
    wait_for("the templates are stored", Duration::from_secs(30), || {
        fleet.try_ours(&["apply", "-f", &example("nginx.yaml")])
    });
    // By way of the parent's aggregator.
    let explained = wait_for("the shadow API's OpenAPI", Duration::from_secs(30), || {
        admin.try_run(EXPLAIN)
    });
    contains(&explained, &["Number of desired pods"]);
    admin.run(&format!("apply -f {}", example("subscription.yaml")));
    for child in &fleet.children {
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

/// D1: the parent's namespace controller empties a namespace in every group, but not in that of the templates.
fn outlive_a_namespace(fleet: &Fleet, admin: &Kubectl) {
    admin.run("create namespace web");
    admin.run("delete namespace web --timeout=90s");
    let templates = fleet.try_ours(&["get", "deployments", "-n", "web"]);
    contains(&templates.expect("templates are listed"), &["nginx"]);
}

fn distribute_what_is_large_and_secret(fleet: &Fleet, admin: &Kubectl) {
    let file = fleet.folder.path().join("vault.yaml");
    std::fs::write(&file, vault::templates()).expect("a file can be written");
    fleet
        .try_ours(&["create", "-f", &file.display().to_string()])
        .expect("templates are created");
    admin.with_input("apply -f -", &vault::subscription());
    for child in &fleet.children {
        let kubectl = child.kubectl();
        wait_for("everything arrives", Duration::from_secs(90), || {
            vault::arrived(&kubectl)
        });
    }
    vault::check_hidden(admin);
    admin.run("delete subscription vault --timeout=60s");
}

fn reach_through_the_hub(fleet: &Fleet) {
    for child in 0..2 {
        let (kubectl, path) = fleet.through_the_hub(child);
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
        let (_proxy, address) = plain_http(&fleet.bench, &path, fleet.folder.path());
        watch_on_a_web_socket(address);
    }
}

/// A hub without tunnels asks the one that has them.
fn reach_through_another_hub(fleet: &Fleet) {
    let (bench, folder) = (&fleet.bench, fleet.folder.path());
    let admin = fleet.admin();
    let kubeconfig = fleet
        .parent
        .service_account_kubeconfig("clusternet-system", "clusternet-hub", folder);
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
fn leave(fleet: &Fleet, child: &ControlPlane) {
    let admin = fleet.admin();
    let id = admin.run(
        "get mcls -A -l clusters.clusternet.io/cluster-name=child-1 -o jsonpath={.items[0].spec.clusterId}",
    );
    let child_kubeconfig = child.kubeconfig().display().to_string();
    fleet
        .try_ours(&["leave", "--child-kubeconfig", &child_kubeconfig])
        .expect("it leaves");
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
