//! A client of the server in its own process: JSON requests through [`ApiServer::handle`], so that every rule of the
//! API holds for controllers too.

use std::sync::{Arc, Weak};

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use machinery::{ApiError, Reason};
use serde_json::{Value, json};

use crate::body::Body;
use crate::registry::Served;
use crate::server::ApiServer;
use crate::user::{Caller, UserInfo};

/// Answers larger than this are no single objects.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

/// Acts on a server as the control plane itself. Does not keep the server alive.
#[derive(Debug, Clone)]
pub struct Local {
    server: Weak<ApiServer>,
}

impl Local {
    /// A client of a server.
    pub fn new(server: &Arc<ApiServer>) -> Self {
        Self {
            server: Arc::downgrade(server),
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// The server's `Status`.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.call(Method::GET, path, "application/json", None).await
    }

    /// Creates an object in a collection.
    ///
    /// # Errors
    /// The server's `Status`.
    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value, ApiError> {
        self.call(Method::POST, collection, "application/json", Some(object))
            .await
    }

    /// Replaces an object or a subresource.
    ///
    /// # Errors
    /// The server's `Status`.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.call(Method::PUT, path, "application/json", Some(object))
            .await
    }

    /// Applies a merge patch.
    ///
    /// # Errors
    /// The server's `Status`.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let content_type = "application/merge-patch+json";
        self.call(Method::PATCH, path, content_type, Some(patch)).await
    }

    /// Deletes an object (or a collection) with `DeleteOptions`.
    ///
    /// # Errors
    /// The server's `Status`.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        self.call(Method::DELETE, path, "application/json", Some(options))
            .await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let Some(server) = self.server.upgrade() else {
            return Err(ApiError::new(Reason::ServiceUnavailable, "the server is gone"));
        };
        let body = body.map_or_else(Body::empty, |value| Body::from(value.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, content_type)
            .header(USER_AGENT, "tombolo-controllers")
            .body(body)
            .map_err(|error| ApiError::internal(format!("{path} is no path: {error}")))?;
        let response = server.handle(request, Caller::User(UserInfo::loopback())).await;
        let code = response.status().as_u16();
        let bytes = response
            .into_body()
            .read(ANSWER_LIMIT)
            .await
            .map_err(|error| ApiError::internal(error.to_string()))?;
        if code >= 400 {
            return Err(ApiError::from_body(code, &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// The path of a collection (an empty namespace for all), or of an object in it.
pub(super) fn path(served: &Served, namespace: &str, name: &str) -> String {
    let mut path = if served.group.is_empty() {
        format!("/api/{}", served.version)
    } else {
        format!("/apis/{}/{}", served.group, served.version)
    };
    if served.namespaced && !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(namespace);
    }
    path.push('/');
    path.push_str(&served.plural);
    if !name.is_empty() {
        path.push('/');
        path.push_str(name);
    }
    path
}

/// `DeleteOptions` that hold for one object only.
pub(super) fn only(uid: &str, policy: Option<&str>) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    if let Some(policy) = policy {
        options["propagationPolicy"] = json!(policy);
    }
    options
}
