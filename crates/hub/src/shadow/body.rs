//! Request bodies.

use apiserver::Body;
use apiserver::decode::{self, BodyFormat};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use machinery::ApiError;
use serde_json::Value;

/// A change to an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own.
    Strategic(Value),
    /// The fields that one manager wants (server-side apply).
    Apply(Value),
}

/// What a body holds, and the fields that it names twice.
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) repeated: Vec<String>,
}

/// An object.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Read<Value>, ApiError> {
    let bytes = apiserver::read_body(body).await?;
    let (value, repeated) = decode::decode(BodyFormat::from_content_type(media_type(headers))?, &bytes)?;
    Ok(Read { value, repeated })
}

/// Options, which may be missing.
pub(crate) async fn read_optional(headers: &HeaderMap, body: Body) -> Result<Value, ApiError> {
    let bytes = apiserver::read_body(body).await?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (value, _) = decode::decode(BodyFormat::from_content_type(media_type(headers))?, &bytes)?;
    Ok(value)
}

/// A patch.
pub(crate) async fn read_patch(headers: &HeaderMap, body: Body) -> Result<Read<Patch>, ApiError> {
    type Make = fn(Value) -> Patch;
    let kinds: [(&str, Make); 4] = [
        ("application/json-patch+json", Patch::Json),
        ("application/merge-patch+json", Patch::Merge),
        ("application/strategic-merge-patch+json", Patch::Strategic),
        ("application/apply-patch+yaml", Patch::Apply),
    ];
    let media_type = media_type(headers);
    let Some((known, make)) = kinds.iter().find(|(known, _)| *known == media_type) else {
        return Err(decode::unsupported(&kinds.map(|(known, _)| known)));
    };
    let bytes = apiserver::read_body(body).await?;
    let (value, repeated) = if known.ends_with("yaml") {
        decode::decode(BodyFormat::Yaml, &bytes)?
    } else {
        decode::json(&bytes)?
    };
    let fits = match make(Value::Null) {
        Patch::Json(_) => value.is_array(),
        Patch::Merge(_) | Patch::Strategic(_) | Patch::Apply(_) => value.is_object(),
    };
    if !fits {
        return Err(ApiError::bad_request(format!(
            "the body is no patch of type {known}"
        )));
    }
    Ok(Read {
        value: make(value),
        repeated,
    })
}

pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
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
        for (media_type, body) in [
            ("application/json; charset=utf-8", "{\"a\":1}"),
            ("application/yaml", "a: 1\n"),
            ("", "{\"a\":1}"),
        ] {
            let read = read(&headers(media_type), Body::from(body)).await;
            assert_eq!(read.map(|read| read.value), Ok(json!({"a": 1})), "{media_type}");
        }
        assert_eq!(
            read_optional(&HeaderMap::new(), Body::empty()).await,
            Ok(Value::Null)
        );
        let twice = read(&HeaderMap::new(), Body::from("{\"a\":1,\"a\":2}")).await;
        assert_eq!(twice.map(|read| read.repeated), Ok(vec!["a".to_owned()]));
    }

    #[tokio::test]
    async fn knows_patches_of_four_kinds_and_refuses_the_rest_with_its_code() {
        let check = async |media_type: &'static str, body: &'static str| {
            let read = read_patch(&headers(media_type), Body::from(body)).await;
            read.map(|read| read.value).map_err(|error| error.code)
        };
        assert_eq!(
            check("application/apply-patch+yaml", "a: 1").await,
            Ok(Patch::Apply(json!({"a": 1})))
        );
        assert_eq!(
            check("application/json-patch+json", "[]").await,
            Ok(Patch::Json(json!([])))
        );
        assert_eq!(check("application/json-patch+json", "{}").await, Err(400));
        assert_eq!(check("application/merge-patch+json", "[]").await, Err(400));
        assert_eq!(check("application/merge-patch+json", "{").await, Err(400));
        assert_eq!(check("application/json", "{}").await, Err(415));
        let code = async |media_type: &'static str, body: Body| {
            read(&headers(media_type), body)
                .await
                .map(|_| ())
                .map_err(|error| error.code)
        };
        assert_eq!(code("text/plain", Body::from("{}")).await, Err(415));
        assert_eq!(code("", Body::from("[".repeat(100_000))).await, Err(400));
        assert_eq!(code("", Body::from(vec![b' '; (3 << 20) + 1])).await, Err(413));
    }
}
