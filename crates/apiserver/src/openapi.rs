//! `/openapi/v3`: an index, and a document for each group and version. `/openapi/v2`: one document of everything.
//!
//! Documents are made when they are asked for, and kept as long as the same is served.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use codec::openapi::{ANSWER_CONTENT_TYPE, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use machinery::ApiError;
use machinery::openapi::{CustomKind, path_of, v2, v3, v3_index};
use serde_json::Value;

use crate::body::Body;
use crate::discovery::etag;
use crate::error;
use crate::group::GroupHandler;
use crate::negotiate::media_type;
use crate::paths::{GIT_VERSION, is_known, unless_known};
use crate::query::Query;
use crate::registry::{Served, Snapshot};
use crate::respond;
use crate::server::ApiServer;

const JSON: &str = "application/json";

/// Answers a request below `/openapi`; `segments` are those behind it.
pub(crate) async fn answer(
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
            let mut response = match server.group(group, version) {
                Some(handler) => shown(handler.as_ref(), headers).await,
                None => version_three(server, &snapshot, group, version, headers)?,
            };
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

/// Documents that were asked for, by name.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<BTreeMap<String, Arc<OnceLock<Bytes>>>>);

impl Documents {
    fn get(&self, name: &str, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let document = documents.entry(name.to_owned()).or_default().clone();
        // One that takes long keeps nobody from the others.
        drop(documents);
        document.get_or_init(make).clone()
    }
}

/// The tag of a document about some resources: changes with what is said of them, and with the program that says it.
fn tag<'a>(content_type: &str, about: impl Iterator<Item = &'a Arc<Served>>) -> String {
    let mut text = format!("{content_type} {GIT_VERSION} {}", env!("CARGO_PKG_VERSION"));
    for served in about {
        let stated = served.stated.get_or_init(|| match custom_kind(served) {
            Some(kind) => etag(&format!("{kind:?}")),
            None => served.plural.to_string(),
        });
        text.push(' ');
        text.push_str(stated);
    }
    etag(&text)
}

/// Every group and version, with its document's address. The hash changes with the group's definitions.
fn index(server: &ApiServer, snapshot: &Snapshot) -> Value {
    let mut documents = Vec::new();
    for (group, versions) in snapshot.groups() {
        for version in versions {
            let hash = tag(JSON, snapshot.of(&group, &version));
            documents.push((path_of(&group, &version), hash.trim_matches('"').to_owned()));
        }
    }
    documents.extend(server.groups().iter().map(|handler| place(handler.as_ref())));
    listed(&documents)
}

/// The tag of the document of a group that is computed.
fn shown_tag(handler: &dyn GroupHandler) -> String {
    let program = env!("CARGO_PKG_VERSION");
    etag(&format!("{GIT_VERSION} {program} {}", handler.openapi_state()))
}

/// The document of a group that is computed.
pub(crate) async fn shown(handler: &dyn GroupHandler, headers: &HeaderMap) -> Response<Body> {
    let tag = shown_tag(handler);
    let document = if is_known(headers, &tag) {
        String::new()
    } else {
        handler.openapi().await.to_string()
    };
    unless_known(headers, JSON, &tag, || Bytes::from(document))
}

/// The index of groups that are computed.
pub(crate) fn shown_index(groups: &[Arc<dyn GroupHandler>]) -> Value {
    let documents: Vec<(String, String)> = groups.iter().map(|handler| place(handler.as_ref())).collect();
    listed(&documents)
}

fn place(handler: &dyn GroupHandler) -> (String, String) {
    let hash = shown_tag(handler).trim_matches('"').to_owned();
    (path_of(handler.group(), handler.version()), hash)
}

fn listed(documents: &[(String, String)]) -> Value {
    v3_index(
        documents
            .iter()
            .map(|(path, hash)| (path.as_str(), hash.as_str())),
    )
}

fn version_three(
    server: &ApiServer,
    snapshot: &Snapshot,
    group: &str,
    version: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let about = || snapshot.of(group, version);
    about().next().ok_or_else(error::no_such_path)?;
    Ok(unless_known(headers, JSON, &tag(JSON, about()), || {
        snapshot.documents.get(&path_of(group, version), || {
            let custom: Vec<CustomKind<'_>> = about().filter_map(|served| custom_kind(served)).collect();
            let mut document = v3(group, version, &custom);
            describe(server, document.pointer_mut("/components/schemas"));
            Bytes::from(document.to_string())
        })
    }))
}

fn describe(server: &ApiServer, schemas: Option<&mut Value>) {
    if let (Some(describe), Some(Value::Object(schemas))) = (server.config.describe, schemas) {
        describe(schemas);
    }
}

pub(crate) fn custom_kind(served: &Served) -> Option<CustomKind<'_>> {
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
    let chosen = media_type(accept, &[JSON, CONTENT_TYPE, ANSWER_CONTENT_TYPE])?;
    let content_type = if chosen == JSON { JSON } else { ANSWER_CONTENT_TYPE };
    let tag = tag(content_type, snapshot.all().iter());
    Ok(unless_known(headers, content_type, &tag, || {
        snapshot.documents.get(content_type, || {
            let custom: Vec<CustomKind<'_>> = snapshot
                .all()
                .iter()
                .filter_map(|served| custom_kind(served))
                .collect();
            let mut document = v2(&custom);
            describe(server, document.get_mut("definitions"));
            Bytes::from(if content_type == JSON {
                document.to_string().into_bytes()
            } else {
                codec::openapi::encode(&document)
            })
        })
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::{Registry, custom};

    #[test]
    fn a_tag_changes_with_what_is_said_and_documents_go_with_it() {
        let registry = Registry::new();
        let define = |revision: u64, kind: &str| {
            let definition = json!({
                "spec": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": kind}}}]},
                "status": {"conditions": [{"type": "Established", "status": "True"}]},
            });
            let served = custom::served(&definition);
            registry.set_custom("widgets.example.com", source::Revision(revision), served);
            registry.snapshot()
        };
        let (first, second) = (define(1, "object"), define(2, "string"));
        let tags =
            |snapshot: &Snapshot| ["example.com", "apps"].map(|group| tag(JSON, snapshot.of(group, "v1")));
        let ([one, apps], [two, same]) = (tags(&first), tags(&second));
        assert_ne!(one, two);
        assert_eq!(apps, same);
        for (snapshot, text) in [(&first, "a"), (&first, "a"), (&second, "b")] {
            let mut made = text;
            for _ in 0..2 {
                let document = snapshot.documents.get("x", || Bytes::from(made));
                assert_eq!(document, text);
                made = "made twice";
            }
        }
    }
}
