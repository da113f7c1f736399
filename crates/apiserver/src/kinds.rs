//! What is known of kinds, for others who show and change their objects: columns, schema, scale. Entry: [`Kind`].

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use machinery::openapi::{CustomKind, v3_shown};
use machinery::schema::Schema;
use machinery::{ApiResource, builtin};
use serde_json::{Value, json};

use crate::registry::{self, Registry, SchemaRef, Served, Snapshot};
use crate::table;
use crate::{handlers, openapi};

pub use crate::table::IncludeObject;

static BUILT_IN: LazyLock<Arc<Snapshot>> = LazyLock::new(|| Registry::new().snapshot());

/// One kind in one version. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Kind(Arc<Served>);

impl Kind {
    /// A kind of Kubernetes' own, if there is such a one.
    pub fn built_in(resource: &ApiResource) -> Option<Self> {
        BUILT_IN
            .find(&resource.group, &resource.version, &resource.plural)
            .cloned()
            .map(Self)
    }

    /// What a custom resource definition serves in a version, once it is established.
    pub fn custom(definition: &Value, version: &str) -> Option<Self> {
        let mut served = registry::custom::served(definition).into_iter();
        let found = served.find(|served| served.version == version)?;
        Some(Self(Arc::new(found)))
    }

    /// A kind of which nothing but its names is known: it has a name and an age.
    pub fn plain(resource: &ApiResource) -> Self {
        let names = json!({
            "plural": resource.plural, "kind": resource.kind, "singular": resource.kind.to_lowercase(),
            "listKind": format!("{}List", resource.kind),
        });
        let scope = if resource.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        let definition = json!({
            "spec": {"group": resource.group, "scope": scope, "names": names, "versions": [
                {"name": resource.version, "served": true, "storage": true},
            ]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        Self::custom(&definition, &resource.version).expect("the definition above is established")
    }

    /// Whether its objects have a form in Kubernetes' protobuf.
    pub fn has_protobuf(&self) -> bool {
        self.0.has_protobuf()
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> &str {
        &self.0.list_kind
    }

    /// The type of its objects.
    pub fn schema(&self) -> Option<&Schema> {
        self.0.schema.as_ref().map(SchemaRef::get)
    }

    /// Templates of the kind as a `meta.k8s.io/v1 Table`: they have no status, and their cells claim none.
    pub fn table(
        &self,
        items: impl IntoIterator<Item = Value>,
        metadata: Value,
        include: IncludeObject,
        now: Timestamp,
    ) -> Value {
        table::templates(&self.0, items, metadata, include, now)
    }

    /// An object's `autoscaling/v1 Scale`; `None` if the kind has none.
    pub fn scale(&self, object: &Value) -> Option<Value> {
        let paths = self.0.scale.as_ref()?;
        Some(handlers::scale_of(paths, object))
    }

    /// Sets an object's replicas, where the kind has them.
    pub fn set_replicas(&self, object: &mut Value, replicas: u32) {
        if let Some(paths) = &self.0.scale {
            handlers::set(object, &paths.replicas, json!(replicas));
        }
    }
}

/// The OpenAPI v3 document of a group version that shows these kinds, with every verb.
pub fn openapi(group: &str, version: &str, kinds: &[Kind]) -> Value {
    let (mut built_in, mut custom) = (Vec::new(), Vec::new());
    for Kind(served) in kinds {
        match openapi::custom_kind(served) {
            Some(kind) => custom.push(CustomKind {
                status: false,
                ..kind
            }),
            None => built_in.extend(builtin::resource(&served.group, &served.version, &served.plural)),
        }
    }
    v3_shown(group, version, &built_in, &custom)
}

/// A `Scale` as a table.
pub fn scale_table(scale: Value, metadata: Value, include: IncludeObject, now: Timestamp) -> Value {
    table::scale(scale, metadata, include, now)
}

/// A table that only says up to where a watch has seen everything.
pub fn bookmark_table(metadata: &Value) -> Value {
    table::bookmark(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_scale_follow_the_kind() {
        let deployments = ApiResource::namespaced("apps", "v1", "deployments", "Deployment");
        let widgets = ApiResource::namespaced("example.io", "v1", "widgets", "Widget");
        let definition = json!({
            "spec": {"group": "example.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        let object = json!({"metadata": {"name": "w"}, "spec": {"size": 3}});
        let now = Timestamp::UNIX_EPOCH;
        let check = |kind: Kind, columns: &[&str], scale: Value| {
            let table = kind.table([object.clone()], json!({}), IncludeObject::None, now);
            let shown = table["columnDefinitions"].as_array().unwrap().iter();
            let shown: Vec<&str> = shown
                .filter(|column| column["priority"] == 0)
                .map(|column| column["name"].as_str().unwrap())
                .collect();
            assert_eq!(shown, columns);
            let found = kind.scale(&object);
            assert_eq!(
                found.map_or(Value::Null, |scale| scale["spec"]["replicas"].clone()),
                scale
            );
        };
        let built_in = Kind::built_in(&deployments).unwrap();
        check(
            built_in,
            &["Name", "Ready", "Up-to-date", "Available", "Age"],
            json!(0),
        );
        check(
            Kind::custom(&definition, "v1").unwrap(),
            &["Name", "Size"],
            json!(3),
        );
        check(Kind::plain(&widgets), &["Name", "Age"], Value::Null);
        assert!(Kind::built_in(&widgets).is_none() && Kind::custom(&definition, "v2").is_none());
    }
}
