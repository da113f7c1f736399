//! Custom resource definitions: what they serve, and what their status says.

use serde_json::Value;

/// An extra column of a custom resource's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CustomColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) json_path: String,
}

/// What a definition serves.
pub(crate) fn served(_: &Value) -> Vec<super::Served> {
    Vec::new()
}
