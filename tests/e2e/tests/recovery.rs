//! A hub is lost and comes back from a backup, or a cluster leaves it for another.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use e2e::{Bench, Kubectl, Up, contains, joined_agent, tombolo, wait_for};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: late, namespace: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: late}}
  template:
    metadata: {labels: {app: late}}
    spec: {containers: [{name: main, image: nginx}]}
";
const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: web}\ndata: {a: b}\n";
const SUBSCRIPTION: &str = "\
apiVersion: apps.clusternet.io/v1alpha1
kind: Subscription
metadata: {name: late, namespace: default}
spec:
  subscribers: [{clusterAffinity: {matchLabels: {demo: nginx}}}]
  feeds: [{apiVersion: apps/v1, kind: Deployment, namespace: web, name: late}]
";
const ADD_SETTINGS: &str = "patch sub nginx --type=json -p '[{\"op\": \"add\", \"path\": \"/spec/feeds/-\", \
                            \"value\": {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"namespace\": \"web\", \
                            \"name\": \"settings\"}}]'";
const UIDS: &str = "-n web get deployments,pods,configmaps -o \
                    jsonpath='{range .items[*]}{.kind}/{.metadata.name}={.metadata.uid}{\"\\n\"}{end}'";
const MEMBERS: [&str; 3] = ["member-1", "member-2", "member-3"];
const LIMIT: Duration = Duration::from_secs(60);

/// Runs our own command line without a hub: it does or does not end well.
fn run(bench: &Bench, line: &[&str]) -> Output {
    tombolo(bench, line).output().expect("it starts")
}

fn complaint(bench: &Bench, line: &[&str]) -> String {
    let output = run(bench, line);
    assert!(!output.status.success(), "{line:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of the test is text")
}

/// Waits until a Deployment has so many pods, all ready.
fn ready(member: &Kubectl, name: &str, replicas: i64) {
    wait_for("a deployment is ready", LIMIT, || {
        let status = member.json(&format!("-n web deployment {name}"))?["status"].clone();
        let same = status["readyReplicas"] == replicas && status["replicas"] == replicas;
        same.then_some(()).ok_or_else(|| status.to_string())
    });
}

fn apply(up: &Up, name: &str, manifest: &str) {
    let file = up.folder.path().join(name);
    std::fs::write(&file, manifest).expect("a file can be written");
    up.ours(&["apply", "-f", text(&file)]);
}

/// What is added behind the back of the backup: an application, a part of another, and a cluster.
fn add(up: &mut Up) {
    apply(up, "late.yaml", DEPLOYMENT);
    apply(up, "settings.yaml", SETTINGS);
    up.kubectl().with_input("apply -f -", SUBSCRIPTION);
    up.kubectl().run(ADD_SETTINGS);
    up.stay_here(&["--demo", "--members", "3"]);
    up.restart();
    for name in MEMBERS {
        let member = up.member(name);
        wait_for("everything is there", LIMIT, || {
            member.json("-n web configmap settings")
        });
        ready(&member, "late", 2);
    }
}

/// What every member has of the fleet, pod by pod.
fn what_runs(up: &Up) -> Vec<String> {
    MEMBERS.map(|name| up.member(name).run(UIDS)).into()
}

fn refuses_what_is_no_backup_or_no_place_for_one(bench: &Bench, folder: &Path, backup: &Path) {
    let bytes = std::fs::read(backup).expect("the backup is there");
    let cut = folder.join("cut");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).expect("a file can be written");
    let nowhere = folder.join("nowhere");
    let line = ["restore", text(&cut), "--data-dir", text(&nowhere)];
    contains(&complaint(bench, &line), &["was cut off", "not a whole backup"]);
    assert!(!nowhere.exists() && !folder.join(".nowhere.restoring").exists());
    let data = folder.join("data");
    let line = ["restore", text(backup), "--data-dir", text(&data)];
    contains(
        &complaint(bench, &line),
        &["is not empty", "kubeconfig, lock, members, pki, store"],
    );
    let line = ["backup", text(&cut), "--data-dir", text(&nowhere)];
    contains(&complaint(bench, &line), &["there is no hub in"]);
    let line = ["backup", text(&cut), "--data-dir", text(&data)];
    contains(&complaint(bench, &line), &["is there already", "--force"]);
    contains(
        &String::from_utf8_lossy(&run(bench, &[&line[..], &["--force", "-o", "json"]].concat()).stdout),
        &["\"objects\":", "\"revision\":"],
    );
}

/// The backup's file.
fn back_up(up: &Up) -> PathBuf {
    let backup = up.folder.path().join("hub.backup");
    let said = up.ours(&["backup", text(&backup)]);
    contains(&said, &["objects at revision", "can act as the hub"]);
    let mode = std::fs::metadata(&backup)
        .expect("the backup is there")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    contains(
        &up.kubectl()
            .try_run("get --raw /tombolo/backup --as=system:serviceaccount:default:default")
            .expect_err("only administrators may"),
        &["forbidden"],
    );
    backup
}

#[test]
fn a_restored_hub_has_its_clusters_back_and_takes_nothing_from_them() {
    let Some(bench) = Bench::find("a_restored_hub_has_its_clusters_back_and_takes_nothing_from_them") else {
        return;
    };
    let mut up = Up::start(&bench, &["--demo", "--members", "2"]);
    let backup = back_up(&up);
    add(&mut up);
    let before = what_runs(&up);
    up.kill_and(|up| {
        let folder = up.folder.path();
        refuses_what_is_no_backup_or_no_place_for_one(&bench, folder, &backup);
        let restored = folder.join("restored");
        let output = run(&bench, &["restore", text(&backup), "--data-dir", text(&restored)]);
        assert!(output.status.success(), "{output:?}");
        contains(
            &String::from_utf8_lossy(&output.stdout),
            &["2 clusters keep what the backup does not know", "hold-orphans-"],
        );
        // The clusters are not the hub's: they were not lost.
        let rename = |from: &Path, to: &Path| std::fs::rename(from, to).expect("a folder can be renamed");
        rename(&up.data().join("members"), &restored.join("members"));
        rename(&up.data(), &folder.join("lost"));
        rename(&restored, &up.data());
    });
    let kubectl = up.kubectl();
    wait_for("it is told what stays", LIMIT, || {
        let events = kubectl.run("get events -A --field-selector=reason=OrphansHeld");
        let told = events.contains("Deployment web/late") && events.contains("ConfigMap web/settings");
        told.then_some(()).ok_or(events)
    });
    assert_eq!(what_runs(&up), before, "nothing was touched");

    // What is changed from now on arrives, and what is said again is what is there.
    up.ours(&["scale", "deployment/nginx", "--replicas", "3", "-n", "web"]);
    apply(&up, "late.yaml", DEPLOYMENT);
    kubectl.with_input("apply -f -", SUBSCRIPTION);
    for (name, before) in MEMBERS.into_iter().zip(&before) {
        let member = up.member(name);
        ready(&member, "nginx", 3);
        let after = member.run(UIDS);
        let lost: Vec<&str> = before.lines().filter(|line| !after.contains(line)).collect();
        assert!(lost.is_empty(), "{name}: {lost:?}");
    }
    wait_for("the application is known again", LIMIT, || {
        let phases =
            kubectl.run("get desc -A -o jsonpath={.items[*].metadata.name},{.items[*].status.phase}");
        let known = phases.matches("late").count() == 3 && phases.matches("Success").count() >= 6;
        known.then_some(()).ok_or(phases)
    });

    // Once somebody says that the hub's word counts, what it does not know goes.
    kubectl.run("annotate mcls -A --all clusters.tombolo.io/hold-orphans-");
    for name in &MEMBERS[..2] {
        let member = up.member(name);
        wait_for("what nobody wants is gone", 2 * LIMIT, || {
            let found = member.try_run("-n web get configmap settings");
            found.map_or(Ok(()), Err)
        });
        ready(&member, "late", 2);
    }
}

const APP: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n---\n";
const EDGE: &str = "{clusters.clusternet.io/cluster-name: edge-7}";

/// Lets a cluster join a hub, which sends it an application; what it has then is the answer.
fn join(hub: &Up, child: &Up) -> (e2e::Process, String) {
    let server = hub
        .kubectl()
        .run("config view --minify -o jsonpath={.clusters[0].cluster.server}");
    let objects = hub.ours(&["join", "--name", "edge-7", "--parent-url", server.trim()]);
    child.kubectl().with_input("apply --server-side -f -", &objects);
    let agent = joined_agent(child);
    apply(hub, "app.yaml", &format!("{APP}{DEPLOYMENT}"));
    let namespace = "feeds: [{apiVersion: v1, kind: Namespace, name: web}, ";
    let subscription = SUBSCRIPTION.replace("feeds: [", namespace);
    let subscription = subscription.replace("{demo: nginx}", EDGE);
    hub.kubectl().with_input("apply -f -", &subscription);
    wait_for("the application is there", LIMIT, || {
        let phases = hub
            .kubectl()
            .run("get desc -A -o jsonpath={.items[*].status.phase}");
        (phases == "Success").then_some(()).ok_or(phases)
    });
    let uid = child
        .kubectl()
        .run("-n web get deployment late -o jsonpath={.metadata.uid}");
    (agent, uid)
}

#[test]
fn a_cluster_leaves_one_hub_for_another_with_what_runs_in_it() {
    let Some(bench) = Bench::find("a_cluster_leaves_one_hub_for_another_with_what_runs_in_it") else {
        return;
    };
    let [old, new, child] = [(); 3].map(|()| Up::start(&bench, &["--members", "1"]));
    let (mut agent, before) = join(&old, &child);
    agent.stop(Duration::from_secs(10)).expect("it ends");
    let kubeconfig = child.data().join("kubeconfig");
    let said = old.ours(&["leave", "--keep-objects", "--child-kubeconfig", text(&kubeconfig)]);
    contains(&said, &["Deployment web/late stays, as the cluster's own"]);
    wait_for("the old hub has let go", LIMIT, || {
        let left = old.kubectl().run("get mcls,desc,base -A -o name");
        (left.lines().count() == 1).then_some(()).ok_or(left)
    });
    let (agent, after) = join(&new, &child);
    assert_eq!(before, after);
    drop(agent);
}
