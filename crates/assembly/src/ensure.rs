//! Brings objects to a wanted state, writing only what differs.

use std::collections::BTreeMap;

use kubeio::{Client, Patch};
use machinery::{ApiResource, meta};
use serde_json::Value;

use crate::Error;

/// What happened to the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ensured {
    /// How many were made.
    pub created: usize,
    /// How many were changed.
    pub changed: usize,
}

/// Makes or changes each object, in order. `resources` says how a kind is addressed.
///
/// # Errors
/// [`Error::Object`] of the first that fails.
pub async fn ensure(
    client: &Client,
    resources: &BTreeMap<&str, ApiResource>,
    objects: &[Value],
) -> Result<Ensured, Error> {
    let mut ensured = Ensured::default();
    for object in objects {
        let (kind, name) = (meta::kind(object), meta::name(object));
        let failed = |source| Error::Object {
            object: format!("{kind} {name:?}"),
            source,
        };
        let resource = resources
            .get(kind)
            .expect("the caller names every kind that it makes");
        let namespace = Some(meta::namespace(object)).filter(|namespace| !namespace.is_empty());
        match client.get_opt(resource, namespace, name).await.map_err(failed)? {
            None => {
                client.create(resource, namespace, object).await.map_err(failed)?;
                ensured.created += 1;
            }
            Some(live) if covers(&live, object) => {}
            Some(_) => {
                client
                    .patch(resource, namespace, name, None, Patch::Merge, object)
                    .await
                    .map_err(failed)?;
                ensured.changed += 1;
            }
        }
    }
    Ok(ensured)
}

/// Whether everything that is wanted is there; what is there besides does not matter. Lists must be equal in
/// length, and cover each other entry by entry.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            live.get(key)
                .map_or(is_empty(value), |found| covers(found, value))
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(found, value)| covers(found, value))
        }
        (live, wanted) => live == wanted,
    }
}

/// What a server leaves out when it stores an object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_there_besides_does_not_matter() {
        let live = json!({"a": 1, "b": {"c": [1, 2]}, "status": {}});
        assert!(covers(&live, &json!({"a": 1, "b": {"c": [1, 2]}})));
        assert!(covers(&live, &json!({"b": {}, "gone": [], "none": {"x": null}})));
        for differs in [
            json!({"a": 2}),
            json!({"b": {"c": [1]}}),
            json!({"d": 1}),
            json!({"b": {"c": [2, 1]}}),
        ] {
            assert!(!covers(&live, &differs), "{differs}");
        }
    }
}
