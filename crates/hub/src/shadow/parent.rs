//! Requests to the parent: Manifests with the hub's rights, dry runs with the caller's.

use std::fmt;

use api::apps::MANIFESTS;
use apiserver::UserInfo;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderValue, Method, Request, Response};
use kubeio::{Client, WatchOptions, WatchStream};
use machinery::ApiError;
use serde_json::Value;

use crate::respond;

/// The parent.
pub(crate) struct Parent {
    client: Client,
    reserved: String,
}

/// An answer with what the parent warns of.
pub(crate) struct Answer {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<HeaderValue>,
}

/// A query string under construction.
#[derive(Debug, Default)]
pub(crate) struct Parameters(String);

impl Parameters {
    /// Adds a parameter, unless it is empty.
    pub(crate) fn add(mut self, key: &str, value: &str) -> Self {
        if value.is_empty() {
            return self;
        }
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                self.0.push(char::from(byte));
            } else {
                self.0.push_str(&format!("%{byte:02X}"));
            }
        }
        self
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Parent {
    pub(crate) fn new(client: Client, reserved: String) -> Self {
        Self { client, reserved }
    }

    /// The namespace of the Manifests.
    pub(crate) fn reserved(&self) -> &str {
        &self.reserved
    }

    pub(crate) async fn get_manifest(&self, name: &str) -> Result<Option<Value>, ApiError> {
        self.client
            .get_opt(&MANIFESTS, Some(&self.reserved), name)
            .await
            .map_err(respond::from_parent)
    }

    pub(crate) async fn list_manifests(&self, parameters: Parameters) -> Result<Value, ApiError> {
        let path = MANIFESTS.path(Some(&self.reserved), None);
        Ok(self
            .send(Method::GET, &path, &parameters, None, None)
            .await?
            .value)
    }

    pub(crate) async fn watch_manifests(&self, options: &WatchOptions) -> Result<WatchStream, ApiError> {
        self.client
            .watch(&MANIFESTS, Some(&self.reserved), options)
            .await
            .map_err(respond::from_parent)
    }

    pub(crate) async fn create_manifest(
        &self,
        manifest: &Value,
        parameters: &Parameters,
    ) -> Result<Value, ApiError> {
        let path = MANIFESTS.path(Some(&self.reserved), None);
        Ok(self
            .send(Method::POST, &path, parameters, Some(manifest), None)
            .await?
            .value)
    }

    pub(crate) async fn replace_manifest(
        &self,
        manifest: &Value,
        parameters: &Parameters,
    ) -> Result<Value, ApiError> {
        let path = MANIFESTS.path(Some(&self.reserved), Some(machinery::meta::name(manifest)));
        Ok(self
            .send(Method::PUT, &path, parameters, Some(manifest), None)
            .await?
            .value)
    }

    pub(crate) async fn delete_manifest(
        &self,
        name: &str,
        options: &Value,
        parameters: &Parameters,
    ) -> Result<Value, ApiError> {
        let path = MANIFESTS.path(Some(&self.reserved), Some(name));
        let options = Some(options).filter(|options| !options.is_null());
        Ok(self
            .send(Method::DELETE, &path, parameters, options, None)
            .await?
            .value)
    }

    /// Posts an object as somebody else, without effect.
    pub(crate) async fn dry_run(
        &self,
        path: &str,
        parameters: &Parameters,
        object: &Value,
        user: &UserInfo,
    ) -> Result<Answer, ApiError> {
        self.send(Method::POST, path, parameters, Some(object), Some(user))
            .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        parameters: &Parameters,
        body: Option<&Value>,
        user: Option<&UserInfo>,
    ) -> Result<Answer, ApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{path}{parameters}"))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        if let Some(user) = user {
            request = request.header("impersonate-user", user.name.as_str());
            // Extras say nothing to authorization, and each would need a right of its own to be passed on.
            for group in &user.groups {
                request = request.header("impersonate-group", group.as_str());
            }
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request
            .body(body)
            .map_err(|error| ApiError::bad_request(format!("the request cannot be passed on: {error}")))?;
        let response = self.client.request(request).await.map_err(respond::from_parent)?;
        read(&response)
    }
}

fn read(response: &Response<Bytes>) -> Result<Answer, ApiError> {
    if !response.status().is_success() {
        return Err(ApiError::from_body(response.status().as_u16(), response.body()));
    }
    let value = serde_json::from_slice(response.body())
        .map_err(|error| respond::bad_gateway(format!("the parent's answer is not JSON: {error}")))?;
    Ok(Answer {
        value,
        warnings: response.headers().get_all(WARNING).iter().cloned().collect(),
    })
}
