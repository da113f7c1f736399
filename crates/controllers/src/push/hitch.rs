//! Why nothing is brought into a cluster whose agent leaves that to the parent: told on each of its Descriptions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ::deployer::outcome::{self, Problem, Verdict};
use api::{apps, clusters, finalizers, reasons};
use distribution::sync::{self, Impasse};
use distribution::{Action, Plan, Target};
use jiff::Timestamp;
use kubeio::{ObjectKey, Outcome, Queue, QueueOptions};
use machinery::meta;
use runtime::CancellationToken;
use serde_json::Value;

use crate::shared::Shared;

/// What is in the way, and whom it concerns.
pub(super) struct Hitches {
    shared: Arc<Shared>,
    /// What the way into a child lacks, by namespace.
    lacks: Mutex<BTreeMap<String, String>>,
    /// Descriptions that may have to be told of something.
    queue: Queue<ObjectKey>,
}

impl Hitches {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            lacks: Mutex::default(),
            queue: Queue::new(QueueOptions {
                base: Duration::from_millis(50),
                max: Duration::from_secs(30),
            }),
        }
    }

    fn lacks(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.lacks.lock().expect("no holder panics")
    }

    /// Says what the way into the child of a namespace lacks now.
    pub(super) fn set(&self, namespace: &str, lack: Option<String>) {
        let mut lacks = self.lacks();
        let is_new = lacks.get(namespace) != lack.as_ref();
        match lack {
            Some(lack) => lacks.insert(namespace.to_owned(), lack),
            None => lacks.remove(namespace),
        };
        drop(lacks);
        if is_new {
            self.look_at_all(namespace);
        }
    }

    /// A Description may have to be told of something.
    pub(super) fn look_at(&self, description: ObjectKey) {
        self.queue.add(description);
    }

    /// All Descriptions of a namespace may.
    pub(super) fn look_at_all(&self, namespace: &str) {
        for description in self.shared.cache(&apps::DESCRIPTIONS).list_namespace(namespace) {
            self.queue.add(ObjectKey::of(&description));
        }
    }

    /// Tells until the token is cancelled.
    pub(super) async fn serve(&self, stop: &CancellationToken) {
        self.queue.serve(super::WORKERS, stop, |key| self.tell(key)).await;
    }

    async fn tell(&self, key: ObjectKey) -> Outcome {
        let Some(description) = self.shared.cache(&apps::DESCRIPTIONS).get_key(&key) else {
            return Outcome::Done;
        };
        let members = self
            .shared
            .cache(&clusters::MANAGED_CLUSTERS)
            .list_namespace(&key.namespace);
        let applies = members.first().map(|cluster| sync::deployer_of(cluster));
        let lack = self.lacks().get(&key.namespace).cloned();
        let Some(why) = applies.and_then(|applies| hitch(applies, lack, meta::is_deleting(&description)))
        else {
            return Outcome::Done;
        };
        match self
            .shared
            .carry_out(plan(&description, why, self.shared.env.now()))
            .await
        {
            Ok(()) => Outcome::Done,
            Err(error) => self
                .shared
                .failed(&description, reasons::UNSUCCESSFULLY_DEPLOYED, &error),
        }
    }
}

/// Why nothing becomes of a Description, if that is so.
fn hitch(applies: sync::Deployer, lack: Option<String>, deleting: bool) -> Option<String> {
    match applies {
        sync::Deployer::Agent => None,
        // It lets go itself of those that are deleted.
        sync::Deployer::Nobody(Impasse::Forbidden) if deleting => None,
        sync::Deployer::Nobody(impasse) => Some(impasse.to_string()),
        sync::Deployer::Parent => lack.map(|lack| {
            let rest = if deleting { "; what was applied there is still there" } else { "" };
            format!(
                "the parent is to push into the cluster and cannot: {lack}{rest}; until that is mended, spec.syncMode \
                 Pull lets its agent do it"
            )
        }),
    }
}

/// Says on a Description that it waits, and why; nothing if it says so already.
fn plan(description: &Value, why: String, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let deleting = meta::is_deleting(description);
    if description["spec"]["deployer"] != "Generic"
        || (deleting && !meta::has_finalizer(description, finalizers::APP))
    {
        return plan;
    }
    let problems = [Problem::NoWay(why.clone())];
    let (verdict, reason) = if deleting {
        (Verdict::Removing(&problems), reasons::FAILED_DELETING_DESCRIPTION)
    } else {
        (Verdict::Done(&problems), reasons::UNSUCCESSFULLY_DEPLOYED)
    };
    let seen = description["status"]["manifestStatuses"].as_array().cloned();
    let status = outcome::status(description, verdict, seen.unwrap_or_default(), now);
    let Some(mut patch) = outcome::status_patch(description, status) else {
        return plan;
    };
    // What was seen in the child is for whoever looks there to say.
    if let Some(status) = patch["status"].as_object_mut() {
        status.remove("manifestStatuses");
    }
    plan.push(Action::Patch {
        resource: apps::DESCRIPTIONS,
        target: Target::of(description),
        subresource: Some("status"),
        patch,
    });
    plan.push(Action::warning(description, reason, why));
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn says_why_nobody_applies() {
        use sync::Deployer::{Agent, Nobody, Parent};
        for (applies, lack, deleting, expected) in [
            (Agent, Some("no token"), false, None),
            (Parent, None, false, None),
            (Parent, Some("no token"), false, Some("cannot: no token; until")),
            (Parent, Some("no token"), true, Some("still there")),
            (Nobody(Impasse::Forbidden), None, false, Some("AppPusher")),
            (Nobody(Impasse::Forbidden), None, true, None),
            (Nobody(Impasse::Unsaid), None, true, Some("has not said yet")),
        ] {
            let why = hitch(applies, lack.map(str::to_owned), deleting);
            assert_eq!(
                why.is_some(),
                expected.is_some(),
                "{applies:?} {lack:?} {deleting}"
            );
            assert!(
                why.unwrap_or_default().contains(expected.unwrap_or_default()),
                "{applies:?} {deleting}"
            );
        }
    }

    #[test]
    fn is_said_once_and_takes_nothing_off_the_record() {
        let now = Timestamp::UNIX_EPOCH;
        let applied = json!({
            "metadata": {"name": "app", "namespace": "ns", "generation": 1, "finalizers": [finalizers::APP]},
            "spec": {"deployer": "Generic"},
            "status": {"phase": "Success", "conditions": [], "manifestStatuses": [{"kind": "Namespace", "name": "shop",
                "apiVersion": "v1", "observedStatus": {}}]},
        });
        for (deleting, phase, reason) in [
            (false, "Failure", "UnSuccessfullyDeployed"),
            (true, "Uninstalling", "FailedDeletingDescription"),
        ] {
            let mut description = applied.clone();
            if deleting {
                description["metadata"]["deletionTimestamp"] = json!("x");
            }
            let first = plan(&description, "no token".to_owned(), now);
            let [Action::Patch { patch, .. }, Action::Event { reason: told, .. }] = &first.actions[..] else {
                panic!("{first:?}")
            };
            assert_eq!(told, reason);
            machinery::patch::merge_patch(&mut description, patch);
            let status = &description["status"];
            assert_eq!(
                (&status["phase"], &status["reason"]),
                (&json!(phase), &json!("no token"))
            );
            assert_eq!(status["conditions"][0]["reason"], "NoWay");
            assert_eq!(status["manifestStatuses"], applied["status"]["manifestStatuses"]);
            assert_eq!(plan(&description, "no token".to_owned(), now), Plan::default());
        }
        let mut charts = applied;
        charts["spec"]["deployer"] = json!("Helm");
        assert_eq!(plan(&charts, "no token".to_owned(), now), Plan::default());
    }
}
