//! The end of a namespace: everything in it is deleted, custom resources too, then its `kubernetes` finalizer goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use machinery::{ApiError, meta};
use serde_json::{Value, json};
use smol_str::SmolStr;
use source::{Key, ListRequest, Object, ObjectSource, Resource};

use super::feed::Notice;
use super::garbage::{RegistryOf, served_from};
use super::local::{Local, path};
use super::work::{Controller, Next};
use crate::error;
use crate::handlers::timestamp;
use crate::server::ApiServer;

/// The finalizer in `spec.finalizers` that is ours.
const FINALIZER: &str = "kubernetes";

/// What is left of one resource in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Left {
    count: usize,
    /// How many objects have each finalizer.
    finalizers: BTreeMap<String, usize>,
}

/// See the module.
pub(super) struct Namespaces {
    source: Arc<dyn ObjectSource>,
    registry: RegistryOf,
    api: Local,
    env: clock::Env,
}

impl Namespaces {
    pub(super) fn new(server: &Arc<ApiServer>, api: Local) -> Self {
        Self {
            source: server.source().clone(),
            registry: RegistryOf::new(server),
            api,
            env: server.env().clone(),
        }
    }

    async fn content(&self, resource: &Resource, namespace: &str) -> Result<Vec<Arc<Object>>, ApiError> {
        let request = ListRequest {
            resource,
            namespace: Some(namespace),
            filter: &|_| true,
            at: None,
            after: None,
            limit: 0,
        };
        Ok(self
            .source
            .list(&request)
            .await
            .map_err(error::of_source)?
            .objects)
    }

    async fn tend(&self, name: &SmolStr) -> Result<Next, ApiError> {
        let key = Key::new(&Resource::new("", "namespaces"), "", name);
        let Some(object) = self.source.get(&key).await.map_err(error::of_source)? else {
            return Ok(Next::Done);
        };
        let namespace: Value = serde_json::from_slice(&object.json).unwrap_or(Value::Null);
        let ours = namespace["spec"]["finalizers"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == FINALIZER));
        if !meta::is_deleting(&namespace) || !ours {
            return Ok(Next::Done);
        }
        let left = self.empty(name).await?;
        if left.is_empty() {
            self.finalize(namespace, name).await?;
            return Ok(Next::Done);
        }
        let conditions = conditions(
            &namespace["status"]["conditions"],
            &left,
            &timestamp(self.env.now()),
        );
        if conditions != namespace["status"]["conditions"] {
            let patch = json!({"status": {"phase": "Terminating", "conditions": conditions}});
            self.api
                .merge(&format!("/api/v1/namespaces/{name}/status"), &patch)
                .await?;
        }
        Ok(Next::Retry)
    }

    /// Deletes what is in a namespace; says what is still there afterwards, by resource.
    async fn empty(&self, name: &str) -> Result<BTreeMap<String, Left>, ApiError> {
        let snapshot = self.registry.snapshot();
        let mut resources: Vec<&Resource> = snapshot
            .all()
            .iter()
            .filter(|served| served.namespaced && served.allows("list") && served.allows("delete"))
            .map(|served| &served.storage)
            .collect();
        resources.sort();
        resources.dedup();
        let mut left = BTreeMap::new();
        for resource in resources {
            let content = self.content(resource, name).await?;
            let Some(served) = content
                .first()
                .and_then(|first| served_from(&snapshot, &first.key))
            else {
                continue;
            };
            if content.iter().any(|object| !object.head.deleting) {
                let collection = path(served, name, "");
                self.api
                    .delete(&collection, &json!({"kind": "DeleteOptions", "apiVersion": "v1"}))
                    .await?;
            }
            let content = self.content(resource, name).await?;
            if !content.is_empty() {
                left.insert(served.qualified(), count(&content));
            }
        }
        Ok(left)
    }

    async fn finalize(&self, mut namespace: Value, name: &str) -> Result<(), ApiError> {
        if let Some(all) = namespace["spec"]["finalizers"].as_array_mut() {
            all.retain(|one| one != FINALIZER);
        }
        match self
            .api
            .replace(&format!("/api/v1/namespaces/{name}/finalize"), &namespace)
            .await
        {
            Err(error) if error.code == 404 => Ok(()),
            done => done.map(drop),
        }
    }
}

fn count(content: &[Arc<Object>]) -> Left {
    let mut left = Left {
        count: content.len(),
        ..Left::default()
    };
    for object in content {
        let value: Value = serde_json::from_slice(&object.json).unwrap_or(Value::Null);
        for finalizer in meta::finalizers(&value) {
            *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    left
}

/// The conditions of a namespace that is not empty yet; those that say the same keep their time.
fn conditions(old: &Value, left: &BTreeMap<String, Left>, now: &str) -> Value {
    let remaining: Vec<String> = left
        .iter()
        .map(|(resource, left)| {
            let dot = if resource.contains('.') { "" } else { "." };
            format!("{resource}{dot} has {} resource instances", left.count)
        })
        .collect();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for left in left.values() {
        for (finalizer, count) in &left.finalizers {
            *finalizers.entry(finalizer).or_default() += count;
        }
    }
    let held: Vec<String> = finalizers
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    let holds = if held.is_empty() {
        (
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        )
    } else {
        let message = format!(
            "Some content in the namespace has finalizers remaining: {}",
            held.join(", ")
        );
        ("True", "SomeFinalizersRemain", message)
    };
    let wanted = [
        (
            "NamespaceDeletionDiscoveryFailure",
            (
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered".to_owned(),
            ),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            (
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".to_owned(),
            ),
        ),
        (
            "NamespaceDeletionContentFailure",
            (
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization".to_owned(),
            ),
        ),
        (
            "NamespaceContentRemaining",
            (
                "True",
                "SomeResourcesRemain",
                format!("Some resources are remaining: {}", remaining.join(", ")),
            ),
        ),
        ("NamespaceFinalizersRemaining", holds),
    ];
    wanted
        .into_iter()
        .map(|(kind, (status, reason, message))| {
            let same = old
                .as_array()
                .into_iter()
                .flatten()
                .find(|one| one["type"] == kind && one["status"] == status);
            let since = same.map_or_else(|| json!(now), |one| one["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
            })
        })
        .collect()
}

impl Controller for Namespaces {
    type Key = SmolStr;
    const NAME: &'static str = "namespaces";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<SmolStr>) {
        if let Notice::Put(object) = notice
            && object.head.deleting
        {
            wanted.push(object.key.name.clone());
        }
    }

    fn look<'a>(
        &'a self,
        key: &'a SmolStr,
        _: &'a mut Vec<SmolStr>,
    ) -> BoxFuture<'a, Result<Next, ApiError>> {
        Box::pin(self.tend(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_is_left_and_settle() {
        let left = BTreeMap::from([
            (
                "pods".to_owned(),
                Left {
                    count: 2,
                    finalizers: BTreeMap::from([("a/b".to_owned(), 1)]),
                },
            ),
            (
                "things.example.com".to_owned(),
                Left {
                    count: 1,
                    finalizers: BTreeMap::from([("a/b".to_owned(), 1)]),
                },
            ),
        ]);
        let first = conditions(&Value::Null, &left, "t1");
        assert_eq!(
            first[3]["message"],
            "Some resources are remaining: pods. has 2 resource instances, things.example.com has 1 resource instances"
        );
        assert_eq!(
            first[4]["message"],
            "Some content in the namespace has finalizers remaining: a/b in 2 resource instances"
        );
        assert_eq!(
            conditions(&first, &left, "t2"),
            first,
            "nothing new, nothing to write"
        );
    }
}
