//! Deleting templates.

use apiserver::Body;
use apiserver::options::{DeleteOptions, ListOptions};
use http::{Response, StatusCode};
use machinery::{ApiError, meta};
use serde_json::{Value, json};

use super::parent::Parameters;
use super::template::to_object;
use super::{Call, Shadow, body, read};

/// What a client asks for besides the object, as the parent is told.
pub(super) struct Deletion {
    body: Value,
    parameters: Parameters,
}

impl Deletion {
    /// From a request's body, or without one from its query.
    pub(super) async fn read(call: &Call<'_>, body: Body) -> Result<Self, ApiError> {
        let mut parameters = Parameters::default();
        let mut body = body::read_optional(&call.headers, body).await?;
        if body.is_null() {
            DeleteOptions::of_query(&call.query)?;
            for key in [
                "dryRun",
                "gracePeriodSeconds",
                "orphanDependents",
                "propagationPolicy",
                "resourceVersion",
                "uid",
            ] {
                parameters = parameters.add(key, call.query.get(key).unwrap_or_default());
            }
        } else {
            DeleteOptions::of_body(&body)?;
            // The options may come in the versioned type of the object's group; to the parent they are its own.
            body["apiVersion"] = json!("v1");
            body["kind"] = json!("DeleteOptions");
        }
        Ok(Self { body, parameters })
    }
}

impl Shadow {
    /// Deletes the Manifest; its finalizers (a feed still in use) may keep it.
    pub(super) async fn delete(
        &self,
        call: &Call<'_>,
        options: &Deletion,
    ) -> Result<Response<Body>, ApiError> {
        let manifest = self.manifest(call).await?;
        let answer = self
            .delete_manifest(call, &manifest, options, call.name())
            .await?;
        if answer["kind"] == "Manifest" {
            return call.object(StatusCode::OK, to_object(&answer));
        }
        let resource = call.resource();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": call.name(), "group": resource.group, "kind": resource.plural,
                "uid": meta::uid(&manifest),
            },
        });
        Ok(call.value(StatusCode::OK, &status))
    }

    /// Deletes what is selected, one by one; answers what there was.
    pub(super) async fn delete_collection(
        &self,
        call: &Call<'_>,
        wanted: &ListOptions,
        options: &Deletion,
    ) -> Result<Response<Body>, ApiError> {
        let list = self.read_all(call, wanted).await?;
        let mut gone = Vec::new();
        for manifest in read::items(&list) {
            let object = to_object(manifest);
            match self
                .delete_manifest(call, manifest, options, meta::name(&object))
                .await
            {
                Ok(_) => gone.push(object),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        call.list(gone, &list["metadata"])
    }

    async fn delete_manifest(
        &self,
        call: &Call<'_>,
        manifest: &Value,
        options: &Deletion,
        name: &str,
    ) -> Result<Value, ApiError> {
        let answer = self
            .parent
            .delete_manifest(meta::name(manifest), &options.body, &options.parameters)
            .await;
        answer.map_err(|error| call.translate(error, name))
    }
}
