//! `/openapi/v3`: an index, and a document for each group and version. `/openapi/v2`: one document of everything.
//!
//! Documents are made when they are asked for and not kept: clients keep them, and say which they have.

use std::sync::Arc;

use bytes::Bytes;
use codec::openapi::{ANSWER_CONTENT_TYPE, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use machinery::ApiError;
use machinery::openapi::{CustomKind, path_of, v2, v3, v3_index};
use serde_json::{Value, json};

use crate::body::Body;
use crate::discovery::etag;
use crate::error;
use crate::negotiate::media_type;
use crate::paths::{GIT_VERSION, tagged, unless_known};
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
        ["v2"] => version_two(server, &snapshot, headers),
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

/// A text that changes with what documents say of a resource.
fn stated(served: &Served) -> String {
    match custom_kind(served) {
        Some(kind) => format!("{kind:?}"),
        None => format!("{} {GIT_VERSION}", served.plural),
    }
}

/// Every group and version, with its document's address. The hash changes with the group's definitions.
fn index(server: &ApiServer, snapshot: &Snapshot) -> Value {
    let mut documents = Vec::new();
    for (group, versions) in snapshot.groups() {
        for version in versions {
            let stated: Vec<String> = snapshot
                .of(&group, &version)
                .map(|served| stated(served))
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
    let mut document = v3(group, version, &custom);
    describe(server, document.pointer_mut("/components/schemas"));
    Some(document)
}

fn describe(server: &ApiServer, schemas: Option<&mut Value>) {
    if let (Some(describe), Some(Value::Object(schemas))) = (server.config.describe, schemas) {
        describe(schemas);
    }
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

fn version_two(
    server: &ApiServer,
    snapshot: &Snapshot,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let accept = headers
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let json = "application/json";
    let chosen = media_type(accept, &[json, CONTENT_TYPE, ANSWER_CONTENT_TYPE])?;
    let content_type = if chosen == json { json } else { ANSWER_CONTENT_TYPE };
    let stated: Vec<String> = snapshot.all().iter().map(|served| stated(served)).collect();
    let etag = etag(&format!("{content_type} {}", stated.join(" ")));
    Ok(unless_known(headers, content_type, &etag, || {
        let custom: Vec<CustomKind<'_>> = snapshot
            .all()
            .iter()
            .filter_map(|served| custom_kind(served))
            .collect();
        let mut document = v2(&custom);
        describe(server, document.get_mut("definitions"));
        Bytes::from(if content_type == json {
            document.to_string().into_bytes()
        } else {
            codec::openapi::encode(&document)
        })
    }))
}
