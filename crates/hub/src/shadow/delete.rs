//! Deleting templates.

use apiserver::Body;
use http::{Response, StatusCode};
use machinery::{ApiError, meta};
use serde_json::{Value, json};

use super::parent::Parameters;
use super::template::to_object;
use super::{Call, Shadow, read};

impl Shadow {
    /// Deletes the Manifest; its finalizers (a feed still in use) may keep it.
    pub(super) async fn delete(&self, call: &Call<'_>, options: Value) -> Result<Response<Body>, ApiError> {
        let manifest = self.manifest(call).await?;
        let answer = self
            .delete_manifest(call, &manifest, &options, call.name())
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
        options: Value,
    ) -> Result<Response<Body>, ApiError> {
        let list = self.read_all(call).await?;
        let mut gone = Vec::new();
        for manifest in read::items(&list) {
            let object = to_object(manifest);
            match self
                .delete_manifest(call, manifest, &options, meta::name(&object))
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
        options: &Value,
        name: &str,
    ) -> Result<Value, ApiError> {
        let parameters = ["dryRun", "gracePeriodSeconds", "propagationPolicy"]
            .into_iter()
            .fold(Parameters::default(), |all, key| {
                all.add(key, call.query.get(key).unwrap_or_default())
            });
        let mut options = options.clone();
        if let Some(options) = options.as_object_mut() {
            // The options may come in the versioned type of the object's group; to the parent they are its own.
            options.insert("apiVersion".to_owned(), json!("v1"));
            options.insert("kind".to_owned(), json!("DeleteOptions"));
        }
        let answer = self
            .parent
            .delete_manifest(meta::name(manifest), &options, &parameters)
            .await;
        answer.map_err(|error| call.translate(error, name))
    }
}
