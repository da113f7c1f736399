//! Label and field selectors: which objects a list, a watch or a controller means.

mod field;
mod label;
mod label_parse;
#[cfg(test)]
mod tests;

pub use field::{FieldOp, FieldRequirement, FieldSelector};
pub use label::{LabelOp, LabelRequirement, LabelSelector};

/// Why a text or value is no selector. The texts are Kubernetes' own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text does not follow the grammar.
    #[error("{0}")]
    Syntax(String),
    /// A key, operator or value is not allowed.
    #[error("{0}")]
    Requirement(String),
}
