//! `/openapi/v3`: an index, and a document for each group and version.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use machinery::openapi::{CustomKind, path_of, v2, v3, v3_index};
use machinery::{ApiError, Reason};
use serde_json::{Value, json};

use crate::body::Body;
use crate::discovery::etag;
use crate::error;
use crate::paths::tagged;
use crate::query::Query;
use crate::registry::{Served, Snapshot};
use crate::respond;
use crate::server::ApiServer;

/// Answers a request below `/openapi`; `segments` are those behind it.
pub(crate) fn answer(
    server: &Arc<ApiServer>,
    segments: &[&str],
    request: &Parts,
) -> Result<Response<Body>, ApiError> {
    let snapshot = server.registry.snapshot();
    let headers = &request.headers;
    match segments {
        ["v2"] if only_protobuf(headers) => Err(ApiError::new(
            Reason::NotAcceptable,
            "only the following media types are accepted: application/json",
        )),
        ["v2"] => Ok(tagged(headers, "application/json", &version_two(&snapshot))),
        ["v3"] => {
            let index = index(server, &snapshot);
            Ok(respond::json(StatusCode::OK, &index))
        }
        ["v3", rest @ ..] => {
            let (group, version) = match rest {
                ["api", version] => ("", *version),
                ["apis", group, version] => (*group, *version),
                _ => return Err(error::no_such_path()),
            };
            let document = document(server, &snapshot, group, version).ok_or_else(error::no_such_path)?;
            let mut response = tagged(headers, "application/json", &document);
            let hash = Query::parse(request.uri.query().unwrap_or_default());
            if hash.get("hash").is_some() {
                response.headers_mut().insert(
                    http::header::CACHE_CONTROL,
                    http::HeaderValue::from_static("public, immutable"),
                );
            }
            Ok(response)
        }
        _ => Err(error::no_such_path()),
    }
}

/// Whether a client takes OpenAPI's own protobuf form and no other.
fn only_protobuf(headers: &http::HeaderMap) -> bool {
    let accept = headers
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accept.contains("proto-openapi") && !accept.contains("json") && !accept.contains("*/*")
}

/// Every group and version, with its document's address. The hash changes with the group's definitions.
fn index(server: &ApiServer, snapshot: &Snapshot) -> Value {
    let mut documents = Vec::new();
    for (group, versions) in snapshot.groups() {
        for version in versions {
            let stated: Vec<String> = snapshot
                .of(&group, &version)
                .map(|served| match &served.custom {
                    Some(custom) => format!("{} {:?}", served.plural, custom.openapi),
                    None => format!("{} {}", served.plural, crate::paths::GIT_VERSION),
                })
                .collect();
            let hash = etag(&stated.join(" "));
            documents.push((path_of(&group, &version), hash.trim_matches('"').to_owned()));
        }
    }
    for handler in server.groups() {
        let stated = handler.openapi().unwrap_or_default().to_string();
        let hash = etag(&stated);
        documents.push((
            path_of(handler.group(), handler.version()),
            hash.trim_matches('"').to_owned(),
        ));
    }
    v3_index(
        documents
            .iter()
            .map(|(path, hash)| (path.as_str(), hash.as_str())),
    )
}

fn document(server: &ApiServer, snapshot: &Snapshot, group: &str, version: &str) -> Option<Value> {
    let groups = server.groups();
    let handler = groups
        .iter()
        .find(|handler| handler.group() == group && handler.version() == version);
    if let Some(handler) = handler {
        return Some(handler.openapi().unwrap_or_else(|| {
            json!({
                "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.34"}, "paths": {},
                "components": {"schemas": {}},
            })
        }));
    }
    snapshot.of(group, version).next()?;
    let custom: Vec<CustomKind<'_>> = snapshot
        .of(group, version)
        .filter_map(|served| custom_kind(served))
        .collect();
    Some(v3(group, version, &custom))
}

fn custom_kind(served: &Served) -> Option<CustomKind<'_>> {
    let custom = served.custom.as_ref()?;
    Some(CustomKind {
        group: &served.group,
        version: &served.version,
        plural: &served.plural,
        kind: &served.kind,
        list_kind: &served.list_kind,
        namespaced: served.namespaced,
        schema: custom.openapi.as_ref(),
        status: served.has_status,
        scale: served.scale.is_some(),
    })
}

fn version_two(snapshot: &Snapshot) -> Value {
    let custom: Vec<CustomKind<'_>> = snapshot
        .all()
        .iter()
        .filter_map(|served| custom_kind(served))
        .collect();
    v2(&custom)
}
