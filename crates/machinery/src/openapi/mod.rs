//! OpenAPI documents as a kube-apiserver publishes them, for built-in and custom resources.
//!
//! [`v3`] makes the document of one group version (`/openapi/v3/apis/GROUP/VERSION`), [`v3_shown`] that of one that shows
//! what others serve, [`v3_index`] the list of them
//! (`/openapi/v3`), [`v2`] the one document of everything (`/openapi/v2`). They hold what clients work with: paths
//! with their kinds and query parameters, and schemas with the merge rules; no descriptions of built-in fields. A
//! document is made anew at each call: keep it until a CustomResourceDefinition changes.

mod custom;
mod operations;
mod schemas;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::builtin;
use operations::Served;

/// A custom resource of one version, as its CustomResourceDefinition states it.
#[derive(Debug, Clone, Copy)]
pub struct CustomKind<'a> {
    /// The group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The name in URLs.
    pub plural: &'a str,
    /// The kind of its objects.
    pub kind: &'a str,
    /// The kind of its lists.
    pub list_kind: &'a str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The `openAPIV3Schema` as it was written.
    pub schema: Option<&'a Value>,
    /// Whether it has the subresource `status`.
    pub status: bool,
    /// Whether it has the subresource `scale`.
    pub scale: bool,
}

/// Which form of OpenAPI is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a schema.
    fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// The path of a group version's document and of its URLs: `api/v1`, `apis/apps/v1`.
#[must_use]
pub fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The answer to `/openapi/v3`: for each document its path (see [`path_of`]) and a hash that changes with it.
#[must_use]
pub fn v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let mut paths = Map::new();
    for (path, hash) in documents {
        paths.insert(
            path.to_owned(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
        );
    }
    json!({ "paths": paths })
}

/// The OpenAPI v3 document of a group version: its built-in resources, and those of the custom kinds given that are
/// of this group version.
#[must_use]
pub fn v3(group: &str, version: &str, custom: &[CustomKind<'_>]) -> Value {
    let is_wanted = |g: &str, v: &str| g == group && v == version;
    let custom = custom.iter().filter(|kind| is_wanted(kind.group, kind.version));
    let custom: Vec<CustomKind<'_>> = custom.copied().collect();
    let found = served(&custom, is_wanted);
    whole(document(&found, &custom, &[(group, version)], Dialect::V3))
}

/// The OpenAPI v3 document of a group version that shows resources of other groups: the paths are its own, the kinds
/// theirs. They have every verb, and of their subresources `scale`.
#[must_use]
pub fn v3_shown(
    group: &str,
    version: &str,
    builtin: &[&builtin::Resource],
    custom: &[CustomKind<'_>],
) -> Value {
    let builtin = builtin.iter().map(|found| Served::builtin(found));
    let found = builtin.chain(custom.iter().map(Served::custom));
    let found: Vec<Served> = found.map(|it| it.shown_at(group, version)).collect();
    whole(document(&found, custom, &[(group, version)], Dialect::V3))
}

/// A whole document of v3.
fn whole((paths, schemas): (Map<String, Value>, Map<String, Value>)) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.34"},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
        },
    })
}

/// The OpenAPI v2 document: all built-in resources, and the custom kinds given.
#[must_use]
pub fn v2(custom: &[CustomKind<'_>]) -> Value {
    let found = served(custom, |_, _| true);
    let mut versions: Vec<(&str, &str)> = builtin::group_versions();
    versions.extend(custom.iter().map(|kind| (kind.group, kind.version)));
    let (paths, definitions) = document(&found, custom, &versions, Dialect::V2);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.34"},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}},
        "security": [{"BearerToken": []}],
    })
}

/// The built-in resources of the group versions that are wanted, and the custom ones.
fn served(custom: &[CustomKind<'_>], wanted: impl Fn(&str, &str) -> bool) -> Vec<Served> {
    let builtin = builtin::resources()
        .iter()
        .filter(|found| wanted(found.group, found.version))
        .map(Served::builtin);
    builtin.chain(custom.iter().map(Served::custom)).collect()
}

/// Paths and the schemas that they need.
fn document(
    found: &[Served],
    custom: &[CustomKind<'_>],
    versions: &[(&str, &str)],
    dialect: Dialect,
) -> (Map<String, Value>, Map<String, Value>) {
    let mut paths = Map::new();
    for (group, version) in versions {
        let (path, item) = operations::group_version(group, version, dialect);
        paths.insert(path, item);
    }
    let mut schemas = schemas::Schemas::new(dialect);
    for resource in found {
        for name in resource.types() {
            schemas.add(name);
        }
        operations::paths(resource, dialect, &mut paths);
    }
    for name in operations::COMMON_TYPES {
        schemas.add(name);
    }
    let mut schemas = schemas.finish();
    for kind in custom {
        custom::schemas(kind, dialect, &mut schemas);
    }
    (paths, schemas)
}
