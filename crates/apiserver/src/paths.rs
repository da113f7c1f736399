//! Paths that are no resources: discovery, version and OpenAPI. Health and metrics are next door.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, HOST, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use machinery::ApiError;
use serde_json::{Value, json};

use crate::body::Body;
use crate::discovery::{self, Discovery};
use crate::error;
use crate::negotiate::{Encoding, Offer, negotiate};
use crate::openapi;
use crate::query::Query;
use crate::request_info::RequestInfo;
use crate::respond;
use crate::server::ApiServer;
use crate::tokens::TokenKeys;

/// The Kubernetes version that this server is to its clients.
pub(crate) const GIT_VERSION: &str = "v1.34.1+tombolo";

/// Answers a request that is about no resource.
pub(crate) async fn answer(
    server: &Arc<ApiServer>,
    info: &RequestInfo,
    query: &Query,
    request: &Parts,
) -> Result<Response<Body>, ApiError> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(error::no_such_verb());
    }
    if let Some(response) = server.health().answer(&info.path, query).await {
        return Ok(response);
    }
    if info.path == "/metrics" {
        return Ok(server.metrics().answer());
    }
    if let Some(handler) = server.path(&info.path) {
        return Ok(handler());
    }
    let headers = &request.headers;
    let path = info.path.trim_matches('/');
    let segments: Vec<&str> = path.split('/').collect();
    let discovery = || Discovery::new(server.registry.snapshot(), server.groups());
    let document = match segments[..] {
        ["api" | "apis"] if wants_aggregated(headers) => {
            let document = discovery().aggregated(path == "api");
            return Ok(tagged(headers, discovery::AGGREGATED, &document));
        }
        ["api"] => discovery().core_versions(
            headers
                .get(HOST)
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default(),
        ),
        ["apis"] => discovery().group_list(),
        ["api", version] => discovery()
            .resources("", version)
            .ok_or_else(error::no_such_path)?,
        ["apis", group] => discovery().group(group).ok_or_else(error::no_such_path)?,
        ["apis", group, version] => discovery()
            .resources(group, version)
            .ok_or_else(error::no_such_path)?,
        ["version"] => version(),
        ["openid", "v1", "jwks"] => tokens(server)?.jwks(),
        [".well-known", "openid-configuration"] => {
            let keys = tokens(server)?;
            keys.openid_configuration(&format!("{}/openid/v1/jwks", keys.issuer().trim_end_matches('/')))
        }
        ["openapi", "v3", ..] | ["openapi", "v2"] => {
            return openapi::answer(server, &segments[1..], request).await;
        }
        [""] => json!({"paths": root_paths(&discovery())}),
        _ => return Err(error::no_such_path()),
    };
    let accept = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let offer = Offer {
        protobuf: true,
        forms: false,
    };
    let encoding = negotiate(accept, offer).map_or(Encoding::Json, |accepted| accepted.encoding);
    let body =
        respond::encode(encoding, &document).or_else(|_| respond::encode(Encoding::Json, &document))?;
    let content_type = if body.starts_with(b"k8s\0") {
        encoding
    } else {
        Encoding::Json
    }
    .content_type();
    Ok(respond::large_bytes(content_type, body, headers))
}

fn tokens(server: &ApiServer) -> Result<&TokenKeys, ApiError> {
    let authenticator = server.gate.authenticator().ok_or_else(error::no_such_path)?;
    Ok(authenticator.tokens())
}

pub(crate) fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accept.split(',').any(|clause| {
        let clause: String = clause.chars().filter(|c| !c.is_whitespace()).collect();
        clause.contains("g=apidiscovery.k8s.io")
            && clause.contains("as=APIGroupDiscoveryList")
            && clause.split(';').any(|parameter| parameter == "v=v2")
    })
}

/// A document with an `ETag`; 304 if the client has it already.
pub(crate) fn tagged(headers: &HeaderMap, content_type: &'static str, document: &Value) -> Response<Body> {
    let text = document.to_string();
    let etag = discovery::etag(&text);
    unless_known(headers, content_type, &etag, || Bytes::from(text))
}

/// Whether the client has the document of this tag.
pub(crate) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get(IF_NONE_MATCH);
    known.is_some_and(|known| known.as_bytes() == etag.as_bytes())
}

/// A document that is made only if the client does not have it already, which its `ETag` tells.
pub(crate) fn unless_known(
    headers: &HeaderMap,
    content_type: &'static str,
    etag: &str,
    make: impl FnOnce() -> Bytes,
) -> Response<Body> {
    let mut response = if is_known(headers, etag) {
        respond::bytes(StatusCode::NOT_MODIFIED, content_type, Bytes::new())
    } else {
        respond::large_bytes(content_type, make(), headers)
    };
    if let Ok(etag) = HeaderValue::try_from(etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "emulationMajor": "1", "emulationMinor": "34",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }),
    })
}

fn root_paths(discovery: &Discovery) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend(["/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    for group in discovery.group_list()["groups"].as_array().into_iter().flatten() {
        paths.push(format!("/apis/{}", group["name"].as_str().unwrap_or_default()));
        for version in group["versions"].as_array().into_iter().flatten() {
            paths.push(format!(
                "/apis/{}",
                version["groupVersion"].as_str().unwrap_or_default()
            ));
        }
    }
    paths.sort();
    paths
}
