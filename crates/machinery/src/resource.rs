//! How kinds and resources are named.

use std::borrow::Cow;
use std::fmt;

/// A kind in one version of a group; the core group is the empty string.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// The group, empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl Gvk {
    /// From an object's `apiVersion` and `kind`. The group is what stands before the last slash.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// The `apiVersion` text: `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// The verbs of an ordinary resource, sorted.
pub const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Splits `apps/v1` into group and version; `v1` has the empty group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// Joins a group (empty for core) and a version.
pub fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// A resource as a client addresses it: enough to build its URLs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiResource {
    /// The group, empty for core.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// The plural, lower-case name of the URL.
    pub plural: Cow<'static, str>,
    /// The kind.
    pub kind: Cow<'static, str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl ApiResource {
    /// A namespaced resource known when this was written.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced: true,
        }
    }

    /// A cluster-scoped resource known when this was written.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        let mut resource = Self::namespaced(group, version, plural, kind);
        resource.namespaced = false;
        resource
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// The URL path of the collection (`namespace` is ignored for cluster-scoped resources), or of one object.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        if let Some(name) = name {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_paths_for_both_scopes() {
        let pods = ApiResource::namespaced("", "v1", "pods", "Pod");
        assert_eq!(pods.path(None, None), "/api/v1/pods");
        assert_eq!(pods.path(Some("a"), Some("b")), "/api/v1/namespaces/a/pods/b");
        let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
        assert_eq!(
            roles.path(Some("ignored"), Some("x")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/x"
        );
    }
}
