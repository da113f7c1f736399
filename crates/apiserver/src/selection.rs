//! Which objects a list, a watch or a collective delete means: its selectors, over heads and keys alone.

use machinery::ApiError;
use machinery::selector::{FieldSelector, LabelSelector};
use source::Object;

use crate::options::ListOptions;
use crate::registry::Served;

/// A label and a field selector.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// What a list's options select.
    ///
    /// # Errors
    /// 400 for a field that is not selectable.
    pub(crate) fn new(served: &Served, options: &ListOptions) -> Result<Self, ApiError> {
        for requirement in options.fields.requirements() {
            let path = requirement.path.as_str();
            let known = path == "metadata.name"
                || (path == "metadata.namespace" && served.namespaced)
                || served.selectable.iter().any(|known| known == path);
            if !known {
                return Err(ApiError::bad_request(if served.selectable.is_empty() {
                    format!(
                        "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )
                } else {
                    format!("field label not supported: {path}")
                }));
            }
        }
        Ok(Self {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
        })
    }

    /// Selects exactly one name.
    pub(crate) fn name(name: &str) -> Self {
        Self {
            labels: LabelSelector::everything(),
            fields: FieldSelector::name(name),
        }
    }

    /// Whether it selects every object.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The one namespace that is selected, if there is only one.
    pub(crate) fn exact_namespace(&self) -> Option<&str> {
        self.fields.exact("metadata.namespace")
    }

    /// Whether it selects an object.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels.matches(|key| object.head.label(key))
            && self.fields.matches(|path| match path {
                "metadata.name" => Some(object.key.name.as_str()),
                "metadata.namespace" => Some(object.key.namespace.as_str()),
                other => object.head.field(other),
            })
    }
}
