//! Custom resource definitions at run time: they take effect with their write, and go once their objects are gone.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use source::{Change, Error, Expect, Key, ListRequest, Object, Resource, Write};

use crate::object;
use crate::registry::custom::{self, CLEANUP};
use crate::registry::{Registry, Served, Snapshot};
use crate::server::ApiServer;

/// The storage name of definitions.
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

const ATTEMPTS: u32 = 16;

/// Takes every stored definition into the registry.
pub(crate) async fn load(registry: &Registry, source: &dyn source::ObjectSource) -> Result<(), Error> {
    let page = source
        .list(&ListRequest {
            resource: &Resource::from(DEFINITIONS),
            namespace: None,
            filter: &|_| true,
            at: None,
            after: None,
            limit: 0,
        })
        .await?;
    for definition in &page.objects {
        take(registry, definition);
    }
    Ok(())
}

/// Takes a written definition into the registry.
pub(crate) fn take(registry: &Registry, definition: &Object) {
    let served = serde_json::from_slice::<Value>(&definition.json)
        .map(|definition| custom::served(&definition))
        .unwrap_or_default();
    registry.set_custom(&definition.key.name, definition.revision, served);
}

/// Lets a definition that is being deleted go, if it can: deletes its objects, and removes it once there is none.
pub(crate) fn clean_up<'a>(server: &'a ApiServer, name: &'a str) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let key = Key::new(&Resource::from(DEFINITIONS), "", name);
        for _ in 0..ATTEMPTS {
            let Some(stored) = server.source().get(&key).await? else {
                return Ok(());
            };
            let mut definition: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
            let finalizers = definition["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if !stored.head.deleting || !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
                return Ok(());
            }
            let spec = &definition["spec"];
            let resource = Resource::new(
                spec["group"].as_str().unwrap_or_default(),
                spec["names"]["plural"].as_str().unwrap_or_default(),
            );
            if !remove_objects(server, &resource).await? {
                return Ok(());
            }
            let kept: Vec<Value> = finalizers
                .into_iter()
                .filter(|finalizer| finalizer != CLEANUP)
                .collect();
            let change = if kept.is_empty() {
                Change::Delete
            } else {
                definition["metadata"]["finalizers"] = Value::Array(kept);
                let snapshot = server.registry.snapshot();
                let Some(served) = definitions(&snapshot) else {
                    return Ok(());
                };
                Change::Put(object::draft(served, &definition))
            };
            let write = Write {
                key: key.clone(),
                expect: Expect::Revision(stored.revision),
                change,
            };
            match server.write(write).await {
                Err(Error::Conflict { .. }) => {}
                Err(Error::NotFound(_)) => return Ok(()),
                done => return done.map(|_| ()),
            }
        }
        Ok(())
    })
}

/// The resource that definitions are.
pub(crate) fn definitions(snapshot: &Snapshot) -> Option<&Arc<Served>> {
    snapshot.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Deletes all objects of a resource; whether none is left.
async fn remove_objects(server: &ApiServer, resource: &Resource) -> Result<bool, Error> {
    let page = server
        .source()
        .list(&ListRequest {
            resource,
            namespace: None,
            filter: &|_| true,
            at: None,
            after: None,
            limit: 0,
        })
        .await?;
    let mut left = false;
    for stored in &page.objects {
        let value: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
        let held = value["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        left |= held;
        if held && stored.head.deleting {
            continue;
        }
        let change = if held {
            mark(server, stored, value)
        } else {
            Change::Delete
        };
        let write = Write {
            key: stored.key.clone(),
            expect: Expect::Revision(stored.revision),
            change,
        };
        match server.source().write(write).await {
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(Error::Conflict { .. }) => left = true,
            Err(error) => return Err(error),
        }
    }
    Ok(!left)
}

/// An object of any version with a deletion timestamp, its selectable fields as they were.
fn mark(server: &ApiServer, stored: &Object, mut value: Value) -> Change {
    value["metadata"]["deletionTimestamp"] = Value::from(crate::handlers::timestamp(server.env().now()));
    value["metadata"]["deletionGracePeriodSeconds"] = Value::from(0);
    let mut draft = object::draft_as(
        value["apiVersion"].as_str().unwrap_or_default(),
        value["kind"].as_str().unwrap_or_default(),
        &value,
        stored.head.unpack(),
    );
    draft.head.deleting = true;
    Change::Put(draft)
}
