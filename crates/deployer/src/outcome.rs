//! What became of a Description's objects, as its status says it. Pure.

use std::fmt;

use api::apps::DescriptionPhase;
use api::reasons;
use jiff::Timestamp;
use kubeio::ObjectKey;
use machinery::{ApiResource, Reason, conditions, meta};
use runtime::Chain;
use serde_json::{Value, json};

use crate::contents::Obstacle;
use crate::plan::{self, ObjectId};

/// The longest reason that is written; a status is no log.
const REASON_LIMIT: usize = 8 << 10;

/// Why an object is not as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// An entry of `spec.raw` is no object.
    Undecodable {
        /// Which entry.
        index: usize,
        /// Why not.
        why: String,
    },
    /// What stands for the object cannot be had as the object itself.
    Unavailable {
        /// The object.
        id: ObjectId,
        /// What is in the way.
        why: Obstacle,
    },
    /// The child serves no such kind.
    NoSuchKind(ObjectId),
    /// The deployer lacks a right in the child.
    Forbidden {
        /// The object.
        id: ObjectId,
        /// `create`, `patch`…
        verb: &'static str,
        /// The resource.
        resource: ApiResource,
    },
    /// Another Description has the object.
    OwnedByAnother {
        /// The object.
        id: ObjectId,
        /// The other Description.
        other: ObjectKey,
    },
    /// The object is being deleted.
    Terminating(ObjectId),
    /// Its namespace could not be made.
    NoNamespace(ObjectId),
    /// The child refuses it.
    Refused {
        /// The object.
        id: ObjectId,
        /// In the child's words.
        message: String,
    },
    /// The child does not answer.
    Unreachable {
        /// The object.
        id: ObjectId,
        /// What happened.
        message: String,
    },
    /// An object that is wanted no longer is still there.
    NotGone(ObjectId),
    /// A chart, which nobody here executes.
    NotExecuted(String),
    /// Nobody can bring anything into the child, or take it out, and why.
    NoWay(String),
}

impl Problem {
    /// From a failed request about an object.
    pub fn from_error(
        id: &ObjectId,
        verb: &'static str,
        resource: &ApiResource,
        error: &kubeio::Error,
    ) -> Self {
        let id = id.clone();
        match error.api() {
            Some(api) if api.reason == Reason::Forbidden && is_missing_right(&api.message) => {
                Self::Forbidden {
                    id,
                    verb,
                    resource: resource.clone(),
                }
            }
            Some(api) => Self::Refused {
                id,
                message: api.message.clone(),
            },
            None => Self::Unreachable {
                id,
                message: Chain(error).to_string(),
            },
        }
    }

    /// One CamelCase word for the condition.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Undecodable { .. } => "Undecodable",
            Self::Unavailable { why, .. } => why.word(),
            Self::NoSuchKind(_) => "NoSuchKind",
            Self::Forbidden { .. } => "Forbidden",
            Self::OwnedByAnother { .. } => "OwnedByAnother",
            Self::Terminating(_) => "Terminating",
            Self::NoNamespace(_) => "NoNamespace",
            Self::Refused { .. } => "Refused",
            Self::Unreachable { .. } => "Unreachable",
            Self::NotGone(_) => "Removing",
            Self::NotExecuted(_) => reasons::CHARTS_NOT_EXECUTED,
            Self::NoWay(_) => "NoWay",
        }
    }
}

/// Admission also answers 403 (quotas, a namespace that is going): that is no missing right.
fn is_missing_right(message: &str) -> bool {
    message.contains(" cannot ") && message.contains(" resource ")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable { index, why } => write!(f, "spec.raw[{index}] is no object: {why}"),
            Self::Unavailable { id, why } => write!(f, "{id}: {why}"),
            Self::NoSuchKind(id) => write!(
                f,
                "{id}: the cluster serves no kind {} in {}",
                id.kind.kind,
                id.kind.api_version()
            ),
            Self::Forbidden { id, verb, resource } => {
                let group = if resource.group.is_empty() {
                    "core"
                } else {
                    &*resource.group
                };
                write!(
                    f,
                    "{id}: missing right: the deployer may not {verb} {} of group {group}",
                    resource.plural
                )?;
                match id.key.namespace() {
                    Some(namespace) => write!(f, " in namespace {namespace:?}"),
                    None => Ok(()),
                }
            }
            Self::OwnedByAnother { id, other } => {
                write!(
                    f,
                    "{id}: belongs to Description {other}, which wants it otherwise"
                )
            }
            Self::Terminating(id) => write!(f, "{id}: is being deleted; it is made again when it is gone"),
            Self::NoNamespace(id) => write!(f, "{id}: its namespace could not be made"),
            Self::Refused { id, message } => write!(f, "{id}: {message}"),
            Self::Unreachable { id, message } => write!(f, "{id}: the cluster does not answer: {message}"),
            Self::NotGone(id) => write!(f, "{id}: is wanted no longer, and not gone yet"),
            Self::NotExecuted(chart) => {
                write!(
                    f,
                    "{chart} is not deployed: charts are not executed by this agent"
                )
            }
            Self::NoWay(why) => f.write_str(why),
        }
    }
}

/// What is known of an object in the child.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    /// It is there as the Description's.
    Ours(Value),
    /// It is there as another Description's, and as this one wants it.
    Shared(Value),
    /// It is not there, or it is somebody else's.
    NotOurs,
    /// Nobody could look.
    Unknown,
}

impl Sight {
    /// Of an object that is there, and the Description that asks.
    pub fn of(live: Value, description: Option<&ObjectKey>) -> Self {
        if description.is_some() && plan::owner(&live).as_ref() == description {
            Self::Ours(live)
        } else {
            Self::NotOurs
        }
    }

    /// Of what the child answers, whatever that is.
    pub fn of_answer<E>(answer: Result<Option<Value>, E>, description: &ObjectKey) -> Self {
        match answer {
            Ok(Some(live)) => Self::of(live, Some(description)),
            Ok(None) => Self::NotOurs,
            Err(_) => Self::Unknown,
        }
    }
}

/// What was found about one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The object.
    pub id: ObjectId,
    /// What is known of it.
    pub sight: Sight,
}

/// The entries of `manifestStatuses`. One with an `observedStatus`, empty for kinds that have none, was seen in the
/// child as the Description's, or as it wants it; what cannot be seen any more keeps what was seen last.
pub fn manifest_statuses(observed: &[Observed], description: &Value) -> Vec<Value> {
    observed
        .iter()
        .map(|Observed { id, sight }| {
            let mut entry = id.to_feed();
            let status = match sight {
                Sight::Ours(live) | Sight::Shared(live) => {
                    Some(live.get("status").filter(|status| status.is_object()))
                        .map(|status| status.cloned().unwrap_or_else(|| json!({})))
                }
                Sight::NotOurs => None,
                Sight::Unknown => last_seen(description, id).cloned(),
            };
            if let Some(status) = status {
                entry["observedStatus"] = status;
            }
            // So that the parent can tell whether the status is about what was applied.
            let generation = match sight {
                Sight::Ours(live) | Sight::Shared(live) if live["status"]["observedGeneration"].is_i64() => {
                    json!(meta::generation(live))
                }
                Sight::Ours(_) | Sight::Shared(_) | Sight::NotOurs => Value::Null,
                Sight::Unknown => {
                    last_entry(description, id).map_or(Value::Null, |it| it["generation"].clone())
                }
            };
            if !generation.is_null() {
                entry["generation"] = generation;
            }
            entry
        })
        .collect()
}

/// The status that an object had when it was last seen in the child as the Description's; `None` if it was not there
/// then, or never.
pub fn last_seen<'a>(description: &'a Value, id: &ObjectId) -> Option<&'a Value> {
    last_entry(description, id)?
        .get("observedStatus")
        .filter(|status| status.is_object())
}

fn last_entry<'a>(description: &'a Value, id: &ObjectId) -> Option<&'a Value> {
    let entries = description["status"]["manifestStatuses"].as_array();
    let mut entries = entries.into_iter().flatten();
    entries.find(|entry| ObjectId::from_feed(entry).is_some_and(|other| other.is_same_object(id)))
}

/// What a Description's status says after a pass, or before one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict<'a> {
    /// Objects that were not recorded yet are about to be applied.
    Begun,
    /// Everything was tried; these are the problems.
    Done(&'a [Problem]),
    /// The Description is being deleted; this is what is in the way.
    Removing(&'a [Problem]),
}

/// The new status of a Description; equal to the old one if nothing changed.
pub fn status(description: &Value, verdict: Verdict<'_>, manifests: Vec<Value>, now: Timestamp) -> Value {
    let old = &description["status"];
    let generation = meta::generation(description);
    let (phase, condition, word, reason) = match verdict {
        Verdict::Begun => (DescriptionPhase::Pending, "Unknown", "Applying", String::new()),
        Verdict::Done([]) => (DescriptionPhase::Success, "True", "Applied", String::new()),
        Verdict::Done(problems) => (
            DescriptionPhase::Failure,
            "False",
            problems[0].word(),
            reason(problems),
        ),
        Verdict::Removing(problems) => (
            DescriptionPhase::Uninstalling,
            "False",
            problems.first().map_or("Removing", Problem::word),
            reason(problems),
        ),
    };
    let new = json!({
        "type": "Applied",
        "status": condition,
        "reason": word,
        "message": reason,
        "observedGeneration": generation,
        "lastTransitionTime": conditions::time(now),
    });
    let old_conditions = old["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut status = json!({
        "phase": phase,
        "reason": reason,
        "observedGeneration": generation,
        "conditions": conditions::merge(old_conditions, new),
    });
    if !manifests.is_empty() || old.get("manifestStatuses").is_some() {
        status["manifestStatuses"] = Value::Array(manifests);
    }
    status
}

fn reason(problems: &[Problem]) -> String {
    let mut text = String::new();
    for (index, problem) in problems.iter().enumerate() {
        let next = problem.to_string();
        if text.len() + next.len() > REASON_LIMIT && index > 0 {
            text.push_str(&format!("; and {} more", problems.len() - index));
            break;
        }
        if index > 0 {
            text.push_str("; ");
        }
        text.extend(next.chars().take(REASON_LIMIT));
    }
    text
}

/// The merge patch of the status subresource, or `None` if the Description says all that already. A parent whose
/// definition of the kind lacks our further fields drops them: they alone are no reason to write.
pub fn status_patch(description: &Value, status: Value) -> Option<Value> {
    let old = &description["status"];
    let knows_conditions = old.get("conditions").is_some();
    let known = if knows_conditions {
        status.clone()
    } else {
        without_generations(status.clone())
    };
    let differs = ["phase", "reason", "manifestStatuses"]
        .into_iter()
        .any(|field| empty_as_null(&old[field]) != empty_as_null(&known[field]));
    let conditions_differ = knows_conditions
        && ["conditions", "observedGeneration"]
            .into_iter()
            .any(|field| old[field] != status[field]);
    (differs || conditions_differ).then(|| json!({"status": status}))
}

fn without_generations(mut status: Value) -> Value {
    let entries = status["manifestStatuses"].as_array_mut();
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("generation");
    }
    status
}

fn empty_as_null(value: &Value) -> &Value {
    let empty = value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if empty { &Value::Null } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::{ApiError, Gvk};

    fn id() -> ObjectId {
        ObjectId {
            kind: Gvk::new("apps/v1", "Deployment"),
            key: ObjectKey::new("shop", "web"),
        }
    }

    fn problem(reason: Reason, message: &str) -> Problem {
        let deployments = ApiResource::namespaced("apps", "v1", "deployments", "Deployment");
        let error = kubeio::Error::Api(ApiError::new(reason, message));
        Problem::from_error(&id(), "create", &deployments, &error)
    }

    #[test]
    fn a_missing_right_is_named() {
        let problem = problem(
            Reason::Forbidden,
            r#"deployments.apps is forbidden: User "a" cannot create resource "deployments" in API group "apps" in the namespace "shop""#,
        );
        assert_eq!(
            problem.to_string(),
            r#"Deployment shop/web: missing right: the deployer may not create deployments of group apps in namespace "shop""#
        );
    }

    #[test]
    fn a_quota_is_no_missing_right() {
        let problem = problem(Reason::Forbidden, "exceeded quota: q");
        assert_eq!(problem.to_string(), "Deployment shop/web: exceeded quota: q");
    }

    #[test]
    fn writing_twice_asks_for_nothing() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let observed = [Observed {
            id: id(),
            sight: Sight::Ours(json!({"status": {"replicas": 3}})),
        }];
        let mut description = json!({"metadata": {"generation": 2}});
        for problems in [&[][..], &[Problem::NotGone(id())][..]] {
            let verdict = Verdict::Done(problems);
            let manifests = manifest_statuses(&observed, &description);
            let first = status(&description, verdict, manifests.clone(), now);
            let patch = status_patch(&description, first).expect("a change");
            machinery::patch::merge_patch(&mut description, &patch);
            let again = status(&description, verdict, manifests, later);
            assert_eq!(status_patch(&description, again), None);
        }
        assert_eq!(description["status"]["phase"], "Failure");
        assert_eq!(
            description["status"]["manifestStatuses"][0]["observedStatus"]["replicas"],
            3
        );
    }

    #[test]
    fn what_was_seen_last_is_remembered_until_somebody_looks() {
        let mut description = json!({});
        let with_status = json!({"status": {"replicas": 3}});
        for (sight, expected) in [
            (Sight::Unknown, None),
            (Sight::Ours(json!({})), Some(json!({}))),
            (Sight::Unknown, Some(json!({}))),
            (Sight::Ours(with_status), Some(json!({"replicas": 3}))),
            (Sight::Unknown, Some(json!({"replicas": 3}))),
            (Sight::NotOurs, None),
            (Sight::Unknown, None),
        ] {
            let observed = [Observed {
                id: id(),
                sight: sight.clone(),
            }];
            let entries = manifest_statuses(&observed, &description);
            description["status"]["manifestStatuses"] = json!(entries);
            assert_eq!(last_seen(&description, &id()), expected.as_ref(), "{sight:?}");
        }
    }

    #[test]
    fn the_generation_stands_beside_a_status_that_observed_one() {
        let mut description = json!({"status": {"phase": "Success", "conditions": []}});
        let live = |generation: i64| json!({"metadata": {"generation": generation}, "status": {"observedGeneration": 4}});
        for (sight, expected) in [
            (Sight::Ours(live(5)), json!(5)),
            (Sight::Unknown, json!(5)),
            (
                Sight::Ours(json!({"metadata": {"generation": 5}, "status": {"x": 1}})),
                Value::Null,
            ),
            (Sight::Unknown, Value::Null),
            (Sight::Ours(live(6)), json!(6)),
            (Sight::NotOurs, Value::Null),
        ] {
            let observed = [Observed {
                id: id(),
                sight: sight.clone(),
            }];
            let entries = manifest_statuses(&observed, &description);
            assert_eq!(entries[0]["generation"], expected, "{sight:?}");
            description["status"]["manifestStatuses"] = json!(entries);
        }
        // A parent that drops it is not written to again for it alone.
        let status = |entry: Value| json!({"phase": "Success", "manifestStatuses": [entry]});
        let entry = json!({"kind": "Deployment", "generation": 5});
        for (old, writes) in [
            (
                json!({"status": {"phase": "Success", "manifestStatuses": [{"kind": "Deployment"}]}}),
                false,
            ),
            (
                json!({"status": {"phase": "Success", "conditions": [], "manifestStatuses": [{"kind": "Deployment"}]}}),
                true,
            ),
        ] {
            assert_eq!(
                status_patch(&old, status(entry.clone())).is_some(),
                writes,
                "{old}"
            );
        }
    }

    #[test]
    fn only_what_carries_the_mark_is_ours() {
        let key = ObjectKey::new("edge", "app");
        let marked = json!({"metadata": {"annotations":
            {api::annotations::OWNED_BY_DESCRIPTION: plan::owner_text(&key)}}});
        assert_eq!(Sight::of(marked.clone(), Some(&key)), Sight::Ours(marked.clone()));
        for (answer, expected) in [
            (Ok(Some(marked.clone())), Sight::Ours(marked.clone())),
            (Ok(Some(json!({}))), Sight::NotOurs),
            (Ok(None), Sight::NotOurs),
            (Err(()), Sight::Unknown),
        ] {
            assert_eq!(Sight::of_answer(answer, &key), expected);
        }
        for (live, asking) in [
            (marked.clone(), Some(ObjectKey::new("edge", "other"))),
            (marked, None),
            (json!({}), Some(key)),
            (json!({}), None),
        ] {
            assert_eq!(Sight::of(live, asking.as_ref()), Sight::NotOurs);
        }
    }

    #[test]
    fn reasons_are_bounded() {
        let problems = vec![
            Problem::Refused {
                id: id(),
                message: "x".repeat(3_000)
            };
            10
        ];
        let text = reason(&problems);
        assert!(
            text.len() < REASON_LIMIT + 100 && text.ends_with("and 8 more"),
            "{}",
            text.len()
        );
    }
}
