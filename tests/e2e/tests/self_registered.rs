//! D1: a hub that is a child of its own fleet.

use std::time::Duration;

use e2e::{Bench, Up, contains, joined_agent, wait_for};

const APP: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: demo}\ndata: {a: b}\n---\n\
    apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: demo}\nspec:\n  \
    selector: {matchLabels: {app: web}}\n  template: {metadata: {labels: {app: web}}, \
    spec: {containers: [{name: web, image: nginx}]}}\n";
const SUBSCRIPTION: &str = "apiVersion: apps.clusternet.io/v1alpha1\nkind: Subscription\n\
    metadata: {name: s, namespace: default}\nspec:\n  subscribers: [{clusterAffinity: {matchLabels: \
    {clusters.clusternet.io/cluster-name: self}}}]\n  feeds:\n  - {apiVersion: v1, kind: Namespace, name: demo}\n  \
    - {apiVersion: v1, kind: ConfigMap, name: settings, namespace: demo}\n  \
    - {apiVersion: apps/v1, kind: Deployment, name: web, namespace: demo}\n";

/// `join`, applied: what the hub prints for its own cluster.
fn join(up: &Up) {
    let kubectl = up.kubectl();
    let server = kubectl.run("config view --minify -o jsonpath={.clusters[0].cluster.server}");
    let objects = up.ours(&["join", "--name", "self", "--parent-url", server.trim()]);
    kubectl.with_input("apply --server-side -f -", &objects);
}

/// The bootstrap tokens of the cluster that are in force.
fn tokens(up: &Up) -> Vec<String> {
    let all = "get secrets -n kube-system -l clusters.clusternet.io/cluster-name=self -o name";
    up.kubectl().run(all).lines().map(str::to_owned).collect()
}

#[test]
fn d1_a_hub_that_is_its_own_child_keeps_its_templates() {
    let Some(bench) = Bench::find("d1_a_hub_that_is_its_own_child_keeps_its_templates") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1"]);
    let kubectl = up.kubectl();

    // Whoever leaves before an agent ever ran leaves nothing behind either.
    join(&up);
    leave(&up);

    join(&up);
    let token = tokens(&up);
    join(&up);
    assert_eq!((tokens(&up), token.len()), (token, 1), "`join` is idempotent");
    let mut running = joined_agent(&up);
    kubectl.with_input("apply -f -", SUBSCRIPTION);
    let file = up.folder.path().join("app.yaml");
    std::fs::write(&file, APP).expect("a file can be written");
    up.ours(&["apply", "-f", &file.display().to_string()]);
    arrives(&up);
    kubectl.run("delete subscription s --timeout=60s");
    goes(&up);
    for kind in ["deployments", "configmaps"] {
        contains(
            &up.ours(&["get", kind, "-n", "demo"]),
            &["NAME", if kind == "deployments" { "web" } else { "settings" }],
        );
    }
    contains(&up.ours(&["get", "namespaces"]), &["demo"]);

    // It leaves with everything in place.
    kubectl.with_input("apply -f -", SUBSCRIPTION);
    arrives(&up);
    running.stop(Duration::from_secs(10)).expect("it ends");
    leave(&up);
    goes(&up);
    contains(&kubectl.run("get mcls -A"), &["member-1"]);
}

/// The copies are there.
fn arrives(up: &Up) {
    wait_for("the copies are there", Duration::from_secs(60), || {
        up.kubectl()
            .try_run("get -n demo configmap/settings deployment/web")
    });
}

/// The copies are gone, with their namespace.
fn goes(up: &Up) {
    wait_for("the copies are gone", Duration::from_secs(60), || {
        match up.kubectl().try_run("get namespace demo") {
            Err(complaint) if complaint.contains("NotFound") => Ok(()),
            Err(complaint) | Ok(complaint) => Err(complaint),
        }
    });
}

/// `leave`, after which nothing of the cluster is left.
fn leave(up: &Up) {
    let kubeconfig = up.data().join("kubeconfig").display().to_string();
    up.ours(&["leave", "--child-kubeconfig", &kubeconfig]);
    assert_eq!(
        tokens(up),
        [""; 0],
        "nobody can join with a token of a cluster that left"
    );
    wait_for("nothing of it is left", Duration::from_secs(60), || {
        let kubectl = up.kubectl();
        let mut left = Vec::new();
        for what in [
            "ns,clsrr,clusterroles,clusterrolebindings -l clusters.clusternet.io/cluster-name=self",
            "mcls,sa,secrets,desc,base -A -l clusters.clusternet.io/cluster-name=self",
            "deployments,secrets,serviceaccounts,roles,rolebindings,leases -n clusternet-system",
            "clusterroles,clusterrolebindings",
        ] {
            let names = kubectl.try_run(&format!("get {what} -o name"))?;
            let own = |line: &&str| {
                !what.contains("-l ")
                    && (line.contains("clusternet-agent")
                        || line.contains("app-deployer")
                        || line.contains("clusternet:agent")
                        || line.contains("parent-cluster"))
            };
            left.extend(
                names
                    .lines()
                    .filter(|line| what.contains("-l ") || own(line))
                    .map(str::to_owned),
            );
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(", "))
        }
    });
}
