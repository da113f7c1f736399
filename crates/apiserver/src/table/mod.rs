//! `meta.k8s.io/v1 Table`: objects as the rows that kubectl prints.

use jiff::Timestamp;
use machinery::ApiError;
use serde_json::{Map, Value, json};

use crate::query::Query;
use crate::registry::Served;

/// What of each object comes along with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// From the `includeObject` parameter.
    pub(crate) fn from_query(query: &Query) -> Result<Self, ApiError> {
        match query.get("includeObject") {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(ApiError::bad_request(format!(
                "unrecognized includeObject value: \"{other}\""
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

/// Objects as a table.
pub(crate) fn table(
    served: &Served,
    items: impl IntoIterator<Item = Value>,
    metadata: Value,
    include: IncludeObject,
    now: Timestamp,
    with_columns: bool,
) -> Value {
    let layout = layout(served);
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
        layout.columns().iter().map(Column::to_value).collect()
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

struct Layout;

impl Layout {
    fn cells(&self, item: &Value, _: Timestamp) -> Vec<Value> {
        vec![
            item["metadata"]["name"].clone(),
            item["metadata"]["creationTimestamp"].clone(),
        ]
    }

    fn columns(&self) -> Vec<Column> {
        ["Name", "Created At"]
            .map(|name| Column {
                name: name.to_owned(),
                kind: "string".to_owned(),
                format: String::new(),
                description: String::new(),
                priority: 0,
            })
            .to_vec()
    }
}

fn layout(_: &Served) -> Layout {
    Layout
}
