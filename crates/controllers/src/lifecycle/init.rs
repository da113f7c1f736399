//! What a new cluster begins with: nothing else may be placed there before its init workload is.

use std::sync::Arc;

use api::{annotations, labels, reasons};
use machinery::meta;
use serde_json::Value;

/// The gate `ClusterInit`.
#[derive(Clone, Copy)]
pub enum Init<'a> {
    /// New clusters wait for nothing.
    Off,
    /// They wait for their init workload.
    On {
        /// The Bases of the dedicated namespace.
        bases: &'a [Arc<Value>],
        /// Its Descriptions.
        descriptions: &'a [Arc<Value>],
    },
}

/// What a cluster waits for before it gets anything else.
pub(super) enum Beginning {
    /// For nothing.
    Disabled,
    /// For this workload, if it is known which.
    Waiting { base: Option<String>, message: String },
    /// It has it now.
    Done { base: String },
    /// It has begun before.
    Begun,
}

/// Whether a cluster has what it begins with. Once it has begun, be it before the gate was switched on, nothing that
/// becomes of the workload keeps others off again.
pub(super) fn beginning(cluster: &Value, init: Init<'_>) -> Beginning {
    let Init::On { bases, descriptions } = init else {
        return Beginning::Disabled;
    };
    if meta::annotation(cluster, annotations::SKIP_CLUSTER_INIT) == Some("true") {
        return Beginning::Disabled;
    }
    let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    if conditions.any(|it| it["type"] == reasons::CLUSTER_INIT && it["status"] == "True") {
        return Beginning::Begun;
    }
    let Some(base) = init_base(cluster, bases) else {
        let message =
            "there is no init workload yet: none of the cluster's Subscriptions is marked as its default";
        return Beginning::Waiting {
            base: None,
            message: message.to_owned(),
        };
    };
    let owner = bases
        .iter()
        .find(|it| meta::name(it) == base)
        .map(|it| meta::uid(it));
    let is_its = |it: &&Arc<Value>| owner.is_some() && meta::label(it, labels::CONFIG_UID) == owner;
    let mut its = descriptions.iter().filter(is_its).peekable();
    if its.peek().is_some() && its.all(|it| it["status"]["phase"] == "Success") {
        return Beginning::Done { base };
    }
    Beginning::Waiting {
        message: format!("waiting for the init workload of Base \"{base}\""),
        base: Some(base),
    }
}

/// The Base of a cluster's init workload: the one that is fixed, else the one that is named, else the newest default.
fn init_base(cluster: &Value, bases: &[Arc<Value>]) -> Option<String> {
    let fixed = cluster["spec"]["clusterInitBaseName"]
        .as_str()
        .filter(|name| !name.is_empty());
    let named = || meta::annotation(cluster, annotations::CLUSTER_INIT_BASE);
    let newest = || {
        let is_default = |it: &&Arc<Value>| {
            !meta::is_deleting(it)
                && meta::annotation(it, annotations::IS_DEFAULT_CLUSTER_INIT) == Some("true")
        };
        let bases = bases.iter().filter(is_default);
        bases
            .max_by_key(|it| (meta::creation_timestamp(it), meta::name(it)))
            .map(|it| meta::name(it))
    };
    fixed.or_else(named).or_else(newest).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use distribution::Action;
    use serde_json::json;

    use super::super::plan;
    use super::*;

    const NOW: &str = "2026-01-03T12:00:00Z";

    fn cluster() -> Value {
        json!({"metadata": {"name": "c", "creationTimestamp": NOW}, "spec": {},
            "status": {"lastObservedTime": NOW, "heartbeatFrequencySeconds": 60}})
    }

    #[test]
    fn a_new_cluster_waits_for_its_init_workload_once() {
        let base = |name: &str, created: &str, default: &str| {
            Arc::new(
                json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": created,
                "annotations": {annotations::IS_DEFAULT_CLUSTER_INIT: default}}}),
            )
        };
        let bases = [
            base("old", "2026-01-01T00:00:00Z", "true"),
            base("new", "2026-01-02T00:00:00Z", "true"),
            base("other", "2026-01-03T00:00:00Z", "false"),
        ];
        let description = |base: &str, phase: &str| {
            Arc::new(
                json!({"metadata": {"labels": {labels::CONFIG_UID: format!("uid-{base}")}}, "status": {"phase": phase}}),
            )
        };
        // Applies one look to the cluster; says the condition's reason and whether the taint is there.
        let look = |cluster: &mut Value, bases: &[Arc<Value>], descriptions: &[Arc<Value>]| {
            let view = plan::View {
                cluster,
                now: NOW.parse().unwrap(),
                report_age: std::time::Duration::ZERO,
                init: Init::On { bases, descriptions },
            };
            for action in plan::plan(&view).actions {
                if let Action::Patch { patch, .. } = action {
                    machinery::patch::merge_patch(cluster, &patch);
                }
            }
            let conditions = cluster["status"]["conditions"].as_array().unwrap();
            let init = conditions
                .iter()
                .find(|it| it["type"] == reasons::CLUSTER_INIT)
                .unwrap();
            let mut taints = cluster["spec"]["taints"].as_array().into_iter().flatten();
            let tainted = taints.any(|it| it["key"] == reasons::TAINT_INITIALIZATION);
            (init["reason"].as_str().unwrap().to_owned(), tainted)
        };
        let waiting = ("ClusterInitWaiting".to_owned(), true);
        let done = ("ClusterInitDone".to_owned(), false);
        let mut new = cluster();
        assert_eq!(look(&mut new, &[], &[]), waiting);
        assert_eq!(look(&mut new, &bases, &[]), waiting);
        assert_eq!(new["spec"]["clusterInitBaseName"], "new");
        let half = [
            description("new", "Success"),
            description("new", "Pending"),
            description("old", "Success"),
        ];
        assert_eq!(look(&mut new, &bases[1..], &half), waiting);
        assert_eq!(look(&mut new, &bases, &half[..1]), done);
        assert_eq!(look(&mut new, &bases, &half), done, "once begun is begun");

        let mut named = cluster();
        meta::set_annotation(&mut named, annotations::CLUSTER_INIT_BASE, "old");
        assert_eq!(look(&mut named, &bases, &half), done);
        assert_eq!(named["spec"]["clusterInitBaseName"], "old");

        let mut begun = cluster();
        begun["status"]["conditions"] =
            json!([{"type": "ClusterInit", "status": "True", "reason": "ClusterInitDisabled"}]);
        assert_eq!(
            look(&mut begun, &bases, &[]),
            ("ClusterInitDisabled".to_owned(), false),
            "the fleet of before goes on"
        );
        let mut skipped = cluster();
        meta::set_annotation(&mut skipped, annotations::SKIP_CLUSTER_INIT, "true");
        assert_eq!(
            look(&mut skipped, &bases, &[]),
            ("ClusterInitDisabled".to_owned(), false)
        );
    }
}
