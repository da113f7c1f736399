//! Renews what the agent holds: a token that ends, before it does; one that does not, when the parent's answer to the
//! request has another; and the parent's authority.
//!
//! Looking is in time for another authority. Another token without end ends the one before at once, for Kubernetes
//! compares such a token with the Secret that holds it: then the agent cannot look any more, is refused, and registers
//! again.

use std::time::Duration;

use api::{clusters, names};
use clock::Env;
use kubeio::Client;

use crate::error::chain;
use crate::exchange::{self, Claims};
use crate::parent::ParentConnector;
use crate::registration::{self, Answer, Membership};

/// Between two looks at the answer; up to half as much more at random.
const LOOK_PERIOD: Duration = Duration::from_mins(5);

/// Waits until there is another credential that the parent takes: its own doing, or a token in the place of one that is
/// due.
pub(crate) async fn renewed(
    parent: &Client,
    connector: &dyn ParentConnector,
    cluster_id: &str,
    held: &Membership,
    lifetime: Option<Duration>,
    env: &Env,
) -> Membership {
    loop {
        match look(parent, connector, cluster_id, held).await {
            Ok(Some(membership)) => return membership,
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(cluster = %cluster_id, error = %chain(&error), "no look for a new credential");
            }
        }
        let share = u32::try_from(env.random_u64() % 500).expect("below 500");
        tokio::time::sleep(LOOK_PERIOD + LOOK_PERIOD * share / 1_000).await;
        if let Some(membership) = exchange::exchange(parent, held, lifetime, env.now()).await {
            return membership;
        }
    }
}

async fn look(
    parent: &Client,
    connector: &dyn ParentConnector,
    cluster_id: &str,
    held: &Membership,
) -> Result<Option<Membership>, kubeio::Error> {
    let (requests, name) = (&clusters::REGISTRATION_REQUESTS, names::for_cluster(cluster_id));
    let request = parent.get(requests, None, &name).await?;
    if Claims::of(&held.credential.token).is_some_and(|claims| claims.ends.is_some()) {
        return exchange::with_authority(connector, held, &request).await;
    }
    let Answer::Approved(offered) = registration::answer(&request) else {
        return Ok(None);
    };
    if offered.credential == held.credential {
        return Ok(None);
    }
    // The answer may be the older of the two: whoever replaced the held one by hand did not change the answer.
    let with_it = connector.connect(&offered.credential)?;
    with_it.get(requests, None, &name).await.map(|_| Some(offered))
}
