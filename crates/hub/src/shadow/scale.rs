//! The `scale` subresource: an `autoscaling/v1 Scale` over a template's replicas.

use apiserver::{Body, identity};
use http::Response;
use machinery::{ApiError, meta};
use serde_json::Value;

use super::body::Patch;
use super::template::to_object;
use super::{Call, Shadow, write};

impl Shadow {
    pub(super) async fn get_scale(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let object = to_object(&self.manifest(call).await?);
        call.scale(scale_of(call, &object)?)
    }

    pub(super) async fn update_scale(
        &self,
        call: &Call<'_>,
        scale: &Value,
    ) -> Result<Response<Body>, ApiError> {
        self.change_scale(call, |_| Ok(scale.clone())).await
    }

    pub(super) async fn patch_scale(
        &self,
        call: &Call<'_>,
        patch: &Patch,
    ) -> Result<Response<Body>, ApiError> {
        self.change_scale(call, |scale| write::patched_plain(patch, scale))
            .await
    }

    async fn change_scale(
        &self,
        call: &Call<'_>,
        change: impl Fn(&Value) -> Result<Value, ApiError> + Sync,
    ) -> Result<Response<Body>, ApiError> {
        let stored = self
            .change(call, write::Trial::Skip, write::Tracked::ByDifference, |object| {
                let mut scale = change(&scale_of(call, object)?)?;
                identity::check_type(&mut scale, "autoscaling/v1", "Scale")?;
                identity::check_namespace(meta::namespace(&scale), call.namespace())?;
                identity::check_name(meta::name(&scale), call.name())?;
                let mut changed = object.clone();
                call.kind.set_replicas(&mut changed, replicas(&scale)?);
                changed["metadata"]["resourceVersion"] = scale["metadata"]["resourceVersion"].clone();
                Ok(changed)
            })
            .await?;
        call.scale(scale_of(call, &to_object(&stored.value))?)
    }
}

/// An object's scale, if its kind has one on the parent.
fn scale_of(call: &Call<'_>, object: &Value) -> Result<Value, ApiError> {
    let scale = call.kind.scale(object).filter(|_| call.mirror.has_scale);
    scale.ok_or_else(|| {
        ApiError::not_found(
            &call.resource().group,
            &format!("{}/scale", call.resource().plural),
            call.name(),
        )
    })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
