//! What is in the child and says that it comes from a Description: the record that outlives agent and parent.

use api::labels;
use kubeio::{Client, Discovery, ListOptions, ObjectKey};
use machinery::{ApiResource, meta};
use runtime::Chain;
use serde_json::Value;

use crate::plan::{self, ObjectId};

/// Applied objects that a child may have; with more, the rest is missed.
const MAX_FOUND: usize = 200_000;

/// Selects applied objects.
pub(crate) fn selector() -> String {
    format!(
        "{} in ({},{})",
        labels::CREATED_BY,
        labels::CREATED_BY_CONTROLLERS,
        labels::CREATED_BY_HUB
    )
}

/// The applied objects of a child.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The objects, each with the Description that it names.
    pub objects: Vec<(ObjectKey, ObjectId)>,
    /// What could not be looked at, though it may be possible later.
    pub missed: Vec<String>,
}

/// Looks at every kind that can be listed and deleted.
///
/// # Errors
/// If the child does not tell its kinds.
pub async fn find(child: &Client) -> Result<Found, kubeio::Error> {
    let discovery = child.discover().await?;
    let mut found = Found {
        missed: discovery.failed.clone(),
        ..Found::default()
    };
    let selector = ListOptions::labels(selector());
    for resource in listable(&discovery) {
        if found.objects.len() > MAX_FOUND {
            found.missed.push(resource.kind.to_string());
            break;
        }
        match child.list_all(resource, None, &selector).await {
            Ok(listed) => found.objects.extend(listed.items.iter().filter_map(applied)),
            // What may not be listed was not applied by an agent with these rights either.
            Err(error) if is_final(&error) => {}
            Err(error) => {
                tracing::debug!(kind = %resource.kind, error = %Chain(&error), "not looked at");
                found.missed.push(resource.kind.to_string());
            }
        }
    }
    Ok(found)
}

/// The resources whose objects may have been applied.
fn listable(discovery: &Discovery) -> impl Iterator<Item = &ApiResource> {
    discovery.resources.iter().filter_map(|discovered| {
        let can = |verb: &str| discovered.verbs.iter().any(|other| other == verb);
        (can("list") && can("delete")).then_some(&discovered.resource)
    })
}

/// Whether asking again is of no use: no right, no such kind, no such verb.
fn is_final(error: &kubeio::Error) -> bool {
    error.is_forbidden() || error.is_not_found() || error.api().is_some_and(|error| error.code == 405)
}

/// An object that was applied. What a controller makes from one may have copied its annotations; the garbage collector
/// looks after that.
fn applied(object: &Value) -> Option<(ObjectKey, ObjectId)> {
    let owner = plan::owner(object)?;
    meta::controller(object)
        .is_none()
        .then(|| (owner, ObjectId::of(object)))
}

#[cfg(test)]
mod tests {
    use api::annotations;
    use kubeio::Discovered;
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_no_copy_for_an_applied_object() {
        let object = |owner: Option<&str>, controller: bool| {
            let mut object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}});
            if let Some(owner) = owner {
                object["metadata"]["annotations"] = json!({annotations::OWNED_BY_DESCRIPTION: owner});
            }
            if controller {
                object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "X", "name": "x",
                    "uid": "u", "controller": true}]);
            }
            object
        };
        for (owner, controller, expected) in [
            (Some("ns.a.b"), false, Some(ObjectKey::new("ns", "a.b"))),
            (Some("ns.a.b"), true, None),
            (Some("junk"), false, None),
            (None, false, None),
        ] {
            let found = applied(&object(owner, controller)).map(|(owner, _)| owner);
            assert_eq!(found, expected, "{owner:?} {controller}");
        }
    }

    #[test]
    fn looks_only_at_what_it_could_remove() {
        let resource = |plural: &'static str, verbs: &[&str]| Discovered {
            resource: ApiResource::namespaced("", "v1", plural, plural),
            verbs: verbs.iter().map(ToString::to_string).collect(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
        };
        let discovery = Discovery {
            resources: vec![
                resource("all", &["get", "list", "delete"]),
                resource("reviews", &["create"]),
                resource("statuses", &["list"]),
            ],
            failed: Vec::new(),
        };
        let found: Vec<&str> = listable(&discovery).map(|it| it.plural.as_ref()).collect();
        assert_eq!(found, ["all"]);
    }
}
