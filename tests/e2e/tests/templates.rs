//! Templates through the shadow API, with an unmodified kubectl and with our own command line; what becomes of them in
//! the members, and the way into those.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::{Bench, Kubectl, Process, Templates, Up, contains, vault, wait_for};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/shop")
        .join(name)
}

/// An application with a chart, overrides for some of the clusters and overrides for one, as users of upstream have it.
#[test]
fn a_shop_with_a_chart_and_overrides_reaches_its_clusters() {
    let Some(bench) = Bench::find("a_shop_with_a_chart_and_overrides_reaches_its_clusters") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "3"]);
    let kubectl = up.kubectl();
    for file in ["templates.yaml", "chart.yaml", "globalization.yaml"] {
        let path = example(file).display().to_string();
        contains(&up.ours(&["apply", "-f", &path]), &["created"]);
    }
    let selector = "-l clusters.clusternet.io/cluster-name=member-1";
    let namespace = kubectl.run(&format!(
        "get mcls -A {selector} -o jsonpath={{.items[0].metadata.namespace}}"
    ));
    let local = std::fs::read_to_string(example("localization.yaml")).expect("the example is there");
    kubectl.with_input("apply -f -", &local.replace("CLUSTER-NAMESPACE", &namespace));
    kubectl.run(&format!("apply -f {}", example("subscription.yaml").display()));

    for (name, replicas, labels) in [("member-1", 3, "winter north"), ("member-2", 2, "winter")] {
        let member = up.member(name);
        let front = wait_for("the front runs", Duration::from_secs(30), || {
            let front = member.json("-n shop deployment front")?;
            match front["status"]["readyReplicas"].as_i64() {
                Some(count) if count == replicas => Ok(front),
                other => Err(format!("{other:?} of {replicas} in {name}")),
            }
        });
        member.run("-n shop get service front");
        let found = ["season", "region"].map(|label| front["metadata"]["labels"][label].as_str());
        let found: Vec<&str> = found.into_iter().flatten().collect();
        assert_eq!(found.join(" "), labels, "{front}");
        assert_eq!(front["metadata"]["labels"].get("draft"), None, "{front}");
        let containers = front["spec"]["template"]["spec"]["containers"].as_array();
        let images: Vec<&str> = containers
            .into_iter()
            .flatten()
            .filter_map(|container| container["image"].as_str())
            .collect();
        let expected: &[&str] = match name {
            "member-1" => &["nginx:1.28", "envoy:1.31"],
            _ => &["nginx:1.29"],
        };
        assert_eq!(images, expected, "{name}");
    }
    let elsewhere = up.member("member-3").try_run("get namespace shop");
    contains(
        &elsewhere.expect_err("it was not asked for there"),
        &["not found"],
    );
    wait_for("the chart's fate is told", Duration::from_secs(20), || {
        let events = kubectl.run("get events --field-selector involvedObject.name=shop");
        if events.contains("ChartsNotExecuted") {
            Ok(())
        } else {
            Err(events)
        }
    });
    contains(
        &kubectl.run("get hr -A"),
        &["NAMESPACE", "CHART", "VERSION", "REPO", "STATUS", "AGE"],
    );
    contains(
        &kubectl.run("get charts -A"),
        &["CHART", "VERSION", "REPO", "STATUS", "AGE"],
    );
    kubectl.run("delete subscription shop --timeout=30s");
}

#[test]
fn an_unmodified_kubectl_works_on_templates() {
    let Some(bench) = Bench::find("an_unmodified_kubectl_works_on_templates") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1"]);
    let templates = Templates::start(&bench, &up.data().join("kubeconfig"), up.folder.path());
    let kubectl = templates.kubectl();
    // Namespaces of templates need not exist.
    kubectl.run("-n shop create deployment web --image=nginx:1 --replicas=2");
    contains(
        &kubectl.run("-n shop get deployments"),
        &["NAME", "READY", "UP-TO-DATE", "web"],
    );
    contains(
        &kubectl.run("get deploy -A -o wide"),
        &["NAMESPACE", "shop", "CONTAINERS", "nginx:1"],
    );
    kubectl.run("-n shop scale deployment web --replicas=3");
    contains(
        &kubectl.run("-n shop get deployment web --subresource=scale"),
        &["DESIRED", "3"],
    );
    kubectl.run("-n shop label deployment web tier=front");
    kubectl.run("-n shop annotate deployment web note=kept");
    contains(&kubectl.run("-n shop get deploy -l tier=front -o name"), &["web"]);
    kubectl.run("-n shop set image deployment/web nginx=nginx:2");
    kubectl.run("-n shop patch deployment web --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":5}]'");
    kubectl.run("-n shop patch deployment web --type=merge -p '{\"spec\":{\"paused\":true}}'");
    contains(
        &kubectl.run("-n shop get deployment web -o jsonpath={.spec.replicas},{.spec.paused}"),
        &["5,true"],
    );
    contains(
        &kubectl.run("explain deployment.spec.strategy"),
        &["rollingUpdate"],
    );
    contains(
        &kubectl.run("-n shop describe deployment web"),
        &["tier=front", "nginx:2"],
    );
    applies(kubectl);
    edits(&up, &bench);
    kubectl.run("-n shop delete deployment web");
    kubectl.run("-n shop delete cm --all");
    assert_eq!(kubectl.run("-n shop get cm -o name"), "");
    assert_eq!(
        up.kubectl().run("get deploy,cm -n shop -o name"),
        "",
        "nothing of it ever ran"
    );
    contains(
        &up.kubectl().run("get --raw /metrics"),
        &["clusternet_socket_connections_count 1"],
    );
}

const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {colour: COLOUR}\n";

fn applies(kubectl: &Kubectl) {
    let with = |colour: &str| SETTINGS.replace("COLOUR", colour);
    contains(&kubectl.with_input("apply -f -", &with("red")), &["created"]);
    contains(&kubectl.with_input("apply -f -", &with("red")), &["unchanged"]);
    let complaint = kubectl.try_with_input("diff -f -", &with("blue"));
    contains(
        &complaint.expect_err("it differs"),
        &["-  colour: red", "+  colour: blue"],
    );
    contains(&kubectl.with_input("apply -f -", &with("blue")), &["configured"]);
    contains(
        &kubectl.with_input("apply --server-side --field-manager=a -f -", &with("blue")),
        &["serverside-applied"],
    );
    let conflict = kubectl.try_with_input("apply --server-side --field-manager=b -f -", &with("green"));
    contains(
        &conflict.expect_err("another manager's field"),
        &["conflict", ".data.colour"],
    );
    kubectl.with_input(
        "apply --server-side --field-manager=b --force-conflicts -f -",
        &with("green"),
    );
    contains(
        &kubectl.run("-n shop get cm settings -o yaml --show-managed-fields"),
        &["manager: b", "operation: Apply", "colour: green"],
    );
    let strict = kubectl.try_with_input("apply -f -", &format!("{}extra: true\n", with("red")));
    contains(
        &strict.expect_err("an unknown field"),
        &["unknown field \"extra\""],
    );
    contains(
        &kubectl.with_input("apply --dry-run=server -f -", &with("white")),
        &["(server dry run)"],
    );
    contains(
        &kubectl.run("-n shop get cm settings -o jsonpath={.data.colour}"),
        &["green"],
    );
}

/// Our own command line, as a plug-in of kubectl.
fn edits(up: &Up, bench: &Bench) {
    let editor = "sed -i 's/colour: green/colour: black/'";
    contains(
        &up.ours(&["edit", "cm/settings", "-n", "shop", "--editor", editor]),
        &["configmap/settings edited"],
    );
    contains(
        &up.ours(&["edit", "cm/settings", "-n", "shop", "--editor", "true"]),
        &["unchanged"],
    );
    contains(
        &up.ours(&["create", "configmap", "made", "-n", "shop", "--from-literal=a=b"]),
        &["configmap/made created"],
    );
    contains(
        &up.ours(&["version"]),
        &["Client Version", "Server Version: v1.34"],
    );
    let plugins = up.folder.path().join("plugins");
    std::fs::create_dir(&plugins).expect("a folder");
    std::os::unix::fs::symlink(&bench.binary, plugins.join("kubectl-tombolo")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(bench.realkube.join("bin/kubectl"))
        .args(["tombolo", "get", "cm", "-n", "shop"])
        .env("PATH", format!("{}:{path}", plugins.display()))
        .env("KUBECONFIG", up.data().join("kubeconfig"))
        .output()
        .expect("kubectl starts");
    contains(
        &String::from_utf8_lossy(&output.stdout),
        &["DATA", "settings", "made"],
    );
}

#[test]
fn pods_of_a_member_are_reached_through_the_hub() {
    let Some(bench) = Bench::find("pods_of_a_member_are_reached_through_the_hub") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1"]);
    let member = up.member("member-1");
    member.run("create deployment web --image=nginx:1 --port=80");
    member.run("rollout status deployment/web --timeout=20s");
    let pod = member.run("get pods -o jsonpath={.items[0].metadata.name}");
    contains(&member.run(&format!("exec {pod} -- hostname")), &[&pod]);
    contains(
        &member.with_input(&format!("exec -i {pod} -- cat"), "typed"),
        &["typed"],
    );
    contains(
        &member
            .try_run(&format!("exec {pod} -- false"))
            .expect_err("it fails"),
        &["exit code 1"],
    );
    contains(&member.run(&format!("logs {pod}")), &["simulated by tombolo"]);
    contains(
        &up.ours(&[
            "exec",
            "--cluster",
            "member-1",
            "-n",
            "default",
            &pod,
            "--",
            "echo",
            "hi",
        ]),
        &["hi"],
    );
    contains(
        &up.ours(&["logs", "--cluster", "member-1", "-n", "default", &pod]),
        &["simulated by tombolo"],
    );
    contains(&member.run("explain pod.spec.containers"), &["image"]);
    // As kubectl did it before 1.31.
    let output = Command::new(bench.realkube.join("bin/kubectl"))
        .arg("--kubeconfig")
        .arg(up.folder.path().join("member-1.kubeconfig"))
        .args(["exec", &pod, "--", "echo", "by SPDY"])
        .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")
        .output()
        .expect("kubectl starts");
    contains(&String::from_utf8_lossy(&output.stdout), &["by SPDY"]);
    forwards(&up, &bench, &pod);
    follows(&up, &bench, &pod);
    attaches(&member);
}

/// kubectl in the background, on the member.
fn in_background(up: &Up, bench: &Bench, name: &str, words: &[&str]) -> Process {
    let mut command = Command::new(bench.realkube.join("bin/kubectl"));
    command
        .arg("--kubeconfig")
        .arg(up.folder.path().join("member-1.kubeconfig"))
        .args(words);
    Process::start(name, &mut command, up.folder.path())
}

fn forwards(up: &Up, bench: &Bench, pod: &str) {
    let forward = in_background(up, bench, "forward", &["port-forward", pod, ":80"]);
    let port: u16 = wait_for("kubectl listens", Duration::from_secs(20), || {
        let output = forward.output();
        let address = output
            .lines()
            .find_map(|line| line.strip_prefix("Forwarding from 127.0.0.1:"));
        let port = address.and_then(|rest| rest.split(' ').next()?.parse().ok());
        port.ok_or(output)
    });
    for _ in 0..2 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("kubectl listens");
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")
            .expect("an open connection");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        contains(&page, &["200 OK", "port 80: simulated by tombolo"]);
    }
}

/// What is run for its output prints it, ends, and is gone.
fn attaches(member: &Kubectl) {
    for (options, command, input, says) in [
        ("-i --rm", "echo hi", "", "hi"),
        ("-i --rm --restart=Never", "echo hi", "", "hi"),
        ("-i --rm", "cat", "typed", "typed"),
    ] {
        let run = format!("run once {options} --image=busybox -- {command}");
        contains(&member.with_input(&run, input), &[says, "pod \"once\" deleted"]);
    }
    contains(&member.run("get pods"), &["web-"]);
    member.try_run("get pod once").expect_err("it is gone");
}

fn follows(up: &Up, bench: &Bench, pod: &str) {
    let logs = in_background(up, bench, "logs", &["logs", "-f", pod]);
    wait_for("the log goes on", Duration::from_secs(20), || {
        let output = logs.output();
        if output.contains("still simulated") {
            Ok(())
        } else {
            Err(output)
        }
    });
}

/// Three ConfigMaps that do not fit into one object together, and a Secret that nobody on the parent is to read in what
/// is made of it.
#[test]
fn large_objects_and_secrets_arrive_and_secrets_are_sealed_on_their_way() {
    let Some(bench) = Bench::find("large_objects_and_secrets_arrive_and_secrets_are_sealed_on_their_way")
    else {
        return;
    };
    let up = Up::start(&bench, &["--members", "2"]);
    let kubectl = up.kubectl();
    let file = up.folder.path().join("vault.yaml");
    std::fs::write(&file, vault::templates()).expect("a file can be written");
    contains(
        &up.ours(&["create", "-f", &file.display().to_string()]),
        &["created"],
    );
    kubectl.with_input("apply -f -", &vault::subscription());
    for name in ["member-1", "member-2"] {
        let member = up.member(name);
        wait_for("everything arrives", Duration::from_secs(60), || {
            vault::arrived(&member)
        });
    }
    vault::check_hidden(&kubectl);
    wait_for("the Subscription says so", Duration::from_secs(30), || {
        let subscription = kubectl.json("subscription vault")?;
        let conditions = subscription["status"]["conditions"].to_string();
        if conditions.contains("2 of 2 cluster(s) have everything available") {
            Ok(())
        } else {
            Err(conditions)
        }
    });
    kubectl.run("delete subscription vault --timeout=30s");
    for name in ["member-1", "member-2"] {
        let gone = up.member(name).try_run("-n vault get configmap a");
        contains(&gone.expect_err("it is gone"), &["not found"]);
    }
}
