//! `get` and `api-resources`.

use std::io::Write;
use std::time::Duration;

use kubeio::{Form, ListOptions, WatchEvent, WatchOptions};
use machinery::meta;
use serde_json::{Value, json};

use crate::error::Failures;
use crate::output::{Columns, View, custom_rows, print_objects, print_table};
use crate::resolve::{SHADOW, Type, types};
use crate::{Error, Format, Hub, Target};

/// Before a watch that the hub ended is begun again.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// How objects are chosen and printed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Only objects with these labels; empty for all.
    pub selector: String,
    /// How they are printed.
    pub format: Format,
    /// Whether changes are printed too, until somebody ends it.
    pub watch: bool,
}

/// Objects of one type: all, or those named.
struct Query {
    kind: Type,
    names: Vec<String>,
}

/// Prints templates (or the fleet's own objects).
///
/// # Errors
/// [`Error`] if a type is unknown; [`Error`] of the objects that are not there, after the others are printed.
pub async fn get(
    hub: &Hub,
    targets: &[Target],
    listing: &Listing,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    if let Some(name) = targets.iter().find_map(|target| target.name.as_ref())
        && !listing.selector.is_empty()
    {
        return Err(Error::Usage(format!(
            "{name:?} is named: --selector is for types alone"
        )));
    }
    let discovery = hub.discover().await?;
    let mut queries: Vec<Query> = Vec::new();
    for target in targets {
        for kind in types(&discovery, &target.kind)? {
            match queries.iter_mut().find(|query| query.kind == kind) {
                Some(query) => query.names.extend(target.name.clone()),
                None => queries.push(Query {
                    kind,
                    names: target.name.iter().cloned().collect(),
                }),
            }
        }
    }
    if listing.watch {
        return match &queries[..] {
            [query] if query.names.len() < 2 => watch(hub, query, listing, out).await,
            _ => Err(Error::Usage(
                "--watch is for one type, or for one object of it".into(),
            )),
        };
    }
    match listing.format {
        Format::Table | Format::Wide => tables(hub, &queries, listing, out).await,
        Format::Json | Format::Yaml | Format::Name | Format::JsonPath(_) | Format::Columns(_) => {
            objects(hub, &queries, listing, out).await
        }
    }
}

async fn objects(
    hub: &Hub,
    queries: &[Query],
    listing: &Listing,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut failures = Failures::default();
    let mut objects = Vec::new();
    for Query { kind, names } in queries {
        let resource = &kind.resource;
        let failed = || Error::hub(format!("{} cannot be read", resource.plural));
        if names.is_empty() {
            let options = ListOptions::labels(&listing.selector);
            let listed = hub
                .client
                .list_all(resource, hub.scope.listed(resource), &options)
                .await;
            failures.take(
                listed
                    .map_err(failed())
                    .map(|listed| objects.extend(listed.items)),
            )?;
        }
        for name in names {
            let object = hub.client.get(resource, hub.scope.of(resource, "")?, name).await;
            failures.take(object.map_err(failed()).map(|object| objects.push(object)))?;
        }
    }
    let alone = matches!(queries, [Query { names, .. }] if names.len() == 1);
    if !(alone && objects.is_empty()) {
        print_objects(out, &listing.format, objects, alone)?;
    }
    failures.end()
}

async fn tables(
    hub: &Hub,
    queries: &[Query],
    listing: &Listing,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut failures = Failures::default();
    let mut printed = false;
    for query in queries {
        let mut whole: Option<Value> = None;
        for answer in answers(hub, query, listing).await? {
            failures.take(answer.map(|table| append(&mut whole, table)))?;
        }
        let Some(table) = whole.filter(has_rows) else {
            continue;
        };
        if printed {
            writeln!(out)?;
        }
        let mut printer = Printer::new(hub, query, listing);
        if queries.len() > 1 {
            printer.view.prefix = format!("{}/", query.kind.title);
        }
        printer.table(&table, out)?;
        printed = true;
    }
    if !printed && failures.is_empty() {
        let namespace = queries
            .iter()
            .find_map(|query| hub.scope.listed(&query.kind.resource));
        match namespace {
            Some(name) => writeln!(
                out,
                "No resources found in namespace {name:?}: --all-namespaces looks in all"
            )?,
            None => writeln!(out, "No resources found")?,
        }
    }
    failures.end()
}

/// The tables that the hub answers a query with: one of all objects, or one for each name.
async fn answers(hub: &Hub, query: &Query, listing: &Listing) -> Result<Vec<Result<Value, Error>>, Error> {
    let resource = &query.kind.resource;
    let failed = || Error::hub(format!("{} cannot be read", resource.plural));
    let options = ListOptions::labels(&listing.selector);
    if query.names.is_empty() {
        let namespace = hub.scope.listed(resource);
        let table = hub.client.table(resource, namespace, None, &options).await;
        return Ok(vec![table.map(as_table).map_err(failed())]);
    }
    let namespace = hub.scope.of(resource, "")?;
    let mut tables = Vec::new();
    for name in &query.names {
        let table = hub.client.table(resource, namespace, Some(name), &options).await;
        tables.push(table.map(as_table).map_err(failed()));
    }
    Ok(tables)
}

fn has_rows(table: &Value) -> bool {
    table["rows"].as_array().is_some_and(|rows| !rows.is_empty())
}

/// Adds a table's rows to those before it.
fn append(whole: &mut Option<Value>, mut table: Value) {
    match whole.as_mut().and_then(|whole| whole["rows"].as_array_mut()) {
        Some(rows) => rows.append(
            &mut table["rows"]
                .as_array_mut()
                .map(std::mem::take)
                .unwrap_or_default(),
        ),
        None => *whole = Some(table),
    }
}

/// A server that knows no tables sends objects: names and ages are always there.
fn as_table(answer: Value) -> Value {
    if answer["kind"] == "Table" {
        return answer;
    }
    let metadata = answer["metadata"].clone();
    let items = match answer["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![answer],
    };
    let rows: Vec<Value> = items
        .iter()
        .map(|item| json!({"cells": [meta::name(item), meta::creation_timestamp(item)], "object": item}))
        .collect();
    json!({
        "columnDefinitions": [{"name": "Name"}, {"name": "Created At"}], "metadata": metadata, "rows": rows,
    })
}

/// Prints objects as they come.
struct Printer<'a> {
    format: &'a Format,
    view: View,
    columns: Columns,
    /// The places of a table's columns that are shown; those of the first table count.
    places: Option<Vec<usize>>,
}

impl<'a> Printer<'a> {
    fn new(hub: &Hub, query: &Query, listing: &'a Listing) -> Self {
        let resource = &query.kind.resource;
        let one = !query.names.is_empty();
        Self {
            format: &listing.format,
            view: View {
                wide: listing.format == Format::Wide,
                namespaces: resource.namespaced && !one && hub.scope.listed(resource).is_none(),
                prefix: String::new(),
            },
            columns: Columns::default(),
            places: None,
        }
    }

    fn table(&mut self, table: &Value, out: &mut (dyn Write + Send)) -> Result<(), Error> {
        let mut rows = Vec::new();
        let places = match &self.places {
            Some(places) => places,
            None => {
                let (places, header) = self.view.header(table);
                rows.push(header);
                self.places.insert(places)
            }
        };
        rows.extend(self.view.rows(table, places));
        self.columns.print(out, &rows)
    }

    fn object(&mut self, object: Value, out: &mut (dyn Write + Send)) -> Result<(), Error> {
        match self.format {
            Format::Table | Format::Wide => self.table(&as_table(object), out),
            Format::Columns(columns) => {
                let mut rows = Vec::new();
                if self.places.is_none() {
                    self.places = Some(Vec::new());
                    rows.push(columns.iter().map(|(header, _)| header.clone()).collect());
                }
                rows.extend(custom_rows(columns, &[object]));
                self.columns.print(out, &rows)
            }
            Format::Json | Format::Yaml | Format::Name | Format::JsonPath(_) => {
                if *self.format == Format::Yaml {
                    writeln!(out, "---")?;
                }
                print_objects(out, self.format, vec![object], true)
            }
        }
    }
}

/// Prints objects and then every change of them, until the output is closed or the hub goes.
async fn watch(
    hub: &Hub,
    query: &Query,
    listing: &Listing,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let resource = &query.kind.resource;
    let failed = || Error::hub(format!("{} cannot be watched", resource.plural));
    let name = query.names.first();
    let namespace = match name {
        Some(_) => hub.scope.of(resource, "")?,
        None => hub.scope.listed(resource),
    };
    if let Some(name) = name {
        let found = hub.client.get(resource, namespace, name).await;
        found.map_err(Error::hub(format!("{} cannot be read", resource.plural)))?;
    }
    let field_selector = name
        .map(|name| format!("metadata.name={name}"))
        .unwrap_or_default();
    let choice = ListOptions {
        field_selector: field_selector.clone(),
        ..ListOptions::labels(&listing.selector)
    };
    let mut printer = Printer::new(hub, query, listing);
    let (form, mut from) = match listing.format {
        Format::Table | Format::Wide => {
            let table = hub.client.table(resource, namespace, None, &choice).await;
            let table = as_table(table.map_err(failed())?);
            if has_rows(&table) {
                printer.table(&table, out)?;
            }
            (Form::Tables, meta::resource_version(&table).to_owned())
        }
        Format::Json | Format::Yaml | Format::Name | Format::JsonPath(_) | Format::Columns(_) => {
            let listed = hub.client.list_all(resource, namespace, &choice).await;
            let listed = listed.map_err(failed())?;
            for object in listed.items {
                printer.object(object, out)?;
            }
            (Form::Objects, listed.resource_version)
        }
    };
    loop {
        let options = WatchOptions {
            label_selector: listing.selector.clone(),
            field_selector: field_selector.clone(),
            resource_version: from.clone(),
            form,
            ..WatchOptions::default()
        };
        let mut changes = hub
            .client
            .watch(resource, namespace, &options)
            .await
            .map_err(failed())?;
        while let Some(event) = changes.next().await {
            let event = event.map_err(failed())?;
            event.resource_version().clone_into(&mut from);
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    printer.object(object, out)?;
                }
                WatchEvent::Bookmark(_) => {}
            }
        }
        tokio::time::sleep(WATCH_PAUSE).await;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_answers_become_one_table() {
        let table = |name: &str| {
            as_table(json!({"kind": "Deployment", "metadata": {"name": name, "creationTimestamp": "then"}}))
        };
        let mut whole = None;
        append(&mut whole, table("a"));
        append(&mut whole, table("b"));
        let whole = whole.expect("two were added");
        let cells: Vec<&Value> = whole["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| &row["cells"])
            .collect();
        assert_eq!(cells, [&json!(["a", "then"]), &json!(["b", "then"])]);
        assert!(has_rows(&whole));
        assert!(!has_rows(&as_table(json!({"items": []}))));
    }

    #[test]
    fn what_comes_later_stands_under_the_first_header() {
        let table = |columns: Value, name: &str| {
            json!({"kind": "Table", "columnDefinitions": columns,
                "rows": [{"cells": ["wide", name], "object": {"metadata": {}}}]})
        };
        let columns = json!([{"name": "Note", "priority": 1}, {"name": "Name"}]);
        let custom: Format = "custom-columns=NAME:.metadata.name".parse().expect("fine");
        let object = |name: &str| json!({"metadata": {"name": name}});
        for (format, events) in [
            // Servers name the columns in the first event alone.
            (&Format::Table, [table(columns, "a"), table(json!([]), "b")]),
            (&custom, [object("a"), object("b")]),
        ] {
            let mut printer = Printer {
                format,
                view: View::default(),
                columns: Columns::default(),
                places: None,
            };
            let mut out = Vec::new();
            for event in events {
                printer.object(event, &mut out).expect("memory takes it");
            }
            assert_eq!(String::from_utf8_lossy(&out), "NAME\na\nb\n", "{format:?}");
        }
    }
}
