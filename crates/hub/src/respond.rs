//! Answers that the hub makes itself.

use apiserver::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use machinery::{ApiError, Reason};
use serde_json::Value;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A failure as a `Status`.
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, &error.to_value())
}

/// 502: the other end does not answer as it should.
pub(crate) fn bad_gateway(message: String) -> ApiError {
    let mut error = ApiError::new(Reason::ServiceUnavailable, message);
    error.code = StatusCode::BAD_GATEWAY.as_u16();
    error
}

/// 405 in Kubernetes' words.
pub(crate) fn method_not_allowed() -> ApiError {
    ApiError::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
}

/// What a kubeio failure is to the caller: the parent's own answer, or 503.
pub(crate) fn from_parent(error: kubeio::Error) -> ApiError {
    match error.api() {
        Some(error) => error.clone(),
        None => ApiError::new(
            Reason::ServiceUnavailable,
            format!("the parent cluster does not answer: {}", runtime::Chain(&error)),
        ),
    }
}
