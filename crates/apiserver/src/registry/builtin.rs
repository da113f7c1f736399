//! The built-in resources: what is known of them, and what only a server needs to know.

use std::sync::OnceLock;

use smol_str::SmolStr;

use super::{ScalePaths, SchemaRef, Served, Subresource, api_version};
use crate::strategy;

/// Resources of Kubernetes that are not served: a computed one that nothing here computes, and an older version whose
/// objects differ in more than their name.
const LEFT_OUT: &[(&str, &str, &str)] = &[("", "v1", "componentstatuses")];

/// The fields that field selectors know, by group and plural, besides name and namespace.
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.hostNetwork",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.nominatedNodeName",
            "status.phase",
            "status.podIP",
        ],
    ),
    (
        "",
        "events",
        &[
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("", "secrets", &["type"]),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("apps", "replicasets", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        &["spec.signerName"],
    ),
];

/// Every built-in resource.
pub(crate) fn all() -> Vec<Served> {
    machinery::builtin::resources()
        .iter()
        .filter(|resource| !LEFT_OUT.contains(&(resource.group, resource.version, resource.plural)))
        .map(served)
        .collect()
}

fn served(resource: &'static machinery::builtin::Resource) -> Served {
    let (group, version, plural, kind) = (resource.group, resource.version, resource.plural, resource.kind);
    // Events of both groups, and autoscalers of both versions, are the same objects, spoken in two ways.
    let (storage_group, storage_version) = match (group, plural) {
        ("events.k8s.io", _) => ("", "v1"),
        ("autoscaling", "horizontalpodautoscalers") => (group, "v2"),
        _ => (group, version),
    };
    let words = |words: &[&'static str]| words.iter().map(|word| SmolStr::new_static(word)).collect();
    Served {
        group: SmolStr::new_static(group),
        version: SmolStr::new_static(version),
        plural: SmolStr::new_static(plural),
        singular: SmolStr::new_static(resource.singular),
        kind: SmolStr::new_static(kind),
        list_kind: smol_str::format_smolstr!("{kind}List"),
        // One short name for both kinds of events would make kubectl warn each time.
        short_names: if group == "events.k8s.io" {
            Vec::new()
        } else {
            words(&resource.short_names)
        },
        categories: words(&resource.categories),
        namespaced: resource.namespaced,
        verbs: &resource.verbs,
        subresources: resource.subresources.iter().map(subresource).collect(),
        api_version: api_version(group, version),
        storage_version: api_version(storage_group, storage_version),
        storage: source::Resource::new(storage_group, plural),
        has_status: resource.subresource("status").is_some(),
        scale: resource.subresource("scale").map(|_| scale_paths()),
        schema: machinery::builtin::schema(&machinery::Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        })
        .map(SchemaRef::Static),
        selectable: SELECTABLE
            .iter()
            .find(|(of, name, _)| *of == storage_group && *name == plural)
            .map(|(_, _, fields)| fields.iter().map(|field| SmolStr::new_static(field)).collect())
            .unwrap_or_default(),
        strategy: strategy::of(storage_group, plural),
        custom: None,
        stated: OnceLock::new(),
    }
}

fn subresource(subresource: &'static machinery::builtin::Subresource) -> Subresource {
    Subresource {
        name: SmolStr::new_static(subresource.name),
        kind: SmolStr::new_static(subresource.kind),
        group_version: Some((
            SmolStr::new_static(subresource.group),
            SmolStr::new_static(subresource.version),
        )),
        verbs: &subresource.verbs,
    }
}

fn scale_paths() -> ScalePaths {
    let path = |text: &str| text.split('.').map(str::to_owned).collect();
    ScalePaths {
        replicas: path("spec.replicas"),
        status_replicas: path("status.replicas"),
        selector: Some(path("spec.selector")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_its_selectable_fields_are_sorted() {
        let all = all();
        assert!(all.len() > 50);
        for served in &all {
            assert!(served.selectable.is_sorted(), "{}", served.plural);
            assert!(served.kind.starts_with(|c: char| c.is_ascii_uppercase()));
        }
        for (group, plural, _) in SELECTABLE {
            assert!(
                all.iter()
                    .any(|served| served.group == *group && served.plural == *plural),
                "{plural}"
            );
        }
    }
}
