//! `get` and `api-resources`.

use std::io::Write;

use http::{Request, header};
use kubeio::ListOptions;
use machinery::{ApiError, ApiResource, meta};
use serde_json::Value;

use crate::error::Failures;
use crate::output::{print_objects, print_server_table, print_table};
use crate::resolve::{SHADOW, by_word};
use crate::{Error, Format, Hub, Target};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Prints templates (or the fleet's own objects).
///
/// # Errors
/// [`Error`] if a type is unknown; [`Error`] of the objects that are not there, after the others are printed.
pub async fn get(
    hub: &Hub,
    targets: &[Target],
    namespace: Option<&str>,
    selector: &str,
    format: Format,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let resources: Vec<ApiResource> = targets
        .iter()
        .map(|target| by_word(&discovery, &target.kind))
        .collect::<Result<_, _>>()?;
    let tables = matches!(format, Format::Table | Format::Wide);
    let mut failures = Failures::default();
    let mut objects = Vec::new();
    for (target, resource) in targets.iter().zip(&resources) {
        let outcome = if tables {
            print_rows(hub, resource, target, namespace, selector, format, out).await
        } else {
            let found = fetch(hub, resource, target, namespace, selector).await;
            found.map(|found| objects.extend(found))
        };
        failures.take(outcome)?;
    }
    if !tables {
        let alone = targets.len() == 1 && targets[0].name.is_some();
        if !(alone && objects.is_empty()) {
            print_objects(out, format, objects, alone)?;
        }
    }
    failures.end()
}

async fn print_rows(
    hub: &Hub,
    resource: &ApiResource,
    target: &Target,
    namespace: Option<&str>,
    selector: &str,
    format: Format,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let table = table(hub, resource, target, namespace, selector).await?;
    if table["rows"].as_array().is_none_or(Vec::is_empty) {
        return Ok(writeln!(out, "No resources found")?);
    }
    let all = namespace.is_none() && resource.namespaced;
    print_server_table(out, &table, format == Format::Wide, all)
}

async fn fetch(
    hub: &Hub,
    resource: &ApiResource,
    target: &Target,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<Value>, Error> {
    let failed = Error::hub(format!("{} cannot be read", target.kind));
    let Some(name) = &target.name else {
        let options = ListOptions::labels(selector);
        let listed = hub.client.list_all(resource, namespace, &options).await;
        return Ok(listed.map_err(failed)?.items);
    };
    let namespace = resource.namespaced.then_some(namespace.unwrap_or("default"));
    let object = hub.client.get(resource, namespace, name).await.map_err(failed)?;
    Ok(vec![object])
}

async fn table(
    hub: &Hub,
    resource: &ApiResource,
    target: &Target,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Value, Error> {
    let namespace = match (&target.name, namespace) {
        (Some(_), None) => Some("default"),
        (_, namespace) => namespace,
    };
    let mut path = resource.path(namespace, target.name.as_deref());
    path.push_str("?includeObject=Metadata");
    if !selector.is_empty() {
        let encoded: String = selector
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        path.push_str("&labelSelector=");
        path.push_str(&encoded);
    }
    let doing = format!("{} cannot be read", target.kind);
    let request = Request::get(path)
        .header(header::ACCEPT, TABLE)
        .body(Vec::new())
        .map_err(|error| Error::Usage(format!("{doing}: {error}")))?;
    let response = hub
        .client
        .request(request)
        .await
        .map_err(Error::hub(doing.clone()))?;
    if !response.status().is_success() {
        let error = ApiError::from_body(response.status().as_u16(), response.body());
        return Err(Error::Hub {
            doing,
            source: kubeio::Error::Api(error),
        });
    }
    let answer: Value = serde_json::from_slice(response.body())
        .map_err(|error| Error::Missing(format!("{doing}: the answer is no JSON: {error}")))?;
    if answer["kind"] == "Table" {
        return Ok(answer);
    }
    // A server that knows no Table: names and ages are always there.
    let items = answer["items"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![answer]);
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            serde_json::json!({"cells": [meta::name(item), meta::creation_timestamp(item)], "object": item})
        })
        .collect();
    Ok(serde_json::json!({
        "columnDefinitions": [{"name": "Name"}, {"name": "Created At"}], "rows": rows,
    }))
}

/// Prints what templates the hub takes.
///
/// # Errors
/// [`Error`] if the hub does not answer.
pub async fn api_resources(hub: &Hub, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let rows: Vec<Vec<String>> = discovery
        .resources
        .iter()
        .filter(|found| found.resource.group == SHADOW)
        .map(|found| {
            vec![
                found.resource.plural.to_string(),
                found.short_names.join(","),
                found.resource.namespaced.to_string(),
                found.resource.kind.to_string(),
                found.verbs.join(","),
            ]
        })
        .collect();
    let header = ["NAME", "SHORTNAMES", "NAMESPACED", "KIND", "VERBS"].map(ToOwned::to_owned);
    print_table(out, &header, &rows)
}
