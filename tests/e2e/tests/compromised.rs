//! What somebody can do with what he took from one cluster: nothing to another, and nothing to the hub.

use std::time::Duration;

use e2e::{Bench, Kubectl, Up, contains, wait_for};
use serde_json::{Value, json};

const OWN: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";

/// A kubectl of whoever holds a token.
fn holder(up: &Up, who: &str, token: &str) -> Kubectl {
    let path = up.folder.path().join(format!("{who}.kubeconfig"));
    std::fs::copy(up.data().join("kubeconfig"), &path).expect("a file can be copied");
    let holder = up.bench.kubectl(&path);
    holder.run(&format!("config set-credentials {who} --token={token}"));
    holder.run(&format!("config set-context --current --user={who}"));
    holder
}

/// Asks to be taken in as a cluster of an id and a name.
fn ask(who: &Kubectl, id: &str, name: &str) {
    let request = json!({
        "apiVersion": "clusters.clusternet.io/v1beta1", "kind": "ClusterRegistrationRequest",
        "metadata": {"name": format!("clusternet-{id}")},
        "spec": {"clusterId": id, "clusterName": name, "clusterType": "EdgeCluster", "syncMode": "Pull"},
    });
    who.with_input("create -f -", &request.to_string());
}

/// Waits until the hub has granted a request; gives it.
fn granted(up: &Up, id: &str) -> Value {
    wait_for("the request is granted", Duration::from_secs(30), || {
        let request = up.kubectl().json(&format!("clsrr clusternet-{id}"))?;
        let is_granted = request["status"]["result"] == "Approved";
        is_granted.then_some(request.clone()).ok_or(request.to_string())
    })
}

/// The id of a member.
fn id_of(up: &Up, name: &str) -> String {
    let all = up.kubectl().json("mcls -A").expect("the clusters");
    let found = all["items"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["metadata"]["name"] == name);
    found.expect("the member")["spec"]["clusterId"]
        .as_str()
        .expect("an id")
        .to_owned()
}

#[test]
fn d8_a_token_that_was_made_for_one_cluster_lets_in_no_other() {
    let Some(bench) = Bench::find("d8_a_token_that_was_made_for_one_cluster_lets_in_no_other") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1"]);
    let server = up
        .kubectl()
        .run("config view --minify -o jsonpath={.clusters[0].cluster.server}");
    up.ours(&["join", "--name", "edge-7", "--parent-url", server.trim()]);
    let secrets = up
        .kubectl()
        .json("secrets -n kube-system -l clusters.clusternet.io/cluster-name=edge-7")
        .expect("the token");
    let text = |key: &str| api::secret::text(&secrets["items"][0], key).expect("a part of it");
    let token = format!("{}.{}", text("token-id"), text("token-secret"));
    let holder = holder(&up, "holder", &token);
    let read = |id: &str| holder.try_run(&format!("get clsrr clusternet-{id} -o json"));

    // A cluster that is there, or that asks under another name, has its credential for itself.
    ask(&holder, OTHER, "edge-8");
    granted(&up, OTHER);
    for id in [id_of(&up, "member-1").as_str(), OTHER] {
        contains(&read(id).expect_err("not its own"), &["Forbidden"]);
    }
    // The own one is answered, with a credential that works.
    ask(&holder, OWN, "edge-7");
    granted(&up, OWN);
    let answer: Value = serde_json::from_str(&read(OWN).expect("its own")).expect("JSON");
    let credential = api::secret::decode(&answer["status"]["token"]).expect("a token");
    let child = self::holder(&up, "child", &String::from_utf8(credential).expect("text"));
    let home = answer["status"]["dedicatedNamespace"]
        .as_str()
        .expect("a namespace");
    contains(&child.run(&format!("get mcls -n {home} -o name")), &["edge-7"]);
    // Nor does it do anything else.
    for line in [
        "get clsrr",
        "get secrets -n kube-system",
        &format!("delete clsrr clusternet-{OWN}"),
    ] {
        contains(&holder.try_run(line).expect_err(line), &["Forbidden"]);
    }
}

/// With what a stolen agent has, whatever it tries: its own namespace is all that it reaches, and of its own ManagedCluster
/// it does not change what it is selected by.
#[test]
fn d8_a_compromised_child_reaches_nothing_but_its_own() {
    let Some(bench) = Bench::find("d8_a_compromised_child_reaches_nothing_but_its_own") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "2"]);
    let hub = up.kubectl();
    let (own, other) = (id_of(&up, "member-1"), id_of(&up, "member-2"));
    let request = |id: &str| hub.json(&format!("clsrr clusternet-{id}")).expect("a request");
    let home = |id: &str| {
        request(id)["status"]["dedicatedNamespace"]
            .as_str()
            .expect("a namespace")
            .to_owned()
    };
    let (home, others_home) = (home(&own), home(&other));

    // The agents have credentials that end; those that do not are nobody's any more.
    wait_for("no lasting credential is left", Duration::from_secs(30), || {
        let secrets =
            hub.run("get secrets -A --field-selector type=kubernetes.io/service-account-token -o name");
        let answers = [&own, &other].map(|id| request(id)["status"]["token"].clone());
        (secrets.is_empty() && answers.iter().all(Value::is_null))
            .then_some(())
            .ok_or_else(|| format!("{secrets} {answers:?}"))
    });
    let account = hub.run(&format!(
        "get rolebinding clusternet-managedcluster-role -n {home} -o jsonpath={{.subjects[0].name}}"
    ));
    let token = hub.run(&format!("create token {account} -n {home}"));
    let child = holder(&up, "child", token.trim());
    // What an agent does.
    child.run(&format!("create token {account} -n {home} --duration 10m"));
    for patch in [
        r#"{"metadata":{"labels":{"node.clusternet.io/zone":"a"}}}"#,
        r#"{"metadata":{"annotations":{"a":"b"}}}"#,
    ] {
        child.run(&format!(
            "patch mcls member-1 -n {home} --type merge -p '{patch}'"
        ));
    }
    // What it may not do.
    let attempts = [
        format!("get secrets -n {others_home}"),
        format!("get descriptions -n {others_home}"),
        format!("get mcls member-2 -n {others_home}"),
        format!("patch mcls member-2 -n {others_home} --type merge -p {{}}"),
        format!("get clsrr clusternet-{other}"),
        format!("delete clsrr clusternet-{own}"),
        format!("delete mcls member-1 -n {home}"),
        format!("get --raw /apis/proxies.clusternet.io/v1alpha1/sockets/{other}/proxy/direct/version"),
        format!("get --raw /apis/proxies.clusternet.io/v1alpha1/sockets/{own}/proxy/direct/version"),
        format!("create token default -n {home}"),
        format!("create token {account} -n {others_home}"),
        format!("create serviceaccount more -n {home}"),
        format!("get rolebindings -n {home}"),
        "get manifests -A".to_owned(),
        "get subscriptions -A".to_owned(),
        "get mcls -A".to_owned(),
        "get secrets -n kube-system".to_owned(),
        "get deployments.shadow -A".to_owned(),
        "get namespaces".to_owned(),
        "get namespaces --as system:admin --as-group system:masters".to_owned(),
    ];
    let changes = [
        r#"{"metadata":{"labels":{"env":"prod"}}}"#,
        r#"{"metadata":{"labels":{"clusters.clusternet.io/cluster-name":"member-2"}}}"#,
        r#"{"metadata":{"finalizers":[]}}"#,
        r#"{"spec":{"syncMode":"Push"}}"#,
        r#"{"spec":{"taints":[]}}"#,
    ];
    let changes = changes.map(|patch| format!("patch mcls member-1 -n {home} --type merge -p '{patch}'"));
    hub.run(&format!(
        "patch mcls member-1 -n {home} --type merge -p '{}'",
        r#"{"spec":{"taints":[{"key":"closed","effect":"NoSchedule"}]}}"#
    ));
    for attempt in attempts.iter().chain(&changes) {
        let complaint = child.try_run(attempt).expect_err(attempt);
        contains(&complaint, &["orbidden"]);
    }
    // An event about somebody else's object is none.
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "forged", "namespace": home},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "x", "namespace": "default"},
        "reason": "Forged", "message": "all is well", "type": "Normal",
    });
    let complaint = child
        .try_with_input("create -f -", &event.to_string())
        .expect_err("an event elsewhere");
    contains(&complaint, &["does not match event.namespace"]);
    // A cluster that never reports gets no workload.
    ask(&child, OWN, "phantom");
    let phantom = granted(&up, OWN);
    let place = phantom["status"]["dedicatedNamespace"]
        .as_str()
        .expect("a namespace");
    let taints = hub.run(&format!(
        "get mcls phantom -n {place} -o jsonpath={{.spec.taints[*].key}}"
    ));
    contains(&taints, &["clusters.clusternet.io/unschedulable"]);
}

const SUBSCRIPTION: &str = "apiVersion: apps.clusternet.io/v1alpha1\nkind: Subscription\n\
    metadata: {name: s, namespace: default}\nspec:\n  subscribers: [{clusterAffinity: {matchLabels: \
    {clusters.clusternet.io/cluster-name: member-1}}}]\n  feeds:\n  - {apiVersion: v1, kind: ConfigMap, name: settings, \
    namespace: default}\n";

/// A child that does not want to go, and holds up what it can, goes nevertheless.
#[test]
fn d8_a_compromised_child_is_expelled() {
    let Some(bench) = Bench::find("d8_a_compromised_child_is_expelled") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1"]);
    let hub = up.kubectl();
    let id = id_of(&up, "member-1");
    let request = hub.json(&format!("clsrr clusternet-{id}")).expect("a request");
    let home = request["status"]["dedicatedNamespace"]
        .as_str()
        .expect("a namespace");
    let account =
        format!("get rolebinding clusternet-managedcluster-role -n {home} -o jsonpath={{.subjects[0].name}}");
    let account = hub.run(&account);
    let token = hub.run(&format!("create token {account} -n {home}"));
    let child = holder(&up, "child", token.trim());

    let file = up.folder.path().join("settings.yaml");
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: b}\n";
    std::fs::write(&file, template).expect("a file can be written");
    up.ours(&["apply", "-f", &file.display().to_string()]);
    hub.with_input("apply -f -", SUBSCRIPTION);
    let description = wait_for("a description", Duration::from_secs(30), || {
        let name = child.try_run(&format!("get descriptions -n {home} -o name"))?;
        (!name.is_empty()).then(|| name.trim().to_owned()).ok_or(name)
    });
    let hold = r#"{"metadata":{"finalizers":["apps.clusternet.io/finalizer","of.the.child/own"]}}"#;
    child.run(&format!("patch {description} -n {home} --type merge -p '{hold}'"));
    let held = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "held", "namespace": home, "finalizers": ["of.the.child/own"]}});
    child.with_input("create -f -", &held.to_string());

    hub.run(&format!(
        "annotate mcls member-1 -n {home} clusters.tombolo.io/expel=true"
    ));
    hub.run(&format!("delete mcls member-1 -n {home} --timeout=60s"));
    let complaint = child
        .try_run(&format!("get secrets -n {home}"))
        .expect_err("it is out");
    assert!(
        complaint.contains("Unauthorized") || complaint.contains("must be logged in"),
        "{complaint}"
    );
    wait_for("nothing of it is left", Duration::from_secs(60), || {
        // Its agent may ask again, with the token that all simulated members share, and gets a place of its own then.
        let left = hub.try_run(&format!("get ns {home} --ignore-not-found"))?;
        left.is_empty().then_some(()).ok_or(left)
    });
    hub.run("delete subscription s --timeout=60s");
}
