//! `/openapi/v3`: an index, and a document for each group and version.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use machinery::ApiError;
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::discovery::etag;
use crate::error;
use crate::paths::tagged;
use crate::query::Query;
use crate::registry::{Served, Snapshot};
use crate::server::ApiServer;
use crate::respond;

/// Answers a request below `/openapi`; `segments` are those behind it.
pub(crate) fn answer(
    server: &Arc<ApiServer>,
    segments: &[&str],
    request: &Parts,
) -> Result<Response<Body>, ApiError> {
    let snapshot = server.registry.snapshot();
    let headers = &request.headers;
    match segments {
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

/// Every group and version, with its document's address.
fn index(server: &ApiServer, snapshot: &Snapshot) -> Value {
    let mut paths = Map::new();
    for (group, versions) in snapshot.groups() {
        for version in versions {
            let place = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let names: Vec<String> = snapshot
                .of(&group, &version)
                .map(|served| match &served.custom {
                    Some(custom) => format!("{}{:?}", served.plural, custom.openapi),
                    None => served.plural.to_string(),
                })
                .collect();
            let hash = etag(&names.join(" "));
            let url = format!("/openapi/v3/{place}?hash={}", hash.trim_matches('"'));
            paths.insert(place, json!({"serverRelativeURL": url}));
        }
    }
    for handler in server.groups() {
        let place = format!("apis/{}/{}", handler.group(), handler.version());
        let url = format!("/openapi/v3/{place}");
        paths.insert(place, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn document(server: &ApiServer, snapshot: &Snapshot, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut found = false;
    for served in snapshot.of(group, version) {
        found = true;
        add_paths(served, &mut paths);
        add_schemas(served, &mut schemas);
    }
    for handler in server.groups() {
        if handler.group() == group && handler.version() == version {
            return Some(handler.openapi().unwrap_or_else(|| wrap(Map::new(), Map::new())));
        }
    }
    found.then(|| wrap(paths, schemas))
}

fn wrap(paths: Map<String, Value>, schemas: Map<String, Value>) -> Value {
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": crate::paths::GIT_VERSION},
        "paths": paths, "components": {"schemas": schemas},
    })
}

/// The name of a kind's schema in documents.
fn schema_name(served: &Served) -> String {
    let mut group: Vec<&str> = served.group.split('.').collect();
    group.reverse();
    format!("{}.{}.{}", group.join("."), served.version, served.kind)
}

fn add_schemas(served: &Served, schemas: &mut Map<String, Value>) {
    let Some(schema) = served.custom.as_ref().and_then(|custom| custom.openapi.as_ref()) else {
        return;
    };
    let mut schema = schema.clone();
    schema["x-kubernetes-group-version-kind"] = json!([kind(served)]);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        properties.insert("metadata".to_owned(), json!({"type": "object"}));
    }
    schemas.insert(schema_name(served), schema);
}

fn kind(served: &Served) -> Value {
    json!({"group": served.group.as_str(), "version": served.version.as_str(), "kind": served.kind.as_str()})
}

/// The paths of a resource: enough for clients to find out which parameters its verbs take.
fn add_paths(served: &Served, paths: &mut Map<String, Value>) {
    let base = if served.group.is_empty() {
        format!("/api/{}", served.version)
    } else {
        format!("/apis/{}/{}", served.group, served.version)
    };
    let scope = if served.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{scope}/{}", served.plural);
    let one = format!("{collection}/{{name}}");
    paths.insert(
        collection,
        operations(served, &[("get", "list"), ("post", "create"), ("delete", "deletecollection")]),
    );
    if served.allows("get") {
        paths.insert(
            one,
            operations(
                served,
                &[("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete")],
            ),
        );
    }
}

fn operations(served: &Served, verbs: &[(&str, &str)]) -> Value {
    let mut item = Map::new();
    for (method, verb) in verbs.iter().filter(|(_, verb)| served.allows(verb)) {
        let writes = matches!(*verb, "create" | "update" | "patch");
        let mut names = Vec::new();
        if writes {
            names.extend(["dryRun", "fieldManager", "fieldValidation"]);
        }
        if *verb == "patch" {
            names.push("force");
        }
        let parameters: Vec<Value> = names
            .iter()
            .map(|name| {
                let kind = if *name == "force" { "boolean" } else { "string" };
                json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
            })
            .collect();
        let action = match *verb {
            "create" => "post",
            "update" => "put",
            other => other,
        };
        let mut operation = json!({
            "operationId": format!("{verb}{}{}", served.version, served.kind), "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind(served),
        });
        if *verb == "patch" {
            let mut content = Map::new();
            for media in ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
            {
                content.insert(media.to_owned(), json!({}));
            }
            if served.custom.is_none() {
                content.insert("application/strategic-merge-patch+json".to_owned(), json!({}));
            }
            operation["requestBody"] = json!({"content": content});
        }
        item.insert((*method).to_owned(), operation);
    }
    Value::Object(item)
}

/// A document in the old form, for clients that ask for it first: kinds and their parameters, no fields.
fn version_two(snapshot: &Snapshot) -> Value {
    let mut paths = Map::new();
    for served in snapshot.all() {
        add_paths(served, &mut paths);
    }
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        for operation in item.values_mut().filter_map(Value::as_object_mut) {
            operation.remove("requestBody");
            for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
                parameter["type"] = parameter["schema"]["type"].clone();
                if let Some(parameter) = parameter.as_object_mut() {
                    parameter.remove("schema");
                }
            }
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": crate::paths::GIT_VERSION}, "paths": paths,
        "definitions": {},
    })
}
