//! Where kinds keep the number of their replicas and the pod that each replica is.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

use crate::feed::Feed;
use machinery::resource;

/// The places in one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// JSON pointer to the number.
    pub replicas: String,
    /// JSON pointer to the pod template; `None` where nothing is known of the pods.
    pub template: Option<String>,
}

impl Places {
    fn new(replicas: &str, template: &str) -> Self {
        Self {
            replicas: replicas.to_owned(),
            template: Some(template.to_owned()),
        }
    }
}

/// Kinds of users' own that can be divided, by group and kind. Those of Kubernetes are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnKinds(BTreeMap<(String, String), Places>);

/// One of a user's own kinds: `KIND.GROUP=REPLICAS[:TEMPLATE]`, such as
/// `Rollout.argoproj.io=/spec/replicas:/spec/template`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnKind {
    kind: String,
    group: String,
    places: Places,
}

/// A text that names no kind with its places.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not KIND.GROUP=/path/to/replicas[:/path/to/template]")]
pub struct InvalidOwnKind(pub String);

impl FromStr for OwnKind {
    type Err = InvalidOwnKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidOwnKind(text.to_owned());
        let (name, paths) = text.split_once('=').ok_or_else(invalid)?;
        let (kind, group) = name.split_once('.').ok_or_else(invalid)?;
        let (replicas, template) = match paths.split_once(':') {
            Some((replicas, template)) => (replicas, Some(template)),
            None => (paths, None),
        };
        let is_path = |path: &str| path.len() > 1 && path.starts_with('/');
        let is_good =
            !kind.is_empty() && !group.is_empty() && is_path(replicas) && template.is_none_or(is_path);
        is_good
            .then(|| Self {
                kind: kind.to_owned(),
                group: group.to_owned(),
                places: Places {
                    replicas: replicas.to_owned(),
                    template: template.map(str::to_owned),
                },
            })
            .ok_or_else(invalid)
    }
}

impl FromIterator<OwnKind> for OwnKinds {
    fn from_iter<T: IntoIterator<Item = OwnKind>>(kinds: T) -> Self {
        let kinds = kinds.into_iter();
        Self(kinds.map(|it| ((it.group, it.kind), it.places)).collect())
    }
}

impl OwnKinds {
    /// Where an object keeps its replicas; `None` if it cannot be divided.
    pub fn places(&self, feed: &Feed, object: &Value) -> Option<Places> {
        let (group, _) = resource::split_api_version(&feed.api_version);
        let own = self.0.get(&(group.to_owned(), feed.kind.clone()));
        own.cloned().or_else(|| kubernetes(feed, object))
    }
}

/// The kinds of Kubernetes. A DaemonSet is as large as its cluster, so it is never divided.
fn kubernetes(feed: &Feed, object: &Value) -> Option<Places> {
    let plain = || Some(Places::new("/spec/replicas", "/spec/template"));
    match (feed.kind.as_str(), feed.api_version.as_str()) {
        (
            "Deployment" | "StatefulSet",
            "apps/v1" | "apps/v1beta1" | "apps/v1beta2" | "extensions/v1beta1",
        )
        | ("ReplicaSet", "apps/v1" | "extensions/v1beta1")
        | ("ReplicationController", "v1") => plain(),
        ("Job", "batch/v1") => job(&object["spec"], "/spec"),
        ("CronJob", "batch/v1" | "batch/v1beta1") => {
            job(&object["spec"]["jobTemplate"]["spec"], "/spec/jobTemplate/spec")
        }
        _ => None,
    }
}

/// The work of a Job is its completions, or its parallelism if it has a queue of its own. One that runs a single pod,
/// such as a migration, is for every cluster; so is one whose pods have indexes, which would begin at 0 everywhere.
fn job(spec: &Value, path: &str) -> Option<Places> {
    let field = if spec["completions"].is_null() {
        "parallelism"
    } else {
        "completions"
    };
    let is_work = spec[field].as_u64().is_some_and(|n| n > 1) && spec["completionMode"] != "Indexed";
    is_work.then(|| Places::new(&format!("{path}/{field}"), &format!("{path}/template")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn knows_the_kinds_of_kubernetes() {
        let nothing = json!({});
        let job = |spec: Value| json!({"spec": spec});
        for (api_version, kind, object, expected) in [
            ("apps/v1", "Deployment", nothing.clone(), Some("/spec/replicas")),
            (
                "extensions/v1beta1",
                "ReplicaSet",
                nothing.clone(),
                Some("/spec/replicas"),
            ),
            ("apps/v1beta1", "ReplicaSet", nothing.clone(), None),
            (
                "apps/v1beta2",
                "StatefulSet",
                nothing.clone(),
                Some("/spec/replicas"),
            ),
            (
                "v1",
                "ReplicationController",
                nothing.clone(),
                Some("/spec/replicas"),
            ),
            ("apps/v1", "DaemonSet", nothing.clone(), None),
            ("example.com/v1", "Deployment", nothing, None),
            ("batch/v1", "Job", job(json!({})), None),
            (
                "batch/v1",
                "Job",
                job(json!({"completions": 1, "parallelism": 4})),
                None,
            ),
            (
                "batch/v1",
                "Job",
                job(json!({"completions": 6, "parallelism": 2})),
                Some("/spec/completions"),
            ),
            (
                "batch/v1",
                "Job",
                job(json!({"completions": 6, "completionMode": "Indexed"})),
                None,
            ),
            (
                "batch/v1",
                "Job",
                job(json!({"parallelism": 4})),
                Some("/spec/parallelism"),
            ),
            (
                "batch/v1",
                "CronJob",
                job(json!({"jobTemplate": {"spec": {"parallelism": 4}}})),
                Some("/spec/jobTemplate/spec/parallelism"),
            ),
        ] {
            let feed = Feed::from_value(&json!({"apiVersion": api_version, "kind": kind, "name": "x"}));
            let places = OwnKinds::default().places(&feed, &object);
            assert_eq!(
                places.map(|it| it.replicas).as_deref(),
                expected,
                "{api_version} {kind} {object}"
            );
        }
    }

    #[test]
    fn learns_kinds_of_users() {
        let own: OwnKinds = [
            "Rollout.argoproj.io=/spec/replicas:/spec/template",
            "Shard.db.example.com=/spec/count",
        ]
        .map(|text| text.parse::<OwnKind>().unwrap())
        .into_iter()
        .collect();
        let places = |api_version: &str, kind: &str| {
            let feed = Feed::from_value(&json!({"apiVersion": api_version, "kind": kind, "name": "x"}));
            own.places(&feed, &json!({}))
        };
        assert_eq!(
            places("argoproj.io/v1alpha1", "Rollout"),
            Some(Places::new("/spec/replicas", "/spec/template"))
        );
        let shard = places("db.example.com/v2", "Shard").unwrap();
        assert_eq!((shard.replicas.as_str(), shard.template), ("/spec/count", None));
        assert_eq!(places("example.com/v2", "Shard"), None);
        for bad in [
            "",
            "Rollout=/x",
            "Rollout.argoproj.io",
            "Rollout.argoproj.io=spec",
            ".g=/x",
            "K.g=/x:y",
            "K.=/x",
        ] {
            assert!(bad.parse::<OwnKind>().is_err(), "{bad}");
        }
    }
}
