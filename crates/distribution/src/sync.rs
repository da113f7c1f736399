//! Who brings a Description's objects into a child: the one place that reads the sync mode. Agent and parent ask the
//! same function, so that it is never both.

use std::fmt;

use api::clusters::SyncMode;
use api::names;
use serde_json::Value;

/// Who brings objects into a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployer {
    /// The agent in the child.
    Agent,
    /// The controllers on the parent.
    Parent,
    /// Nobody, for now.
    Nobody(Impasse),
}

/// Why nobody deploys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impasse {
    /// The agent has not said yet whether the parent may.
    Unsaid,
    /// The agent does not let the parent.
    Forbidden,
}

impl fmt::Display for Impasse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsaid => "the cluster's sync mode is Push, and its agent has not said yet that the parent may push",
            Self::Forbidden => {
                "the cluster's sync mode is Push, and its agent does not let the parent push: switch its feature gate \
                 AppPusher on, or set spec.syncMode to Pull"
            }
        })
    }
}

/// The matrix of sync modes. `app_pusher` is whether the agent lets the parent push (its gate, `status.appPusher`);
/// `None` as long as it has not said.
pub fn deployer(mode: SyncMode, app_pusher: Option<bool>) -> Deployer {
    match (mode, app_pusher) {
        (SyncMode::Push | SyncMode::Dual, Some(true)) => Deployer::Parent,
        (SyncMode::Pull, _) | (SyncMode::Dual, Some(false) | None) => Deployer::Agent,
        (SyncMode::Push, Some(false)) => Deployer::Nobody(Impasse::Forbidden),
        (SyncMode::Push, None) => Deployer::Nobody(Impasse::Unsaid),
    }
}

/// The sync mode of a ManagedCluster, if it says one that is known.
pub fn mode(cluster: &Value) -> Option<SyncMode> {
    SyncMode::parse(cluster["spec"]["syncMode"].as_str()?)
}

/// Who deploys into the child of a ManagedCluster, as the parent sees it.
pub fn deployer_of(cluster: &Value) -> Deployer {
    let app_pusher = cluster["status"]["appPusher"].as_bool();
    deployer(mode(cluster).unwrap_or(SyncMode::Pull), app_pusher)
}

/// Whether the parent takes out of a child what its Descriptions ask for no longer, though the agent applies: agents of
/// upstream never do that themselves. Ours say who they are.
pub fn parent_prunes(cluster: &Value) -> bool {
    let agent = cluster["status"]["agentVersion"].as_str().unwrap_or_default();
    deployer_of(cluster) == Deployer::Agent && !agent.is_empty() && !agent.starts_with(names::OWN_AGENT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_matrix_of_sync_modes() {
        use Deployer::{Agent, Nobody, Parent};
        use Impasse::{Forbidden, Unsaid};
        for (mode, pusher, expected) in [
            (json!("Pull"), json!(true), Agent),
            (json!("Pull"), json!(false), Agent),
            (json!("Pull"), json!(null), Agent),
            (json!("Push"), json!(true), Parent),
            (json!("Push"), json!(false), Nobody(Forbidden)),
            (json!("Push"), json!(null), Nobody(Unsaid)),
            (json!("Dual"), json!(true), Parent),
            (json!("Dual"), json!(false), Agent),
            (json!("Dual"), json!(null), Agent),
            (json!(null), json!(true), Agent),
            (json!("push"), json!(true), Agent),
        ] {
            let cluster = json!({"spec": {"syncMode": mode}, "status": {"appPusher": pusher}});
            assert_eq!(deployer_of(&cluster), expected, "{cluster}");
        }
    }

    #[test]
    fn the_parent_prunes_for_agents_that_do_not() {
        for (mode, agent, expected) in [
            ("Pull", "v0.18.0", true),
            ("Pull", "tombolo/0.1.0", false),
            ("Pull", "", false),
            ("Dual", "v0.18.0", true),
            ("Push", "v0.18.0", false),
        ] {
            let status = json!({"appPusher": mode == "Push", "agentVersion": agent});
            let cluster = json!({"spec": {"syncMode": mode}, "status": status});
            assert_eq!(parent_prunes(&cluster), expected, "{cluster}");
        }
    }
}
