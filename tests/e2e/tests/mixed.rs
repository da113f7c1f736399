//! Fleets of mixed make: one part is upstream's and all others are ours, and a fleet that goes over from upstream's
//! parts to ours one by one, and back.
//!
//! A variable for each part says where upstream's program is, and without it the test says loudly that it is skipped,
//! also where `CI` is set: this project does not build those programs.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{
    Bench, ControlPlane, Fleet, Kubectl, Make, Part, Settings, Suite, Up, contains, deployment, wait_for,
};
use serde_json::json;

const PARENTS: [Part; 3] = [Part::Hub, Part::Scheduler, Part::Controllers];
const AGENTS: [Part; 2] = [Part::Agent(0), Part::Agent(1)];
/// For what goes through several parts.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn an_upstream_agent_serves_our_parent() {
    swap("an_upstream_agent_serves_our_parent", 17_300, &AGENTS, "Pull");
}

#[test]
fn our_parent_pushes_past_an_upstream_agent() {
    swap(
        "our_parent_pushes_past_an_upstream_agent",
        17_800,
        &AGENTS,
        "Dual",
    );
}

#[test]
fn an_upstream_hub_serves_our_fleet() {
    swap("an_upstream_hub_serves_our_fleet", 17_400, &[Part::Hub], "Pull");
}

#[test]
fn an_upstream_scheduler_serves_our_fleet() {
    swap(
        "an_upstream_scheduler_serves_our_fleet",
        17_500,
        &[Part::Scheduler],
        "Pull",
    );
}

#[test]
fn upstream_controllers_serve_our_fleet() {
    swap(
        "upstream_controllers_serve_our_fleet",
        17_600,
        &[Part::Controllers],
        "Pull",
    );
}

#[test]
fn upstream_controllers_push_past_our_agent() {
    swap(
        "upstream_controllers_push_past_our_agent",
        17_900,
        &[Part::Controllers],
        "Dual",
    );
}

#[test]
fn a_fleet_goes_over_part_by_part_and_back() {
    let test = "a_fleet_goes_over_part_by_part_and_back";
    let Some((bench, upstream)) = find(test, &Part::ALL) else {
        return;
    };
    let mut fleet = fleet(&bench, 17_700, "Pull");
    for (part, make) in Part::ALL.into_iter().zip(&upstream) {
        run(&mut fleet, part, make);
    }
    fleet.wait_for_the_hub();
    fleet.wait_for_the_clusters();
    fleet.suite().store(1);
    fleet.suite().subscribe();
    fleet.suite().arrives(1);
    let first = fleet.suite().uids();
    let mut version = 1;
    let back = Part::ALL.into_iter().zip(upstream).rev();
    let moves = Part::ALL.into_iter().map(|part| (part, Make::Ours)).chain(back);
    for (part, make) in moves {
        say(&format!("{part:?} becomes {make:?}"));
        run(&mut fleet, part, &make);
        fleet.wait_for_the_hub();
        version += 1;
        let suite = fleet.suite();
        suite.store(version);
        suite.arrives(version);
        assert_eq!(
            suite.uids(),
            first,
            "{part:?}, {make:?}: the workloads are the same"
        );
        fleet.wait_for_the_clusters();
    }
    fleet.suite().withdraw();
}

/// Runs everything with some parts upstream's and the others ours.
fn swap(test: &str, port: u16, swapped: &[Part], mode: &str) {
    let Some((bench, upstream)) = find(test, swapped) else {
        return;
    };
    let mut fleet = fleet(&bench, port, mode);
    for part in PARENTS.into_iter().chain(AGENTS) {
        let of_part = swapped.iter().position(|it| *it == part);
        run(
            &mut fleet,
            part,
            of_part.map_or(&Make::Ours, |index| &upstream[index]),
        );
        if part == Part::Controllers {
            fleet.wait_for_the_hub();
        }
    }
    fleet.wait_for_the_clusters();
    say("registered and ready");
    let suite = fleet.suite();
    suite.store(1);
    suite.subscribe();
    suite.arrives(1);
    say("delivered");
    if swapped.contains(&Part::Controllers) {
        // They look for a label that they no longer write.
        say("upstream's controllers report nothing");
    } else {
        suite.reports();
        say("reported");
    }
    suite.localize();
    say("localized");
    suite.divide();
    suite.divide_by_room();
    say("divided");
    // In the other modes the parent is to execute them, and ours does not.
    if swapped == AGENTS && mode == "Pull" {
        run_a_chart(&fleet, &suite);
        say("a chart ran");
    }
    suite.store(2);
    suite.arrives(2);
    say("changed");
    share(&fleet, &suite);
    say("shared a service");
    reach(&fleet);
    say("reached through the hub");
    suite.drop_a_feed();
    say("a feed is dropped");
    suite.withdraw();
    say("withdrawn");
}

#[expect(clippy::print_stderr, reason = "whoever looks on sees how far it is")]
fn say(what: &str) {
    eprintln!("mixed: {what}");
}

/// Where things are, and upstream's programs in the order of the parts; or says why the test is skipped.
fn find(test: &str, parts: &[Part]) -> Option<(Bench, Vec<Make>)> {
    let bench = Bench::find(test)?;
    let mut makes = Vec::new();
    for part in parts {
        let variable = match part {
            Part::Hub => "TOMBOLO_UPSTREAM_HUB",
            Part::Scheduler => "TOMBOLO_UPSTREAM_SCHEDULER",
            Part::Controllers => "TOMBOLO_UPSTREAM_CONTROLLER_MANAGER",
            Part::Agent(_) => "TOMBOLO_UPSTREAM_AGENT",
        };
        makes.push(Make::Upstream(upstream(test, variable)?));
    }
    Some((bench, makes))
}

/// A program of upstream's, or says why the test is skipped.
fn upstream(test: &str, variable: &str) -> Option<PathBuf> {
    let program = std::env::var_os(variable).filter(|program| !program.is_empty());
    if program.is_none() {
        say(&format!(
            "SKIPPED {test}: {variable} does not say where upstream's program is"
        ));
    }
    program.map(PathBuf::from)
}

fn fleet(bench: &Bench, port: u16, mode: &str) -> Fleet {
    Fleet::start(
        bench,
        Settings {
            prefix: &format!("mixed-{port}-"),
            port,
            gates: "AppPusher=true,MultiClusterService=true",
            mode,
            // Upstream's controllers come to the proxy as nobody.
            install: &["--compat-anonymous-proxy"],
        },
    )
}

fn plane(fleet: &Fleet, agent: Part) -> &ControlPlane {
    match agent {
        Part::Agent(child) => &fleet.children[child],
        Part::Hub | Part::Scheduler | Part::Controllers => &fleet.parent,
    }
}

/// Starts a part; with what upstream's manifests give that of upstream besides what ours give.
fn run(fleet: &mut Fleet, part: Part, make: &Make) {
    let admin = fleet.admin();
    let upstream = matches!(make, Make::Upstream(_));
    match part {
        // Ours replaces that by its authority.
        Part::Hub if upstream => {
            may_everything(&admin, part);
            for name in ["v1alpha1.proxies.clusternet.io", "v1alpha1.shadow"] {
                admin.run(&format!(
                    "patch apiservice {name} --type=merge -p '{{\"spec\":{{\"insecureSkipTLSVerify\":true,\"caBundle\":null}}}}'"
                ));
            }
        }
        Part::Controllers if upstream => may_everything(&admin, part),
        Part::Agent(_) if upstream => {
            plane(fleet, part)
                .kubectl()
                .with_input("apply -f -", AGENTS_RIGHTS);
        }
        Part::Hub | Part::Controllers | Part::Scheduler | Part::Agent(_) => {}
    }
    fleet.run(part, make);
}

fn may_everything(kubectl: &Kubectl, part: Part) {
    let account = part.account();
    kubectl.with_input(
        "apply -f -",
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("upstream-{account}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "clusternet-system"}],
        })
        .to_string(),
    );
}

/// What upstream's agent has in a child.
const AGENTS_RIGHTS: &str = r#"
apiVersion: v1
kind: Secret
metadata:
  name: clusternet-app-deployer
  namespace: clusternet-system
  annotations: {kubernetes.io/service-account.name: clusternet-app-deployer}
type: kubernetes.io/service-account-token
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: upstream-agent, namespace: clusternet-system}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: upstream-agent, namespace: clusternet-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: upstream-agent}
subjects: [{kind: ServiceAccount, name: clusternet-agent, namespace: clusternet-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: upstream-agent}
rules:
- {nonResourceURLs: ["*"], verbs: ["*"]}
- {apiGroups: [metrics.k8s.io, ""], resources: [pods, nodes], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [multicluster.x-k8s.io], resources: [serviceexports], verbs: [get, list, watch, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: upstream-agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: upstream-agent}
subjects: [{kind: ServiceAccount, name: clusternet-agent, namespace: clusternet-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: upstream-app-deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: clusternet-app-deployer, namespace: clusternet-system}]
"#;

/// A chart, which only upstream's agents execute: installed, upgraded and removed.
fn run_a_chart(fleet: &Fleet, suite: &Suite<'_>) {
    let folder = fleet.folder.path().join("charts");
    let address = serve_charts(&folder);
    let admin = fleet.admin();
    let chart = |version: &str| {
        json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart",
            "metadata": {"name": "tiny", "namespace": "default"},
            "spec": {"repo": format!("http://{address}"), "chart": "tiny", "version": version,
                "targetNamespace": "suite"},
        })
    };
    admin.with_input("apply -f -", &chart("0.1.0").to_string());
    let feed = json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart",
        "namespace": "default", "name": "tiny"});
    suite.subscribe_to("chart", &json!({}), &[feed]);
    for version in ["0.1.0", "0.2.0"] {
        admin.with_input("apply -f -", &chart(version).to_string());
        for child in &fleet.children {
            let kubectl = child.kubectl();
            wait_for("the chart's object is in the child", LIMIT, || {
                let line = "-n suite get configmap tiny -o jsonpath={.data.version}";
                let seen = kubectl.try_run(line)?;
                if seen == version { Ok(()) } else { Err(seen) }
            });
        }
    }
    wait_for("the chart is available", LIMIT, || {
        let status = admin.json("subscription chart")?["status"].take();
        if status["completedReleases"] == 2 {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    admin.run("delete subscription chart --wait=true --timeout=90s");
    suite.await_gone("-n suite get configmap tiny -o name");
    suite.await_nothing("get helmreleases -A -o name");
    admin.run("delete helmchart tiny --wait=true --timeout=60s");
}

/// Packs two versions of a chart and serves them as a repository, as long as the test runs.
fn serve_charts(folder: &Path) -> SocketAddr {
    let write = |path: &Path, text: &str| std::fs::write(path, text).expect("a file can be written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let mut entries = String::new();
    for version in ["0.1.0", "0.2.0"] {
        let source = folder.join(version).join("tiny");
        std::fs::create_dir_all(source.join("templates")).expect("a folder can be made");
        let about = format!("apiVersion: v2\nname: tiny\nversion: {version}\n");
        write(&source.join("Chart.yaml"), &about);
        write(
            &source.join("templates/tiny.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tiny}\ndata: {version: \"{{ .Chart.Version }}\"}\n",
        );
        let package = format!("tiny-{version}.tgz");
        let packed = Command::new("tar")
            .arg("-czf")
            .arg(folder.join(&package))
            .arg("-C")
            .arg(folder.join(version))
            .arg("tiny")
            .status()
            .expect("tar starts");
        assert!(packed.success(), "tar failed");
        entries.push_str(&format!(
            "  - {{apiVersion: v2, name: tiny, version: {version}, urls: [\"http://{address}/{package}\"]}}\n"
        ));
    }
    write(
        &folder.join("index.yaml"),
        &format!("apiVersion: v1\nentries:\n  tiny:\n{entries}"),
    );
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that breaks is the agent's to complain of.
            drop(answer(client, &folder));
        }
    });
    address
}

/// Answers one request for a file.
fn answer(mut client: TcpStream, folder: &Path) -> io::Result<()> {
    let mut line = String::new();
    let mut reader = BufReader::new(client.try_clone()?);
    reader.read_line(&mut line)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let name = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) = std::fs::read(folder.join(name))
        .map_or_else(|_| ("404 Not Found", Vec::new()), |body| ("200 OK", body));
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    client.write_all(&body)
}

/// A Service that both children export is one on the parent, with the endpoints of both.
fn share(fleet: &Fleet, suite: &Suite<'_>) {
    let admin = fleet.admin();
    let definition = admin
        .json("crd serviceexports.multicluster.x-k8s.io")
        .expect("the parent has it");
    let definition = json!({"apiVersion": definition["apiVersion"], "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]}, "spec": definition["spec"]});
    // As if a Subscription of that namespace had brought it: upstream's controllers look for imports there only.
    let export = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
        "metadata": {"name": "door", "namespace": "suite",
            "labels": {"apps.clusternet.io/subs.namespace": "default"}}});
    for (_, kubectl) in &suite.clusters {
        kubectl.with_input("apply -f -", &definition.to_string());
        kubectl
            .run("wait --for=condition=Established crd/serviceexports.multicluster.x-k8s.io --timeout=30s");
        kubectl.with_input("apply -f -", &export.to_string());
    }
    let import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": {"name": "door", "namespace": "default", "labels": {
            "services.clusternet.io/multi-cluster-service-name": "door",
            "services.clusternet.io/multi-cluster-service-namespace": "suite",
        }},
        "spec": {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]},
    });
    admin.with_input("apply -f -", &import.to_string());
    let addresses = |count: usize| {
        wait_for("the endpoints are on the parent", LIMIT, || {
            let slices = admin.json("-n default endpointslices")?;
            let items = slices["items"].as_array().into_iter().flatten();
            let derived = items.filter(|slice| {
                let service = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str();
                service.is_some_and(|service| service.starts_with("derived-suite-"))
            });
            let found: usize = derived
                .map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len))
                .sum();
            if found == count {
                Ok(())
            } else {
                Err(format!("{found} of {count}"))
            }
        });
    };
    addresses(5);
    suite.clusters[0]
        .1
        .run("-n suite delete serviceexport door --timeout=60s");
    addresses(2);
    suite.clusters[1]
        .1
        .run("-n suite delete serviceexport door --timeout=60s");
    addresses(0);
    admin.run("-n default delete serviceimport door --timeout=60s");
}

/// kubectl in both children through the hub.
fn reach(fleet: &Fleet) {
    for child in 0..2 {
        let (kubectl, _) = fleet.through_the_hub(child);
        let listing = kubectl.run("get deployments -A");
        assert!(listing.contains("split"), "{listing}");
    }
}

/// The original plugin of kubectl, on templates and in a member.
#[test]
fn the_original_plugin_of_kubectl_works_with_our_hub() {
    let test = "the_original_plugin_of_kubectl_works_with_our_hub";
    let Some(bench) = Bench::find(test) else {
        return;
    };
    let Some(program) = upstream(test, "TOMBOLO_UPSTREAM_KUBECTL") else {
        return;
    };
    let up = Up::start(&bench, &["--demo"]);
    let cache = up.folder.path().join("cache").display().to_string();
    let plugin = Kubectl::new(program, up.data().join("kubeconfig"));
    let plugin = |line: &str| plugin.run(&format!("--cache-dir {cache} {line}"));
    contains(&plugin("api-resources"), &["deployments", "configmaps"]);
    contains(&plugin("get deployments -A"), &["web", "nginx", "-/2"]);
    contains(&plugin("get mcls -A"), &["member-1", "True"]);
    let file = up.folder.path().join("plugin.yaml");
    for (image, word) in [("nginx:1", "created"), ("nginx:2", "configured")] {
        let mut plugged = deployment("plugged", 1, 1);
        plugged["metadata"]["namespace"] = json!("web");
        plugged["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        std::fs::write(&file, plugged.to_string()).expect("a file can be written");
        contains(&plugin(&format!("apply -f {}", file.display())), &[word]);
    }
    for (line, word) in [
        ("-n web scale deployment plugged --replicas 3", "scaled"),
        ("-n web label deployment plugged colour=red", "labeled"),
        ("-n web annotate deployment plugged colour=red", "annotated"),
        ("-n web create configmap plugged --from-literal a=b", "created"),
        ("-n web delete configmap plugged", "deleted"),
    ] {
        contains(&plugin(line), &[word]);
    }
    contains(
        &plugin("-n web get deployment plugged -o yaml"),
        &["replicas: 3", "image: nginx:2", "colour: red"],
    );

    let admin = up.kubectl();
    let clusters = admin
        .json("mcls -A -l clusters.clusternet.io/cluster-name=member-1")
        .expect("clusters can be listed");
    let cluster = &clusters["items"][0];
    let id = cluster["spec"]["clusterId"].as_str().expect("it has an id");
    let home = cluster["metadata"]["namespace"].as_str().expect("it has one");
    let token = admin.run(&format!(
        "-n {home} get secret child-cluster-deployer -o go-template={{{{.data.token|base64decode}}}}"
    ));
    let child = up.folder.path().join("child.kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://in-the-cluster"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&child, text.to_string()).expect("a kubeconfig can be written");
    let member = |line: &str| {
        plugin(&format!(
            "--cluster-id {id} --child-kubeconfig {} {line}",
            child.display()
        ))
    };
    contains(&member("-n web get pods"), &["nginx", "Running"]);
    let pods = member("-n web get pods -o name");
    let pod = pods.lines().next().expect("there are some");
    contains(&member(&format!("-n web logs {pod}")), &["simulated"]);
    let name = pod.trim_start_matches("pod/");
    contains(&member(&format!("-n web exec {name} -- hostname")), &[name]);
}
