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

/// Takes the terms about a key out of a label selector's text: what is left, and whether there were any. A text
/// without such a term, or that is no selector, comes back as it was.
pub fn take_label(text: &str, key: &str) -> (String, bool) {
    match LabelSelector::parse(text).map(|selector| selector.without(key)) {
        Ok((rest, true)) => (rest.to_string(), true),
        Ok((_, false)) | Err(_) => (text.to_owned(), false),
    }
}
