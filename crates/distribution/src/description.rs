//! What the parent does about a Description: it lets go of one whose child is lost.
//!
//! The agent applies a Description and takes its objects away again. When the child will not answer, nobody would
//! ever drop the finalizer, so the parent does.

use std::sync::Arc;
use std::time::Duration;

use api::{apps, finalizers, reasons};
use machinery::meta;
use serde_json::Value;

use crate::action::{Action, Next, Plan, remove_finalizers};

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Description.
    pub description: &'a Value,
    /// The ManagedClusters in its namespace; one normally.
    pub clusters: &'a [Arc<Value>],
    /// The HelmReleases that carry the Description's uid.
    pub releases: &'a [Arc<Value>],
    /// For how long the cluster has been saying that it is not ready; zero if it is, or if nobody can tell.
    pub unready_for: Duration,
}

/// For how long a child may say that it is not ready before its objects are given up.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// What to do about a Description.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let description = view.description;
    if !meta::is_deleting(description) {
        return plan;
    }
    let (lost, patience) = match loss(view) {
        Loss::No => (None, None),
        Loss::Later(patience) => (None, Some(patience)),
        Loss::Yes(why) => (Some(why), None),
    };
    for release in view.releases {
        if !meta::is_deleting(release) {
            plan.push(Action::delete(&apps::HELM_RELEASES, release));
        } else if lost.is_some()
            && let Some(patch) = remove_finalizers(release, &[finalizers::APP])
        {
            plan.push(Action::patch(&apps::HELM_RELEASES, release, patch));
        }
    }
    if lost.is_none() && description["spec"]["deployer"] == "Helm" && view.releases.is_empty() {
        // Releases are all that such a one has, and no agent looks at it.
        if let Some(patch) = remove_finalizers(description, &[finalizers::APP]) {
            plan.push(Action::patch(&apps::DESCRIPTIONS, description, patch));
        }
        return plan;
    }
    let Some(lost) = lost else {
        let waiting = || Next::Blocked("waiting for the agent to take the objects away".to_owned());
        plan.next = patience.map_or_else(waiting, Next::Again);
        return plan;
    };
    if !view.releases.is_empty() {
        plan.next = Next::Blocked(format!(
            "waiting for {} HelmRelease(s) to be deleted",
            view.releases.len()
        ));
        return plan;
    }
    if let Some(patch) = remove_finalizers(description, &[finalizers::APP]) {
        plan.push(Action::warning(
            description,
            reasons::FAILED_DELETING_DESCRIPTION,
            format!("the objects in the child are left alone: {lost}"),
        ));
        plan.push(Action::patch(&apps::DESCRIPTIONS, description, patch));
    }
    plan
}

/// Whether the child cannot take its objects away.
enum Loss {
    /// It can, or there is hope.
    No,
    /// There is hope for this long.
    Later(Duration),
    /// It cannot, and why.
    Yes(String),
}

/// Whether there is hope for a child.
///
/// One that has not said anything yet is not lost: its first heartbeat may be on its way, and the life cycle declares
/// it `Unknown` after its grace period. One that is taken out of the fleet is not lost while it answers: it takes its
/// objects away before its credential goes. One that says itself that it is not ready has an agent that goes on
/// trying, so it gets [`PATIENCE`].
fn loss(view: &View<'_>) -> Loss {
    let Some(cluster) = view.clusters.first() else {
        return Loss::Yes("there is no ManagedCluster in the namespace".to_owned());
    };
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let Some(ready) = conditions
        .into_iter()
        .find(|condition| condition["type"] == reasons::READY)
    else {
        return Loss::No;
    };
    let status = ready["status"].as_str().unwrap_or_default();
    match status {
        "True" => Loss::No,
        "False" if view.unready_for < PATIENCE => Loss::Later(PATIENCE - view.unready_for),
        _ => Loss::Yes(format!(
            "ManagedCluster \"{}\" is not ready (Ready is {status})",
            meta::name(cluster)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(ready: Option<&str>) -> Arc<Value> {
        let conditions: Vec<Value> = ready
            .iter()
            .map(|status| json!({"type": "Ready", "status": status}))
            .collect();
        Arc::new(json!({"metadata": {"name": "edge-7"}, "status": {"conditions": conditions}}))
    }

    #[test]
    fn lets_a_description_of_charts_go_with_its_last_release() {
        let description = json!({"kind": "Description", "spec": {"deployer": "Helm"}, "metadata": {
            "namespace": "ns", "name": "d", "finalizers": ["apps.clusternet.io/finalizer"], "deletionTimestamp": "x"}});
        let release = Arc::new(json!({"metadata": {"name": "r", "deletionTimestamp": "x"}}));
        for (releases, patches) in [(&[][..], 1), (&[release][..], 0)] {
            let plan = plan(&View {
                description: &description,
                clusters: &[cluster(Some("True"))],
                releases,
                unready_for: Duration::ZERO,
            });
            assert_eq!(plan.actions.len(), patches, "{plan:?}");
        }
    }

    fn check(deleting: bool, clusters: &[Arc<Value>], releases: &[Arc<Value>]) -> String {
        check_after(0, deleting, clusters, releases)
    }

    fn check_after(seconds: u64, deleting: bool, clusters: &[Arc<Value>], releases: &[Arc<Value>]) -> String {
        let mut description = json!({"kind": "Description", "metadata": {
            "namespace": "ns", "name": "d", "finalizers": ["apps.clusternet.io/finalizer", "theirs"], "resourceVersion": "7"}});
        if deleting {
            description["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let plan = plan(&View {
            description: &description,
            clusters,
            releases,
            unready_for: Duration::from_secs(seconds),
        });
        let mut words = Vec::new();
        for action in &plan.actions {
            words.push(match action {
                Action::Create { .. } => "create".to_owned(),
                Action::Patch { patch, .. } => format!("patch {}", patch["metadata"]),
                Action::Delete { target, .. } => format!("delete {}", target.name),
                Action::Event { note, .. } => note.clone(),
            });
        }
        match plan.next {
            Next::Done => {}
            Next::Blocked(why) => words.push(why),
            Next::Again(delay) => words.push(format!("again in {} s", delay.as_secs())),
        }
        words.join("; ")
    }

    #[test]
    fn waits_for_the_agent_while_there_is_hope() {
        assert_eq!(check(false, &[], &[]), "");
        for ready in [None, Some("True")] {
            assert_eq!(
                check(true, &[cluster(ready)], &[]),
                "waiting for the agent to take the objects away"
            );
        }
    }

    #[test]
    fn lets_go_when_the_child_is_lost() {
        let patch = r#"patch {"finalizers":["theirs"],"resourceVersion":"7"}"#;
        assert_eq!(
            check(true, &[], &[]),
            format!(
                "the objects in the child are left alone: there is no ManagedCluster in the namespace; {patch}"
            )
        );
        let text = check(true, &[cluster(Some("Unknown"))], &[]);
        assert!(
            text.contains("ManagedCluster \"edge-7\" is not ready (Ready is Unknown)")
                && text.ends_with(patch)
        );
    }

    #[test]
    fn is_patient_with_a_child_that_still_talks() {
        let unwell = [cluster(Some("False"))];
        assert_eq!(check_after(100, true, &unwell, &[]), "again in 500 s");
        assert!(check_after(600, true, &unwell, &[]).contains("(Ready is False)"));
    }

    #[test]
    fn takes_releases_away_first() {
        let release =
            Arc::new(json!({"metadata": {"name": "r", "finalizers": ["apps.clusternet.io/finalizer"]}}));
        let mut leaving = Value::clone(&release);
        leaving["metadata"]["deletionTimestamp"] = json!("x");
        assert_eq!(
            check(true, &[cluster(Some("True"))], &[Arc::clone(&release)]),
            "delete r; waiting for the agent to take the objects away"
        );
        assert_eq!(
            check(true, &[], &[Arc::new(leaving)]),
            r#"patch {"finalizers":[]}; waiting for 1 HelmRelease(s) to be deleted"#
        );
    }
}
