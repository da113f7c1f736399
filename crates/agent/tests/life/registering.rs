//! Becoming a member, staying one, and becoming one again.

use api::{clusters, kubernetes, labels, names};
use machinery::meta;
use serde_json::{Value, json};

use crate::harness::{NAMESPACE, World, end_of, lasting_token};

fn ready(cluster: &Value) -> Option<&str> {
    cluster["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == "Ready")?["status"]
        .as_str()
}

#[tokio::test(start_paused = true)]
async fn a_child_registers_reports_and_publishes_its_credential() {
    let mut world = World::start().await;
    world
        .config
        .cluster_labels
        .insert("region".into(), "north".into());
    world
        .child
        .create(
            &kubernetes::NAMESPACES,
            None,
            &crate::harness::namespace("clusternet-system"),
        )
        .await
        .unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": names::APP_DEPLOYER,
        "annotations": {"kubernetes.io/service-account.name": names::APP_DEPLOYER}}, "data": {"token": "dA==", "ca.crt": "cA=="}});
    world
        .child
        .create(&kubernetes::SECRETS, Some("clusternet-system"), &secret)
        .await
        .unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"node.clusternet.io/zone": "z"}}});
    world.child.create(&kubernetes::NODES, None, &node).await.unwrap();
    let agent = world.agent();
    let id = world.approve("token-1").await;

    let lease = world
        .child
        .get(&kubernetes::LEASES, Some("clusternet-system"), names::AGENT)
        .await
        .unwrap();
    assert_eq!(meta::uid(&lease), id, "the Lease is the identity");
    let request = world
        .parent
        .get(&clusters::REGISTRATION_REQUESTS, None, &names::for_cluster(&id))
        .await
        .unwrap();
    assert_eq!(request["spec"]["clusterLabels"], json!({"region": "north"}));

    let cluster = world
        .wait(
            &world.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
            |it| ready(it) == Some("True"),
        )
        .await;
    let status = &cluster["status"];
    assert!(
        status["k8sVersion"].as_str().unwrap().starts_with("v1."),
        "{status}"
    );
    assert_eq!(status["nodeStatistics"]["lostNodes"], 1);
    assert_eq!(status["heartbeatFrequencySeconds"], 180);
    let cluster = world
        .wait(
            &world.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
            |it| meta::label(it, "node.clusternet.io/zone") == Some("z"),
        )
        .await;
    assert_eq!(meta::label(&cluster, labels::CLUSTER_ID), Some(id.as_str()));

    let published = world
        .wait(
            &world.parent,
            &kubernetes::SECRETS,
            Some(NAMESPACE),
            names::CHILD_DEPLOYER_SECRET,
            |_| true,
        )
        .await;
    assert_eq!(published["data"]["token"], "dA==");
    agent.stop().await;
    let lease = world
        .child
        .get(&kubernetes::LEASES, Some("clusternet-system"), names::AGENT)
        .await
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "released");
}

#[tokio::test(start_paused = true)]
async fn a_second_start_uses_what_was_kept_and_asks_for_nothing() {
    let (world, agent) = World::joined().await;
    world
        .wait(
            &world.child,
            &kubernetes::SECRETS,
            Some("clusternet-system"),
            names::PARENT_CLUSTER_SECRET,
            |_| true,
        )
        .await;
    agent.stop().await;
    world.tokens.lock().unwrap().remove(crate::harness::BOOTSTRAP);
    // Times have seconds: the next report shall differ.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let before = world
        .parent
        .get(&clusters::MANAGED_CLUSTERS, Some(NAMESPACE), "edge-7")
        .await
        .unwrap();
    let agent = world.agent();
    world
        .wait(
            &world.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
            |it| meta::resource_version(it) != meta::resource_version(&before) && ready(it) == Some("True"),
        )
        .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_is_not_good_any_more_leads_back_to_the_bootstrap_token() {
    let mut world = World::start().await;
    world.config.report_interval = std::time::Duration::from_secs(10);
    let agent = world.agent();
    world.approve("token-1").await;
    world
        .wait(
            &world.child,
            &kubernetes::SECRETS,
            Some("clusternet-system"),
            names::PARENT_CLUSTER_SECRET,
            |_| true,
        )
        .await;
    world.tokens.lock().unwrap().remove("token-1");
    world.approve("token-2").await;
    let secret = world
        .wait(
            &world.child,
            &kubernetes::SECRETS,
            Some("clusternet-system"),
            names::PARENT_CLUSTER_SECRET,
            |it| it["data"]["token"] == "dG9rZW4tMg==",
        )
        .await;
    assert_eq!(meta::label(&secret, labels::CLUSTER_NAME), Some("edge-7"));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_any_good_token_an_agent_waits_until_it_has_one() {
    let mut world = World::start().await;
    world.config.report_interval = std::time::Duration::from_secs(10);
    let agent = world.agent();
    world.approve("token-1").await;
    world.tokens.lock().unwrap().clear();
    world.approve("token-2").await;
    tokio::time::sleep(std::time::Duration::from_hours(1)).await;
    world.describe("app", &[crate::harness::namespace("shop")]).await;
    world
        .tokens
        .lock()
        .unwrap()
        .insert(crate::harness::BOOTSTRAP.to_owned());
    world.phase("app", "Success").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_replica_takes_over_where_the_first_left() {
    let (mut world, first) = World::joined().await;
    world.describe("app", &[crate::harness::namespace("shop")]).await;
    world.phase("app", "Success").await;
    world.config.identity = "host_2".to_owned();
    let second = world.agent();
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    let leases = &kubernetes::LEASES;
    let lease = world
        .child
        .get(leases, Some("clusternet-system"), names::AGENT)
        .await
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "host_1", "the second waits");
    first.stop().await;
    world
        .wait(
            &world.child,
            leases,
            Some("clusternet-system"),
            names::AGENT,
            |it| it["spec"]["holderIdentity"] == "host_2",
        )
        .await;
    world
        .describe(
            "app",
            &[
                crate::harness::namespace("shop"),
                crate::harness::namespace("more"),
            ],
        )
        .await;
    world
        .wait(&world.child, &kubernetes::NAMESPACES, None, "more", |_| true)
        .await;
    let requests = world
        .parent
        .list(
            &clusters::REGISTRATION_REQUESTS,
            None,
            &kubeio::ListOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(requests.items.len(), 1, "the cluster is the same");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_authority_of_the_parent_is_taken_up_while_the_old_one_counts() {
    let (world, agent) = World::joined().await;
    let kept = async |authority: &str| {
        let secret = world
            .wait(
                &world.child,
                &kubernetes::SECRETS,
                Some("clusternet-system"),
                names::PARENT_CLUSTER_SECRET,
                |it| it["data"]["ca.crt"] == api::secret::encode(authority),
            )
            .await;
        assert_eq!(secret["data"]["token"], api::secret::encode("token-1"));
    };
    kept("pem").await;
    world.tokens.lock().unwrap().remove(crate::harness::BOOTSTRAP);

    // One that the parent does not take itself changes nothing.
    world.approve("junk").await;
    world.tokens.lock().unwrap().remove("junk");
    tokio::time::sleep(std::time::Duration::from_mins(20)).await;
    kept("pem").await;

    world.approve_by("token-1", "other pem").await;
    tokio::time::sleep(std::time::Duration::from_mins(8)).await;
    kept("other pem").await;
    world.describe("app", &[crate::harness::namespace("shop")]).await;
    world.phase("app", "Success").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rotated_credential_of_the_child_is_published() {
    let (world, agent) = World::joined().await;
    let (secrets, system) = (&kubernetes::SECRETS, Some("clusternet-system"));
    let published = async |token: &str| {
        world
            .wait(
                &world.parent,
                secrets,
                Some(NAMESPACE),
                names::CHILD_DEPLOYER_SECRET,
                |it| it["data"]["token"] == token,
            )
            .await;
    };
    for token in ["b25l", "dHdv"] {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": names::APP_DEPLOYER,
            "annotations": {"kubernetes.io/service-account.name": names::APP_DEPLOYER}},
            "data": {"token": token, "ca.crt": "cA=="}});
        drop(
            world
                .child
                .delete(
                    secrets,
                    system,
                    names::APP_DEPLOYER,
                    &kubeio::DeleteOptions::background(),
                )
                .await,
        );
        world.child.create(secrets, system, &object).await.unwrap();
        published(token).await;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_never_ends_is_exchanged_and_what_ends_is_renewed() {
    let mut world = World::start().await;
    world.config.token_lifetime = Some(std::time::Duration::from_hours(1));
    let agent = world.agent();
    let lasting = lasting_token();
    world.approve(&lasting).await;
    let (secrets, system) = (&kubernetes::SECRETS, Some("clusternet-system"));
    let end_kept = |secret: &Value| end_of(&api::secret::text(secret, "token").unwrap_or_default());
    let renewed = async |after: Option<i64>| {
        let name = names::PARENT_CLUSTER_SECRET;
        let is_new = |it: &Value| end_kept(it) > after;
        let secret = world.wait(&world.child, secrets, system, name, is_new).await;
        let end = end_kept(&secret).unwrap();
        let said = jiff::Timestamp::from_second(end).unwrap().to_string();
        let says =
            |it: &Value| meta::annotation(it, api::annotations::CREDENTIAL_ENDS) == Some(said.as_str());
        let clusters = &clusters::MANAGED_CLUSTERS;
        world
            .wait(&world.parent, clusters, Some(NAMESPACE), "edge-7", says)
            .await;
        end
    };
    let first = renewed(None).await;

    // It needs neither the old one nor the bootstrap token any more, and has the next in time, again and again.
    world.tokens.lock().unwrap().clear();
    tokio::time::sleep(std::time::Duration::from_mins(25)).await;
    let secret = world
        .child
        .get(secrets, system, names::PARENT_CLUSTER_SECRET)
        .await
        .unwrap();
    assert_eq!(end_kept(&secret), Some(first), "not before its time");
    let mut last = first;
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_mins(15)).await;
        last = renewed(Some(last)).await;
        tokio::time::sleep(std::time::Duration::from_mins(25)).await;
    }
    world.describe("app", &[crate::harness::namespace("shop")]).await;
    world.phase("app", "Success").await;

    // The next start goes on with what is kept.
    agent.stop().await;
    let agent = world.agent();
    world.describe("more", &[crate::harness::namespace("more")]).await;
    world.phase("more", "Success").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_is_kept_where_the_parent_gives_no_other_or_none_is_wanted() {
    for (lifetime, is_refused) in [(None, false), (Some(std::time::Duration::from_hours(1)), true)] {
        let mut world = World::start().await;
        world.config.token_lifetime = lifetime;
        let lasting = lasting_token();
        world
            .gives_tokens
            .store(!is_refused, std::sync::atomic::Ordering::SeqCst);
        let agent = world.agent();
        world.approve(&lasting).await;
        tokio::time::sleep(std::time::Duration::from_hours(2)).await;
        world.describe("app", &[crate::harness::namespace("shop")]).await;
        world.phase("app", "Success").await;
        let (secrets, system) = (&kubernetes::SECRETS, Some("clusternet-system"));
        let secret = world
            .child
            .get(secrets, system, names::PARENT_CLUSTER_SECRET)
            .await
            .unwrap();
        assert_eq!(api::secret::text(&secret, "token"), Some(lasting), "{lifetime:?}");
        let cluster = world
            .parent
            .get(&clusters::MANAGED_CLUSTERS, Some(NAMESPACE), "edge-7")
            .await
            .unwrap();
        assert_eq!(
            meta::annotation(&cluster, api::annotations::CREDENTIAL_ENDS),
            None
        );
        agent.stop().await;
    }
}
