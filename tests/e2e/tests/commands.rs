//! Our own command line against a hub: which objects it means, how it prints them, and what it does when nobody reads.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::{Bench, Process, Up, contains, tombolo, wait_for};
use serde_json::{Value, json};

#[test]
fn objects_are_chosen_and_printed_as_with_kubectl() {
    let Some(bench) = Bench::find("objects_are_chosen_and_printed_as_with_kubectl") else {
        return;
    };
    let up = Up::start(&bench, &["--demo"]);
    lists(&up);
    labels(&up);
    follows(&up);
    reads_kubeconfigs_as_one(&up);
    goes_on_when_nobody_reads(&up);
    deletes(&up);
}

fn lists(up: &Up) {
    contains(&up.ours(&["get", "deploy"]), &["namespace \"default\""]);
    contains(
        &up.ours(&["get", "deploy", "-A"]),
        &["NAMESPACE", "nginx   -/2     <none>       <none>"],
    );
    for types in ["deploy,svc", "all"] {
        let both = up.ours(&["get", types, "-n", "web"]);
        contains(&both, &["deployment.apps/nginx", "service/nginx", "\n\n"]);
    }
    for (format, expected) in [
        ("name", "deployment.apps/nginx\nservice/nginx\n"),
        ("jsonpath={range .items[*]}{.kind} {end}", "Deployment Service "),
        (
            "custom-columns=KIND:.kind,REPLICAS:.spec.replicas",
            "KIND         REPLICAS\nDeployment   2\nService      <none>\n",
        ),
    ] {
        assert_eq!(
            up.ours(&["get", "deploy,svc", "-n", "web", "-o", format]),
            expected
        );
    }
    let replicas = [
        "get",
        "deploy",
        "nginx",
        "-n",
        "web",
        "-o",
        "jsonpath={.spec.replicas}",
    ];
    assert_eq!(up.ours(&replicas), "2");
}

fn labels(up: &Up) {
    for (line, expected) in [
        ("deployment nginx tier=a", "labeled"),
        ("deployment nginx tier=a", "unchanged"),
        ("deployment --overwrite nginx tier=b", "labeled"),
        ("deploy,svc --all x=y", "service/nginx labeled"),
        ("deploy -l tier=b tier-", "deployment/nginx labeled"),
        ("deploy -l tier=b tier-", "No resources found"),
    ] {
        let words: Vec<&str> = ["label", "-n", "web"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        contains(&up.ours(&words), &[expected]);
    }
    let complaint = up.try_ours(&["label", "deployment", "nginx", "x=z", "-n", "web"]);
    contains(
        &complaint.expect_err("it has another"),
        &["\"x\" already has a value (y)"],
    );
}

fn follows(up: &Up) {
    let mut command = tombolo(&up.bench, &["get", "deploy", "-A", "-w", "--data-dir"]);
    command.arg(up.data());
    let watch = Process::start("watch", &mut command, up.folder.path());
    let shows = |text: &str| {
        wait_for(text, Duration::from_secs(20), || {
            let output = watch.output();
            if output.contains(text) {
                Ok(())
            } else {
                Err(output)
            }
        });
    };
    shows("nginx   -/2");
    up.ours(&["scale", "deploy", "--all", "-n", "web", "--replicas", "1"]);
    shows("nginx   -/1");
}

/// A list in `KUBECONFIG`, of which one file is not there and another only says where to go first.
fn reads_kubeconfigs_as_one(up: &Up) {
    let first = up.folder.path().join("first");
    let text = "contexts: [{name: shop, context: {cluster: tombolo, user: admin, namespace: web}}]\n";
    std::fs::write(&first, text).expect("a file can be written");
    let list = format!(
        "{}/gone:{}:{}",
        up.folder.path().display(),
        first.display(),
        up.data().join("kubeconfig").display()
    );
    let get = |context: &[&str]| {
        let output = tombolo(&up.bench, &["get", "deploy", "-o", "name"])
            .args(context)
            .env("KUBECONFIG", &list)
            .output()
            .expect("it starts");
        said(&output)
    };
    assert_eq!(get(&["--context", "shop"]), "deployment.apps/nginx\n");
    assert_eq!(get(&[]), "");
    contains(
        &get(&["--context", "none"]),
        &["no context \"none\"", "\"shop\", \"tombolo\""],
    );
}

/// What it wrote to both outputs.
fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs our own command line with an output that is closed: its exit code.
fn unheard(up: &Up, line: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let (verb, rest) = line.split_first().expect("a command");
    let mut command: Command = tombolo(&up.bench, &[verb]);
    command.arg("--data-dir").arg(up.data()).args(rest);
    let status = command.stdout(Stdio::from(writer)).stderr(Stdio::null()).status();
    status.expect("it starts").code()
}

fn goes_on_when_nobody_reads(up: &Up) {
    assert_eq!(unheard(up, &["get", "deploy", "-A"]), Some(0));
    let words = ["label", "svc,deploy", "--all", "-n", "web", "unheard=yes"];
    assert_eq!(unheard(up, &words), Some(0));
    let both = up.ours(&[
        "get",
        "deploy,svc",
        "-n",
        "web",
        "-l",
        "unheard=yes",
        "-o",
        "name",
    ]);
    assert_eq!(both.lines().count(), 2, "{both}");
    let words = ["scale", "deploy", "none", "nginx", "-n", "web", "--replicas", "2"];
    assert_eq!(unheard(up, &words), Some(1), "one of them is not there");
    let words = ["join", "--name", "edge", "--parent-url", "https://127.0.0.1:1"];
    assert_eq!(unheard(up, &words), Some(1), "its output is what it is for");
    let tokens = up
        .kubectl()
        .run("-n kube-system get secrets -l clusters.clusternet.io/cluster-name=edge -o name");
    assert_eq!(tokens, "", "a token that nobody got is taken back");
}

fn deletes(up: &Up) {
    let all = ["delete", "deploy,svc", "--all", "-n", "web"];
    for (how, expected) in [
        ("client", "deleted (dry run)"),
        ("server", "deleted (server dry run)"),
    ] {
        let trial = up.ours(&[&all[..], &["--dry-run", how]].concat());
        assert_eq!(trial.matches(expected).count(), 2, "{trial}");
    }
    contains(&up.ours(&["get", "deploy", "-A"]), &["nginx"]);
    let missing = ["delete", "deploy", "none", "-n", "web", "--dry-run", "client"];
    contains(
        &up.try_ours(&missing).expect_err("it is not there"),
        &["not found"],
    );
    up.kubectl().run("delete sub nginx --timeout=30s");
    up.ours(&all);
    contains(
        &up.ours(&["get", "deploy,svc", "-n", "web"]),
        &["No resources found in namespace \"web\""],
    );
}

/// Its agent never ran, so that nothing in the hub knows it but its tokens.
#[test]
fn a_cluster_that_never_registered_leaves_no_token_behind() {
    let Some(bench) = Bench::find("a_cluster_that_never_registered_leaves_no_token_behind") else {
        return;
    };
    let (hub, child) = (
        Up::start(&bench, &["--members", "1"]),
        Up::start(&bench, &["--members", "1"]),
    );
    let tokens = || hub.kubectl().run("-n kube-system get secrets -o name");
    let join = |name: &str| hub.ours(&["join", "--name", name, "--parent-url", "https://127.0.0.1:1"]);
    join("edge-2");
    let kept = tokens();
    let kubeconfig = child.data().join("kubeconfig").display().to_string();
    for agent_is_there in [true, false] {
        child
            .kubectl()
            .with_input("apply --server-side --force-conflicts -f -", &join("edge-1"));
        if !agent_is_there {
            child
                .kubectl()
                .run("-n clusternet-system delete deployment clusternet-agent");
        }
        hub.ours(&["leave", "--child-kubeconfig", &kubeconfig]);
        assert_eq!(tokens(), kept, "its token went, and no other");
        let secrets = child.kubectl().run("-n clusternet-system get secrets -o name");
        assert!(!secrets.contains("bootstrap"), "{secrets}");
    }
}

const TEMPLATES: &str = include_str!("../../../examples/nginx/nginx.yaml");
const SUBSCRIPTION: &str = include_str!("../../../examples/nginx/subscription.yaml");

/// What a plan says comes true, to the field, and nothing is written before.
#[test]
fn a_plan_comes_true() {
    let Some(bench) = Bench::find("a_plan_comes_true") else {
        return;
    };
    let up = Up::start(&bench, &["--demo"]);
    let affinity = |more: &str| {
        let selector = "matchExpressions:\n          - {key: clusters.clusternet.io/cluster-name, operator: In, \
                        values: [member-1, member-2]}";
        let narrow = SUBSCRIPTION.replace("matchLabels:\n          demo: nginx", selector);
        narrow.replace("metadata:\n", &format!("metadata:\n{more}"))
    };
    let image = TEMPLATES.replace("nginx:1.29", "nginx:1.30");
    let home = home_of(&up, "member-1");
    let replicas = json!({
        "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Localization",
        "metadata": {"namespace": home, "name": "more"},
        "spec": {
            "overridePolicy": "ApplyNow",
            "feed": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "nginx"},
            "overrides": [{"name": "more", "type": "MergePatch", "value": "{\"spec\": {\"replicas\": 5}}"}],
        },
    });
    for (edit, summary, told) in [
        (affinity(""), [1, 0, 0, 3], "lost: member-3"),
        (
            image,
            [2, 0, 2, 0],
            "In 2 cluster(s) (member-1, member-2):\n  ~ Deployment web/nginx\n      \
             spec.template.spec.containers[nginx].image: nginx:1.29 -> nginx:1.30\n",
        ),
        (
            replicas.to_string(),
            [1, 0, 1, 0],
            "In 1 cluster(s) (member-1):\n  ~ Deployment web/nginx\n      spec.replicas: 2 -> 5\n",
        ),
    ] {
        comes_true(&up, &edit, summary, told);
    }
    // It touches the Subscription, and changes no cluster.
    let (code, text) = plan(&up, &affinity("  annotations: {note: none}\n"), &[]);
    contains(&text, &["2 cluster(s) now, 2 then", "Nothing would change."]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = plan(&up, &replicas.to_string(), &["--delete"]);
    contains(&text, &["spec.replicas: 5 -> 2"]);
    assert_eq!(code, Some(1), "{text}");
    let (code, text) = plan(&up, &SUBSCRIPTION.replace("Replication", "Random"), &[]);
    contains(
        &text,
        &[
            "subscription.apps.clusternet.io/nginx cannot be applied",
            "Random",
        ],
    );
    assert_eq!(code, Some(2), "{text}");
    // That nothing can be told is not that something differs.
    for verb in ["plan", "diff"] {
        let words = [verb, "--kubeconfig", "/none", "-f", "/none"];
        let output = tombolo(&up.bench, &words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", said(&output));
    }
}

/// Plans an edit, makes it, and waits until every Description is as it was said.
fn comes_true(up: &Up, edit: &str, [clusters, added, changed, removed]: [u32; 4], told: &str) {
    let before = (described(up), versions(up));
    let (code, text) = plan(up, edit, &[]);
    assert_eq!(code, Some(1), "{text}");
    contains(&text, &[told]);
    let (_, text) = plan(up, edit, &["-o", "json"]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let summary = &document["summary"];
    let found = ["clusters", "added", "changed", "removed"].map(|word| summary[word].clone());
    assert_eq!(
        found,
        [clusters, added, changed, removed].map(|count| json!(count)),
        "{document:#}"
    );
    assert_eq!((described(up), versions(up)), before, "nothing is written");
    let mut expected = before.0;
    for cluster in document["subscriptions"][0]["clusters"]
        .as_array()
        .expect("clusters")
    {
        let home = cluster["namespace"].as_str().expect("a namespace");
        for object in cluster["objects"].as_array().expect("objects") {
            let key = (
                home.to_owned(),
                object["kind"].as_str().expect("a kind").to_owned(),
            );
            if object["change"] == "removed" {
                expected.remove(&key);
            }
            for field in object["fields"].as_array().into_iter().flatten() {
                let path = field["path"].as_str().expect("a path");
                let path = path
                    .replace("[nginx]", "[0]")
                    .replace(['.', '['], "/")
                    .replace(']', "");
                let place = expected
                    .get_mut(&key)
                    .and_then(|it| it.pointer_mut(&format!("/{path}")));
                let place = place.expect("it was there");
                assert_eq!(*place, field["old"]);
                place.clone_from(&field["new"]);
            }
        }
    }
    let file = up.folder.path().join("edit.yaml");
    up.ours(&["apply", "-f", &file.display().to_string()]);
    let (code, text) = plan(up, edit, &[]);
    assert_eq!((code, text.as_str()), (Some(0), "Nothing would change.\n"));
    wait_for("what was planned", Duration::from_secs(20), || {
        let now = described(up);
        if now == expected {
            Ok(())
        } else {
            Err(format!("{now:#?} is not {expected:#?}"))
        }
    });
}

/// The exit code and both outputs.
fn plan(up: &Up, edit: &str, flags: &[&str]) -> (Option<i32>, String) {
    let file = up.folder.path().join("edit.yaml");
    std::fs::write(&file, edit).expect("a file can be written");
    let output = tombolo(&up.bench, &["plan", "--data-dir"])
        .arg(up.data())
        .arg("-f")
        .arg(&file)
        .args(flags)
        .output()
        .expect("it starts");
    (output.status.code(), said(&output))
}

fn home_of(up: &Up, member: &str) -> String {
    let clusters = up.kubectl().json("mcls -A").expect("clusters");
    let mut clusters = clusters["items"].as_array().into_iter().flatten();
    let cluster = clusters.find(|it| it["metadata"]["name"] == member);
    let namespace = cluster.and_then(|it| it["metadata"]["namespace"].as_str());
    namespace.expect("the member is a cluster").to_owned()
}

/// What each cluster is to have, by its namespace and the object's kind; without what kubectl and ours note about it.
fn described(up: &Up) -> BTreeMap<(String, String), Value> {
    let template = "{{range .items}}{{$home := .metadata.namespace}}{{range .spec.raw}}{{$home}} {{base64decode \
                    .}}{{\"\\n\"}}{{end}}{{end}}";
    let text = up
        .kubectl()
        .run(&format!("get desc -A -o 'go-template={template}'"));
    let objects = text.lines().map(|line| {
        let (home, object) = line.split_once(' ').expect("a namespace and an object");
        let mut object: Value = serde_json::from_str(object).expect("JSON");
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        ((home.to_owned(), kind), object)
    });
    objects.collect()
}

/// The versions of what an edit writes.
fn versions(up: &Up) -> String {
    up.kubectl()
        .run("get manifests,local,glob -A -o jsonpath={.items[*].metadata.resourceVersion}")
        + &up
            .kubectl()
            .run("get subs -A -o jsonpath={.items[*].metadata.generation}")
}
