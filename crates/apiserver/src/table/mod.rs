//! `meta.k8s.io/v1 Table`: objects as the rows that kubectl prints.

mod age;
mod cells;
mod columns;
mod custom;
mod pods;

use jiff::Timestamp;
use machinery::ApiError;
use serde_json::{Map, Value, json};

use crate::query::Query;
use crate::registry::Served;
use crate::registry::custom::CustomColumn;

/// What of each object comes along with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// From the `includeObject` parameter.
    ///
    /// # Errors
    /// 400 for a value that is not known.
    pub fn from_query(query: &Query) -> Result<Self, ApiError> {
        match query.get("includeObject") {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', \
                 'Object', 'None', or empty",
                Value::from(other)
            ))),
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0 for columns that are always shown.
    pub(crate) priority: i64,
}

impl Column {
    fn to_value(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }
}

/// What the objects of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Objects that live in this server: who looks after them writes their status.
    Objects,
    /// Templates: they have no status, and a cell that would be made of one says so.
    Templates,
}

/// Objects as a table.
pub(crate) fn table(
    served: &Served,
    items: impl IntoIterator<Item = Value>,
    metadata: Value,
    include: IncludeObject,
    now: Timestamp,
    with_columns: bool,
) -> Value {
    let layout = layout(served, Subject::Objects);
    rows(&layout, items, metadata, include, now, with_columns)
}

/// Templates as a table.
pub(crate) fn templates(
    served: &Served,
    items: impl IntoIterator<Item = Value>,
    metadata: Value,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let layout = layout(served, Subject::Templates);
    rows(&layout, items, metadata, include, now, true)
}

/// A `Scale` as a table: its columns are its own, whatever it scales.
pub(crate) fn scale(item: Value, metadata: Value, include: IncludeObject, now: Timestamp) -> Value {
    let layout = Layout {
        subject: Subject::Objects,
        columns: std::iter::once(name_column())
            .chain(columns::SCALE.iter().map(|text| built_in_column(text)))
            .collect(),
    };
    rows(&layout, [item], metadata, include, now, true)
}

fn rows(
    layout: &Layout,
    items: impl IntoIterator<Item = Value>,
    metadata: Value,
    include: IncludeObject,
    now: Timestamp,
    with_columns: bool,
) -> Value {
    let rows: Vec<Value> = items
        .into_iter()
        .map(|item| {
            let mut row = Map::new();
            row.insert("cells".to_owned(), Value::Array(layout.cells(&item, now)));
            match include {
                IncludeObject::None => {}
                IncludeObject::Metadata => {
                    let partial = json!({
                        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                        "metadata": item["metadata"],
                    });
                    row.insert("object".to_owned(), partial);
                }
                IncludeObject::Object => {
                    row.insert("object".to_owned(), item);
                }
            }
            Value::Object(row)
        })
        .collect();
    let columns: Vec<Value> = if with_columns {
        layout
            .columns
            .iter()
            .map(|(column, _)| column.to_value())
            .collect()
    } else {
        Vec::new()
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

/// A table that only says up to where a watch has seen everything.
pub(crate) fn bookmark(metadata: &Value) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "columnDefinitions": [],
        "rows": [{"cells": [], "object": {
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        }}],
    })
}

/// How a kind's rows are made.
struct Layout {
    subject: Subject,
    columns: Vec<(Column, Cell)>,
}

/// Where a cell comes from.
enum Cell {
    /// A field, with what is shown where it is absent.
    Path(Vec<String>, Option<Value>),
    Count(Vec<String>),
    Age(Vec<String>),
    Function(&'static str),
    /// A custom resource's column.
    Custom(CustomColumn),
}

impl Layout {
    fn cells(&self, item: &Value, now: Timestamp) -> Vec<Value> {
        self.columns
            .iter()
            .map(|(_, cell)| match self.subject {
                Subject::Objects => cell.value(item, now),
                Subject::Templates => cell.of_template(item, now),
            })
            .collect()
    }
}

impl Cell {
    fn parse(text: &'static str, integer: bool) -> Self {
        let path = |path: &str| {
            path.trim_start_matches('.')
                .split('.')
                .map(str::to_owned)
                .collect()
        };
        if let Some(name) = text.strip_prefix('!') {
            Self::Function(name)
        } else if let Some(place) = text.strip_prefix('#') {
            Self::Count(path(place))
        } else if let Some(place) = text.strip_prefix('@') {
            Self::Age(path(place))
        } else {
            let (place, absent) = match text.split_once('|') {
                Some((place, absent)) => (place, Some(absent)),
                None => (text, None),
            };
            let absent = absent.map(|absent| match (integer, absent) {
                (true, number) => number.parse::<i64>().map_or(Value::Null, Value::from),
                (false, word) => Value::from(word),
            });
            Self::Path(path(place), absent)
        }
    }

    fn value(&self, item: &Value, now: Timestamp) -> Value {
        match self {
            Self::Path(path, absent) => {
                let value = find(item, path);
                if value.is_null() || value == "" {
                    absent.clone().unwrap_or_else(|| Value::from(""))
                } else {
                    value.clone()
                }
            }
            Self::Count(path) => {
                let value = find(item, path);
                let count = value.as_array().map(Vec::len).or(value.as_object().map(Map::len));
                Value::from(count.unwrap_or(0))
            }
            Self::Age(path) => match find(item, path).as_str() {
                Some(time) => Value::from(age::since(time, now)),
                None => Value::from("<unknown>"),
            },
            Self::Function(name) => cells::cell(name, item, now),
            Self::Custom(column) => custom::cell(column, item, now),
        }
    }

    /// The same for a template.
    fn of_template(&self, item: &Value, now: Timestamp) -> Value {
        match self {
            Self::Path(path, _) | Self::Count(path) | Self::Age(path) if path[0] == "status" => {
                Value::from(cells::NO_STATUS)
            }
            Self::Function(name) => cells::of_template(name, item, now),
            Self::Path(..) | Self::Count(_) | Self::Age(_) | Self::Custom(_) => self.value(item, now),
        }
    }
}

fn find<'a>(item: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(item, |value, field| &value[field.as_str()])
}

fn name_column() -> (Column, Cell) {
    let column = Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name must be unique within a namespace.".to_owned(),
        priority: 0,
    };
    (
        column,
        Cell::Path(vec!["metadata".to_owned(), "name".to_owned()], None),
    )
}

fn built_in_column(text: &'static str) -> (Column, Cell) {
    let (head, cell) = text.split_once('=').unwrap_or((text, ""));
    let (head, priority) = match head.strip_suffix('*') {
        Some(head) => (head, 1),
        None => (head, 0),
    };
    let (name, kind) = head.split_once(':').unwrap_or((head, "string"));
    let column = Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: String::new(),
        priority,
    };
    (column, Cell::parse(cell, kind == "integer"))
}

fn layout(served: &Served, subject: Subject) -> Layout {
    if let Some(custom) = &served.custom {
        return Layout {
            subject,
            columns: custom::columns(custom),
        };
    }
    let columns = columns::COLUMNS
        .iter()
        .find(|(name, _)| *name == served.storage.as_str())
        .map_or(columns::PLAIN, |(_, columns)| columns);
    let events = served.storage.as_str() == "events";
    let name = (!events).then(name_column);
    Layout {
        subject,
        columns: name
            .into_iter()
            .chain(columns.iter().map(|text| built_in_column(text)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn check(group: &str, plural: &str, object: Value, want: &str) {
        check_as(Subject::Objects, group, plural, object, want);
    }

    fn check_as(subject: Subject, group: &str, plural: &str, object: Value, want: &str) {
        let snapshot = Registry::new().snapshot();
        let served = snapshot.find(group, "v1", plural).unwrap();
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let include = IncludeObject::None;
        let table = match subject {
            Subject::Objects => table(served, [object], json!({}), include, now, true),
            Subject::Templates => templates(served, [object], json!({}), include, now),
        };
        let cells: Vec<String> = table["rows"][0]["cells"]
            .as_array()
            .unwrap()
            .iter()
            .zip(table["columnDefinitions"].as_array().unwrap())
            .filter(|(_, column)| column["priority"] == 0)
            .map(|(cell, _)| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned))
            .collect();
        assert_eq!(cells.join(" | "), want);
    }

    #[test]
    fn prints_what_kubectl_users_know() {
        let meta = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
        check(
            "",
            "configmaps",
            json!({"metadata": meta, "data": {"a": "b"}}),
            "x | 1 | 5m",
        );
        check(
            "apps",
            "deployments",
            json!({"metadata": meta, "spec": {"replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 3}}),
            "x | 2/3 | 3 | 0 | 5m",
        );
        check(
            "",
            "services",
            json!({"metadata": meta, "spec": {"type": "NodePort", "clusterIP": "10.96.0.7",
                "ports": [{"port": 80, "nodePort": 30001, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
            "x | NodePort | 10.96.0.7 | <none> | 80:30001/TCP,53/UDP | 5m",
        );
        check(
            "",
            "nodes",
            json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {"node-role.kubernetes.io/worker": ""}},
                "spec": {"unschedulable": true},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}}),
            "n | Ready,SchedulingDisabled | worker | 5m | v1",
        );
        check(
            "rbac.authorization.k8s.io",
            "roles",
            json!({"metadata": meta}),
            "x | 2026-01-01T00:00:00Z",
        );
        check(
            "batch",
            "jobs",
            json!({"metadata": meta, "spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:04:00Z"}}),
            "x | Running | 1/2 | 60s | 5m",
        );
        check(
            "",
            "events",
            json!({"metadata": meta, "type": "Normal", "reason": "R", "message": "m", "lastTimestamp": "2026-01-01T00:04:30Z",
                "involvedObject": {"kind": "Pod", "name": "p"}}),
            "30s | Normal | R | pod/p | m",
        );
    }
    #[test]
    fn templates_say_what_is_asked_for_and_claim_no_status() {
        let meta = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let replicas = json!({"replicas": 3});
        for (group, plural, spec, want) in [
            (
                "apps",
                "deployments",
                replicas.clone(),
                "x | -/3 | <none> | <none> | 5m",
            ),
            ("apps", "statefulsets", replicas.clone(), "x | -/3 | 5m"),
            (
                "apps",
                "replicasets",
                replicas.clone(),
                "x | 3 | <none> | <none> | 5m",
            ),
            (
                "",
                "replicationcontrollers",
                replicas,
                "x | 3 | <none> | <none> | 5m",
            ),
            (
                "apps",
                "daemonsets",
                json!({}),
                "x | <none> | <none> | <none> | <none> | <none> | <none> | 5m",
            ),
            (
                "batch",
                "jobs",
                json!({"completions": 2}),
                "x | <none> | -/2 | <none> | 5m",
            ),
            (
                "batch",
                "cronjobs",
                json!({"schedule": "@daily"}),
                "x | @daily | <none> | False | <none> | <none> | 5m",
            ),
            (
                "",
                "pods",
                json!({"containers": [{}, {}]}),
                "x | -/2 | <none> | <none> | 5m",
            ),
            ("", "namespaces", json!({}), "x | <none> | 5m"),
            (
                "",
                "services",
                json!({"type": "LoadBalancer", "ports": [{"port": 80}]}),
                "x | LoadBalancer | <none> | <none> | 80/TCP | 5m",
            ),
            (
                "policy",
                "poddisruptionbudgets",
                json!({"minAvailable": 1}),
                "x | 1 | N/A | <none> | 5m",
            ),
            (
                "",
                "persistentvolumeclaims",
                json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}),
                "x | <none> |  | <none> | RWO | fast | <unset> | 5m",
            ),
        ] {
            let object = json!({"metadata": meta, "spec": spec});
            check_as(Subject::Templates, group, plural, object, want);
        }
        let data = json!({"metadata": meta, "data": {"a": "b"}});
        check_as(Subject::Templates, "", "configmaps", data, "x | 1 | 5m");
    }
}
