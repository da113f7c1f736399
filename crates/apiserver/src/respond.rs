//! Answers: bytes with their type, compressed where it pays.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use machinery::ApiError;
use serde_json::Value;

use crate::body::Body;
use crate::negotiate::{Encoding, accepts_gzip};

/// Smaller answers are not compressed.
const GZIP_FROM: usize = 128 * 1_024;

/// An answer of some bytes.
pub fn bytes(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An answer of some bytes, compressed if they are many and the client takes that.
pub fn large_bytes(content_type: &'static str, body: Bytes, request: &HeaderMap) -> Response<Body> {
    let accepted = request
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if body.len() < GZIP_FROM || !accepts_gzip(accepted) {
        return bytes(StatusCode::OK, content_type, body);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::new(1));
    let compressed = encoder.write_all(&body).and_then(|()| encoder.finish());
    let Ok(compressed) = compressed else {
        return bytes(StatusCode::OK, content_type, body);
    };
    let mut response = bytes(StatusCode::OK, content_type, Bytes::from(compressed));
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// A tree in some encoding.
///
/// # Errors
/// 500 for what has no such form.
pub fn encode(encoding: Encoding, value: &Value) -> Result<Bytes, ApiError> {
    match encoding {
        Encoding::Json => Ok(Bytes::from(value.to_string())),
        Encoding::Yaml => Ok(Bytes::from(codec::yaml::to_string(value))),
        Encoding::Protobuf => codec::protobuf::encode(value)
            .map_err(|error| ApiError::internal(format!("the object cannot be encoded: {error}"))),
    }
}

/// A tree as JSON.
pub fn json(status: StatusCode, value: &Value) -> Response<Body> {
    bytes(status, "application/json", Bytes::from(value.to_string()))
}

/// An error as an answer.
pub fn error(error: &ApiError, encoding: Encoding) -> Response<Body> {
    status_object(error, error.to_value(), encoding)
}

/// An error whose `Status` has more in it than the error says.
pub fn status_object(error: &ApiError, status: Value, encoding: Encoding) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match encode(encoding, &status) {
        Ok(body) => bytes(code, encoding.content_type(), body),
        Err(_) => json(code, &status),
    };
    if error.retry_after_seconds > 0 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, error.retry_after_seconds.into());
    }
    response
}

/// All warnings of an answer together have at most so many bytes: clients bound what they read of headers.
const WARNINGS_LIMIT: usize = 4_096;

/// Adds `Warning` headers (RFC 7234, 5.5), as many as there is room for.
pub fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let mut room = WARNINGS_LIMIT;
    for warning in warnings {
        let Some(left) = room.checked_sub(warning.len()) else {
            return;
        };
        room = left;
        let text: String = warning
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect::<String>()
            .replace('\\', "\\\\")
            .replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
