//! What the controllers ask for.

use kubeio::ObjectKey;
use machinery::ApiResource;
use serde_json::Value;

use crate::world::PODS;

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes an object; one of that name being there already is fine.
    Create {
        /// Its resource.
        resource: &'static ApiResource,
        /// Its namespace, `None` for cluster-scoped objects.
        namespace: Option<String>,
        /// The object.
        object: Value,
    },
    /// A merge patch of the object, or of a subresource.
    Patch {
        /// Its resource.
        resource: &'static ApiResource,
        /// Its namespace, `None` for cluster-scoped objects.
        namespace: Option<String>,
        /// Its name.
        name: String,
        /// `status`, or the object itself.
        subresource: Option<&'static str>,
        /// The merge patch.
        patch: Value,
    },
    /// Gives a pod to a node.
    Bind {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The node's name.
        node: String,
    },
    /// Removes an object, if it still has this uid.
    Delete {
        /// Its resource.
        resource: &'static ApiResource,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// Whether it goes at once, without a grace period.
        at_once: bool,
    },
}

impl Action {
    /// The pod that it makes.
    pub(crate) fn made_pod(&self) -> Option<ObjectKey> {
        match self {
            Self::Create { resource, object, .. } if **resource == PODS => Some(ObjectKey::of(object)),
            Self::Create { .. } | Self::Patch { .. } | Self::Bind { .. } | Self::Delete { .. } => None,
        }
    }
}
