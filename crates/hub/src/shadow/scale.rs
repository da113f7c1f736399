//! The `scale` subresource: `autoscaling/v1 Scale` over a template's `spec.replicas`.

use apiserver::Body;
use http::{Response, StatusCode};
use machinery::{ApiError, meta};
use serde_json::{Value, json};

use super::body::Patch;
use super::template::to_object;
use super::{Call, Shadow, write};
use crate::respond;

impl Shadow {
    pub(super) async fn get_scale(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        has_scale(call)?;
        let object = to_object(&self.manifest(call).await?);
        Ok(respond::json(StatusCode::OK, &to_scale(&object)))
    }

    pub(super) async fn update_scale(
        &self,
        call: &Call<'_>,
        scale: Value,
    ) -> Result<Response<Body>, ApiError> {
        self.change_scale(call, |_| Ok(scale.clone())).await
    }

    pub(super) async fn patch_scale(
        &self,
        call: &Call<'_>,
        patch: Patch,
    ) -> Result<Response<Body>, ApiError> {
        self.change_scale(call, |scale| write::apply_plain(&patch, scale))
            .await
    }

    async fn change_scale(
        &self,
        call: &Call<'_>,
        change: impl Fn(&Value) -> Result<Value, ApiError> + Sync,
    ) -> Result<Response<Body>, ApiError> {
        has_scale(call)?;
        let stored = self
            .change(call, write::Validation::Skip, |object| {
                let scale = change(&to_scale(object))?;
                let mut changed = object.clone();
                changed["spec"]["replicas"] = json!(replicas(&scale)?);
                changed["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
                Ok(changed)
            })
            .await?;
        Ok(respond::json(
            StatusCode::OK,
            &to_scale(&to_object(&stored.value)),
        ))
    }
}

fn has_scale(call: &Call<'_>) -> Result<(), ApiError> {
    if call.mirror.has_scale {
        return Ok(());
    }
    Err(ApiError::not_found(
        &call.resource().group,
        &format!("{}/scale", call.resource().plural),
        call.name(),
    ))
}

fn replicas(scale: &Value) -> Result<u32, ApiError> {
    let value = &scale["spec"]["replicas"];
    if value.is_null() {
        return Ok(0);
    }
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    count.filter(|count| *count <= 0x7fff_ffff).ok_or_else(|| {
        let cause = machinery::Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {value}: must be greater than or equal to 0"),
            field: "spec.replicas".to_owned(),
        };
        ApiError::invalid("autoscaling", "Scale", meta::name(scale), vec![cause])
    })
}

fn to_scale(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_u64().unwrap_or(1)},
        // Templates do not run.
        "status": {"replicas": 0},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counts() {
        assert_eq!(replicas(&json!({"spec": {"replicas": 3}})), Ok(3));
        assert_eq!(replicas(&json!({})), Ok(0));
        for bad in [json!(-1), json!("3"), json!(1.5), json!(3_000_000_000_u64)] {
            assert_eq!(
                replicas(&json!({"spec": {"replicas": bad}})).unwrap_err().code,
                422
            );
        }
    }
}
