//! What a source refuses, in Kubernetes' words.

use machinery::{ApiError, Cause, Reason};
use source::Error;

use crate::registry::Served;

/// What a client is told when the object it has was changed meanwhile.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// A source's error about one object of a resource.
pub(crate) fn of_object(served: &Served, name: &str, error: Error) -> ApiError {
    match error {
        Error::AlreadyExists(_) => ApiError::already_exists(&served.group, &served.plural, name),
        Error::NotFound(_) => ApiError::not_found(&served.group, &served.plural, name),
        Error::Conflict { .. } => ApiError::conflict(&served.group, &served.plural, name, MODIFIED),
        other @ (Error::Expired { .. }
        | Error::Future { .. }
        | Error::Full
        | Error::TooLarge { .. }
        | Error::Closed(_)) => of_source(other),
    }
}

/// A source's error that is about no object that the client named.
pub(crate) fn of_source(error: Error) -> ApiError {
    match error {
        Error::Expired { asked, oldest } => ApiError::new(
            Reason::Expired,
            format!("too old resource version: {asked} ({oldest})"),
        ),
        Error::Future { asked, newest } => {
            let mut error = ApiError::new(
                Reason::Timeout,
                format!("Timeout: Too large resource version: {asked}, current: {newest}"),
            );
            error.retry_after_seconds = 1;
            error.causes.push(Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            });
            error
        }
        Error::Full => ApiError::new(Reason::InsufficientStorage, error.to_string()),
        Error::TooLarge { size, limit, .. } => ApiError::new(
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {limit}, the object has {size} bytes"),
        ),
        Error::Closed(why) => ApiError::new(
            Reason::ServiceUnavailable,
            format!("the object store is closed: {why}"),
        ),
        Error::AlreadyExists(_) | Error::NotFound(_) | Error::Conflict { .. } => {
            ApiError::internal(error.to_string())
        }
    }
}

/// Nothing is served at this path.
pub(crate) fn no_such_path() -> ApiError {
    ApiError::new(
        Reason::NotFound,
        "the server could not find the requested resource",
    )
}

/// The resource does not do that.
pub(crate) fn no_such_verb() -> ApiError {
    ApiError::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
}
