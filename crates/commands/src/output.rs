//! How objects are printed.

use std::borrow::Cow;
use std::io::Write;
use std::str::FromStr;

use machinery::jsonpath::{JsonPath, Template, to_text};
use machinery::meta;
use serde_json::{Value, json};

use crate::Error;

/// `-o`.
#[derive(Debug, Clone, PartialEq, Default)]
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
    /// A template's text (`jsonpath=TEMPLATE`).
    JsonPath(Template),
    /// Columns of one's own, each with a header and a path (`custom-columns=NAME:PATH,…`).
    Columns(Vec<(String, JsonPath)>),
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem: String| Error::Usage(format!("{text:?}: {problem}"));
        let (word, argument) = match text.split_once('=') {
            Some((word, argument)) => (word, Some(argument)),
            None => (text, None),
        };
        match (word, argument) {
            ("table", None) => Ok(Self::Table),
            ("wide", None) => Ok(Self::Wide),
            ("json", None) => Ok(Self::Json),
            ("yaml", None) => Ok(Self::Yaml),
            ("name", None) => Ok(Self::Name),
            ("jsonpath", Some(template)) if !template.is_empty() => Template::parse(template)
                .map(Self::JsonPath)
                .map_err(|error| bad(error.to_string())),
            ("custom-columns", Some(columns)) if !columns.is_empty() => columns
                .split(',')
                .map(column)
                .collect::<Result<_, _>>()
                .map(Self::Columns)
                .map_err(bad),
            ("jsonpath", _) => Err(bad("write jsonpath=TEMPLATE, such as jsonpath={.spec.replicas}".into())),
            ("custom-columns", _) => Err(bad(
                "write custom-columns=HEADER:PATH,…, such as custom-columns=NAME:.metadata.name".into(),
            )),
            _ => Err(bad(
                "it is none of table, wide, json, yaml, name, jsonpath=TEMPLATE and custom-columns=HEADER:PATH,…".into(),
            )),
        }
    }
}

fn column(text: &str) -> Result<(String, JsonPath), String> {
    match text.split_once(':') {
        Some((header, path)) if !header.is_empty() && !path.is_empty() => match JsonPath::parse(path) {
            Ok(path) => Ok((header.to_owned(), path)),
            Err(error) => Err(format!("the path of the column {header:?}: {error}")),
        },
        _ => Err(format!("the column {text:?} is not HEADER:PATH")),
    }
}

/// A text of somebody's as it may stand in a line on a terminal: as kubectl does, up to its first line's end, and without
/// what would move the cursor, colour or hide what others say. Clusters write some of what is shown here.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !c.is_control() && !DIRECTIONS.contains(&c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let ends = |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}');
    let (line, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    let mut shown = String::with_capacity(text.len());
    for c in line.chars() {
        match c {
            '\u{1b}' => shown.push_str("^["),
            '\t' => shown.push(' '),
            c if is_plain(c) => shown.push(c),
            _ => shown.push(char::REPLACEMENT_CHARACTER),
        }
    }
    if !rest.is_empty() {
        shown.push_str("...");
    }
    Cow::Owned(shown)
}

/// What turns the direction of the text behind it.
const DIRECTIONS: [char; 9] = [
    '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}',
    '\u{2069}',
];

/// Lines of cells, padded as kubectl does; what is printed later keeps to the widths of what was printed before.
#[derive(Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    pub(crate) fn print(&mut self, out: &mut dyn Write, rows: &[Vec<String>]) -> Result<(), Error> {
        let rows: Vec<Vec<Cow<'_, str>>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| plain(cell)).collect())
            .collect();
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &rows {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
                line.push_str(cell);
                if index + 1 < row.len() {
                    line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 3));
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Prints a header and lines of cells.
pub(crate) fn print_table(out: &mut dyn Write, header: &[String], rows: &[Vec<String>]) -> Result<(), Error> {
    Columns::default().print(out, &[&[header.to_vec()], rows].concat())
}

/// How a server's tables are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// With the columns of low priority.
    pub(crate) wide: bool,
    /// With a first column that names each object's namespace.
    pub(crate) namespaces: bool,
    /// What stands before each name, such as `deployment.apps/`.
    pub(crate) prefix: String,
}

impl View {
    /// The places of the columns that are shown, and their headers.
    pub(crate) fn header(&self, table: &Value) -> (Vec<usize>, Vec<String>) {
        let columns = table["columnDefinitions"].as_array();
        let shown = columns
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(_, column)| self.wide || column["priority"].as_i64().unwrap_or(0) == 0);
        let (places, mut header): (Vec<usize>, Vec<String>) = shown
            .map(|(place, column)| (place, column["name"].as_str().unwrap_or_default().to_uppercase()))
            .unzip();
        if self.namespaces {
            header.insert(0, "NAMESPACE".into());
        }
        (places, header)
    }

    /// The cells of a table's rows at the places that are shown.
    pub(crate) fn rows(&self, table: &Value, places: &[usize]) -> Vec<Vec<String>> {
        let row = |row: &Value| {
            let mut cells: Vec<String> = places.iter().map(|place| cell(&row["cells"][*place])).collect();
            if let (Some(first), Some(0)) = (cells.first_mut(), places.first()) {
                first.insert_str(0, &self.prefix);
            }
            if self.namespaces {
                cells.insert(0, meta::namespace(&row["object"]).to_owned());
            }
            cells
        };
        table["rows"].as_array().into_iter().flatten().map(row).collect()
    }
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
    format: &Format,
    mut objects: Vec<Value>,
    alone: bool,
) -> Result<(), Error> {
    match format {
        Format::Name => {
            for object in &objects {
                let kind = meta::kind(object).to_lowercase();
                let group = meta::gvk(object).group;
                let dot = if group.is_empty() { "" } else { "." };
                writeln!(out, "{kind}{dot}{group}/{}", meta::name(object))?;
            }
            return Ok(());
        }
        Format::Columns(columns) => {
            let header: Vec<String> = columns.iter().map(|(header, _)| header.clone()).collect();
            return print_table(out, &header, &custom_rows(columns, &objects));
        }
        Format::Table | Format::Wide | Format::Json | Format::Yaml | Format::JsonPath(_) => {}
    }
    let document = match (alone, objects.pop()) {
        (true, Some(object)) => object,
        (_, last) => {
            objects.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects})
        }
    };
    match format {
        Format::Yaml => write!(out, "{}", codec::yaml::to_string(&document))?,
        Format::JsonPath(template) => {
            let text = template.render(&document);
            let text = text.map_err(|error| Error::Usage(format!("the template does not fit: {error}")))?;
            write!(out, "{text}")?;
        }
        Format::Table | Format::Wide | Format::Json | Format::Name | Format::Columns(_) => {
            writeln!(out, "{document:#}")?;
        }
    }
    Ok(out.flush()?)
}

/// The cells of columns of one's own.
pub(crate) fn custom_rows(columns: &[(String, JsonPath)], objects: &[Value]) -> Vec<Vec<String>> {
    let cell = |path: &JsonPath, object: &Value| match path.find(object).as_deref() {
        Ok([]) | Err(_) => "<none>".to_owned(),
        Ok(found) => found
            .iter()
            .map(|value| to_text(value))
            .collect::<Vec<_>>()
            .join(","),
    };
    objects
        .iter()
        .map(|object| columns.iter().map(|(_, path)| cell(path, object)).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clusters_say_stays_in_its_cell() {
        for (text, expected) in [
            ("v1.34.1", "v1.34.1"),
            ("größer", "größer"),
            ("a\tb", "a b"),
            ("v1\u{1b}[31mred\u{7}", "v1^[[31mred\u{fffd}"),
            ("v1\u{9b}2J", "v1\u{fffd}2J"),
            ("fine\r\nedge-2   True", "fine..."),
            ("a\u{202e}b", "a\u{fffd}b"),
            ("\n", "..."),
            ("", ""),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
            let mut out = Vec::new();
            let row = vec![text.to_owned(), "|".to_owned()];
            print_table(&mut out, &["A".to_owned(), "B".to_owned()], &[row]).expect("memory takes it");
            let printed = String::from_utf8(out).expect("text");
            assert_eq!(printed.lines().count(), 2, "{printed:?}");
            assert!(
                printed.lines().flat_map(str::chars).all(|c| !c.is_control()),
                "{printed:?}"
            );
        }
    }

    #[test]
    fn pads_columns_and_hides_low_priorities() {
        let table = json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Image", "priority": 1}],
            "rows": [
                {"cells": ["web", "1/2", "nginx"], "object": {"metadata": {"namespace": "a"}}},
                {"cells": ["database", null, "pg"], "object": {"metadata": {"namespace": "b"}}},
            ],
        });
        let view = View {
            namespaces: true,
            prefix: "deployment.apps/".into(),
            ..View::default()
        };
        let (places, header) = view.header(&table);
        let (mut out, mut columns) = (Vec::new(), Columns::default());
        let rows = [vec![header], view.rows(&table, &places)].concat();
        columns.print(&mut out, &rows).expect("memory takes it");
        let late = [["c".to_owned(), "deployment.apps/x".to_owned(), "0/1".to_owned()].to_vec()];
        columns.print(&mut out, &late).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(
            text,
            "NAMESPACE   NAME                       READY\n\
             a           deployment.apps/web        1/2\n\
             b           deployment.apps/database   <none>\n\
             c           deployment.apps/x          0/1\n"
        );
    }

    #[test]
    fn formats_are_read_and_bad_ones_say_what_to_write() {
        for (text, part) in [
            ("csv", "none of table, wide"),
            ("json=x", "none of table"),
            ("jsonpath", "jsonpath=TEMPLATE"),
            ("jsonpath=", "jsonpath=TEMPLATE"),
            ("jsonpath={.a", "unclosed"),
            ("custom-columns", "HEADER:PATH"),
            ("custom-columns=NAME", "\"NAME\" is not HEADER:PATH"),
            ("custom-columns=A:.a,B:", "\"B:\" is not HEADER:PATH"),
            ("custom-columns=A:.a[", "the path of the column \"A\""),
        ] {
            let error = text.parse::<Format>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn objects_are_printed_in_every_form() {
        let object = |name: &str, replicas: Value| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {"replicas": replicas, "ports": [1, 2]}})
        };
        let two = vec![object("a", json!(3)), object("b", Value::Null)];
        let print = |format: &str, objects: &[Value], alone: bool| {
            let mut out = Vec::new();
            let format: Format = format.parse().expect(format);
            print_objects(&mut out, &format, objects.to_vec(), alone).expect("memory takes it");
            String::from_utf8(out).expect("text")
        };
        for (format, expected) in [
            ("name", "deployment.apps/a\ndeployment.apps/b\n"),
            ("jsonpath={.items[*].metadata.name}", "a b"),
            (
                "jsonpath={range .items[*]}{.metadata.name}={.spec.replicas};{end}",
                "a=3;b=null;",
            ),
            (
                "custom-columns=NAME:.metadata.name,PORTS:spec.ports[*],NONE:.x.y",
                "NAME   PORTS   NONE\na      1,2     <none>\nb      1,2     <none>\n",
            ),
        ] {
            assert_eq!(print(format, &two, false), expected, "{format}");
        }
        assert_eq!(print("jsonpath={.spec.replicas}", &two[..1], true), "3");
        assert!(print("yaml", &two[..1], true).starts_with("apiVersion: apps/v1\n"));
        assert!(print("json", &[], false).contains("\"items\": []"));
    }
}
