//! How objects are printed.

use std::io::Write;

use machinery::meta;
use serde_json::{Value, json};

use crate::Error;

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// `TYPE/NAME` lines.
    Name,
}

/// Prints lines of cells, padded as kubectl does.
pub(crate) fn print_table(out: &mut dyn Write, header: &[String], rows: &[Vec<String>]) -> Result<(), Error> {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(header).chain(rows.iter().map(Vec::as_slice)) {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line.push_str(cell);
            if index + 1 < row.len() {
                line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 3));
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Prints a server's `Table`; with `namespaces` a first column names each object's namespace.
pub(crate) fn print_server_table(
    out: &mut dyn Write,
    table: &Value,
    wide: bool,
    namespaces: bool,
) -> Result<(), Error> {
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let shown: Vec<usize> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| wide || column["priority"].as_i64().unwrap_or(0) == 0)
        .map(|(index, _)| index)
        .collect();
    let mut header: Vec<String> = shown
        .iter()
        .map(|index| {
            columns[*index]["name"]
                .as_str()
                .unwrap_or_default()
                .to_uppercase()
        })
        .collect();
    if namespaces {
        header.insert(0, "NAMESPACE".into());
    }
    let rows: Vec<Vec<String>> = table["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| {
            let mut cells: Vec<String> = shown.iter().map(|index| cell(&row["cells"][*index])).collect();
            if namespaces {
                cells.insert(0, meta::namespace(&row["object"]).to_owned());
            }
            cells
        })
        .collect();
    print_table(out, &header, &rows)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".into(),
        Value::String(text) if text.is_empty() => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Prints objects in a machine's form; one object stands alone, several in a `List`.
pub(crate) fn print_objects(
    out: &mut dyn Write,
    format: Format,
    objects: Vec<Value>,
    alone: bool,
) -> Result<(), Error> {
    if format == Format::Name {
        for object in &objects {
            let kind = meta::kind(object).to_lowercase();
            let group = meta::gvk(object).group;
            let dot = if group.is_empty() { "" } else { "." };
            writeln!(out, "{kind}{dot}{group}/{}", meta::name(object))?;
        }
        return Ok(());
    }
    let mut objects = objects;
    let document = match (alone, objects.pop()) {
        (true, Some(object)) => object,
        (_, last) => {
            objects.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects})
        }
    };
    if format == Format::Yaml {
        write!(out, "{}", codec::yaml::to_string(&document))?;
    } else {
        writeln!(out, "{document:#}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_columns_and_hides_low_priorities() {
        let table = json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Image", "priority": 1}],
            "rows": [
                {"cells": ["web", "1/2", "nginx"], "object": {"metadata": {"namespace": "a"}}},
                {"cells": ["database", null, "pg"], "object": {"metadata": {"namespace": "b"}}},
            ],
        });
        let mut out = Vec::new();
        print_server_table(&mut out, &table, false, true).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(
            text,
            "NAMESPACE   NAME       READY\na           web        1/2\nb           database   <none>\n"
        );
    }
}
