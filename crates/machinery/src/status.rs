//! The API's own form of an error: `metav1.Status`.

use std::fmt;

use serde_json::{Value, json};

/// Why a request failed, in Kubernetes' closed vocabulary (`metav1.StatusReason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// 401: no or wrong credentials.
    Unauthorized,
    /// 403: the user may not do that.
    Forbidden,
    /// 404: no such object or path.
    NotFound,
    /// 409: the name is taken.
    AlreadyExists,
    /// 409: the object was changed meanwhile.
    Conflict,
    /// 410: the thing is gone for good.
    Gone,
    /// 410: the revision or continue token is too old.
    Expired,
    /// 422: the object breaks a rule.
    Invalid,
    /// 400: the request makes no sense.
    BadRequest,
    /// 405: the resource has no such verb.
    MethodNotAllowed,
    /// 406: no acceptable content type.
    NotAcceptable,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 415: the body's content type is not understood.
    UnsupportedMediaType,
    /// 429: come back later.
    TooManyRequests,
    /// 500: a fault of the server.
    InternalError,
    /// 503: not now.
    ServiceUnavailable,
    /// 504: it took too long.
    Timeout,
    /// 507: no room left.
    InsufficientStorage,
    /// A reason that this build does not know.
    Unknown,
}

impl Reason {
    const ALL: [Self; 18] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Gone,
        Self::Expired,
        Self::Invalid,
        Self::BadRequest,
        Self::MethodNotAllowed,
        Self::NotAcceptable,
        Self::RequestEntityTooLarge,
        Self::UnsupportedMediaType,
        Self::TooManyRequests,
        Self::InternalError,
        Self::ServiceUnavailable,
        Self::Timeout,
        Self::InsufficientStorage,
    ];

    /// The word in `status.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Expired => "Expired",
            Self::Invalid => "Invalid",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::InsufficientStorage => "InsufficientStorage",
            Self::Unknown => "",
        }
    }

    /// The HTTP status code that goes with it.
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
            Self::InsufficientStorage => 507,
        }
    }

    fn parse(word: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == word)
            .unwrap_or(Self::Unknown)
    }
}

/// One problem with one field (`metav1.StatusCause`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldValueInvalid`…
    pub reason: String,
    /// What is wrong, with the offending value.
    pub message: String,
    /// Path of the field, such as `spec.replicas`.
    pub field: String,
}

/// A failed request as a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// Why.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// `details.name`, empty if it concerns no named object.
    pub name: String,
    /// `details.group`.
    pub group: String,
    /// `details.kind`: a plural resource name or a kind.
    pub kind: String,
    /// `details.uid`.
    pub uid: String,
    /// One for each field at fault.
    pub causes: Vec<Cause>,
    /// `details.retryAfterSeconds`, 0 for none.
    pub retry_after_seconds: u32,
}

impl ApiError {
    /// An error with a reason's usual code and no details.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code: reason.code(),
            reason,
            message: message.into(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        }
    }

    /// 404 for a named object, in Kubernetes' words.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        Self::new(
            Reason::NotFound,
            format!("{} \"{name}\" not found", qualified(plural, group)),
        )
        .about(group, plural, name)
    }

    /// 409 for a taken name, in Kubernetes' words.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        Self::new(
            Reason::AlreadyExists,
            format!("{} \"{name}\" already exists", qualified(plural, group)),
        )
        .about(group, plural, name)
    }

    /// 409 for a changed object, in Kubernetes' words.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        Self::new(
            Reason::Conflict,
            format!(
                "Operation cannot be fulfilled on {} \"{name}\": {why}",
                qualified(plural, group)
            ),
        )
        .about(group, plural, name)
    }

    /// 422 with its causes, in Kubernetes' words.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let list: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let all = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = Self::new(
            Reason::Invalid,
            format!("{} \"{name}\" is invalid: {all}", qualified(kind, group)),
        )
        .about(group, kind, name);
        error.causes = causes;
        error
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Reason::InternalError, message)
    }

    /// Names what the error is about.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        group.clone_into(&mut self.group);
        kind.clone_into(&mut self.kind);
        name.clone_into(&mut self.name);
        self
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason.as_str(), "code": self.code,
        });
        let mut details = serde_json::Map::new();
        for (key, text) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !text.is_empty() {
                details.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes = self
                .causes
                .iter()
                .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}));
            details.insert("causes".to_owned(), causes.collect());
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds));
        }
        if !details.is_empty() {
            status["details"] = Value::Object(details);
        }
        status
    }

    /// From an answer's code and body; a body that is no `Status` becomes the message.
    pub fn from_body(code: u16, body: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        if value["kind"] != "Status" {
            let text: String = String::from_utf8_lossy(body).chars().take(1_024).collect();
            return Self {
                code,
                ..Self::new(Reason::Unknown, text)
            };
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let details = &value["details"];
        Self {
            code,
            reason: Reason::parse(value["reason"].as_str().unwrap_or_default()),
            message: text(&value["message"]),
            name: text(&details["name"]),
            group: text(&details["group"]),
            kind: text(&details["kind"]),
            uid: text(&details["uid"]),
            causes: details["causes"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
                .map(|cause| Cause {
                    reason: text(&cause["reason"]),
                    message: text(&cause["message"]),
                    field: text(&cause["field"]),
                })
                .collect(),
            retry_after_seconds: details["retryAfterSeconds"]
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_wire() {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: "Invalid value: -1: must be positive".into(),
            field: "spec.replicas".into(),
        };
        let error = ApiError::invalid("apps", "Deployment", "web", vec![cause]);
        assert_eq!(
            error.message,
            "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be positive"
        );
        let body = serde_json::to_vec(&error.to_value()).expect("a value serializes");
        assert_eq!(ApiError::from_body(422, &body), error);
    }

    #[test]
    fn takes_a_body_that_is_no_status() {
        let error = ApiError::from_body(502, b"bad gateway");
        assert_eq!(
            (error.code, error.reason, error.message.as_str()),
            (502, Reason::Unknown, "bad gateway")
        );
    }
}
