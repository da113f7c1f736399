//! Request bodies.

use apiserver::Body;
use apiserver::body::ReadError;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use machinery::{ApiError, Reason};
use serde_json::Value;

/// The longest body that is read, as for the parent itself.
const LIMIT: usize = 3 << 20;

/// A change to an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own.
    Strategic(Value),
}

/// An object.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Value, ApiError> {
    let bytes = all(body).await?;
    decode(media_type(headers), &bytes)
}

/// Options, which may be missing.
pub(crate) async fn read_optional(headers: &HeaderMap, body: Body) -> Result<Value, ApiError> {
    let bytes = all(body).await?;
    if bytes.is_empty() {
        Ok(Value::Null)
    } else {
        decode(media_type(headers), &bytes)
    }
}

/// A patch.
pub(crate) async fn read_patch(headers: &HeaderMap, body: Body) -> Result<Patch, ApiError> {
    let make = match media_type(headers) {
        "application/json-patch+json" => Patch::Json,
        "application/merge-patch+json" => Patch::Merge,
        "application/strategic-merge-patch+json" => Patch::Strategic,
        "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
            return Err(unsupported(
                "server-side apply is not supported for templates: use client-side apply (kubectl apply)",
            ));
        }
        other => return Err(unsupported(&format!("{other:?} is no patch's media type"))),
    };
    let bytes = all(body).await?;
    Ok(make(decode("application/json", &bytes)?))
}

async fn all(body: Body) -> Result<Bytes, ApiError> {
    body.read(LIMIT).await.map_err(|error| match error {
        ReadError::TooLarge(_) => ApiError::new(
            Reason::RequestEntityTooLarge,
            format!("the body is larger than {LIMIT} bytes"),
        ),
        ReadError::Broken(error) => {
            ApiError::bad_request(format!("the body was not read to its end: {error}"))
        }
    })
}

fn media_type(headers: &HeaderMap) -> &str {
    let text = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("application/json");
    text.split(';').next().unwrap_or_default().trim()
}

fn decode(media_type: &str, bytes: &[u8]) -> Result<Value, ApiError> {
    let value: Value = match media_type {
        "application/json" | "" => serde_json::from_slice(bytes)
            .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?,
        "application/yaml" => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
            codec::yaml::parse_one(text)
                .map_err(|error| ApiError::bad_request(format!("the body is not YAML: {error}")))?
        }
        "application/vnd.kubernetes.protobuf" => codec::protobuf::decode(bytes).map_err(|error| {
            ApiError::bad_request(format!("the body is not Kubernetes protobuf: {error}"))
        })?,
        other => {
            return Err(unsupported(&format!(
                "the body of the request was in an unknown format: {other:?}"
            )));
        }
    };
    Ok(value)
}

fn unsupported(text: &str) -> ApiError {
    ApiError::new(Reason::UnsupportedMediaType, text)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn headers(media_type: &'static str) -> HeaderMap {
        [(CONTENT_TYPE, HeaderValue::from_static(media_type))]
            .into_iter()
            .collect()
    }

    #[tokio::test]
    async fn reads_what_clients_send() {
        let json = read(
            &headers("application/json; charset=utf-8"),
            Body::from("{\"a\":1}"),
        )
        .await;
        assert_eq!(json, Ok(json!({"a": 1})));
        assert_eq!(
            read(&headers("application/yaml"), Body::from("a: 1\n")).await,
            Ok(json!({"a": 1}))
        );
        assert_eq!(
            read_optional(&HeaderMap::new(), Body::empty()).await,
            Ok(Value::Null)
        );
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "v"}});
        let protobuf = codec::protobuf::encode(&object).unwrap();
        let read = read(
            &headers("application/vnd.kubernetes.protobuf"),
            Body::from(protobuf),
        )
        .await
        .unwrap();
        assert_eq!(read["data"], object["data"]);
    }

    #[tokio::test]
    async fn refuses_the_rest_with_its_code() {
        assert_eq!(
            read(&headers("text/plain"), Body::from("{}"))
                .await
                .unwrap_err()
                .code,
            415
        );
        assert_eq!(
            read(&HeaderMap::new(), Body::from("{")).await.unwrap_err().code,
            400
        );
        assert_eq!(
            read(&HeaderMap::new(), Body::from("[".repeat(100_000)))
                .await
                .unwrap_err()
                .code,
            400
        );
        assert_eq!(
            read(&HeaderMap::new(), Body::from(vec![b' '; LIMIT + 1]))
                .await
                .unwrap_err()
                .code,
            413
        );
        let apply = read_patch(&headers("application/apply-patch+yaml"), Body::from("{}")).await;
        assert_eq!(apply.unwrap_err().code, 415);
        let merge = read_patch(&headers("application/merge-patch+json"), Body::from("{}")).await;
        assert_eq!(merge, Ok(Patch::Merge(json!({}))));
    }
}
