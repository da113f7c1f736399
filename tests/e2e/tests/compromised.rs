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
