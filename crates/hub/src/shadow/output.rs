//! Answers in the form that a client wants them in.

use apiserver::Body;
use apiserver::kinds::{self, IncludeObject, Kind};
use apiserver::negotiate::{Accepted, Encoding, Form, Offer, negotiate};
use apiserver::respond;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, Response, StatusCode};
use machinery::ApiError;
use serde_json::{Value, json};

use super::Call;

/// The form that is asked for.
///
/// # Errors
/// 406 if it is none of those that there are.
pub(super) fn accepted(headers: &HeaderMap, kind: &Kind) -> Result<Accepted, ApiError> {
    let accept: Vec<&str> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let offer = Offer {
        protobuf: kind.has_protobuf(),
        forms: true,
    };
    negotiate(&accept.join(","), offer)
}

/// The metadata of an object, alone.
pub(super) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
    })
}

impl Call<'_> {
    /// One object.
    pub(super) fn object(&self, status: StatusCode, object: Value) -> Result<Response<Body>, ApiError> {
        let shown = match self.accepted.form {
            Form::Object => object,
            Form::Metadata => partial(&object),
            Form::Table => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                self.kind.table([object], metadata, self.include()?, self.now)
            }
        };
        Ok(self.value(status, &shown))
    }

    /// A `Scale`.
    pub(super) fn scale(&self, scale: Value) -> Result<Response<Body>, ApiError> {
        let shown = match self.accepted.form {
            Form::Object => scale,
            Form::Metadata => partial(&scale),
            Form::Table => {
                let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
                kinds::scale_table(scale, metadata, self.include()?, self.now)
            }
        };
        Ok(self.value(StatusCode::OK, &shown))
    }

    /// A list, with what is said of the list of their Manifests.
    pub(super) fn list(&self, items: Vec<Value>, metadata: &Value) -> Result<Response<Body>, ApiError> {
        let metadata = json!({
            "resourceVersion": metadata["resourceVersion"],
            "continue": metadata["continue"].as_str().unwrap_or_default(),
        });
        let list = match self.accepted.form {
            Form::Object => json!({
                "apiVersion": self.resource().api_version(), "kind": self.kind.list_kind(),
                "metadata": metadata, "items": items,
            }),
            Form::Table => self.kind.table(items, metadata, self.include()?, self.now),
            Form::Metadata => json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": metadata, "items": items.iter().map(partial).collect::<Vec<_>>(),
            }),
        };
        let (content_type, body) = self.encoded(&list);
        Ok(respond::large_bytes(content_type, body, &self.headers))
    }

    /// Anything, as it is.
    pub(super) fn value(&self, status: StatusCode, value: &Value) -> Response<Body> {
        let (content_type, body) = self.encoded(value);
        respond::bytes(status, content_type, body)
    }

    /// A template that was never tried may hold what protobuf cannot say; clients that ask for that take JSON too.
    fn encoded(&self, value: &Value) -> (&'static str, Bytes) {
        let encoding = self.accepted.encoding;
        let value = &*self.accepted.in_version(value);
        match respond::encode(encoding, value) {
            Ok(body) => (encoding.content_type(), body),
            Err(_) => (Encoding::Json.content_type(), Bytes::from(value.to_string())),
        }
    }

    /// What comes along with a table's rows.
    pub(super) fn include(&self) -> Result<IncludeObject, ApiError> {
        IncludeObject::from_query(&self.query)
    }
}
