//! The `scale` subresource: an `autoscaling/v1 Scale` that stands for fields of the object.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use machinery::selector::LabelSelector;
use machinery::{ApiError, Gvk, builtin, meta};
use serde_json::{Map, Value, json};

use super::create::Outcome;
use super::update::Tracked;
use super::{Call, Part, metadata, patch, present, update};
use crate::body::Body;
use crate::decode::{self, BodyFormat};
use crate::object;
use crate::problems::Problems;
use crate::registry::ScalePaths;
use crate::{error, identity};

const VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// Answers a request on `scale`.
pub(super) async fn answer(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let Some(paths) = call.served.scale.clone() else {
        return Err(error::no_such_path());
    };
    match call.info.verb.as_str() {
        "get" => {
            let stored = call.existing().await?;
            let object = object::parse(&call.served, &stored.json)?;
            // Without its definition's help nobody knows how many are meant.
            if call.served.custom.is_some() && find(&object, &paths.replicas).is_null() {
                let path = paths.replicas.join(".");
                return Err(ApiError::internal(format!(
                    "Internal error occurred: the spec replicas field \".{path}\" does not exist"
                )));
            }
            let scale = scale_of(&paths, &object);
            present::tree(call, StatusCode::OK, scale)
        }
        "update" => {
            let format = BodyFormat::from_content_type(call.header(header::CONTENT_TYPE))?;
            let (wanted, _) = decode::decode(format, &body)?;
            write(call, &paths, true, |_| Ok(wanted.clone())).await
        }
        "patch" => {
            let kind = patch::Kind::from_content_type(call.header(header::CONTENT_TYPE), false)?;
            let name = call.info.name.clone();
            let patch = if kind == patch::Kind::Apply {
                let (mut config, _) = decode::decode(BodyFormat::Yaml, &body)?;
                identity::check_applied(&config, |gvk| gvk.api_version() == VERSION && gvk.kind == KIND)?;
                // Applied is what it has, and this is nothing.
                if let Some(map) = config.as_object_mut() {
                    map.retain(|_, value| !value.is_null());
                }
                config
            } else {
                decode::json(&body)?.0
            };
            patch::check(kind, &patch)?;
            let schema = builtin::schema(&Gvk::new(VERSION, KIND));
            write(call, &paths, false, |scale| {
                patch::patched(kind, schema, ("autoscaling", KIND, &name), scale, &patch)
            })
            .await
        }
        _ => Err(error::no_such_verb()),
    }
}

async fn write(
    call: &mut Call<'_>,
    paths: &ScalePaths,
    whole: bool,
    make: impl Fn(&Value) -> Result<Value, ApiError> + Send + Sync,
) -> Result<Response<Body>, ApiError> {
    let name = call.info.name.clone();
    let outcome = update::change(call, Part::Main, true, Tracked::ByDifference, |call, old| {
        let mut scale = make(&scale_of(paths, old))?;
        if !whole && meta::api_version(&scale).is_empty() {
            return Err(identity::undeterminable(&name));
        }
        metadata::admit_other(call, &mut scale, VERSION, KIND)?;
        identity::check_name(meta::name(&scale), &name)?;
        let replicas = &scale["spec"]["replicas"];
        let replicas = if replicas.is_null() {
            json!(0)
        } else {
            replicas.clone()
        };
        if !replicas
            .as_i64()
            .is_some_and(|count| (0..=i64::from(i32::MAX)).contains(&count))
        {
            let mut problems = Problems::default();
            problems.invalid("spec.replicas", &replicas, "must be greater than or equal to 0");
            return Err(ApiError::invalid(
                "autoscaling",
                "Scale",
                &name,
                problems.into_causes(),
            ));
        }
        let mut new = old.clone();
        set(&mut new, &paths.replicas, replicas);
        let revision = &scale["metadata"]["resourceVersion"];
        if whole || !revision.is_null() {
            new["metadata"]["resourceVersion"] = revision.clone();
        }
        if let Some(uid) = scale["metadata"]["uid"].as_str() {
            new["metadata"]["uid"] = Value::from(uid);
        }
        Ok(new)
    })
    .await?;
    let object = match outcome {
        Outcome::Stored(stored) => object::parse(&call.served, &stored.json)?,
        Outcome::Tree(value) => value,
    };
    let scale = scale_of(paths, &object);
    present::tree(call, StatusCode::OK, scale)
}

/// An object's scale.
pub(crate) fn scale_of(paths: &ScalePaths, object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let count = |path: &[String]| find(object, path).as_i64().unwrap_or(0);
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    if let Some(path) = &paths.selector {
        let value = find(object, path);
        let selector = match value.as_str() {
            Some(text) => text.to_owned(),
            None if value.is_null() => String::new(),
            // A ReplicationController's selector is a plain map.
            None => {
                let typed = value.get("matchLabels").is_some() || value.get("matchExpressions").is_some();
                let value = if typed {
                    value.clone()
                } else {
                    json!({"matchLabels": value})
                };
                LabelSelector::from_value(&value)
                    .map(|selector| selector.to_string())
                    .unwrap_or_default()
            }
        };
        if !selector.is_empty() {
            status["selector"] = Value::from(selector);
        }
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": count(&paths.replicas)}, "status": status,
    })
}

fn find<'a>(object: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(object, |value, field| &value[field.as_str()])
}

/// Sets a field, by its names from the root.
pub(crate) fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut target = object;
    for field in parents {
        let Some(next) = crate::strategy::field_mut(target, field) else {
            return;
        };
        target = next;
    }
    if let Some(map) = target.as_object_mut() {
        map.insert(last.clone(), value);
    }
}
