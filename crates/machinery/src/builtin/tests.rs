use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::Gvk;
use crate::schema::{Kind, Link, ListType, PatchStrategy, Schema};

fn of(api_version: &str, kind: &str) -> &'static Schema {
    schema(&Gvk::new(api_version, kind)).unwrap_or_else(|| panic!("{api_version} {kind}"))
}

#[test]
fn every_resource_has_its_types() {
    assert_eq!(resources().len(), 66);
    for found in resources() {
        assert_eq!(
            schema(&Gvk::new(&found.api_version(), found.kind)).map(|schema| schema.kind),
            Some(Kind::Object)
        );
        if found.verbs.contains(&"list") {
            of(&found.api_version(), &format!("{}List", found.kind));
        }
    }
    for kind in ["DeleteOptions", "WatchEvent"] {
        of("apps/v1", kind);
    }
    assert!(schema(&Gvk::new("apps/v1", "Pod")).is_none());
}

#[test]
fn every_type_can_be_built() {
    let library = Library::get();
    let mut seen = BTreeSet::new();
    for index in 0..library.len() {
        let name = library.full_name(index);
        assert_eq!(library.named(&name), Some(index), "{name}");
        let schema = schema_by_name(&name).unwrap();
        assert_eq!(schema.name, name);
        for (field, link) in &schema.properties {
            // every edge leads somewhere
            let node: &Schema = link;
            assert!(
                node.kind != Kind::Any || node.preserve_unknown || node.name.ends_with("Quantity"),
                "{name}.{field}"
            );
            if let Link::Named(..) = link {
                assert!(!node.name.is_empty(), "{name}.{field}");
            }
        }
        assert!(seen.insert(name));
    }
}

#[test]
fn facts_of_fields_are_kept() {
    let pod = of("v1", "Pod");
    let containers = pod.at(["spec", "containers"]).unwrap();
    assert_eq!(containers.list_type, Some(ListType::Map));
    assert_eq!(containers.list_map_keys, ["name"]);
    assert_eq!(
        (containers.patch_strategy, containers.patch_merge_key.as_deref()),
        (PatchStrategy::Merge, Some("name"))
    );
    let ports = containers.item().unwrap().property("ports").unwrap();
    assert_eq!(ports.list_map_keys, ["containerPort", "protocol"]);
    assert_eq!(
        ports
            .item()
            .unwrap()
            .property("protocol")
            .unwrap()
            .default
            .as_deref(),
        Some(&json!("TCP"))
    );
    assert!(pod.at(["spec", "nodeSelector"]).unwrap().atomic_map);
    let strategy = of("apps/v1", "Deployment").at(["spec", "strategy"]).unwrap();
    assert_eq!(strategy.patch_strategy, PatchStrategy::RetainKeys);
    assert_eq!(strategy.name, "io.k8s.api.apps.v1.DeploymentStrategy");
    assert!(
        of("apps/v1", "Deployment")
            .at(["spec", "selector"])
            .unwrap()
            .atomic_map
    );
    assert_eq!(
        of("v1", "Pod").at(["metadata", "finalizers"]).unwrap().list_type,
        Some(ListType::Set)
    );
    let usages = of("certificates.k8s.io/v1", "CertificateSigningRequest")
        .at(["spec", "usages"])
        .unwrap();
    let allowed = usages
        .item()
        .unwrap()
        .rules
        .as_ref()
        .unwrap()
        .allowed
        .as_ref()
        .unwrap();
    assert!(allowed.contains(&json!("digital signature")));
    let service = of("v1", "Service").at(["spec", "ports"]).unwrap().item().unwrap();
    assert_eq!(service.property("targetPort").unwrap().kind, Kind::IntOrString);
}

#[test]
fn real_objects_are_taken_as_go_takes_them() {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "creationTimestamp": null},
        "spec": {"replicas": 1, "strategy": {}, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}, "creationTimestamp": null},
            "spec": {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "http"}}, "wrong": 1}]}}},
        "status": {}, "else": true,
    });
    let schema = of("apps/v1", "Deployment");
    assert_eq!(schema.validate(&deployment), []);
    assert_eq!(
        schema.prune(&mut deployment),
        ["else", "spec.template.spec.containers[0].wrong"]
    );
    // a role without rules, an event without a time and a CRD with a free schema
    for (api_version, kind, object) in [
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            json!({"metadata": {"name": "a"}}),
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "a"}}),
        ),
        (
            "v1",
            "Event",
            json!({"involvedObject": {}, "eventTime": null, "count": 1}),
        ),
        (
            "v1",
            "ConfigMap",
            json!({"data": {"a": ""}, "binaryData": {"b": "AA=="}}),
        ),
        (
            "v1",
            "ServiceAccount",
            json!({"automountServiceAccountToken": null}),
        ),
        (
            "authentication.k8s.io/v1",
            "TokenRequest",
            json!({"spec": {"audiences": null}}),
        ),
        (
            "apps/v1",
            "ControllerRevision",
            json!({"data": {"spec": [1]}, "revision": 1}),
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"spec": {
            "group": "a", "scope": "Cluster", "names": {"kind": "A", "plural": "as"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "properties": {"spec": {"additionalProperties": true, "default": {"a": 1}}}}}}]}}),
        ),
    ] {
        let mut object = object.clone();
        assert_eq!(of(api_version, kind).validate(&object), [], "{kind}");
        assert_eq!(
            of(api_version, kind).prune(&mut object),
            [] as [&str; 0],
            "{kind}"
        );
    }
    let bad = json!({"spec": {"containers": [{"image": 1}]}});
    let causes: Vec<String> = of("v1", "Pod")
        .validate(&bad)
        .into_iter()
        .map(|cause| cause.field)
        .collect();
    assert_eq!(causes, ["spec.containers[0].image", "spec.containers[0].name"]);
}

#[test]
fn resources_say_what_can_be_done() {
    let pods = resource("", "v1", "pods").unwrap();
    assert_eq!((pods.kind, pods.singular, pods.namespaced), ("Pod", "pod", true));
    assert_eq!(
        (&pods.short_names[..], &pods.categories[..]),
        (&["po"][..], &["all"][..])
    );
    let eviction = pods.subresource("eviction").unwrap();
    assert_eq!(
        (
            eviction.group,
            eviction.version,
            eviction.kind,
            &eviction.verbs[..]
        ),
        ("policy", "v1", "Eviction", &["create"][..])
    );
    let namespaces = resource("", "v1", "namespaces").unwrap();
    assert_eq!(
        namespaces.verbs,
        ["create", "delete", "get", "list", "patch", "update", "watch"]
    );
    assert_eq!(
        group_versions()[..3],
        [("", "v1"), ("apiregistration.k8s.io", "v1"), ("apps", "v1")]
    );
    assert_eq!(
        resource_of_kind(&Gvk::new("apps/v1", "Deployment"))
            .unwrap()
            .plural,
        "deployments"
    );
}
