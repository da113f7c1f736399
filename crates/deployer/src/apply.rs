//! One object in the child: read it, do what the plan says, remove it.

use std::time::Duration;

use api::annotations;
use kubeio::{Client, DeleteOptions, Mapper, ObjectKey, Patch};
use machinery::{ApiResource, meta};
use runtime::Chain;
use serde_json::{Value, json};

use crate::metrics::{Done, Metrics};
use crate::outcome::{Observed, Problem, Sight};
use crate::plan::{self, Desired, ObjectId, Step};
use crate::watches::Watches;

/// How long a definition may take until its kind is served, and how often that is looked at.
const ESTABLISH_TRIES: u32 = 50;
const ESTABLISH_PERIOD: Duration = Duration::from_millis(100);

/// Whether a Description exists.
pub(crate) type IsThere<'a> = &'a (dyn Fn(&ObjectKey) -> bool + Sync);

/// Why objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Their Description wants something new.
    Wanted,
    /// They were as their Description wants them, and are no longer.
    Drift,
}

impl Cause {
    /// Why the objects of a Description would be written now.
    pub(crate) fn of(description: &Value) -> Self {
        let status = &description["status"];
        let applied =
            status["phase"] == "Success" && status["observedGeneration"] == meta::generation(description);
        if applied { Self::Drift } else { Self::Wanted }
    }

    fn done(self, wanted: Done) -> Done {
        match self {
            Self::Wanted => wanted,
            Self::Drift => Done::Repaired,
        }
    }
}

/// What applying and removing need.
pub(crate) struct Applier {
    pub(crate) child: Client,
    pub(crate) mapper: Mapper,
    pub(crate) watches: Watches,
    pub(crate) metrics: Metrics,
}

impl Applier {
    /// The resource of an object's kind.
    pub(crate) async fn resource(&self, id: &ObjectId) -> Result<ApiResource, Problem> {
        match self.mapper.resource(&id.kind).await {
            Ok(Some(resource)) => Ok(resource),
            Ok(None) => Err(Problem::NoSuchKind(id.clone())),
            Err(error) => Err(Problem::Unreachable {
                id: id.clone(),
                message: Chain(&error).to_string(),
            }),
        }
    }

    /// Brings one object to what it is to be; answers it as it is now.
    pub(crate) async fn apply(
        &self,
        desired: &Desired,
        cause: Cause,
        is_there: IsThere<'_>,
    ) -> (Observed, Option<Problem>) {
        let id = desired.id.clone();
        let resource = match self.resource(&id).await {
            Ok(resource) => resource,
            Err(problem) => {
                let sight = if matches!(problem, Problem::NoSuchKind(_)) {
                    Sight::NotOurs
                } else {
                    Sight::Unknown
                };
                return (Observed { id, sight }, Some(problem));
            }
        };
        // A watch may lag, so what it does not show may be there all the same: creating finds out.
        let known = self.watches.get(&desired.id);
        let seen = known.flatten();
        let (sight, problem) = self
            .bring(desired, &resource, cause, seen.as_deref().cloned(), is_there)
            .await;
        (Observed { id, sight }, problem)
    }

    async fn bring(
        &self,
        desired: &Desired,
        resource: &ApiResource,
        cause: Cause,
        mut live: Option<Value>,
        is_there: IsThere<'_>,
    ) -> (Sight, Option<Problem>) {
        let Desired { id, object } = desired;
        let (namespace, name) = (id.key.namespace(), id.key.name.as_str());
        let sight_of = |live: Value| Sight::of(live, plan::owner(object).as_ref());
        let problem = |verb, error: &kubeio::Error| Some(Problem::from_error(id, verb, resource, error));
        if live.is_none() {
            match self.child.create(resource, namespace, object).await {
                Ok(made) => {
                    self.metrics.done(cause.done(Done::Created));
                    return (Sight::Ours(made), None);
                }
                Err(error) if error.is_already_exists() => {
                    match self.child.get(resource, namespace, name).await {
                        Ok(found) => live = Some(found),
                        Err(error) => return (Sight::Unknown, problem("get", &error)),
                    }
                }
                Err(error) => {
                    if error.is_not_found() {
                        // Its namespace is missing, or its kind went: then discovery says so next time.
                        self.mapper.forget(&id.kind);
                    }
                    // What may not be made may be there all the same.
                    let sight = if error.api().is_none() {
                        Sight::Unknown
                    } else {
                        match self.child.get_opt(resource, namespace, name).await {
                            Ok(found) => found.map_or(Sight::NotOurs, sight_of),
                            Err(_) => Sight::Unknown,
                        }
                    };
                    return (sight, problem("create", &error));
                }
            }
        }
        let step = plan::step(desired, live.as_ref(), is_there);
        let sight = match live {
            Some(live) if step == Step::Share => Sight::Shared(live),
            live => live.map_or(Sight::NotOurs, sight_of),
        };
        let (patch, body) = match step {
            Step::Create | Step::Nothing | Step::Share => return (sight, None),
            Step::Wait => return (sight, Some(Problem::Terminating(id.clone()))),
            Step::Refuse(other) => {
                let id = id.clone();
                return (sight, Some(Problem::OwnedByAnother { id, other }));
            }
            Step::Strategic(body) => (Patch::Strategic, body),
            Step::Merge(body) => (Patch::Merge, body),
        };
        tracing::info!(kind = %id.kind.kind, namespace = id.key.namespace, name, "object changed to what it is to be");
        match self
            .child
            .patch(resource, namespace, name, None, patch, &body)
            .await
        {
            Ok(changed) => {
                self.metrics.done(cause.done(Done::Changed));
                (Sight::Ours(changed), None)
            }
            // It went meanwhile: its deletion is an event, and the next pass makes it again.
            Err(error) if error.is_not_found() => (Sight::NotOurs, Some(Problem::Terminating(id.clone()))),
            Err(error) => (sight, problem("patch", &error)),
        }
    }

    /// Waits until a definition's kind is served. When it takes too long, applying its objects says what is missing.
    pub(crate) async fn established(&self, resource: &ApiResource, definition: &Observed) {
        for _ in 0..ESTABLISH_TRIES {
            let Ok(live) = self.child.get(resource, None, &definition.id.key.name).await else {
                return;
            };
            let conditions = live["status"]["conditions"].as_array();
            if conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            {
                return;
            }
            tokio::time::sleep(ESTABLISH_PERIOD).await;
        }
    }

    /// An object as it is in the child now, if it is there and comes from the Description.
    pub(crate) async fn owned(
        &self,
        id: &ObjectId,
        description: &ObjectKey,
    ) -> Result<Option<Value>, Problem> {
        let resource = match self.resource(id).await {
            Ok(resource) => resource,
            // With its kind the object went too.
            Err(Problem::NoSuchKind(_)) => return Ok(None),
            Err(problem) => return Err(problem),
        };
        match self
            .child
            .get_opt(&resource, id.key.namespace(), &id.key.name)
            .await
        {
            Ok(live) => Ok(live.filter(|live| plan::owner(live).as_ref() == Some(description))),
            Err(error) => Err(Problem::from_error(id, "get", &resource, &error)),
        }
    }

    /// Leaves an object as it was seen to another Description.
    pub(crate) async fn hand_over(
        &self,
        id: &ObjectId,
        live: &Value,
        heir: &ObjectKey,
    ) -> Result<(), Problem> {
        let resource = self.resource(id).await?;
        let patch = json!({"metadata": {
            "annotations": {annotations::OWNED_BY_DESCRIPTION: plan::owner_text(heir)},
            "resourceVersion": meta::resource_version(live),
        }});
        let (namespace, name) = (id.key.namespace(), id.key.name.as_str());
        match self
            .child
            .patch(&resource, namespace, name, None, Patch::Merge, &patch)
            .await
        {
            Ok(_) => Ok(()),
            // It went or changed meanwhile: the next look sees it as it is then.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(Problem::from_error(id, "patch", &resource, &error)),
        }
    }

    /// Asks for the removal of an object as it was seen; it may take its time.
    pub(crate) async fn remove(&self, id: &ObjectId, live: &Value) -> Result<(), Problem> {
        if meta::is_deleting(live) {
            return Ok(());
        }
        let resource = self.resource(id).await?;
        let options = DeleteOptions {
            uid: Some(meta::uid(live).to_owned()).filter(|uid| !uid.is_empty()),
            ..DeleteOptions::background()
        };
        match self
            .child
            .delete(&resource, id.key.namespace(), &id.key.name, &options)
            .await
        {
            Ok(()) => {
                self.metrics.done(Done::Removed);
                Ok(())
            }
            // Gone, or another object of the same name by now.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(Problem::from_error(id, "delete", &resource, &error)),
        }
    }
}
