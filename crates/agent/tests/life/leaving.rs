//! Leaving takes everything along, on both sides, and may be repeated.

use agent::{Leaving, leave};
use api::{apps, clusters, kubernetes, labels, names};
use kubeio::Patch;
use serde_json::json;

use crate::harness::{NAMESPACE, World, namespace};

#[tokio::test(start_paused = true)]
async fn nothing_is_left_behind() {
    let (world, agent) = World::joined().await;
    world.describe("app", &[namespace("shop")]).await;
    world.phase("app", "Success").await;
    let lease = world
        .child
        .get(&kubernetes::LEASES, Some("clusternet-system"), names::AGENT)
        .await
        .unwrap();
    let id = machinery::meta::uid(&lease).to_owned();
    let marks = json!({"metadata": {"labels": {labels::CREATED_BY: labels::CREATED_BY_AGENT, labels::CLUSTER_ID: id}}});
    world
        .parent
        .patch(
            &kubernetes::NAMESPACES,
            None,
            NAMESPACE,
            None,
            Patch::Merge,
            &marks,
        )
        .await
        .unwrap();
    agent.stop().await;

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
