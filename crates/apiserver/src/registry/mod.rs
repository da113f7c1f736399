//! What the server serves: built-in resources and those of custom resource definitions.
//!
//! [`Served`] is one resource in one version. A [`Snapshot`] is all of them at one moment; the registry swaps
//! snapshots when definitions change, so that a request sees one state from its start to its end.

pub(crate) mod builtin;
pub(crate) mod custom;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, RwLock};

use machinery::Gvk;
use machinery::resource::join_api_version;
use machinery::schema::Schema;
use serde_json::Value;
use smol_str::SmolStr;
use source::Revision;

use crate::openapi::Documents;
use crate::strategy::Strategy;
use custom::CustomColumn;

/// A subresource as discovery lists it.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    /// Its name: `status`.
    pub(crate) name: SmolStr,
    /// The kind its bodies have.
    pub(crate) kind: SmolStr,
    /// That kind's group and version, where it differs from the resource's.
    pub(crate) group_version: Option<(SmolStr, SmolStr)>,
    /// What can be done with it.
    pub(crate) verbs: &'static [&'static str],
}

/// Where the scale subresource finds its numbers, as field names from the root.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    pub(crate) replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// A string or a label selector in the object, if there is one.
    pub(crate) selector: Option<Vec<String>>,
}

/// A schema: built in, or a definition's own.
#[derive(Debug, Clone)]
pub(crate) enum SchemaRef {
    /// For the whole life of the process.
    Static(&'static Schema),
    /// For the life of a definition.
    Shared(Arc<Schema>),
}

impl SchemaRef {
    pub(crate) fn get(&self) -> &Schema {
        match self {
            Self::Static(schema) => schema,
            Self::Shared(schema) => schema,
        }
    }
}

/// What only custom resources have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Custom {
    /// The extra columns of tables.
    pub(crate) columns: Vec<CustomColumn>,
    /// Why clients should leave this version, if they should.
    pub(crate) deprecation: Option<String>,
    /// The schema as its definition states it.
    pub(crate) openapi: Option<Value>,
    /// Whether its definition is being deleted: nothing new may come.
    pub(crate) terminating: bool,
}

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) plural: SmolStr,
    pub(crate) singular: SmolStr,
    pub(crate) kind: SmolStr,
    pub(crate) list_kind: SmolStr,
    pub(crate) short_names: Vec<SmolStr>,
    pub(crate) categories: Vec<SmolStr>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) subresources: Vec<Subresource>,
    /// `apiVersion` of this version.
    pub(crate) api_version: SmolStr,
    /// `apiVersion` in which new versions of objects are stored.
    pub(crate) storage_version: SmolStr,
    /// Where its objects are.
    pub(crate) storage: source::Resource,
    /// Whether status has its own subresource and the main one leaves it alone.
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) schema: Option<SchemaRef>,
    /// Fields that field selectors know, besides name and namespace; sorted.
    pub(crate) selectable: Vec<SmolStr>,
    pub(crate) strategy: &'static Strategy,
    /// `None` for built-in resources.
    pub(crate) custom: Option<Custom>,
    /// Changes with what OpenAPI documents say of it. Made when it is first asked for.
    pub(crate) stated: OnceLock<String>,
}

impl Served {
    /// Whether a verb is among those of the resource.
    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    /// Whether objects can be spoken in protobuf.
    pub(crate) fn has_protobuf(&self) -> bool {
        self.custom.is_none()
    }

    /// `deployments.apps`, as messages name it.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    fn sort_key(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

/// Everything served at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Sorted by group, version and plural.
    served: Vec<Arc<Served>>,
    /// OpenAPI documents about it.
    pub(crate) documents: Documents,
}

impl Snapshot {
    fn new(mut served: Vec<Arc<Served>>) -> Self {
        served.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        served.dedup_by(|a, b| a.sort_key() == b.sort_key());
        Self {
            served,
            documents: Documents::default(),
        }
    }

    /// One resource.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        let index = self
            .served
            .binary_search_by(|served| served.sort_key().cmp(&(group, version, plural)))
            .ok()?;
        Some(&self.served[index])
    }

    /// Every resource, by group, version and plural.
    pub(crate) fn all(&self) -> &[Arc<Served>] {
        &self.served
    }

    /// The resources of one group and version.
    pub(crate) fn of<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Served>> {
        self.served
            .iter()
            .filter(move |served| served.group == group && served.version == version)
    }

    /// The resource of a kind in some version, preferring the given one.
    pub(crate) fn of_kind(&self, gvk: &Gvk) -> Option<&Arc<Served>> {
        self.served.iter().find(|served| {
            served.kind == gvk.kind && served.group == gvk.group && served.version == gvk.version
        })
    }

    /// Whether a resource's definition is being deleted.
    pub(crate) fn is_terminating(&self, resource: &source::Resource) -> bool {
        self.served
            .iter()
            .filter(|served| served.storage == *resource)
            .any(|served| served.custom.as_ref().is_some_and(|custom| custom.terminating))
    }

    /// The groups (core, which is the empty string, first) with their versions, preferred first.
    pub(crate) fn groups(&self) -> BTreeMap<SmolStr, Vec<SmolStr>> {
        let mut groups: BTreeMap<SmolStr, Vec<SmolStr>> = BTreeMap::new();
        for served in &self.served {
            let versions = groups.entry(served.group.clone()).or_default();
            if !versions.contains(&served.version) {
                versions.push(served.version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        groups
    }
}

/// Kubernetes' order of versions: stable before beta before alpha, then by number, then by name.
pub(crate) fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (3, 0),
            tail => {
                let (stage, number) = if let Some(number) = tail.strip_prefix("beta") {
                    (2, number)
                } else {
                    (1, tail.strip_prefix("alpha")?)
                };
                (stage, number.parse().ok()?)
            }
        };
        Some((stage, major, minor))
    };
    let (stage, major, minor) = parse().unwrap_or((0, 0, 0));
    (stage, major, minor, std::cmp::Reverse(version.to_owned()))
}

/// What a definition serves, as of a revision.
type Defined = (Revision, Vec<Arc<Served>>);

/// The current snapshot, and the custom resources in it.
#[derive(Debug)]
pub(crate) struct Registry {
    builtin: Vec<Arc<Served>>,
    /// By definition: at which revision it was seen last, and what it serves (nothing, if it is gone).
    custom: RwLock<BTreeMap<String, Defined>>,
    current: RwLock<Arc<Snapshot>>,
}

impl Registry {
    /// The built-in resources alone.
    pub(crate) fn new() -> Self {
        let builtin: Vec<Arc<Served>> = builtin::all().into_iter().map(Arc::new).collect();
        let current = Arc::new(Snapshot::new(builtin.clone()));
        Self {
            builtin,
            custom: RwLock::default(),
            current: RwLock::new(current),
        }
    }

    /// What is served now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().expect("no holder panics").clone()
    }

    /// Sets what a definition serves as of a revision: nothing, if it is gone or not accepted. What is older than
    /// known already is left aside.
    pub(crate) fn set_custom(&self, definition: &str, revision: Revision, served: Vec<Served>) {
        let mut custom = self.custom.write().expect("no holder panics");
        if custom.get(definition).is_some_and(|(known, _)| *known > revision) {
            return;
        }
        let served = served.into_iter().map(Arc::new).collect();
        custom.insert(definition.to_owned(), (revision, served));
        let defined = custom.values().flat_map(|(_, served)| served);
        let all = self.builtin.iter().chain(defined).cloned().collect();
        *self.current.write().expect("no holder panics") = Arc::new(Snapshot::new(all));
    }
}

/// The `apiVersion` of a group and version.
pub(crate) fn api_version(group: &str, version: &str) -> SmolStr {
    SmolStr::new(join_api_version(group, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_versions_as_kubernetes_does() {
        let mut versions = ["v1alpha1", "v10", "v2beta1", "foo", "v1", "v2beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta2", "v2beta1", "v1alpha1", "foo"]
        );
    }

    #[test]
    fn finds_built_in_resources() {
        let snapshot = Registry::new().snapshot();
        assert_eq!(snapshot.find("", "v1", "pods").unwrap().kind, "Pod");
        assert_eq!(
            snapshot.find("apps", "v1", "deployments").unwrap().list_kind,
            "DeploymentList"
        );
        assert!(snapshot.find("apps", "v1beta1", "deployments").is_none());
        assert_eq!(snapshot.groups()[""], ["v1"]);
    }
}
