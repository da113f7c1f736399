//! `tombolo up` driven by an unmodified kubectl: the demo, the verbs that people use, a second start.

use std::process::Command;
use std::time::Duration;

use e2e::{Bench, Kubectl, Up, contains, wait_for};

#[test]
fn kubectl_works_on_the_embedded_control_plane() {
    let Some(bench) = Bench::find("kubectl_works_on_the_embedded_control_plane") else {
        return;
    };
    let up = Up::start(&bench, &["--demo"]);
    let kubectl = up.kubectl();
    reads(&kubectl);
    writes(&kubectl, &up);
    applies(&kubectl);
    patches(&kubectl);
    asks(&kubectl);
    oddities(&kubectl);
}

/// The same as on a real parent.
#[test]
fn an_application_lives_and_ends_on_the_embedded_control_plane() {
    let Some(bench) = Bench::find("an_application_lives_and_ends_on_the_embedded_control_plane") else {
        return;
    };
    Up::start(&bench, &["--members", "2"]).suite().run();
}

fn reads(kubectl: &Kubectl) {
    contains(
        &kubectl.run("get mcls -A"),
        &[
            "NAMESPACE",
            "NAME",
            "CLUSTER ID",
            "SYNC MODE",
            "KUBERNETES",
            "STATUS",
            "AGE",
            "member-1",
            "True",
        ],
    );
    contains(
        &kubectl.run("get mcls -A -o wide"),
        &["CLUSTER TYPE", "AGENT VERSION"],
    );
    contains(
        &kubectl.run("get subs,base,desc -A"),
        &["DEPLOYER", "Generic", "Success", "nginx"],
    );
    contains(
        &kubectl.run("get clsrr"),
        &["CLUSTER ID", "STATUS", "AGE", "Approved"],
    );
    contains(
        &kubectl.run("describe sub nginx"),
        &["Scheduling Strategy:", "Replication", "Scheduled"],
    );
    contains(&kubectl.run("describe mcls -A"), &["Cluster Id:", "Ready"]);
    contains(
        &kubectl.run("api-resources"),
        &["subscriptions", "deployments", "sockets"],
    );
    contains(
        &kubectl.run("explain deployment.spec.strategy"),
        &["rollingUpdate"],
    );
    let described = kubectl.run("explain pod.spec.containers.image");
    assert!(!described.contains("<empty>"), "{described}");
    contains(
        &kubectl.run("explain pod.spec --output=plaintext-openapiv2"),
        &["containers"],
    );
    contains(
        &kubectl.run("explain subscription.spec"),
        &["schedulingStrategy", "subscribers"],
    );
    contains(&kubectl.run("get --raw /readyz"), &["ok"]);
    contains(&kubectl.run("get --raw /metrics"), &["apiserver_request_total"]);
}

fn writes(kubectl: &Kubectl, up: &Up) {
    kubectl.run("create namespace verbs");
    kubectl.run("-n verbs create configmap settings --from-literal=colour=red");
    kubectl.run("-n verbs create secret generic hidden --from-literal=key=value");
    kubectl.run("-n verbs create deployment web --image=nginx:1 --replicas=2");
    kubectl.run("-n verbs expose deployment web --port=80");
    kubectl.run("-n verbs create serviceaccount robot");
    kubectl.run("-n verbs create role reader --verb=get,list --resource=configmaps");
    kubectl.run("-n verbs create rolebinding readers --role=reader --serviceaccount=verbs:robot");
    contains(
        &kubectl.run("-n verbs get deploy,svc,cm,secret,sa"),
        &["web", "settings", "hidden", "robot"],
    );
    let token = kubectl.run("-n verbs create token robot");
    assert_eq!(token.trim().split('.').count(), 3, "{token}");
    kubectl.run("-n verbs scale deployment web --replicas=3");
    kubectl.run("-n verbs label deployment web tier=front");
    kubectl.run("-n verbs annotate deployment web note=kept");
    contains(&kubectl.run("-n verbs get deploy -l tier=front"), &["web", "0/3"]);
    contains(
        &kubectl.run("-n verbs set image deployment/web nginx=nginx:2"),
        &["image updated"],
    );
    contains(
        &kubectl.run("-n verbs get cm --field-selector metadata.name=settings -o name"),
        &["settings"],
    );
    let script = "sed -i s/colour: red/colour: blue/"
        .replace("s/colour: red/colour: blue/", "'s/colour: red/colour: blue/'");
    let editor = up.folder.path().join("editor.sh");
    std::fs::write(&editor, format!("#!/bin/sh\n{script} \"$1\"\n")).expect("an editor can be written");
    Command::new("chmod")
        .arg("+x")
        .arg(&editor)
        .status()
        .expect("chmod starts");
    let edited = Command::new(up.bench.realkube.join("bin/kubectl"))
        .arg("--kubeconfig")
        .arg(up.data().join("kubeconfig"))
        .args(["-n", "verbs", "edit", "cm", "settings"])
        .env("KUBE_EDITOR", &editor)
        .output()
        .expect("kubectl starts");
    assert!(
        edited.status.success(),
        "{}",
        String::from_utf8_lossy(&edited.stderr)
    );
    contains(
        &kubectl.run("-n verbs get cm settings -o jsonpath={.data.colour}"),
        &["blue"],
    );
    kubectl.run("-n verbs delete cm settings");
    let complaint = kubectl
        .try_run("-n verbs get cm settings")
        .expect_err("it is gone");
    contains(&complaint, &["(NotFound)", "configmaps \"settings\" not found"]);
    let complaint = kubectl
        .try_run("-n verbs create configmap UPPER")
        .expect_err("a bad name");
    contains(&complaint, &["Invalid value", "lowercase RFC 1123 subdomain"]);
}

const MANIFEST: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: applied, namespace: verbs}
data: {colour: COLOUR}
";

fn applies(kubectl: &Kubectl) {
    let with = |colour: &str| MANIFEST.replace("COLOUR", colour);
    contains(&kubectl.with_input("apply -f -", &with("red")), &["created"]);
    contains(&kubectl.with_input("apply -f -", &with("red")), &["unchanged"]);
    contains(
        &kubectl
            .try_with_input("diff -f -", &with("blue"))
            .expect_err("it differs"),
        &["-  colour: red", "+  colour: blue"],
    );
    contains(&kubectl.with_input("apply -f -", &with("blue")), &["configured"]);
    contains(
        &kubectl.with_input("apply --server-side --field-manager=a -f -", &with("blue")),
        &["serverside-applied"],
    );
    let conflict = kubectl
        .try_with_input("apply --server-side --field-manager=b -f -", &with("green"))
        .expect_err("another manager's field");
    contains(&conflict, &["conflict", ".data.colour"]);
    kubectl.with_input(
        "apply --server-side --field-manager=b --force-conflicts -f -",
        &with("green"),
    );
    contains(
        &kubectl.run("-n verbs get cm applied -o yaml --show-managed-fields"),
        &["manager: b", "operation: Apply"],
    );
    let strict = kubectl
        .try_with_input("apply -f -", &format!("{}extra: true\n", with("red")))
        .expect_err("an unknown field");
    contains(&strict, &["unknown field \"extra\""]);
    contains(
        &kubectl.with_input("apply --dry-run=server -f -", &with("white")),
        &["(server dry run)"],
    );
    contains(
        &kubectl.run("-n verbs get cm applied -o jsonpath={.data.colour}"),
        &["green"],
    );
}

fn patches(kubectl: &Kubectl) {
    kubectl.run("-n verbs patch deployment web --type=merge -p '{\"spec\":{\"replicas\":4}}'");
    kubectl.run("-n verbs patch deployment web --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":5}]'");
    kubectl.run(
        "-n verbs patch deployment web --type=strategic -p \
         '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"side\",\"image\":\"busybox\"}]}}}}'",
    );
    contains(
        &kubectl.run("-n verbs get deployment web -o jsonpath={.spec.replicas},{.spec.template.spec.containers[*].name}"),
        &["5,", "nginx", "side"],
    );
    kubectl.run("patch sub nginx --type=merge -p '{\"spec\":{\"priority\":7}}'");
    contains(&kubectl.run("get sub nginx -o jsonpath={.spec.priority}"), &["7"]);
    let refused =
        kubectl.try_run("patch sub nginx --type=merge -p '{\"spec\":{\"schedulingStrategy\":\"Luck\"}}'");
    contains(
        &refused.expect_err("no such strategy"),
        &["Unsupported value: \"Luck\"", "Replication"],
    );
}

fn asks(kubectl: &Kubectl) {
    contains(&kubectl.run("auth can-i create deployments"), &["yes"]);
    contains(
        &kubectl.run("auth can-i get configmaps -n verbs --as=system:serviceaccount:verbs:robot"),
        &["yes"],
    );
    let no = kubectl.try_run("auth can-i delete nodes --as=system:serviceaccount:verbs:robot");
    contains(&no.expect_err("kubectl exits with 1"), &["no"]);
    contains(
        &kubectl.run("auth whoami"),
        &["kubernetes-admin", "system:masters"],
    );
    kubectl.run("wait --for=condition=Ready mcls --all -A --timeout=20s");
    kubectl.run("delete namespace verbs --timeout=30s");
    contains(
        &kubectl.try_run("get namespace verbs").expect_err("it is gone"),
        &["not found"],
    );
}

/// Where kubectl is particular about an answer's form, or prints only a part of it.
fn oddities(kubectl: &Kubectl) {
    kubectl.run("create namespace odd");
    kubectl.run("-n odd create deployment web --image=nginx:1 --replicas=2");
    contains(
        &kubectl.run("-n odd get deployment web --subresource=scale"),
        &["DESIRED", "AVAILABLE"],
    );
    contains(
        &kubectl
            .try_run("-n odd patch deployment web --type=json -p '[{\"op\":\"remove\",\"path\":\"/none\"}]'")
            .expect_err("there is no such field"),
        &["patch:", "/none"],
    );
    let mut watch = kubectl.start("-n odd get deployments -w --no-headers --request-timeout=20s");
    contains(&watch.line(), &["web", "0/2"]);
    kubectl.run("-n odd scale deployment web --replicas=1");
    contains(&watch.line(), &["web", "0/1"]);
    drop(watch);
    kubectl.run("-n odd autoscale deployment web --max=3");
    contains(
        &kubectl.run("get --raw /apis/autoscaling/v1/namespaces/odd/horizontalpodautoscalers/web"),
        &["\"targetCPUUtilizationPercentage\":80"],
    );
    contains(
        &kubectl
            .with_input("create -f -", "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {name: odd}\nspec: {request: AA==, signerName: example.com/odd, usages: [client auth]}\n"),
        &["created"],
    );
    contains(&kubectl.run("get csr odd"), &["kubernetes-admin"]);
    kubectl.run("certificate approve odd");
    contains(&kubectl.run("get csr odd"), &["Approved"]);
    kubectl.run("delete csr odd");
    kubectl.run("delete namespace odd --timeout=30s");
}

/// What a simulated pod can and cannot, and the templates of a Deployment.
fn pods_and_rollouts(member: &Kubectl, pod: &str) {
    for (line, complaint) in [
        (
            format!("-n web logs {pod} --previous"),
            "previous terminated container",
        ),
        (
            format!("-n web exec {pod} -c none -- hostname"),
            "not valid for pod",
        ),
    ] {
        contains(&member.try_run(&line).expect_err("it cannot"), &[complaint]);
    }
    member.run("-n default create deployment mine --image=nginx:1");
    member.run("-n default rollout status deployment/mine --timeout=20s");
    member.run("-n default set image deployment/mine nginx=nginx:2");
    member.run("-n default rollout status deployment/mine --timeout=20s");
    member.run("-n default rollout undo deployment/mine");
    contains(
        &member.run("-n default get deployment mine -o jsonpath={.spec.template.spec.containers[0].image}"),
        &["nginx:1"],
    );
    member.run("-n default delete deployment mine");
}

#[test]
fn templates_members_and_a_second_start() {
    let Some(bench) = Bench::find("templates_members_and_a_second_start") else {
        return;
    };
    let mut up = Up::start(&bench, &["--demo"]);

    contains(&up.ours(&["get", "deploy", "-A"]), &["NAMESPACE", "nginx"]);
    contains(&up.ours(&["clusters"]), &["member-3", "3/3"]);
    contains(
        &up.ours(&["scale", "deployment/nginx", "--replicas", "3", "-n", "web"]),
        &["scaled"],
    );
    let member = up.member("member-2");
    wait_for("the member scales", Duration::from_secs(20), || {
        let deployment = member.json("-n web deployment nginx")?;
        match deployment["status"]["readyReplicas"].as_i64() {
            Some(3) => Ok(()),
            other => Err(format!("{other:?} of 3")),
        }
    });
    contains(&member.run("get nodes"), &["v1.34.0-simulated"]);
    contains(&member.run("top nodes"), &["member-2-node-1", "%"]);
    contains(&member.run("top pods -n web --containers"), &["nginx", "Mi"]);
    wait_for("the hub knows the usage", Duration::from_secs(40), || {
        let usage = up
            .kubectl()
            .run("get mcls -A -o jsonpath={.items[*].status.resourceUsage.memoryUsage}");
        if usage.split_whitespace().count() == 3 {
            Ok(())
        } else {
            Err(usage)
        }
    });
    let pod = member
        .run("-n web get pods -o name")
        .lines()
        .next()
        .expect("a pod")
        .to_owned();
    contains(
        &member.run(&format!("-n web exec {pod} -- hostname")),
        &["nginx-"],
    );
    contains(
        &member.run(&format!("-n web logs {pod}")),
        &["simulated by tombolo"],
    );
    pods_and_rollouts(&member, &pod);
    let complaint = member
        .try_run("delete node member-2-node-1")
        .expect_err("the account may not");
    contains(&complaint, &["(Forbidden)"]);

    let manifest = up.folder.path().join("settings.yaml");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: web}\ndata: {a: b}\n";
    std::fs::write(&manifest, text).expect("a file can be written");
    let file = manifest.display().to_string();
    contains(&up.ours(&["apply", "-f", &file]), &["created"]);
    contains(&up.ours(&["apply", "-f", &file]), &["unchanged"]);
    let kubectl = up.kubectl();
    contains(
        &kubectl.run("-n clusternet-reserved get manifests"),
        &["configmaps.web.settings", "deployments.web.nginx"],
    );
    contains(
        &up.ours(&["delete", "configmap", "settings", "-n", "web"]),
        &["deleted"],
    );
    applies_what_is_large(&up);
    deletes_what_is_there(&up, &file);
    restarts(&mut up);
    withdraws(&mut up);
}

/// A template that does not fit into the annotation in which apply keeps it goes over to the hub's own tracking. The
/// fields of templates are explained.
fn applies_what_is_large(up: &Up) {
    let path = up.folder.path().join("rules.yaml");
    let file = path.display().to_string();
    let text = |rule: &str| {
        let padding = "x".repeat(400_000);
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: rules, namespace: web}}\ndata: {{rule: {rule}, all: {padding}}}\n"
        )
    };
    for rule in ["first", "second"] {
        std::fs::write(&path, text(rule)).expect("a file can be written");
        let complaint = up.try_ours(&["apply", "-f", &file]).expect_err("it is too large");
        contains(&complaint, &["configmap/rules", "--server-side"]);
        contains(
            &up.ours(&["apply", "--server-side", "-f", &file]),
            &["configmap/rules serverside-applied"],
        );
        contains(
            &up.ours(&["get", "configmap", "rules", "-n", "web", "-o", "json"]),
            &[rule],
        );
    }
    contains(&up.ours(&["delete", "-f", &file]), &["deleted"]);
    let explained = up
        .kubectl()
        .run("explain deployments.spec.replicas --api-version=shadow/v1alpha1");
    contains(&explained, &["replicas <integer>", "Number of desired pods"]);
}

/// What is missing holds up nothing else.
fn deletes_what_is_there(up: &Up, file: &str) {
    up.ours(&["apply", "-f", file]);
    let complaint = up
        .try_ours(&["delete", "configmap", "nothing", "settings", "none", "-n", "web"])
        .expect_err("two are not there");
    contains(
        &complaint,
        &[
            "error: configmap \"nothing\" cannot be deleted",
            "error: configmap \"none\"",
        ],
    );
    let complaint = up
        .try_ours(&["get", "configmap", "settings", "-n", "web"])
        .expect_err("it is deleted");
    contains(&complaint, &["not found"]);
}

/// A second start finds everything as it was.
fn restarts(up: &mut Up) {
    let before = up
        .kubectl()
        .run("get mcls,base,desc -A -o jsonpath={.items[*].metadata.uid}");
    up.restart();
    let output = up.process.output();
    contains(&output, &["(0 objects made, 0 changed)"]);
    let kubectl = up.kubectl();
    assert_eq!(
        kubectl.run("get mcls,base,desc -A -o jsonpath={.items[*].metadata.uid}"),
        before
    );
    assert_eq!(
        up.member("member-1")
            .run("-n web get deployment nginx -o jsonpath={.spec.replicas}"),
        "3"
    );
}

/// What a Subscription brought goes with it; the templates stay. It stays deleted.
fn withdraws(up: &mut Up) {
    up.kubectl().run("delete sub nginx --timeout=30s");
    let member = up.member("member-1");
    wait_for(
        "the member is empty again",
        Duration::from_secs(30),
        || match member.try_run("get namespace web") {
            Err(complaint) if complaint.contains("not found") => Ok(()),
            Err(complaint) | Ok(complaint) => Err(complaint),
        },
    );
    contains(&up.ours(&["get", "deploy", "-n", "web"]), &["nginx"]);
    up.restart_until("Try next");
    contains(
        &up.process.output(),
        &["found as it was, without what was deleted: Subscription \"nginx\""],
    );
    assert_eq!(up.kubectl().run("get subs -A -o name"), "");
}
