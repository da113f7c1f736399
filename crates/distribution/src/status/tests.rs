use super::*;

const DEPLOYMENT: &str =
    r#"{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "foo", "name": "web"}"#;
const NAMESPACE: &str = r#"{"apiVersion": "v1", "kind": "Namespace", "name": "foo"}"#;

fn feed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn subscription() -> Value {
    json!({"kind": "Subscription", "metadata": {"namespace": "default", "name": "app", "uid": "u"},
           "spec": {"feeds": [feed(DEPLOYMENT), feed(NAMESPACE)]},
           "status": {"bindingClusters": ["ns-a/a", "ns-b/b", "ns-gone/c"]}})
}

fn description(cluster: &str, phase: &str, observed: &Value) -> Arc<Value> {
    let mut entry = feed(DEPLOYMENT);
    entry["observedStatus"] = observed.clone();
    let mut stranger = feed(NAMESPACE);
    stranger["kind"] = json!("Stranger");
    Arc::new(
        json!({"metadata": {"namespace": format!("ns-{cluster}"), "name": "app-x-generic"},
        "spec": {"raw": ["", ""]}, "status": {"phase": phase, "manifestStatuses": [entry, stranger]}}),
    )
}

fn run(subscription: &Value, descriptions: &[Arc<Value>]) -> Plan {
    run_with(subscription, descriptions, &[])
}

fn run_with(subscription: &Value, descriptions: &[Arc<Value>], bases: &[Arc<Value>]) -> Plan {
    let cluster = |namespace: &str, name: &str| {
        let known = namespace == format!("ns-{name}");
        known.then(|| {
            Arc::new(json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterId": name}}))
        })
    };
    plan(&View {
        subscription,
        descriptions,
        bases,
        cluster: &cluster,
        template: &|feed| (feed.name != "nonesuch").then(|| Arc::new(json!({}))),
        now: Timestamp::UNIX_EPOCH,
    })
}

fn ready(replicas: i64) -> Value {
    json!({"observedGeneration": replicas, "replicas": replicas, "updatedReplicas": replicas,
           "readyReplicas": replicas, "availableReplicas": replicas})
}

#[test]
fn sums_up_what_clusters_report() {
    let starting =
        json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "unavailableReplicas": 3});
    let reports = [
        description("a", "Success", &ready(2)),
        description("b", "Success", &starting),
    ];
    let plan = run(&subscription(), &reports);
    let Action::Patch {
        patch, subresource, ..
    } = &plan.actions[0]
    else {
        panic!()
    };
    assert_eq!(*subresource, Some("status"));
    let status = &patch["status"];
    assert_eq!(status["completedReleases"], 1);
    let web = &status["aggregatedStatuses"][0];
    assert_eq!(
        web["feedStatusSummary"],
        json!({"available": false, "replicaStatus": {"observedGeneration": 2, "replicas": 5, "updatedReplicas": 5,
               "readyReplicas": 2, "availableReplicas": 2, "unavailableReplicas": 3}})
    );
    assert_eq!(web["feedStatusDetails"][0]["clusterName"], "a");
    assert_eq!(
        web["feedStatusDetails"].as_array().unwrap().len(),
        2,
        "an unknown cluster is left out"
    );
    assert_eq!(
        status["aggregatedStatuses"][1]["feedStatusSummary"],
        json!({"available": true, "replicaStatus": {}})
    );
}

#[test]
fn a_status_about_an_earlier_generation_does_not_count() {
    let mut stateful = feed(DEPLOYMENT);
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        stateful["kind"] = json!(kind);
        stateful["observedStatus"] = ready(3);
        for (generation, expected) in [
            (Value::Null, None),
            (json!(3), None),
            (json!(4), Some("has not begun with its newest state")),
        ] {
            stateful["generation"] = generation;
            assert_eq!(
                report::row(&stateful, true).why.as_deref(),
                expected,
                "{stateful}"
            );
        }
    }
}

#[test]
fn asks_for_nothing_once_it_is_written() {
    let mut subscription = subscription();
    let reports = [
        description("a", "Success", &ready(2)),
        description("b", "Success", &ready(1)),
    ];
    let first = run(&subscription, &reports);
    let Action::Patch { patch, .. } = &first.actions[0] else {
        panic!()
    };
    for (field, value) in patch["status"].as_object().unwrap() {
        subscription["status"][field] = value.clone();
    }
    assert_eq!(subscription["status"]["completedReleases"], 2);
    assert_eq!(run(&subscription, &reports), Plan::default());
}

#[test]
fn counts_silence_as_not_available() {
    let plan = run(&subscription(), &[]);
    let Action::Patch { patch, .. } = &plan.actions[0] else {
        panic!()
    };
    assert_eq!(
        patch["status"]["aggregatedStatuses"][1]["feedStatusSummary"]["available"],
        false
    );
    assert_eq!(patch["status"]["completedReleases"], 0);
}

#[test]
fn knows_when_each_kind_is_available() {
    let table = [
        ("apps/v1", "Deployment", ready(3), true),
        ("apps/v1", "Deployment", json!({"observedGeneration": 1}), true),
        ("apps/v1", "Deployment", json!({}), false),
        (
            "apps/v1",
            "StatefulSet",
            json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}),
            false,
        ),
        (
            "apps/v1",
            "DaemonSet",
            json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2}),
            true,
        ),
        ("batch/v1", "Job", json!({}), false),
        ("batch/v1", "Job", json!({"active": 1}), true),
        (
            "batch/v1",
            "Job",
            json!({"failed": 3, "conditions": [{"type": "Failed", "status": "True"}]}),
            false,
        ),
        ("v1", "ConfigMap", json!({}), true),
    ];
    for (api_version, kind, status, expected) in table {
        let entry = json!({"apiVersion": api_version, "kind": kind, "name": "x", "observedStatus": status});
        for applied in [true, false] {
            assert_eq!(
                report::row(&entry, applied).is_available(),
                expected,
                "{kind} {status}"
            );
        }
    }
}

#[test]
fn what_was_refused_is_not_available() {
    const ROLE: &str =
        r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "evil"}"#;
    const CHART: &str = r#"{"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart", "namespace": "foo", "name": "sql"}"#;
    let refused = json!([feed(ROLE)]);
    let mut seen = refused.clone();
    seen[0]["observedStatus"] = json!({});
    // The Description's phase, what it lists, what it is for, and whether that is available.
    for (phase, entries, of, expected) in [
        ("Success", json!([]), ROLE, true),
        ("Failure", json!([]), ROLE, false),
        ("Success", refused.clone(), ROLE, true),
        ("Failure", refused.clone(), ROLE, false),
        ("Pending", refused.clone(), ROLE, false),
        ("Failure", seen.clone(), ROLE, true),
        ("Failure", refused, DEPLOYMENT, false),
        ("Success", seen, CHART, false),
    ] {
        let mut subscription = subscription();
        subscription["spec"]["feeds"] = json!([feed(of)]);
        subscription["status"]["bindingClusters"] = json!(["ns-a/a"]);
        let report = json!({"metadata": {"namespace": "ns-a", "name": "app-x-generic"}, "spec": {"raw": [""]},
            "status": {"phase": phase, "manifestStatuses": entries}});
        let plan = run(&subscription, &[Arc::new(report)]);
        let Action::Patch { patch, .. } = &plan.actions[0] else {
            panic!()
        };
        let status = &patch["status"];
        let available = &status["aggregatedStatuses"][0]["feedStatusSummary"]["available"];
        assert_eq!(available, expected, "{phase} {entries} {of}");
        assert_eq!(status["completedReleases"], i32::from(expected));
    }
    let charts = json!([{"namespace": "foo", "name": "sql"}]);
    for (phase, expected) in [("Success", true), ("Installing", false)] {
        let helm = json!({"metadata": {"namespace": "ns-a"}, "spec": {"charts": charts}, "status": {"phase": phase}});
        let report = Report::of(&[&Arc::new(helm)]);
        assert_eq!(
            report.row(&Feed::from_value(&feed(CHART)), 0).is_available(),
            expected
        );
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == kind).unwrap()
}

#[test]
fn conditions_count_clusters_by_cause_and_keep_what_others_say() {
    let mut subscription = subscription();
    subscription["metadata"]["resourceVersion"] = json!("7");
    let scheduled = json!({"type": "Scheduled", "status": "True", "reason": "Bound", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    subscription["status"]["conditions"] = json!([scheduled]);
    let half = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1});
    let mut refused = Value::clone(&description("b", "Failure", &half));
    refused["status"]["reason"] = json!("Service foo/web: Description ns-b/other wants it, too");
    let reports = [description("a", "Success", &half), Arc::new(refused)];
    let plan = run(&subscription, &reports);
    let Action::Patch { patch, .. } = &plan.actions[0] else {
        panic!()
    };
    assert_eq!(
        patch["metadata"]["resourceVersion"], "7",
        "others write the list, too"
    );
    let status = &patch["status"];
    assert_eq!(condition(status, "Scheduled"), &scheduled);
    let applied = condition(status, "Applied");
    assert_eq!(
        (&applied["status"], &applied["reason"]),
        (&json!("False"), &json!("NotApplied"))
    );
    assert_eq!(
        applied["message"],
        "1 of 3 cluster(s): Service foo/web: Description other wants it, too (b); 1 of 3 cluster(s): the cluster is not known (c)"
    );
    assert_eq!(
        condition(status, "Available")["message"],
        "2 of 3 cluster(s): Deployment foo/web has 1 of 2 replicas (a, b); 1 of 3 cluster(s): Namespace foo is not \
         reported (b); 1 of 3 cluster(s): the cluster is not known (c)"
    );

    subscription["status"]["bindingClusters"] = json!(["ns-a/a", "ns-b/b"]);
    let reports = [
        description("a", "Success", &ready(2)),
        description("b", "Success", &ready(2)),
    ];
    let plan = run(&subscription, &reports);
    let Action::Patch { patch, .. } = &plan.actions[0] else {
        panic!()
    };
    for kind in ["Applied", "Available"] {
        let condition = condition(&patch["status"], kind);
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("True"), &json!(kind))
        );
    }
    subscription["status"]["bindingClusters"] = json!([]);
    let plan = run(&subscription, &[]);
    let Action::Patch { patch, .. } = &plan.actions[0] else {
        panic!()
    };
    assert_eq!(condition(&patch["status"], "Applied")["reason"], "NoClusters");
}

#[test]
fn what_was_applied_of_an_older_generation_is_not_applied() {
    for (seen, expected) in [(Some(1), "False"), (Some(2), "True"), (None, "True")] {
        let mut subscription = subscription();
        subscription["status"]["bindingClusters"] = json!(["ns-a/a"]);
        let mut report = Value::clone(&description("a", "Success", &ready(1)));
        report["metadata"]["generation"] = json!(2);
        if let Some(seen) = seen {
            report["status"]["observedGeneration"] = json!(seen);
        }
        let plan = run(&subscription, &[Arc::new(report)]);
        let Action::Patch { patch, .. } = &plan.actions[0] else {
            panic!()
        };
        assert_eq!(condition(&patch["status"], "Applied")["status"], expected);
    }
}

#[test]
fn what_was_not_delivered_is_neither_applied_nor_available() {
    const MAP: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "sec", "name": "extra"}"#;
    const NO_TEMPLATE: &str =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "sec", "name": "nonesuch"}"#;
    const CHART: &str = r#"{"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart", "namespace": "sec", "name": "sql"}"#;
    let mut web = feed(DEPLOYMENT);
    web["observedStatus"] = ready(1);
    let (there, extra) = ([web.clone(), feed(NAMESPACE)], feed(MAP));
    let whole = [web.clone(), feed(NAMESPACE), extra];
    // What is added, whether the agent is ours, how many objects are delivered, what is reported, and what is amiss.
    type Case<'a> = (&'a str, bool, usize, &'a [Value], Option<&'a str>);
    let rows: [Case<'_>; 9] = [
        (MAP, true, 2, &there, Some("ConfigMap sec/extra is not delivered")),
        (
            MAP,
            false,
            2,
            &there,
            Some("ConfigMap sec/extra may not be delivered: 2 of 3 object(s) are"),
        ),
        (
            MAP,
            false,
            2,
            &[],
            Some("ConfigMap sec/extra may not be delivered: 2 of 3 object(s) are"),
        ),
        (MAP, true, 3, &whole, None),
        (MAP, false, 3, &there, None),
        (
            NO_TEMPLATE,
            true,
            2,
            &there,
            Some("ConfigMap sec/nonesuch in v1 does not exist"),
        ),
        (
            NO_TEMPLATE,
            false,
            2,
            &[],
            Some("ConfigMap sec/nonesuch in v1 does not exist"),
        ),
        // Another takes its place.
        (
            NO_TEMPLATE,
            true,
            3,
            &whole,
            Some("ConfigMap sec/nonesuch in v1 does not exist"),
        ),
        (CHART, true, 2, &there, Some("HelmChart sec/sql is not delivered")),
    ];
    for (added, is_ours, delivered, reported, amiss) in rows {
        let mut subscription = subscription();
        subscription["spec"]["feeds"] = json!([feed(DEPLOYMENT), feed(NAMESPACE), feed(added)]);
        subscription["status"]["bindingClusters"] = json!(["ns-a/a"]);
        let mut report = json!({"metadata": {"namespace": "ns-a", "name": "app-x-generic", "generation": 2},
            "spec": {"deployer": "Generic", "raw": vec![""; delivered]},
            "status": {"phase": "Success", "manifestStatuses": reported}});
        if is_ours {
            report["status"]["observedGeneration"] = json!(2);
            report["status"]["conditions"] = json!([]);
        }
        let status = written(&subscription, &[Arc::new(report)]);
        let (applied, available) = (condition(&status, "Applied"), condition(&status, "Available"));
        let case = format!("{added} {is_ours} {delivered}");
        match amiss {
            Some(amiss) => {
                let expected = format!("1 of 1 cluster(s): {amiss} (a)");
                for condition in [applied, available] {
                    assert_eq!(condition["status"], "False", "{case}");
                    let message = condition["message"].as_str().unwrap();
                    assert!(message.contains(&expected), "{case}: {message}");
                }
                if is_ours {
                    assert_eq!(applied["message"], expected, "and nothing else: {case}");
                }
            }
            None => assert_eq!(applied["status"], "True", "{case}: {applied}"),
        }
        assert_eq!(
            status["aggregatedStatuses"][2]["feedStatusDetails"][0]["available"],
            amiss.is_none(),
            "{case}"
        );
    }
}

/// A Subscription of so many clusters and Deployments, and what its clusters say: `of` picks the replicas of each that
/// are ready, out of 3.
fn fleet(clusters: usize, feeds: usize, of: impl Fn(usize, usize) -> i64) -> (Value, Vec<Arc<Value>>) {
    let feeds: Vec<Value> = (0..feeds)
        .map(|feed| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": format!("web-{feed}")}))
        .collect();
    let bound: Vec<String> = (0..clusters)
        .map(|cluster| format!("ns-edge-{cluster:05}/edge-{cluster:05}"))
        .collect();
    let reports = (0..clusters).map(|cluster| {
        let entries = feeds.iter().enumerate().map(|(index, feed)| {
            let ready = of(cluster, index);
            let mut entry = feed.clone();
            entry["observedStatus"] = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3,
                "readyReplicas": ready, "availableReplicas": ready, "unavailableReplicas": 3 - ready});
            entry
        });
        let entries: Vec<Value> = entries.collect();
        Arc::new(
            json!({"metadata": {"namespace": format!("ns-edge-{cluster:05}"), "name": "app-x-generic"},
            "status": {"phase": "Success", "manifestStatuses": entries}}),
        )
    });
    let reports = reports.collect();
    let subscription = json!({"kind": "Subscription",
        "metadata": {"namespace": "default", "name": "app", "uid": "u", "resourceVersion": "1"},
        "spec": {"feeds": feeds}, "status": {"bindingClusters": bound}});
    (subscription, reports)
}

/// The status after a plan is carried out; its binding left out.
fn written(subscription: &Value, reports: &[Arc<Value>]) -> Value {
    let plan = run(subscription, reports);
    let patch = plan.actions.iter().find_map(|action| match action {
        Action::Patch { patch, .. } => Some(patch["status"].clone()),
        Action::Create { .. } | Action::Delete { .. } | Action::Event { .. } => None,
    });
    patch.unwrap_or_default()
}

#[test]
fn the_status_of_5000_clusters_is_small_and_still_says_all_that_matters() {
    let (mut subscription, reports) = fleet(5_000, 2, |cluster, feed| match (cluster, feed) {
        (7 | 9, 0) => 1,
        (cluster, 0) if cluster % 100 == 50 => 0,
        _ => 3,
    });
    let status = written(&subscription, &reports);
    assert!(shorten::size(&status) <= 100_000, "{}", shorten::size(&status));
    assert_eq!(status["completedReleases"], 4_948);
    let web = &status["aggregatedStatuses"][0];
    assert_eq!(web["feedStatusSummary"]["available"], false);
    assert_eq!(
        web["feedStatusSummary"]["replicaStatus"]["readyReplicas"],
        3 * 5_000 - 2 * 2 - 3 * 50
    );
    let named: Vec<&str> = web["feedStatusDetails"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|detail| detail["available"] == false)
        .map(|detail| detail["clusterName"].as_str().unwrap())
        .collect();
    assert!(named.contains(&"edge-00007") && named.contains(&"edge-00009") && named.contains(&"edge-00050"));
    assert_eq!(
        named.len(),
        12,
        "all of the rare cause, the first ten of the other"
    );
    assert_eq!(
        condition(&status, "Available")["message"],
        "50 of 5000 cluster(s): Deployment shop/web-0 has 0 of 3 replicas (edge-00050, edge-00150, edge-00250, …); 2 of \
         5000 cluster(s): Deployment shop/web-0 has 1 of 3 replicas (edge-00007, edge-00009)"
    );
    assert_eq!(
        condition(&status, "Shortened")["message"],
        "the details show the first examples of each cause, 32 of 10000 in all, and 2 of 2 feed(s); sums are of all \
         clusters"
    );
    // Once it is written there is nothing more to say, and once all is said again nothing is shortened.
    for (field, value) in status.as_object().unwrap() {
        subscription["status"][field] = value.clone();
    }
    assert_eq!(run(&subscription, &reports), Plan::default());
    subscription["status"]["bindingClusters"] = json!(["ns-edge-00001/edge-00001"]);
    let status = written(&subscription, &reports);
    let kinds: Vec<&Value> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["type"])
        .collect();
    assert_eq!(kinds, ["Applied", "Available"]);
}

#[test]
fn a_status_that_cannot_be_stored_leaves_the_old_one() {
    let (mut subscription, reports) = fleet(20, 1, |_, _| 3);
    subscription["spec"]["pad"] = json!("x".repeat(STORABLE));
    let plan = run(&subscription, &reports);
    assert!(!plan.writes());
    let Next::Blocked(why) = &plan.next else { panic!() };
    assert!(
        why.contains("its status stays as it was") && why.contains("1400000"),
        "{why}"
    );
    let [Action::Event { reason, note, .. }] = plan.actions.as_slice() else {
        panic!()
    };
    assert_eq!((reason.as_str(), note), (reasons::FAILED_AGGREGATE_STATUS, why));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(12))]

    /// However many clusters and feeds there are and whatever they say, the status is bounded, the same for the same
    /// state, whatever the order in which it is read, and its sums are exact.
    #[test]
    fn is_bounded_and_always_the_same(clusters in 0_usize..300, feeds in 0_usize..30, seed in 0_usize..1_000) {
        let of = |cluster: usize, feed: usize| ((cluster * 31 + feed * 17 + seed) % 5).min(3) as i64;
        let (subscription, mut reports) = fleet(clusters, feeds, of);
        let status = written(&subscription, &reports);
        proptest::prop_assert!(shorten::size(&status) <= 100_000);
        proptest::prop_assert!(shorten::size(&status["aggregatedStatuses"]) <= shorten::BUDGET);
        reports.reverse();
        proptest::prop_assert_eq!(&written(&subscription, &reports), &status);
        for (feed, entry) in status["aggregatedStatuses"].as_array().into_iter().flatten().enumerate() {
            let ready: i64 = (0..clusters).map(|cluster| of(cluster, feed)).sum();
            let said = entry["feedStatusSummary"]["replicaStatus"]["readyReplicas"].as_i64();
            proptest::prop_assert_eq!(said.unwrap_or(0), ready);
        }
    }
}

#[test]
fn more_feeds_than_fit_are_counted_and_those_that_are_not_available_come_first() {
    let (subscription, reports) = fleet(2, 1_000, |_, feed| if feed == 900 { 0 } else { 3 });
    let status = written(&subscription, &reports);
    assert!(shorten::size(&status) <= 100_000);
    let feeds = status["aggregatedStatuses"].as_array().unwrap();
    assert!(feeds.len() < 1_000);
    let broken = feeds.iter().find(|feed| feed["name"] == "web-900").unwrap();
    assert_eq!(broken["feedStatusDetails"].as_array().unwrap().len(), 2);
    assert!(
        condition(&status, "Shortened")["message"]
            .as_str()
            .unwrap()
            .contains(&format!("{} of 1000 feed(s)", feeds.len()))
    );
}

#[test]
fn what_cannot_be_made_for_a_cluster_is_not_applied_there_though_what_was_made_before_is() {
    let mut subscription = subscription();
    subscription["status"]["bindingClusters"] = json!(["ns-a/a", "ns-b/b"]);
    let reports = [
        description("a", "Success", &ready(2)),
        description("b", "Success", &ready(2)),
    ];
    let applied = |bases: &[Arc<Value>]| {
        let plan = run_with(&subscription, &reports, bases);
        let Action::Patch { patch, .. } = &plan.actions[0] else {
            panic!()
        };
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .find(|it| it["type"] == "Applied")
            .unwrap()
            .clone()
    };
    assert_eq!(applied(&[])["status"], "True");
    let base = |annotations: Value| {
        Arc::new(json!({"metadata": {"namespace": "ns-b", "name": "app-x", "annotations": annotations}}))
    };
    assert_eq!(applied(&[base(json!({}))])["status"], "True");
    let blocked = applied(&[base(
        json!({"apps.tombolo.io/blocked": "ConfigMap foo/c does not exist"}),
    )]);
    assert_eq!(blocked["status"], "False");
    let message = blocked["message"].as_str().unwrap();
    assert!(
        message.contains("ConfigMap foo/c does not exist") && message.contains("(b)"),
        "{message}"
    );
}
