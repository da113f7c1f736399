//! `get` and `api-resources`.

use std::io::Write;

use http::{Request, header};
use kubeio::ListOptions;
use machinery::{ApiError, ApiResource, meta};
use serde_json::Value;

use crate::output::{print_objects, print_server_table, print_table};
use crate::resolve::{SHADOW, by_word};
use crate::{Error, Format, Hub, Target};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Prints templates (or the fleet's own objects).
///
/// # Errors
/// [`Error`] if a type is unknown or an object is not there.
pub async fn get(
    hub: &Hub,
    targets: &[Target],
    namespace: Option<&str>,
    selector: &str,
    format: Format,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let mut objects = Vec::new();
    for target in targets {
        let resource = by_word(&discovery, &target.kind)?;
        if matches!(format, Format::Table | Format::Wide) {
            let table = table(hub, &resource, target, namespace, selector).await?;
            let all = namespace.is_none() && resource.namespaced;
            if table["rows"].as_array().is_none_or(Vec::is_empty) {
                writeln!(out, "No resources found")?;
            } else {
                print_server_table(out, &table, format == Format::Wide, all)?;
            }
            continue;
        }
        let failed = Error::hub(format!("{} cannot be read", target.kind));
        match &target.name {
            Some(name) => {
                let namespace = resource.namespaced.then_some(namespace.unwrap_or("default"));
                objects.push(hub.client.get(&resource, namespace, name).await.map_err(failed)?);
            }
            None => {
                let options = ListOptions::labels(selector);
                objects.extend(
                    hub.client
                        .list_all(&resource, namespace, &options)
                        .await
                        .map_err(failed)?
                        .items,
                );
            }
        }
    }
    if matches!(format, Format::Table | Format::Wide) {
        return Ok(());
    }
    let alone = targets.len() == 1 && targets[0].name.is_some();
    print_objects(out, format, objects, alone)
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
