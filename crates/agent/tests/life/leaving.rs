//! Leaving takes everything along, on both sides, and may be repeated.

use agent::{Credential, Leaving, ParentConnector, leave};
use api::{annotations, apps, clusters, kubernetes, labels, names};
use machinery::meta;
use serde_json::json;

use crate::harness::{BOOTSTRAP, NAMESPACE, World, namespace};

/// A child whose agent has applied something and ended, and the child's id.
async fn with_an_application() -> (World, String) {
    let (world, agent) = World::joined().await;
    world.describe("app", &[namespace("shop")]).await;
    world.phase("app", "Success").await;
    let lease = world
        .child
        .get(&kubernetes::LEASES, Some("clusternet-system"), names::AGENT)
        .await
        .unwrap();
    let id = meta::uid(&lease).to_owned();
    let marks = json!({"metadata": {"labels": {labels::CREATED_BY: labels::CREATED_BY_AGENT, labels::CLUSTER_ID: id}}});
    world
        .change(&world.parent, &kubernetes::NAMESPACES, None, NAMESPACE, &marks)
        .await;
    agent.stop().await;
    (world, id)
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_the_clusters_own_and_can_be_taken_over() {
    let (world, _) = with_an_application().await;
    let spaces = &kubernetes::NAMESPACES;
    let before = world.child.get(spaces, None, "shop").await.unwrap();
    let keeping = Leaving {
        remove_objects: false,
        ..Leaving::default()
    };
    let left = leave(&world.child, Some(&world.parent), &keeping).await.unwrap();
    assert_eq!(left.remaining, Vec::<String>::new());
    assert_eq!(left.kept, ["Namespace shop"]);
    world
        .gone(&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app")
        .await;
    let kept = world.child.get(spaces, None, "shop").await.unwrap();
    assert_eq!(meta::uid(&kept), meta::uid(&before));
    assert_eq!(meta::annotation(&kept, annotations::OWNED_BY_DESCRIPTION), None);
    // It joins again, and is told of the same object by another Description.
    world.gone(&world.parent, spaces, None, NAMESPACE).await;
    world
        .parent
        .create(spaces, None, &namespace(NAMESPACE))
        .await
        .unwrap();
    let agent = world.agent();
    world.approve("token-2").await;
    world.describe("other", &[namespace("shop")]).await;
    world.phase("other", "Success").await;
    let taken = world.child.get(spaces, None, "shop").await.unwrap();
    assert_eq!(meta::uid(&taken), meta::uid(&before));
    assert_eq!(
        meta::annotation(&taken, annotations::OWNED_BY_DESCRIPTION),
        Some(format!("{NAMESPACE}.other").as_str())
    );
    agent.stop().await;
}

/// What cannot be looked through may have been left behind: it is told, kind by kind.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_listed_is_told() {
    let (world, _) = with_an_application().await;
    let credential = Credential {
        token: BOOTSTRAP.to_owned(),
        ca: None,
    };
    let parent = world.connector.connect(&credential).unwrap();
    let kinds = [
        clusters::MANAGED_CLUSTERS,
        apps::BASES,
        apps::HELM_RELEASES,
        apps::DESCRIPTIONS,
    ];
    for kind in &kinds {
        let list = format!(
            "GET /apis/{}/namespaces/{NAMESPACE}/{}",
            kind.api_version(),
            kind.plural
        );
        let mut unanswered = world.unanswered.lock().unwrap();
        unanswered.extend([format!("{list}?"), format!("{list}$")]);
    }
    let left = leave(&world.child, Some(&parent), &Leaving::default())
        .await
        .unwrap();
    for kind in &kinds {
        let expected = format!("every {} in {NAMESPACE}: ", kind.kind);
        let is_told = left.remaining.iter().any(|it| it.starts_with(&expected));
        assert!(is_told, "{expected} {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_behind() {
    let (world, id) = with_an_application().await;

    let left = leave(&world.child, Some(&world.parent), &Leaving::default())
        .await
        .unwrap();
    assert_eq!(left.remaining, Vec::<String>::new());
    assert!(!left.removed.is_empty());
    for (client, resource, namespace, name) in [
        (&world.parent, &apps::DESCRIPTIONS, Some(NAMESPACE), "app"),
        (
            &world.parent,
            &clusters::MANAGED_CLUSTERS,
            Some(NAMESPACE),
            "edge-7",
        ),
        (&world.parent, &kubernetes::NAMESPACES, None, NAMESPACE),
        (
            &world.parent,
            &clusters::REGISTRATION_REQUESTS,
            None,
            names::for_cluster(&id).as_str(),
        ),
        (&world.child, &kubernetes::NAMESPACES, None, "shop"),
        (
            &world.child,
            &kubernetes::SECRETS,
            Some("clusternet-system"),
            names::PARENT_CLUSTER_SECRET,
        ),
        (
            &world.child,
            &kubernetes::SECRETS,
            Some("clusternet-system"),
            names::AGENT_KEY_SECRET,
        ),
        (
            &world.child,
            &kubernetes::LEASES,
            Some("clusternet-system"),
            names::AGENT,
        ),
    ] {
        world.gone(client, resource, namespace, name).await;
    }
    let again = leave(&world.child, Some(&world.parent), &Leaving::default())
        .await
        .unwrap();
    assert_eq!(again, agent::Left::default());
}
