//! HelmReleases of an agent that cannot execute them: it says so, and keeps nobody waiting. Pure.

use api::{apps, finalizers};
use machinery::meta;
use serde_json::{Value, json};

/// Helm's word for a release of which nothing is known.
const UNKNOWN: &str = "unknown";
/// What is said of a release.
const NOT_EXECUTED: &str = "charts are not executed by this agent";

/// What to do about one release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Say in its status that nobody executes it.
    Say(Value),
    /// Let it go, as this merge patch does; whether another agent had installed it.
    Release {
        /// The patch.
        patch: Value,
        /// What another agent installed stays.
        installed: bool,
    },
    /// Nothing.
    Nothing,
}

/// What to do about a HelmRelease.
pub fn step(release: &Value) -> Step {
    let phase = release["status"]["phase"].as_str().unwrap_or_default();
    if !meta::is_deleting(release) {
        return if phase.is_empty() {
            Step::Say(json!({"status": {"phase": UNKNOWN, "description": NOT_EXECUTED}}))
        } else {
            Step::Nothing
        };
    }
    if !meta::has_finalizer(release, finalizers::APP) {
        return Step::Nothing;
    }
    let left: Vec<&str> = meta::finalizers(release)
        .filter(|finalizer| *finalizer != finalizers::APP)
        .collect();
    Step::Release {
        patch: json!({"metadata": {"finalizers": left, "resourceVersion": meta::resource_version(release)}}),
        installed: !["", UNKNOWN].contains(&phase),
    }
}

/// Whether nothing more is to come of a Description's releases: one a chart and none on its way out, or, once it is
/// deleted, none at all.
pub fn are_settled(description: &Value, releases: &[Value]) -> bool {
    if meta::is_deleting(description) {
        // The parent may not have come to delete them yet.
        return releases.is_empty();
    }
    let charts = description["spec"]["charts"].as_array().map_or(0, Vec::len);
    releases.len() == charts && !releases.iter().any(meta::is_deleting)
}

/// The charts of a Description, for people.
pub fn names(description: &Value) -> Vec<String> {
    let charts = description["spec"]["charts"].as_array().into_iter().flatten();
    charts
        .map(|chart| {
            let text = |field: &str| chart[field].as_str().unwrap_or_default();
            format!(
                "{} {}/{}",
                apps::HELM_CHARTS.kind,
                text("namespace"),
                text("name")
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_it_once_and_lets_go() {
        let release = |deleting: bool, phase: &str| {
            let mut release = json!({"metadata": {"name": "r", "resourceVersion": "7",
                "finalizers": ["theirs", finalizers::APP]}, "status": {"phase": phase}});
            if deleting {
                release["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            release
        };
        let let_go = |installed| Step::Release {
            patch: json!({"metadata": {"finalizers": ["theirs"], "resourceVersion": "7"}}),
            installed,
        };
        let say = Step::Say(json!({"status": {"phase": "unknown", "description": NOT_EXECUTED}}));
        for (deleting, phase, expected) in [
            (false, "", say),
            (false, "unknown", Step::Nothing),
            (false, "deployed", Step::Nothing),
            (true, "", let_go(false)),
            (true, "unknown", let_go(false)),
            (true, "deployed", let_go(true)),
        ] {
            assert_eq!(
                step(&release(deleting, phase)),
                expected,
                "deleting {deleting}, {phase:?}"
            );
        }
        let mut gone = release(true, "");
        gone["metadata"]["finalizers"] = json!(["theirs"]);
        assert_eq!(step(&gone), Step::Nothing);
    }

    #[test]
    fn waits_for_one_release_a_chart() {
        let description = json!({"spec": {"charts": [{"namespace": "foo", "name": "sql"}]}});
        let release = json!({"metadata": {"name": "r"}});
        let leaving = json!({"metadata": {"name": "r", "deletionTimestamp": "x"}});
        let deleted = json!({"metadata": {"deletionTimestamp": "x"}, "spec": description["spec"]});
        for (description, releases, expected) in [
            (&description, vec![], false),
            (&description, vec![release.clone()], true),
            (&description, vec![release.clone(), leaving.clone()], false),
            (&deleted, vec![release], false),
            (&deleted, vec![leaving], false),
            (&deleted, vec![], true),
        ] {
            assert_eq!(are_settled(description, &releases), expected, "{releases:?}");
        }
        assert_eq!(names(&description), ["HelmChart foo/sql"]);
    }
}
