//! Dropping fields that a schema does not know.

use std::sync::OnceLock;

use serde_json::Value;

use super::{Additional, Kind, Link, ListType, PatchStrategy, Schema};

/// The fields of `metadata`, used wherever a schema says no more than `type: object` about it.
pub fn object_meta() -> &'static Schema {
    static NODE: OnceLock<Schema> = OnceLock::new();
    NODE.get_or_init(|| {
        let texts = || {
            let mut map = Schema::of(Kind::Object);
            map.additional = Additional::Values(Link::of(Schema::of(Kind::String)));
            Link::of(map)
        };
        let list = |item: Schema| {
            let mut list = Schema::of(Kind::Array);
            list.items = Some(Link::of(item));
            list
        };
        let mut owner = Schema::of(Kind::Object);
        owner.atomic_map = true;
        for (field, kind) in [
            ("apiVersion", Kind::String),
            ("blockOwnerDeletion", Kind::Boolean),
            ("controller", Kind::Boolean),
            ("kind", Kind::String),
            ("name", Kind::String),
            ("uid", Kind::String),
        ] {
            owner.properties.insert(field.into(), Link::of(Schema::of(kind)));
        }
        let mut fields = Schema::of(Kind::Object);
        fields.preserve_unknown = true;
        let mut managed = Schema::of(Kind::Object);
        for field in [
            "apiVersion",
            "fieldsType",
            "manager",
            "operation",
            "subresource",
            "time",
        ] {
            managed
                .properties
                .insert(field.into(), Link::of(Schema::of(Kind::String)));
        }
        managed.properties.insert("fieldsV1".into(), Link::of(fields));
        let mut meta = Schema::of(Kind::Object);
        for field in [
            "creationTimestamp",
            "deletionTimestamp",
            "generateName",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
            "uid",
        ] {
            meta.properties
                .insert(field.into(), Link::of(Schema::of(Kind::String)));
        }
        for field in ["deletionGracePeriodSeconds", "generation"] {
            meta.properties
                .insert(field.into(), Link::of(Schema::of(Kind::Integer)));
        }
        meta.properties.insert("annotations".into(), texts());
        meta.properties.insert("labels".into(), texts());
        let mut finalizers = list(Schema::of(Kind::String));
        finalizers.list_type = Some(ListType::Set);
        finalizers.patch_strategy = PatchStrategy::Merge;
        meta.properties.insert("finalizers".into(), Link::of(finalizers));
        let mut owners = list(owner);
        owners.list_type = Some(ListType::Map);
        owners.list_map_keys = vec!["uid".into()];
        owners.patch_strategy = PatchStrategy::Merge;
        owners.patch_merge_key = Some("uid".into());
        meta.properties.insert("ownerReferences".into(), Link::of(owners));
        meta.properties
            .insert("managedFields".into(), Link::of(list(managed)));
        meta
    })
}

impl Schema {
    /// Drops what a whole object (with `apiVersion`, `kind` and `metadata`, which always stay) has beyond this
    /// schema. Answers the dropped fields' paths, sorted, such as `spec.containers[0].foo`; of very many, the first.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruner = Pruner::default();
        pruner.visit(object, Some(self), true);
        pruner.unknown.sort();
        pruner.unknown
    }

    /// The paths that [`Schema::prune`] would drop.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        self.prune(&mut object.clone())
    }

    /// As [`Schema::prune`], for a value that is no whole object.
    pub fn prune_value(&self, value: &mut Value) -> Vec<String> {
        let mut pruner = Pruner::default();
        pruner.visit(value, Some(self), false);
        pruner.unknown.sort();
        pruner.unknown
    }
}

/// So many unknown fields of one object are told.
const MOST_UNKNOWN: usize = 1_000;

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    /// Runs with one more key on the path.
    fn within(&mut self, key: &str, run: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        run(self);
        self.path.truncate(length);
    }

    fn report(&mut self, key: &str) {
        if self.unknown.len() >= MOST_UNKNOWN {
            return;
        }
        self.within(key, |pruner| {
            let path = pruner.path.clone();
            pruner.unknown.push(path);
        });
    }

    fn items(&mut self, items: &mut [Value], mut run: impl FnMut(&mut Self, &mut Value)) {
        for (index, item) in items.iter_mut().enumerate() {
            let length = self.path.len();
            self.path.push_str(&format!("[{index}]"));
            run(self, item);
            self.path.truncate(length);
        }
    }

    /// Handles `apiVersion`, `kind` and `metadata` of a whole object; true if the key is one of them.
    fn keeps_meta(&mut self, key: &str, value: &mut Value, schema: &Schema) -> bool {
        match key {
            "apiVersion" | "kind" => true,
            "metadata" => {
                let node = match schema.properties.get(key) {
                    Some(known) if !known.properties.is_empty() => known,
                    Some(_) | None => object_meta(),
                };
                self.within(key, |pruner| pruner.visit(value, Some(node), false));
                true
            }
            _ => false,
        }
    }

    /// With no schema, every key of every map is unknown.
    fn visit(&mut self, value: &mut Value, schema: Option<&Schema>, whole: bool) {
        let preserve = schema.is_some_and(|schema| schema.preserve_unknown);
        match value {
            Value::Object(map) => {
                let Some(schema) = schema else {
                    for key in map.keys() {
                        self.report(key);
                    }
                    map.clear();
                    return;
                };
                let whole = whole || schema.embedded_resource;
                map.retain(|key, value| {
                    if whole && self.keeps_meta(key, value, schema) {
                        return true;
                    }
                    match (schema.properties.get(key.as_str()), &schema.additional) {
                        (Some(link), _) | (None, Additional::Values(link)) => {
                            self.within(key, |pruner| pruner.visit(value, Some(link), false));
                            true
                        }
                        (None, Additional::Any) => {
                            self.within(key, |pruner| pruner.visit(value, None, false));
                            true
                        }
                        (None, Additional::Unset | Additional::Forbidden) => {
                            if !preserve {
                                self.report(key);
                            }
                            preserve
                        }
                    }
                });
            }
            Value::Array(items) => {
                let node = schema.and_then(Schema::item);
                // A list in a place that keeps everything hands that on where it says nothing of its items.
                if preserve && node.is_none() {
                    return;
                }
                let keep = preserve.then(|| node.map(keeping)).flatten();
                self.items(items, |pruner, item| {
                    pruner.visit(item, keep.as_ref().or(node), false);
                });
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn keeping(node: &Schema) -> Schema {
    let mut node = node.clone();
    node.preserve_unknown = true;
    node
}
