//! The form that a client wants its answer in.

use apiserver::Body;
use apiserver::query::Query;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use machinery::table::{self, Column, IncludeObject};
use machinery::{ApiError, Reason};
use serde_json::{Value, json};

use crate::respond;

/// What objects are shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// As they are, in Kubernetes' protobuf where the kind has one.
    Protobuf,
    /// As rows.
    Table,
    /// Their metadata.
    Metadata,
}

impl Form {
    /// The first form of the `Accept` header that is known here.
    ///
    /// # Errors
    /// 406 if there is none.
    pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Self, ApiError> {
        let accept: Vec<&str> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        let accept = accept.join(",");
        if accept.trim().is_empty() {
            return Ok(Self::Object);
        }
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let shown_as = parts.find_map(|part| part.strip_prefix("as="));
            let form = match (media_type, shown_as) {
                ("application/json" | "application/*" | "*/*", None) => Self::Object,
                ("application/vnd.kubernetes.protobuf", None) => Self::Protobuf,
                ("application/json", Some("Table")) => Self::Table,
                ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                    Self::Metadata
                }
                _ => continue,
            };
            return Ok(form);
        }
        let text = "only the following media types are accepted: application/json, application/vnd.kubernetes.protobuf";
        Err(ApiError::new(Reason::NotAcceptable, text))
    }
}

/// How tables are made.
pub(crate) fn columns() -> [Column; 2] {
    [Column::object_name(), Column::age()]
}

/// The `includeObject` parameter.
pub(crate) fn include(query: &Query) -> Result<IncludeObject, ApiError> {
    match query.get("includeObject") {
        None | Some("" | "Metadata") => Ok(IncludeObject::Metadata),
        Some("None") => Ok(IncludeObject::None),
        Some("Object") => Ok(IncludeObject::Object),
        Some(other) => Err(ApiError::bad_request(format!(
            "unrecognized includeObject value: {other:?}"
        ))),
    }
}

/// One object.
pub(crate) fn object(form: Form, status: StatusCode, object: &Value, now: Timestamp) -> Response<Body> {
    match form {
        Form::Object => respond::json(status, object),
        Form::Protobuf => match codec::protobuf::encode(object) {
            Ok(bytes) => {
                let mut response = Response::new(Body::from(bytes));
                *response.status_mut() = status;
                let kind = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            // Custom kinds have no such form, and clients that ask for it take JSON too.
            Err(_) => respond::json(status, object),
        },
        Form::Table => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            let table = table::table(&columns(), [object], metadata, true, IncludeObject::Metadata, now);
            respond::json(status, &table)
        }
        Form::Metadata => respond::json(status, &table::partial_metadata(object)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_first_form_that_is_known() {
        let check = |accept: &'static str, expected: Option<Form>| {
            let headers = [(ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(Form::negotiate(&headers).ok(), expected, "{accept}");
        };
        check("", Some(Form::Object));
        check("*/*", Some(Form::Object));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some(Form::Table),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=Table,application/json",
            Some(Form::Object),
        );
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            Some(Form::Protobuf),
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some(Form::Metadata),
        );
        check("text/html", None);
    }
}
