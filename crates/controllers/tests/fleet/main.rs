//! The controllers against a server in this process, with the test as scheduler, agent and token controller.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod harness;
mod moves;
mod packing;
mod policies;
mod rollouts;
mod services;
mod together;

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::{apps, clusters, kubernetes, labels};
use machinery::meta;
use serde_json::json;

use harness::Fleet;

#[tokio::test(start_paused = true)]
async fn approves_a_request_once_its_token_is_there() {
    let mut fleet = Fleet::start().await;
    let id = fleet.request("edge-7").await;
    let name = format!("clusternet-{id}");
    let request = fleet
        .await_object(&clusters::REGISTRATION_REQUESTS, None, &name, |it| {
            it["status"]["result"] == "Approved"
        })
        .await;
    let home = request["status"]["dedicatedNamespace"].as_str().unwrap();
    assert!(home.starts_with("clusternet-") && home.len() == 16, "{home}");
    assert_eq!(request["status"]["managedClusterName"], "edge-7");
    assert_eq!(request["status"]["token"], harness::TOKEN);
    let cluster = fleet.get(&clusters::MANAGED_CLUSTERS, Some(home), "edge-7").await;
    assert_eq!(cluster["metadata"]["labels"]["region"], "north");
    for (resource, namespace, name) in [
        (&kubernetes::CLUSTER_ROLES, None, name.as_str()),
        (&kubernetes::CLUSTER_ROLE_BINDINGS, None, name.as_str()),
        (&kubernetes::ROLES, Some(home), "clusternet-managedcluster-role"),
        (
            &kubernetes::ROLE_BINDINGS,
            Some(home),
            "clusternet-managedcluster-role",
        ),
    ] {
        fleet.get(resource, namespace, name).await;
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rights_that_drift_come_back_and_a_new_credential_is_handed_out() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    let role = "clusternet-managedcluster-role";
    let before = fleet.get(&kubernetes::ROLES, Some(&home), role).await;

    // An older version granted something else; somebody took it away; while nobody looked.
    fleet.stop().await;
    fleet
        .change(&kubernetes::ROLES, &home, role, None, &json!({"rules": []}))
        .await;
    fleet.run();
    let as_before = |it: &serde_json::Value| it["rules"] == before["rules"];
    fleet
        .await_object(&kubernetes::ROLES, Some(&home), role, as_before)
        .await;
    fleet
        .change(&kubernetes::ROLES, &home, role, None, &json!({"rules": []}))
        .await;
    fleet
        .await_object(&kubernetes::ROLES, Some(&home), role, as_before)
        .await;
    fleet.delete(&kubernetes::ROLE_BINDINGS, Some(&home), role).await;
    fleet
        .await_object(&kubernetes::ROLE_BINDINGS, Some(&home), role, |_| true)
        .await;

    let accounts = fleet.await_one(&kubernetes::SERVICE_ACCOUNTS, &home).await;
    let account = accounts["metadata"]["name"].as_str().unwrap();
    let new = json!({"data": {"token": "bmV3", "ca.crt": "Y2E="}});
    fleet
        .change(&kubernetes::SECRETS, &home, account, None, &new)
        .await;
    let id = accounts["metadata"]["labels"][labels::CLUSTER_ID]
        .as_str()
        .unwrap();
    let request = format!("clusternet-{id}");
    fleet
        .await_object(&clusters::REGISTRATION_REQUESTS, None, &request, |it| {
            it["status"]["token"] == "bmV3"
        })
        .await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_the_tokens_place_makes_room_for_it() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    let account = fleet.await_one(&kubernetes::SERVICE_ACCOUNTS, &home).await;
    let name = account["metadata"]["name"].as_str().unwrap();
    let secrets = &kubernetes::SECRETS;
    fleet.stop().await;
    fleet.delete(secrets, Some(&home), name).await;
    let other =
        json!({"type": "Opaque", "metadata": {"name": name, "labels": account["metadata"]["labels"]}});
    fleet.create(secrets, Some(&home), &other).await;
    fleet.run();
    fleet
        .await_object(secrets, Some(&home), name, |it| {
            it["type"] == "kubernetes.io/service-account-token" && it["data"]["token"] == harness::TOKEN
        })
        .await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_does_not_come_is_told_once() {
    let mut fleet = Fleet::start().await;
    fleet.fills_tokens.store(false, Ordering::SeqCst);
    let name = format!("clusternet-{}", fleet.request("edge-7").await);
    let (requests, kind) = (&clusters::REGISTRATION_REQUESTS, "ClusterRegistrationRequest");
    let about = |it: &serde_json::Value| it["status"]["errorMessage"].as_str().map(str::to_owned);
    let waiting = fleet
        .await_object(requests, None, &name, |it| about(it).is_some())
        .await;
    assert!(about(&waiting).unwrap().contains("token controller"), "{waiting}");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(fleet.await_events(kind, &name, "FailedApproving").await.len(), 1);
    fleet.fills_tokens.store(true, Ordering::SeqCst);
    let approved = |it: &serde_json::Value| it["status"]["result"] == "Approved";
    let answered = fleet.await_object(requests, None, &name, approved).await;
    assert_eq!(about(&answered), None);

    let home = answered["status"]["dedicatedNamespace"].as_str().unwrap();
    let account = fleet.await_one(&kubernetes::SERVICE_ACCOUNTS, home).await;
    let account = account["metadata"]["name"].as_str().unwrap();
    fleet.fills_tokens.store(false, Ordering::SeqCst);
    fleet.delete(&kubernetes::SECRETS, Some(home), account).await;
    assert_eq!(fleet.await_events(kind, &name, "NoCredential").await.len(), 1);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn says_on_the_request_why_it_waits() {
    let mut fleet = Fleet::start().await;
    fleet
        .create(
            &kubernetes::NAMESPACES,
            None,
            &json!({"metadata": {"name": "taken"}}),
        )
        .await;
    let id = "00000000-0000-4000-8000-00000000000f";
    let name = format!("clusternet-{id}");
    let request = json!({
        "metadata": {"name": name}, "spec": {"clusterId": id, "clusterName": "edge-7", "clusterNamespace": "taken"},
    });
    fleet
        .create(&clusters::REGISTRATION_REQUESTS, None, &request)
        .await;
    let request = fleet
        .await_object(&clusters::REGISTRATION_REQUESTS, None, &name, |it| {
            it["status"]["errorMessage"]
                .as_str()
                .is_some_and(|why| why.contains("already exists"))
        })
        .await;
    assert!(request["status"]["result"].is_null());
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_is_one_clusters_until_that_leaves() {
    let mut fleet = Fleet::start().await;
    let requests = &clusters::REGISTRATION_REQUESTS;
    // At one time, so that only their order can tell them apart.
    let (first, second) = tokio::join!(fleet.request("edge-7"), fleet.request("edge-7"));
    let mut answers = Vec::new();
    for id in [first, second] {
        let answered = |it: &serde_json::Value| !it["status"].is_null();
        answers.push(
            fleet
                .await_object(requests, None, &format!("clusternet-{id}"), answered)
                .await,
        );
    }
    let (approved, waiting): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|it| it["status"]["errorMessage"].is_null());
    let ([approved], [waiting]) = (approved.as_slice(), waiting.as_slice()) else {
        panic!("one of each: {approved:?} {waiting:?}")
    };
    let why = waiting["status"]["errorMessage"].as_str().unwrap();
    assert!(why.contains("edge-7") && why.contains("another cluster"), "{why}");
    let id = approved["spec"]["clusterId"].as_str().unwrap();
    let dedicated = |it: &serde_json::Value| it["status"]["dedicatedNamespace"].is_string();
    let approved = fleet
        .await_object(requests, None, &format!("clusternet-{id}"), dedicated)
        .await;
    let home = approved["status"]["dedicatedNamespace"].as_str().unwrap();

    // What the cluster writes about itself does not make it another.
    let claim = json!({"metadata": {"labels":
        {labels::CLUSTER_NAME: "member-1", labels::CLUSTER_ID: "another", "region": "south"}}});
    fleet
        .change(&clusters::MANAGED_CLUSTERS, home, "edge-7", None, &claim)
        .await;
    let own = json!({labels::CLUSTER_NAME: "edge-7", labels::CLUSTER_ID: id, "region": "south"});
    fleet
        .await_object(&clusters::MANAGED_CLUSTERS, Some(home), "edge-7", |it| {
            let labels = &it["metadata"]["labels"];
            own.as_object()
                .unwrap()
                .iter()
                .all(|(key, value)| labels[key] == *value)
        })
        .await;

    fleet
        .delete(&clusters::MANAGED_CLUSTERS, Some(home), "edge-7")
        .await;
    fleet
        .await_object(
            requests,
            None,
            waiting["metadata"]["name"].as_str().unwrap(),
            |it| it["status"]["result"] == "Approved",
        )
        .await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn delivers_reports_and_takes_away() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    let subscription = fleet.subscribe(&[&home]).await;
    let uid = subscription["metadata"]["uid"].as_str().unwrap().to_owned();

    let description = fleet.await_one(&apps::DESCRIPTIONS, &home).await;
    let raw = description["spec"]["raw"].as_array().unwrap();
    assert_eq!(raw.len(), 2);
    let manifest = fleet
        .get(
            &apps::MANIFESTS,
            Some("clusternet-reserved"),
            "deployments.foo.web",
        )
        .await;
    assert_eq!(manifest["metadata"]["labels"][&uid], "Subscription");

    let name = description["metadata"]["name"].as_str().unwrap().to_owned();
    let ready = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web", "observedStatus": ready});
    fleet
        .report(
            &home,
            &name,
            &json!({"phase": "Success", "manifestStatuses": [web]}),
        )
        .await;
    let subscription = fleet
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", |it| {
            it["status"]["completedReleases"] == 1
        })
        .await;
    let status = subscription["status"].clone();
    assert_eq!(
        status["aggregatedStatuses"][1]["feedStatusSummary"]["replicaStatus"]["readyReplicas"],
        2
    );

    // What an earlier write says that comes late, unanswered, does not stay.
    let late = json!({"status": {"aggregatedStatuses": [], "completedReleases": 0}});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", Some("status"), &late)
        .await;
    fleet
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", |it| {
            it["status"]["aggregatedStatuses"] == status["aggregatedStatuses"]
        })
        .await;

    fleet
        .delete(
            &apps::MANIFESTS,
            Some("clusternet-reserved"),
            "deployments.foo.web",
        )
        .await;
    fleet
        .await_object(
            &apps::MANIFESTS,
            Some("clusternet-reserved"),
            "deployments.foo.web",
            |it| it["metadata"]["annotations"]["apps.clusternet.io/feed-protection"].is_string(),
        )
        .await;

    fleet.delete(&apps::SUBSCRIPTIONS, Some("default"), "app").await;
    fleet.take_away(&home, &name).await;
    fleet
        .await_gone(&apps::SUBSCRIPTIONS, Some("default"), "app")
        .await;
    fleet
        .await_gone(
            &apps::MANIFESTS,
            Some("clusternet-reserved"),
            "deployments.foo.web",
        )
        .await;
    let manifest = fleet
        .get(&apps::MANIFESTS, Some("clusternet-reserved"), "namespaces.foo")
        .await;
    assert_eq!(manifest["metadata"]["labels"][&uid], serde_json::Value::Null);
    fleet.stop().await;
}

/// The labels are upstream's: people find by them who uses a template.
#[tokio::test(start_paused = true)]
async fn a_template_carries_the_uids_of_its_users_and_of_nobody_else() {
    let mut fleet = Fleet::start().await;
    let homes = fleet.join_many(5).await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    let homes: Vec<&str> = homes.iter().map(String::as_str).collect();
    let users = |it: &serde_json::Value, kind: &str| {
        let labels = meta::labels(it).into_iter().flatten();
        labels.filter(|(_, value)| *value == kind).count()
    };
    let reserved = Some("clusternet-reserved");
    let used = async |bases: usize, subscriptions: usize| {
        let is_so =
            |it: &serde_json::Value| (users(it, "Base"), users(it, "Subscription")) == (bases, subscriptions);
        fleet
            .await_object(&apps::MANIFESTS, reserved, "namespaces.foo", is_so)
            .await
    };
    fleet.subscribe(&homes).await;
    let labelled = used(5, 1).await;
    for home in &homes {
        let base = fleet.await_one(&apps::BASES, home).await;
        assert_eq!(meta::label(&labelled, meta::uid(&base)), Some("Base"));
    }
    let mut descriptions = Vec::new();
    for home in &homes {
        let description = fleet.await_one(&apps::DESCRIPTIONS, home).await;
        descriptions.push(meta::name(&description).to_owned());
    }
    fleet.bind(&homes[..2]).await;
    for (home, description) in homes.iter().zip(&descriptions).skip(2) {
        fleet.take_away(home, description).await;
    }
    used(2, 1).await;
    fleet.delete(&apps::SUBSCRIPTIONS, Some("default"), "app").await;
    for (home, description) in homes.iter().zip(&descriptions).take(2) {
        fleet.take_away(home, description).await;
    }
    used(0, 0).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn declares_a_silent_cluster_unknown_and_lets_its_descriptions_go() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.heartbeat(&home, "edge-7").await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.subscribe(&[&home]).await;
    let description = fleet.await_one(&apps::DESCRIPTIONS, &home).await;
    fleet.bind(&[]).await;
    let name = description["metadata"]["name"].as_str().unwrap();
    fleet
        .await_object(&apps::DESCRIPTIONS, Some(&home), name, |it| {
            it["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    fleet.env.advance(3_600);
    let cluster = fleet
        .await_object(&clusters::MANAGED_CLUSTERS, Some(&home), "edge-7", |it| {
            it["spec"]["taints"][0]["value"] == "ClusterStatusUnknown"
        })
        .await;
    assert_eq!(cluster["status"]["conditions"][0]["status"], "Unknown");
    fleet.await_gone(&apps::DESCRIPTIONS, Some(&home), name).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn takes_a_deleted_cluster_out_of_the_fleet() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    let cluster = fleet
        .get(&clusters::MANAGED_CLUSTERS, Some(&home), "edge-7")
        .await;
    let id = cluster["metadata"]["labels"][labels::CLUSTER_ID]
        .as_str()
        .unwrap();
    let name = format!("clusternet-{id}");
    fleet
        .delete(&clusters::MANAGED_CLUSTERS, Some(&home), "edge-7")
        .await;
    fleet
        .await_gone(&clusters::MANAGED_CLUSTERS, Some(&home), "edge-7")
        .await;
    for resource in [
        &kubernetes::CLUSTER_ROLES,
        &kubernetes::CLUSTER_ROLE_BINDINGS,
        &clusters::REGISTRATION_REQUESTS,
    ] {
        fleet.await_gone(resource, None, &name).await;
    }
    let namespace = fleet
        .client
        .get_opt(&kubernetes::NAMESPACES, None, &home)
        .await
        .unwrap();
    assert!(namespace.is_none_or(|it| it["metadata"]["deletionTimestamp"].is_string()));
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_takes_no_other_along() {
    let mut fleet = Fleet::start().await;
    let (home, other) = (fleet.join("edge-7").await, fleet.join("edge-8").await);
    let managed = &clusters::MANAGED_CLUSTERS;
    let id = |cluster: &serde_json::Value| cluster["spec"]["clusterId"].as_str().unwrap().to_owned();
    let own = id(&fleet.get(managed, Some(&home), "edge-7").await);
    let theirs = id(&fleet.get(managed, Some(&other), "edge-8").await);

    let posing = json!({"spec": {"clusterId": theirs}});
    let patched = fleet
        .client
        .patch(
            managed,
            Some(&home),
            "edge-7",
            None,
            kubeio::Patch::Merge,
            &posing,
        )
        .await;
    assert!(patched.unwrap_err().is_invalid(), "who it is stays");
    let posing = json!({"metadata": {"labels": {labels::CLUSTER_ID: theirs}}});
    fleet.change(managed, &home, "edge-7", None, &posing).await;
    fleet.delete(managed, Some(&home), "edge-7").await;
    fleet.await_gone(managed, Some(&home), "edge-7").await;
    for resource in [
        &kubernetes::CLUSTER_ROLES,
        &kubernetes::CLUSTER_ROLE_BINDINGS,
        &clusters::REGISTRATION_REQUESTS,
    ] {
        fleet
            .await_gone(resource, None, &format!("clusternet-{own}"))
            .await;
        fleet.get(resource, None, &format!("clusternet-{theirs}")).await;
    }
    fleet.stop().await;
}

/// An agent of ours says that it executes no charts, and that the manifests are applied; which feeds are available.
async fn the_chart_counts_not(fleet: &Fleet, home: &str, name: &str, helm: &str) -> Vec<bool> {
    // What an agent of ours says of charts.
    let why = "HelmChart default/mysql is not deployed";
    let declined = json!({"phase": "Failure", "reason": why, "conditions": [
        {"type": "Applied", "status": "False", "reason": "ChartsNotExecuted", "message": why,
         "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    fleet.report(home, helm, &declined).await;
    let told = fleet
        .await_events("Subscription", "app", "ChartsNotExecuted")
        .await;
    assert_eq!(told, [why]);
    // All of the manifests is there, and the chart is not.
    let ready = json!({"observedGeneration": 1, "replicas": 5, "updatedReplicas": 5, "readyReplicas": 5, "availableReplicas": 5});
    let entries = json!([
        {"apiVersion": "v1", "kind": "Namespace", "name": "foo", "observedStatus": {}},
        {"apiVersion": "v1", "kind": "Service", "name": "my-nginx-svc", "namespace": "foo", "observedStatus": {}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "my-nginx", "namespace": "foo", "observedStatus": ready},
    ]);
    let status = json!({"phase": "Success", "manifestStatuses": entries});
    fleet.report(home, name, &status).await;
    let subscription = fleet
        .await_object(&apps::SUBSCRIPTIONS, Some("default"), "app", |it| {
            it["status"]["aggregatedStatuses"][3]["feedStatusSummary"]["available"] == true
        })
        .await;
    assert_eq!(subscription["status"]["completedReleases"], 0);
    subscription["status"]["aggregatedStatuses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["feedStatusSummary"]["available"] == true)
        .collect()
}

/// The Subscription keeps one other feed: the chart's release goes first, then its Description.
async fn withdraw_chart(fleet: &Fleet, home: &str, helm: &str, kept: &serde_json::Value) {
    let release = format!("{helm}-default-mysql");
    let feeds = json!({"spec": {"feeds": [kept]}});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", None, &feeds)
        .await;
    fleet
        .await_object(&apps::HELM_RELEASES, Some(home), &release, |it| {
            it["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    fleet.get(&apps::DESCRIPTIONS, Some(home), helm).await;
    let gone = json!({"metadata": {"finalizers": null}});
    fleet
        .change(&apps::HELM_RELEASES, home, &release, None, &gone)
        .await;
    fleet.await_gone(&apps::DESCRIPTIONS, Some(home), helm).await;
}

/// A Subscription of a chart and of manifests, with overrides for both, as Clusternet's example for replication has it.
#[tokio::test(start_paused = true)]
async fn a_chart_goes_out_beside_the_manifests() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.heartbeat(&home, "edge-7").await;
    let chart = json!({"metadata": {"name": "mysql"}, "spec": {"repo": "https://charts.example.com/stable",
        "chart": "mysql", "version": "9.2.0", "targetNamespace": "abc"}});
    fleet.create(&apps::HELM_CHARTS, Some("default"), &chart).await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.manifest("v1", "Service", "foo", "my-nginx-svc").await;
    fleet.manifest("apps/v1", "Deployment", "foo", "my-nginx").await;
    let template = json!({"template": {"metadata": {"labels": {"app": "nginx", "some-other-label": "x"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2"}]}}}}});
    fleet
        .change(
            &apps::MANIFESTS,
            "clusternet-reserved",
            "deployments.foo.my-nginx",
            None,
            &template,
        )
        .await;
    let mysql = json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart", "name": "mysql", "namespace": "default"});
    let nginx =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "my-nginx", "namespace": "foo"});
    let everywhere = json!([
        {"name": "labels", "type": "MergePatch", "value": "metadata:\n  labels:\n    some-label: some-value"},
        {"name": "unlabel", "type": "MergePatch", "value": r#"{"metadata":{"labels":{"some-other-label":null}}}"#},
    ]);
    let here = json!([
        {"name": "scale", "type": "JSONPatch", "value": r#"[{"path": "/spec/replicas", "value": 5, "op": "replace"}]"#},
        {"name": "image", "type": "JSONPatch",
         "value": "- path: /spec/template/spec/containers/0/image\n  value: nginx:alpine\n  op: replace"},
    ]);
    let values = json!([{"name": "tag", "type": "Helm", "value": "image:\n  tag: 8.0.26"}]);
    for (resource, namespace, name, feed, overrides) in [
        (&apps::GLOBALIZATIONS, None, "nginx", &nginx, &everywhere),
        (&apps::GLOBALIZATIONS, None, "mysql", &mysql, &values),
        (&apps::LOCALIZATIONS, Some(home.as_str()), "nginx", &nginx, &here),
        (
            &apps::LOCALIZATIONS,
            Some(home.as_str()),
            "mysql",
            &mysql,
            &values,
        ),
    ] {
        let policy = json!({"metadata": {"name": name}, "spec": {"priority": 600, "feed": feed, "overrides": overrides}});
        fleet.create(resource, namespace, &policy).await;
    }
    let subscription = json!({"metadata": {"name": "app"}, "spec": {"subscribers": [{"clusterAffinity": {}}], "feeds": [
        mysql, {"apiVersion": "v1", "kind": "Namespace", "name": "foo"},
        {"apiVersion": "v1", "kind": "Service", "name": "my-nginx-svc", "namespace": "foo"}, nginx]}});
    fleet
        .create(&apps::SUBSCRIPTIONS, Some("default"), &subscription)
        .await;
    fleet.bind(&[&home]).await;

    let base = fleet.await_one(&apps::BASES, &home).await;
    let base = base["metadata"]["name"].as_str().unwrap();
    let (name, helm) = (format!("{base}-generic"), format!("{base}-helm"));
    let description = fleet
        .await_object(&apps::DESCRIPTIONS, Some(&home), &name, |_| true)
        .await;
    let objects = harness::objects(&description);
    let kinds: Vec<&str> = objects.iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds, ["Namespace", "Service", "Deployment"]);
    let deployment = &objects[2];
    assert_eq!(deployment["spec"]["replicas"], 5);
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:alpine"
    );
    assert_eq!(
        deployment["metadata"]["labels"],
        json!({"app": "nginx", "some-label": "some-value"})
    );

    let release = fleet.await_one(&apps::HELM_RELEASES, &home).await;
    assert_eq!(release["metadata"]["name"], format!("{helm}-default-mysql"));
    let spec = &release["spec"];
    assert_eq!(
        (&spec["chart"], &spec["releaseName"]),
        (&json!("mysql"), &json!("mysql"))
    );
    assert_eq!(
        api::secret::decode(&spec["overrides"]).unwrap(),
        br#"{"image":{"tag":"8.0.26"}}"#
    );

    let seen = the_chart_counts_not(&fleet, &home, &name, &helm).await;
    assert_eq!(seen, [false, true, true, true]);
    withdraw_chart(&fleet, &home, &helm, &nginx).await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_feed_is_told_on_the_subscription_once() {
    let mut fleet = Fleet::start().await;
    let homes = [fleet.join("edge-7").await, fleet.join("edge-8").await];
    for (home, name) in homes.iter().zip(["edge-7", "edge-8"]) {
        fleet.heartbeat(home, name).await;
    }
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.subscribe(&[&homes[0], &homes[1]]).await;
    fleet.await_one(&apps::DESCRIPTIONS, &homes[0]).await;
    let feeds = json!({"spec": {"feeds": [
        {"apiVersion": "v1", "kind": "Namespace", "name": "foo"},
        {"apiVersion": "v1", "kind": "Service", "name": "web", "namespace": "foo"}]}});
    fleet
        .change(&apps::SUBSCRIPTIONS, "default", "app", None, &feeds)
        .await;
    let told = fleet
        .await_events("Subscription", "app", "NonexistentService")
        .await;
    assert_eq!(told, ["Service foo/web in v1 does not exist"]);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let told = fleet
        .await_events("Subscription", "app", "NonexistentService")
        .await;
    assert_eq!(told.len(), 1, "one event for all clusters");

    // It is not applied, though all that is delivered is.
    for home in &homes {
        let description = fleet.await_one(&apps::DESCRIPTIONS, home).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": "foo", "observedStatus": {}});
        let status = json!({"phase": "Success", "observedGeneration": 9, "conditions": [], "manifestStatuses": [namespace]});
        let name = description["metadata"]["name"].as_str().unwrap();
        fleet.report(home, name, &status).await;
    }
    let says = |it: &serde_json::Value, words: &str| {
        let conditions = it["status"]["conditions"].as_array();
        let applied = conditions
            .into_iter()
            .flatten()
            .find(|it| it["type"] == "Applied");
        applied.is_some_and(|it| it["message"].as_str().unwrap().starts_with(words))
    };
    let subscriptions = &apps::SUBSCRIPTIONS;
    fleet
        .await_object(subscriptions, Some("default"), "app", |it| {
            says(it, "1 of 2 cluster(s): Service foo/web in v1 does not exist")
                || says(it, "2 of 2 cluster(s): Service foo/web in v1 does not exist")
        })
        .await;
    // Once its template is there, that is no longer what is amiss.
    fleet.manifest("v1", "Service", "foo", "web").await;
    fleet
        .await_object(subscriptions, Some("default"), "app", |it| {
            !says(it, "1 of 2 cluster(s): Service foo/web in v1 does not exist")
                && !says(it, "2 of 2 cluster(s): Service foo/web in v1 does not exist")
        })
        .await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn redoes_nothing_after_a_restart() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.heartbeat(&home, "edge-7").await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.subscribe(&[&home]).await;
    fleet.await_one(&apps::DESCRIPTIONS, &home).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let before = fleet.revisions().await;
    fleet.stop().await;
    fleet.run();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(fleet.revisions().await, before);
    fleet.stop().await;
}

/// A child may write its Descriptions. What it writes does not take them away from the parent.
#[tokio::test(start_paused = true)]
async fn a_description_that_its_child_disowns_stays_the_parents() {
    let mut fleet = Fleet::start().await;
    let home = fleet.join("edge-7").await;
    fleet.manifest("v1", "Namespace", "", "foo").await;
    fleet.manifest("apps/v1", "Deployment", "foo", "web").await;
    fleet.subscribe(&[&home]).await;
    let whole = fleet.await_one(&apps::DESCRIPTIONS, &home).await;
    let name = whole["metadata"]["name"].as_str().unwrap();
    let (uid, subscription) = ("apps.clusternet.io/config.uid", "apps.clusternet.io/subs.uid");
    for spoilt in [
        json!({"metadata": {"labels": {uid: null}}}),
        json!({"metadata": {"labels": {subscription: null}}}),
        json!({"metadata": {"ownerReferences": null}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"labels": {uid: "another", subscription: "another"}}}),
        json!({"metadata": {"labels": null, "ownerReferences": null, "finalizers": null}, "spec": {"raw": ["e30="]}}),
    ] {
        fleet
            .change(&apps::DESCRIPTIONS, &home, name, None, &spoilt)
            .await;
        fleet
            .await_object(&apps::DESCRIPTIONS, Some(&home), name, |it| {
                ["labels", "ownerReferences", "finalizers"]
                    .into_iter()
                    .all(|field| it["metadata"][field] == whole["metadata"][field])
                    && it["spec"] == whole["spec"]
            })
            .await;
    }
    // Nor from its end, when both come at once.
    let disowned = json!({"metadata": {"labels": null, "ownerReferences": null}});
    fleet.stop().await;
    fleet
        .change(&apps::DESCRIPTIONS, &home, name, None, &disowned)
        .await;
    fleet.delete(&apps::SUBSCRIPTIONS, Some("default"), "app").await;
    fleet.run();
    fleet.take_away(&home, name).await;
    fleet
        .await_gone(&apps::SUBSCRIPTIONS, Some("default"), "app")
        .await;
    fleet.stop().await;
}
